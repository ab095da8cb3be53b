//! One connection: log-in, and calls that wait for their answer.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::auth::{self, Next};
use super::channel::Channel;
use super::errors;
use super::options::Access;
use super::server::quoted;
use super::statement::Statement;
use crate::upsert::{Host, StatementKind, Waits};
use venturi_base::codec::mysql::definition::Definition;
use venturi_base::codec::mysql::{self, command, Answer, Greeting, Login, Reader};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::net::dial;
use venturi_base::net::route::{Neighbour, Route};

/// Rows that a query outside the clock may be answered by.
const MOST_ROWS: usize = 10_000;
/// Steps of a log-in; a server that wants more has lost its way.
const MOST_STEPS: usize = 8;
/// How long last words of a server that has closed the connection are waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A row of an answer; `None`: NULL.
pub type Row = Vec<Option<String>>;

pub struct Connection {
    /// For errors.
    host: String,
    channel: Channel,
    /// It is in a database.
    pub has_database: bool,
    /// Prepared statements by the rows that they take.
    prepared: HashMap<usize, u32>,
    /// When the kernel waited for the last answer.
    waits: Waits,
}

impl Connection {
    /// Connects and logs in. The caller says where it was.
    pub async fn open(host: &Host, access: &Access, database: Option<&str>) -> Result<Self> {
        let wire = host.dial(Some(access.timeout), None).await?;
        let logging_in = Self::log_in(Channel::new(wire), host, access, database);
        limit::within(access.timeout, logging_in)
            .await
            .map_err(|over| dial::late("the log-in", over))?
    }

    async fn log_in(
        mut channel: Channel,
        host: &Host,
        access: &Access,
        database: Option<&str>,
    ) -> Result<Self> {
        let first = |message: &[u8]| match Answer::parse(message)? {
            Answer::Refused(refusal) => Err(errors::refused(&refusal)),
            _ => Greeting::parse(message),
        };
        let greeting = channel.receive(first).await.map_err(first_contact)?;
        let tls = access.tls.is_some();
        // Servers hold a Unix socket for as secure as TLS: they want the password itself there too.
        let private = tls || host.socket().is_some();
        let known = ["mysql_native_password", "caching_sha2_password"];
        let plugin = known
            .into_iter()
            .find(|plugin| *plugin == greeting.plugin)
            .unwrap_or(known[0]);
        let response = auth::respond(plugin, &access.secret, &greeting.nonce, private)?;
        let login = Login {
            user: &access.user,
            database,
            plugin,
            response: &response,
            tls,
        };
        let capabilities = login.capabilities(&greeting).ok_or_else(|| match tls {
            true => Error::new(
                Kind::Tls,
                "the server does not offer TLS: without it the URL begins with mysql://",
            ),
            false => Error::protocol(
                "the server is too old: it does not speak MySQL's protocol of version 4.1",
            ),
        })?;
        if let Some(config) = &access.tls {
            channel.answer(&Login::head(capabilities)).await?;
            let name = access.server_name.as_deref().unwrap_or(&host.name);
            channel = channel.secure(config.clone(), name).await?;
        }
        channel.answer(&login.message(capabilities)).await?;
        let mut nonce = greeting.nonce.clone();
        for _ in 0..MOST_STEPS {
            let step = |message: &[u8]| {
                let answer = match message.first() {
                    Some(0) => return Ok(None),
                    Some(0xff) => match Answer::parse(message)? {
                        Answer::Refused(refusal) => return Err(errors::refused(&refusal)),
                        _ => return Ok(None),
                    },
                    Some(0xfe) => {
                        let mut reader = Reader(&message[1..]);
                        let plugin = String::from_utf8_lossy(reader.text()).into_owned();
                        nonce = reader.0[..reader.0.len().min(20)].to_vec();
                        Next::Send(auth::respond(&plugin, &access.secret, &nonce, private)?)
                    }
                    _ => auth::go_on(message, &access.secret, &nonce, private)?,
                };
                Ok(Some(answer))
            };
            match channel.receive(step).await? {
                None => {
                    return Ok(Self {
                        host: host.authority(),
                        channel,
                        has_database: database.is_some(),
                        prepared: HashMap::new(),
                        waits: Waits::default(),
                    })
                }
                Some(Next::Wait) => {}
                Some(Next::Send(answer)) => channel.answer(&answer).await?,
            }
        }
        Err(Error::protocol("the log-in has no end"))
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.channel.wire().socket()
    }

    pub fn route(&self) -> Option<Route> {
        self.channel.wire().route()
    }

    pub fn neighbour(&self) -> Option<Neighbour> {
        self.channel.wire().neighbour()
    }

    /// The thread serves no other connection: answers may be waited for in the kernel.
    pub fn alone(&mut self, most: Duration) {
        // A refusal costs speed, not more.
        let _ = self.channel.block(most);
    }

    /// What of a call was waiting that the runtime knows nothing of.
    pub fn waits(&self) -> Waits {
        self.waits.clone()
    }

    async fn call(&mut self, code: u8, text: &str) -> Result<()> {
        let packets = command(code, |out| {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        })?;
        self.channel.send(&[], &packets).await
    }

    pub async fn use_database(&mut self, name: &str) -> Result<()> {
        self.run(&format!("USE {}", quoted(name))).await?;
        self.has_database = true;
        Ok(())
    }

    /// Says good-bye, so that the server does not count it as an aborted connection.
    pub async fn quit(mut self) {
        let _ = self.call(command::QUIT, "").await;
    }

    /// The time to the server and back: the least of a few PINGs.
    pub async fn round_trip(&mut self) -> Result<Duration> {
        let mut least = Duration::MAX;
        for _ in 0..5 {
            let begun = Instant::now();
            self.call(command::PING, "").await?;
            self.channel.receive(done).await?;
            least = least.min(begun.elapsed());
        }
        Ok(least)
    }

    /// Executes a statement whose rows, if it has any, nobody wants.
    pub async fn run(&mut self, sql: &str) -> Result<()> {
        self.query(sql).await.map(|_| ())
    }

    /// All rows of the answer, as text.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<Row>> {
        self.call(command::QUERY, sql).await?;
        let columns = |message: &[u8]| match Answer::parse(message)? {
            Answer::Ok => Ok(None),
            Answer::Refused(refusal) => Err(errors::refused(&refusal)),
            Answer::Other(message) if message[0] != 0xfb => Ok(Reader(message).integer()),
            _ => Err(unasked()),
        };
        let Some(columns) = self.channel.receive(columns).await? else {
            return Ok(Vec::new());
        };
        if columns > 4096 {
            return Err(Error::protocol(
                "an answer of more columns than a table can have",
            ));
        }
        self.definitions(columns as usize).await?;
        let mut rows = Vec::new();
        loop {
            let row = |message: &[u8]| match message.first() {
                Some(0xfe) if message.len() < 9 => Ok(None),
                Some(0xff) => Err(match Answer::parse(message)? {
                    Answer::Refused(refusal) => errors::refused(&refusal),
                    _ => unasked(),
                }),
                _ => mysql::row(message, columns as usize).map(Some),
            };
            match self.channel.receive(row).await? {
                None => return Ok(rows),
                Some(_) if rows.len() == MOST_ROWS => {
                    return Err(Error::protocol(format!(
                        "an answer of over {MOST_ROWS} rows"
                    )))
                }
                Some(row) => rows.push(row),
            }
        }
    }

    /// The columns of a statement's answer, whose rows nobody wants.
    pub async fn described(&mut self, sql: &str) -> Result<Vec<Definition>> {
        let packets = Self::query_packets(sql)?;
        let definitions = self.ask_rows(&packets).await?;
        let end = |message: &[u8]| match Answer::parse(message)? {
            Answer::End => Ok(true),
            Answer::Refused(refusal) => Err(errors::refused(&refusal)),
            _ => Ok(false),
        };
        while !self.channel.receive(end).await? {}
        Ok(definitions)
    }

    /// A statement as it is sent.
    pub fn query_packets(sql: &str) -> Result<Vec<u8>> {
        command(command::QUERY, |out| {
            out.extend_from_slice(sql.as_bytes());
            Ok(())
        })
    }

    /// Prepares a query without parameters; what executes it.
    pub async fn execution(&mut self, sql: &str) -> Result<Vec<u8>> {
        /// No cursor; once.
        const ONCE: [u8; 5] = [0, 1, 0, 0, 0];
        self.prepare(0, sql).await?;
        let number = self.prepared.get(&0).copied().unwrap_or_default();
        command(command::EXECUTE, |out| {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&ONCE);
            Ok(())
        })
    }

    /// Sends what asks for rows, and takes the definitions of their columns.
    pub async fn ask_rows(&mut self, packets: &[u8]) -> Result<Vec<Definition>> {
        self.channel.send(&[], packets).await?;
        let columns = |message: &[u8]| match Answer::parse(message)? {
            Answer::Refused(refusal) => Err(errors::refused(&refusal)),
            Answer::Other(message) if message[0] != 0xfb => Ok(Reader(message).integer()),
            Answer::Ok => Err(Error::usage(
                "query: it gives no rows: a get needs a SELECT",
            )),
            _ => Err(unasked()),
        };
        let columns = self.channel.receive(columns).await?.unwrap_or_default();
        let mut definitions = Vec::new();
        for _ in 0..columns.min(4096) {
            definitions.push(self.channel.receive(Definition::parse).await?);
        }
        self.definitions(0).await?;
        self.channel.take_rows();
        Ok(definitions)
    }

    /// The next row that is there as a whole; `Some(None)`: that was the last.
    pub fn next_row(&mut self) -> Result<Option<Option<&[u8]>>> {
        let Some(message) = self.channel.next()? else {
            return Ok(None);
        };
        match message.first() {
            Some(0xfe) if message.len() < 9 => Ok(Some(None)),
            Some(0xff) => Err(match Answer::parse(message)? {
                Answer::Refused(refusal) => errors::refused(&refusal),
                _ => unasked(),
            }),
            _ => Ok(Some(Some(message))),
        }
    }

    /// Reads from the wire once; how many bytes came.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        self.channel.poll_fill(cx)
    }

    /// The first value of the answer.
    pub async fn value(&mut self, sql: &str) -> Result<Option<String>> {
        let rows = self.query(sql).await?;
        Ok(rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next()?))
    }

    /// Definitions of columns, and what ends them.
    async fn definitions(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            self.channel.receive(|_| Ok(())).await?;
        }
        self.channel
            .receive(|message| match Answer::parse(message)? {
                Answer::End => Ok(()),
                _ => Err(Error::protocol("a list of columns without an end")),
            })
            .await
    }

    /// Prepares the statement that takes `rows` rows.
    pub async fn prepare(&mut self, rows: usize, sql: &str) -> Result<()> {
        self.call(command::PREPARE, sql).await?;
        let answer = |message: &[u8]| match Answer::parse(message)? {
            Answer::Ok => mysql::prepared(message),
            Answer::Refused(refusal) => Err(errors::refused(&refusal)),
            _ => Err(unasked()),
        };
        let (number, parameters, columns) = self.channel.receive(answer).await?;
        for count in [parameters, columns] {
            if count > 0 {
                self.definitions(count.into()).await?;
            }
        }
        self.prepared.insert(rows, number);
        Ok(())
    }

    /// Executes one batch: the hot path.
    pub async fn upsert(&mut self, statement: &Statement) -> Result<()> {
        let packets = &statement.packets[..];
        let sent = match statement.kind {
            StatementKind::Text => self.channel.send(&[], packets).await,
            StatementKind::Prepared => {
                let number = self.prepared.get(&statement.rows).ok_or_else(|| {
                    Error::new(Kind::Internal, "no statement of so many rows is prepared")
                })?;
                let (head, body) = mysql::with_number(packets, *number);
                self.channel.send(&head, body).await
            }
        };
        match sent {
            Ok(()) => {
                self.waits.set(self.channel.wait()?);
                self.channel.receive(done).await
            }
            // It may have said why before it closed the connection.
            Err(error) => {
                let saying = self.channel.receive(done);
                match tokio::time::timeout(LAST_WORDS, saying).await {
                    Ok(Err(last)) if last.code.is_some() => Err(last),
                    _ => Err(error),
                }
            }
        }
    }
}

fn done(message: &[u8]) -> Result<()> {
    match Answer::parse(message)? {
        Answer::Ok => Ok(()),
        Answer::Refused(refusal) => Err(errors::refused(&refusal)),
        _ => Err(unasked()),
    }
}

/// An answer of another kind than the request has.
fn unasked() -> Error {
    Error::protocol(
        "an answer that was not asked for: is a proxy between here and the server, which mixes \
         connections up? Name the server itself",
    )
}

/// A server that is something else says odd things first, or nothing.
fn first_contact(mut error: Error) -> Error {
    if error.kind == Kind::Lost {
        error.kind = Kind::Protocol;
        error.message = format!(
            "{} before it said a word; is it a MySQL server?",
            error.message
        );
    }
    error
}
