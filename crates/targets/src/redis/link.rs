//! One connection: dialled, logged in; commands go out packed, replies are read one by one.

use std::future::{poll_fn, Future};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio_rustls::TlsStream;

use crate::upsert::{Executing, Executor, Host, Login, Place, Prepared};
use venturi_base::codec::redis::{length, refuse_reply, Command, Refusal, Reply, LONGEST};
use venturi_base::error::{Error, Fate, Kind, Result};
use venturi_base::limit;
use venturi_base::meter::clock::Stage;
use venturi_base::meter::sockets::Sockets;
use venturi_base::net::dial;
use venturi_base::net::tls::tls_advice;
use venturi_base::net::wire::Wire;

/// Bytes that a read has room for.
const ROOM: usize = 16 << 10;
/// Of what a server says, so much goes into an error.
const QUOTED: usize = 200;

/// What every connection of a trial is made with.
pub struct Access {
    pub host: Host,
    pub database: u32,
    /// A password, with the user where there is one.
    login: Option<(Option<String>, String)>,
    tls: Option<Arc<ClientConfig>>,
    server_name: String,
    has_authority: bool,
    password_env: Option<String>,
    init: Vec<String>,
    timeout: Duration,
    /// For error lines.
    table: String,
}

impl Access {
    pub fn new(
        place: &Place,
        login: &Login,
        init: &[String],
        table: &str,
        timeout: Duration,
    ) -> Result<Self> {
        let host = place.host_of(0).clone();
        let database = place.space.parse().map_err(|_| {
            Error::usage(format!(
                "database {:?}: Redis numbers its databases; write redis://{}/0",
                place.space,
                host.authority()
            ))
        })?;
        let line = |text: &&String| text.is_empty() || text.starts_with('*') || text.contains('\n');
        if let Some(wrong) = init.iter().find(line) {
            return Err(Error::usage(format!(
                "init {wrong:?}: write one command on one line, as for redis-cli"
            )));
        }
        let (user, password) = (login.user(place), login.password()?);
        Ok(Self {
            database,
            login: match (user, password) {
                (None, None) => None,
                (user, password) => Some((user, password.unwrap_or_default())),
            },
            tls: login.tls(place)?.map(Arc::new),
            server_name: login.tls_server_name.clone().unwrap_or(host.name.clone()),
            has_authority: login.tls_ca.is_some(),
            password_env: login.password_env.clone(),
            init: init.to_vec(),
            timeout,
            table: table.to_owned(),
            host,
        })
    }

    /// A connection that takes commands. `sockets` watches it from its first byte on.
    pub async fn open(&self, sockets: Option<&Sockets>) -> Result<Link> {
        let opened = self.in_time("the log-in", self.log_in(sockets)).await;
        opened.map_err(|error| error.context(self.host.authority()))
    }

    async fn in_time<T>(&self, what: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = limit::within(self.timeout, work).await;
        done.unwrap_or_else(|over| Err(dial::late(what, over)))
    }

    async fn log_in(&self, sockets: Option<&Sockets>) -> Result<Link> {
        let wire = self.host.dial(None, None).await?;
        if let Some(sockets) = sockets {
            sockets.keep(wire.socket());
        }
        let wire = match (wire, &self.tls) {
            (Wire::Tcp(socket), Some(config)) => {
                let name = dial::server_name(&self.server_name)?;
                let advice = |text: &str| tls_advice(text, "redis", self.has_authority);
                let session = dial::tls(socket, config.clone(), name, None, advice).await?;
                Wire::Tls(Box::new(TlsStream::Client(session)))
            }
            (plain, _) => plain,
        };
        let mut link = Link {
            wire,
            incoming: Vec::new(),
            read: 0,
        };
        if let Some((user, password)) = &self.login {
            let mut auth = Command::new("AUTH");
            if let Some(user) = user {
                auth.arg(user);
            }
            let said = link.ask(&auth.arg(password).packed()).await;
            self.done(said.map_err(first_contact)?)?;
        }
        let mut select = Command::new("SELECT");
        select.arg(self.database.to_string());
        let said = link.ask(&select.packed()).await;
        self.done(said.map_err(first_contact)?)?;
        for line in &self.init {
            let said = link.ask(format!("{line}\r\n").as_bytes()).await?;
            let done = self.done(said);
            done.map_err(|error| error.context(format_args!("init {line:?}")))?;
        }
        Ok(link)
    }

    /// The answer to one command, outside the clock.
    pub async fn ask(&self, link: &mut Link, command: &Command) -> Result<Reply> {
        let mut answers = self.ask_all(link, &command.packed(), 1).await?;
        answers.pop().ok_or_else(refuse_reply).and_then(|answer| {
            let done = self.done(answer);
            done.map_err(|error| error.context(self.host.authority()))
        })
    }

    /// The answers to `count` commands, those that say no included.
    pub async fn ask_all(
        &self,
        link: &mut Link,
        packed: &[u8],
        count: usize,
    ) -> Result<Vec<Reply>> {
        let asked = async {
            link.send(packed).await?;
            let mut answers = Vec::with_capacity(count);
            for _ in 0..count {
                answers.push(link.reply().await?);
            }
            Ok(answers)
        };
        let answers = self.in_time("a command", asked).await;
        answers.map_err(|error| error.context(self.host.authority()))
    }

    /// A value, or what the server says instead.
    pub fn done(&self, reply: Reply) -> Result<Reply> {
        match reply {
            Reply::Refused(refusal) => Err(self.refused(&refusal)),
            reply => Ok(reply),
        }
    }

    /// What the server refuses, and what to do next.
    pub fn refused(&self, refusal: &Refusal) -> Error {
        let code = &*refusal.code;
        let text: String = format!("{code} {}", refusal.details)
            .chars()
            .filter(|c| !c.is_control())
            .take(QUOTED)
            .collect();
        let (kind, advice) = self.advice(code, &text);
        let advice = advice
            .map(|advice| format!("; {advice}"))
            .unwrap_or_default();
        Error::new(
            kind,
            format!("the server says {:?}{advice}", text.trim_end()),
        )
        .with_code(code)
    }

    /// By the reply's first word, which is Redis' code. Most refusals have ERR for it: of these
    /// only the words tell.
    fn advice(&self, code: &str, text: &str) -> (Kind, Option<String>) {
        let says = |part: &str| code == "ERR" && text.contains(part);
        let holds = || match &self.password_env {
            Some(name) => format!("is what {name} holds the password of this user?"),
            None => "name the variable that holds the user's password as password_env".to_owned(),
        };
        let table = &self.table;
        let advice = match code {
            "NOAUTH" | "WRONGPASS" => return (Kind::Auth, Some(holds())),
            _ if says("invalid password") => return (Kind::Auth, Some(holds())),
            _ if says("without any password configured") => {
                let advice = "the server asks for no password: leave password_env out";
                return (Kind::Auth, Some(advice.to_owned()));
            }
            "NOPERM" => {
                let advice = "the user may not do this: ACL SETUSER on the server grants it";
                return (Kind::Auth, Some(advice.to_owned()));
            }
            "WRONGTYPE" => format!(
                "a key that begins with {table}: is no hash, so another program has written it: name another \
                 table by --table, or another database in the URL"
            ),
            "READONLY" => REPLICA.to_owned(),
            "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => CLUSTER.to_owned(),
            "OOM" => "the server is at its maxmemory: raise it (CONFIG SET maxmemory), or take a smaller --working-set"
                .to_owned(),
            "MISCONF" => "the server cannot save its data and takes no writes: its log says why (is the disk full?)"
                .to_owned(),
            "LOADING" => "the server reads its data yet: try again in a moment".to_owned(),
            "NOREPLICAS" => "too few replicas are connected: start them, or lower min-replicas-to-write".to_owned(),
            "DENIED" => "set a password at the server and name its variable as password_env".to_owned(),
            _ if says("DB index is out of range") => format!(
                "the server has no database {}: name a lower one behind the / of the URL, or raise `databases`",
                self.database
            ),
            _ if says("max number of clients") => "take fewer --streams, or raise maxclients".to_owned(),
            _ if says("not an integer") => format!(
                "a counter of {table} holds something else, so another program has written it: name another by --table"
            ),
            _ if says("overflow") => "Redis' counters end at 9223372036854775807".to_owned(),
            _ => return (Kind::Server, None),
        };
        (Kind::Server, Some(advice))
    }
}

pub const REPLICA: &str = "it is a replica, which takes no writes: name its primary in the URL";
pub const CLUSTER: &str = "it is a node of a Redis Cluster, of which each has a part of the keys: name a server that has \
                           all of them (cluster-enabled no)";

pub struct Link {
    wire: Wire,
    /// What has come, and how much of it has been read.
    incoming: Vec<u8>,
    read: usize,
}

impl Link {
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    async fn ask(&mut self, packed: &[u8]) -> Result<Reply> {
        self.send(packed).await?;
        self.reply().await
    }

    pub async fn send(&mut self, mut rest: &[u8]) -> Result<()> {
        while !rest.is_empty() {
            let wrote = poll_fn(|cx| self.wire.poll_write(cx, &[IoSlice::new(rest)])).await;
            match wrote.map_err(lost)? {
                0 => return Err(gone()),
                count => rest = &rest[count..],
            }
        }
        poll_fn(|cx| self.wire.poll_flush(cx)).await.map_err(lost)
    }

    /// The next reply's bytes.
    async fn frame(&mut self) -> Result<&[u8]> {
        loop {
            if let Some(length) = length(&self.incoming[self.read..])? {
                let from = self.read;
                self.read += length;
                return Ok(&self.incoming[from..self.read]);
            }
            self.incoming.drain(..self.read);
            self.read = 0;
            let had = self.incoming.len();
            if had > LONGEST {
                return Err(refuse_reply());
            }
            self.incoming.resize(had + ROOM, 0);
            let (wire, incoming) = (&mut self.wire, &mut self.incoming);
            let read =
                poll_fn(|cx| wire.poll_read(cx, &mut [IoSliceMut::new(&mut incoming[had..])]));
            let count = read.await.map_err(lost)?;
            self.incoming.truncate(had + count);
            if count == 0 {
                return Err(gone());
            }
        }
    }

    async fn reply(&mut self) -> Result<Reply> {
        Reply::parse(self.frame().await?)
    }

    /// Reads the replies to `count` commands: how many of them say no, and the first that does.
    pub async fn settle(&mut self, count: usize) -> Result<(usize, Option<Refusal>)> {
        let (mut refused, mut first) = (0, None);
        for _ in 0..count {
            let frame = self.frame().await?;
            if frame[0] != b'-' {
                continue;
            }
            refused += 1;
            if let (None, Reply::Refused(refusal)) = (&first, Reply::parse(frame)?) {
                first = Some(refusal);
            }
        }
        Ok((refused, first))
    }
}

/// The packed commands of a batch.
#[derive(Debug)]
pub struct Statement {
    pub bytes: Vec<u8>,
    pub commands: usize,
}

/// A stream's connection.
pub struct Call {
    pub link: Link,
    pub access: Arc<Access>,
}

impl Call {
    async fn apply(&mut self, call: &Prepared<Statement>) -> Result<()> {
        let Statement { bytes, commands } = &call.statement;
        self.link.send(bytes).await?;
        let (refused, first) = self.link.settle(*commands).await?;
        let Some(first) = first else {
            return Ok(());
        };
        let rows = call.rows;
        let error = self.access.refused(&first);
        let batch = format!("{refused} of {commands} commands of a batch of {rows} rows");
        // A pipeline is no transaction: what was not refused has been done.
        Err(error.context(batch).with_fate(match refused == *commands {
            true => Fate::Refused { rows },
            false => Fate::InDoubt { rows },
        }))
    }
}

impl Executor for Call {
    type Statement = Statement;

    const WORK: Stage = Stage::Send;

    fn execute(mut self, call: Arc<Prepared<Statement>>) -> Executing<Self> {
        Box::pin(async move {
            let done = self.apply(&call).await;
            let done = done.map_err(|error| error.context(self.access.host.authority()));
            (self, done)
        })
    }
}

/// What parts a table from its keys, and a key's columns from one another, stands for nothing else.
pub fn escape(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'%' => out.extend_from_slice(b"%25"),
            b':' => out.extend_from_slice(b"%3A"),
            byte => out.push(*byte),
        }
    }
}

pub fn prefix(table: &str) -> Vec<u8> {
    let mut prefix = Vec::new();
    escape(table.as_bytes(), &mut prefix);
    prefix.push(b':');
    prefix
}

/// What all keys of a table match, and no others.
pub fn pattern(table: &str) -> Vec<u8> {
    let mut pattern = Vec::new();
    for byte in prefix(table) {
        if b"\\*?[]^-".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

fn lost(error: io::Error) -> Error {
    Error::new(
        Kind::Lost,
        format!("the connection is lost ({error}): is the server still running?"),
    )
}

fn gone() -> Error {
    Error::new(
        Kind::Lost,
        "the server ended the connection: is the server still running?",
    )
}

/// A server that is something else says odd things first, or nothing.
fn first_contact(mut error: Error) -> Error {
    if error.kind == Kind::Lost {
        error.kind = Kind::Protocol;
        error.message = format!(
            "{} before it said a word; is it a Redis server, and is TLS wanted (redis+tls://)?",
            error.message
        );
    }
    error
}
