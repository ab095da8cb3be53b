//! One stream of a get from a database: a partition's rows.

use std::sync::Arc;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;

use super::{wrapped, Summed};
use crate::{Moved, Session, Tally};
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

    /// What came with the last batch, and is counted with it.
    fn more(&mut self) -> Option<RecordBatch> {
        None
    }

    /// As of `Session`.
    fn waits_for(&self) -> Option<String> {
        None
    }

    /// Bytes that have come, where there is a wire.
    fn carried(&self) -> u64 {
        0
    }
}

/// What is made of each batch, for the comparison afterwards.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    pub summed: Option<Arc<Summed>>,
    pub digest: bool,
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

impl<R: Rows> Partition<R> {
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

    fn check(&mut self, batch: &RecordBatch, clock: &mut StageClock) -> Result<()> {
        if let Some(summed) = &self.checks.summed {
            let sums = summed.of(batch);
            let sums = sums.ok_or_else(|| Error::new(Kind::Internal, "a column without a sum"))?;
            for (sum, more) in self.tally.sums.iter_mut().zip(sums) {
                *sum = wrapped(*sum + more);
            }
            clock.mark(Stage::Verify);
        }
        if self.checks.digest {
            // What has no digest here had none where it was made.
            let digest = row_digest(batch).unwrap_or_default();
            self.tally.checksum = self.tally.checksum.wrapping_add(digest);
            clock.mark(Stage::Verify);
        }
        Ok(())
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

impl<R: Rows> Session for Partition<R> {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let Some(rows) = self.rows.as_mut().filter(|_| !self.over) else {
            return Poll::Ready(Ok(None));
        };
        let next = ready!(rows.poll_rows(cx, clock));
        self.tally.wire_bytes = rows.carried();
        let batch = match next {
            Ok(Some(batch)) => batch,
            Ok(None) => {
                self.over = true;
                return Poll::Ready(Ok(None));
            }
            Err(error) => {
                self.rows = None;
                return Poll::Ready(Err(self.explain(error)));
            }
        };
        let (mut moved, mut next) = (Moved::default(), Some(batch));
        self.batches += 1;
        while let Some(batch) = next {
            let rows = batch.num_rows() as u64;
            moved.rows += rows;
            moved.bytes += payload_bytes(&batch);
            self.tally.rows += rows;
            self.check(&batch, clock)?;
            next = self.rows.as_mut().and_then(Rows::more);
        }
        Poll::Ready(Ok(Some(moved)))
    }

    fn is_spent(&self) -> bool {
        self.over || self.rows.is_none()
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        // Stopped early, the rest is dropped with the connection, which ends the statement.
        self.rows = self.rows.take().filter(|_| self.over);
        clock.mark(Stage::Receive);
        Poll::Ready(Ok(()))
    }

    fn progress(&self) -> u64 {
        let carried = self.rows.as_ref().map_or(0, Rows::carried);
        self.tally.wire_bytes.max(carried) + self.batches
    }

    fn waits_for(&self) -> Option<String> {
        self.rows.as_ref().and_then(Rows::waits_for)
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
