//! Blocks through shared memory: the ring of a connection, and what all rings together may take.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use super::connection::{Connection, End};
use venturi_base::codec::charrow::handshake::RING;
use venturi_base::codec::charrow::messages::{filled, Wrapped};
use venturi_base::codec::charrow::ring::{Writer, LARGEST, SMALLEST};
use venturi_base::codec::chunk::Chunk;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::Stage;

/// The shared memory of all connections.
#[derive(Debug)]
pub struct Rings {
    most: u64,
    taken: Arc<AtomicU64>,
}

/// Of one connection.
#[derive(Debug)]
pub struct Ring {
    writer: Writer,
    bytes: u64,
    taken: Arc<AtomicU64>,
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Ring {
    /// Its memory goes back to the system, whatever the client holds on to.
    pub fn take_back(&self) {
        // What the kernel may refuse it for, a seal against writing or a descriptor that only reads, is not here.
        let _ = self.writer.take_back();
    }
}

impl Rings {
    pub fn new(most: u64) -> Self {
        let taken = Arc::default();
        Self { most, taken }
    }

    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// A ring of so many bytes. `None`: this server has none at all, and a client goes without.
    pub fn make(&self, bytes: u64) -> Result<Option<Ring>> {
        if self.most == 0 || cfg!(not(target_os = "linux")) {
            return Ok(None);
        }
        if !(SMALLEST..=LARGEST).contains(&bytes) {
            return Err(Error::usage(format!(
                "{RING}={bytes}: a ring has {SMALLEST} to {LARGEST} bytes"
            )));
        }
        let with = |taken: u64| {
            let sum = taken.checked_add(bytes);
            sum.filter(|sum| *sum <= self.most)
        };
        let (order, taken) = (Ordering::Relaxed, &self.taken);
        if let Err(taken) = taken.fetch_update(order, order, with) {
            return Err(Error::new(
                Kind::Memory,
                format!(
                    "rings of {taken} bytes are in use, and with {bytes} more they would be over {} \
                     (--ring-memory): ask for a smaller one, or for fewer partitions",
                    self.most
                ),
            ));
        }
        let made = Writer::make(bytes as usize).map_err(|error| {
            taken.fetch_sub(bytes, order);
            Error::new(
                Kind::Io,
                format!("shared memory of {bytes} bytes for a ring: {error}"),
            )
        })?;
        Ok(Some(Ring {
            writer: made,
            bytes,
            taken: self.taken.clone(),
        }))
    }
}

impl Connection {
    /// Greets a client that wants a ring of so many bytes, and hands it out where there is one.
    pub(super) fn greet_with_ring(
        &mut self,
        hello: &str,
        bytes: u64,
    ) -> std::result::Result<(), End> {
        if !self.wire.is_unix() {
            return Err(End::Refused(Error::usage(
                "shared memory goes over a Unix socket alone, and this connection is none",
            )));
        }
        let Some(ring) = self.state.rings.make(bytes)? else {
            return self.greet(hello);
        };
        let hello =
            venturi_base::codec::charrow::messages::hello(&format!("{hello}\n{RING}={bytes}"));
        let file = ring.writer.for_reader();
        // The connection is new, and its buffer empty: where it fails, nothing has been said.
        let sent = file.and_then(|file| self.wire.send_with(&hello, file.as_fd()));
        let sent =
            sent.map_err(|error| Error::new(Kind::Io, format!("passing the ring: {error}")))?;
        self.ring = Some(ring);
        self.say(hello[sent..].to_vec())
    }

    /// A block, its body through the ring: parts of it are told while the rest is still being copied.
    pub(super) fn send_by_ring(&mut self, block: &Wrapped) -> std::result::Result<(), End> {
        let mut pieces = block.pieces.iter().map(Chunk::as_slice);
        let mut said = pieces.next().unwrap_or_default().to_vec();
        let mut told = 0;
        for mut piece in pieces {
            while !piece.is_empty() {
                let Some(ring) = &mut self.ring else {
                    return Err(End::Gone);
                };
                let part = ring.writer.part();
                let count = ring.writer.write(&piece[..piece.len().min(part - told)]);
                told += count;
                piece = &piece[count..];
                if told == part || count == 0 {
                    self.tell(&mut said, &mut told)?;
                }
                if count == 0 {
                    self.await_room()?;
                }
            }
        }
        self.tell(&mut said, &mut told)
    }

    /// Says that so much more is filled, behind what else is to be said.
    fn tell(&mut self, said: &mut Vec<u8>, told: &mut usize) -> std::result::Result<(), End> {
        if *told > 0 {
            said.extend(filled(std::mem::take(told)));
        }
        match said.is_empty() {
            true => Ok(()),
            false => self.say(std::mem::take(said)),
        }
    }

    /// Until the client has copied something out. Who does not for too long is given up.
    fn await_room(&mut self) -> std::result::Result<(), End> {
        self.clock.mark(Stage::Send);
        let until = Instant::now() + self.state.stall;
        while self
            .ring
            .as_ref()
            .is_some_and(|ring| ring.writer.room() == 0)
        {
            if Instant::now() >= until {
                return Err(End::Gone);
            }
            self.wire.until_readable();
            self.look_up()?;
        }
        self.clock.mark(Stage::AwaitOutput);
        Ok(())
    }

    /// The client says that so much is free.
    pub(super) fn freed(&mut self, bytes: i64) -> std::result::Result<(), End> {
        let Some(ring) = &mut self.ring else {
            return Err(End::Refused(Error::protocol(
                "the client frees a part of a ring, and this connection has none",
            )));
        };
        Ok(ring.writer.free(bytes)?)
    }
}
