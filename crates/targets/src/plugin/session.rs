//! One stream to or from somebody's code: a batch is asked for, or handed over, and then waited for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use super::caller::{Answer, Ask, Caller};
use crate::{Moved, Session, Tally};
use venturi_base::data::digest::digest;
use venturi_base::data::payload::payload_bytes;
use venturi_base::data::{Cursor, Source};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::{Operation, TrialSpec};

/// Batches without a row that may follow one another: a stream that has nothing but such never ends.
pub(super) const MOST_EMPTY: u32 = 10_000;

pub(super) fn only_empty() -> String {
    format!("the stream has {MOST_EMPTY} batches without a row, one after the other")
}

pub struct Stream {
    caller: Caller,
    /// Of a put.
    cursor: Option<Cursor>,
    /// Rows that a get may deliver.
    most: Option<u64>,
    checksum: bool,
    finishing: bool,
    moving: Option<Moved>,
    empty: u32,
    ended: bool,
    counted: Arc<AtomicBool>,
    tally: Tally,
}

impl Stream {
    pub fn new(
        caller: Caller,
        spec: &TrialSpec,
        source: Option<&Source>,
        checksum: bool,
        counted: Arc<AtomicBool>,
    ) -> Self {
        let put = spec.operation != Operation::Get;
        Self {
            caller,
            cursor: source
                .filter(|_| put)
                .map(|source| source.cursor(spec.rows_per_stream)),
            most: spec.rows_per_stream.filter(|_| source.is_some()),
            checksum,
            finishing: false,
            moving: None,
            empty: 0,
            ended: false,
            counted,
            tally: Tally::default(),
        }
    }

    fn poll_get(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        if !self.caller.is_running() {
            self.caller.ask("the next batch", Ask::Next, clock)?;
        }
        let Answer::Batch(batch) = ready!(self.caller.poll_answer(cx, clock))? else {
            self.ended = true;
            return Poll::Ready(Ok(None));
        };
        let moved = Moved {
            rows: batch.num_rows() as u64,
            bytes: payload_bytes(&batch),
        };
        self.tally.rows += moved.rows;
        if self.checksum {
            self.tally.checksum = self.tally.checksum.wrapping_add(digest(&batch)?);
        }
        drop(batch);
        clock.mark(Stage::Verify);
        self.empty = if moved.rows == 0 { self.empty + 1 } else { 0 };
        Poll::Ready(self.bounded().map(|()| Some(moved)))
    }

    /// Whether the stream is no longer than it was asked to be.
    fn bounded(&self) -> Result<()> {
        let what = match self.most {
            Some(most) if self.tally.rows > most => format!(
                "the stream has more rows than were asked for: {} and not {most}",
                self.tally.rows
            ),
            _ if self.empty > MOST_EMPTY => only_empty(),
            _ => return Ok(()),
        };
        Err(Error::new(Kind::Plugin, what))
    }

    fn poll_put(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if self.moving.is_none() {
            let Some(item) = self.cursor.as_mut().and_then(Cursor::next) else {
                return Poll::Ready(Ok(None));
            };
            self.moving = Some(Moved {
                rows: item.rows,
                bytes: item.payload,
            });
            self.tally.rows += item.rows;
            let batch = item.batch().clone();
            if self.checksum {
                self.tally.checksum = self.tally.checksum.wrapping_add(item.digest()?);
            }
            clock.mark(Stage::Generate);
            self.caller.ask("write", Ask::Write(batch), clock)?;
        }
        ready!(self.caller.poll_answer(cx, clock))?;
        Poll::Ready(Ok(self.moving.take()))
    }
}

impl Session for Stream {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        match self.cursor {
            Some(_) => self.poll_put(cx, clock),
            None => self.poll_get(cx, clock),
        }
    }

    fn is_spent(&self) -> bool {
        self.ended || self.cursor.as_ref().is_some_and(Cursor::is_spent)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        if !self.finishing {
            if self.caller.is_running() {
                // A call that the end of the trial has overtaken.
                ready!(self.caller.poll_answer(cx, clock))?;
            }
            self.caller.ask("finish", Ask::Finish, clock)?;
            self.finishing = true;
        }
        let Answer::Finished(taken) = ready!(self.caller.poll_answer(cx, clock))? else {
            return Poll::Ready(Ok(()));
        };
        let Some(taken) = taken else {
            return Poll::Ready(Ok(()));
        };
        let sent = self.tally;
        if taken.checksum.is_none() {
            self.counted.store(true, Ordering::Release);
        }
        let differ = self.checksum && taken.checksum.is_some_and(|found| found != sent.checksum);
        if taken.rows == sent.rows && !differ {
            return Poll::Ready(Ok(()));
        }
        self.tally.rows = taken.rows;
        let text = match differ && taken.rows == sent.rows {
            true => format!(
                "the other end's digest of the stream is {:016x}, that of what was sent {:016x}",
                taken.checksum.unwrap_or_default(),
                sent.checksum
            ),
            false => format!(
                "the other end took {} rows, {} were sent",
                taken.rows, sent.rows
            ),
        };
        Poll::Ready(Err(Error::new(Kind::Verification, text)))
    }

    fn waits_for(&self) -> Option<String> {
        self.caller.waits_for()
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
