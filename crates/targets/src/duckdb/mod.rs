//! `duckdb://`: the user's own DuckDB, loaded into the client's process; N connections to one
//! file.

mod answer;
mod api;
pub mod dialect;
mod get;
mod handles;
mod options;
#[cfg(test)]
mod tests;
mod types;
mod upsert;
mod vectors;
mod watch;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::database::{literal, Database, Purpose};
use crate::read::ReadTarget;
use crate::sql::Dialect;
use crate::systems::System;
use crate::upsert::{file_of, Common, Method, SqlTarget, StatementKind, Upserts, Work};
use crate::{Identity, Target};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Result};
use venturi_base::spec::{Data, Operation, TrialSpec};

use api::Api;
use dialect::DUCKDB;
use handles::{Connection, Refusal};
use options::Options;
use upsert::{describe, Call, Ready, Rows, Way};
use watch::{interrupted, Watch};

pub struct DuckDb {
    options: Options,
    path: Arc<Path>,
    /// Somebody else's rows are read as they are.
    writes: bool,
    opened: OnceLock<Opened>,
}

/// The file, which is opened once a process.
struct Opened {
    version: String,
    database: Arc<handles::Database>,
}

/// DuckDB.
pub const SYSTEM: System = System {
    scheme: "duckdb",
    operations: &[Operation::Upsert, Operation::Get],
    file: true,
    keeps: true,
    in_flight: false,
    statement: Some("prepared"),
    users: true,
    target: DuckDb::target,
    dialect: Some(DUCKDB),
    ..System::NOTHING
};

impl DuckDb {
    pub fn target(spec: Arc<TrialSpec>) -> Result<Box<dyn Target>> {
        let options = Options::parse(&spec)?;
        if spec.own().len() < spec.streams {
            return Err(Error::usage(
                "duckdb:// is a library in the client: one process at a time has the file, so run it on one host",
            ));
        }
        let database = Self {
            options,
            path: file_of(&spec.target, "duckdb")?.into(),
            writes: spec.data != Data::Remote,
            opened: OnceLock::new(),
        };
        Ok(match spec.operation {
            Operation::Upsert => Box::new(SqlTarget::new(spec, database)),
            _ => Box::new(ReadTarget::new(spec, database)?),
        })
    }

    fn check<T>(&self, answer: std::result::Result<T, Refusal>) -> Result<T> {
        answer.map_err(|said| describe(&self.path, &said))
    }

    fn opened(&self) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let api = Api::load(self.options.engine()?)?;
        let makes = self.options.common.setup && self.writes;
        if !makes && !self.path.exists() {
            return Err(Error::usage(format!(
                "{}: there is no such file, and {} creates none",
                self.path.display(),
                if self.writes {
                    "--no-setup"
                } else {
                    "a get of its rows"
                }
            )));
        }
        let opened = Opened {
            version: api.version.to_string(),
            database: self.check(handles::Database::open(
                &api,
                &self.path.to_string_lossy(),
                self.writes,
            ))?,
        };
        Ok(self.opened.get_or_init(|| opened))
    }
}

impl Database for DuckDb {
    type Link = Connection;

    const DIALECT: &'static Dialect = DUCKDB;
    const NAME: &'static str = "DuckDB";

    fn common(&self) -> &Common {
        &self.options.common
    }

    fn address(&self) -> String {
        self.path.display().to_string()
    }

    async fn connect(&self, _: &TrialSpec, _: Purpose) -> Result<Connection> {
        self.check(self.opened()?.database.connect())
    }

    async fn identify(&self, _: &TrialSpec, _: &mut Connection) -> Result<Identity> {
        Ok(Identity {
            address: self.address(),
            software: Some(format!("DuckDB {}", self.opened()?.version)),
            protocol: "duckdb".into(),
            same_machine: Some(true),
            same_clock: true,
            ..Identity::default()
        })
    }

    async fn run(&self, connection: &mut Connection, sql: &str) -> Result<()> {
        self.check(connection.run_text(sql))
    }

    async fn ask_all(
        &self,
        connection: &mut Connection,
        sql: &str,
    ) -> Result<Vec<Vec<Option<String>>>> {
        // To count may take long, and ends with the trial.
        let watch = Watch::over(connection);
        watch.begin();
        let answer = connection.rows(sql);
        drop(watch);
        answer.map_err(|said| interrupted(&self.path, &said))
    }

    fn exists(table: &str) -> String {
        format!(
            "SELECT count(*) FROM information_schema.tables WHERE lower(table_name) = lower({})",
            literal(table)
        )
    }
}

impl Upserts for DuckDb {
    type Builder = Rows;
    type Executor = Call;

    async fn builder(&self, _: &mut Connection, table: &Table, batches: &Batches) -> Result<Rows> {
        let first = types::columns(table, &batches.get(0)?)?;
        Ok(Rows {
            way: match (self.options.method, self.options.statement) {
                (Method::Copy, _) => Way::Append,
                (Method::Upsert, Some(StatementKind::Text)) => Way::Text,
                (Method::Upsert, _) => Way::Prepared,
            },
            kinds: first.iter().map(|column| column.kind).collect(),
        })
    }

    /// Of all tables in the file, the blocks in use after a checkpoint.
    fn stored_bytes(&self, _: &str) -> (Vec<String>, String) {
        let select = "SELECT used_blocks * block_size FROM pragma_database_size()";
        (vec!["CHECKPOINT".into()], select.into())
    }

    /// Only the table's definition tells of collations.
    fn meet(table: &str) -> String {
        format!(
            "SELECT NULL, 'a collation that the table names' FROM duckdb_tables() \
             WHERE lower(table_name) = lower({}) AND sql ILIKE '% COLLATE %'",
            literal(table)
        )
    }

    async fn executors(
        &self,
        spec: &TrialSpec,
        mut connection: Connection,
        work: &Work<Rows>,
    ) -> Result<Vec<Call>> {
        let (built, rows) = (work.builder(), spec.rows_per_batch);
        let ready = Ready::new(&mut connection, built.way, &work.table, rows, &built.kinds);
        Ok(vec![Call {
            ready: self.check(ready)?,
            connection,
            path: self.path.clone(),
        }])
    }
}
