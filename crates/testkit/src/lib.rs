//! What the tests of several crates share: specs of trials, Arrow's batches and files, peers that
//! follow a script, a relay that can be cut, directories, and how a test waits. Unit tests of `venturi-base` see another
//! copy of that crate's types than this crate does, so they use only what has none of them.

pub mod arrow;
pub mod charrow;
mod directory;
pub mod http2;
mod net;
mod process;
mod spec;
pub mod tables;
mod text;
mod wait;

pub use directory::Directory;
pub use net::{closed_port, connect, linger, pair, request, run, Peer, Relay};
pub use process::{alone, resident};
pub use spec::{parse, refusal, roles, trial, with};
pub use text::{assert_contains, parse_json};
pub use wait::{until, watch};
