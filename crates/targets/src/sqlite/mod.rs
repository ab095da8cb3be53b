//! `sqlite://`: the library in the client's own process, N connections to one file.

mod busy;
pub mod dialect;
mod errors;
mod get;
mod options;
#[cfg(test)]
mod tests;
mod types;
mod upsert;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::database::{literal, Database, Purpose};
use crate::read::ReadTarget;
use crate::sql::{Dialect, Extra};
use crate::systems::System;
use crate::upsert::{file_of, name_of, Builder, Common, SqlTarget, StatementKind, Upserts, Work};
use crate::{Identity, Target};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Operation, TrialSpec};

use dialect::SQLITE;
use errors::describe;
use options::Options;
use types::Columns;
use upsert::{Call, Statement};

/// What cleaning up may wait for another connection's lock.
const CLEAN_PATIENCE: Duration = Duration::from_secs(2);

pub struct Sqlite {
    options: Options,
    path: Arc<Path>,
}

/// SQLite.
pub const SYSTEM: System = System {
    scheme: "sqlite",
    operations: &[Operation::Upsert, Operation::Get],
    file: true,
    keeps: true,
    in_flight: false,
    statement: Some("prepared"),
    users: true,
    aliases: &[("sqlite", &["sqlite3", "file"])],
    target: Sqlite::target,
    dialect: Some(SQLITE),
    ..System::NOTHING
};

impl Sqlite {
    pub fn target(spec: Arc<TrialSpec>) -> Result<Box<dyn Target>> {
        let database = Self {
            options: Options::parse(&spec)?,
            path: file_of(&spec.target, "sqlite")?.into(),
        };
        Ok(match spec.operation {
            Operation::Upsert => Box::new(SqlTarget::new(spec, database)),
            _ => Box::new(ReadTarget::new(spec, database)?),
        })
    }

    fn check<T>(&self, done: rusqlite::Result<T>) -> Result<T> {
        done.map_err(|error| describe(&self.path, &error))
    }

    fn journal(&self, connection: &Connection) -> Result<()> {
        let Some(journal) = self.options.journal().map(|it| name_of(&it)) else {
            return Ok(());
        };
        let set = connection.pragma_update_and_check(None, "journal_mode", &journal, |row| {
            row.get::<_, String>(0)
        });
        let set = self.check(set)?;
        match set.eq_ignore_ascii_case(&journal) {
            true => Ok(()),
            false => Err(Error::new(
                Kind::Server,
                format!(
                    "{}: journal = {journal} is refused, it stays {set}: this file system may not be \
                     able to (WAL needs shared memory); take another journal",
                    self.path.display()
                ),
            )),
        }
    }
}

impl Database for Sqlite {
    type Link = Connection;

    const DIALECT: &'static Dialect = SQLITE;
    const NAME: &'static str = "SQLite";

    fn common(&self) -> &Common {
        &self.options.common
    }

    fn address(&self) -> String {
        self.path.display().to_string()
    }

    async fn connect(&self, spec: &TrialSpec, purpose: Purpose) -> Result<Connection> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // What is somebody else's is read as it is.
        let first = purpose == Purpose::Plan && spec.leads() && spec.data != Data::Remote;
        if first && self.options.common.setup {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let patience = match purpose {
            Purpose::Clean => CLEAN_PATIENCE,
            _ => Duration::from_nanos(spec.timeout_ns),
        };
        let mut connection = self.check(Connection::open_with_flags(&self.path, flags))?;
        self.check(busy::wait(&mut connection, patience))?;
        // Opening reads nothing: whether it is a database at all is seen here.
        if first {
            self.journal(&connection)?;
        }
        if purpose != Purpose::Clean {
            let synchronous = name_of(&self.options.synchronous);
            self.check(connection.pragma_update(None, "synchronous", synchronous))?;
        }
        Ok(connection)
    }

    async fn identify(&self, _: &TrialSpec, _: &mut Connection) -> Result<Identity> {
        Ok(Identity {
            address: self.address(),
            software: Some(format!("SQLite {}", rusqlite::version())),
            protocol: "sqlite".into(),
            same_machine: Some(true),
            same_clock: true,
            ..Identity::default()
        })
    }

    async fn run(&self, connection: &mut Connection, sql: &str) -> Result<()> {
        self.check(connection.execute_batch(sql))
    }

    async fn ask_all(
        &self,
        connection: &mut Connection,
        sql: &str,
    ) -> Result<Vec<Vec<Option<String>>>> {
        let row = |row: &rusqlite::Row<'_>| {
            let columns = 0..row.as_ref().column_count();
            let text = |at| match row.get_ref(at)? {
                ValueRef::Integer(count) => Ok(Some(count.to_string())),
                _ => row.get(at),
            };
            columns.map(text).collect()
        };
        let mut statement = self.check(connection.prepare(sql))?;
        let rows = self.check(statement.query_map([], row))?;
        self.check(rows.collect())
    }

    fn exists(table: &str) -> String {
        format!(
            "SELECT count(*) FROM sqlite_schema WHERE type IN ('table', 'view') \
             AND lower(name) = lower({})",
            literal(table)
        )
    }
}

impl Upserts for Sqlite {
    type Builder = Rows;
    type Executor = Call;
    // A row is a statement of its own.
    const MERGES: bool = false;

    fn create_table(&self, table: &Table, batches: &Batches) -> Result<String> {
        let extra = Extra {
            after: match self.options.without_rowid {
                true => "WITHOUT ROWID",
                false => "",
            },
            ..Extra::default()
        };
        SQLITE.create_table(table, batches, &extra)
    }

    async fn builder(&self, _: &mut Connection, table: &Table, _: &Batches) -> Result<Rows> {
        Ok(Rows {
            prepared: self.options.statement == StatementKind::Prepared,
            upsert: SQLITE.upsert_placeholders(table, 1).into(),
        })
    }

    /// Of all tables in the file, the pages in use after a checkpoint.
    fn stored_bytes(&self, _: &str) -> (Vec<String>, String) {
        let select = "SELECT (page_count - freelist_count) * page_size \
                      FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
        (
            vec!["PRAGMA wal_checkpoint(TRUNCATE)".into()],
            select.into(),
        )
    }

    /// Another unique index refuses rows, and merges none.
    fn meet(table: &str) -> String {
        format!(
            "SELECT ix.name, 'the collation ' || ix.coll FROM pragma_index_list({}) il \
             JOIN pragma_index_xinfo(il.name) ix WHERE il.\"unique\" AND ix.key \
             AND upper(ix.coll) <> 'BINARY'",
            literal(table)
        )
    }

    async fn executors(
        &self,
        _: &TrialSpec,
        connection: Connection,
        work: &Work<Rows>,
    ) -> Result<Vec<Call>> {
        let upsert = work.builder().upsert.clone();
        // Compiled once, before the clock: this is the stream's warm-up, and it sees whether
        // the table is as the data needs it.
        self.check(connection.prepare_cached(&upsert))?;
        Ok(vec![Call {
            connection,
            path: self.path.clone(),
            upsert,
        }])
    }
}

/// Makes statements of rows.
pub struct Rows {
    prepared: bool,
    /// Of one row.
    upsert: Arc<str>,
}

impl Builder for Rows {
    type Statement = Statement;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Statement> {
        if self.prepared {
            return Ok(Statement::Values(Columns::of(table, rows)?));
        }
        let mut text = Vec::new();
        SQLITE.upsert_text(table, rows, &mut text)?;
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
