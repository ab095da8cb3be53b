//! One stream of a get from a database: a partition's rows.

use std::sync::Arc;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;

use super::{wrapped, Summed};
use crate::{Moved, Session, Sums, Tally};
use venturi_base::data::{payload_bytes, row_digest};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};

/// The rows of one statement as they come. The statement is sent when the first batch is asked for; dropped,
/// it ends with its connection.
pub trait Rows: 'static {
    /// The next batch, decoded, with its time on the clock, as in `Session::poll_batch`.
    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>>;

    /// As of `Session`.
    fn waits_for(&self) -> Option<String> {
        None
    }

    /// As of `Session`.
    fn idle(&mut self) {}

    /// Bytes that have come, where there is a wire.
    fn carried(&self) -> u64 {
        0
    }
}

/// Rows that are counted as they come.
pub trait Counting: 'static {
    fn poll_counted(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
        checks: &Checks,
    ) -> Poll<Result<Option<Counted>>>;

    /// As of `Session`.
    fn waits_for(&self) -> Option<String>;

    /// As of `Session`.
    fn idle(&mut self) {}

    /// Bytes that have come, where there is a wire.
    fn carried(&self) -> u64;
}

impl<R: Rows> Counting for R {
    fn poll_counted(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
        checks: &Checks,
    ) -> Poll<Result<Option<Counted>>> {
        let Some(batch) = ready!(self.poll_rows(cx, clock))? else {
            return Poll::Ready(Ok(None));
        };
        let mut counted = Counted::default();
        counted.add(batch.num_rows(), payload_bytes(&batch));
        checks.add(&batch, &mut counted)?;
        if !checks.are_none() {
            clock.mark(Stage::Verify);
        }
        Poll::Ready(Ok(Some(counted)))
    }

    fn waits_for(&self) -> Option<String> {
        Rows::waits_for(self)
    }

    fn idle(&mut self) {
        Rows::idle(self);
    }

    fn carried(&self) -> u64 {
        Rows::carried(self)
    }
}

/// What has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub moved: Moved,
    sums: Sums,
    checksum: u64,
}

impl Counted {
    pub fn add(&mut self, rows: usize, bytes: u64) {
        self.moved.rows += rows as u64;
        self.moved.bytes += bytes;
    }
}

/// What is made of each batch, for the comparison afterwards.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    pub summed: Option<Arc<Summed>>,
    pub digest: bool,
}

impl Checks {
    pub fn are_none(&self) -> bool {
        self.summed.is_none() && !self.digest
    }

    pub fn add(&self, batch: &RecordBatch, counted: &mut Counted) -> Result<()> {
        if let Some(summed) = &self.summed {
            let sums = summed.of(batch);
            let sums = sums.ok_or_else(|| Error::new(Kind::Internal, "a column without a sum"))?;
            for (sum, more) in counted.sums.iter_mut().zip(sums) {
                *sum = wrapped(*sum + more);
            }
        }
        if self.digest {
            // What has no digest here had none where it was made.
            let digest = row_digest(batch).unwrap_or_default();
            counted.checksum = counted.checksum.wrapping_add(digest);
        }
        Ok(())
    }
}

pub struct Partition<R> {
    /// `None`: there is nothing for this stream, or it failed.
    rows: Option<R>,
    /// They have come to their end; what they came over is closed behind the clock.
    over: bool,
    checks: Checks,
    address: Arc<str>,
    batches: u64,
    tally: Tally,
}

impl<R: Counting> Partition<R> {
    pub fn new(rows: Option<R>, checks: Checks, address: Arc<str>) -> Self {
        Self {
            rows,
            over: false,
            checks,
            address,
            batches: 0,
            tally: Tally::default(),
        }
    }

    fn book(&mut self, counted: Counted) -> Moved {
        let tally = &mut self.tally;
        tally.rows += counted.moved.rows;
        tally.checksum = tally.checksum.wrapping_add(counted.checksum);
        for (sum, more) in tally.sums.iter_mut().zip(counted.sums) {
            *sum = wrapped(*sum + more);
        }
        self.batches += 1;
        counted.moved
    }

    /// Where it was when something went wrong.
    fn explain(&self, error: Error) -> Error {
        let rows = self.tally.rows;
        match error.message.strip_prefix(&format!("{}: ", self.address)) {
            Some(rest) => Error {
                message: format!("{}: after {rows} rows: {rest}", self.address),
                ..error
            },
            None => error.context(format_args!("{}: after {rows} rows", self.address)),
        }
    }
}

impl<R: Counting> Session for Partition<R> {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let Some(rows) = self.rows.as_mut().filter(|_| !self.over) else {
            return Poll::Ready(Ok(None));
        };
        let next = ready!(rows.poll_counted(cx, clock, &self.checks));
        self.tally.wire_bytes = rows.carried();
        Poll::Ready(match next {
            Ok(Some(counted)) => Ok(Some(self.book(counted))),
            Ok(None) => {
                self.over = true;
                Ok(None)
            }
            Err(error) => {
                self.rows = None;
                Err(self.explain(error))
            }
        })
    }

    fn is_spent(&self) -> bool {
        self.over || self.rows.is_none()
    }

    fn idle(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.idle();
        }
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        // Stopped early, the rest is dropped with the connection, which ends the statement.
        self.rows = self.rows.take().filter(|_| self.over);
        clock.mark(Stage::Receive);
        Poll::Ready(Ok(()))
    }

    fn progress(&self) -> u64 {
        let carried = self.rows.as_ref().map_or(0, Counting::carried);
        self.tally.wire_bytes.max(carried) + self.batches
    }

    fn waits_for(&self) -> Option<String> {
        self.rows.as_ref().and_then(Counting::waits_for)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    struct Counter(Rc<Cell<u32>>);

    impl Rows for Counter {
        fn poll_rows(
            &mut self,
            _: &mut Context<'_>,
            _: &mut StageClock,
        ) -> Poll<Result<Option<RecordBatch>>> {
            Poll::Pending
        }

        fn idle(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn its_rows_hear_that_they_are_not_asked_for() {
        let idles = Rc::default();
        let rows = Counter(Rc::clone(&idles));
        let mut session = Partition::new(Some(rows), Checks::default(), "there".into());
        Session::idle(&mut session);
        assert_eq!(idles.get(), 1);
    }
}
