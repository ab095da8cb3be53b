//! Gets from Firebird: a prepared SELECT whose rows are fetched by thousands.

use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;

use super::connect::{Fetched, Link, Op, READS, WRITES};
use super::dialect::FIREBIRD;
use super::types::{Field, Message};
use super::Firebird;
use crate::read::{Column, Question, Reading, Reads, Rows, Split};
use venturi_base::data::column::Columns;
use venturi_base::data::upsert::Table;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::TrialSpec;

/// Rows that are asked for at once: what the protocol's 16 bits hold.
const AT_ONCE: u32 = 32_000;

impl Reads for Firebird {
    type Rows = Answer;

    const SPLIT: Split = Split::Hash;

    fn reading(&self) -> &Reading {
        &self.options.reading
    }

    fn protocol(&self) -> String {
        "firebird".into()
    }

    async fn columns(&self, link: &mut Link, select: &str) -> Result<Vec<Column>> {
        let prepared = self.explained(link.prepare(select, READS).await)?;
        self.explained(link.end_transaction(Op::Rollback).await)?;
        prepared.fields.iter().map(Field::column).collect()
    }

    async fn parts(&self, _: &mut Link, _: &str, _: usize) -> Result<Vec<Option<String>>> {
        Err(Error::usage(format!(
            "{}: split parts: a table of Firebird does not say where its rows lie: use split key (of the primary key, best) or hash",
            self.place.address()
        )))
    }

    async fn fill(&self, link: &mut Link, table: &Table, mut rows: Cursor) -> Result<()> {
        let message = Message::of_table(table)?;
        let insert = FIREBIRD.insert_placeholders(table, 1);
        let prepared = self.explained(link.prepare(&insert, WRITES).await)?;
        while let Some(item) = rows.next() {
            let (values, ends) = message.encode(table, item.batch())?;
            let done = link.execute_all(prepared.handle, &message.blr, &values, &ends);
            self.explained(done.await)?;
        }
        self.explained(link.end_transaction(Op::Commit).await)
    }

    async fn rows(&self, _: &TrialSpec, mut link: Link, question: Question) -> Result<Answer> {
        let prepared = self.explained(link.prepare(&question.statement, READS).await)?;
        let columns = prepared.fields.iter().map(Field::column);
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let planned = question
            .schema
            .fields()
            .iter()
            .map(|field| field.data_type());
        if !planned.eq(columns.iter().map(|column| &column.data_type)) {
            return Err(Error::protocol(
                "the answer has other columns than the query had when it was planned",
            ));
        }
        let message = Message::of_answer(&prepared.fields)?;
        link.put_execute(prepared.handle, b"", b"");
        link.put_fetch(prepared.handle, &message.blr, AT_ONCE);
        link.seal();
        Ok(Answer {
            link,
            state: State::Asking,
            statement: prepared.handle,
            message,
            columns: Columns::new(&question.schema, question.limit)?,
            rows_per_batch: question.rows_per_batch,
            place: self.place.address(),
            carried: 0,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// What asks for rows is to be sent, or is on its way.
    Asking,
    Fetching,
    Over,
}

/// A stream's rows.
pub struct Answer {
    link: Link,
    state: State,
    statement: u32,
    message: Message,
    columns: Columns,
    rows_per_batch: usize,
    place: String,
    carried: u64,
}

impl Answer {
    /// Decodes what is there; true: the batch is full, or all have come.
    fn decode(&mut self) -> Result<bool> {
        while let Some(fetched) = self.link.fetched(&self.message)? {
            match fetched {
                Fetched::Row(row) => {
                    let bytes = self.link.row(&row);
                    self.message.decode(bytes, self.columns.each())?;
                    self.columns.row(row.len())?;
                    if self.columns.rows() == self.rows_per_batch {
                        return Ok(true);
                    }
                }
                Fetched::Pause => {
                    self.link
                        .put_fetch(self.statement, &self.message.blr, AT_ONCE);
                    self.link.seal();
                    self.state = State::Asking;
                    return Ok(false);
                }
                Fetched::Over => {
                    self.state = State::Over;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        loop {
            match self.state {
                State::Over => return Poll::Ready(Ok(None)),
                State::Asking => {
                    let sent = self.link.poll_send(cx);
                    clock.mark(Stage::Send);
                    if sent.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    ready!(sent)?;
                    self.state = State::Fetching;
                }
                State::Fetching => {
                    let done = self.decode()?;
                    if done {
                        let batch = self.columns.finish()?;
                        clock.mark(Stage::Decode);
                        return Poll::Ready(Ok(batch));
                    }
                    clock.mark(Stage::Decode);
                    if self.state == State::Asking {
                        continue;
                    }
                    let filled = self.link.poll_fill(cx);
                    clock.mark(Stage::Receive);
                    if filled.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    self.carried += ready!(filled)? as u64;
                }
            }
        }
    }
}

impl Rows for Answer {
    fn poll_rows(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        self.poll(cx, clock)
            .map_err(|error| error.context(&self.place))
    }

    fn carried(&self) -> u64 {
        self.carried
    }
}
