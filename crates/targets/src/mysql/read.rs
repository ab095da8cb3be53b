//! Gets from MySQL: rows as text, or in the binary form of a prepared statement.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use super::connection::Connection;
use super::errors::Circumstances;
use super::options::{self, Access, Options, WireFormat};
use super::server::{literal, quoted, Server};
use crate::database::{Database, Purpose};
use crate::read::{Column, Question, Reading, Reads, Rows, Split, SUMMED_DIGITS};
use crate::upsert::{Common, Host, Place};
use crate::Identity;
use venturi_base::codec::mysql::definition::{Definition, Form};
use venturi_base::codec::mysql::rows::{binary_row, text_row};
use venturi_base::codec::sql::{self, Dialect};
use venturi_base::data::column::Columns;
use venturi_base::data::upsert::Table;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::readers::listener::pid_of;
use venturi_base::meter::readers::network::is_own;
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, TrialSpec};

/// Bytes of one INSERT that fills a table to be read; servers take 1 MiB at least.
const FILL: usize = 512 << 10;

pub struct Readable {
    place: Place,
    options: Options,
    access: Access,
    circumstances: Circumstances,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    /// The streams' connections.
    sockets: Arc<Sockets>,
    /// Streams take the hosts in turn.
    next: AtomicUsize,
}

impl Readable {
    pub fn new(spec: &TrialSpec) -> Result<Self> {
        let place = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        let access = options.access(&place, Duration::from_nanos(spec.timeout_ns))?;
        let first = place.hosts.first().filter(|_| spec.include_setup);
        Ok(Self {
            circumstances: Circumstances {
                place: place.address(),
                user: access.user.clone(),
                database: place.space.clone(),
                table: options.common.table.clone().unwrap_or_default(),
                password_env: options.login.password_env.clone(),
                streams: spec.streams,
                reads: spec.data == Data::Remote,
            },
            listening: first.and_then(Host::listening),
            place,
            options,
            access,
            sockets: Arc::default(),
            next: AtomicUsize::new(0),
        })
    }

    fn said<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| self.circumstances.explain(error))
    }

    async fn open(&self, spec: &TrialSpec, purpose: Purpose) -> Result<Connection> {
        let stream = match purpose {
            Purpose::Stream => self.next.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        let host = self.place.host_of(stream);
        let space = self.place.space.as_str();
        let ours = spec.data != Data::Remote && spec.leads() && self.options.common.setup;
        let makes = ours && purpose == Purpose::Plan;
        let mut connection =
            Connection::open(host, &self.access, (!makes).then_some(space)).await?;
        if makes {
            let name = quoted(space);
            connection
                .run(&format!("CREATE DATABASE IF NOT EXISTS {name}"))
                .await?;
            connection.run(&format!("USE {name}")).await?;
        }
        // What a timestamp is written as goes by it.
        connection.run("SET time_zone = '+00:00'").await?;
        if purpose == Purpose::Stream && !spec.include_setup {
            self.sockets.keep(connection.socket());
        }
        Ok(connection)
    }

    async fn about(&self, spec: &TrialSpec, connection: &mut Connection) -> Result<Identity> {
        let said = connection
            .query("SELECT @@version, @@version_comment")
            .await?;
        let text = |at: usize| {
            let value = said.first().and_then(|row| row.get(at).cloned().flatten());
            value.unwrap_or_default()
        };
        let server = Server::identify(&text(0), &text(1));
        let route = connection.route();
        let here = route.filter(|route| is_own(route.peer.ip()));
        let round_trip = match spec.include_setup {
            true => None,
            false => Some(connection.round_trip().await?.as_nanos() as u64),
        };
        let identity = Identity {
            address: self.place.address(),
            servers: self.place.hosts.len(),
            software: Some(server.software),
            pid: match spec.include_setup {
                true => self.listening.filter(|_| here.is_some()),
                false => here.and_then(|route| pid_of(route.peer)),
            },
            round_trip_ns: round_trip,
            same_machine: here.map(|_| true),
            route,
            ..Identity::default()
        };
        Ok(identity.beside(connection.neighbour()))
    }
}

impl Database for Readable {
    type Link = Connection;

    const DIALECT: Dialect = Dialect::MySql;
    const NAME: &'static str = "MySQL";

    fn common(&self) -> &Common {
        &self.options.common
    }

    fn address(&self) -> String {
        self.place.address()
    }

    fn within(&self) -> String {
        format!(" in {}", self.place.space)
    }

    fn sockets(&self, spec: &TrialSpec) -> Option<Arc<Sockets>> {
        (!spec.include_setup).then(|| self.sockets.clone())
    }

    async fn connect(&self, spec: &TrialSpec, purpose: Purpose) -> Result<Connection> {
        self.said(self.open(spec, purpose).await)
    }

    async fn identify(&self, spec: &TrialSpec, connection: &mut Connection) -> Result<Identity> {
        self.said(self.about(spec, connection).await)
    }

    async fn run(&self, connection: &mut Connection, sql: &str) -> Result<()> {
        self.said(connection.run(sql).await)
    }

    async fn ask_all(
        &self,
        connection: &mut Connection,
        sql: &str,
    ) -> Result<Vec<Vec<Option<String>>>> {
        self.said(connection.query(sql).await)
    }

    fn exists(table: &str) -> String {
        format!(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {}",
            literal(table)
        )
    }
}

impl Reads for Readable {
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
        format!("mysql-{}", self.options.format().name())
    }

    async fn columns(&self, connection: &mut Connection, select: &str) -> Result<Vec<Column>> {
        let none = format!("{select} LIMIT 0");
        let definitions = self.said(connection.described(&none).await)?;
        let column = |definition: Definition| Column {
            name: definition.name,
            data_type: definition.data_type,
            native: definition.native.into(),
        };
        Ok(definitions.into_iter().map(column).collect())
    }

    fn sum(column: &Column) -> Option<String> {
        let name = quoted(&column.name);
        Some(match &column.data_type {
            kind if kind.is_integer() => format!("SUM({name})"),
            DataType::Decimal128(digits, scale) if *digits <= SUMMED_DIGITS => {
                format!(
                    "TRUNCATE(SUM({name}) * 1{}, 0)",
                    "0".repeat(*scale as usize)
                )
            }
            DataType::Utf8 if column.native == "text" => {
                format!("SUM(OCTET_LENGTH(CONVERT({name} USING utf8mb4)))")
            }
            DataType::Binary if column.native == "blob" => format!("SUM(OCTET_LENGTH({name}))"),
            _ => return None,
        })
    }

    fn position(column: &Column, value: &str) -> Option<String> {
        Some(match column.native.as_str() {
            "tinyint" | "smallint" | "int" | "bigint" => value.to_owned(),
            "date" => format!("TO_DAYS({value})"),
            "datetime" | "timestamp" => {
                format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {value})")
            }
            _ => return None,
        })
    }

    fn bound(column: &Column, number: i128) -> String {
        match column.native.as_str() {
            "date" => format!("FROM_DAYS({number})"),
            "datetime" | "timestamp" => {
                format!("TIMESTAMPADD(MICROSECOND, {number}, '1970-01-01')")
            }
            _ => number.to_string(),
        }
    }

    fn hash(column: &Column, streams: usize) -> String {
        format!("CRC32({}) % {streams}", quoted(&column.name))
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
        let head = Dialect::MySql.insert_head(table);
        let mut text = head.clone().into_bytes();
        loop {
            let item = rows.next();
            let more = item.is_some();
            if let Some(item) = item {
                let mut written = sql::Rows::new(Dialect::MySql, table, item.batch())?;
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
        let columns = Columns::new(&question.schema, question.limit)?;
        Ok(Answer {
            state: State::Idle(connection, self.said(packets)?),
            format,
            forms: Vec::new(),
            columns,
            question,
            circumstances: self.circumstances.clone(),
            carried: 0,
        })
    }
}

impl Readable {
    async fn insert(
        &self,
        connection: &mut Connection,
        text: &mut Vec<u8>,
        head: &str,
    ) -> Result<()> {
        let statement = String::from_utf8(std::mem::replace(text, head.as_bytes().to_vec()));
        let statement =
            statement.map_err(|_| Error::new(Kind::Internal, "a statement that is no text"))?;
        self.said(connection.run(&statement).await)
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
