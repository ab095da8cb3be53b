//! `postgres://`: INSERT ... ON CONFLICT or COPY, by its own binary protocol.

mod binary;
mod call;
mod errors;
mod link;
mod options;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::codec::sql::{Dialect, Extra};
use crate::data::upsert::{Batches, Table};
use crate::error::{Error, Kind, Result};
use crate::meter::readers::listener::pid_of;
use crate::meter::readers::network::is_own;
use crate::meter::sockets::Sockets;
use crate::spec::{Operation, TrialSpec};
use crate::target::systems::System;
use crate::target::upsert::{
    compare, is_own as is_own_table, merged_note, occupied, Calls, Effect, Found, Host, Method,
    Place, Share, StatementKind, Work,
};
use crate::target::{Applied, Identity, LocalFuture, Session, Tally, Target, Verification};

use call::{ready, Rows, Way};
use errors::told;
use link::{dial, Link};
use options::{Options, URL};

/// There and back is asked so often, and the quickest kept.
const ROUND_TRIPS: usize = 5;

pub struct Postgres {
    spec: Arc<TrialSpec>,
    options: Options,
    place: Place,
    authority: Arc<str>,
    /// `None`: without TLS.
    tls: Option<ClientConfig>,
    table: String,
    planned: Option<Planned>,
    /// The streams' connections.
    sockets: Arc<Sockets>,
}

struct Planned {
    work: Arc<Work<Rows>>,
    rows: Rows,
    before: Found,
    /// Rows that had another one's key in their batch.
    merged: u64,
}

/// PostgreSQL.
pub const SYSTEM: System = System {
    scheme: "postgres",
    operations: &[Operation::Upsert],
    ports: &[("postgres", options::URL.port)],
    tls: true,
    keeps: true,
    statement: Some("prepared"),
    space: Some(options::URL.usual),
    server: Some("postgres"),
    users: true,
    one_host: options::URL.one_host,
    aliases: &[("postgres", &["postgresql", "pg"])],
    target: |spec| Ok(Box::new(Postgres::new(spec)?)),
    ..System::NOTHING
};

impl Postgres {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let options = Options::parse(&spec)?;
        let place = Place::parse(&spec.target, &URL)?;
        Ok(Self {
            authority: place.address().into(),
            tls: options.login.tls(&place)?,
            place,
            table: options.common.table(&spec.data),
            options,
            spec,
            planned: None,
            sockets: Arc::default(),
        })
    }

    fn planned(&self) -> Result<&Planned> {
        let unplanned = || Error::new(Kind::Internal, "postgres: not planned");
        self.planned.as_ref().ok_or_else(unplanned)
    }

    fn said<T>(&self, answer: link::Answer<T>) -> Result<T> {
        answer.map_err(|error| told(&self.authority, &error))
    }

    /// The table's name as a string of SQL.
    fn name_text(&self) -> String {
        let quoted = Dialect::Postgres.quoted(&self.table);
        format!("'{}'", quoted.replace('\'', "''"))
    }

    async fn dial(
        &self,
        database: &str,
        sockets: Option<&Sockets>,
    ) -> std::result::Result<Link, link::Failed> {
        let timeout = Duration::from_nanos(self.spec.timeout_ns);
        let tls = self.tls.as_ref();
        let options = &self.options;
        dial(&self.place, database, options, tls, timeout, sockets).await
    }

    async fn connect(&self) -> std::result::Result<Link, link::Failed> {
        self.connect_as(None).await
    }

    /// As the streams have it.
    async fn connect_as(
        &self,
        sockets: Option<&Sockets>,
    ) -> std::result::Result<Link, link::Failed> {
        let mut link = self.dial(&self.place.space, sockets).await?;
        if let Some(level) = self.options.synchronous {
            let set = format!("SET synchronous_commit = {}", level.name());
            self.said(link.run(&set).await)?;
        }
        for statement in &self.options.common.init {
            let done = self.said(link.run(statement).await);
            done.map_err(|error| error.context(format_args!("--init {statement:?}")))?;
        }
        Ok(link)
    }

    /// The first connection, with its database made where it is missing.
    async fn connect_first(&self) -> Result<Link> {
        match self.connect().await {
            Err(failed) if failed.no_database && self.options.common.setup && self.spec.leads() => {
                let system = self.dial("postgres", None).await;
                let mut link = system.map_err(|_| failed.error)?;
                let name = Dialect::Postgres.quoted(&self.place.space);
                self.said(link.run(&format!("CREATE DATABASE {name}")).await)?;
                self.connect().await.map_err(|failed| failed.error)
            }
            other => other.map_err(|failed| failed.error),
        }
    }

    async fn identify(&self, link: &mut Link, listener: Option<u32>) -> Result<Identity> {
        let mut round_trip = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            self.said(link.run("").await)?;
            round_trip = round_trip.min(asked.elapsed());
        }
        let version = self.said(link.ask("SELECT version()").await)?;
        let version = version.into_iter().next().flatten().unwrap_or_default();
        // "PostgreSQL 15.9 (Debian ...) on x86_64-pc-linux-gnu, compiled by ..."
        let version = version.split(" on ").next().unwrap_or_default().to_owned();
        let here = link.route.filter(|route| is_own(route.peer.ip()));
        Ok(Identity {
            address: self.authority.to_string(),
            software: Some(version).filter(|version| !version.is_empty()),
            protocol: "postgres".into(),
            pid: match self.spec.include_setup {
                true => listener.filter(|_| here.is_some()),
                false => here.and_then(|route| pid_of(route.peer)),
            },
            round_trip_ns: Some(round_trip.as_nanos() as u64),
            same_machine: here.map(|_| true),
            route: link.route,
            ..Identity::default()
        })
    }

    async fn set_up(&self, link: &mut Link, table: &Table, batches: &Batches) -> Result<Found> {
        let exists = format!("SELECT to_regclass({})", self.name_text());
        let exists = self.said(link.ask(&exists).await)?;
        let exists = exists.into_iter().next().flatten().is_some();
        if !self.options.common.setup {
            if !exists {
                return Err(Error::usage(format!(
                    "{}: there is no table {} in {}, and --no-setup creates none: name an \
                     existing one by --table",
                    self.authority, self.table, self.place.space
                )));
            }
            return self.found(link, table).await;
        }
        if exists && !is_own_table(&self.table) {
            return Err(occupied(&self.table));
        }
        let create = Dialect::Postgres.create_table(table, batches, &Extra::default())?;
        let name = Dialect::Postgres.quoted(&self.table);
        self.said(
            link.run(&format!("DROP TABLE IF EXISTS {name}; {create}"))
                .await,
        )?;
        Ok(Found::default())
    }

    async fn found(&self, link: &mut Link, table: &Table) -> Result<Found> {
        let select = Dialect::Postgres.select_found(table);
        let row = self.said(link.ask(&select).await)?;
        let number = |text: Option<String>| {
            let text = text.unwrap_or_default();
            let strange = || {
                let message = format!("{}: a sum of {} is {text:?}", self.authority, self.table);
                Error::new(Kind::Server, message)
            };
            text.parse::<i128>().map_err(|_| strange())
        };
        let mut numbers = row.into_iter().map(number);
        let keys = numbers.next().transpose()?.unwrap_or(0);
        Ok(Found {
            keys: u64::try_from(keys).unwrap_or(0),
            sums: numbers.collect::<Result<_>>()?,
            stored_bytes: None,
        })
    }

    async fn plan_all(&mut self) -> Result<Identity> {
        // Before the clock of a timed set-up has anything to wait for.
        let first = self.place.hosts.first().filter(|_| self.spec.include_setup);
        let listener = first.and_then(Host::listening);
        let (table, batches) = Batches::make(&self.spec, &self.table)?;
        let (batches, merged) = batches.merged(&table)?;
        let way = match (self.options.method, self.options.statement()) {
            (Method::Copy, _) => Way::Copy,
            (Method::Upsert, StatementKind::Text) => Way::Text,
            (Method::Upsert, StatementKind::Prepared) => Way::Arrays,
        };
        let rows = Rows::new(way, &table)?;
        let mut link = self.connect_first().await?;
        let identity = self.identify(&mut link, listener).await?;
        let before = match self.spec.leads() {
            true => self.set_up(&mut link, &table, &batches).await?,
            false => Found::default(),
        };
        let forms = rows.forms.clone();
        let work = Work::new(&self.spec, table, batches, Rows { way, forms })?;
        self.planned = Some(Planned {
            work: Arc::new(work),
            rows,
            before,
            merged,
        });
        Ok(identity)
    }

    async fn open_one(&self, stream: usize) -> Result<Vec<Box<dyn Session>>> {
        let planned = self.planned()?;
        let sockets = self.sockets();
        let link = self.connect_as(sockets.as_deref()).await;
        let link = link.map_err(|failed| failed.error)?;
        let work = &planned.work;
        let place = self.authority.clone();
        let calls = ready(link, &planned.rows, &work.table, self.spec.in_flight, place).await;
        let share = Share::new(&self.spec, stream, work.batches.count());
        let session = |call| {
            let calls = Calls::new(work.clone(), share.clone(), call, self.spec.retries);
            Box::new(calls) as Box<dyn Session>
        };
        Ok(self.said(calls)?.into_iter().map(session).collect())
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let planned = self.planned()?;
        let mut link = self.connect().await.map_err(|failed| failed.error)?;
        let mut after = self.found(&mut link, &planned.work.table).await?;
        let size = format!("SELECT pg_total_relation_size({})", self.name_text());
        let size = self.said(link.ask(&size).await)?;
        after.stored_bytes = size
            .into_iter()
            .next()
            .flatten()
            .and_then(|n| n.parse().ok());
        let mut verification = compare(
            &planned.work,
            Effect::Add,
            &planned.before,
            &after,
            tallies,
            self.spec.verify,
        )?;
        verification.add_notes(merged_note(planned.merged, "Postgres"));
        Ok(verification)
    }

    async fn drop_table(&self) -> Result<()> {
        if !self.options.common.drops() || self.planned.is_none() {
            return Ok(());
        }
        let mut link = self.connect().await.map_err(|failed| failed.error)?;
        let name = Dialect::Postgres.quoted(&self.table);
        self.said(link.run(&format!("DROP TABLE IF EXISTS {name}")).await)
    }
}

impl Target for Postgres {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.plan_all())
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            let mut sessions = Vec::with_capacity(group.len());
            for &stream in group {
                sessions.extend(self.open_one(stream).await?);
            }
            Ok(sessions)
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.check(tallies))
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        (!self.spec.include_setup).then(|| self.sockets.clone())
    }

    fn batches(&self) -> Option<&dyn Applied> {
        self.planned
            .as_ref()
            .map(|planned| &*planned.work as &dyn Applied)
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(self.drop_table())
    }
}
