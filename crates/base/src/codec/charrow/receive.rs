//! What a client hears, put together from bytes as they come: the body of a block is read
//! straight into the memory that the decoded batch then refers to, or copied there from a ring.

use std::io::IoSliceMut;

use arrow_buffer::Buffer;
use xxhash_rust::xxh3::Xxh3;

use super::ring::{Bodies, Reader};
use super::{flag, LONGEST_ANSWER, LONGEST_HEADER, LONGEST_TEXT};
use crate::codec::ipc::encapsulated;
use crate::codec::slab::{Body, Pool};
use crate::error::{Error, Kind, Result};

/// Read beside a body: the next message's beginning, which then is copied once.
const READ_AHEAD: usize = 4096;

/// A message of the server.
#[derive(Debug)]
pub enum Event {
    /// An encapsulated IPC message.
    Schema(Vec<u8>),
    Block(Block),
    End,
    Error(String),
    Hello(String),
    Statistics(String),
    Answer(Vec<u8>),
}

/// A block as it came: an IPC message, header and body apart.
#[derive(Debug)]
pub struct Block {
    /// The length before the header, with the mark before that where there was one.
    prefix: [u8; 8],
    marked: bool,
    pub header: Vec<u8>,
    pub body: Option<Buffer>,
    checksum: Option<u64>,
}

impl Block {
    /// Bytes of the payload.
    pub fn length(&self) -> usize {
        let prefix = if self.marked { 8 } else { 4 };
        prefix + self.header.len() + self.body.as_ref().map_or(0, Buffer::len)
    }

    pub fn has_checksum(&self) -> bool {
        self.checksum.is_some()
    }

    /// Are these the bytes that were sent? Without a checksum nobody knows, and they are taken
    /// for right.
    pub fn check(&self) -> Result<()> {
        let Some(expected) = self.checksum else {
            return Ok(());
        };
        let mut hash = Xxh3::new();
        hash.update(if self.marked {
            &self.prefix
        } else {
            &self.prefix[4..]
        });
        hash.update(&self.header);
        if let Some(body) = &self.body {
            hash.update(body);
        }
        let found = hash.digest();
        if found == expected {
            return Ok(());
        }
        Err(Error::new(
            Kind::Verification,
            format!("a block of {} bytes has the checksum {found:016x}, its sender wrote {expected:016x}: it was changed on the way", self.length()),
        ))
    }
}

enum State {
    /// Between messages.
    Flag,
    /// Of a checked block.
    Checksum,
    Size {
        flag: i64,
        checksum: Option<u64>,
    },
    Text {
        flag: i64,
        length: usize,
        have: Vec<u8>,
    },
    /// A block's first four bytes; the next four.
    Mark(Waiting),
    Length(Waiting),
    Header {
        block: Block,
        length: usize,
        body: usize,
    },
    Body {
        block: Block,
        body: Body,
    },
    /// How much more of a body lies in the ring.
    Filled,
}

/// A block whose payload has begun.
struct Waiting {
    size: usize,
    checksum: Option<u64>,
}

/// Puts the messages of one connection together. After an error it is of no more use.
pub struct Receiver {
    state: State,
    buffer: Box<[u8]>,
    /// What of the buffer has come and is not used yet.
    start: usize,
    end: usize,
    largest: usize,
    pool: Pool,
    /// Where bodies come from, instead of the connection.
    ring: Option<Bodies>,
}

impl Receiver {
    /// Blocks of more than `largest` bytes are refused.
    pub fn new(largest: usize) -> Self {
        Self {
            state: State::Flag,
            buffer: vec![0; READ_AHEAD].into(),
            start: 0,
            end: 0,
            largest,
            pool: Pool::default(),
            ring: None,
        }
    }

    /// From now on bodies lie in this ring.
    pub fn attach(&mut self, ring: Reader) {
        self.ring = Some(Bodies::new(ring));
    }

    /// Bytes of the ring that are free by now, which the server has to be told.
    pub fn freed(&mut self) -> Option<usize> {
        self.ring.as_mut()?.freed()
    }

    /// Lets `read` put bytes where they belong: to be called when `next` has nothing.
    pub fn fill<T>(&mut self, read: impl FnOnce(&mut [IoSliceMut<'_>]) -> T) -> T {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let beside = IoSliceMut::new(&mut self.buffer[self.end..]);
        match &mut self.state {
            State::Body { body, .. } => read(&mut [IoSliceMut::new(body.rest()), beside]),
            _ => read(&mut [beside]),
        }
    }

    /// So many bytes were read.
    pub fn filled(&mut self, mut bytes: usize) {
        if let State::Body { body, .. } = &mut self.state {
            let here = bytes.min(body.left());
            body.advance(here);
            bytes -= here;
        }
        self.end += bytes;
        debug_assert!(self.end <= self.buffer.len());
    }

    /// A message has begun and is not here to its end.
    pub fn is_half_way(&self) -> bool {
        let pending = self.ring.as_ref().is_some_and(Bodies::is_half_way);
        !matches!(self.state, State::Flag) || self.start < self.end || pending
    }

    /// Bytes that have come through the ring.
    pub fn copied(&self) -> u64 {
        self.ring.as_ref().map_or(0, Bodies::copied)
    }

    fn four(&mut self) -> Option<[u8; 4]> {
        let bytes = *self.buffer[self.start..self.end].first_chunk::<4>()?;
        self.start += 4;
        Some(bytes)
    }

    fn number(&mut self) -> Option<i64> {
        let bytes = *self.buffer[self.start..self.end].first_chunk::<8>()?;
        self.start += 8;
        Some(i64::from_be_bytes(bytes))
    }

    /// Moves as much of what is here as `have` lacks to be so long.
    fn gather(&mut self, have: &mut Vec<u8>, length: usize) -> bool {
        let more = (length - have.len()).min(self.end - self.start);
        have.extend_from_slice(&self.buffer[self.start..self.start + more]);
        self.start += more;
        have.len() == length
    }

    /// The next message, where it is here to its end. Where bodies lie in a ring, it may stop
    /// before that end for the server to be told what is free: `freed` is asked after each call.
    #[allow(clippy::should_implement_trait)] // it may fail, and go on when there is more
    pub fn next(&mut self) -> Result<Option<Event>> {
        loop {
            match std::mem::replace(&mut self.state, State::Flag) {
                State::Flag => {
                    let Some(flag) = self.number() else {
                        return Ok(None);
                    };
                    if let Some(ring) = &self.ring {
                        ring.expect(flag)?;
                    }
                    self.state = match flag {
                        flag::FILLED if self.ring.is_some() => State::Filled,
                        flag::CHECKED_BLOCK => State::Checksum,
                        flag::ERROR..=flag::ANSWER if flag != 9 => State::Size {
                            flag,
                            checksum: None,
                        },
                        other => {
                            return Err(Error::protocol(format!(
                                "a message with flag {other}: not a server of the ClickHouse Arrow interface"
                            )))
                        }
                    };
                }
                State::Checksum => {
                    let Some(checksum) = self.number() else {
                        self.state = State::Checksum;
                        return Ok(None);
                    };
                    self.state = State::Size {
                        flag: flag::CHECKED_BLOCK,
                        checksum: Some(checksum as u64),
                    };
                }
                State::Size { flag, checksum } => {
                    let Some(size) = self.number() else {
                        self.state = State::Size { flag, checksum };
                        return Ok(None);
                    };
                    if (flag, size) == (flag::BLOCK, 0) {
                        return Ok(Some(Event::End));
                    }
                    self.state = self.sized(flag, checksum, size)?;
                }
                State::Text {
                    flag,
                    length,
                    mut have,
                } => {
                    if !self.gather(&mut have, length) {
                        self.state = State::Text { flag, length, have };
                        return Ok(None);
                    }
                    return Ok(Some(text_event(flag, have)));
                }
                State::Mark(waiting) => {
                    let Some(mark) = self.four() else {
                        self.state = State::Mark(waiting);
                        return Ok(None);
                    };
                    self.state = match mark {
                        [0xff, 0xff, 0xff, 0xff] => State::Length(waiting),
                        length => begun(waiting, false, length)?,
                    };
                }
                State::Length(waiting) => {
                    let Some(length) = self.four() else {
                        self.state = State::Length(waiting);
                        return Ok(None);
                    };
                    self.state = begun(waiting, true, length)?;
                }
                State::Header {
                    mut block,
                    length,
                    body,
                } => {
                    if !self.gather(&mut block.header, length) {
                        self.state = State::Header {
                            block,
                            length,
                            body,
                        };
                        return Ok(None);
                    }
                    if body == 0 {
                        return Ok(Some(Event::Block(block)));
                    }
                    let mut body = Body::new(&self.pool, body);
                    if let Some(ring) = &mut self.ring {
                        ring.begin(block, body);
                        continue;
                    }
                    let here = body.left().min(self.end - self.start);
                    body.rest()[..here]
                        .copy_from_slice(&self.buffer[self.start..self.start + here]);
                    body.advance(here);
                    self.start += here;
                    self.state = State::Body { block, body };
                }
                State::Body { mut block, body } => {
                    if body.left() > 0 {
                        self.state = State::Body { block, body };
                        return Ok(None);
                    }
                    block.body = Some(body.finish());
                    return Ok(Some(Event::Block(block)));
                }
                State::Filled => {
                    let Some(bytes) = self.number() else {
                        self.state = State::Filled;
                        return Ok(None);
                    };
                    if let Some(ring) = &mut self.ring {
                        let block = ring.take(bytes)?;
                        if block.is_some() || ring.owes() {
                            return Ok(block.map(Event::Block));
                        }
                    }
                }
            }
        }
    }

    fn sized(&self, flag: i64, checksum: Option<u64>, size: i64) -> Result<State> {
        let is_block = matches!(flag, flag::BLOCK | flag::CHECKED_BLOCK);
        let largest = match flag {
            _ if is_block => self.largest,
            flag::SCHEMA => LONGEST_HEADER,
            flag::ANSWER => LONGEST_ANSWER,
            _ => LONGEST_TEXT,
        };
        let Some(size) = usize::try_from(size).ok().filter(|size| *size <= largest) else {
            let kind = match size > 0 && is_block {
                true => Kind::Memory,
                false => Kind::Protocol,
            };
            let advice = match kind {
                Kind::Memory => ": raise max_block_bytes, or ask for smaller blocks",
                _ => "",
            };
            return Err(Error::new(
                kind,
                format!(
                    "a message (flag {flag}) of {size} bytes; possible are up to {largest}{advice}"
                ),
            ));
        };
        Ok(match is_block {
            true => State::Mark(Waiting { size, checksum }),
            false => State::Text {
                flag,
                length: size,
                have: Vec::with_capacity(size.min(READ_AHEAD)),
            },
        })
    }
}

/// A block's header is so long.
fn begun(waiting: Waiting, marked: bool, length: [u8; 4]) -> Result<State> {
    let size = waiting.size;
    let mut prefix = [0xff; 8];
    prefix[4..].copy_from_slice(&length);
    let length = u32::from_le_bytes(length) as usize;
    let rest = size
        .checked_sub(if marked { 8 } else { 4 })
        .and_then(|rest| rest.checked_sub(length));
    let Some(body) = rest.filter(|_| length > 0 && length <= LONGEST_HEADER) else {
        return Err(Error::protocol(format!(
            "a block of {size} bytes whose header would be {length} bytes long: not an Arrow IPC message"
        )));
    };
    Ok(State::Header {
        block: Block {
            prefix,
            marked,
            header: Vec::with_capacity(length.min(READ_AHEAD)),
            body: None,
            checksum: waiting.checksum,
        },
        length,
        body,
    })
}

/// The message inside of an encapsulated one without a body, behind which nothing follows.
pub fn ipc_header(bytes: &[u8]) -> Result<&[u8]> {
    let prefix = if bytes.starts_with(&[0xff; 4]) { 8 } else { 4 };
    encapsulated(bytes)
        .filter(|header| prefix + header.len() == bytes.len())
        .ok_or_else(|| {
            Error::protocol(
                "the server sent a schema that is no Arrow IPC message, or with bytes behind it",
            )
        })
}

fn text_event(flag: i64, bytes: Vec<u8>) -> Event {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match flag {
        flag::SCHEMA => Event::Schema(bytes),
        flag::HELLO => Event::Hello(text(bytes)),
        flag::STATISTICS => Event::Statistics(text(bytes)),
        flag::ANSWER => Event::Answer(bytes),
        _ => Event::Error(text(bytes)),
    }
}
