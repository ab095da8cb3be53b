//! Gets from MySQL: rows as text, or in the binary form of a prepared statement.

use std::future::Future;
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use super::connect::Connection;
use super::dialect::MYSQL;
use super::errors::Circumstances;
use super::options::WireFormat;
use super::MySql;
use crate::database::Database;
use crate::read::{Column, Question, Reading, Reads, Rows, Split};
use crate::sql;
use crate::upsert::name_of;
use venturi_base::codec::mysql::definition::{Definition, Form};
use venturi_base::codec::mysql::rows::{binary_row, text_row};
use venturi_base::data::column::Columns;
use venturi_base::data::upsert::Table;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::TrialSpec;

/// Bytes of one INSERT that fills a table to be read; servers take 1 MiB at least.
const FILL: usize = 512 << 10;

impl Reads for MySql {
    type Rows = Answer;

    const SPLIT: Split = Split::Hash;

    fn reading(&self) -> &Reading {
        &self.options.reading
    }

    /// As text a float has six digits, which need not be all of it.
    fn is_exact(&self, column: &Column) -> bool {
        self.options.format() == WireFormat::Binary || column.data_type != DataType::Float32
    }

    fn protocol(&self) -> String {
        format!("mysql-{}", name_of(&self.options.format()))
    }

    async fn columns(&self, connection: &mut Connection, select: &str) -> Result<Vec<Column>> {
        let none = format!("{select} LIMIT 0");
        let definitions = connection.described(&none).await;
        let definitions = self.explained(connection, definitions)?;
        let column = |definition: Definition| Column {
            name: definition.name,
            data_type: definition.data_type,
            native: definition.native.into(),
        };
        Ok(definitions.into_iter().map(column).collect())
    }

    async fn parts(&self, _: &mut Connection, _: &str, _: usize) -> Result<Vec<Option<String>>> {
        Err(Error::usage(format!(
            "{}: split parts: a table of MySQL does not say where its rows lie: use split key (of the primary key, best) or hash",
            self.place.address()
        )))
    }

    async fn fill(
        &self,
        connection: &mut Connection,
        table: &Table,
        mut rows: Cursor,
    ) -> Result<()> {
        let head = MYSQL.insert_head(table);
        let mut text = head.clone().into_bytes();
        loop {
            let item = rows.next();
            let more = item.is_some();
            if let Some(item) = item {
                let mut written = sql::Rows::new(MYSQL, table, item.batch())?;
                for row in 0..item.batch().num_rows() {
                    if text.len() > head.len() {
                        text.push(b',');
                    }
                    written.tuple(row, &mut text)?;
                    if text.len() >= FILL {
                        self.insert(connection, &mut text, &head).await?;
                    }
                }
            }
            if !more {
                return match text.len() > head.len() {
                    true => self.insert(connection, &mut text, &head).await,
                    false => Ok(()),
                };
            }
        }
    }

    async fn rows(
        &self,
        _: &TrialSpec,
        mut connection: Connection,
        question: Question,
    ) -> Result<Answer> {
        let format = self.options.format();
        let packets = match format {
            WireFormat::Text => Connection::query_packets(&question.statement),
            WireFormat::Binary => connection.execution(&question.statement).await,
        };
        let packets = self.explained(&connection, packets)?;
        let columns = Columns::new(&question.schema, question.limit)?;
        Ok(Answer {
            state: State::Idle(connection, packets),
            format,
            forms: Vec::new(),
            columns,
            question,
            circumstances: self.circumstances.clone(),
            carried: 0,
        })
    }
}

impl MySql {
    async fn insert(
        &self,
        connection: &mut Connection,
        text: &mut Vec<u8>,
        head: &str,
    ) -> Result<()> {
        let statement = String::from_utf8(std::mem::replace(text, head.as_bytes().to_vec()));
        let statement =
            statement.map_err(|_| Error::new(Kind::Internal, "a statement that is no text"))?;
        self.run(connection, &statement).await
    }
}

type Asking = Pin<Box<dyn Future<Output = (Connection, Result<Vec<Definition>>)>>>;

enum State {
    Idle(Connection, Vec<u8>),
    Asking(Asking),
    Reading(Connection),
    Over,
}

/// A stream's rows.
pub struct Answer {
    state: State,
    format: WireFormat,
    forms: Vec<Form>,
    columns: Columns,
    question: Question,
    circumstances: Circumstances,
    carried: u64,
}

impl Answer {
    /// The columns must be those of the plan.
    fn begin(&mut self, definitions: &[Definition]) -> Result<()> {
        let planned = self.question.schema.fields().iter();
        let planned = planned.map(|field| field.data_type());
        if !planned.eq(definitions.iter().map(|definition| &definition.data_type)) {
            return Err(Error::protocol(
                "the answer has other columns than the query had when it was planned",
            ));
        }
        self.forms = definitions
            .iter()
            .map(|definition| definition.form)
            .collect();
        Ok(())
    }

    /// Decodes what is there; true: that was all, or the batch is full.
    fn decode(&mut self) -> Result<bool> {
        let State::Reading(connection) = &mut self.state else {
            return Ok(true);
        };
        while let Some(row) = connection.next_row()? {
            let Some(row) = row else {
                self.state = State::Over;
                return Ok(true);
            };
            let columns = self.columns.each();
            match self.format {
                WireFormat::Text => text_row(row, &self.forms, columns)?,
                WireFormat::Binary => binary_row(row, &self.forms, columns)?,
            }
            self.columns.row(row.len())?;
            if self.columns.rows() == self.question.rows_per_batch {
                return Ok(true);
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
            match &mut self.state {
                State::Idle(..) => {
                    let State::Idle(mut connection, packets) =
                        std::mem::replace(&mut self.state, State::Over)
                    else {
                        continue;
                    };
                    self.state = State::Asking(Box::pin(async move {
                        let asked = connection.ask_rows(&packets).await;
                        (connection, asked)
                    }));
                }
                State::Asking(asking) => {
                    let asked = asking.as_mut().poll(cx);
                    clock.mark(Stage::Send);
                    if asked.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    let (connection, definitions) = ready!(asked);
                    self.state = State::Reading(connection);
                    let definitions = definitions?;
                    self.begin(&definitions)?;
                }
                State::Reading(_) => {
                    let done = self.decode()?;
                    if done {
                        let batch = self.columns.finish()?;
                        clock.mark(Stage::Decode);
                        return Poll::Ready(Ok(batch));
                    }
                    clock.mark(Stage::Decode);
                    let State::Reading(connection) = &mut self.state else {
                        continue;
                    };
                    let filled = connection.poll_fill(cx);
                    clock.mark(Stage::Receive);
                    if filled.is_pending() {
                        clock.wait(Stage::AwaitInput);
                    }
                    self.carried += ready!(filled)? as u64;
                }
                State::Over => return Poll::Ready(Ok(None)),
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
        let polled = self.poll(cx, clock);
        polled.map_err(|error| self.circumstances.explain(error))
    }

    fn carried(&self) -> u64 {
        self.carried
    }
}
