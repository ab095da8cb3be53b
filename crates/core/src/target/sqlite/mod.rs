//! `sqlite://`: the library in the client's own process, N connections to one file.

mod busy;
mod call;
mod errors;
mod options;
#[cfg(test)]
mod tests;
mod values;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use rusqlite::{Connection, OpenFlags};

use crate::codec::sql::{Dialect, Extra};
use crate::data::upsert::{Batches, Table};
use crate::error::{Error, Kind, Result};
use crate::spec::{Operation, TrialSpec};
use crate::target::systems::System;
use crate::target::upsert::{
    compare, file_of, is_own, occupied, Builder, Calls, Effect, Found, Share, StatementKind, Work,
};
use crate::target::{Applied, Identity, LocalFuture, Session, Tally, Target, Verification};

use call::{Call, Statement};
use errors::told;
use options::Options;
use values::Columns;

/// What cleaning up may wait for another connection's lock.
const CLEAN_PATIENCE: Duration = Duration::from_secs(2);

pub struct Sqlite {
    spec: Arc<TrialSpec>,
    options: Options,
    path: Arc<Path>,
    table: String,
    planned: Option<Planned>,
}

struct Planned {
    work: Arc<Work<Rows>>,
    before: Found,
    upsert: Arc<str>,
}

/// SQLite.
pub const SYSTEM: System = System {
    scheme: "sqlite",
    operations: &[Operation::Upsert],
    file: true,
    keeps: true,
    in_flight: false,
    statement: Some("prepared"),
    users: true,
    aliases: &[("sqlite", &["sqlite3", "file"])],
    target: |spec| Ok(Box::new(Sqlite::new(spec)?)),
    ..System::NOTHING
};

impl Sqlite {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let options = Options::parse(&spec)?;
        Ok(Self {
            path: file_of(&spec.target, "sqlite")?.into(),
            table: options.common.table(&spec.data),
            options,
            spec,
            planned: None,
        })
    }

    fn planned(&self) -> Result<&Planned> {
        let unplanned = || Error::new(Kind::Internal, "sqlite: not planned");
        self.planned.as_ref().ok_or_else(unplanned)
    }

    fn said<T>(&self, done: rusqlite::Result<T>) -> Result<T> {
        done.map_err(|error| told(&self.path, &error))
    }

    fn connect(&self, create: bool, patience: Duration) -> Result<Connection> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let mut connection = self.said(Connection::open_with_flags(&self.path, flags))?;
        self.said(busy::wait(&mut connection, patience))?;
        Ok(connection)
    }

    /// A connection as the streams have it.
    fn set_pragmas(&self, connection: &Connection) -> Result<()> {
        let synchronous = self.options.synchronous.name();
        self.said(connection.pragma_update(None, "synchronous", synchronous))?;
        for statement in &self.options.common.init {
            let done = self.said(connection.execute_batch(statement));
            done.map_err(|error| error.context(format_args!("--init {statement:?}")))?;
        }
        Ok(())
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    fn journal(&self, connection: &Connection) -> Result<()> {
        let Some(journal) = self.options.journal() else {
            return Ok(());
        };
        let set = connection.pragma_update_and_check(None, "journal_mode", journal.name(), |row| {
            row.get::<_, String>(0)
        });
        let set = self.said(set)?;
        match set.eq_ignore_ascii_case(journal.name()) {
            true => Ok(()),
            false => Err(Error::new(
                Kind::Server,
                format!(
                    "{}: journal = {} is refused, it stays {set}: this file system may not be \
                     able to (WAL needs shared memory); take another journal",
                    self.path.display(),
                    journal.name()
                ),
            )),
        }
    }

    fn exists(&self, connection: &Connection) -> Result<bool> {
        let found = connection.query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type IN ('table', 'view') \
             AND lower(name) = lower(?)",
            [&self.table],
            |row| row.get::<_, i64>(0),
        );
        Ok(self.said(found)? > 0)
    }

    /// The table as the trial begins with it.
    fn set_up(&self, connection: &Connection, table: &Table, batches: &Batches) -> Result<Found> {
        let exists = self.exists(connection)?;
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
        let name = Dialect::Sqlite.quoted(&self.table);
        let extra = Extra {
            after: match self.options.without_rowid {
                true => "WITHOUT ROWID",
                false => "",
            },
            ..Extra::default()
        };
        let create = Dialect::Sqlite.create_table(table, batches, &extra)?;
        self.said(connection.execute_batch(&format!("DROP TABLE IF EXISTS {name}; {create}")))?;
        Ok(Found::default())
    }

    /// Rows and sums of the table.
    fn found(&self, connection: &Connection, table: &Table) -> Result<Found> {
        let select = Dialect::Sqlite.select_found(table);
        let found = connection.query_row(&select, [], |row| {
            let sums = (1..=table.add.len()).map(|at| row.get(at));
            Ok((
                row.get(0)?,
                sums.collect::<rusqlite::Result<Vec<String>>>()?,
            ))
        });
        let (keys, sums): (i64, _) = self.said(found)?;
        let sum = |sum: String| {
            // A sum of what is no integer, in a table of somebody else's.
            let strange = || Error::new(Kind::Server, format!("{}: a sum is {sum:?}", self.table));
            sum.parse().map_err(|_| strange())
        };
        Ok(Found {
            keys: keys.max(0) as u64,
            sums: sums.into_iter().map(sum).collect::<Result<_>>()?,
            stored_bytes: None,
        })
    }

    /// Bytes of the pages in use, of all tables in the file, after a checkpoint.
    fn stored(&self, connection: &Connection) -> Result<u64> {
        let pragma = |name: &str| {
            let value = connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
            self.said(value).map(|value: i64| value.max(0) as u64)
        };
        pragma("wal_checkpoint(TRUNCATE)")?;
        let used = pragma("page_count")?.saturating_sub(pragma("freelist_count")?);
        Ok(used * pragma("page_size")?)
    }

    fn plan_all(&mut self) -> Result<Identity> {
        let leads = self.spec.leads();
        let connection = self.connect(leads && self.options.common.setup, self.timeout())?;
        // Opening reads nothing: whether it is a database at all is seen here.
        if leads {
            self.journal(&connection)?;
        }
        self.set_pragmas(&connection)?;
        let (table, batches) = Batches::make(&self.spec, &self.table)?;
        let before = match leads {
            true => self.set_up(&connection, &table, &batches)?,
            false => Found::default(),
        };
        let prepared = self.options.statement == StatementKind::Prepared;
        let upsert = Dialect::Sqlite.upsert_placeholders(&table, 1).into();
        let work = Work::new(&self.spec, table, batches, Rows { prepared })?;
        self.planned = Some(Planned {
            work: Arc::new(work),
            before,
            upsert,
        });
        Ok(Identity {
            address: self.path.display().to_string(),
            software: Some(format!("SQLite {}", rusqlite::version())),
            protocol: "sqlite".into(),
            same_machine: Some(true),
            same_clock: true,
            ..Identity::default()
        })
    }

    fn open_one(&self, stream: usize) -> Result<Box<dyn Session>> {
        let planned = self.planned()?;
        let connection = self.connect(false, self.timeout())?;
        self.set_pragmas(&connection)?;
        // Compiled once, before the clock: this is the stream's warm-up, and it sees whether
        // the table is as the data needs it.
        self.said(connection.prepare_cached(&planned.upsert))?;
        let share = Share::new(&self.spec, stream, planned.work.batches.count());
        let call = Call {
            connection,
            path: self.path.clone(),
            upsert: planned.upsert.clone(),
        };
        let calls = Calls::new(planned.work.clone(), share, call, self.spec.retries);
        Ok(Box::new(calls))
    }

    fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let planned = self.planned()?;
        let connection = self.connect(false, self.timeout())?;
        let mut after = self.found(&connection, &planned.work.table)?;
        after.stored_bytes = Some(self.stored(&connection)?);
        compare(
            &planned.work,
            Effect::Add,
            &planned.before,
            &after,
            tallies,
            self.spec.verify,
        )
    }

    fn drop_table(&self) -> Result<()> {
        if !self.options.common.drops() || self.planned.is_none() {
            return Ok(());
        }
        let connection = self.connect(false, CLEAN_PATIENCE)?;
        let name = Dialect::Sqlite.quoted(&self.table);
        self.said(connection.execute_batch(&format!("DROP TABLE IF EXISTS {name}")))
    }
}

/// Makes statements of rows.
struct Rows {
    prepared: bool,
}

impl Builder for Rows {
    type Statement = Statement;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Statement> {
        if self.prepared {
            return Ok(Statement::Values(Columns::of(table, rows)?));
        }
        let mut text = Vec::new();
        Dialect::Sqlite.upsert_text(table, rows, &mut text)?;
        String::from_utf8(text)
            .map(Statement::Text)
            .map_err(|_| Error::new(Kind::Internal, "a statement that is no text"))
    }

    fn size(statement: &Statement) -> usize {
        match statement {
            Statement::Text(text) => text.len(),
            Statement::Values(columns) => columns.size(),
        }
    }
}

impl Target for Sqlite {
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
