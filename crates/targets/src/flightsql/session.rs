//! One stream of a trial: the rows of its pieces, or a put whose rows the server counts.

use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};

use super::server::changed;
use crate::flight::get::Reader;
use crate::flight::put::PutSession;
use crate::read::{Rows, Summed};
use crate::{Moved, Session, Tally};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};

/// A get's rows, whose types are those that were planned with.
pub struct Fetch {
    reader: Reader,
    /// Name, place and type of the columns that are summed up; of the first batch they are compared.
    expected: Vec<(String, usize, DataType)>,
}

impl Fetch {
    pub fn new(reader: Reader, schema: &SchemaRef, summed: &Summed) -> Self {
        let columns = summed.columns.iter();
        let expected = columns.map(|(place, name)| {
            let kind = schema.field(*place).data_type().clone();
            (name.clone(), *place, kind)
        });
        Self {
            reader,
            expected: expected.collect(),
        }
    }

    fn check(&mut self, batch: &RecordBatch) -> Result<()> {
        for (name, place, kind) in std::mem::take(&mut self.expected) {
            let found = batch.columns().get(place).map(|column| column.data_type());
            if found != Some(&kind) {
                let found = found.map_or("not there".to_owned(), |found| format!("{found}"));
                return Err(Error::protocol(format!(
                    "column {name} is {found} where the server had announced {kind}: cast it in the query, or --verify count"
                )));
            }
        }
        Ok(())
    }
}

impl Rows for Fetch {
    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        let batch = ready!(self.reader.poll_next(cx, clock))?;
        if let Some(batch) = &batch {
            clock.mark(Stage::Decode);
            self.check(batch)?;
        }
        Poll::Ready(Ok(batch))
    }

    fn idle(&mut self) {
        self.reader.idle();
    }

    fn carried(&self) -> u64 {
        self.reader.carried()
    }
}

/// A put, to the server's own count of its rows.
pub struct Update {
    put: PutSession,
    over: bool,
}

impl Update {
    pub fn new(put: PutSession) -> Self {
        Self { put, over: false }
    }

    fn check(&self) -> Result<()> {
        let sent = self.put.tally().rows;
        match changed(self.put.answer())? {
            Some(rows) if rows != sent => Err(Error::new(
                Kind::Verification,
                format!("the server says that it took {rows} rows, {sent} were sent"),
            )),
            _ => Ok(()),
        }
    }
}

impl Session for Update {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        self.put.poll_batch(cx, clock)
    }

    fn is_spent(&self) -> bool {
        self.put.is_spent()
    }

    fn idle(&mut self) {
        self.put.idle();
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        ready!(self.put.poll_finish(cx, clock))?;
        if !std::mem::replace(&mut self.over, true) {
            self.check()?;
        }
        Poll::Ready(Ok(()))
    }

    fn progress(&self) -> u64 {
        self.put.progress()
    }

    fn tally(&self) -> Tally {
        self.put.tally()
    }
}
