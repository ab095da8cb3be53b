//! Gets from DuckDB: chunks of rows as the library makes them, in the stream's own thread and in its own.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::RecordBatch;

use super::answer::{Chunk, Rows as Fetched};
use super::dialect::DUCKDB;
use super::handles::{Connection, Prepared};
use super::vectors::{self, Form};
use super::watch::{interrupted, Watch};
use super::{types, DuckDb};
use crate::read::{by_rowid, Column, Question, Reading, Reads, Rows};
use venturi_base::data::column::Columns;
use venturi_base::data::upsert::Table;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Result};
use venturi_base::halt;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::TrialSpec;

impl Reads for DuckDb {
    type Rows = Stream;

    fn reading(&self) -> &Reading {
        &self.options.reading
    }

    fn protocol(&self) -> String {
        "duckdb".into()
    }

    async fn columns(&self, connection: &mut Connection, select: &str) -> Result<Vec<Column>> {
        let mut none = self.check(connection.query(&format!("{select} LIMIT 0")))?;
        let columns = none.columns().into_iter();
        let column = |(name, kind)| Ok(vectors::column(name, &kind)?.1);
        columns.map(column).collect()
    }

    async fn parts(
        &self,
        connection: &mut Connection,
        table: &str,
        streams: usize,
    ) -> Result<Vec<Option<String>>> {
        let without = ("Binder", "a view");
        by_rowid(self, connection, table, streams, without).await
    }

    async fn fill(
        &self,
        connection: &mut Connection,
        table: &Table,
        mut rows: Cursor,
    ) -> Result<()> {
        let fields = table.schema.fields().iter();
        let names: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        let insert = format!("INSERT INTO {} FROM rows", DUCKDB.quoted(&table.name));
        self.check(connection.run_text("BEGIN"))?;
        let mut appender = None;
        while let Some(item) = rows.next() {
            halt::check()?;
            let columns = types::columns(table, item.batch())?;
            let kinds: Vec<_> = columns.iter().map(|column| column.kind).collect();
            let appender = match &mut appender {
                Some(appender) => appender,
                none => none.insert(self.check(connection.appender(&insert, &names, &kinds))?),
            };
            self.check(appender.append(&columns, item.batch().num_rows()))?;
        }
        drop(appender);
        self.check(connection.run_text("COMMIT"))
    }

    async fn rows(
        &self,
        _: &TrialSpec,
        mut connection: Connection,
        question: Question,
    ) -> Result<Stream> {
        let prepared = self.check(connection.prepare(&question.statement))?;
        Ok(Stream {
            watch: Watch::over(&connection),
            chunk: None,
            at: 0,
            state: State::Ready(prepared),
            over: false,
            connection,
            forms: Vec::new(),
            columns: Columns::new(&question.schema, question.limit)?,
            question,
            path: self.path.clone(),
        })
    }
}

enum State {
    Ready(Prepared),
    Reading(Fetched),
    Failed,
}

/// A stream's rows.
pub struct Stream {
    watch: Watch,
    /// What is not in a batch yet, from its row `at` on.
    chunk: Option<Chunk>,
    at: usize,
    state: State,
    /// That was the last chunk.
    over: bool,
    connection: Connection,
    forms: Vec<Form>,
    columns: Columns,
    question: Question,
    path: Arc<Path>,
}

impl Stream {
    fn check<T>(&self, answer: std::result::Result<T, String>) -> Result<T> {
        answer.map_err(|said| interrupted(&self.path, &said))
    }

    /// Sends the statement; its columns must be those of the plan.
    fn begin(&mut self, prepared: &mut Prepared) -> Result<Fetched> {
        self.watch.begin();
        let fetched = self.connection.stream(prepared);
        let mut fetched = self.check(fetched)?;
        let mut types = Vec::new();
        for (name, kind) in fetched.columns() {
            let (form, column) = vectors::column(name, &kind)?;
            self.forms.push(form);
            types.push(column.data_type);
        }
        let planned = self.question.schema.fields().iter();
        match types.iter().eq(planned.map(|field| field.data_type())) {
            true => Ok(fetched),
            false => Err(Error::protocol(
                "the answer has other columns than the query had when it was planned",
            )),
        }
    }

    /// The next chunk, where the last one is used up; false: there is none.
    fn fetch(&mut self) -> Result<bool> {
        if self.chunk.is_some() || self.over {
            return Ok(!self.over);
        }
        // It is not asked for again, whatever comes of it.
        self.state = match std::mem::replace(&mut self.state, State::Failed) {
            State::Ready(mut prepared) => State::Reading(self.begin(&mut prepared)?),
            other => other,
        };
        let State::Reading(fetched) = &mut self.state else {
            return Ok(false);
        };
        let fetched = fetched.fetch();
        self.at = 0;
        self.chunk = self.check(fetched)?;
        self.over = self.chunk.is_none();
        Ok(!self.over)
    }

    /// Takes rows of the chunk, as many as the batch lacks.
    fn take(&mut self) -> Result<()> {
        let Some(chunk) = &self.chunk else {
            return Ok(());
        };
        let lacks = self.question.rows_per_batch - self.columns.rows();
        let to = chunk.rows.min(self.at + lacks);
        let mut size = 0;
        let columns = self.columns.each().iter_mut().zip(&self.forms);
        for (place, (column, form)) in columns.enumerate() {
            size += vectors::push(form, &chunk.vector(place), self.at, to, column)?;
        }
        self.columns.more(to - self.at, size)?;
        self.at = to;
        if to == chunk.rows {
            self.chunk = None;
        }
        Ok(())
    }
}

impl Rows for Stream {
    fn poll_rows(
        &mut self,
        _cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        while self.columns.rows() < self.question.rows_per_batch {
            let more = self.fetch();
            clock.mark(Stage::Apply);
            if !more? {
                break;
            }
            let taken = self.take();
            clock.mark(Stage::Decode);
            taken?;
        }
        let batch = self.columns.finish()?;
        clock.mark(Stage::Decode);
        Poll::Ready(Ok(batch))
    }
}
