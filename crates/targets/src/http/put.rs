//! One stream of a put: one request, acknowledged by its answer.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use serde::Deserialize;

use super::options::Body;
use super::server::Server;
use crate::{Moved, Session, Tally};
use venturi_base::codec::coding::Coding;
use venturi_base::codec::ipc::{Compression, Encoded, Encoder};
use venturi_base::codec::ipc_queue::Queue;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{Client, Framing, Head, ARROW_STREAM};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

/// A batch counts as handed over when no more than this is left to write; a large one waits for its
/// own bytes.
const LOW_WATER: usize = 128 << 10;
/// Of an answer that is read.
const MOST_ANSWER: usize = 64 << 10;
/// Compressed bytes of a body that is made before it is sent.
const MOST_AHEAD: usize = 4 << 30;

/// How the stream asks.
pub struct Question {
    pub method: &'static str,
    /// As it stands in the request.
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub coding: Coding,
    pub compression: Compression,
    pub body: Body,
    pub checksum: bool,
}

/// What servers said that they took, over all streams of this process.
#[derive(Debug, Default)]
pub struct Acknowledged {
    pub streams: AtomicU64,
    pub rows: AtomicU64,
}

/// The part of an answer that is held against what was sent, where a server has it.
#[derive(Deserialize)]
struct Taken {
    rows: u64,
}

type Opening = Pin<Box<dyn Future<Output = (Client, Result<bool>)>>>;
type Answering = Pin<Box<dyn Future<Output = (Client, Result<(Head, Vec<u8>)>)>>>;

enum State {
    Idle(Client),
    Opening(Opening),
    Sending(Client),
    Answering(Answering),
    Over,
}

pub struct Put {
    state: State,
    server: Arc<Server>,
    question: Question,
    cursor: Cursor,
    encoder: Encoder,
    encoded: Vec<Encoded>,
    queue: Queue,
    /// Batches that are queued and not handed over, each with the bytes that are left when it is.
    moving: VecDeque<(Moved, usize)>,
    ended: bool,
    handicap: Handicap,
    acknowledged: Arc<Acknowledged>,
    before: u64,
    tally: Tally,
}

impl Put {
    pub fn new(
        client: Client,
        server: Arc<Server>,
        question: Question,
        cursor: Cursor,
        handicap: Handicap,
        acknowledged: Arc<Acknowledged>,
    ) -> Result<Self> {
        let encoder = Encoder::new(&cursor.source().schema(), question.compression)?;
        let chunked = question.body == Body::Chunked;
        let mut queue = Queue::http(chunked, question.coding)?;
        queue.push(encoder.schema_message())?;
        Ok(Self {
            before: client.carried(),
            state: State::Idle(client),
            server,
            question,
            cursor,
            encoder,
            encoded: Vec::new(),
            queue,
            moving: VecDeque::new(),
            ended: false,
            handicap,
            acknowledged,
            tally: Tally::default(),
        })
    }

    /// Encodes and queues the next batch; false: there is no more.
    fn queue_next(&mut self, clock: &mut StageClock) -> Result<bool> {
        let Some(item) = self.cursor.next() else {
            return Ok(false);
        };
        let moved = Moved {
            rows: item.rows,
            bytes: item.payload,
        };
        self.handicap.slow(Stage::Generate, clock);
        if self.question.checksum {
            self.tally.checksum = self.tally.checksum.wrapping_add(item.digest()?);
            self.handicap.slow(Stage::Verify, clock);
        }
        self.encoder.encode(item.batch(), &mut self.encoded)?;
        for message in self.encoded.drain(..) {
            self.queue.push(message)?;
        }
        self.tally.rows += moved.rows;
        self.handicap.burn(Stage::Encode);
        clock.mark(Stage::Encode);
        self.moving.push_back((moved, self.queue.bytes()));
        Ok(true)
    }

    /// The whole body, whose length is said before it is sent.
    fn queue_all(&mut self, clock: &mut StageClock) -> Result<u64> {
        let owned = self.question.coding != Coding::Identity
            || self.question.compression != Compression::None;
        while self.queue_next(clock)? {
            if owned && self.queue.bytes() > MOST_AHEAD {
                return Err(Error::new(
                    Kind::Memory,
                    format!("body = \"length\": a compressed body of more than {MOST_AHEAD} bytes is made before it is sent; take fewer rows per stream, or body = \"chunked\""),
                ));
            }
        }
        self.end()?;
        let whole = self.queue.bytes();
        // From bytes before its end to bytes behind it.
        for (_, left) in &mut self.moving {
            *left = whole - *left;
        }
        Ok(whole as u64)
    }

    fn end(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.ended, true) {
            true => Ok(()),
            false => self.queue.end(),
        }
    }

    fn open(&mut self, mut client: Client, framing: Framing) -> State {
        let server = self.server.clone();
        let (method, path) = (self.question.method, self.question.path.clone());
        let own = std::mem::take(&mut self.question.headers);
        let coding = self.question.coding.name();
        State::Opening(Box::pin(async move {
            let mut more = vec![("Content-Type", ARROW_STREAM)];
            more.extend(coding.map(|name| ("Content-Encoding", name)));
            more.extend(own.iter().map(|(name, value)| (*name, value.as_str())));
            let headers = server.with(&more);
            let opened = client.open(method, &path, &headers, framing).await;
            (client, opened)
        }))
    }

    fn answer(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Over);
        let State::Sending(mut client) = state else {
            self.state = state;
            return;
        };
        self.state = State::Answering(Box::pin(async move {
            let answer = async {
                let head = client.answer().await?;
                let body = client.start(MOST_ANSWER).await?;
                Ok((head, body))
            };
            let answer = answer.await;
            (client, answer)
        }));
    }

    /// Until the request's head is sent. True: the body may follow.
    fn poll_open(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        loop {
            match &mut self.state {
                State::Idle(_) => {
                    let framing = match self.question.body {
                        Body::Chunked => Framing::Chunked,
                        Body::Length => Framing::Length(self.queue_all(clock)?),
                    };
                    let state = std::mem::replace(&mut self.state, State::Over);
                    let State::Idle(client) = state else { continue };
                    self.state = self.open(client, framing);
                }
                State::Opening(opening) => {
                    let opened = opening.as_mut().poll(cx);
                    clock.mark(Stage::Send);
                    if opened.is_pending() {
                        clock.wait(Stage::AwaitOutput);
                    }
                    let (client, opened) = ready!(opened);
                    self.state = State::Sending(client);
                    if !opened? {
                        self.answer();
                    }
                }
                State::Sending(_) | State::Answering(_) | State::Over => {
                    return Poll::Ready(Ok(()))
                }
            }
        }
    }

    /// Writes what is queued; an early answer ends the stream.
    fn poll_write(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        let State::Sending(client) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        let written = client.poll_queue(cx, &mut self.queue);
        clock.mark(Stage::Send);
        self.tally.wire_bytes = client.carried() - self.before;
        match written {
            Poll::Ready(Ok(true)) => Poll::Ready(Ok(())),
            Poll::Ready(Ok(false)) => {
                self.answer();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                clock.wait(Stage::AwaitOutput);
                Poll::Pending
            }
        }
    }

    /// The server's answer, which must say that it took all.
    fn poll_answer(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        let State::Answering(answering) = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        let answered = answering.as_mut().poll(cx);
        if answered.is_pending() {
            clock.mark(Stage::Send);
            clock.wait(Stage::AwaitReply);
        }
        let (client, answer) = ready!(answered);
        clock.mark(Stage::AwaitReply);
        self.state = State::Over;
        self.tally.wire_bytes = client.carried() - self.before;
        let (head, body) = answer?;
        if !(200..300).contains(&head.status) {
            return Poll::Ready(Err(self.server.refused(&head, &body)));
        }
        if !self.ended || !self.queue.is_empty() {
            return Poll::Ready(Err(Error::protocol(
                "the server answered before all was sent",
            )));
        }
        let Ok(taken) = serde_json::from_slice::<Taken>(&body) else {
            return Poll::Ready(Ok(()));
        };
        self.acknowledged.streams.fetch_add(1, Ordering::Relaxed);
        self.acknowledged
            .rows
            .fetch_add(taken.rows, Ordering::Relaxed);
        if taken.rows != self.tally.rows {
            return Poll::Ready(Err(Error::new(
                Kind::Verification,
                format!(
                    "the server says that it took {} rows, and {} were sent",
                    taken.rows, self.tally.rows
                ),
            )));
        }
        Poll::Ready(Ok(()))
    }

    /// The first batch, if it is handed over.
    fn handed_over(&mut self) -> Option<Moved> {
        let left = self.queue.bytes();
        let room = match self.question.body {
            Body::Chunked => LOW_WATER,
            Body::Length => self.moving.front()?.1,
        };
        match left <= room {
            true => self.moving.pop_front().map(|(moved, _)| moved),
            false => None,
        }
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        ready!(self.poll_open(cx, clock))?;
        if self.moving.is_empty() && (self.ended || !self.queue_next(clock)?) {
            return Poll::Ready(Ok(None));
        }
        let written = self.poll_write(cx, clock);
        if let Poll::Ready(Err(error)) = written {
            return Poll::Ready(Err(error));
        }
        if matches!(self.state, State::Answering(_)) {
            ready!(self.poll_answer(cx, clock))?;
        }
        match self.handed_over() {
            Some(moved) => Poll::Ready(Ok(Some(moved))),
            None if written.is_pending() => Poll::Pending,
            None => Poll::Ready(Err(Error::protocol("the stream has ended before its rows"))),
        }
    }

    fn at(&self, error: Error) -> Error {
        match error.message.contains(self.server.authority()) {
            true => error,
            false => error.context(self.server.authority()),
        }
    }
}

impl Session for Put {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let moved = ready!(self.poll_next(cx, clock));
        Poll::Ready(moved.map_err(|error| self.at(error)))
    }

    fn is_spent(&self) -> bool {
        self.moving.is_empty() && (self.ended || self.cursor.is_spent())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        if matches!(self.state, State::Idle(_) | State::Over) {
            return Poll::Ready(Ok(()));
        }
        let mut finish = || {
            ready!(self.poll_open(cx, clock))?;
            self.end()?;
            ready!(self.poll_write(cx, clock))?;
            self.answer();
            self.poll_answer(cx, clock)
        };
        let finished = ready!(finish());
        Poll::Ready(finished.map_err(|error| self.at(error)))
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
