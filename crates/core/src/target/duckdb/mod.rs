//! `duckdb://`: the user's own DuckDB, loaded into the client's process; N connections to one
//! file.

mod api;
mod call;
mod handles;
mod options;
mod values;

use std::path::Path;
use std::sync::Arc;

use crate::codec::sql::{Dialect, Extra};
use crate::data::upsert::{Batches, Table};
use crate::error::{Error, Kind, Result};
use crate::spec::{Operation, TrialSpec};
use crate::target::systems::System;
use crate::target::upsert::{
    compare, file_of, is_own, merged_note, occupied, Calls, Effect, Found, Method, Share,
    StatementKind, Work,
};
use crate::target::{Applied, Identity, LocalFuture, Session, Tally, Target, Verification};

use api::{Api, Type};
use call::{told, Call, Ready, Rows, Way};
use handles::{Connection, Database, Refusal};
use options::Options;

pub struct DuckDb {
    spec: Arc<TrialSpec>,
    options: Options,
    path: Arc<Path>,
    table: String,
    planned: Option<Planned>,
}

struct Planned {
    database: Arc<Database>,
    work: Arc<Work<Rows>>,
    way: Way,
    /// Of the columns that are appended.
    kinds: Vec<Type>,
    before: Found,
    /// Rows that had another one's key in their batch.
    merged: u64,
}

/// DuckDB.
pub const SYSTEM: System = System {
    scheme: "duckdb",
    operations: &[Operation::Upsert],
    file: true,
    keeps: true,
    in_flight: false,
    statement: Some("prepared"),
    users: true,
    target: |spec| Ok(Box::new(DuckDb::new(spec)?)),
    ..System::NOTHING
};

impl DuckDb {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let options = Options::parse(&spec)?;
        if spec.own().len() < spec.streams {
            return Err(Error::usage(
                "duckdb:// is a library in the client: one process at a time has the file, so run it on one host",
            ));
        }
        Ok(Self {
            path: file_of(&spec.target, "duckdb")?.into(),
            table: options.common.table(&spec.data),
            options,
            spec,
            planned: None,
        })
    }

    fn planned(&self) -> Result<&Planned> {
        let unplanned = || Error::new(Kind::Internal, "duckdb: not planned");
        self.planned.as_ref().ok_or_else(unplanned)
    }

    fn said<T>(&self, answer: std::result::Result<T, Refusal>) -> Result<T> {
        answer.map_err(|said| told(&self.path, &said))
    }

    /// A connection as the streams have it.
    fn connect(&self, database: &Arc<Database>) -> Result<Connection> {
        let mut connection = self.said(database.connect())?;
        for statement in &self.options.common.init {
            let done = self.said(connection.run_text(statement));
            done.map_err(|error| error.context(format_args!("--init {statement:?}")))?;
        }
        Ok(connection)
    }

    /// The numbers of an answer's first row.
    fn numbers(&self, connection: &mut Connection, select: &str) -> Result<Vec<i128>> {
        let row = self.said(connection.ask(select))?;
        let number = |text: Option<String>| {
            let text = text.unwrap_or_default();
            let strange = || {
                let message = format!("{}: {text:?} is no number", self.path.display());
                Error::new(Kind::Server, message)
            };
            text.parse().map_err(|_| strange())
        };
        row.into_iter().map(number).collect()
    }

    fn set_up(
        &self,
        connection: &mut Connection,
        table: &Table,
        batches: &Batches,
    ) -> Result<Found> {
        let name = self.table.replace('\'', "''");
        let exists = format!(
            "SELECT count(*) FROM information_schema.tables WHERE lower(table_name) = lower('{name}')"
        );
        let exists = self.numbers(connection, &exists)?.first() > Some(&0);
        if !self.options.common.setup {
            if !exists {
                return Err(Error::usage(format!(
                    "{}: there is no table {}, and --no-setup creates none: name an existing one \
                     by --table",
                    self.path.display(),
                    self.table
                )));
            }
            return self.found(connection, table);
        }
        if exists && !is_own(&self.table) {
            return Err(occupied(&self.table));
        }
        let create = Dialect::DuckDb.create_table(table, batches, &Extra::default())?;
        let name = Dialect::DuckDb.quoted(&self.table);
        self.said(connection.run_text(&format!("DROP TABLE IF EXISTS {name}; {create}")))?;
        Ok(Found::default())
    }

    fn found(&self, connection: &mut Connection, table: &Table) -> Result<Found> {
        let select = Dialect::DuckDb.select_found(table);
        let mut numbers = self.numbers(connection, &select)?.into_iter();
        Ok(Found {
            keys: u64::try_from(numbers.next().unwrap_or(0)).unwrap_or(0),
            sums: numbers.collect(),
            stored_bytes: None,
        })
    }

    /// Bytes of the blocks in use, of all tables in the file, after a checkpoint.
    fn stored(&self, connection: &mut Connection) -> Result<Option<u64>> {
        self.said(connection.run(c"CHECKPOINT"))?;
        let select = "SELECT used_blocks * block_size FROM pragma_database_size()";
        let numbers = self.numbers(connection, select)?;
        Ok(numbers.first().and_then(|bytes| u64::try_from(*bytes).ok()))
    }

    fn plan_all(&mut self) -> Result<Identity> {
        let api = Api::load(self.options.engine()?)?;
        let (table, batches) = Batches::make(&self.spec, &self.table)?;
        let (batches, merged) = batches.merged(&table)?;
        if !self.options.common.setup && !self.path.exists() {
            return Err(Error::usage(format!(
                "{}: there is no such file, and --no-setup creates none",
                self.path.display()
            )));
        }
        let path = self.path.to_string_lossy();
        let database = self.said(Database::open(&api, &path))?;
        let mut connection = self.connect(&database)?;
        let before = self.set_up(&mut connection, &table, &batches)?;
        let way = match (self.options.method, self.options.statement) {
            (Method::Copy, _) => Way::Append,
            (Method::Upsert, Some(StatementKind::Text)) => Way::Text,
            (Method::Upsert, _) => Way::Prepared,
        };
        let first = values::columns(&table, &batches.get(0)?)?;
        let kinds = first.iter().map(|column| column.kind).collect();
        let work = Work::new(&self.spec, table, batches, Rows { way })?;
        self.planned = Some(Planned {
            database,
            work: Arc::new(work),
            way,
            kinds,
            before,
            merged,
        });
        Ok(Identity {
            address: self.path.display().to_string(),
            software: Some(format!("DuckDB {}", api.version)),
            protocol: "duckdb".into(),
            same_machine: Some(true),
            same_clock: true,
            ..Identity::default()
        })
    }

    fn open_one(&self, stream: usize) -> Result<Box<dyn Session>> {
        let planned = self.planned()?;
        let table = &planned.work.table;
        let mut connection = self.connect(&planned.database)?;
        let rows = self.spec.rows_per_batch;
        let ready = Ready::new(&mut connection, planned.way, table, rows, &planned.kinds);
        let call = Call {
            ready: self.said(ready)?,
            connection,
            path: self.path.clone(),
        };
        let share = Share::new(&self.spec, stream, planned.work.batches.count());
        let calls = Calls::new(planned.work.clone(), share, call, self.spec.retries);
        Ok(Box::new(calls))
    }

    fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let planned = self.planned()?;
        let mut connection = self.connect(&planned.database)?;
        let mut after = self.found(&mut connection, &planned.work.table)?;
        after.stored_bytes = self.stored(&mut connection)?;
        let mut verification = compare(
            &planned.work,
            Effect::Add,
            &planned.before,
            &after,
            tallies,
            self.spec.verify,
        )?;
        verification.add_notes(merged_note(planned.merged, "DuckDB"));
        Ok(verification)
    }

    fn drop_table(&self) -> Result<()> {
        let Some(planned) = &self.planned else {
            return Ok(());
        };
        if !self.options.common.drops() {
            return Ok(());
        }
        let mut connection = self.said(planned.database.connect())?;
        let name = Dialect::DuckDb.quoted(&self.table);
        self.said(connection.run_text(&format!("DROP TABLE IF EXISTS {name}")))
    }
}

impl Target for DuckDb {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move { self.plan_all() })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move { group.iter().map(|stream| self.open_one(*stream)).collect() })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(async move { self.check(tallies) })
    }

    fn batches(&self) -> Option<&dyn Applied> {
        self.planned
            .as_ref()
            .map(|planned| &*planned.work as &dyn Applied)
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move { self.drop_table() })
    }
}
