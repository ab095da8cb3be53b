//! The receiving half of a connection: from the socket to events.

use std::io::IoSliceMut;
use std::task::{Context, Poll};

use super::connection::{Connection, Event, Role};
use crate::codec::flight::{Chunk, Expect, Message};
use crate::codec::frame::{self, code, flag, kind, setting, Frame};
use crate::codec::hpack::Header;
use crate::error::{Error, Kind, Result};

/// Bytes of one header list; a frame that is not DATA may have no more either.
pub const HEADER_LIMIT: usize = 64 << 10;
/// The buffer for everything but bodies; the rest of small frames lands here as well.
const BUFFER: usize = 128 << 10;
/// Streams that a peer may open and reset before we take it for an attack.
const RESETS: u32 = 10_000;

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
    block: Option<Block>,
}

#[derive(Debug, Clone, Copy)]
struct Data {
    stream: u32,
    left: usize,
    padding: usize,
    end: bool,
}

#[derive(Debug)]
struct Block {
    stream: u32,
    end: bool,
    bytes: Vec<u8>,
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
            // Answers (acknowledgements, window updates) go out before more is read.
            match self.poll_flush(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.reason_or(error))),
                Poll::Pending if self.is_congested() => return Poll::Pending,
                _ => {}
            }
            match self.poll_fill(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => {
                    let what = if self.input.data.is_some() || !self.input.bytes().is_empty() {
                        "closed the connection in the middle of a frame"
                    } else {
                        "closed the connection"
                    };
                    let message = format!("{} {what}", self.peer());
                    return Poll::Ready(Err(Error::new(Kind::Lost, message)));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.lost("reading from", &error))),
            }
        }
    }

    /// A peer that goes away often says why before; its GOAWAY may still be unread.
    fn reason_or(&mut self, error: Error) -> Error {
        match self.parse() {
            Err(reason) => reason,
            Ok(_) => error,
        }
    }

    /// Reads once: into the current body as far as its frame goes, the rest into the buffer.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        self.input.compact();
        let input = &mut self.input;
        let mut direct = 0;
        let place: &mut [u8] = match &input.data {
            Some(data) if input.start == input.end => self
                .streams
                .get_mut(&data.stream)
                .and_then(|stream| stream.assembler.direct())
                .map_or(&mut [], |place| {
                    direct = place.len().min(data.left);
                    &mut place[..direct]
                }),
            _ => &mut [],
        };
        let mut places = [
            IoSliceMut::new(place),
            IoSliceMut::new(&mut input.buffer[input.end..]),
        ];
        let places = if direct > 0 { &mut places[..] } else { &mut places[1..] };
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
                if frame.length > frame::MAX_MAX_FRAME as usize {
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
        self.input.start += frame::HEADER + usize::from(padded);
        self.account(frame)?;
        self.input.data = Some(Data {
            stream: frame.stream,
            left: frame.length - padding,
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
                return Err(self.fault(code::FLOW_CONTROL_ERROR, "more data than the window allows"));
            }
            if stream.consumed > 0 && stream.consumed >= window / 2 && !frame.has(flag::END_STREAM) {
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

    fn remote_end(&mut self, id: u32) -> Result<()> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        stream.remote_closed = true;
        let broken = !stream.assembler.is_idle();
        if stream.is_over() {
            self.streams.remove(&id);
        }
        if broken {
            return Err(self.fault(code::PROTOCOL_ERROR, "a stream that ends in the middle of a message"));
        }
        self.events.push_back(Event::End { stream: id });
        Ok(())
    }

    fn control_frame(&mut self, frame: Frame, payload: &[u8]) -> Result<()> {
        if self.input.block.is_some() && frame.kind != kind::CONTINUATION {
            return Err(self.fault(code::PROTOCOL_ERROR, "a frame inside of a header block"));
        }
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?))
        };
        let short = |this: &mut Self| this.fault(code::FRAME_SIZE_ERROR, "a frame that is too short");
        match frame.kind {
            kind::HEADERS => {
                let mut bytes = payload;
                if frame.has(flag::PADDED) {
                    let Some((&padding, rest)) = bytes.split_first() else { return Err(short(self)) };
                    let Some(length) = rest.len().checked_sub(padding as usize) else { return Err(short(self)) };
                    bytes = &rest[..length];
                }
                if frame.has(flag::PRIORITY) {
                    bytes = match bytes.get(5..) {
                        Some(rest) => rest,
                        None => return Err(short(self)),
                    };
                }
                let block = Block { stream: frame.stream, end: frame.has(flag::END_STREAM), bytes: bytes.to_vec() };
                self.header_block(block, frame.has(flag::END_HEADERS))
            }
            kind::CONTINUATION => match self.input.block.take() {
                Some(mut block) if block.stream == frame.stream => {
                    block.bytes.extend_from_slice(payload);
                    if block.bytes.len() > HEADER_LIMIT {
                        return Err(self.fault(code::ENHANCE_YOUR_CALM, "a header block over the limit"));
                    }
                    self.header_block(block, frame.has(flag::END_HEADERS))
                }
                _ => Err(self.fault(code::PROTOCOL_ERROR, "a CONTINUATION of nothing")),
            },
            kind::RST_STREAM => {
                let Some(code) = word(0) else { return Err(short(self)) };
                self.resets += 1;
                if self.config.role == Role::Server && self.resets > RESETS {
                    return Err(self.fault(code::ENHANCE_YOUR_CALM, "too many resets"));
                }
                if self.streams.remove(&frame.stream).is_some() {
                    self.events.push_back(Event::Reset { stream: frame.stream, code });
                }
                Ok(())
            }
            kind::SETTINGS => self.settings(frame, payload),
            kind::PING if !frame.has(flag::ACK) => {
                if payload.len() != 8 {
                    return Err(short(self));
                }
                let mut bytes = Vec::new();
                frame::write(kind::PING, flag::ACK, 0, payload, &mut bytes);
                self.queue(Chunk::Small(bytes));
                Ok(())
            }
            kind::GOAWAY => {
                let Some(code) = word(4) else { return Err(short(self)) };
                let last = word(0).unwrap_or(0);
                // A graceful GOAWAY lets the open streams finish.
                if code == code::NO_ERROR && self.streams.keys().all(|id| *id <= last) {
                    return Ok(());
                }
                let reason = String::from_utf8_lossy(&payload[8..]);
                let message = format!("{} ended the connection: {} {reason}", self.peer(), code::name(code));
                Err(Error::new(Kind::Lost, message.trim_end().to_owned()))
            }
            kind::WINDOW_UPDATE => {
                let Some(increment) = word(0).map(|w| i64::from(w & frame::MAX_WINDOW)) else { return Err(short(self)) };
                let window = match frame.stream {
                    0 => &mut self.send_window,
                    id => match self.streams.get_mut(&id) {
                        Some(stream) => &mut stream.send_window,
                        None => return Ok(()),
                    },
                };
                *window += increment;
                if increment == 0 || *window > i64::from(frame::MAX_WINDOW) {
                    return Err(self.fault(code::FLOW_CONTROL_ERROR, "a wrong window update"));
                }
                Ok(())
            }
            kind::PUSH_PROMISE => Err(self.fault(code::PROTOCOL_ERROR, "a push, which nobody asked for")),
            // PRIORITY, PING answers and unknown frames (5.5) have no meaning here.
            _ => Ok(()),
        }
    }

    fn settings(&mut self, frame: Frame, payload: &[u8]) -> Result<()> {
        if frame.has(flag::ACK) {
            if !self.settings_acknowledged && self.config.role == Role::Server {
                let difference = i64::from(self.config.window) - i64::from(frame::DEFAULT_WINDOW);
                for stream in self.streams.values_mut() {
                    stream.receive_window += difference;
                }
            }
            self.settings_acknowledged = true;
            return Ok(());
        }
        for entry in payload.chunks_exact(6) {
            let id = u16::from_be_bytes([entry[0], entry[1]]);
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            match id {
                setting::INITIAL_WINDOW_SIZE => {
                    if value > frame::MAX_WINDOW {
                        return Err(self.fault(code::FLOW_CONTROL_ERROR, "a window over 2^31-1"));
                    }
                    // 6.9.2: open streams change by the difference.
                    let difference = i64::from(value) - self.initial_send_window;
                    self.initial_send_window = i64::from(value);
                    for stream in self.streams.values_mut() {
                        stream.send_window += difference;
                    }
                }
                setting::MAX_FRAME_SIZE => {
                    if !(frame::MIN_MAX_FRAME..=frame::MAX_MAX_FRAME).contains(&value) {
                        return Err(self.fault(code::PROTOCOL_ERROR, "a frame size out of range"));
                    }
                    self.max_frame = value as usize;
                }
                _ => {}
            }
        }
        let mut bytes = Vec::new();
        frame::write(kind::SETTINGS, flag::ACK, 0, &[], &mut bytes);
        self.queue(Chunk::Small(bytes));
        Ok(())
    }

    fn header_block(&mut self, block: Block, whole: bool) -> Result<()> {
        if !whole {
            self.input.block = Some(block);
            return Ok(());
        }
        let headers = match self.hpack.decode(&block.bytes, HEADER_LIMIT) {
            Ok(headers) => headers,
            Err(error) => return Err(self.fault(code::COMPRESSION_ERROR, format!("headers: {}", error.0))),
        };
        let id = block.stream;
        if !self.streams.contains_key(&id) {
            match self.config.role {
                // Trailers of a stream that we gave up.
                Role::Client => return Ok(()),
                Role::Server => {
                    if id % 2 == 0 || id <= self.last_peer_stream {
                        // Headers of a stream that is over already are passed over.
                        return if id % 2 == 1 { Ok(()) } else {
                            Err(self.fault(code::PROTOCOL_ERROR, "a stream of the wrong number"))
                        };
                    }
                    self.last_peer_stream = id;
                    if self.streams.len() >= self.config.max_streams as usize {
                        self.open(id, Expect::Other);
                        self.reset(id, code::REFUSED_STREAM);
                        return Ok(());
                    }
                    self.open(id, expected_of(&headers));
                }
            }
        }
        if block.end {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.remote_closed = true;
                if stream.is_over() {
                    self.streams.remove(&id);
                }
            }
        }
        self.events.push_back(Event::Headers { stream: id, headers, end: block.end });
        Ok(())
    }
}

/// What a request's messages are: only two of Flight's methods send batches.
fn expected_of(headers: &[Header]) -> Expect {
    let path = headers.iter().find(|header| header.name == ":path");
    match path.map(|header| header.value.rsplit('/').next().unwrap_or_default()) {
        Some("DoPut" | "DoExchange") => Expect::Flight,
        _ => Expect::Other,
    }
}
