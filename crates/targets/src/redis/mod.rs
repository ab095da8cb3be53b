//! `redis://`: a row is a hash; HINCRBY adds its counters, HSET sets its other columns, a batch is one pipeline.
//! `docs/targets/redis.md`.

mod link;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use xxhash_rust::xxh3::xxh3_64;

use crate::sql::{self, Dialect, Literals, Nanoseconds};
use crate::systems::System;
use crate::upsert::{
    compare, is_own, occupied, unread_note, Builder, Calls, Common, Effect, Form, Found, Login,
    Place, Share, Work, Written,
};
use crate::{each, planned, Applied, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::codec::redis::{refuse_reply, Command, Reply};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::halt;
use venturi_base::meter::sockets::Sockets;
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::{Operation, TrialSpec};

use link::{escape, pattern, prefix, Access, Call, Link, Statement, CLUSTER, REPLICA};

pub const URL: Form = Form {
    scheme: "redis",
    port: 6379,
    space: "number of a database",
    usual: "0",
    one_host: Some("a server has all keys of its own"),
};
/// So many keys are asked for at a time, and then what they hold.
const PAGE: usize = 1000;
/// What a connection that has gone had sent may be applied behind our back; so often it is looked for.
const SWEEPS: usize = 5;
/// There and back is asked so often, and the quickest kept.
const ROUND_TRIPS: usize = 5;

pub struct Redis {
    spec: Arc<TrialSpec>,
    common: Common,
    access: Arc<Access>,
    table: String,
    planned: Option<Planned>,
    /// The streams' connections.
    sockets: Arc<Sockets>,
}

struct Planned {
    work: Arc<Work<Rows>>,
    before: Found,
    notes: Vec<String>,
}

/// Redis, Valkey.
pub const SYSTEM: System = System {
    scheme: "redis",
    operations: &[Operation::Upsert],
    ports: &[("redis", URL.port)],
    tls: true,
    unix: true,
    keeps: true,
    synced: false,
    in_flight: false,
    space: Some(URL.usual),
    server: Some("redis"),
    users: true,
    one_host: URL.one_host,
    aliases: &[
        ("redis", &["valkey", "keydb"]),
        ("redis+tls", &["rediss", "valkeys"]),
    ],
    target: |spec| Ok(Box::new(Redis::new(spec)?)),
    ..System::NOTHING
};

impl Redis {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        if spec.in_flight > 1 {
            return Err(Error::usage(
                "in_flight must be 1 for redis://: a batch is a pipeline already; use more --streams",
            ));
        }
        let place = Place::parse(&spec.target, &URL)?;
        let mut given = OptionReader::new("redis", &spec.options);
        let common: Common = given.take()?;
        let login: Login = given.rest()?;
        let table = common.table(&spec.data);
        let timeout = Duration::from_nanos(spec.timeout_ns);
        Ok(Self {
            access: Arc::new(Access::new(&place, &login, &common.init, &table, timeout)?),
            common,
            table,
            spec,
            planned: None,
            sockets: Arc::default(),
        })
    }

    fn planned(&self) -> Result<&Planned> {
        planned(&self.planned, "redis")
    }

    fn failed(&self, what: &str) -> Error {
        Error::new(
            Kind::Server,
            format!("{}: {what}", self.access.host.authority()),
        )
    }

    async fn identify(
        &self,
        link: &mut Link,
        listener: Option<u32>,
    ) -> Result<(Identity, Vec<String>)> {
        let info = match self.access.ask(link, &Command::new("INFO")).await? {
            Reply::Text(text) => String::from_utf8_lossy(&text).into_owned(),
            _ => return Err(refuse_reply().context(self.access.host.authority())),
        };
        let field = |name: &str| {
            let of = |line: &str| {
                Some(
                    line.strip_prefix(name)?
                        .strip_prefix(':')?
                        .trim()
                        .to_owned(),
                )
            };
            info.lines().find_map(of)
        };
        if field("redis_mode").as_deref() == Some("cluster") {
            return Err(self.failed(CLUSTER));
        }
        if field("role").as_deref() == Some("slave") {
            return Err(self.failed(REPLICA));
        }
        let mut notes = Vec::new();
        let limited = field("maxmemory").is_some_and(|most| most != "0");
        if let Some(policy) = field("maxmemory_policy").filter(|it| limited && it != "noeviction") {
            notes.push(format!(
                "the server drops keys where its memory ends (maxmemory-policy {policy}); rows that it drops are missed"
            ));
        }
        let mut round_trip = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            self.access.ask(link, &Command::new("PING")).await?;
            round_trip = round_trip.min(asked.elapsed());
        }
        let valkey = field("valkey_version").map(|version| format!("Valkey {version}"));
        let redis = || Some(format!("Redis {}", field("redis_version")?));
        let identity = Identity {
            address: self.access.host.authority(),
            software: valkey.or_else(redis),
            protocol: "redis".into(),
            round_trip_ns: Some(round_trip.as_nanos() as u64),
            ..Identity::default()
        };
        let wire = link.wire();
        let listener = self.spec.include_setup.then_some(listener);
        let identity = identity.connected_by(wire.route(), wire.neighbour(), listener);
        Ok((identity, notes))
    }

    /// Some keys of the table from a cursor on, and the next cursor, which is 0 where there are no more.
    async fn page(&self, link: &mut Link, cursor: u64) -> Result<(u64, Vec<Vec<u8>>)> {
        let mut scan = Command::new("SCAN");
        scan.arg(cursor.to_string())
            .arg("MATCH")
            .arg(pattern(&self.table))
            .arg("COUNT")
            .arg(PAGE.to_string());
        let page = self.access.ask(link, &scan).await?;
        halt::check()?;
        scanned(page).ok_or_else(|| refuse_reply().context(self.access.host.authority()))
    }

    async fn exists(&self, link: &mut Link) -> Result<bool> {
        let mut cursor = 0;
        loop {
            let (next, keys) = self.page(link, cursor).await?;
            if !keys.is_empty() || next == 0 {
                return Ok(!keys.is_empty());
            }
            cursor = next;
        }
    }

    /// Removes the table's keys, and no others.
    async fn clear(&self, link: &mut Link) -> Result<()> {
        for _ in 0..SWEEPS {
            let (mut cursor, mut gone) = (0, 0);
            loop {
                let (next, keys) = self.page(link, cursor).await?;
                if !keys.is_empty() {
                    let mut unlink = Command::new("UNLINK");
                    for key in &keys {
                        unlink.arg(key);
                    }
                    self.access.ask(link, &unlink).await?;
                    gone += keys.len();
                }
                if next == 0 {
                    break;
                }
                cursor = next;
            }
            if gone == 0 {
                break;
            }
        }
        Ok(())
    }

    async fn set_up(&self, link: &mut Link, table: &Table) -> Result<Found> {
        let setup = self.common.setup;
        let exists = self.exists(link).await?;
        match (setup, exists) {
            (false, true) => return self.found(link, table, false).await,
            (false, false) => {
                return Err(Error::usage(format!(
                    "{}: no key begins with {}:, and --no-setup wants a table that is there: name it by --table",
                    self.access.host.authority(),
                    self.table
                )))
            }
            (true, true) if !is_own(&self.table) => return Err(occupied(&self.table)),
            (true, true) => self.clear(link).await?,
            (true, false) => {}
        }
        Ok(Found::default())
    }

    /// Rows and sums of the table, and the bytes that the server says it takes.
    async fn found(&self, link: &mut Link, table: &Table, sized: bool) -> Result<Found> {
        let mut found = Found {
            sums: vec![0; table.add.len()],
            ..Found::default()
        };
        // A table that grows or shrinks while it is walked through shows keys twice.
        let mut seen = HashSet::new();
        let (mut cursor, mut bytes) = (0, sized.then_some(0u64));
        loop {
            let (next, mut keys) = self.page(link, cursor).await?;
            keys.retain(|key| seen.insert(xxh3_64(key)));
            found.keys += keys.len() as u64;
            let (mut packed, mut count) = (Vec::new(), 0);
            for key in &keys {
                if !table.add.is_empty() {
                    let mut get = Command::new("HMGET");
                    get.arg(key);
                    for at in &table.add {
                        get.arg(table.column(*at));
                    }
                    get.write(&mut packed);
                    count += 1;
                }
                if bytes.is_some() {
                    let mut size = Command::new("MEMORY");
                    size.arg("USAGE").arg(key).arg("SAMPLES").arg("0");
                    size.write(&mut packed);
                    count += 1;
                }
            }
            for answer in self.access.ask_all(link, &packed, count).await? {
                match answer {
                    Reply::Integer(size) => bytes = bytes.map(|bytes| bytes + size.max(0) as u64),
                    Reply::Array(values) => {
                        for (sum, value) in found.sums.iter_mut().zip(values) {
                            *sum += self.counter(value)?;
                        }
                    }
                    // Managed servers may not tell what a key takes.
                    Reply::Refused(refusal) if ["ERR", "NOPERM"].contains(&&*refusal.code) => {
                        bytes = None
                    }
                    Reply::Nothing => {}
                    other => drop(self.access.done(other)?),
                }
            }
            if next == 0 {
                found.stored_bytes = bytes;
                return Ok(found);
            }
            cursor = next;
        }
    }

    fn counter(&self, value: Reply) -> Result<i128> {
        match value {
            Reply::Text(text) => {
                let number = std::str::from_utf8(&text)
                    .ok()
                    .and_then(|text| text.parse().ok());
                let text = String::from_utf8_lossy(&text);
                number
                    .ok_or_else(|| self.failed(&format!("a counter of {} is {text:?}", self.table)))
            }
            _ => Ok(0),
        }
    }

    async fn plan_all(&mut self) -> Result<Identity> {
        // Before the clock of a timed set-up has anything to wait for.
        let first = Some(&self.access.host).filter(|_| self.spec.include_setup);
        let listener = first.and_then(|host| host.listening());
        let (table, batches) = Batches::make(&self.spec, &self.table)?;
        let mut link = self.access.open(None).await?;
        let (identity, notes) = self.identify(&mut link, listener).await?;
        // What cannot be sent leaves nothing behind.
        let work = Work::new(&self.spec, table, batches, Rows::new(&self.table))?;
        let before = match self.spec.leads() {
            true => self.set_up(&mut link, &work.table).await?,
            false => Found::default(),
        };
        self.planned = Some(Planned {
            work: Arc::new(work),
            before,
            notes,
        });
        Ok(identity)
    }

    async fn open_one(&self, stream: usize) -> Result<Box<dyn Session>> {
        let work = &self.planned()?.work;
        let link = self.access.open(self.sockets().as_deref()).await?;
        let share = Share::new(&self.spec, stream, work.batches.count());
        let call = Call {
            link,
            access: self.access.clone(),
        };
        Ok(Box::new(Calls::new(
            work.clone(),
            share,
            call,
            self.spec.retries,
        )))
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let Planned {
            work,
            before,
            notes,
        } = self.planned()?;
        let mut link = self.access.open(None).await?;
        let after = self.found(&mut link, &work.table, true).await?;
        let (written, verify) = (Written::of(work)?, self.spec.verify);
        let mut made = compare(work, &written, Effect::Add, before, &after, tallies, verify)?;
        made.add_notes(unread_note(&work.table, verify));
        made.add_notes(notes.iter().cloned());
        Ok(made)
    }

    async fn remove(&self) -> Result<()> {
        if !self.common.drops() || self.planned.is_none() {
            return Ok(());
        }
        let mut link = self.access.open(None).await?;
        self.clear(&mut link).await
    }
}

/// What SCAN answers: the next cursor, and keys.
fn scanned(page: Reply) -> Option<(u64, Vec<Vec<u8>>)> {
    let text = |reply| match reply {
        Reply::Text(text) => Some(text),
        _ => None,
    };
    let Reply::Array(parts) = page else {
        return None;
    };
    let Ok([cursor, Reply::Array(keys)]) = <[Reply; 2]>::try_from(parts) else {
        return None;
    };
    let cursor = String::from_utf8(text(cursor)?).ok()?.parse().ok()?;
    Some((cursor, keys.into_iter().map(text).collect::<Option<_>>()?))
}

/// Values as text. Redis adds whole numbers of 64 bits with a sign.
const TEXT: &Dialect = &Dialect {
    name: "redis",
    literals: Literals {
        most_integer: i64::MAX as u64,
        nanoseconds: Nanoseconds::All,
        ..Dialect::STANDARD.literals
    },
    ..Dialect::STANDARD
};

/// Makes pipelines of rows.
struct Rows {
    prefix: Vec<u8>,
}

impl Rows {
    fn new(table: &str) -> Self {
        Self {
            prefix: prefix(table),
        }
    }
}

impl Builder for Rows {
    type Statement = Statement;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Statement> {
        let mut made = Statement {
            bytes: Vec::new(),
            commands: 0,
        };
        let mut values = sql::Rows::new(TEXT, table, rows)?;
        // Redis has no hash without a field: one with a counter has that, any other its key as well.
        let set: Vec<usize> = match table.add.is_empty() {
            true => (0..table.schema.fields().len()).collect(),
            false => table.set(),
        };
        let (mut key, mut text) = (Vec::new(), Vec::new());
        for row in 0..rows.num_rows() {
            key.clear();
            key.extend_from_slice(&self.prefix);
            for (number, at) in table.key.iter().enumerate() {
                if number > 0 {
                    key.push(b':');
                }
                text.clear();
                values.text(*at, row, &mut text)?;
                // As numbers they are equal, and so must their keys be.
                escape(
                    text.strip_prefix(b"-")
                        .filter(|it| it == b"0e0")
                        .unwrap_or(&text),
                    &mut key,
                );
            }
            for at in &table.add {
                text.clear();
                if !values.text(*at, row, &mut text)? {
                    text.push(b'0');
                }
                let mut add = Command::new("HINCRBY");
                add.arg(&key).arg(table.column(*at)).arg(&text);
                add.write(&mut made.bytes);
                made.commands += 1;
            }
            let (mut given, mut nulls) = (Command::new("HSET"), Command::new("HDEL"));
            given.arg(&key);
            nulls.arg(&key);
            for at in &set {
                text.clear();
                match values.text(*at, row, &mut text)? {
                    true => given.arg(table.column(*at)).arg(&text),
                    false => nulls.arg(table.column(*at)),
                };
            }
            // The command and its key are no fields yet.
            for command in [given, nulls] {
                if command.words() > 2 {
                    command.write(&mut made.bytes);
                    made.commands += 1;
                }
            }
        }
        Ok(made)
    }

    fn size(statement: &Statement) -> usize {
        statement.bytes.len()
    }
}

impl Target for Redis {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.plan_all())
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| {
            Ok([self.open_one(stream).await?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.check(tallies))
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        (!self.spec.include_setup).then(|| self.sockets.clone())
    }

    fn batches(&self) -> Option<&dyn Applied> {
        let planned = self.planned.as_ref();
        planned.map(|planned| &*planned.work as &dyn Applied)
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(self.remove())
    }
}
