//! An Arrow IPC stream on its way to a pipe or a socket: bodies as the batches have them, whatever frames
//! or packs them on the way.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::chunk::Chunk;
use super::coding::{Coding, Packer};
use super::ipc::Encoded;
use crate::error::Result;

/// Pieces that one write takes: a batch of a few columns with its header.
pub const MOST_PIECES: usize = 64;

/// Bytes that are still to be written.
#[derive(Debug, Default)]
pub struct Queue {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// A message is a chunk of HTTP/1.1.
    chunked: bool,
    packer: Option<Packer>,
}

impl Queue {
    /// One that HTTP/1.1 carries: in chunks, where its length is not said before, and packed by a coding.
    pub fn http(chunked: bool, coding: Coding) -> Result<Self> {
        Ok(Self {
            chunked,
            packer: Packer::new(coding)?,
            ..Self::default()
        })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    fn put(&mut self, chunk: Chunk) {
        let length = chunk.len();
        if length > 0 {
            self.bytes += length;
            self.chunks.push_back(chunk);
        }
    }

    pub fn push(&mut self, message: Encoded) -> Result<()> {
        let mut prefix = u32::MAX.to_le_bytes().to_vec();
        prefix.extend((message.header.len() as u32).to_le_bytes());
        prefix.extend_from_slice(&message.header);
        if let Some(packer) = &mut self.packer {
            packer.add(&prefix)?;
            for piece in &message.body {
                packer.add(piece.as_slice())?;
            }
            // Whoever reads shall have the whole message, and not what fills a block.
            packer.flush()?;
            self.take_packed();
            return Ok(());
        }
        let length = prefix.len() + message.body_length;
        if self.chunked {
            self.put(Chunk::Small(
                [format!("{length:x}\r\n").as_bytes(), &prefix].concat(),
            ));
        } else {
            self.put(Chunk::Small(prefix));
        }
        for piece in message.body {
            self.put(piece);
        }
        if self.chunked {
            self.put(Chunk::Small(b"\r\n".to_vec()));
        }
        Ok(())
    }

    /// The end of the stream.
    pub fn end(&mut self) -> Result<()> {
        let mark = [u32::MAX.to_le_bytes(), [0; 4]].concat();
        match self.packer.take() {
            Some(mut packer) => {
                packer.add(&mark)?;
                packer.finish()?;
                self.packer = Some(packer);
                self.take_packed();
            }
            None => self.own(mark),
        }
        if self.chunked {
            self.put(Chunk::Small(b"0\r\n\r\n".to_vec()));
        }
        Ok(())
    }

    fn take_packed(&mut self) {
        let packed = self.packer.as_mut().map(Packer::take).unwrap_or_default();
        // A chunk of no bytes would be the last one.
        if !packed.is_empty() {
            self.own(packed);
        }
    }

    fn own(&mut self, bytes: Vec<u8>) {
        if !self.chunked {
            return self.put(Chunk::Small(bytes));
        }
        self.put(Chunk::Small(format!("{:x}\r\n", bytes.len()).into_bytes()));
        self.put(Chunk::Small(bytes));
        self.put(Chunk::Small(b"\r\n".to_vec()));
    }

    /// All that is to be written, as it would be.
    pub fn to_bytes(&self) -> Vec<u8> {
        let chunks = self.chunks.iter().flat_map(|chunk| chunk.as_slice());
        chunks.copied().collect()
    }

    /// What one write takes: so many of the slices were filled.
    pub fn pieces<'a>(&'a self, slices: &mut [IoSlice<'a>; MOST_PIECES]) -> usize {
        let chunks = self.chunks.iter().take(MOST_PIECES);
        let filled = chunks.zip(slices).map(|(chunk, slice)| {
            *slice = IoSlice::new(chunk.as_slice());
        });
        filled.count()
    }

    /// Takes off what was written.
    pub fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(front) = self.chunks.front_mut().filter(|_| written > 0) {
            let length = front.len();
            if length > written {
                front.split_to(written);
                return;
            }
            written -= length;
            self.chunks.pop_front();
        }
    }
}
