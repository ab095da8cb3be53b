//! Venturi's core: everything between the start and the stop of the clock.

pub mod archives;
pub mod ceiling;
pub mod codec;
pub mod data;
pub mod engine;
pub mod error;
pub mod given;
pub mod halt;
pub mod http1;
pub mod http2;
pub mod meter;
pub mod net;
pub mod os;
pub mod server;
pub mod spec;
pub mod target;
