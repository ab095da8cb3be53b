//! One connection: packets of protocol 13 (Firebird 3 and later) over a wire, and what is asked by them.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::task::{ready, Context, Poll};

use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::wire::Wire;

use super::auth::{Arc4, Login, PLUGINS};
use super::errors::Status;
use super::types::{Field, Message};

/// What a packet asks for, or answers.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    Connect = 1,
    Accept = 3,
    Response = 9,
    Attach = 19,
    Create = 20,
    Detach = 21,
    Transaction = 29,
    Commit = 30,
    Rollback = 31,
    AllocateStatement = 62,
    Execute = 63,
    ExecImmediate = 64,
    Fetch = 65,
    FetchResponse = 66,
    FreeStatement = 67,
    PrepareStatement = 68,
    Dummy = 71,
    ContAuth = 92,
    Ping = 93,
    AcceptData = 94,
    Crypt = 96,
    CondAccept = 98,
}

const PROTOCOL: u32 = 0x800d;
/// Of a protocol of Firebird's own, which InterBase has not.
const OWN: u32 = 0xffff_0000;
const SQL_DIALECT: u32 = 3;
/// Bytes that the description of a statement may have.
const DESCRIPTION: u32 = 65_000;
/// In place of a statement's handle: the one that was allocated in the packet before.
const LATEST: u32 = 0xffff;
/// Bytes that are read at once.
const ROOM: usize = 64 << 10;

/// How a transaction sees what others write. Where a row is being changed it waits, and goes on with what was
/// committed.
pub const WRITES: &[u8] = &[3, 9, 15, 18, 6];
/// One state of all rows.
pub const READS: &[u8] = &[3, 8, 2, 6];

/// What was not there as a whole is `None`.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes that were taken.
    pub fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    #[inline]
    pub fn number(&mut self) -> Option<u32> {
        let four = self.take(4)?;
        Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }

    #[inline]
    pub fn long(&mut self) -> Option<i64> {
        let (high, low) = (self.number()?, self.number()?);
        Some(((u64::from(high) << 32) | u64::from(low)) as i64)
    }

    /// Bytes behind their count, filled up to whole words.
    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.number()? as usize;
        let taken = self.take(count)?;
        self.take(count.wrapping_neg() & 3)?;
        Some(taken)
    }

    /// Bytes behind their count, as descriptions have them.
    pub fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let two = self.take(2)?;
        self.take(usize::from(u16::from_le_bytes([two[0], two[1]])))
    }
}

/// Appends bytes behind their count, filled up to whole words.
pub fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
    out.resize(out.len() + (bytes.len().wrapping_neg() & 3), 0);
}

fn put_all(out: &mut Vec<u8>, numbers: &[u32]) {
    for number in numbers {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// What the server says to most that it is asked.
pub struct Response {
    pub handle: u32,
    data: Vec<u8>,
}

/// A statement that the server knows.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub handle: u32,
    /// Its rows' columns.
    pub fields: Vec<Field>,
}

pub struct Link {
    pub wire: Wire,
    ciphers: Option<(Arc4, Arc4)>,
    incoming: Vec<u8>,
    /// What of it was taken.
    taken: usize,
    outgoing: Vec<u8>,
    sent: usize,
    /// Answers that come before the next one and that nobody waits for.
    owed: usize,
    /// By which plugin, and what it must hear, where a log-in ends with the attachment.
    proof: Option<(String, String)>,
    database: u32,
    /// The one that is open.
    pub transaction: Option<u32>,
}

impl Link {
    /// Logs in at a server.
    pub async fn new(wire: Wire, space: &str, login: &Login) -> Result<Self> {
        let mut link = Self {
            wire,
            ciphers: None,
            incoming: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            sent: 0,
            owed: 0,
            proof: None,
            database: 0,
            transaction: None,
        };
        link.log_in(space, login).await?;
        Ok(link)
    }

    async fn log_in(&mut self, space: &str, login: &Login) -> Result<()> {
        let mut user = Vec::new();
        let mut say = |tag: u8, value: &[u8]| {
            user.push(tag);
            user.push(value.len() as u8);
            user.extend_from_slice(value);
        };
        say(9, login.user().as_bytes());
        say(8, b"Srp256");
        say(10, PLUGINS.as_bytes());
        let public = login.public();
        for (at, part) in public.as_bytes().chunks(254).enumerate() {
            say(7, &[&[at as u8], part].concat());
        }
        // Encrypted where the server is ready for it.
        say(11, &[1, 0, 0, 0]);
        say(1, b"venturi");
        say(6, b"");
        let out = self.begin(Op::Connect);
        put_all(out, &[Op::Attach as u32, 3, 1]);
        put(out, space.as_bytes());
        put_all(out, &[1]);
        put(out, &user);
        put_all(out, &[OWN | PROTOCOL, 1, 0, 5, 2]);
        self.send().await?;
        let op = self.next_op().await?;
        if op == Op::Response as u32 {
            self.response().await?;
        }
        let accepts = [Op::Accept, Op::AcceptData, Op::CondAccept];
        if !accepts.iter().any(|known| op == *known as u32) {
            return Err(stranger());
        }
        let first = op;
        self.receive(|from| from.take(12).map(|_| ())).await?;
        if op == Op::Accept as u32 {
            return Ok(());
        }
        // `keys` would say by what may be encrypted: Arc4 always.
        let (mut data, mut plugin, done) = self
            .receive(|from| {
                let said = (
                    from.bytes()?.to_vec(),
                    from.bytes()?.to_vec(),
                    from.number()?,
                );
                from.bytes()?;
                Some(said)
            })
            .await?;
        if done != 0 {
            return Ok(());
        }
        loop {
            let name = String::from_utf8_lossy(&plugin).into_owned();
            if !PLUGINS.split(',').any(|known| known == name) {
                return Err(Error::new(
                    Kind::Auth,
                    format!("the server wants a log-in by {name:?}; Venturi knows {PLUGINS}: AuthServer in its firebird.conf names them"),
                ));
            }
            let proof = match data.is_empty() {
                true => None,
                false => Some(login.proof(&name, &data)?),
            };
            let words = proof.as_ref().map_or(&public, |proof| &proof.text);
            if let Some(proof) = proof.as_ref().filter(|_| first != Op::CondAccept as u32) {
                // Nothing is encrypted there, and the proof comes with the attachment.
                self.proof = Some((name, proof.text.clone()));
                return Ok(());
            }
            self.say_more(words, &name).await?;
            match (self.next_op().await?, proof) {
                // By another way, or once more.
                (op, _) if op == Op::ContAuth as u32 => {
                    let said = self.receive(|from| {
                        let said = (from.bytes()?.to_vec(), from.bytes()?.to_vec());
                        (from.bytes()?, from.bytes()?);
                        Some(said)
                    });
                    (data, plugin) = said.await?;
                }
                (op, Some(proof)) if op == Op::Response as u32 => {
                    self.response().await?;
                    return self.encrypt(&proof.key).await;
                }
                (op, None) if op == Op::Response as u32 => {
                    self.response().await?;
                    return Ok(());
                }
                _ => return Err(stranger()),
            }
        }
    }

    async fn encrypt(&mut self, key: &[u8]) -> Result<()> {
        let out = self.begin(Op::Crypt);
        put(out, b"Arc4");
        put(out, b"Symmetric");
        self.send().await?;
        self.ciphers = Some((Arc4::new(key), Arc4::new(key)));
        self.answer().await.map(|_| ())
    }

    async fn say_more(&mut self, data: &str, plugin: &str) -> Result<()> {
        let out = self.begin(Op::ContAuth);
        for part in [data, plugin, PLUGINS, ""] {
            put(out, part.as_bytes());
        }
        self.send().await
    }

    /// Attaches to a database, or makes it.
    pub async fn attach(&mut self, space: &str, op: Op) -> Result<()> {
        let mut parameters = vec![1];
        let mut say = |tag: u8, value: &[u8]| {
            parameters.push(tag);
            parameters.push(value.len() as u8);
            parameters.extend_from_slice(value);
        };
        say(48, b"UTF8");
        say(63, &[SQL_DIALECT as u8]);
        say(77, b"");
        if let Some((plugin, proof)) = self.proof.take() {
            say(86, plugin.as_bytes());
            say(85, PLUGINS.as_bytes());
            say(84, proof.as_bytes());
        }
        let out = self.begin(op);
        put_all(out, &[0]);
        put(out, space.as_bytes());
        put(out, &parameters);
        self.send().await?;
        match self.next_op().await? {
            op if op == Op::Response as u32 => self.database = self.response().await?.handle,
            // Another way to log in is asked for: the proof was none.
            op if op == Op::ContAuth as u32 => return Err(Status::denied()),
            _ => return Err(stranger()),
        }
        Ok(())
    }

    pub async fn detach(mut self) {
        let database = self.database;
        put_all(self.begin(Op::Detach), &[database]);
        let _ = self.ask().await;
    }

    /// There and back.
    pub async fn ping(&mut self) -> Result<()> {
        self.begin(Op::Ping);
        self.ask().await.map(|_| ())
    }

    pub async fn begin_transaction(&mut self, how: &[u8]) -> Result<u32> {
        if let Some(transaction) = self.transaction {
            return Ok(transaction);
        }
        self.put_transaction(how);
        let handle = self.ask().await?.handle;
        self.transaction = Some(handle);
        Ok(handle)
    }

    fn put_transaction(&mut self, how: &[u8]) {
        let database = self.database;
        let out = self.begin(Op::Transaction);
        put_all(out, &[database]);
        put(out, how);
    }

    /// Ends the transaction; `op`: by which.
    pub async fn end_transaction(&mut self, op: Op) -> Result<()> {
        let Some(transaction) = self.transaction.take() else {
            return Ok(());
        };
        put_all(self.begin(op), &[transaction]);
        self.ask().await.map(|_| ())
    }

    /// The same, and the next one begins in the same trip to the server.
    pub async fn renew_transaction(&mut self, op: Op, how: &[u8]) -> Result<()> {
        let Some(transaction) = self.transaction.take() else {
            return self.begin_transaction(how).await.map(|_| ());
        };
        put_all(self.begin(op), &[transaction]);
        self.put_transaction(how);
        self.send().await?;
        let ended = self.answer().await;
        let begun = self.answer().await;
        if ended.is_err() && op == Op::Commit {
            // It goes on until it is rolled back.
            self.transaction = Some(transaction);
            let _ = self.end_transaction(Op::Rollback).await;
        }
        self.transaction = begun.as_ref().ok().map(|begun| begun.handle);
        ended.and(begun).map(|_| ())
    }

    /// Executes one statement without rows, in a transaction of its own.
    pub async fn run(&mut self, sql: &str) -> Result<()> {
        let transaction = self.begin_transaction(WRITES).await?;
        let out = self.begin(Op::ExecImmediate);
        put_all(out, &[transaction, 0, SQL_DIALECT]);
        put(out, sql.as_bytes());
        put(out, b"");
        put_all(out, &[0]);
        match self.ask().await {
            Ok(_) => self.end_transaction(Op::Commit).await,
            Err(error) => {
                self.end_transaction(Op::Rollback).await?;
                Err(error)
            }
        }
    }

    pub async fn prepare(&mut self, sql: &str, how: &[u8]) -> Result<Prepared> {
        let transaction = self.begin_transaction(how).await?;
        let database = self.database;
        put_all(self.begin(Op::AllocateStatement), &[database]);
        let out = self.begin(Op::PrepareStatement);
        put_all(out, &[transaction, LATEST, SQL_DIALECT]);
        put(out, sql.as_bytes());
        put(out, Field::ITEMS);
        put_all(out, &[DESCRIPTION]);
        self.send().await?;
        let allocated = self.answer().await;
        let prepared = self.answer().await;
        Ok(Prepared {
            handle: allocated?.handle,
            fields: Field::read_all(&prepared?.data)?,
        })
    }

    /// Appends the packet that executes a statement with one row of values.
    pub fn put_execute(&mut self, statement: u32, blr: &[u8], values: &[u8]) {
        let transaction = self.transaction.unwrap_or_default();
        let out = self.begin(Op::Execute);
        put_all(out, &[statement, transaction]);
        put(out, blr);
        put_all(out, &[0, u32::from(!blr.is_empty())]);
        out.extend_from_slice(values);
    }

    /// Executes a statement with each of the rows, which lie one behind the other and end at `ends`, in one trip
    /// to the server; the first error, when all have been answered.
    pub async fn execute_all(
        &mut self,
        statement: u32,
        blr: &[u8],
        values: &[u8],
        ends: &[usize],
    ) -> Result<()> {
        let mut from = 0;
        for &to in ends {
            self.put_execute(statement, blr, &values[from..to]);
            from = to;
        }
        self.exchange().await?;
        let mut first = Ok(());
        for _ in ends {
            match self.answer().await {
                Ok(_) => {}
                Err(error) if error.code.is_some() => first = first.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        first
    }

    /// Appends the packet that asks for so many rows.
    pub fn put_fetch(&mut self, statement: u32, blr: &[u8], rows: u32) {
        let out = self.begin(Op::Fetch);
        put_all(out, &[statement]);
        put(out, blr);
        put_all(out, &[0, rows]);
    }

    /// All rows of an answer, as text, which the server itself makes of its values.
    pub async fn ask_all(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let asked = self.ask_rows(sql).await;
        let ended = self.end_transaction(Op::Rollback).await;
        let rows = asked?;
        ended?;
        Ok(rows)
    }

    async fn ask_rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        const AT_ONCE: u32 = 1000;
        let statement = self.prepare(sql, READS).await?;
        let message = Message::as_text(&statement.fields);
        self.put_execute(statement.handle, b"", b"");
        self.put_fetch(statement.handle, &message.blr, AT_ONCE);
        self.send().await?;
        if let Err(error) = self.answer().await {
            // So has the fetch.
            let _ = self.answer().await;
            return Err(error);
        }
        let mut rows = Vec::new();
        loop {
            match self.next_row(&message).await? {
                Fetched::Row(row) => rows.push(message.texts(self.row(&row))),
                Fetched::Over => break,
                Fetched::Pause => {
                    self.put_fetch(statement.handle, &message.blr, AT_ONCE);
                    self.send().await?;
                }
            }
        }
        const DROP: u32 = 2;
        // Goes out with what comes next, before which the server does not answer either.
        put_all(self.begin(Op::FreeStatement), &[statement.handle, DROP]);
        self.owed += 1;
        Ok(rows)
    }

    async fn next_row(&mut self, message: &Message) -> Result<Fetched> {
        loop {
            if let Some(fetched) = self.fetched(message)? {
                return Ok(fetched);
            }
            self.fill().await?;
        }
    }

    /// The next answer to a fetch, where it is there as a whole; the answer to the execution may come before.
    #[inline]
    pub fn fetched(&mut self, message: &Message) -> Result<Option<Fetched>> {
        const END: u32 = 100;
        loop {
            let mut from = Reader::new(&self.incoming[self.taken..]);
            let fetched = match from.number() {
                None => return Ok(None),
                Some(op) if op == Op::FetchResponse as u32 => {
                    match (from.number(), from.number()) {
                        (Some(END), Some(_)) => Fetched::Over,
                        (Some(_), Some(0)) => Fetched::Pause,
                        (Some(_), Some(_)) => {
                            let begins = self.taken + from.at();
                            if message.skip(&mut from).is_none() {
                                return Ok(None);
                            }
                            Fetched::Row(begins..self.taken + from.at())
                        }
                        _ => return Ok(None),
                    }
                }
                Some(op) if op == Op::Response as u32 => {
                    let Some((_, _, status)) = Status::response(&mut from) else {
                        return Ok(None);
                    };
                    self.taken += from.at();
                    match status.error() {
                        Some(error) => return Err(error),
                        None => continue,
                    }
                }
                Some(op) if op == Op::Dummy as u32 => {
                    self.taken += from.at();
                    continue;
                }
                Some(_) => return Err(stranger()),
            };
            self.taken += from.at();
            return Ok(Some(fetched));
        }
    }

    /// The bytes of a row that was fetched, until more is received.
    pub fn row(&self, row: &Range<usize>) -> &[u8] {
        &self.incoming[row.clone()]
    }

    /// Begins a packet.
    fn begin(&mut self, op: Op) -> &mut Vec<u8> {
        put_all(&mut self.outgoing, &[op as u32]);
        &mut self.outgoing
    }

    async fn ask(&mut self) -> Result<Response> {
        self.send().await?;
        self.answer().await
    }

    /// Sends the packets that have been begun.
    pub async fn send(&mut self) -> Result<()> {
        self.seal();
        poll_fn(|cx| self.poll_send(cx)).await
    }

    /// Encrypts the packets that have been begun; no other may be added before they are sent.
    pub fn seal(&mut self) {
        if let Some((outward, _)) = &mut self.ciphers {
            outward.apply(&mut self.outgoing);
        }
    }

    /// Sends what has been sealed.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while self.sent < self.outgoing.len() {
            let piece = [IoSlice::new(&self.outgoing[self.sent..])];
            match ready!(self.wire.poll_write(cx, &piece)) {
                Ok(0) => return Poll::Ready(Err(gone())),
                Ok(count) => self.sent += count,
                Err(error) => return Poll::Ready(Err(lost(&error))),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Sends what has been sealed while answers are received, so that neither end waits for the other to read.
    pub async fn exchange(&mut self) -> Result<()> {
        self.seal();
        poll_fn(|cx| loop {
            if let Poll::Ready(done) = self.poll_send(cx) {
                return Poll::Ready(done);
            }
            match self.poll_fill(cx) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        })
        .await
    }

    /// Receives once; how many bytes came.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        if self.taken > 0 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        let held = self.incoming.len();
        self.incoming.resize(held + ROOM, 0);
        let mut place = [IoSliceMut::new(&mut self.incoming[held..])];
        let read = self.wire.poll_read(cx, &mut place);
        let count = match &read {
            Poll::Ready(Ok(count)) => *count,
            _ => 0,
        };
        self.incoming.truncate(held + count);
        Poll::Ready(match ready!(read) {
            Ok(0) => Err(gone()),
            Ok(count) => {
                if let Some((_, inward)) = &mut self.ciphers {
                    inward.apply(&mut self.incoming[held..]);
                }
                Ok(count)
            }
            Err(error) => Err(lost(&error)),
        })
    }

    async fn fill(&mut self) -> Result<()> {
        poll_fn(|cx| self.poll_fill(cx)).await.map(|_| ())
    }

    async fn receive<T>(&mut self, take: impl Fn(&mut Reader<'_>) -> Option<T>) -> Result<T> {
        loop {
            let mut from = Reader::new(&self.incoming[self.taken..]);
            if let Some(taken) = take(&mut from) {
                self.taken += from.at();
                return Ok(taken);
            }
            self.fill().await?;
        }
    }

    /// What comes next. Nothing says that the other end still lives better than a dummy does.
    async fn next_op(&mut self) -> Result<u32> {
        loop {
            let op = self.receive(|from| from.number()).await?;
            if op != Op::Dummy as u32 {
                return Ok(op);
            }
        }
    }

    /// The answer to the next packet that was sent.
    pub async fn answer(&mut self) -> Result<Response> {
        loop {
            if self.next_op().await? != Op::Response as u32 {
                return Err(stranger());
            }
            let response = self.response().await;
            if self.owed == 0 {
                return response;
            }
            self.owed -= 1;
        }
    }

    async fn response(&mut self) -> Result<Response> {
        let answer = self.receive(|from| {
            let (handle, data, status) = Status::response(from)?;
            Some((handle, data.to_vec(), status))
        });
        let (handle, data, status) = answer.await?;
        match status.error() {
            Some(error) => Err(error),
            None => Ok(Response { handle, data }),
        }
    }
}

/// What a fetch brought.
pub enum Fetched {
    /// Where its bytes are.
    Row(Range<usize>),
    /// As many as were asked for.
    Pause,
    Over,
}

fn stranger() -> Error {
    Error::protocol("an answer that is none of Firebird's; is it a Firebird server, 3.0 or later?")
}

fn lost(error: &io::Error) -> Error {
    Error::new(
        Kind::Lost,
        format!("the connection is lost: {error}; the server's firebird.log may say why"),
    )
}

fn gone() -> Error {
    Error::new(
        Kind::Lost,
        "the server ended the connection; its firebird.log may say why",
    )
}
