//! What every part of Venturi stands on: data, codecs, connections, meters, the trial's spec.

pub mod codec;
pub mod data;
pub mod error;
pub mod halt;
pub mod http1;
pub mod http2;
pub mod limit;
pub mod meter;
pub mod net;
pub mod option_reader;
pub mod os;
pub mod secrets;
pub mod spec;
