//! `clickhouse://`: ClickHouse over HTTP, gets and puts, in four formats.
//! `docs/targets/clickhouse.md`.

mod feed;
mod get;
mod options;
mod plan;
mod put;
mod server;
mod split;
mod tables;

use std::sync::Arc;
use std::time::Duration;

use crate::read::{compare, compare_sums, own_table, total, wrapped, Baseline, Summed};
use crate::systems::System;
use crate::{each, planned, Identity, LocalFuture, Session, Sums, Tally, Target, Verification};
use venturi_base::codec::clickhouse::Column;
use venturi_base::codec::ipc::Compression;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

pub use feed::Feed;
use get::{Get, Question};
pub use options::Format;
use options::{Access, Options};
use put::{Put, Writer};
use server::{quoted, Server};

pub struct ClickHouse {
    spec: Arc<TrialSpec>,
    options: Options,
    server: Arc<Server>,
    sockets: Arc<Sockets>,
    compression: Compression,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    /// What a put sends, or a table to be read is filled with.
    source: Option<Source>,
    plan: Option<Plan>,
    /// The table is ours, and there.
    made: bool,
}

/// What the plan found and made.
struct Plan {
    format: Format,
    /// Of the query, or of the table as it is written.
    columns: Vec<Column>,
    /// RowBinary names its columns.
    header: bool,
    /// A get's, by stream.
    statements: Vec<Option<String>>,
    path: Arc<str>,
    summed: Arc<Summed>,
    /// A get's rows and sums; what was in a put's table before.
    there: Option<(u64, Sums)>,
    notes: Vec<String>,
}

/// ClickHouse over HTTP.
pub const SYSTEM: System = System {
    scheme: "clickhouse",
    operations: &[Operation::Get, Operation::Put],
    ports: &[
        ("clickhouse", options::URL.port),
        ("clickhouse+tls", options::TLS_PORT),
    ],
    tls: true,
    keeps: true,
    space: Some(options::URL.usual),
    server: Some("clickhouse"),
    users: true,
    one_host: options::URL.one_host,
    aliases: &[
        ("clickhouse", &["ch", "chdb", "clickhouse+http"]),
        ("clickhouse+tls", &["clickhouses", "clickhouse+https"]),
    ],
    target: |spec| Ok(Box::new(ClickHouse::new(spec)?)),
    ..System::NOTHING
};

impl ClickHouse {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let options = Options::parse(&spec.options)?;
        let access = Access::new(&spec.target, &options)?;
        plan::check(&spec, &options)?;
        // The plan is a part of what is measured; going through all processes shall not be.
        let first = access.place.hosts.first().filter(|_| spec.include_setup);
        let listening = first.and_then(|host| host.listening());
        let timeout = Duration::from_nanos(spec.timeout_ns);
        Ok(Self {
            compression: options.compression()?,
            server: Arc::new(Server::new(access, &options, timeout)),
            spec,
            options,
            sockets: Arc::default(),
            listening,
            source: None,
            plan: None,
            made: false,
        })
    }

    fn planned(&self) -> Result<&Plan> {
        planned(&self.plan, SYSTEM.scheme)
    }

    async fn open_stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let plan = self.planned()?;
        let client = self.server.connect().await?;
        let sums = self.spec.verify == Verify::Checksum && plan.there.is_some();
        let summed = (sums && !plan.summed.columns.is_empty()).then(|| plan.summed.clone());
        if self.spec.operation == Operation::Put {
            let source = self.source.as_ref();
            let source = source.ok_or_else(|| Error::new(Kind::Internal, "a put without data"))?;
            return Ok(Box::new(Put::new(
                client,
                &self.sockets,
                self.server.clone(),
                plan.path.clone(),
                source.cursor(self.spec.rows_per_stream),
                Writer::new(plan.format, &plan.columns, self.compression),
                summed,
            )));
        }
        let question = Question {
            path: plan.path.to_string(),
            statement: plan.statements.get(stream).cloned().flatten(),
            zstd: self.compresses_by_http(plan.format),
        };
        let feed = Feed::new(
            plan.format,
            &plan.columns,
            plan.header,
            self.spec.rows_per_batch,
            self.options.reading.max_block_bytes,
        )?;
        let server = self.server.clone();
        let get = Get::new(client, &self.sockets, server, question, feed, summed);
        Ok(Box::new(get))
    }

    fn compresses_by_http(&self, format: Format) -> bool {
        self.compression != Compression::None
            && matches!(format, Format::Native | Format::RowBinary)
    }

    async fn compare(&self, tallies: &[Tally]) -> Result<Verification> {
        let plan = self.planned()?;
        if self.spec.operation == Operation::Get {
            let there = plan.there.map(|(rows, sums)| Baseline {
                rows,
                sums,
                checksum: None,
            });
            let (summed, times) = (&plan.summed, self.copies());
            let mut found = compare(&self.spec, summed, there.as_ref(), times, tallies);
            found.add_notes(plan.notes.iter().cloned());
            return Ok(found);
        }
        let rows = tallies.iter().map(|tally| tally.rows).sum();
        let mut found = Verification::of(self.spec.verify, rows);
        found.add_notes(plan.notes.iter().cloned());
        let (Some((before, sums_before)), false) = (plan.there, self.spec.verify == Verify::None)
        else {
            found.achieved = "acknowledged";
            return Ok(found);
        };
        let (after, sums_after) = self.count(&self.table_name(), &plan.summed).await?;
        let mut grown = Sums::default();
        for (place, sum) in grown.iter_mut().enumerate() {
            *sum = wrapped(sums_after[place] - sums_before[place]);
        }
        if before > 0 {
            found.add_notes([format!("{before} rows were there before")]);
        }
        found.rows = after.saturating_sub(before);
        found.achieved = "count";
        found.expected_rows = Some(rows);
        if found.rows != rows {
            let there = found.rows;
            found.mismatch = Some(format!("the server counts {there} rows, {rows} were sent"));
        }
        if self.spec.verify == Verify::Checksum {
            found.add_notes(plan.summed.note());
        }
        if self.spec.verify == Verify::Checksum && !plan.summed.columns.is_empty() {
            found.achieved = "sums";
            compare_sums(&mut found, &plan.summed, &total(tallies), &grown);
        }
        Ok(found)
    }
}

impl Target for ClickHouse {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.make_plan())
    }

    fn planned_rows(&self) -> Option<u64> {
        match self.spec.operation {
            Operation::Get => {
                let (rows, _) = self.plan.as_ref()?.there?;
                Some(rows * self.copies())
            }
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
        Box::pin(async move {
            if !self.made || self.options.keep {
                return Ok(());
            }
            let mut client = self.server.connect().await?;
            let drop = format!("DROP TABLE IF EXISTS {}", self.table_name());
            self.server.ask(&mut client, &drop).await?;
            Ok(())
        })
    }
}

impl ClickHouse {
    /// How often the rows are read in all.
    fn copies(&self) -> u64 {
        self.options.reading.times(self.spec.streams)
    }

    /// With its database, in a statement.
    fn table_name(&self) -> String {
        let database = &self.server.access.database;
        format!("{}.{}", quoted(database), quoted(&self.table()))
    }

    /// Without.
    fn table(&self) -> String {
        let named = self.options.table.clone();
        named.unwrap_or_else(|| own_table(self.spec.operation).into())
    }

    /// The table is made for the trial.
    fn makes_table(&self) -> bool {
        match self.spec.operation {
            Operation::Put => self.options.setup,
            _ => self.spec.data != Data::Remote,
        }
    }
}
