//! Bytes on their way to a socket: small ones that are owned, large ones that are shared.

use std::collections::VecDeque;

use arrow_buffer::Buffer;

/// Bytes on their way out: owned small ones, or a shared piece of an Arrow buffer.
#[derive(Debug, Clone)]
pub enum Chunk {
    Buffer(Buffer),
    Small(Vec<u8>),
    /// A frame header, without an allocation.
    Header([u8; 9]),
}

impl Chunk {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Chunk::Buffer(buffer) => buffer.as_slice(),
            Chunk::Small(bytes) => bytes,
            Chunk::Header(bytes) => bytes,
        }
    }

    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the first `at` bytes off.
    pub fn split_to(&mut self, at: usize) -> Chunk {
        match self {
            Chunk::Buffer(buffer) => {
                let front = buffer.slice_with_length(0, at);
                *buffer = buffer.slice(at);
                Chunk::Buffer(front)
            }
            Chunk::Small(bytes) => {
                let rest = bytes.split_off(at);
                Chunk::Small(std::mem::replace(bytes, rest))
            }
            Chunk::Header(bytes) => {
                let front = bytes[..at].to_vec();
                *self = Chunk::Small(bytes[at..].to_vec());
                Chunk::Small(front)
            }
        }
    }
}

/// What one stream still has to send.
#[derive(Debug, Default)]
pub struct SendQueue {
    chunks: VecDeque<Chunk>,
    bytes: usize,
}

impl SendQueue {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, chunk: Chunk) {
        let length = chunk.len();
        if length > 0 {
            self.bytes += length;
            self.chunks.push_back(chunk);
        }
    }

    /// Takes the first chunk, or as much of it as fits into `limit` bytes.
    pub fn pop(&mut self, limit: usize) -> Option<Chunk> {
        let front = self.chunks.front_mut()?;
        let chunk = if front.len() <= limit {
            self.chunks.pop_front()?
        } else {
            front.split_to(limit)
        };
        self.bytes -= chunk.len();
        Some(chunk)
    }

    pub fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }
}
