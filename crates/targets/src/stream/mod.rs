//! Rows through a pipe of the kernel: what `pipe://` and `exec://` share. This end is polled, the far
//! one blocks.

use std::io::IoSlice;

use venturi_base::codec::chunk::Chunk;
use venturi_base::codec::ipc::Encoded;
use venturi_base::error::{Error, Kind};

pub mod far;
mod incoming;
mod outgoing;
pub mod text;

pub use incoming::{Arrived, Incoming, Reader};
pub use outgoing::{Outgoing, Sent};

/// Bytes of a batch between ends of ours at most.
pub const MOST_BATCH: usize = 1 << 31;

/// Pieces that one write takes: a batch of a few columns with its header.
const MOST_PIECES: usize = 64;

/// An error of the pipe itself.
pub fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Kind::Lost, format!("{what}: {error}"))
}

/// Bytes of an Arrow IPC stream that are still to be written.
#[derive(Debug, Default)]
struct Queue(Vec<Chunk>);

impl Queue {
    fn push(&mut self, message: Encoded) {
        let mut prefix = u32::MAX.to_le_bytes().to_vec();
        prefix.extend((message.header.len() as u32).to_le_bytes());
        prefix.extend_from_slice(&message.header);
        self.0.push(Chunk::Small(prefix));
        self.0.extend(message.body);
    }

    /// The end of the stream.
    fn end(&mut self) {
        let mark = [u32::MAX.to_le_bytes(), [0; 4]].concat();
        self.0.push(Chunk::Small(mark));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn pieces(&self) -> Vec<IoSlice<'_>> {
        let chunks = self.0.iter().take(MOST_PIECES);
        chunks.map(|chunk| IoSlice::new(chunk.as_slice())).collect()
    }

    /// Takes off what was written.
    fn advance(&mut self, mut written: usize) {
        let whole = self.0.iter().take_while(|chunk| {
            let fits = chunk.len() <= written;
            written -= if fits { chunk.len() } else { 0 };
            fits
        });
        let whole = whole.count();
        self.0.drain(..whole);
        if written > 0 {
            self.0[0].split_to(written);
        }
    }
}
