//! A ring in shared memory for the bodies of blocks: the server writes them into it one after the other, and
//! the client copies them out. Which part is filled and which is free the two tell each other over the socket;
//! neither believes a number before it is held against its own.

use std::os::fd::OwnedFd;

use super::flag;
use super::receive::Block;
use crate::codec::slab::Body;
use crate::error::{Error, Result};
use crate::os::shared::{Read, Written};

/// Bytes of a ring: fewer would be a system call every few microseconds, more would leave the caches.
pub const SMALLEST: u64 = 64 << 10;
pub const LARGEST: u64 = 64 << 20;
/// Where the client does not say.
pub const USUAL: u64 = 4 << 20;

/// Either end tells the other of a part of the ring: one is filled, and one copied out, while others wait.
const PARTS: usize = 4;

/// The server's end.
#[derive(Debug)]
pub struct Writer {
    memory: Written,
    /// Where the next byte goes.
    at: usize,
    /// Not yet free again.
    used: usize,
}

impl Writer {
    pub fn make(bytes: usize) -> std::io::Result<Self> {
        Ok(Self {
            memory: Written::make(bytes)?,
            at: 0,
            used: 0,
        })
    }

    /// For the client.
    pub fn for_reader(&self) -> std::io::Result<OwnedFd> {
        self.memory.for_reader()
    }

    /// Its memory goes back to the system, whatever the client still holds of it.
    pub fn take_back(&self) -> std::io::Result<()> {
        self.memory.take_back()
    }

    pub fn length(&self) -> usize {
        self.memory.length()
    }

    /// Bytes after which the client is told.
    pub fn part(&self) -> usize {
        self.length() / PARTS
    }

    pub fn room(&self) -> usize {
        self.length() - self.used
    }

    /// As many of them as there is room for. Gives how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room());
        let (first, second) = bytes[..count].split_at(count.min(self.length() - self.at));
        self.memory.write(self.at, first);
        self.memory.write(0, second);
        self.at = (self.at + count) % self.length();
        self.used += count;
        count
    }

    /// The client has so many more bytes copied out, as it says.
    pub fn free(&mut self, bytes: i64) -> Result<()> {
        let found = usize::try_from(bytes).ok();
        let Some(found) = found.filter(|found| (1..=self.used).contains(found)) else {
            return Err(Error::protocol(format!(
                "the client frees {bytes} bytes of a ring that has {} in use",
                self.used
            )));
        };
        self.used -= found;
        Ok(())
    }
}

/// The client's end.
#[derive(Debug)]
pub struct Reader {
    memory: Read,
    length: usize,
    /// Where the next byte comes from.
    at: usize,
    /// Copied out, which the server does not know yet.
    untold: usize,
    /// Copied out in all.
    copied: u64,
}

impl Reader {
    /// Of the memory that the server has made. `length`: as it says.
    pub fn of(file: &OwnedFd, length: u64) -> Result<Self> {
        let within = (SMALLEST..=LARGEST).contains(&length);
        let found = usize::try_from(length).ok().filter(|_| within);
        let Some(length) = found else {
            return Err(Error::protocol(format!(
                "the server's ring would have {length} bytes; possible are {SMALLEST} to {LARGEST}"
            )));
        };
        let memory = Read::of(file, length).map_err(|error| {
            Error::protocol(format!(
                "the server's ring of {length} bytes cannot be read: {error}"
            ))
        })?;
        Ok(Self {
            memory,
            length,
            at: 0,
            untold: 0,
            copied: 0,
        })
    }

    /// Copies bytes out that the server says are there; as many as the place has, and no more than the ring
    /// can hold.
    pub fn take(&mut self, into: &mut [u8]) -> Result<()> {
        let count = into.len();
        if count > self.length - self.untold {
            return Err(Error::protocol(format!(
                "the server says that {count} bytes lie in a ring of {}, of which it was told no more than {} are free",
                self.length, self.length - self.untold
            )));
        }
        let (first, second) = into.split_at_mut(count.min(self.length - self.at));
        self.memory.read(self.at, first);
        self.memory.read(0, second);
        self.at = (self.at + count) % self.length;
        self.untold += count;
        self.copied += count as u64;
        Ok(())
    }

    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Whether there is something to tell the server.
    pub fn owes(&self) -> bool {
        self.untold >= self.length / PARTS
    }

    /// What the server has to be told now is free: nothing while it is little.
    pub fn freed(&mut self) -> Option<usize> {
        self.owes().then(|| std::mem::take(&mut self.untold))
    }
}

/// The bodies of blocks on their way out of a ring: one at a time, each told in parts.
pub struct Bodies {
    memory: Reader,
    /// A block whose body has not come to its end.
    pending: Option<(Block, Body)>,
}

impl Bodies {
    pub fn new(memory: Reader) -> Self {
        let pending = None;
        Self { memory, pending }
    }

    pub fn is_half_way(&self) -> bool {
        self.pending.is_some()
    }

    pub fn begin(&mut self, block: Block, body: Body) {
        self.pending = Some((block, body));
    }

    /// In the middle of a block only its rest may follow, an answer, or an error.
    pub fn expect(&self, flag: i64) -> Result<()> {
        match (flag, &self.pending) {
            (flag::FILLED | flag::ANSWER | flag::ERROR, _) | (_, None) => Ok(()),
            (_, Some((_, body))) => Err(Error::protocol(format!(
                "a message with flag {flag} before the last {} bytes of a block",
                body.left()
            ))),
        }
    }

    /// So many more bytes of the body lie in the ring, as the server says. The block, where they are its last.
    pub fn take(&mut self, bytes: i64) -> Result<Option<Block>> {
        let Some((mut block, mut body)) = self.pending.take() else {
            return Err(Error::protocol(
                "the server fills its ring, and no block has begun",
            ));
        };
        let count = usize::try_from(bytes).ok();
        let Some(count) = count.filter(|count| (1..=body.left()).contains(count)) else {
            return Err(Error::protocol(format!(
                "the server says that {bytes} bytes of a block lie in its ring, of which {} are left",
                body.left()
            )));
        };
        self.memory.take(&mut body.rest()[..count])?;
        body.advance(count);
        if body.left() > 0 {
            self.begin(block, body);
            return Ok(None);
        }
        block.body = Some(body.finish());
        Ok(Some(block))
    }

    pub fn owes(&self) -> bool {
        self.memory.owes()
    }

    pub fn freed(&mut self) -> Option<usize> {
        self.memory.freed()
    }

    pub fn copied(&self) -> u64 {
        self.memory.copied()
    }
}
