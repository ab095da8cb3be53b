//! Every frame but DATA: settings, headers, windows, resets, farewells.

use super::connection::{Connection, Event, Role};
use super::read::{Block, HEADER_LIMIT};
use crate::codec::chunk::Chunk;
use crate::codec::flight::Expect;
use crate::codec::frame::{self, code, flag, kind, setting, Frame};
use crate::codec::hpack::Header;
use crate::error::{Error, Kind, Result};

/// Streams that a peer may open and reset before it is taken for an attack.
const RESETS: u32 = 10_000;
/// Frames of one header block, empty ones included.
const CONTINUATIONS: u32 = 256;

impl Connection {
    pub(super) fn control_frame(&mut self, frame: Frame, payload: &[u8]) -> Result<()> {
        if self.input.block.is_some() && frame.kind != kind::CONTINUATION {
            return Err(self.fault(code::PROTOCOL_ERROR, "a frame inside of a header block"));
        }
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_be_bytes(
                payload.get(at..at + 4)?.try_into().ok()?,
            ))
        };
        let short =
            |this: &mut Self| this.fault(code::FRAME_SIZE_ERROR, "a frame that is too short");
        match frame.kind {
            kind::HEADERS => {
                let mut bytes = payload;
                if frame.has(flag::PADDED) {
                    let Some((&padding, rest)) = bytes.split_first() else {
                        return Err(short(self));
                    };
                    let Some(length) = rest.len().checked_sub(padding as usize) else {
                        return Err(short(self));
                    };
                    bytes = &rest[..length];
                }
                if frame.has(flag::PRIORITY) {
                    bytes = match bytes.get(5..) {
                        Some(rest) => rest,
                        None => return Err(short(self)),
                    };
                }
                let block = Block {
                    stream: frame.stream,
                    end: frame.has(flag::END_STREAM),
                    bytes: bytes.to_vec(),
                    frames: 1,
                };
                self.header_block(block, frame.has(flag::END_HEADERS))
            }
            kind::CONTINUATION => match self.input.block.take() {
                Some(mut block) if block.stream == frame.stream => {
                    block.bytes.extend_from_slice(payload);
                    block.frames += 1;
                    if block.bytes.len() > HEADER_LIMIT || block.frames > CONTINUATIONS {
                        return Err(
                            self.fault(code::ENHANCE_YOUR_CALM, "a header block over the limit")
                        );
                    }
                    self.header_block(block, frame.has(flag::END_HEADERS))
                }
                _ => Err(self.fault(code::PROTOCOL_ERROR, "a CONTINUATION of nothing")),
            },
            kind::RST_STREAM => {
                let Some(code) = word(0) else {
                    return Err(short(self));
                };
                self.resets += 1;
                if self.config.role == Role::Server && self.resets > RESETS {
                    return Err(self.fault(code::ENHANCE_YOUR_CALM, "too many resets"));
                }
                if self.streams.remove(&frame.stream).is_some() {
                    self.events.push_back(Event::Reset {
                        stream: frame.stream,
                        code,
                    });
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
            kind::PING => {
                self.pong = payload.try_into().ok().map(u64::from_be_bytes);
                Ok(())
            }
            kind::GOAWAY => {
                let Some(code) = word(4) else {
                    return Err(short(self));
                };
                let last = word(0).unwrap_or(0);
                // A graceful GOAWAY lets the open streams finish; a client's says nothing of them.
                let untouched =
                    self.config.role == Role::Server || self.streams.keys().all(|id| *id <= last);
                if code == code::NO_ERROR && untouched {
                    return Ok(());
                }
                let reason = String::from_utf8_lossy(&payload[8..]);
                let message = format!(
                    "{} ended the connection: {} {reason}",
                    self.peer(),
                    code::name(code)
                );
                Err(Error::new(Kind::Lost, message.trim_end().to_owned()))
            }
            kind::WINDOW_UPDATE => {
                let Some(increment) = word(0).map(|w| i64::from(w & frame::MAX_WINDOW)) else {
                    return Err(short(self));
                };
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
            kind::PUSH_PROMISE => {
                Err(self.fault(code::PROTOCOL_ERROR, "a push, which nobody asked for"))
            }
            // PRIORITY and unknown frames (5.5) have no meaning here.
            _ => Ok(()),
        }
    }

    fn settings(&mut self, frame: Frame, payload: &[u8]) -> Result<()> {
        if frame.stream != 0 || !payload.len().is_multiple_of(6) {
            return Err(self.fault(code::FRAME_SIZE_ERROR, "malformed SETTINGS"));
        }
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
            Err(error) => {
                return Err(self.fault(code::COMPRESSION_ERROR, format!("headers: {}", error.0)))
            }
        };
        let id = block.stream;
        if let Some(stream) = self.streams.get_mut(&id) {
            let again = std::mem::replace(&mut stream.begun, true);
            if stream.remote_closed {
                return Err(self.fault(code::STREAM_CLOSED, "headers after the stream's end"));
            }
            if self.config.role == Role::Server && again {
                // A request has headers once; what may follow are trailers, which gRPC ignores.
                return match block.end {
                    true => self.remote_end(id),
                    false => Err(self.fault(code::PROTOCOL_ERROR, "headers come twice")),
                };
            }
        } else {
            match self.config.role {
                Role::Client if self.is_idle(id) => {
                    return Err(self.fault(code::PROTOCOL_ERROR, "headers of no request"));
                }
                // Trailers of a stream that we gave up.
                Role::Client => return Ok(()),
                Role::Server => {
                    if id.is_multiple_of(2) || id <= self.last_peer_stream {
                        // Headers of a stream that is over already are passed over.
                        return if id % 2 == 1 {
                            Ok(())
                        } else {
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
                    if let Some(stream) = self.streams.get_mut(&id) {
                        stream.begun = true;
                    }
                }
            }
        }
        if block.end {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.remote_closed = true;
                let broken = !stream.assembler.is_idle();
                if stream.is_over() {
                    self.streams.remove(&id);
                }
                // Of an error status nobody asks that the messages be whole.
                if broken && !is_error(&headers) {
                    return Err(self.fault(
                        code::PROTOCOL_ERROR,
                        "a stream that ends in the middle of a message",
                    ));
                }
            }
        }
        self.events.push_back(Event::Headers {
            stream: id,
            headers,
            end: block.end,
        });
        Ok(())
    }
}

fn is_error(headers: &[Header]) -> bool {
    let status = headers.iter().find(|header| header.name == "grpc-status");
    status.is_some_and(|header| header.value != "0")
}

/// What a request's messages are: only two of Flight's methods send batches.
fn expected_of(headers: &[Header]) -> Expect {
    let path = headers.iter().find(|header| header.name == ":path");
    match path.map(|header| header.value.rsplit('/').next().unwrap_or_default()) {
        Some("DoPut" | "DoExchange") => Expect::Flight,
        _ => Expect::Other,
    }
}
