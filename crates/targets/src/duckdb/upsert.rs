//! A batch as DuckDB takes it, and one connection's way to execute it.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::api::Type;
use super::dialect::DUCKDB;
use super::handles::{Appender, Connection, Prepared, Refusal};
use super::types::{columns, Column};
use crate::upsert::{self, Builder, Executing, Executor};
use venturi_base::data::upsert::Table;
use venturi_base::error::{Error, Fate, Kind, Result};
use venturi_base::meter::clock::Stage;

/// How batches are made and given over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Text,
    Prepared,
    Append,
}

#[derive(Debug)]
pub enum Statement {
    Text(CString),
    Values { columns: Vec<Column>, rows: usize },
}

/// Makes statements of rows.
pub struct Rows {
    pub way: Way,
    /// Of the columns that are appended.
    pub kinds: Vec<Type>,
}

impl Builder for Rows {
    type Statement = Statement;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Statement> {
        if self.way == Way::Text {
            let mut text = Vec::new();
            DUCKDB.upsert_text(table, rows, &mut text)?;
            return CString::new(text).map(Statement::Text).map_err(|_| {
                Error::usage("a value has a zero byte, which DuckDB's text has not: take --statement prepared")
            });
        }
        Ok(Statement::Values {
            columns: columns(table, rows)?,
            rows: rows.num_rows(),
        })
    }

    fn size(statement: &Statement) -> usize {
        match statement {
            Statement::Text(text) => text.as_bytes().len(),
            Statement::Values { columns, .. } => columns.iter().map(Column::size).sum(),
        }
    }
}

/// One line for a refusal. DuckDB begins it with its kind, as `Constraint Error: `.
pub fn describe(path: &Path, said: &Refusal) -> Error {
    let place = path.display();
    let code = said.split_once(" Error:").map(|(code, _)| code.trim());
    let code = code.filter(|code| code.len() < 40 && !code.contains(':'));
    // Two connections that insert one key meet in the index, not in the row, and the appender
    // leaves the kind out: https://github.com/duckdb/duckdb/issues/20072
    let conflict = matches!(code, Some("TransactionContext" | "Transaction"))
        || ["Duplicate key", "duplicate key", "Conflict on"]
            .iter()
            .any(|words| said.contains(words));
    let (kind, advice) = match code {
        _ if conflict => (
            Kind::Server,
            "; DuckDB refuses a batch if two streams change the same row at once: --retries 50 \
             tries it again, --streams 1 avoids it",
        ),
        // The code of all three is IO.
        Some("IO") if said.contains("lock") => (
            Kind::Unreachable,
            "; another process has the file open: close it there, for DuckDB lets one in",
        ),
        Some("IO") if said.contains("valid DuckDB") => (Kind::Usage, "; name another file"),
        Some("IO") => (
            Kind::Io,
            "; does the directory exist, may it be written, is there room?",
        ),
        Some("Out of Memory") => (
            Kind::Memory,
            "; --init \"SET memory_limit = ...\", or a smaller --working-set",
        ),
        _ => (Kind::Server, ""),
    };
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let error = Error::new(kind, format!("{place}: {line}{advice}"));
    match code {
        Some(code) => error.with_code(code),
        None => error,
    }
}

/// What a connection has ready.
pub enum Ready {
    Text,
    /// For so many rows, and for what is left, as the last batch of a file has it.
    Prepared {
        whole: (usize, Prepared),
        rest: Option<(usize, Prepared)>,
        table: Arc<Table>,
    },
    Append(Appender),
}

pub struct Call {
    pub ready: Ready,
    pub connection: Connection,
    pub path: Arc<Path>,
}

/// So many rows of a batch fit a statement's placeholders.
pub fn chunk(table: &Table, rows_per_batch: usize) -> usize {
    let columns = table.schema.fields().len().max(1);
    (DUCKDB.most_placeholders / columns).clamp(1, rows_per_batch.max(1))
}

impl Ready {
    pub fn new(
        connection: &mut Connection,
        way: Way,
        table: &Table,
        rows_per_batch: usize,
        kinds: &[Type],
    ) -> std::result::Result<Self, Refusal> {
        Ok(match way {
            Way::Text => Self::Text,
            Way::Prepared => {
                let rows = chunk(table, rows_per_batch);
                let sql = DUCKDB.upsert_placeholders(table, rows);
                Self::Prepared {
                    whole: (rows, connection.prepare(&sql)?),
                    rest: None,
                    table: Arc::new(table.clone()),
                }
            }
            Way::Append => {
                let fields = table.schema.fields();
                let quoted = |field: &Arc<arrow_schema::Field>| DUCKDB.quoted(field.name());
                let names: Vec<_> = fields.iter().map(quoted).collect();
                let names = names.join(", ");
                let query = format!(
                    "INSERT INTO {} ({names}) SELECT {names} FROM rows{}",
                    DUCKDB.quoted(&table.name),
                    DUCKDB.upsert_tail(table)
                );
                let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
                Self::Append(connection.appender(&query, &names, kinds)?)
            }
        })
    }
}

impl Call {
    fn apply(&mut self, statement: &Statement) -> std::result::Result<(), Refusal> {
        match (statement, &mut self.ready) {
            (Statement::Text(sql), _) => self.connection.run(sql),
            (Statement::Values { columns, rows }, Ready::Append(appender)) => {
                appender.append(columns, *rows)
            }
            (Statement::Values { columns, rows }, Ready::Prepared { whole, rest, table }) => {
                let connection = &mut self.connection;
                // More than one statement are one transaction.
                let several = *rows > whole.0;
                if several {
                    connection.run(c"BEGIN TRANSACTION")?;
                }
                let mut done = Ok(());
                let mut from = 0;
                while done.is_ok() && from < *rows {
                    let count = whole.0.min(rows - from);
                    let upsert = match count == whole.0 {
                        true => &mut whole.1,
                        false => {
                            if rest.as_ref().is_none_or(|(held, _)| *held != count) {
                                let sql = DUCKDB.upsert_placeholders(table, count);
                                *rest = Some((count, connection.prepare(&sql)?));
                            }
                            match rest {
                                Some((_, upsert)) => upsert,
                                None => &mut whole.1,
                            }
                        }
                    };
                    done = execute(connection, upsert, columns, from, count);
                    from += count;
                }
                match (several, done) {
                    (false, done) => done,
                    (true, Ok(())) => connection.run(c"COMMIT"),
                    (true, Err(said)) => {
                        // The first refusal is the one to be told.
                        let _ = connection.run(c"ROLLBACK");
                        Err(said)
                    }
                }
            }
            (Statement::Values { .. }, Ready::Text) => {
                Err("Internal Error: values for a connection of text".to_owned())
            }
        }
    }
}

fn execute(
    connection: &mut Connection,
    upsert: &mut Prepared,
    columns: &[Column],
    from: usize,
    count: usize,
) -> std::result::Result<(), Refusal> {
    let mut place = 1;
    for row in from..from + count {
        for column in columns {
            upsert.bind(place, column.value(row))?;
            place += 1;
        }
    }
    connection.execute(upsert)
}

impl Executor for Call {
    type Statement = Statement;

    const WORK: Stage = Stage::Apply;

    fn execute(mut self, call: Arc<upsert::Prepared<Statement>>) -> Executing<Self> {
        // Ready at the first poll: DuckDB is a library.
        Box::pin(async move {
            let done = self.apply(&call.statement).map_err(|said| {
                let error = describe(&self.path, &said);
                match error.code.as_deref() {
                    // The library has given the file up, or something in itself.
                    Some("FATAL" | "INTERNAL" | "Internal") => error,
                    _ => error.with_fate(Fate::Refused { rows: call.rows }),
                }
            });
            (self, done)
        })
    }
}
