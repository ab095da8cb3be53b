//! gRPC messages and Flight's `FlightData` in them, without copying the Arrow body.
//!
//! A gRPC message is `compressed: u8, length: u32 be, bytes`. `FlightData` (Flight.proto)
//! is protobuf with four length-delimited fields: 1 descriptor, 2 data_header,
//! 3 app_metadata, 1000 data_body. Generated protobuf code would copy the body into and
//! out of the message; here the sender chains Arrow's buffers behind a small prefix, and
//! the receiver hands out the place where the body's bytes belong, so that the socket is
//! read straight into it.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

use arrow_buffer::Buffer;

use crate::error::{Error, Result};

/// Bytes on their way out: owned small ones, or a shared piece of an Arrow buffer.
#[derive(Debug, Clone)]
pub enum Chunk {
    Buffer(Buffer),
    Small(Vec<u8>),
    /// A frame header, without an allocation.
    Header([u8; 9]),
    /// Up to 64 bytes of padding between Arrow's buffers.
    Zeros(u8),
}

static ZEROS: [u8; 64] = [0; 64];

impl Chunk {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Chunk::Buffer(buffer) => buffer.as_slice(),
            Chunk::Small(bytes) => bytes,
            Chunk::Header(bytes) => bytes,
            Chunk::Zeros(length) => &ZEROS[..*length as usize],
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
            Chunk::Zeros(length) => {
                *length -= at as u8;
                Chunk::Zeros(at as u8)
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
    let mut prefix = Vec::with_capacity(40 + descriptor_length + parts.header.len() + parts.metadata.len());
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

/// Memory for bodies, used again: a fresh mapping costs a page fault every 4 KiB.
#[derive(Debug, Clone, Default)]
pub struct Pool(Arc<Mutex<Vec<Slab>>>);

/// How many free slabs a connection keeps.
const KEPT: usize = 4;

#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    capacity: usize,
}

// A slab is plain memory, owned by one place at a time.
unsafe impl Send for Slab {}
unsafe impl Sync for Slab {}

impl Slab {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, 64).expect("a bounded size")
    }

    fn new(capacity: usize) -> Self {
        let layout = Self::layout(capacity);
        // SAFETY: the capacity is not zero (`Pool::take` rounds up).
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self { start, capacity }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; nobody else frees it.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

/// A slab on loan; returns to its pool when the last Arrow buffer over it goes.
#[derive(Debug)]
struct Loan {
    slab: Option<Slab>,
    home: Weak<Mutex<Vec<Slab>>>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(slab) = self.slab.take() else { return };
        if let Some(home) = self.home.upgrade() {
            if let Ok(mut free) = home.lock() {
                if free.len() < KEPT {
                    free.push(slab);
                }
            }
        }
    }
}

impl Pool {
    fn take(&self, length: usize) -> Loan {
        let slab = self.0.lock().ok().and_then(|mut free| {
            // Not one that is far too large: a table would keep it.
            let fits = |slab: &Slab| slab.capacity >= length && slab.capacity / 4 <= length.max(4096);
            let at = free.iter().rposition(fits)?;
            Some(free.swap_remove(at))
        });
        Loan {
            slab: Some(slab.unwrap_or_else(|| Slab::new(length.max(1).next_multiple_of(4096)))),
            home: Arc::downgrade(&self.0),
        }
    }
}

/// A body being received.
#[derive(Debug)]
struct Body {
    loan: Loan,
    length: usize,
    filled: usize,
}

impl Body {
    fn rest(&mut self) -> &mut [u8] {
        let slab = self.loan.slab.as_ref().expect("present until dropped");
        // SAFETY: `filled <= length <= capacity`, initialised by `alloc_zeroed`, and the loan is
        // not shared before `finish`.
        unsafe {
            std::slice::from_raw_parts_mut(
                slab.start.as_ptr().add(self.filled),
                self.length - self.filled,
            )
        }
    }

    fn finish(self) -> Buffer {
        let start = self.loan.slab.as_ref().expect("present until dropped").start;
        // SAFETY: the slab lives as long as the loan, which the buffer owns from here.
        unsafe { Buffer::from_custom_allocation(start, self.length, Arc::new(self.loan)) }
    }
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
    Field { number: u64, missing: usize },
    Body(Body),
    Skip { missing: usize },
}

/// No small field of a FlightData is larger than this: an IPC header or a descriptor.
const FIELD_LIMIT: usize = 16 << 20;

impl Assembler {
    pub fn new(expect: Expect, limit: usize, pool: Pool) -> Self {
        Self {
            expect,
            limit,
            pool,
            state: State::Prefix,
            left: 0,
            scratch: Vec::new(),
            message: FlightMessage::default(),
        }
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

    /// `count` bytes were put where `direct` said. The message, if they completed it.
    pub fn advance(&mut self, count: usize) -> Option<Message> {
        if let State::Body(body) = &mut self.state {
            debug_assert!(count <= body.length - body.filled);
            body.filled += count;
            self.left -= count;
            if body.filled == body.length {
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
        let length = u32::from_be_bytes([self.scratch[1], self.scratch[2], self.scratch[3], self.scratch[4]]) as usize;
        if length > self.limit {
            return Err(Error::protocol(format!(
                "a message of {length} bytes is over the limit of {}: raise max_message_size or use fewer rows per batch",
                self.limit
            )));
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
        Some(match self.expect {
            Expect::Flight => Message::Flight(std::mem::take(&mut self.message)),
            Expect::Other => Message::Other(std::mem::take(&mut self.scratch)),
        })
    }

    /// A byte of a tag or length has been added to `scratch`; acts when both are whole.
    fn tag(&mut self) -> Result<Option<Message>> {
        let broken = || Error::protocol("not a FlightData message: its protobuf fields do not add up");
        let whole = |bytes: &[u8]| bytes.iter().position(|byte| byte & 0x80 == 0).map(|at| at + 1);
        let Some(tag_length) = whole(&self.scratch) else {
            return if self.scratch.len() > 10 || self.left == 0 { Err(broken()) } else { Ok(None) };
        };
        let tag = read_varint(&self.scratch[..tag_length]);
        let missing = match tag & 7 {
            1 => 8,
            5 => 4,
            wire @ (0 | 2) => {
                let Some(length) = whole(&self.scratch[tag_length..]) else {
                    let too_long = self.scratch.len() - tag_length > 10;
                    return if too_long || self.left == 0 { Err(broken()) } else { Ok(None) };
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
            (1000, 2) => State::Body(Body {
                loan: self.pool.take(missing),
                length: missing,
                filled: 0,
            }),
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
        .fold(0, |value, (k, byte)| value | u64::from(byte & 0x7f).wrapping_shl(7 * k as u32))
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
            if let Some(place) = assembler.direct().filter(|_| bytes.len() % 2 == 0) {
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

        /// Our bytes are what prost's generated code makes of the same message.
        #[test]
        fn the_bytes_are_protobuf(header in prop::collection::vec(any::<u8>(), 1..300), body in prop::collection::vec(any::<u8>(), 1..300)) {
            use prost::Message as _;
            let data = arrow_flight::FlightData { data_header: header.clone().into(), data_body: body.clone().into(), ..Default::default() };
            let mut queue = SendQueue::default();
            let parts = Parts { header: &header, ..Default::default() };
            queue_flight_data(parts, [Chunk::Buffer(Buffer::from(body.clone()))].into_iter(), body.len(), &mut queue).unwrap();
            prop_assert_eq!(&drain(&mut queue)[5..], &data.encode_to_vec()[..]);
        }
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_memory_is_taken() {
        let mut assembler = Assembler::new(Expect::Flight, 1000, Pool::default());
        let error = assembler.push(&[0, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
        assert!(error.message.contains("max_message_size"), "{error}");
    }

    #[test]
    fn slabs_come_back() {
        let pool = Pool::default();
        let first = Body { loan: pool.take(5000), length: 5000, filled: 5000 }.finish();
        let place = first.as_ptr();
        drop(first);
        let second = Body { loan: pool.take(5000), length: 5000, filled: 5000 }.finish();
        assert_eq!(second.as_ptr(), place);
        assert_eq!(place as usize % 64, 0);
    }
}
