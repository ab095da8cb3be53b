//! A connection's state and its sending half; `read.rs` is the receiving half.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::stream::{Ending, Stream};
use super::wire::Wire;
use crate::codec::budget::Budget;
use crate::codec::chunk::{Chunk, SendQueue};
use crate::codec::flight::{Assembler, Expect, Message};
use crate::codec::frame::{self, code, flag, kind, setting, Frame};
use crate::codec::hpack::{self, Header};
use crate::codec::slab::Pool;
use crate::error::{Error, Kind, Result};
use crate::meter::sockets::{Sockets, Watch};
use crate::target::Route;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub role: Role,
    /// Flow-control window of the connection and of each stream, in bytes.
    pub window: u32,
    /// The largest gRPC message taken, in bytes.
    pub max_message: usize,
    /// Streams that a client may have open at once (server side).
    pub max_streams: u32,
}

impl Config {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            window: frame::MAX_WINDOW,
            max_message: 64 << 20,
            max_streams: 256,
        }
    }
}

/// What the peer did.
#[derive(Debug)]
pub enum Event {
    /// A request (server side), a response or trailers (client side).
    Headers {
        stream: u32,
        headers: Vec<Header>,
        end: bool,
    },
    Message {
        stream: u32,
        message: Message,
    },
    /// The peer will send no more on this stream.
    End {
        stream: u32,
    },
    Reset {
        stream: u32,
        code: u32,
    },
}

/// Why what is queued on a stream has not been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The socket takes no more.
    Output,
    /// The socket would: the window of the stream or of the connection is used up.
    Window,
}

/// Frames are gathered up to this many bytes before they are written: enough for one
/// system call to be worth it, little enough to stay in a core's cache.
const GATHER: usize = 256 << 10;
/// A request that carries no batches has no reason to be larger.
const REQUEST_LIMIT: usize = 16 << 20;
/// Slices in one `writev` (the kernel's limit is 1024).
const SLICES: usize = 128;

#[derive(Debug)]
pub struct Connection {
    /// Before the wire: fields are dropped in this order, and it reads the wire's socket.
    watched: Option<Watch>,
    pub(super) wire: Wire,
    /// Remembered: a broken socket no longer tells.
    peer: String,
    route: Option<Route>,
    pub(super) config: Config,
    pub(super) input: super::read::Input,
    pub(super) hpack: hpack::Decoder,
    pub(super) streams: BTreeMap<u32, Stream>,
    pub(super) events: VecDeque<Event>,
    pub(super) pool: Pool,
    budget: Option<Budget>,
    pub(super) next_stream: u32,
    pub(super) last_peer_stream: u32,
    /// What the peer allows on the whole connection, and on a new stream.
    pub(super) send_window: i64,
    pub(super) initial_send_window: i64,
    pub(super) max_frame: usize,
    pub(super) receive_window: i64,
    pub(super) consumed: u32,
    pub(super) resets: u32,
    /// Frames that moved nothing since the last one that did.
    pub(super) quiet: u32,
    /// Bytes of messages, both ways: what a peer that only keeps us busy does not move.
    pub(super) data_bytes: u64,
    pub(super) settings_acknowledged: bool,
    /// What the last answer to a PING of ours carried.
    pub(super) pong: Option<u64>,
    /// Frames ready to be written; `written` bytes of the first one are.
    out: VecDeque<Chunk>,
    out_bytes: usize,
    written: usize,
    /// Bytes written to the wire so far.
    sent_bytes: u64,
    /// The socket would not take all that there was when it was tried last.
    full: bool,
    /// The stream whose turn it is to send.
    turn: u32,
    pub(super) wire_bytes: u64,
}

impl Connection {
    /// Starts a connection: our preface and settings are queued, nothing is awaited.
    pub fn new(wire: Wire, config: Config) -> Self {
        let mut connection = Self {
            watched: None,
            peer: wire.peer(),
            route: wire.route(),
            wire,
            config,
            input: super::read::Input::new(config.role),
            hpack: hpack::Decoder::default(),
            streams: BTreeMap::new(),
            events: VecDeque::new(),
            pool: Pool::default(),
            budget: None,
            next_stream: 1,
            last_peer_stream: 0,
            send_window: i64::from(frame::DEFAULT_WINDOW),
            initial_send_window: i64::from(frame::DEFAULT_WINDOW),
            max_frame: frame::MIN_MAX_FRAME as usize,
            receive_window: i64::from(config.window.max(frame::DEFAULT_WINDOW)),
            consumed: 0,
            resets: 0,
            quiet: 0,
            data_bytes: 0,
            settings_acknowledged: false,
            pong: None,
            out: VecDeque::new(),
            out_bytes: 0,
            written: 0,
            sent_bytes: 0,
            full: false,
            turn: 0,
            wire_bytes: 0,
        };
        let mut hello = Vec::new();
        let mut settings = vec![
            (setting::INITIAL_WINDOW_SIZE, config.window),
            (setting::MAX_FRAME_SIZE, frame::MAX_MAX_FRAME),
            (
                setting::MAX_HEADER_LIST_SIZE,
                super::read::HEADER_LIMIT as u32,
            ),
        ];
        match config.role {
            Role::Client => {
                hello.extend_from_slice(frame::PREFACE);
                settings.push((setting::ENABLE_PUSH, 0));
            }
            Role::Server => settings.push((setting::MAX_CONCURRENT_STREAMS, config.max_streams)),
        }
        frame::write_settings(&settings, &mut hello);
        if config.window > frame::DEFAULT_WINDOW {
            frame::write_window_update(0, config.window - frame::DEFAULT_WINDOW, &mut hello);
        }
        connection.queue(Chunk::Small(hello));
        connection
    }

    /// Shares a bound on the messages that are coming in with other connections.
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Bytes read from and written to the wire.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    /// Bytes of messages moved so far, both ways, without what HTTP/2 itself says.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The addresses of both ends.
    pub fn route(&self) -> Option<Route> {
        self.route
    }

    /// The connection's socket is read with the trial's from here on, until the connection ends.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        if self
            .watched
            .as_ref()
            .is_some_and(|watch| watch.is_of(sockets))
        {
            return; // another stream of the trial on this connection
        }
        // SAFETY: a connection keeps its wire to its end, and drops the watch before it.
        self.watched = unsafe { sockets.watch(self.wire.socket().as_fd()) };
    }

    /// Opens a request (client side) and queues its headers.
    pub fn request(&mut self, headers: &[(String, Vec<u8>)], response: Expect) -> u32 {
        let id = self.next_stream;
        self.next_stream += 2;
        self.open(id, response);
        self.send_headers(id, headers);
        id
    }

    pub(super) fn open(&mut self, id: u32, expect: Expect) {
        let limit = match (self.config.role, expect) {
            (Role::Server, Expect::Other) => self.config.max_message.min(REQUEST_LIMIT),
            _ => self.config.max_message,
        };
        let assembler =
            Assembler::new(expect, limit, self.pool.clone()).within(self.budget.clone());
        // Until a client has seen our settings it may use the default window (6.9.2).
        let window = match self.settings_acknowledged || self.config.role == Role::Client {
            true => self.config.window,
            false => frame::DEFAULT_WINDOW,
        };
        let stream = Stream::new(assembler, self.initial_send_window, window);
        self.streams.insert(id, stream);
    }

    /// Queues a header block: a request's or a response's.
    pub fn send_headers(&mut self, stream: u32, headers: &[(String, Vec<u8>)]) {
        let mut block = Vec::new();
        for (name, value) in headers {
            hpack::encode(name, value, &mut block);
        }
        let mut bytes = Vec::new();
        frame::write_headers(stream, false, &block, self.max_frame, &mut bytes);
        self.queue(Chunk::Small(bytes));
    }

    /// Where a stream's messages are queued; `None` once the stream is over.
    pub fn send_queue(&mut self, stream: u32) -> Option<&mut SendQueue> {
        self.streams
            .get_mut(&stream)
            .filter(|stream| !stream.local_closed)
            .map(|stream| &mut stream.send)
    }

    /// Bytes of a stream, and of the connection's frames, that have not been written.
    pub fn unsent(&self, stream: u32) -> usize {
        self.out_bytes
            + self
                .streams
                .get(&stream)
                .map_or(0, |stream| stream.send.bytes())
    }

    /// What keeps the rest of a stream back, since it was tried last (`poll_event` and
    /// `poll_flush` try). `None`: nothing is left, or nothing keeps it.
    pub fn blocked(&self, stream: u32) -> Option<Blocked> {
        let stream = self.streams.get(&stream)?;
        let queued = stream.send.bytes() > 0;
        if self.full && (queued || stream.cut_to > self.sent_bytes) {
            return Some(Blocked::Output);
        }
        let closed = stream.send_window <= 0 || self.send_window <= 0;
        (queued && closed).then_some(Blocked::Window)
    }

    /// Whether all that was queued on a stream has been written.
    pub fn is_sent(&self, stream: u32) -> bool {
        self.streams
            .get(&stream)
            .is_none_or(|stream| stream.send.bytes() == 0 && stream.cut_to <= self.sent_bytes)
    }

    /// All that a stream sends has been cut into frames: where in the connection's output
    /// they end. They are written once `sent_bytes` has got there.
    pub fn end_of(&self, stream: u32) -> Option<u64> {
        let over = self
            .streams
            .get(&stream)
            .is_none_or(|stream| stream.local_closed);
        over.then_some(self.sent_bytes + self.out_bytes as u64)
    }

    /// Bytes written to the wire.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// The stream that has sent last.
    pub fn last_sender(&self) -> u32 {
        self.turn
    }

    /// Asks the peer for a sign of life that carries `number` back (RFC 9113, 6.7): `pong`
    /// tells when it is there. Whoever polls for events reads it.
    pub fn ping(&mut self, number: u64) {
        let mut bytes = Vec::new();
        frame::write(kind::PING, 0, 0, &number.to_be_bytes(), &mut bytes);
        self.queue(Chunk::Small(bytes));
    }

    pub fn pong(&self) -> Option<u64> {
        self.pong
    }

    /// Ends a request after what is queued.
    pub fn end(&mut self, stream: u32) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.ending = Ending::EndStream;
        }
    }

    /// Ends a response with these trailers after what is queued.
    pub fn end_with(&mut self, stream: u32, trailers: &[(String, Vec<u8>)]) {
        let mut block = Vec::new();
        for (name, value) in trailers {
            hpack::encode(name, value, &mut block);
        }
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.ending = Ending::Trailers(block);
        }
    }

    /// Gives a stream up; both sides forget it.
    pub fn reset(&mut self, stream: u32, code: u32) {
        if self.streams.remove(&stream).is_some() {
            let mut bytes = Vec::new();
            frame::write(kind::RST_STREAM, 0, stream, &code.to_be_bytes(), &mut bytes);
            self.queue(Chunk::Small(bytes));
        }
    }

    /// Tells the peer that this connection ends.
    pub fn go_away(&mut self, code: u32, reason: &str) {
        let mut payload = self.last_peer_stream.to_be_bytes().to_vec();
        payload.extend_from_slice(&code.to_be_bytes());
        payload.extend_from_slice(reason.as_bytes());
        let mut bytes = Vec::new();
        frame::write(kind::GOAWAY, 0, 0, &payload, &mut bytes);
        self.queue(Chunk::Small(bytes));
    }

    pub(super) fn queue(&mut self, chunk: Chunk) {
        self.out_bytes += chunk.len();
        self.out.push_back(chunk);
    }

    /// Frames waiting although the peer should have taken them: it does not read.
    pub fn is_congested(&self) -> bool {
        self.out_bytes > 4 * GATHER + self.max_frame
    }

    /// Cuts what the streams have queued into frames, as far as the windows allow.
    fn gather(&mut self) {
        while self.out_bytes < GATHER {
            let Some(id) = self.next_sender() else { return };
            self.turn = id;
            self.cut_frame(id);
        }
    }

    /// The next stream, in turn, that can send something now.
    fn next_sender(&self) -> Option<u32> {
        let can_send = |stream: &Stream| {
            !stream.local_closed
                && if stream.send.bytes() > 0 {
                    stream.send_window > 0 && self.send_window > 0
                } else {
                    stream.ending != Ending::Open
                }
        };
        let after = self.streams.range(self.turn + 1..);
        let before = self.streams.range(..=self.turn);
        after
            .chain(before)
            .find(|(_, stream)| can_send(stream))
            .map(|(id, _)| *id)
    }

    fn cut_frame(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let length = stream
            .send
            .bytes()
            .min(self.max_frame)
            .min(stream.send_window.min(self.send_window).max(0) as usize);
        let last = length == stream.send.bytes();
        let end = last && stream.ending == Ending::EndStream;
        if length > 0 || end {
            let frame = Frame {
                length,
                kind: kind::DATA,
                flags: if end { flag::END_STREAM } else { 0 },
                stream: id,
            };
            self.out.push_back(Chunk::Header(frame.header()));
            let mut left = length;
            while let Some(chunk) = (left > 0).then(|| stream.send.pop(left)).flatten() {
                left -= chunk.len();
                self.out.push_back(chunk);
            }
            self.out_bytes += frame::HEADER + length;
            if length > 0 {
                self.data_bytes += length as u64;
                self.quiet = 0;
            }
            stream.send_window -= length as i64;
            self.send_window -= length as i64;
            stream.local_closed |= end;
        }
        if last {
            if let Ending::Trailers(block) = &stream.ending {
                let mut bytes = Vec::new();
                frame::write_headers(id, true, block, self.max_frame, &mut bytes);
                stream.local_closed = true;
                if !stream.remote_closed {
                    // An answer that did not wait for the whole request: the rest of it is
                    // not wanted (RFC 9113, 8.1), and the stream must not stay half open.
                    stream.remote_closed = true;
                    let code = code::NO_ERROR.to_be_bytes();
                    frame::write(kind::RST_STREAM, 0, id, &code, &mut bytes);
                }
                self.out_bytes += bytes.len();
                self.out.push_back(Chunk::Small(bytes));
            }
        }
        stream.cut_to = self.sent_bytes + self.out_bytes as u64;
        if stream.is_over() {
            self.streams.remove(&id);
        }
    }

    /// Writes as much as the socket takes. Ready: nothing that may be sent is left.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = self.flush(cx);
        self.full = flushed.is_pending();
        flushed
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            self.gather();
            if self.out.is_empty() {
                return match self.wire.poll_flush(cx) {
                    Poll::Ready(result) => {
                        Poll::Ready(result.map_err(|error| self.lost("writing to", &error)))
                    }
                    Poll::Pending => Poll::Pending,
                };
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.out) {
                let skip = if count == 0 { self.written } else { 0 };
                *slice = IoSlice::new(&chunk.as_slice()[skip..]);
                count += 1;
            }
            match self.wire.poll_write(cx, &slices[..count]) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => {
                    let closed = std::io::ErrorKind::WriteZero.into();
                    return Poll::Ready(Err(self.lost("writing to", &closed)));
                }
                Poll::Ready(Ok(bytes)) => self.advance(bytes),
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(self.lost("writing to", &error)))
                }
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.wire_bytes += bytes as u64;
        self.sent_bytes += bytes as u64;
        self.out_bytes -= bytes;
        let mut left = self.written + bytes;
        while let Some(front) = self.out.front() {
            if left < front.len() {
                break;
            }
            left -= front.len();
            self.out.pop_front();
        }
        self.written = left;
    }

    pub(super) fn lost(&self, what: &str, error: &std::io::Error) -> Error {
        Error::new(Kind::Lost, format!("{what} {}: {error}", self.peer))
    }

    /// A fault of the peer's: told to it and to the caller.
    pub(super) fn fault(&mut self, code: u32, reason: impl Into<String>) -> Error {
        let reason = reason.into();
        self.go_away(code, &reason);
        Error::protocol(format!("{}: {reason}", self.peer))
    }
}
