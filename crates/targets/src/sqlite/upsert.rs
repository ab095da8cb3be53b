//! One connection: a batch is a transaction, executed in the client's own thread.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::errors::describe;
use super::types::Columns;
use crate::upsert::{Executing, Executor, Prepared};
use venturi_base::error::{Error, Fate, Result};
use venturi_base::meter::clock::Stage;

/// A batch, ready to be executed.
#[derive(Debug)]
pub enum Statement {
    Text(String),
    /// Values for the connection's prepared statement.
    Values(Columns),
}

pub struct Call {
    pub connection: Connection,
    pub path: Arc<Path>,
    /// Of one row.
    pub upsert: Arc<str>,
}

impl Call {
    fn describe(&self, error: &rusqlite::Error) -> Error {
        describe(&self.path, error)
    }

    fn run(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(sql)?
            .raw_execute()
            .map(|_| ())
    }

    fn apply(&self, statement: &Statement) -> rusqlite::Result<()> {
        match statement {
            Statement::Text(sql) => self.connection.execute_batch(sql),
            Statement::Values(columns) => {
                let mut upsert = self.connection.prepare_cached(&self.upsert)?;
                for row in 0..columns.rows {
                    columns.bind(&mut upsert, row)?;
                    upsert.raw_execute()?;
                }
                Ok(())
            }
        }
    }

    /// One batch, whole or not at all.
    fn transact(&self, call: &Prepared<Statement>) -> Result<()> {
        let refused = |error: Error| error.with_fate(Fate::Refused { rows: call.rows });
        self.run("BEGIN IMMEDIATE")
            .map_err(|error| refused(self.describe(&error)))?;
        let applied = self.apply(&call.statement);
        let committing = applied.is_ok();
        let Err(error) = applied.and_then(|()| self.run("COMMIT")) else {
            return Ok(());
        };
        let mut said = self.describe(&error);
        // Some errors have ended the transaction already; those of a commit after it may have
        // been written.
        let open = !self.connection.is_autocommit();
        if open {
            if let Err(again) = self.run("ROLLBACK") {
                let again = self.describe(&again);
                said.message = format!("{}; and not rolled back: {}", said.message, again.message);
                return Err(said);
            }
        }
        let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        Err(match open || !committing || full {
            true => refused(said),
            false => said.with_fate(Fate::InDoubt { rows: call.rows }),
        })
    }
}

impl Executor for Call {
    type Statement = Statement;

    const WORK: Stage = Stage::Apply;

    fn execute(self, call: Arc<Prepared<Statement>>) -> Executing<Self> {
        // Ready at the first poll: SQLite is a library.
        Box::pin(async move {
            let done = self.transact(&call);
            (self, done)
        })
    }
}
