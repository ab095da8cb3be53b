//! One stream of a Flight trial: a put, by `DoPut`.

use std::task::{ready, Context, Poll};
use std::time::{Duration, Instant};

use super::call::Link;
use super::get::IN_ONE_GO;
use super::options::Ack;
use super::reply::Reply;
use crate::{Moved, Session, Tally};
use venturi_base::codec::flight::{queue_flight_data, Expect, Message, Parts};
use venturi_base::codec::ipc::{Encoded, Encoder};
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Result};
use venturi_base::http2::Event;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

/// A put's batch counts as handed over when no more than this is left to write: batches so
/// small share a system call, and the batch that makes it bears its time; a large one waits
/// for its own bytes.
const LOW_WATER: usize = 128 << 10;

/// Small batches gather for so long, and leave with the first batch that is made after it.
/// There is no timer: a batch that is long in the making, or the turns of the thread's other
/// streams, keep them for longer.
const GATHERS_FOR: Duration = Duration::from_millis(1);

pub struct PutSession {
    link: Link,
    headers: Vec<(String, Vec<u8>)>,
    descriptor: Vec<u8>,
    encoder: Encoder,
    cursor: Cursor,
    checksum: bool,
    ack: Ack,
    stream: Option<u32>,
    reply: Reply,
    over: bool,
    /// From then on the next batch takes along those that have gathered; `None`: each leaves at once.
    gathers: Option<Instant>,
    /// The batch in flight: queued, not yet handed over or acknowledged.
    moving: Option<Moved>,
    sent: u64,
    acknowledged: u64,
    /// What the server said last.
    answer: Vec<u8>,
    tally: Tally,
    /// It has left the connection, and has told its wire bytes.
    left: bool,
    encoded: Vec<Encoded>,
    ending: bool,
    handicap: Handicap,
}

impl PutSession {
    pub fn new(
        link: Link,
        headers: Vec<(String, Vec<u8>)>,
        descriptor: Vec<u8>,
        encoder: Encoder,
        cursor: Cursor,
        checksum: bool,
        ack: Ack,
    ) -> Self {
        Self {
            link,
            headers,
            descriptor,
            encoder,
            cursor,
            checksum,
            ack,
            stream: None,
            reply: Reply::default(),
            over: false,
            gathers: None,
            moving: None,
            sent: 0,
            acknowledged: 0,
            answer: Vec::new(),
            tally: Tally::default(),
            left: false,
            encoded: Vec::new(),
            ending: false,
            handicap: Handicap::default(),
        }
    }

    /// With a handicap.
    pub fn slowed(mut self, handicap: Handicap) -> Self {
        self.handicap = handicap;
        self
    }

    /// Small batches share a system call. Not for one that a schedule sends, which may have to
    /// wait for the next one.
    pub fn gathering(mut self) -> Self {
        self.gathers = Some(Instant::now());
        self
    }

    /// The last batch may wait for the next one.
    fn may_wait(&self, stream: u32, now: Instant) -> bool {
        self.ack == Ack::Stream
            && self.gathers.is_some_and(|until| now < until)
            && !self.cursor.is_spent()
            && self.link.unsent(stream) <= LOW_WATER
    }

    fn begin(&mut self) -> Result<u32> {
        let stream = self.link.call("DoPut", &self.headers, Expect::Other)?;
        self.stream = Some(stream);
        let schema = self.encoder.schema_message();
        let parts = Parts {
            descriptor: Some(&self.descriptor),
            header: &schema.header,
            metadata: &[],
        };
        self.link.queue(stream, |queue| {
            queue_flight_data(parts, schema.body.into_iter(), schema.body_length, queue)
        })?;
        Ok(stream)
    }

    /// Encodes and queues the next batch; `None`: there is no more.
    fn queue_next(&mut self, stream: u32, clock: &mut StageClock) -> Result<Option<Moved>> {
        let Some(item) = self.cursor.next() else {
            return Ok(None);
        };
        let moved = Moved {
            rows: item.rows,
            bytes: item.payload,
        };
        // Ready-made batches and remembered digests cost nothing worth a look at the clock.
        self.handicap.slow(Stage::Generate, clock);
        if self.checksum {
            self.tally.checksum = self.tally.checksum.wrapping_add(item.digest()?);
            self.handicap.slow(Stage::Verify, clock);
        }
        self.encoder.encode(item.batch(), &mut self.encoded)?;
        self.tally.rows += moved.rows;
        self.sent += 1;
        let number = self.sent.to_le_bytes();
        let last = self.encoded.len().saturating_sub(1);
        for (k, encoded) in self.encoded.drain(..).enumerate() {
            let metadata: &[u8] = if self.ack == Ack::Batch && k == last {
                &number
            } else {
                &[]
            };
            let parts = Parts {
                header: &encoded.header,
                metadata,
                ..Parts::default()
            };
            let (body, length) = (encoded.body, encoded.body_length);
            self.link.queue(stream, |queue| {
                queue_flight_data(parts, body.into_iter(), length, queue)
            })?;
        }
        Ok(Some(moved))
    }

    /// Reads what the server has to say, writing on the way; Pending is the normal answer.
    fn poll_server(&mut self, stream: u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        for _ in 0..IN_ONE_GO {
            if self.over {
                return Poll::Ready(Ok(()));
            }
            match ready!(self.link.poll_event(stream, cx))? {
                Event::Message { message, .. } => {
                    self.acknowledged += 1;
                    if let Message::Other(answer) = message {
                        self.answer = answer;
                    }
                }
                event => self.over = self.reply.event(event)?,
            }
            if self.ack == Ack::Batch && self.acknowledged >= self.sent && !self.ending {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The last `PutResult` that came; none is empty.
    pub fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// The server has ended the call before all was sent: why, if it says so.
    fn poll_refusal(&mut self, stream: u32, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_server(stream, cx))?;
        Poll::Ready(Err(Error::protocol(
            "the server ended the stream before all was sent",
        )))
    }
}

impl Session for PutSession {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let stream = match self.stream {
            Some(stream) => stream,
            None => self.begin()?,
        };
        if self.moving.is_none() {
            if !self.link.is_open(stream) {
                clock.wait(Stage::AwaitReply);
                ready!(self.poll_refusal(stream, cx))?;
            }
            self.moving = match self.queue_next(stream, clock)? {
                Some(moved) => Some(moved),
                None => return Poll::Ready(Ok(None)),
            };
            self.handicap.burn(Stage::Encode);
            let now = clock.mark(Stage::Encode);
            if self.may_wait(stream, now) {
                return Poll::Ready(Ok(self.moving.take()));
            }
        }
        let server = self.poll_server(stream, cx);
        let now = clock.mark(Stage::Send);
        self.gathers = self.gathers.map(|_| now + GATHERS_FOR);
        if let Poll::Ready(result) = server {
            result?;
            return Poll::Ready(Err(Error::protocol(
                "the server ended the stream before all was sent",
            )));
        }
        let done = match self.ack {
            Ack::Stream => self.link.unsent(stream) <= LOW_WATER,
            Ack::Batch => self.acknowledged >= self.sent,
        };
        if done {
            return Poll::Ready(Ok(self.moving.take()));
        }
        let room = match self.ack {
            Ack::Stream => LOW_WATER,
            Ack::Batch => 0,
        };
        clock.wait(self.link.awaits_output(stream, room));
        Poll::Pending
    }

    fn is_spent(&self) -> bool {
        self.cursor.is_spent()
    }

    fn idle(&mut self) {
        if let Some(stream) = self.stream {
            self.link.idle(stream);
        }
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        let Some(stream) = self.stream else {
            return Poll::Ready(Ok(()));
        };
        if !self.ending {
            self.ending = true;
            self.link.end(stream);
        }
        let server = self.poll_server(stream, cx);
        clock.mark(Stage::Send);
        let Poll::Ready(server) = server else {
            clock.wait(self.link.awaits_output(stream, 0));
            return Poll::Pending;
        };
        server?;
        self.link.forget(stream);
        if !std::mem::replace(&mut self.left, true) {
            self.tally.wire_bytes = self.link.leave();
        }
        Poll::Ready(Ok(()))
    }

    fn progress(&self) -> u64 {
        self.link.data_bytes()
    }

    fn tally(&self) -> Tally {
        let mut tally = self.tally;
        if !self.left {
            tally.wire_bytes = self.link.wire_share();
        }
        tally
    }
}

impl Drop for PutSession {
    /// Those that share the connection go on without it.
    fn drop(&mut self) {
        if let Some(stream) = self.stream.filter(|_| !self.left) {
            self.link.cancel(stream);
        }
    }
}
