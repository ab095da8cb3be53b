//! Every frame but DATA: settings, headers, windows, resets, farewells.

use super::connection::{Connection, Event, Role};
use super::fields::{self, Section};
use super::read::{Block, HEADER_LIMIT};
use crate::codec::chunk::Chunk;
use crate::codec::flight::Expect;
use crate::codec::frame::{self, code, flag, kind, setting, Frame};
use crate::codec::hpack::{self, Header};
use crate::error::{Error, Kind, Result};

/// Frames of one header block, empty ones included.
const CONTINUATIONS: u32 = 256;
/// Settings of one frame: each may change the window of every stream.
const SETTINGS: usize = 32;
/// What to do about gRPC's `max_age`.
const AGE: &str = "; let the server keep its connections for longer (gRPC: MAX_CONNECTION_AGE)";

impl Connection {
    pub(super) fn control_frame(&mut self, frame: Frame, payload: &[u8]) -> Result<()> {
        if self.input.block.is_some() && frame.kind != kind::CONTINUATION {
            return Err(self.fault(code::PROTOCOL_ERROR, "a frame inside of a header block"));
        }
        if !self.greeted && (frame.kind != kind::SETTINGS || frame.has(flag::ACK)) {
            return Err(self.fault(code::PROTOCOL_ERROR, "the first frame is not SETTINGS"));
        }
        self.greeted = true;
        let sized = match frame.kind {
            kind::PRIORITY => payload.len() == 5,
            kind::RST_STREAM | kind::WINDOW_UPDATE => payload.len() == 4,
            kind::PING => payload.len() == 8,
            kind::GOAWAY => payload.len() >= 8,
            _ => true,
        };
        if !sized {
            return Err(self.fault(code::FRAME_SIZE_ERROR, "a frame of a wrong length"));
        }
        let placed = match frame.kind {
            kind::SETTINGS | kind::PING | kind::GOAWAY => frame.stream == 0,
            kind::HEADERS | kind::PRIORITY | kind::RST_STREAM => frame.stream != 0,
            _ => true,
        };
        if !placed {
            return Err(self.fault(code::PROTOCOL_ERROR, "a frame of a wrong stream"));
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
                        return Err(self.fault(code::PROTOCOL_ERROR, "padding beyond its frame"));
                    };
                    bytes = &rest[..length];
                }
                if frame.has(flag::PRIORITY) {
                    let Some((priority, rest)) = bytes.split_first_chunk::<5>() else {
                        return Err(short(self));
                    };
                    self.depends(frame.stream, priority)?;
                    bytes = rest;
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
            kind::PRIORITY => self.depends(frame.stream, payload),
            kind::RST_STREAM => {
                self.not_idle(frame.stream)?;
                if self.streams.contains_key(&frame.stream) {
                    self.count_reset()?;
                    self.forget(frame.stream, true);
                    self.push_reset(frame.stream, word(0).unwrap_or_default());
                } else {
                    // Whoever ended it first: the peer has nothing in flight behind this.
                    self.closed.remember(frame.stream, true);
                }
                Ok(())
            }
            kind::SETTINGS => self.settings(frame, payload),
            kind::PING if !frame.has(flag::ACK) => {
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
                let (last, code) = (word(0).unwrap_or_default(), word(4).unwrap_or_default());
                // A client's says nothing of our answers, whatever its reason: its PING behind it is
                // answered.
                if self.config.role == Role::Server {
                    return Ok(());
                }
                let reason = String::from_utf8_lossy(&payload[8..]);
                let message = format!(
                    "{} ended the connection: {} {reason}",
                    self.peer(),
                    code::name(code)
                );
                let mut message = message.trim_end().to_owned();
                if code != code::NO_ERROR {
                    return Err(Error::new(Kind::Lost, message));
                }
                // The streams up to the named one finish; those beyond it were not begun, and
                // another connection may take them (RFC 9113, 6.8).
                if reason.contains("max_age") {
                    message += AGE;
                }
                self.leaving = Some(message);
                let beyond = self.streams.range((last & frame::MAX_WINDOW) + 1..);
                for stream in beyond.map(|(id, _)| *id).collect::<Vec<_>>() {
                    // The peer may have sent frames of it before that.
                    self.forget(stream, false);
                    self.push_reset(stream, code::REFUSED_STREAM);
                }
                Ok(())
            }
            kind::WINDOW_UPDATE => self.window_update(frame.stream, word(0).unwrap_or_default()),
            kind::PUSH_PROMISE => {
                Err(self.fault(code::PROTOCOL_ERROR, "a push, which nobody asked for"))
            }
            // Unknown frames (5.5) have no meaning here.
            _ => Ok(()),
        }
    }

    fn push_reset(&mut self, stream: u32, code: u32) {
        let refused = code == code::REFUSED_STREAM;
        let farewell = self.leaving.clone().filter(|_| refused);
        self.events.push_back(Event::Reset {
            stream,
            code,
            farewell,
        });
    }

    /// A stream's priority has no meaning here, but must not be nonsense (RFC 7540, 5.3.1).
    fn depends(&mut self, stream: u32, priority: &[u8]) -> Result<()> {
        let parent = priority.first_chunk().map(|word| u32::from_be_bytes(*word));
        match parent.is_some_and(|parent| parent & frame::MAX_WINDOW == stream) {
            true => Err(self.fault(code::PROTOCOL_ERROR, "a stream that depends on itself")),
            false => Ok(()),
        }
    }

    fn not_idle(&mut self, stream: u32) -> Result<()> {
        match self.is_idle(stream) {
            true => Err(self.fault(code::PROTOCOL_ERROR, "a frame of a stream nobody opened")),
            false => Ok(()),
        }
    }

    fn window_update(&mut self, id: u32, increment: u32) -> Result<()> {
        let increment = i64::from(increment & frame::MAX_WINDOW);
        let wrong = |window: i64| match increment {
            0 => Some((code::PROTOCOL_ERROR, "a window update of 0 bytes")),
            _ if window > i64::from(frame::MAX_WINDOW) => {
                Some((code::FLOW_CONTROL_ERROR, "a window over 2^31-1"))
            }
            _ => None,
        };
        if id == 0 {
            self.send_window += increment;
            return match wrong(self.send_window) {
                Some((code, reason)) => Err(self.fault(code, reason)),
                None => Ok(()),
            };
        }
        self.not_idle(id)?;
        // One for a stream that is over may have been sent before its end was known: only its form counts.
        let window = self.streams.get_mut(&id).map_or(0, |stream| {
            stream.send_window += increment;
            stream.send_window
        });
        match wrong(window) {
            Some((code, reason)) => self.stream_fault(id, code, reason),
            None => Ok(()),
        }
    }

    fn settings(&mut self, frame: Frame, payload: &[u8]) -> Result<()> {
        let answer = frame.has(flag::ACK);
        if !payload.len().is_multiple_of(6) || (answer && !payload.is_empty()) {
            return Err(self.fault(code::FRAME_SIZE_ERROR, "malformed SETTINGS"));
        }
        if payload.len() > 6 * SETTINGS {
            return Err(self.fault(code::ENHANCE_YOUR_CALM, "too many settings in one frame"));
        }
        if answer {
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
                setting::HEADER_TABLE_SIZE => {
                    self.table_given_up |= (value as usize) < hpack::TABLE_LIMIT;
                }
                setting::ENABLE_PUSH if value > 1 => {
                    return Err(self.fault(code::PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1"));
                }
                setting::INITIAL_WINDOW_SIZE => {
                    if value > frame::MAX_WINDOW {
                        return Err(self.fault(code::FLOW_CONTROL_ERROR, "a window over 2^31-1"));
                    }
                    // 6.9.2: open streams change by the difference.
                    let difference = i64::from(value) - self.initial_send_window;
                    self.initial_send_window = i64::from(value);
                    let mut most = 0;
                    for stream in self.streams.values_mut() {
                        stream.send_window += difference;
                        most = stream.send_window.max(most);
                    }
                    if most > i64::from(frame::MAX_WINDOW) {
                        return Err(self.fault(code::FLOW_CONTROL_ERROR, "a window over 2^31-1"));
                    }
                }
                setting::MAX_CONCURRENT_STREAMS => self.most_streams = value,
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
        let stream = self.streams.get(&id);
        let section = match stream.map(|stream| (stream.begun, stream.remote_closed)) {
            Some((_, true)) => {
                return Err(self.fault(code::STREAM_CLOSED, "headers after the stream's end"));
            }
            Some((true, _)) => Section::Trailers,
            Some(_) => Section::Response,
            None if self.begins(id)? => Section::Request,
            None => return Ok(()),
        };
        if section == Section::Request && self.streams.len() >= self.config.max_streams as usize {
            return self.stream_fault(id, code::REFUSED_STREAM, "too many streams");
        }
        let length = match fields::check(&headers, section) {
            Ok(_) if section == Section::Trailers && !block.end => {
                return self.stream_fault(id, code::PROTOCOL_ERROR, "headers come twice");
            }
            Ok(length) => length,
            Err(wrong) => {
                let reason = format!("malformed headers: {wrong}");
                return self.stream_fault(id, code::PROTOCOL_ERROR, &reason);
            }
        };
        match section {
            // What follows a request are trailers, which gRPC ignores.
            Section::Trailers if self.config.role == Role::Server => return self.remote_end(id),
            Section::Trailers => {}
            Section::Request => self.open(id, expected_of(&headers)),
            // Not the response yet (RFC 9113, 8.1).
            Section::Response if is_interim(&headers) => {
                return match block.end {
                    true => Err(self.fault(code::PROTOCOL_ERROR, "an interim response that ends")),
                    false => self.count_quiet(),
                };
            }
            Section::Response => {}
        }
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        if section != Section::Trailers {
            stream.begun = true;
            stream.content_length = length;
        }
        // Of an error status nobody asks that the messages be whole.
        if block.end && !self.remote_closes(id, !is_error(&headers))? {
            return Ok(());
        }
        self.events.push_back(Event::Headers {
            stream: id,
            headers,
            end: block.end,
        });
        Ok(())
    }

    /// Headers on a stream that is not open. True: they open it; otherwise they are passed over.
    fn begins(&mut self, id: u32) -> Result<bool> {
        if !self.is_idle(id) {
            return self.pass_over(id).map(|()| false);
        }
        if self.config.role == Role::Client {
            return Err(self.fault(code::PROTOCOL_ERROR, "headers of no request"));
        }
        if id.is_multiple_of(2) {
            return Err(self.fault(code::PROTOCOL_ERROR, "a stream of the wrong number"));
        }
        self.last_peer_stream = id;
        Ok(true)
    }
}

fn is_interim(headers: &[Header]) -> bool {
    let status = headers.iter().find(|header| header.name == ":status");
    status.is_some_and(|header| header.value.len() == 3 && header.value.starts_with('1'))
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
