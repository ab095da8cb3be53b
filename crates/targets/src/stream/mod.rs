//! Rows through a pipe of the kernel: what `pipe://` and `exec://` share. This end is polled, the far
//! one blocks.

use venturi_base::error::{Error, Kind};

pub mod far;
mod incoming;
mod outgoing;
pub mod text;

pub use incoming::{Arrived, Incoming, Reader};
pub use outgoing::{Outgoing, Sent};

/// Bytes of a batch between ends of ours at most.
pub const MOST_BATCH: usize = 1 << 31;

/// An error of the pipe itself.
pub fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Kind::Lost, format!("{what}: {error}"))
}
