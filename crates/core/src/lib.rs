//! Venturi's core: everything between the start and the stop of the clock. A crate a floor, so that cargo
//! refuses a use that goes up; this one has the top floor, and all of them under one name.

pub mod archives;
pub mod ceiling;
#[cfg(target_os = "linux")]
pub mod link;
pub mod self_test;

pub use venturi_base::{
    codec, data, error, halt, http1, http2, meter, net, option_reader, os, secrets, spec,
};
pub use venturi_engine as engine;
pub use venturi_servers as server;
pub use venturi_targets as target;
