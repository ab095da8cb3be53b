//! `postgres://`: INSERT ... ON CONFLICT or COPY, and gets by COPY or rows, by its own binary protocol.

mod connect;
pub mod dialect;
mod errors;
pub mod get;
mod options;
mod tls;
mod types;
mod upsert;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::ClientConfig;

use crate::database::{literal, Database, Purpose};
use crate::read::ReadTarget;
use crate::sql::Dialect;
use crate::systems::System;
use crate::upsert::{
    name_of, Common, Host, Method, Place, SqlTarget, StatementKind, Upserts, Work,
};
use crate::{Identity, Target};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::Result;
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec};

use connect::{dial, Link};
use dialect::POSTGRES;
use errors::describe;
use options::{Options, URL};
use upsert::{ready, Call, Rows, Way};

/// There and back is asked so often, and the quickest kept.
const ROUND_TRIPS: usize = 5;

pub struct Postgres {
    options: Options,
    place: Place,
    authority: Arc<str>,
    /// `None`: without TLS.
    tls: Option<ClientConfig>,
    /// The process of this host that listens there, where it had to be looked for early.
    listener: Option<u32>,
    /// The streams' connections.
    sockets: Arc<Sockets>,
    /// The connection whose snapshot the streams of a get see.
    held: Mutex<Option<Link>>,
}

/// PostgreSQL.
pub const SYSTEM: System = System {
    scheme: "postgres",
    operations: &[Operation::Upsert, Operation::Get],
    ports: &[("postgres", URL.port)],
    tls: true,
    unix: true,
    keeps: true,
    statement: Some("prepared"),
    space: Some(URL.usual),
    server: Some("postgres"),
    users: true,
    one_host: URL.one_host,
    aliases: &[("postgres", &["postgresql", "pg"])],
    target: Postgres::target,
    dialect: Some(POSTGRES),
    ..System::NOTHING
};

impl Postgres {
    pub fn target(spec: Arc<TrialSpec>) -> Result<Box<dyn Target>> {
        let options = Options::parse(&spec)?;
        let place = Place::parse(&spec.target, &URL)?;
        // Before the clock of a timed set-up has anything to wait for.
        let first = place.hosts.first().filter(|_| spec.include_setup);
        let database = Self {
            authority: place.address().into(),
            tls: options.login.tls(&place)?,
            listener: first.and_then(Host::listening),
            place,
            options,
            sockets: Arc::default(),
            held: Mutex::new(None),
        };
        Ok(match spec.operation {
            Operation::Upsert => Box::new(SqlTarget::new(spec, database)),
            _ => Box::new(ReadTarget::new(spec, database)?),
        })
    }

    fn check<T>(&self, answer: connect::Answer<T>) -> Result<T> {
        answer.map_err(|error| describe(&self.authority, &error))
    }

    async fn dial(
        &self,
        spec: &TrialSpec,
        database: &str,
        sockets: Option<&Sockets>,
    ) -> std::result::Result<Link, connect::Failed> {
        let timeout = Duration::from_nanos(spec.timeout_ns);
        let tls = self.tls.as_ref();
        let options = &self.options;
        dial(&self.place, database, options, tls, timeout, sockets).await
    }

    /// The database is made where it is missing, and this is the plan's connection.
    async fn dial_for(&self, spec: &TrialSpec, purpose: Purpose) -> Result<Link> {
        let sockets = match purpose {
            Purpose::Stream(_) => self.sockets(spec),
            _ => None,
        };
        let space = &self.place.space;
        match self.dial(spec, space, sockets.as_deref()).await {
            Err(failed)
                if purpose == Purpose::Plan
                    && failed.no_database
                    && self.options.common.setup
                    && spec.data != Data::Remote
                    && spec.leads() =>
            {
                let system = self.dial(spec, "postgres", None).await;
                let mut link = system.map_err(|_| failed.error)?;
                let name = POSTGRES.quoted(space);
                self.check(link.run(&format!("CREATE DATABASE {name}")).await)?;
                let made = self.dial(spec, space, None).await;
                made.map_err(|failed| failed.error)
            }
            other => other.map_err(|failed| failed.error),
        }
    }
}

impl Database for Postgres {
    type Link = Link;

    const DIALECT: &'static Dialect = POSTGRES;
    const NAME: &'static str = "Postgres";
    // It may say in which schema the table is.
    const CLEANS_AFTER_INIT: bool = true;

    fn common(&self) -> &Common {
        &self.options.common
    }

    fn address(&self) -> String {
        self.authority.to_string()
    }

    fn within(&self) -> String {
        format!(" in {}", self.place.space)
    }

    fn sockets(&self, spec: &TrialSpec) -> Option<Arc<Sockets>> {
        (!spec.include_setup).then(|| self.sockets.clone())
    }

    async fn connect(&self, spec: &TrialSpec, purpose: Purpose) -> Result<Link> {
        let mut link = self.dial_for(spec, purpose).await?;
        if let Some(level) = self.options.synchronous {
            let set = format!("SET synchronous_commit = {}", name_of(&level));
            self.check(link.run(&set).await)?;
        }
        Ok(link)
    }

    async fn identify(&self, spec: &TrialSpec, link: &mut Link) -> Result<Identity> {
        let mut round_trip = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            self.check(link.run("").await)?;
            round_trip = round_trip.min(asked.elapsed());
        }
        let version = self.ask(link, "SELECT version()").await?;
        let version = version.into_iter().next().flatten().unwrap_or_default();
        // "PostgreSQL 15.9 (Debian ...) on x86_64-pc-linux-gnu, compiled by ..."
        let version = version.split(" on ").next().unwrap_or_default().to_owned();
        let identity = Identity {
            address: self.authority.to_string(),
            software: Some(version).filter(|version| !version.is_empty()),
            protocol: "postgres".into(),
            round_trip_ns: Some(round_trip.as_nanos() as u64),
            ..Identity::default()
        };
        let listener = spec.include_setup.then_some(self.listener);
        Ok(identity.connected_by(link.route, link.neighbour, listener))
    }

    async fn run(&self, link: &mut Link, sql: &str) -> Result<()> {
        self.check(link.run(sql).await)
    }

    async fn ask_all(&self, link: &mut Link, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        self.check(link.rows(sql).await)
    }

    fn exists(table: &str) -> String {
        let name = literal(&POSTGRES.quoted(table));
        format!("SELECT count(to_regclass({name}))")
    }
}

impl Upserts for Postgres {
    type Builder = Rows;
    type Executor = Call;

    // Servers before 12, or one that is told so by --init, round floats: 3 is exact in all of them.
    const BEFORE_READING: &'static str = "SET extra_float_digits = 3; ";

    async fn builder(&self, _: &mut Link, table: &Table, _: &Batches) -> Result<Rows> {
        let way = match (self.options.method, self.options.statement()) {
            (Method::Copy, _) => Way::Copy,
            (Method::Upsert, StatementKind::Text) => Way::Text,
            (Method::Upsert, StatementKind::Prepared) => Way::Arrays,
        };
        Rows::new(way, table)
    }

    fn stored_bytes(&self, table: &str) -> (Vec<String>, String) {
        let name = literal(&POSTGRES.quoted(table));
        let select = format!("SELECT pg_total_relation_size({name})");
        (Vec::new(), select)
    }

    /// A collation that is not deterministic (those that are not known to a server before 12), and the
    /// types citext and character(n), which ignores spaces at the end. Another unique index refuses rows, and merges none.
    fn meet(table: &str) -> String {
        let name = literal(&POSTGRES.quoted(table));
        format!(
            "SELECT a.attname, CASE WHEN t.typname IN ('citext', 'bpchar') THEN 'its type ' || t.typname \
             ELSE 'the collation ' || c.collname END \
             FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
             JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation c ON c.oid = a.attcollation \
             WHERE i.indrelid = to_regclass({name}) AND i.indisunique AND (t.typname IN ('citext', 'bpchar') \
             OR to_jsonb(c) ->> 'collisdeterministic' = 'false')"
        )
    }

    async fn executors(
        &self,
        spec: &TrialSpec,
        link: Link,
        work: &Work<Rows>,
    ) -> Result<Vec<Call>> {
        let place = self.authority.clone();
        let calls = ready(link, work.builder(), &work.table, spec.in_flight, place);
        self.check(calls.await)
    }
}
