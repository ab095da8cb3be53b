//! The receiving half of a connection: from the socket to events.

use std::io::IoSliceMut;
use std::task::{Context, Poll};

use super::connection::{Connection, Event, Role};
use crate::codec::chunk::Chunk;
use crate::codec::flight::Message;
use crate::codec::frame::{self, code, flag, kind, Frame};
use crate::error::{Error, Kind, Result};

/// Bytes of one header list; a frame that is not DATA may have no more either.
pub const HEADER_LIMIT: usize = 64 << 10;
/// Bytes of one DATA frame. Less than the most that a frame's head can say, so that a frame
/// over the limit exists, and is refused.
pub const DATA_LIMIT: usize = 8 << 20;
/// The buffer for everything but bodies; the rest of small frames lands here as well.
const BUFFER: usize = 128 << 10;
/// Of what follows a body of `LONG` bytes or more, only so much is read with it: the heads of
/// the next message. That one's body is read into its own place; out of the buffer it would
/// have to be moved there, and as the buffer fills with every read, so would all that follow.
const HEADS: usize = 4 << 10;
const LONG: usize = 32 << 10;
/// Reads without an event, one after the other.
const READS: u32 = 256;

#[derive(Debug)]
pub(super) struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The client's preface has not been seen whole.
    preface: bool,
    /// The DATA frame being received.
    data: Option<Data>,
    /// A header block that goes on in CONTINUATION frames.
    pub block: Option<Block>,
}

#[derive(Debug, Clone, Copy)]
struct Data {
    stream: u32,
    left: usize,
    padding: usize,
    end: bool,
}

#[derive(Debug)]
pub(super) struct Block {
    pub stream: u32,
    pub end: bool,
    pub bytes: Vec<u8>,
    pub frames: u32,
}

impl Input {
    pub fn new(role: Role) -> Self {
        Self {
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            preface: role == Role::Server,
            data: None,
            block: None,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn compact(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.buffer.len() - self.end < BUFFER / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}

impl Connection {
    /// The next thing the peer did. Reads only as far as it must, so that a caller who
    /// does not ask exerts back-pressure through TCP.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event>> {
        let mut reads = 0;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(Ok(event));
            }
            let progress = match self.parse() {
                Ok(progress) => progress,
                Err(error) => {
                    // The GOAWAY that `fault` queued goes out if the socket takes it.
                    let _ = self.poll_flush(cx);
                    return Poll::Ready(Err(error));
                }
            };
            if progress {
                continue;
            }
            // Answers (acknowledgements, window updates) go out before more is read. A peer that
            // goes away often says why before: that is read even if nothing can be written.
            let broken = match self.poll_flush(cx) {
                Poll::Ready(Err(error)) => Some(error),
                Poll::Pending if self.is_congested() => return Poll::Pending,
                _ => None,
            };
            // Whoever drives this must come to look at its clock, however fast the peer is.
            if reads == READS {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            reads += 1;
            match (self.poll_fill(cx), broken) {
                (Poll::Ready(Ok(1..)), _) => {}
                (_, Some(error)) => return Poll::Ready(Err(self.with_farewell(error))),
                (Poll::Pending, _) => return Poll::Pending,
                (Poll::Ready(Ok(0)), _) => {
                    let what = if self.input.data.is_some() || !self.input.bytes().is_empty() {
                        "closed the connection in the middle of a frame"
                    } else {
                        "closed the connection"
                    };
                    let message = format!("{} {what}", self.peer());
                    let error = Error::new(Kind::Lost, message);
                    return Poll::Ready(Err(self.with_farewell(error)));
                }
                (Poll::Ready(Err(error)), _) => {
                    let error = self.lost("reading from", &error);
                    return Poll::Ready(Err(self.with_farewell(error)));
                }
            }
        }
    }

    fn with_farewell(&self, error: Error) -> Error {
        match &self.leaving {
            Some(farewell) => error.context(farewell),
            None => error,
        }
    }

    /// Reads once: into the current body as far as its frame goes, the rest into the buffer.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        self.input.compact();
        let input = &mut self.input;
        let mut direct = 0;
        let mut behind = BUFFER;
        let place: &mut [u8] = match &input.data {
            Some(data) if input.start == input.end => self
                .streams
                .get_mut(&data.stream)
                .and_then(|stream| {
                    if stream.assembler.body_length() >= LONG {
                        behind = HEADS;
                    }
                    stream.assembler.direct()
                })
                .map_or(&mut [], |place| {
                    direct = place.len().min(data.left);
                    &mut place[..direct]
                }),
            _ => &mut [],
        };
        let mut places = [
            IoSliceMut::new(place),
            IoSliceMut::new(&mut input.buffer[input.end..BUFFER.min(input.end + behind)]),
        ];
        let places = if direct > 0 {
            &mut places[..]
        } else {
            &mut places[1..]
        };
        let count = match self.wire.poll_read(cx, places) {
            Poll::Ready(Ok(count)) => count,
            other => return other,
        };
        self.wire_bytes += count as u64;
        let into_body = count.min(direct);
        self.input.end += count - into_body;
        if into_body > 0 {
            if let Some(mut data) = self.input.data {
                data.left -= into_body;
                self.data_bytes += into_body as u64;
                let message = self
                    .streams
                    .get_mut(&data.stream)
                    .and_then(|stream| stream.assembler.advance(into_body));
                self.input.data = Some(data);
                self.push_message(data.stream, message);
            }
        }
        Poll::Ready(Ok(count))
    }

    fn push_message(&mut self, stream: u32, message: Option<Message>) {
        if let Some(message) = message {
            self.events.push_back(Event::Message { stream, message });
        }
    }

    /// Handles what is in the buffer until an event comes of it; false: more bytes are needed.
    fn parse(&mut self) -> Result<bool> {
        if self.input.preface && !self.parse_preface()? {
            return Ok(false);
        }
        loop {
            if !self.events.is_empty() {
                return Ok(true);
            }
            if let Some(data) = self.input.data {
                if !self.parse_data(data)? {
                    return Ok(false);
                }
                continue;
            }
            let Some(header) = self.input.bytes().first_chunk::<{ frame::HEADER }>() else {
                return Ok(false);
            };
            let frame = Frame::parse(header);
            if frame.kind == kind::DATA {
                if frame.length > DATA_LIMIT {
                    return Err(self.fault(code::FRAME_SIZE_ERROR, "a DATA frame over the limit"));
                }
                // A padded frame's first byte must be there as well.
                let needed = frame::HEADER + usize::from(frame.has(flag::PADDED));
                if self.input.bytes().len() < needed {
                    return Ok(false);
                }
                self.begin_data(frame)?;
                continue;
            }
            if frame.length > HEADER_LIMIT {
                return Err(self.fault(
                    code::FRAME_SIZE_ERROR,
                    "a frame over the limit: does it speak HTTP/2 (gRPC) on this port?",
                ));
            }
            let whole = frame::HEADER + frame.length;
            if self.input.bytes().len() < whole {
                return Ok(false);
            }
            let at = self.input.start + frame::HEADER;
            let payload = self.input.buffer[at..at + frame.length].to_vec();
            self.input.start += whole;
            self.count_quiet()?;
            self.control_frame(frame, &payload)?;
        }
    }

    fn parse_preface(&mut self) -> Result<bool> {
        let bytes = self.input.bytes();
        let known = bytes.len().min(frame::PREFACE.len());
        if bytes[..known] != frame::PREFACE[..known] {
            return Err(self.fault(code::PROTOCOL_ERROR, "not an HTTP/2 client"));
        }
        if known == frame::PREFACE.len() {
            self.input.start += known;
            self.input.preface = false;
        }
        Ok(!self.input.preface)
    }

    fn begin_data(&mut self, frame: Frame) -> Result<()> {
        let padded = frame.has(flag::PADDED);
        let padding = if padded {
            usize::from(self.input.bytes()[frame::HEADER]) + 1
        } else {
            0
        };
        if padding > frame.length || frame.stream == 0 {
            return Err(self.fault(code::PROTOCOL_ERROR, "a malformed DATA frame"));
        }
        if self.input.block.is_some() {
            return Err(self.fault(code::PROTOCOL_ERROR, "a frame inside of a header block"));
        }
        let bytes = frame.length - padding;
        if let Some(stream) = self.streams.get_mut(&frame.stream) {
            if stream.remote_closed {
                return Err(self.fault(code::STREAM_CLOSED, "data after the stream's end"));
            }
            if !stream.begun {
                return Err(self.fault(code::PROTOCOL_ERROR, "data before headers"));
            }
            stream.body += bytes as u64;
            if stream.content_length.is_some_and(|most| stream.body > most) {
                let more = "more data than content-length says";
                self.stream_fault(frame.stream, code::PROTOCOL_ERROR, more)?;
            }
        } else if self.is_idle(frame.stream) {
            return Err(self.fault(code::PROTOCOL_ERROR, "data of a stream nobody opened"));
        } else {
            self.pass_over(frame.stream)?;
        }
        match bytes > 0 {
            true => self.quiet.reset(),
            false => self.count_quiet()?,
        }
        self.input.start += frame::HEADER + usize::from(padded);
        self.account(frame)?;
        self.input.data = Some(Data {
            stream: frame.stream,
            left: bytes,
            padding: padding.saturating_sub(1),
            end: frame.has(flag::END_STREAM),
        });
        Ok(())
    }

    /// Flow control: the windows shrink by the whole frame (6.9) and are opened again
    /// when half of them is used.
    fn account(&mut self, frame: Frame) -> Result<()> {
        let length = frame.length as u32;
        let window = self.config.window;
        let mut updates = Vec::new();
        self.receive_window -= i64::from(length);
        self.consumed += length;
        if self.receive_window < 0 {
            return Err(self.fault(code::FLOW_CONTROL_ERROR, "more data than the window allows"));
        }
        if self.consumed > 0 && self.consumed >= window.max(frame::DEFAULT_WINDOW) / 2 {
            frame::write_window_update(0, self.consumed, &mut updates);
            self.receive_window += i64::from(self.consumed);
            self.consumed = 0;
        }
        if let Some(stream) = self.streams.get_mut(&frame.stream) {
            stream.receive_window -= i64::from(length);
            stream.consumed += length;
            if stream.receive_window < 0 {
                return Err(
                    self.fault(code::FLOW_CONTROL_ERROR, "more data than the window allows")
                );
            }
            if stream.consumed > 0 && stream.consumed >= window / 2 && !frame.has(flag::END_STREAM)
            {
                frame::write_window_update(frame.stream, stream.consumed, &mut updates);
                stream.receive_window += i64::from(stream.consumed);
                stream.consumed = 0;
            }
        }
        if !updates.is_empty() {
            self.queue(Chunk::Small(updates));
        }
        Ok(())
    }

    /// Goes on with a DATA frame; false: more bytes are needed.
    fn parse_data(&mut self, mut data: Data) -> Result<bool> {
        while data.left > 0 && self.events.is_empty() {
            let have = self.input.bytes().len().min(data.left);
            if have == 0 {
                self.input.data = Some(data);
                return Ok(false);
            }
            let from = self.input.start;
            let bytes = &self.input.buffer[from..from + have];
            // A stream that was reset meanwhile: its bytes still have to be passed over.
            let (taken, message) = match self.streams.get_mut(&data.stream) {
                Some(stream) => match stream.assembler.push(bytes) {
                    Ok(taken) => taken,
                    Err(error) => return Err(self.fault(code::CANCEL, error.message)),
                },
                None => (have, None),
            };
            self.input.start += taken;
            data.left -= taken;
            self.data_bytes += taken as u64;
            self.push_message(data.stream, message);
        }
        if data.left == 0 {
            let skipped = self.input.bytes().len().min(data.padding);
            self.input.start += skipped;
            data.padding -= skipped;
            if data.padding == 0 {
                self.input.data = None;
                if data.end {
                    self.remote_end(data.stream)?;
                }
                return Ok(true);
            }
        }
        self.input.data = Some(data);
        Ok(!self.events.is_empty())
    }

    /// Something that the peer has begun and not finished, other than a message: its preface,
    /// a header block, a frame's head. It stays the same for as long as it is the same thing.
    pub fn unfinished(&self) -> Option<(u32, u64)> {
        if self.input.preface {
            return Some((0, 0));
        }
        match &self.input.block {
            Some(block) => Some((block.stream, 0)),
            None if self.input.data.is_none() && !self.input.bytes().is_empty() => {
                Some((0, self.data_bytes))
            }
            None => None,
        }
    }

    /// No one has opened this stream yet (RFC 9113, 5.1).
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        match self.config.role {
            Role::Client => stream >= self.next_stream || stream.is_multiple_of(2),
            Role::Server => stream > self.last_peer_stream || stream.is_multiple_of(2),
        }
    }

    /// Data or headers on a stream that is over: they are passed over where they may have
    /// been in flight when we ended it.
    pub(super) fn pass_over(&mut self, stream: u32) -> Result<()> {
        match self.closed.wrong(stream) {
            Some((code, reason)) => Err(self.fault(code, reason)),
            None => Ok(()),
        }
    }

    pub(super) fn remote_end(&mut self, id: u32) -> Result<()> {
        if self.remote_closes(id, true)? {
            self.events.push_back(Event::End { stream: id });
        }
        Ok(())
    }

    /// The peer has ended its side of a stream, whose messages must be `whole`. False: the
    /// stream has been given up.
    pub(super) fn remote_closes(&mut self, id: u32, whole: bool) -> Result<bool> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(false);
        };
        if whole
            && stream
                .content_length
                .is_some_and(|said| said != stream.body)
        {
            let less = "less data than content-length says";
            self.stream_fault(id, code::PROTOCOL_ERROR, less)?;
            return Ok(false);
        }
        stream.remote_closed = true;
        let broken = whole && !stream.assembler.is_idle();
        if stream.is_over() {
            self.forget(id, true);
        }
        match broken {
            true => Err(self.fault(
                code::PROTOCOL_ERROR,
                "a stream that ends in the middle of a message",
            )),
            false => Ok(true),
        }
    }
}
