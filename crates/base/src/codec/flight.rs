//! gRPC messages and Flight's `FlightData` in them, without copying the Arrow body.
//!
//! A gRPC message is `compressed: u8, length: u32 be, bytes`. `FlightData` (Flight.proto)
//! is protobuf with four length-delimited fields: 1 descriptor, 2 data_header,
//! 3 app_metadata, 1000 data_body. Generated protobuf code would copy the body into and
//! out of the message; here the sender chains Arrow's buffers behind a small prefix, and
//! the receiver hands out the place where the body's bytes belong, so that the socket is
//! read straight into it.

use arrow_buffer::Buffer;

use super::budget::{Budget, Claim};
use super::chunk::{Chunk, SendQueue};
use super::slab::{Body, Pool};
use crate::error::{Error, Result};

/// Headers that a reference server understands; all others ignore them.
pub const TRIAL_HEADER: &str = "venturi-trial";
pub const VERIFY_HEADER: &str = "venturi-verify";
/// The server shall sample itself at this interval, in ns.
pub const SAMPLE_HEADER: &str = "venturi-sample";
/// How the rows of a table shall be sent; what is made on demand is asked for with its plan.
pub const COMPRESSION_HEADER: &str = "venturi-compression";

/// The parts of a `FlightData` but its body.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'a> {
    /// An encoded `FlightDescriptor`; one of type UNKNOWN is empty, and still has to be there.
    pub descriptor: Option<&'a [u8]>,
    /// The Arrow IPC message.
    pub header: &'a [u8],
    pub metadata: &'a [u8],
}

const TAG_BODY: [u8; 2] = [0xc2, 0x3e]; // 1000 << 3 | 2

/// Queues one `FlightData` as a gRPC message; the body's chunks are moved, not copied.
pub fn queue_flight_data(
    parts: Parts<'_>,
    body: impl Iterator<Item = Chunk>,
    body_length: usize,
    queue: &mut SendQueue,
) -> Result<()> {
    let descriptor_length = parts.descriptor.map_or(0, <[u8]>::len);
    let mut prefix =
        Vec::with_capacity(40 + descriptor_length + parts.header.len() + parts.metadata.len());
    prefix.extend_from_slice(&[0; 5]);
    let present = |field: &'_ [u8]| !field.is_empty();
    let fields = [
        (0x0a, parts.descriptor),
        (0x12, Some(parts.header).filter(|field| present(field))),
        (0x1a, Some(parts.metadata).filter(|field| present(field))),
    ];
    for (tag, field) in fields {
        if let Some(field) = field {
            prefix.push(tag);
            put_varint(field.len() as u64, &mut prefix);
            prefix.extend_from_slice(field);
        }
    }
    if body_length > 0 {
        prefix.extend_from_slice(&TAG_BODY);
        put_varint(body_length as u64, &mut prefix);
    }
    let length = u32::try_from(prefix.len() - 5 + body_length).map_err(|_| {
        Error::usage(format!(
            "one batch has {body_length} bytes, more than a gRPC message can carry (4 GiB): use fewer rows per batch"
        ))
    })?;
    prefix[1..5].copy_from_slice(&length.to_be_bytes());
    queue.push(Chunk::Small(prefix));
    for chunk in body {
        queue.push(chunk);
    }
    Ok(())
}

/// Queues any other message, already encoded.
pub fn queue_message(message: &[u8], queue: &mut SendQueue) {
    let mut bytes = Vec::with_capacity(5 + message.len());
    bytes.push(0);
    bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
    bytes.extend_from_slice(message);
    queue.push(Chunk::Small(bytes));
}

pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 128 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// One received message.
#[derive(Debug)]
pub enum Message {
    Flight(FlightMessage),
    /// Any other message: its protobuf bytes.
    Other(Vec<u8>),
}

#[derive(Debug, Default)]
pub struct FlightMessage {
    /// The encoded `FlightDescriptor`.
    pub descriptor: Vec<u8>,
    pub header: Vec<u8>,
    pub metadata: Vec<u8>,
    pub body: Option<Buffer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Flight,
    Other,
}

/// Puts messages together from the bytes of DATA frames, however these are cut.
#[derive(Debug)]
pub struct Assembler {
    expect: Expect,
    /// The largest message taken, in bytes.
    limit: usize,
    pool: Pool,
    budget: Option<Budget>,
    /// The current message's part of it.
    claim: Option<Claim>,
    state: State,
    /// Bytes of the current message not yet seen.
    left: usize,
    scratch: Vec<u8>,
    message: FlightMessage,
}

#[derive(Debug)]
enum State {
    /// Collecting the 5-byte prefix.
    Prefix,
    /// Collecting a whole message of another kind.
    Other,
    /// Collecting a field's tag and length.
    Tag,
    /// Collecting a small field.
    Field {
        number: u64,
        missing: usize,
    },
    Body(Body),
    Skip {
        missing: usize,
    },
}

/// No small field of a FlightData is larger than this: an IPC header or a descriptor.
const FIELD_LIMIT: usize = 16 << 20;

impl Assembler {
    pub fn new(expect: Expect, limit: usize, pool: Pool) -> Self {
        Self {
            expect,
            limit,
            pool,
            budget: None,
            claim: None,
            state: State::Prefix,
            left: 0,
            scratch: Vec::new(),
            message: FlightMessage::default(),
        }
    }

    /// Counts the messages, while they come in, against a bound shared with others.
    pub fn within(mut self, budget: Option<Budget>) -> Self {
        self.budget = budget;
        self
    }

    /// True between messages: a stream may end here.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Prefix) && self.scratch.is_empty()
    }

    /// Where the next bytes belong, if they belong to a body.
    pub fn direct(&mut self) -> Option<&mut [u8]> {
        match &mut self.state {
            State::Body(body) => Some(body.rest()),
            _ => None,
        }
    }

    /// Bytes of the whole body that `direct` is a part of; 0 outside of one.
    pub fn body_length(&self) -> usize {
        match &self.state {
            State::Body(body) => body.length(),
            _ => 0,
        }
    }

    /// `count` bytes were put where `direct` said. The message, if they completed it.
    ///
    /// # Panics
    /// Where that is more than there was room for.
    pub fn advance(&mut self, count: usize) -> Option<Message> {
        if let State::Body(body) = &mut self.state {
            body.advance(count);
            self.left -= count;
            if body.left() == 0 {
                if let State::Body(body) = std::mem::replace(&mut self.state, State::Tag) {
                    self.message.body = Some(body.finish());
                }
                return self.completed();
            }
        }
        None
    }

    /// Takes bytes until a message is complete: how many were taken, and the message.
    pub fn push(&mut self, input: &[u8]) -> Result<(usize, Option<Message>)> {
        let mut taken = 0;
        while taken < input.len() {
            let rest = &input[taken..];
            let mut message = None;
            let count = match &mut self.state {
                State::Prefix => {
                    let count = rest.len().min(5 - self.scratch.len());
                    self.scratch.extend_from_slice(&rest[..count]);
                    if self.scratch.len() == 5 {
                        message = self.begin()?;
                    }
                    count
                }
                State::Other => {
                    let count = rest.len().min(self.left);
                    self.scratch.extend_from_slice(&rest[..count]);
                    self.left -= count;
                    message = self.completed();
                    count
                }
                State::Tag => {
                    self.scratch.push(rest[0]);
                    self.left -= 1;
                    message = self.tag()?;
                    1
                }
                State::Field { number, missing } => {
                    let count = rest.len().min(*missing);
                    let field = match number {
                        1 => &mut self.message.descriptor,
                        2 => &mut self.message.header,
                        _ => &mut self.message.metadata,
                    };
                    field.extend_from_slice(&rest[..count]);
                    *missing -= count;
                    self.left -= count;
                    if *missing == 0 {
                        self.state = State::Tag;
                        message = self.completed();
                    }
                    count
                }
                State::Body(body) => {
                    let place = body.rest();
                    let count = rest.len().min(place.len());
                    place[..count].copy_from_slice(&rest[..count]);
                    message = self.advance(count);
                    count
                }
                State::Skip { missing } => {
                    let count = rest.len().min(*missing);
                    *missing -= count;
                    self.left -= count;
                    if *missing == 0 {
                        self.state = State::Tag;
                        message = self.completed();
                    }
                    count
                }
            };
            taken += count;
            if message.is_some() {
                return Ok((taken, message));
            }
        }
        Ok((taken, None))
    }

    fn begin(&mut self) -> Result<Option<Message>> {
        if self.scratch[0] != 0 {
            return Err(Error::protocol(
                "the peer compresses gRPC messages, which this side did not offer",
            ));
        }
        let length = u32::from_be_bytes([
            self.scratch[1],
            self.scratch[2],
            self.scratch[3],
            self.scratch[4],
        ]) as usize;
        if length > self.limit {
            return Err(Error::protocol(format!(
                "a message of {length} bytes is over the limit of {}: raise max_message_size or use fewer rows per batch",
                self.limit
            )));
        }
        if let Some(budget) = &self.budget {
            self.claim = budget.claim(length)?;
        }
        self.scratch.clear();
        self.left = length;
        self.state = match self.expect {
            Expect::Flight => State::Tag,
            Expect::Other => State::Other,
        };
        Ok(self.completed())
    }

    /// Called at a field's end: the message, if nothing of it is left.
    fn completed(&mut self) -> Option<Message> {
        if self.left > 0 {
            return None;
        }
        self.state = State::Prefix;
        self.claim = None;
        Some(match self.expect {
            Expect::Flight => Message::Flight(std::mem::take(&mut self.message)),
            Expect::Other => Message::Other(std::mem::take(&mut self.scratch)),
        })
    }

    /// A byte of a tag or length has been added to `scratch`; acts when both are whole.
    fn tag(&mut self) -> Result<Option<Message>> {
        let broken =
            || Error::protocol("not a FlightData message: its protobuf fields do not add up");
        let whole = |bytes: &[u8]| {
            bytes
                .iter()
                .position(|byte| byte & 0x80 == 0)
                .map(|at| at + 1)
        };
        let Some(tag_length) = whole(&self.scratch) else {
            return if self.scratch.len() > 10 || self.left == 0 {
                Err(broken())
            } else {
                Ok(None)
            };
        };
        let tag = read_varint(&self.scratch[..tag_length]);
        let missing = match tag & 7 {
            1 => 8,
            5 => 4,
            wire @ (0 | 2) => {
                let Some(length) = whole(&self.scratch[tag_length..]) else {
                    let too_long = self.scratch.len() - tag_length > 10;
                    return if too_long || self.left == 0 {
                        Err(broken())
                    } else {
                        Ok(None)
                    };
                };
                if wire == 0 {
                    0
                } else {
                    let value = read_varint(&self.scratch[tag_length..tag_length + length]);
                    usize::try_from(value).map_err(|_| broken())?
                }
            }
            _ => return Err(broken()),
        };
        if missing > self.left {
            return Err(broken());
        }
        self.scratch.clear();
        self.state = match (tag >> 3, tag & 7) {
            _ if missing == 0 => State::Tag,
            (number @ 1..=3, 2) => {
                if missing > FIELD_LIMIT {
                    return Err(broken());
                }
                let field = match number {
                    1 => &mut self.message.descriptor,
                    2 => &mut self.message.header,
                    _ => &mut self.message.metadata,
                };
                // Of a field that comes twice the last one counts.
                field.clear();
                field.reserve(missing);
                State::Field { number, missing }
            }
            (1000, 2) => State::Body(Body::new(&self.pool, missing)),
            _ => State::Skip { missing },
        };
        Ok(if missing == 0 { self.completed() } else { None })
    }
}

fn read_varint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .take(10)
        .enumerate()
        .fold(0, |value, (k, byte)| {
            value | u64::from(byte & 0x7f).wrapping_shl(7 * k as u32)
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drain(queue: &mut SendQueue) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(chunk) = queue.pop(7) {
            bytes.extend_from_slice(chunk.as_slice());
        }
        assert_eq!(queue.bytes(), 0);
        bytes
    }

    fn assemble(assembler: &mut Assembler, mut bytes: &[u8], cut: usize) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        while !bytes.is_empty() {
            let piece = &bytes[..cut.min(bytes.len())];
            // Every other piece goes the direct way where it can.
            if let Some(place) = assembler.direct().filter(|_| bytes.len().is_multiple_of(2)) {
                let count = piece.len().min(place.len());
                place[..count].copy_from_slice(&piece[..count]);
                messages.extend(assembler.advance(count));
                bytes = &bytes[count..];
                continue;
            }
            let (taken, message) = assembler.push(piece)?;
            messages.extend(message);
            bytes = &bytes[taken..];
        }
        Ok(messages)
    }

    proptest! {
        #[test]
        fn flight_data_survives_any_cutting(
            messages in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..300),
                 prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..3000)), 1..5),
            cut in 1usize..700,
        ) {
            let mut queue = SendQueue::default();
            for (descriptor, header, metadata, body) in &messages {
                let parts = Parts { descriptor: Some(descriptor), header, metadata };
                let chunk = Chunk::Buffer(Buffer::from(body.clone()));
                queue_flight_data(parts, [chunk].into_iter(), body.len(), &mut queue).unwrap();
            }
            let bytes = drain(&mut queue);
            let mut assembler = Assembler::new(Expect::Flight, 1 << 20, Pool::default());
            let received = assemble(&mut assembler, &bytes, cut).unwrap();
            prop_assert!(assembler.is_idle());
            prop_assert_eq!(received.len(), messages.len());
            for (message, (descriptor, header, metadata, body)) in received.into_iter().zip(&messages) {
                let Message::Flight(message) = message else { panic!() };
                prop_assert_eq!(&message.descriptor, descriptor);
                prop_assert_eq!(&message.header, header);
                prop_assert_eq!(&message.metadata, metadata);
                let received = message.body.as_ref().map_or(&[][..], |b| b.as_slice());
                prop_assert_eq!(received, &body[..]);
            }
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 1usize..50) {
            for expect in [Expect::Flight, Expect::Other] {
                let mut assembler = Assembler::new(expect, 4096, Pool::default());
                let _ = assemble(&mut assembler, &bytes, cut);
            }
        }
    }

    /// The bytes are those that arrow-flight 60.1 makes of the same message.
    #[test]
    fn the_bytes_are_protobuf() {
        let mut queue = SendQueue::default();
        let parts = Parts {
            header: &[1, 2],
            metadata: &[6],
            ..Parts::default()
        };
        let body = Chunk::Buffer(Buffer::from(vec![3u8, 4, 5]));
        queue_flight_data(parts, [body].into_iter(), 3, &mut queue).unwrap();
        let theirs = b"\x12\x02\x01\x02\x1a\x01\x06\xc2>\x03\x03\x04\x05";
        assert_eq!(drain(&mut queue)[5..], *theirs);
    }

    #[test]
    fn more_bytes_than_there_was_room_for_are_a_panic() {
        let mut assembler = Assembler::new(Expect::Flight, 1 << 20, Pool::default());
        let message = [&[0, 0, 0, 0, 103][..], &TAG_BODY, &[100]].concat();
        assert!(assembler.push(&message).unwrap().1.is_none());
        assert_eq!(assembler.direct().unwrap().len(), 100);
        let panics = |count| {
            let mut advance = || assembler.advance(count).is_some();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut advance)).is_err()
        };
        assert!([101, usize::MAX].map(panics) == [true, true]);
        assembler.direct().unwrap().fill(7);
        let Some(Message::Flight(message)) = assembler.advance(100) else {
            panic!("not a whole message")
        };
        assert_eq!(message.body.unwrap().as_slice(), [7; 100]);
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_memory_is_taken() {
        let mut assembler = Assembler::new(Expect::Flight, 1000, Pool::default());
        let error = assembler.push(&[0, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
        assert!(error.message.contains("max_message_size"), "{error}");
    }
}
