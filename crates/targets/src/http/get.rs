//! One stream of a get: its request is sent when the first batch is asked for.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use super::server::{one_line, packed, Server};
use crate::{Moved, Session, Tally};
use venturi_base::codec::coding::{Coding, Unpacker};
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::data::digest::digest;
use venturi_base::data::payload::payload_bytes;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{other_type, Client, Head, ARROW_STREAM};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

/// Reads without a whole batch after which another stream of the thread has its turn.
const IN_ONE_GO: usize = 256;
/// Bytes of an answer of another kind that are looked at.
const LOOKED_AT: usize = 4 << 10;

/// What the stream asks for.
pub struct Question {
    /// As it stands in the request.
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub coding: Coding,
    /// Bytes of a batch at most.
    pub limit: usize,
    pub checksum: bool,
    /// The trial's id, where the server can be told to stop.
    pub stop: Option<String>,
}

type Asking = Pin<Box<dyn Future<Output = (Client, Result<Head>)>>>;
type Stopping = Pin<Box<dyn Future<Output = Result<()>>>>;

enum State {
    Idle(Client),
    Asking(Asking),
    Reading(Client),
    /// All is here, or the rest is not wanted.
    Over,
}

pub struct Get {
    state: State,
    server: Arc<Server>,
    question: Question,
    reader: StreamReader,
    unpacker: Option<Unpacker>,
    /// Only the connection's end says where the body ends.
    open_ended: bool,
    handicap: Handicap,
    stopping: Option<Stopping>,
    /// Bytes of earlier connections and requests are not this stream's.
    before: u64,
    tally: Tally,
}

impl Get {
    pub fn new(
        client: Client,
        server: Arc<Server>,
        question: Question,
        handicap: Handicap,
    ) -> Self {
        Self {
            before: client.carried(),
            state: State::Idle(client),
            server,
            reader: StreamReader::new(question.limit),
            question,
            unpacker: None,
            open_ended: false,
            handicap,
            stopping: None,
            tally: Tally::default(),
        }
    }

    fn ask(&mut self, mut client: Client) -> State {
        let server = self.server.clone();
        let path = self.question.path.clone();
        let own = std::mem::take(&mut self.question.headers);
        let coding = self.question.coding.name().unwrap_or("identity");
        State::Asking(Box::pin(async move {
            let mut more = vec![("Accept", ARROW_STREAM), ("Accept-Encoding", coding)];
            more.extend(own.iter().map(|(name, value)| (*name, value.as_str())));
            let head = client.begin("GET", &path, &server.with(&more), b"").await;
            let head = match head {
                Ok(head) if head.status == 200 => Ok(head),
                Ok(head) => Err(server.refusal(&mut client, &head).await),
                Err(error) => Err(error),
            };
            let head = match head {
                Ok(head) => of_type(&mut client, head).await,
                Err(error) => Err(error),
            };
            (client, head)
        }))
    }

    /// An error while rows come in: where.
    fn at(&self, error: Error) -> Error {
        match error.message.contains(self.server.authority()) {
            true => error,
            false => error.context(format!(
                "{}: after {} rows",
                self.server.authority(),
                self.tally.rows
            )),
        }
    }

    /// Reads some of the body; false: that was all of it.
    fn poll_read(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<bool>> {
        let State::Reading(client) = &mut self.state else {
            return Poll::Ready(Ok(false));
        };
        let ended = self.reader.is_ended();
        let mut behind = [0; 1];
        let place = match ended {
            true => &mut behind[..],
            false => self.reader.room(),
        };
        let got = match &mut self.unpacker {
            None => {
                let got = client.poll_body(cx, place);
                clock.mark(Stage::Receive);
                match ready!(got)? {
                    0 => return Poll::Ready(Ok(false)),
                    got => got,
                }
            }
            Some(unpacker) => {
                if let Some(room) = unpacker.room() {
                    let got = client.poll_body(cx, room);
                    clock.mark(Stage::Receive);
                    match ready!(got)? {
                        0 => return Poll::Ready(unpacker.end().map(|()| false)),
                        got => unpacker.filled(got),
                    }
                }
                let got = unpacker.run(place)?;
                clock.mark(Stage::Unpack);
                got
            }
        };
        if ended && got > 0 {
            return Poll::Ready(Err(Error::protocol(
                "bytes follow the end of the Arrow stream",
            )));
        }
        if got > 0 {
            self.reader.filled(got)?;
        }
        Poll::Ready(Ok(true))
    }

    /// The body has ended; so must the stream have.
    fn end(&mut self) -> Result<()> {
        self.state = State::Over;
        let said = self.reader.is_ended();
        let whole = self.reader.is_between() && self.reader.schema().is_some();
        match said || (whole && !self.open_ended) {
            true => Ok(()),
            false => Err(Error::new(
                Kind::Lost,
                "the answer ended before the Arrow stream in it did",
            )),
        }
    }

    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        for _ in 0..IN_ONE_GO {
            match &mut self.state {
                State::Idle(_) => {
                    let State::Idle(client) = std::mem::replace(&mut self.state, State::Over)
                    else {
                        continue;
                    };
                    self.state = self.ask(client);
                }
                State::Asking(asking) => {
                    let answer = asking.as_mut().poll(cx);
                    clock.mark(Stage::Send);
                    if answer.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    let (client, head) = ready!(answer);
                    self.open_ended = client.is_open_ended();
                    self.state = State::Reading(client);
                    let coding = packed(&head?, self.question.coding)?;
                    self.unpacker = Unpacker::new(coding)?;
                }
                State::Reading(_) => {
                    let read = self.poll_read(cx, clock);
                    if let State::Reading(client) = &self.state {
                        self.tally.wire_bytes = client.carried() - self.before;
                    }
                    if read.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    if !ready!(read)? {
                        self.end()?;
                    } else if let Some(batch) = self.reader.take_ready() {
                        return Poll::Ready(self.arrived(&batch, clock).map(Some));
                    }
                }
                State::Over => return Poll::Ready(Ok(None)),
            }
        }
        cx.waker().wake_by_ref();
        clock.wait(Stage::AwaitThread);
        Poll::Pending
    }

    fn arrived(
        &mut self,
        batch: &arrow_array::RecordBatch,
        clock: &mut StageClock,
    ) -> Result<Moved> {
        let moved = Moved {
            rows: batch.num_rows() as u64,
            bytes: payload_bytes(batch),
        };
        self.handicap.burn(Stage::Decode);
        clock.mark(Stage::Decode);
        self.tally.rows += moved.rows;
        if self.question.checksum {
            self.tally.checksum = self.tally.checksum.wrapping_add(digest(batch)?);
            self.handicap.burn(Stage::Verify);
            clock.mark(Stage::Verify);
        }
        Ok(moved)
    }
}

/// An answer that says that it is something else, is.
async fn of_type(client: &mut Client, head: Head) -> Result<Head> {
    let Some(kind) = other_type(head.get("content-type").unwrap_or_default()) else {
        return Ok(head);
    };
    let said = client.start(LOOKED_AT).await.unwrap_or_default();
    Err(Error::new(
        Kind::Unsupported,
        format!(
            "the answer is {kind}, and no Arrow stream; it begins: {}",
            one_line(&said)
        ),
    ))
}

impl Session for Get {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let moved = ready!(self.poll_rows(cx, clock));
        Poll::Ready(moved.map_err(|error| self.at(error)))
    }

    /// Stopped early, a reference server is told so, and what is in flight is taken, so that both ends
    /// have counted the same; of any other the rest is dropped with the connection.
    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        if matches!(self.state, State::Over | State::Idle(_)) && self.stopping.is_none() {
            return Poll::Ready(Ok(()));
        }
        if let Some(trial) = self.question.stop.take() {
            let server = self.server.clone();
            self.stopping = Some(Box::pin(async move {
                server.ask("stop", &trial).await.map(|_| ())
            }));
        } else if self.stopping.is_none() {
            self.state = State::Over;
            return Poll::Ready(Ok(()));
        }
        let stopped = match &mut self.stopping {
            Some(stopping) => stopping.as_mut().poll(cx)?,
            None => Poll::Ready(()),
        };
        if stopped.is_ready() {
            // Polled no more; there still is one, so that nothing is asked for twice.
            self.stopping = Some(Box::pin(async { Ok(()) }));
        }
        while ready!(self.poll_batch(cx, clock))?.is_some() {}
        self.stopping = None;
        Poll::Ready(Ok(()))
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
