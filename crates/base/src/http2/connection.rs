//! A connection's state and what callers ask of it; `read.rs` is its receiving half, `send.rs`
//! its sending one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::closed::Closed;
use super::limit::RateLimit;
use super::stream::{Ending, Stream};
use crate::codec::budget::Budget;
use crate::codec::chunk::{Chunk, SendQueue};
use crate::codec::flight::{Assembler, Expect, Message};
use crate::codec::frame::{self, code, kind, setting};
use crate::codec::hpack::{self, Header};
use crate::codec::slab::Pool;
use crate::error::{Error, Kind, Result};
use crate::meter::sockets::{Metered, Sockets};
use crate::net::route::{Neighbour, Route};
use crate::net::wire::Wire;

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
        /// The farewell that it follows, in the peer's words.
        farewell: Option<String>,
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

/// A request that carries no batches has no reason to be larger.
const REQUEST_LIMIT: usize = 16 << 20;
/// Streams that a peer may open for nothing in a while, because it resets them or makes us
/// do so (CVE-2023-44487, CVE-2025-8671): as many as nghttp2 lets pass at once.
const RESETS: u32 = 1_000;
/// Frames without a byte of a message, one after the other, before a peer is taken for
/// an attack: PING, SETTINGS, empty DATA, resets...
const QUIET: u32 = 10_000;

#[derive(Debug)]
pub struct Connection {
    pub(super) wire: Metered<Wire>,
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
    /// Streams that the peer takes at a time.
    pub(super) most_streams: u32,
    /// The peer opens no more streams, as it said in these words.
    pub(super) leaving: Option<String>,
    pub(super) receive_window: i64,
    pub(super) consumed: u32,
    /// Streams that were opened for nothing.
    pub(super) resets: RateLimit,
    /// Frames that moved nothing since the last one that did.
    pub(super) quiet: RateLimit,
    pub(super) closed: Closed,
    /// The peer's first frame, its SETTINGS, has come.
    pub(super) greeted: bool,
    /// The peer wants a smaller header table than the default: the next header block has to
    /// say that we use none (RFC 7541, 4.2).
    pub(super) table_given_up: bool,
    /// Bytes of messages, both ways: what a peer that only keeps us busy does not move.
    pub(super) data_bytes: u64,
    pub(super) settings_acknowledged: bool,
    /// What the last answer to a PING of ours carried.
    pub(super) pong: Option<u64>,
    /// Frames ready to be written; `written` bytes of the first one are.
    pub(super) out: VecDeque<Chunk>,
    pub(super) out_bytes: usize,
    pub(super) written: usize,
    /// Bytes written to the wire so far.
    pub(super) sent_bytes: u64,
    /// Frames of our own queued since the output, of which the last byte then was this one, was
    /// marked.
    pub(super) answers: u32,
    pub(super) marked: u64,
    /// The socket would not take all that there was when it was tried last.
    pub(super) full: bool,
    /// The stream whose turn it is to send.
    pub(super) turn: u32,
    pub(super) wire_bytes: u64,
}

impl Connection {
    /// Starts a connection: our preface and settings are queued, nothing is awaited.
    pub fn new(wire: Wire, config: Config) -> Self {
        let mut connection = Self {
            peer: wire.peer(),
            route: wire.route(),
            wire: Metered::new(wire),
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
            most_streams: u32::MAX,
            leaving: None,
            receive_window: i64::from(config.window.max(frame::DEFAULT_WINDOW)),
            consumed: 0,
            resets: RateLimit::new(RESETS),
            quiet: RateLimit::new(QUIET),
            closed: Closed::default(),
            greeted: false,
            table_given_up: false,
            data_bytes: 0,
            settings_acknowledged: false,
            pong: None,
            out: VecDeque::new(),
            out_bytes: 0,
            written: 0,
            sent_bytes: 0,
            answers: 0,
            marked: 0,
            full: false,
            turn: 0,
            wire_bytes: 0,
        };
        let mut hello = Vec::new();
        let mut settings = vec![
            (setting::INITIAL_WINDOW_SIZE, config.window),
            (setting::MAX_FRAME_SIZE, super::read::DATA_LIMIT as u32),
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
    pub fn neighbour(&self) -> Option<Neighbour> {
        self.wire.neighbour()
    }

    pub fn route(&self) -> Option<Route> {
        self.route
    }

    /// The connection's socket is read with the trial's from here on, until the connection ends.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        self.wire.watch(sockets);
    }

    /// The peer takes no more streams on this connection: its GOAWAY lets those that are open end.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Whether the peer takes so many streams at a time, as far as it has said.
    pub fn takes(&self, streams: usize) -> Result<()> {
        if streams <= self.most_streams as usize {
            return Ok(());
        }
        let message = format!(
            "{} takes {} streams per connection: give each stream its connection (--connections per-stream), or take fewer streams",
            self.peer, self.most_streams
        );
        Err(Error::new(Kind::Unsupported, message))
    }

    /// The peer's SETTINGS have come: how many streams it takes is known.
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Opens a request (client side) and queues its headers; an error when the peer takes no more.
    pub fn request(&mut self, headers: &[(String, Vec<u8>)], response: Expect) -> Result<u32> {
        if let Some(farewell) = &self.leaving {
            return Err(Error::new(Kind::Lost, farewell));
        }
        self.takes(self.streams.len() + 1)?;
        let id = self.next_stream;
        self.next_stream += 2;
        self.open(id, response);
        self.send_headers(id, headers);
        Ok(id)
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
        let bytes = self.header_frames(stream, false, block);
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
        if let Some(by_peer) = self.streams.get(&stream).map(|stream| stream.remote_closed) {
            self.forget(stream, by_peer);
            self.say_reset(stream, code);
        }
    }

    pub(super) fn say_reset(&mut self, stream: u32, code: u32) {
        let mut bytes = Vec::new();
        frame::write(kind::RST_STREAM, 0, stream, &code.to_be_bytes(), &mut bytes);
        self.queue(Chunk::Small(bytes));
    }

    /// A stream is over; `by_peer`: the peer has ended its side, and may send no more on it.
    pub(super) fn forget(&mut self, stream: u32, by_peer: bool) {
        self.streams.remove(&stream);
        self.closed.remember(stream, by_peer);
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

    pub(super) fn lost(&self, what: &str, error: &std::io::Error) -> Error {
        Error::new(Kind::Lost, format!("{what} {}: {error}", self.peer))
    }

    /// A fault of the peer's: told to it and to the caller.
    pub(super) fn fault(&mut self, code: u32, reason: impl Into<String>) -> Error {
        let reason = reason.into();
        self.go_away(code, &reason);
        Error::protocol(format!("{}: {reason}", self.peer))
    }

    /// A fault of the peer's that concerns one stream (RFC 9113, 5.4.2). A server gives up that
    /// stream alone; a client the connection, so that its caller hears the reason.
    pub(super) fn stream_fault(&mut self, stream: u32, code: u32, reason: &str) -> Result<()> {
        if self.config.role == Role::Client {
            return Err(self.fault(code, reason));
        }
        self.count_reset()?;
        if let Some(by_peer) = self.streams.get(&stream).map(|stream| stream.remote_closed) {
            self.forget(stream, by_peer);
            let farewell = None;
            self.events.push_back(Event::Reset {
                stream,
                code,
                farewell,
            });
        } else {
            self.closed.remember(stream, false);
        }
        self.say_reset(stream, code);
        Ok(())
    }

    pub(super) fn count_reset(&mut self) -> Result<()> {
        match self.config.role == Role::Server && self.resets.exceeded() {
            true => Err(self.fault(
                code::ENHANCE_YOUR_CALM,
                "many streams that were opened and reset",
            )),
            false => Ok(()),
        }
    }

    pub(super) fn count_quiet(&mut self) -> Result<()> {
        match self.quiet.exceeded() {
            true => Err(self.fault(
                code::ENHANCE_YOUR_CALM,
                "many thousand frames without any data",
            )),
            false => Ok(()),
        }
    }
}
