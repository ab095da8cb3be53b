//! One partition of the trial's query: a connection that is read, blocks that are decoded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::channel::{server_error, Channel};
use super::pool::{Decoded, Inbox, Lent, Pool, Rules, Unpacker};
use crate::{Moved, Session, Tally};
use venturi_base::codec::charrow::handshake::Request;
use venturi_base::codec::charrow::receive::{ipc_header, Block, Event};
use venturi_base::codec::charrow::statistics::Statistics;
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::{Stage, StageClock};

/// Blocks of a stream that are read and not decoded yet, at least: a pool of more threads than
/// that needs as many.
const UNDECODED: usize = 4;

/// A block that is decoded within this time costs no more than handing it over would ...
const TRIFLE: Duration = Duration::from_micros(3);
/// ... and one that takes up to so long does not either, with the wake-up of a thread that waits, as
/// long as it is a small part of the time between two blocks: another thread would gain but that.
const SHORT: Duration = Duration::from_micros(25);
const SMALL_PART: u32 = 8;

/// Messages without a block that are taken in one go: a peer that sends nothing else must
/// not keep the thread.
const IN_ONE_GO: usize = 256;

/// Who decodes.
pub enum Decoding {
    /// The stream itself.
    Here(Rules),
    There(Arc<Pool>),
}

/// The rows of the whole query, where a server tells them: each partition hears the same, or what it
/// was until then.
#[derive(Debug, Default)]
pub struct QueryRows(Mutex<Option<u64>>);

impl QueryRows {
    fn hear(&self, rows: u64) {
        let mut known = self.0.lock();
        *known = Some(known.map_or(rows, |known| known.max(rows)));
    }

    pub fn rows(&self) -> Option<u64> {
        *self.0.lock()
    }
}

/// How a partition ends, and what is heard then.
pub struct Ending {
    /// The trial's id, where the server can be asked to end early.
    pub stop: Option<String>,
    /// A stream of the trial has left before the end, so the server may say that the query has
    /// failed.
    pub leaving: Arc<AtomicBool>,
    pub query_rows: Arc<QueryRows>,
}

pub struct Partition {
    stream: usize,
    channel: Channel,
    decoding: Decoding,
    /// For what is decoded on this thread, once the schema is known.
    unpacker: Option<Box<Unpacker>>,
    /// What decoding a block took last, when a block came last, and how long after the one before.
    spent: Duration,
    came: Instant,
    between: Duration,
    inbox: Arc<Inbox>,
    /// Blocks that are being decoded elsewhere.
    in_flight: usize,
    most_in_flight: usize,
    /// Said when the first batch is asked for.
    query: Option<Request>,
    schema: Option<Arc<[u8]>>,
    ended: bool,
    ending: Ending,
    draining: bool,
    /// Blocks that are decoded, and what the server says of them.
    blocks: u64,
    statistics: Option<Statistics>,
    tally: Tally,
}

impl Partition {
    pub fn new(
        stream: usize,
        channel: Channel,
        decoding: Decoding,
        query: Request,
        ending: Ending,
    ) -> Self {
        let most_in_flight = match &decoding {
            Decoding::Here(_) => 0,
            Decoding::There(pool) => UNDECODED.max(pool.threads() + 1),
        };
        Self {
            stream,
            channel,
            decoding,
            unpacker: None,
            spent: Duration::MAX,
            came: Instant::now(),
            between: Duration::MAX,
            inbox: Arc::default(),
            in_flight: 0,
            most_in_flight,
            query: Some(query),
            schema: None,
            ended: false,
            ending,
            draining: false,
            blocks: 0,
            statistics: None,
            tally: Tally::default(),
        }
    }

    fn count(&mut self, decoded: Decoded) -> Moved {
        self.spent = decoded.spent;
        self.blocks += 1;
        self.tally.rows += decoded.moved.rows;
        self.tally.checksum = self.tally.checksum.wrapping_add(decoded.digest);
        decoded.moved
    }

    /// The block decoded, where that is done on this thread.
    fn block(&mut self, block: Block, clock: &mut StageClock) -> Result<Option<Moved>> {
        let schema = self
            .schema
            .as_ref()
            .ok_or_else(|| Error::protocol("the server sent a block before the schema"))?;
        let now = clock.last();
        self.between = now.saturating_duration_since(std::mem::replace(&mut self.came, now));
        let short =
            self.spent <= TRIFLE || self.spent <= SHORT && self.spent * SMALL_PART <= self.between;
        let (rules, pool) = match &self.decoding {
            Decoding::Here(rules) => (rules, None),
            Decoding::There(pool) => (pool.rules(), Some(pool)),
        };
        let lent = pool.filter(|_| short).and_then(|pool| pool.lend());
        if let (Some(pool), None) = (pool, &lent) {
            pool.submit(block, self.stream, schema, &self.inbox);
            self.in_flight += 1;
            return Ok(None);
        }
        let unpacker = match &mut self.unpacker {
            Some(known) => known,
            none => none.insert(Box::new(Unpacker::new(schema, rules)?)),
        };
        let decoded = decode(lent, unpacker, block, clock)?;
        Ok(Some(self.count(decoded)))
    }

    fn event(&mut self, event: Event, clock: &mut StageClock) -> Result<Option<Moved>> {
        match event {
            Event::Block(block) => return self.block(block, clock),
            Event::Schema(bytes) => {
                if self.schema.is_some() {
                    return Err(Error::protocol("the server sent a second schema"));
                }
                self.schema = Some(ipc_header(&bytes)?.into());
            }
            Event::End => self.end(),
            Event::Error(_) if self.has_left() => self.end(),
            Event::Error(text) => return Err(server_error(&text)),
            Event::Statistics(text) => {
                let told = Statistics::parse(&text)?;
                self.ending.query_rows.hear(told.query.dealt.rows);
                self.statistics = Some(told);
            }
            Event::Hello(_) | Event::Answer(_) => {}
        }
        Ok(None)
    }

    fn end(&mut self) {
        self.ended = true;
    }

    fn has_left(&self) -> bool {
        self.ending.leaving.load(Ordering::Relaxed)
    }

    /// All has been decoded: is it what the server has counted?
    fn check(&mut self) -> Result<()> {
        match self.statistics.take() {
            Some(told) => told.check(self.blocks, self.tally.rows),
            None => Ok(()),
        }
    }

    /// What is measured is over for this stream.
    fn close_window(&mut self) {
        if let (Decoding::There(pool), false) = (&self.decoding, self.draining) {
            pool.end();
        }
        self.draining = true;
    }
}

/// A block on the stream's thread, by itself or by a decoder that has been lent it.
fn decode(
    lent: Option<Lent<'_>>,
    unpacker: &mut Unpacker,
    block: Block,
    clock: &mut StageClock,
) -> Result<Decoded> {
    let Some(lent) = lent else {
        return unpacker.unpack(block, clock);
    };
    let decoded = lent.unpack(unpacker, block);
    // The decoder's work is the pool's; the stream has waited for it.
    clock.mark(Stage::AwaitOutput);
    decoded
}

impl Session for Partition {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if let Some(query) = self.query.take() {
            self.channel.say(&query);
            if let Decoding::There(pool) = &self.decoding {
                pool.begin();
            }
        }
        for _ in 0..IN_ONE_GO {
            if self.in_flight > 0 {
                if let Some(decoded) = self.inbox.take() {
                    self.in_flight -= 1;
                    let moved = self.count(decoded?);
                    clock.mark(Stage::AwaitOutput);
                    return Poll::Ready(Ok(Some(moved)));
                }
            }
            if self.ended || self.in_flight > 0 && self.in_flight >= self.most_in_flight {
                if self.in_flight == 0 {
                    self.close_window();
                    return Poll::Ready(self.check().map(|()| None));
                }
                if self.inbox.wait(cx) {
                    clock.wait(Stage::AwaitOutput);
                    return Poll::Pending;
                }
                continue;
            }
            let event = self.channel.poll_event(cx);
            clock.mark(Stage::Receive);
            match event {
                Poll::Ready(Ok(event)) => {
                    if let Some(moved) = self.event(event, clock)? {
                        return Poll::Ready(Ok(Some(moved)));
                    }
                }
                Poll::Ready(Err(_)) if self.has_left() => self.end(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    if self.in_flight == 0 || self.inbox.wait(cx) {
                        clock.wait(Stage::AwaitInput);
                        return Poll::Pending;
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        clock.wait(Stage::AwaitThread);
        Poll::Pending
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        let asked = self.query.is_none();
        if !self.draining {
            self.close_window();
            match self.ending.stop.take() {
                // The server ends the query, and what is in flight is taken, so that both ends
                // have counted the same.
                Some(trial) if asked && !self.ended => self.channel.say(&Request::Ask {
                    name: "stop".into(),
                    payload: trial,
                }),
                _ if self.ended || !asked => {}
                // The connection is closed with the session: what is left is nobody's.
                _ => {
                    self.ending.leaving.store(true, Ordering::Relaxed);
                    self.ended = true;
                }
            }
        }
        if !asked {
            return Poll::Ready(Ok(()));
        }
        while ready!(self.poll_batch(cx, clock))?.is_some() {}
        Poll::Ready(Ok(()))
    }

    fn progress(&self) -> u64 {
        self.channel.wire_bytes()
    }

    fn tally(&self) -> Tally {
        Tally {
            wire_bytes: self.channel.wire_bytes(),
            ..self.tally
        }
    }
}
