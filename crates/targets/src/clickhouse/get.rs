//! One stream of a get: its statement is sent when the first batch is asked for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;

use super::feed::Feed;
use super::server::{exception_at_end, parse_exception, Server};
use crate::read::{wrapped, Summed};
use crate::{Moved, Session, Tally};
use venturi_base::codec::coding::{Coding, Unpacker};
use venturi_base::data::payload_bytes;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{Client, Head};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::sockets::Sockets;

/// Bytes at the end of a body in which an exception is looked for.
const TAIL: usize = 8 << 10;
/// Bytes behind what is not understood, in which it is looked for too.
const BEHIND: usize = 64 << 10;

/// How the stream asks.
pub struct Question {
    pub path: String,
    /// `None`: there is nothing for this stream.
    pub statement: Option<String>,
    /// The body comes compressed by HTTP.
    pub zstd: bool,
}

type Asking = Pin<Box<dyn Future<Output = (Client, Result<Head>)>>>;

enum State {
    Idle(Client),
    Asking(Asking),
    Reading(Client),
    /// All bytes are there.
    Drained,
    Gone,
}

pub struct Get {
    state: State,
    server: Arc<Server>,
    question: Question,
    feed: Feed,
    unpack: Option<Unpacker>,
    tail: Vec<u8>,
    /// What was not understood, and so many bytes were read behind it: an exception in place of
    /// rows is not whole yet when its first bytes are taken for rows.
    broken: Option<(Error, usize)>,
    summed: Option<Arc<Summed>>,
    tally: Tally,
}

impl Get {
    pub fn new(
        mut client: Client,
        sockets: &Arc<Sockets>,
        server: Arc<Server>,
        question: Question,
        feed: Feed,
        summed: Option<Arc<Summed>>,
    ) -> Self {
        client.watch(sockets);
        Self {
            state: State::Idle(client),
            server,
            question,
            feed,
            unpack: None,
            tail: Vec::new(),
            broken: None,
            summed,
            tally: Tally::default(),
        }
    }

    fn ask(&mut self, mut client: Client, statement: String) -> State {
        let server = self.server.clone();
        let path = self.question.path.clone();
        let zstd = self.question.zstd;
        State::Asking(Box::pin(async move {
            let mut headers = server.headers();
            if zstd {
                headers.push(("Accept-Encoding", "zstd"));
            }
            let head = client
                .begin("POST", &path, &headers, statement.as_bytes())
                .await;
            let head = match head {
                Ok(head) if head.status == 200 => Ok(head),
                Ok(head) => Err(server.refusal(&mut client, &head).await),
                Err(error) => Err(error),
            };
            (client, head)
        }))
    }

    /// The body may come packed, or not, as the server likes.
    fn begin(&mut self, head: &Head) -> Result<()> {
        self.unpack = match head.get("content-encoding") {
            None | Some("identity") if self.question.zstd => {
                return Err(Error::protocol(format!(
                    "{}: the server does not compress its answers with zstd: compression none",
                    self.server.authority()
                )));
            }
            None | Some("identity") => None,
            Some("zstd") => Unpacker::new(Coding::Zstd)?,
            Some(other) => {
                return Err(Error::protocol(format!(
                    "{}: an answer in content-encoding {other}, which nobody asked for",
                    self.server.authority()
                )));
            }
        };
        Ok(())
    }

    /// An error while rows come in: what the server said about it goes before what it did to us.
    fn explain(&self, error: Error) -> Error {
        let text = String::from_utf8_lossy(&self.tail);
        let place = format!(
            "{}: after {} rows",
            self.server.authority(),
            self.tally.rows
        );
        match parse_exception(&text) {
            Some(said) if matches!(error.kind, Kind::Protocol | Kind::Lost | Kind::Memory) => {
                said.context(place)
            }
            _ if error.message.starts_with(self.server.authority()) => error,
            _ => error.context(place),
        }
    }

    /// Reads some of the body; false: that was all.
    fn poll_read(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<bool>> {
        let State::Reading(client) = &mut self.state else {
            return Poll::Ready(Ok(false));
        };
        if let Some((error, behind)) = self.broken.take() {
            let mut rest = [0; 4096];
            let got = match client.poll_body(cx, &mut rest) {
                Poll::Pending => {
                    self.broken = Some((error, behind));
                    return Poll::Pending;
                }
                Poll::Ready(got) => got.unwrap_or(0),
            };
            keep_tail(&mut self.tail, &rest[..got]);
            if got > 0 && behind + got < BEHIND {
                self.broken = Some((error, behind + got));
                return Poll::Ready(Ok(true));
            }
            return Poll::Ready(Err(exception_at_end(&self.tail).unwrap_or(error)));
        }
        if let Some(unpack) = &mut self.unpack {
            if let Some(room) = unpack.room() {
                match ready!(client.poll_body(cx, room))? {
                    0 => return Poll::Ready(unpack.end().map(|()| false)),
                    got => unpack.filled(got),
                }
            }
            let out = self.feed.room()?;
            clock.mark(Stage::Receive);
            let filled = unpack.run(out)?;
            clock.mark(Stage::Unpack);
            keep_tail(&mut self.tail, &out[..filled]);
            self.feed.filled(filled)?;
            return Poll::Ready(Ok(true));
        }
        let room = self.feed.room()?;
        if room.is_empty() {
            // Behind the end of an Arrow stream nothing but an exception may follow.
            let mut rest = [0; 4096];
            let got = ready!(client.poll_body(cx, &mut rest))?;
            keep_tail(&mut self.tail, &rest[..got]);
            return Poll::Ready(Ok(got > 0));
        }
        let got = ready!(client.poll_body(cx, room))?;
        keep_tail(&mut self.tail, &room[..got]);
        if let Err(error) = self.feed.filled(got) {
            self.broken = Some((error, 0));
        }
        Poll::Ready(Ok(got > 0))
    }

    /// The next batch of what is there.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.broken.is_some() {
            return Ok(None);
        }
        match self.feed.next_batch() {
            // Of packed bytes the text lies in what is unpacked already.
            Err(error) if self.unpack.is_none() && matches!(self.state, State::Reading(_)) => {
                self.broken = Some((error, 0));
                Ok(None)
            }
            found => found,
        }
    }

    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        loop {
            match &mut self.state {
                State::Idle(_) => {
                    let State::Idle(client) = std::mem::replace(&mut self.state, State::Gone)
                    else {
                        continue;
                    };
                    self.state = match self.question.statement.take() {
                        Some(statement) => self.ask(client, statement),
                        None => State::Drained,
                    };
                }
                State::Asking(asking) => {
                    let answer = asking.as_mut().poll(cx);
                    clock.mark(Stage::Send);
                    if answer.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    let (client, head) = ready!(answer);
                    self.state = State::Reading(client);
                    self.begin(&head?)?;
                }
                State::Reading(_) | State::Drained => {
                    if let Some(batch) = self.next()? {
                        clock.mark(Stage::Decode);
                        let moved = Moved {
                            rows: batch.num_rows() as u64,
                            bytes: payload_bytes(&batch),
                        };
                        self.tally.rows += moved.rows;
                        if let Some(summed) = self.summed.as_ref() {
                            match summed.of(&batch) {
                                Some(sums) => {
                                    for (sum, more) in self.tally.sums.iter_mut().zip(sums) {
                                        *sum = wrapped(*sum + more);
                                    }
                                }
                                None => {
                                    return Poll::Ready(Err(Error::protocol(
                                        "a column came in another Arrow type than ClickHouse's own type lets expect: verify count, or another format",
                                    )))
                                }
                            }
                            clock.mark(Stage::Verify);
                        }
                        return Poll::Ready(Ok(Some(moved)));
                    }
                    if matches!(self.state, State::Drained) {
                        return Poll::Ready(Ok(None));
                    }
                    clock.mark(Stage::Decode);
                    let read = self.poll_read(cx, clock);
                    clock.mark(Stage::Receive);
                    if let State::Reading(client) = &self.state {
                        self.tally.wire_bytes = client.carried();
                    }
                    if read.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    if !ready!(read)? {
                        if let Some(error) = exception_at_end(&self.tail) {
                            return Poll::Ready(Err(error));
                        }
                        self.feed.end()?;
                        self.state = State::Drained;
                    }
                }
                State::Gone => return Poll::Ready(Ok(None)),
            }
        }
    }
}

impl Session for Get {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let moved = ready!(self.poll_rows(cx, clock));
        Poll::Ready(moved.map_err(|error| self.explain(error)))
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        // Stopped early, the rest is dropped with the connection, which ends the query.
        self.state = State::Gone;
        clock.mark(Stage::Receive);
        Poll::Ready(Ok(()))
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// Keeps the last bytes of a body.
fn keep_tail(tail: &mut Vec<u8>, piece: &[u8]) {
    if piece.len() >= TAIL {
        tail.clear();
        tail.extend_from_slice(&piece[piece.len() - TAIL..]);
        return;
    }
    let over = (tail.len() + piece.len()).saturating_sub(2 * TAIL);
    if over > 0 {
        // Seldom: twice as much is kept.
        tail.drain(..tail.len().min(over + TAIL));
    }
    tail.extend_from_slice(piece);
}
