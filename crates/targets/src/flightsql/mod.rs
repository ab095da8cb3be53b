//! `flightsql://`: SQL over Arrow Flight, gets and puts. `docs/targets/flightsql.md`.
//!
//! A get is a query's FlightInfo, whose endpoints the streams share, or a query a stream; a put is a bulk
//! ingest, or an INSERT that is prepared once and given values.

mod check;
mod options;
mod plan;
mod server;
mod session;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::flight::get::Reader;
use crate::flight::options::DEFAULT_PORT;
use crate::read::{own_table, Checks, Partition};
use crate::systems::System;
use crate::{each, planned, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Operation, TrialSpec};

use options::Options;
use plan::Plan;
use server::{Links, Server};
use session::{Fetch, Update};
use tables::Way;

const SCHEME: &str = "flightsql";

pub struct FlightSql {
    spec: Arc<TrialSpec>,
    options: Options,
    server: Server,
    sockets: Arc<Sockets>,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    /// What a put sends, or a table to be read is filled with.
    source: Option<Source>,
    plan: Option<Plan>,
    /// The statement that drops our table, where it is there.
    made: Option<String>,
    /// Prepared statements that are to be closed.
    handles: Mutex<Vec<Vec<u8>>>,
}

/// Flight SQL.
pub const SYSTEM: System = System {
    scheme: SCHEME,
    operations: &[Operation::Get, Operation::Put],
    ports: &[(SCHEME, DEFAULT_PORT)],
    tls: true,
    keeps: true,
    one_host: Some(options::ONE_HOST),
    aliases: &[
        (SCHEME, &["flight-sql", "arrow-flight-sql", "gizmosql"]),
        ("flightsql+tls", &["flight-sql+tls", "arrow-flight-sql+tls"]),
    ],
    target: |spec| Ok(Box::new(FlightSql::new(spec)?)),
    ..System::NOTHING
};

impl FlightSql {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let address = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec)?;
        // The plan is a part of what is measured; going through all processes shall not be.
        let early = spec.include_setup.then(|| address.to_host());
        let timeout = Duration::from_nanos(spec.timeout_ns);
        Ok(Self {
            listening: early.and_then(|host| host.listening()),
            server: Server::new(address, options.transport.clone(), timeout)?,
            spec,
            options,
            sockets: Arc::default(),
            source: None,
            plan: None,
            made: None,
            handles: Mutex::default(),
        })
    }

    fn planned(&self) -> Result<&Plan> {
        planned(&self.plan, SCHEME)
    }

    fn source(&self) -> Result<&Source> {
        let missing = || Error::new(Kind::Internal, "a put without data");
        self.source.as_ref().ok_or_else(missing)
    }

    /// The table's name.
    fn table(&self) -> String {
        let named = self.options.common.table.clone();
        named.unwrap_or_else(|| own_table(self.spec.operation).into())
    }

    /// How often the rows are read in all.
    fn copies(&self) -> u64 {
        self.options.reading.times(self.spec.streams)
    }

    async fn open_stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let plan = self.planned()?;
        let mut links = Links::new();
        let session: Box<dyn Session> = match self.spec.operation {
            Operation::Put => self.open_put(plan, &mut links).await?,
            _ => self.open_get(plan, stream, &mut links).await?,
        };
        for link in links.values() {
            link.watch(&self.sockets);
            link.share_among(1)?;
        }
        Ok(session)
    }

    async fn open_put(&self, plan: &Plan, links: &mut Links) -> Result<Box<dyn Session>> {
        let link = self.server.connect(&self.server.address).await?;
        links.insert(self.server.address.clone(), link.clone());
        let handle = match &plan.way {
            Way::Ingest => None,
            Way::Insert(insert) => Some(self.prepared(&link, insert).await?),
        };
        let rows = self.spec.rows_per_stream;
        let put = self.put(&link, &plan.way, handle, self.source()?, rows)?;
        Ok(Box::new(Update::new(put)))
    }

    async fn open_get(
        &self,
        plan: &Plan,
        stream: usize,
        links: &mut Links,
    ) -> Result<Box<dyn Session>> {
        let checks = Checks {
            summed: (!plan.summed.columns.is_empty()).then(|| plan.summed.clone()),
            digest: plan.digest,
        };
        let place: Arc<str> = self.server.address.authority().into();
        let statement = plan.statements.get(stream).cloned().flatten();
        let pieces = match (&plan.dealt, statement) {
            (Some(dealt), _) => dealt[stream].clone(),
            (None, Some(statement)) => {
                let link = self.server.connect(&self.server.address).await?;
                let mut handle = None;
                if self.prepares() {
                    handle = Some(self.prepared(&link, &statement).await?);
                }
                let handle = handle.as_deref();
                let info = self.server.planned(&link, &statement, handle).await?;
                links.insert(self.server.address.clone(), link);
                self.server.offer(&info)?.pieces(&self.server.address, 0, 1)
            }
            (None, None) => {
                let nothing: Option<Fetch> = None;
                return Ok(Box::new(Partition::new(nothing, checks, place)));
            }
        };
        let pieces = self.server.linked(&pieces, links).await?;
        let limit = self.options.reading.max_block_bytes as u64;
        let reader = Reader::new(pieces, vec![], limit);
        let rows = Fetch::new(reader, &plan.schema, &plan.summed);
        Ok(Box::new(Partition::new(Some(rows), checks, place)))
    }

    async fn clean_up(&self) -> Result<()> {
        let handles = std::mem::take(&mut *self.handles.lock());
        let drop = self.made.as_ref().filter(|_| !self.options.common.keep);
        if handles.is_empty() && drop.is_none() {
            return Ok(());
        }
        let link = self.server.connect(&self.server.address).await?;
        for handle in handles {
            // Where statements are a connection's own, they have gone with it.
            let _ = self.server.close(&link, handle).await;
        }
        match drop {
            Some(drop) => self.server.run(&link, drop).await,
            None => Ok(()),
        }
    }
}

impl Target for FlightSql {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.make_plan())
    }

    fn planned_rows(&self) -> Option<u64> {
        match self.spec.operation {
            Operation::Get => Some(self.plan.as_ref()?.there?.rows * self.copies()),
            _ => self.spec.planned_rows(),
        }
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| {
            Ok([self.open_stream(stream).await?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.compare(tallies))
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        Some(self.sockets.clone())
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(self.clean_up())
    }
}
