//! Gets from SQLite: rows as the library steps through them, in the stream's own thread.

use std::borrow::Borrow;
use std::ffi::{c_int, CStr};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use rusqlite::{ffi, Connection};

use super::dialect::{FOREIGN, SQLITE};
use super::errors::describe;
use super::types;
use super::Sqlite;
use crate::read::{by_rowid, Column, Question, Reading, Reads, Rows};
use venturi_base::data::column::{self, Columns};
use venturi_base::data::upsert::Table;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::TrialSpec;

/// Of so many rows one is looked at: what of its time was SQLite's, and what ours.
const SAMPLED: usize = 64;

impl Reads for Sqlite {
    type Rows = Stepped;

    fn reading(&self) -> &Reading {
        &self.options.reading
    }

    fn protocol(&self) -> String {
        "sqlite".into()
    }

    /// By the declared type of a column, or else by its value in the first row.
    async fn columns(&self, connection: &mut Connection, select: &str) -> Result<Vec<Column>> {
        let mut statement = self.check(Statement::new(&*connection, select))?;
        let declared = statement.declared();
        let encoding = connection.query_row("PRAGMA encoding", [], |row| row.get::<_, String>(0));
        let foreign = self.check(encoding)? != "UTF-8";
        let mut first = Vec::new();
        let open = declared
            .iter()
            .any(|(_, words)| by_affinity(words).is_none());
        if open && self.check(statement.step())? {
            first = (0..declared.len()).map(|at| statement.kind(at)).collect();
        }
        let column = |(at, (name, words)): (usize, (String, String))| {
            let by_value = first.get(at).and_then(|kind| by_kind(*kind));
            let data_type = by_affinity(&words).or(by_value).unwrap_or(DataType::Utf8);
            Column {
                name,
                data_type,
                native: match words.is_empty() {
                    _ if foreign => format!("{words}{FOREIGN}"),
                    true => "of no declared type".into(),
                    false => words,
                },
            }
        };
        Ok(declared.into_iter().enumerate().map(column).collect())
    }

    async fn parts(
        &self,
        connection: &mut Connection,
        table: &str,
        streams: usize,
    ) -> Result<Vec<Option<String>>> {
        let without = ("SQLITE_ERROR", "a view, or WITHOUT ROWID");
        by_rowid(self, connection, table, streams, without).await
    }

    async fn fill(
        &self,
        connection: &mut Connection,
        table: &Table,
        mut rows: Cursor,
    ) -> Result<()> {
        let marks = vec!["?"; table.schema.fields().len()].join(",");
        let insert = format!("{}({marks})", SQLITE.insert_head(table));
        let transaction = self.check(connection.transaction())?;
        {
            let mut insert = self.check(transaction.prepare(&insert))?;
            while let Some(item) = rows.next() {
                let columns = types::Columns::of(table, item.batch())?;
                for row in 0..columns.rows {
                    let done = columns.bind(&mut insert, row);
                    self.check(done.and_then(|()| insert.raw_execute()))?;
                }
            }
        }
        self.check(transaction.commit())
    }

    async fn rows(
        &self,
        _: &TrialSpec,
        connection: Connection,
        question: Question,
    ) -> Result<Stepped> {
        let columns = Columns::new(&question.schema, question.limit)?;
        let kinds = question.schema.fields().iter();
        Ok(Stepped {
            kinds: kinds.map(|field| field.data_type().clone()).collect(),
            statement: self.check(Statement::new(connection, &question.statement))?,
            over: false,
            columns,
            rows_per_batch: question.rows_per_batch,
            path: self.path.clone(),
        })
    }
}

/// What a column's declared type says of its values; <https://sqlite.org/datatype3.html>, 3.1. `None`: they
/// may be of any type.
fn by_affinity(declared: &str) -> Option<DataType> {
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    match declared {
        _ if has(&["INT"]) => Some(DataType::Int64),
        _ if has(&["CHAR", "CLOB", "TEXT"]) => Some(DataType::Utf8),
        _ if has(&["BLOB"]) => Some(DataType::Binary),
        // What has a fraction somewhere may have none elsewhere: then it is stored as an integer.
        _ if has(&["REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"]) => Some(DataType::Float64),
        _ => None,
    }
}

fn by_kind(kind: c_int) -> Option<DataType> {
    match kind {
        ffi::SQLITE_INTEGER => Some(DataType::Int64),
        ffi::SQLITE_FLOAT => Some(DataType::Float64),
        ffi::SQLITE_TEXT => Some(DataType::Utf8),
        ffi::SQLITE_BLOB => Some(DataType::Binary),
        _ => None,
    }
}

/// A statement that is stepped through, with its connection or a borrow of it.
struct Statement<C: Borrow<Connection>> {
    handle: *mut ffi::sqlite3_stmt,
    connection: C,
}

impl<C: Borrow<Connection>> Statement<C> {
    fn new(connection: C, sql: &str) -> rusqlite::Result<Self> {
        let of: &Connection = connection.borrow();
        let mut statement = ptr::null_mut();
        let length = c_int::try_from(sql.len()).unwrap_or(c_int::MAX);
        // SAFETY: the connection is open; `sql` has that many bytes.
        let code = unsafe {
            let text = sql.as_ptr().cast();
            ffi::sqlite3_prepare_v3(
                of.handle(),
                text,
                length,
                0,
                &mut statement,
                ptr::null_mut(),
            )
        };
        match code {
            ffi::SQLITE_OK => Ok(Self {
                handle: statement,
                connection,
            }),
            _ => Err(failure(of, code)),
        }
    }

    /// Names of the columns, and their types as they were declared; of expressions none.
    fn declared(&self) -> Vec<(String, String)> {
        // SAFETY: the statement is prepared; texts are copied before anything else is asked of it.
        let text = |text: *const std::ffi::c_char| match text.is_null() {
            true => String::new(),
            false => unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned(),
        };
        // SAFETY: as above; columns are asked for within their number.
        unsafe {
            let columns = 0..ffi::sqlite3_column_count(self.handle);
            let column = |at| {
                let declared = text(ffi::sqlite3_column_decltype(self.handle, at));
                (
                    text(ffi::sqlite3_column_name(self.handle, at)),
                    declared.to_uppercase(),
                )
            };
            columns.map(column).collect()
        }
    }

    /// Whether there is another row.
    #[inline]
    fn step(&mut self) -> rusqlite::Result<bool> {
        // SAFETY: the statement was prepared, and is not finalised.
        match unsafe { ffi::sqlite3_step(self.handle) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => Err(failure(self.connection.borrow(), code)),
        }
    }

    #[inline]
    fn kind(&self, at: usize) -> c_int {
        // SAFETY: as above; of a column that there is none of it is null.
        unsafe { ffi::sqlite3_column_type(self.handle, at as c_int) }
    }

    #[inline]
    fn integer(&self, at: usize) -> i64 {
        // SAFETY: as above.
        unsafe { ffi::sqlite3_column_int64(self.handle, at as c_int) }
    }

    #[inline]
    fn real(&self, at: usize) -> f64 {
        // SAFETY: as above.
        unsafe { ffi::sqlite3_column_double(self.handle, at as c_int) }
    }

    /// Of a blob, or of text, which is UTF-8 whatever the file has.
    #[inline]
    fn bytes(&self, at: usize, text: bool) -> &[u8] {
        // SAFETY: the bytes are there until the statement is stepped again, which no borrow of it outlives; the
        // length is asked for after the value, as SQLite wants it.
        unsafe {
            let start = match text {
                true => ffi::sqlite3_column_text(self.handle, at as c_int).cast::<u8>(),
                false => ffi::sqlite3_column_blob(self.handle, at as c_int).cast::<u8>(),
            };
            let length = ffi::sqlite3_column_bytes(self.handle, at as c_int);
            match start.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(start, length.max(0) as usize),
            }
        }
    }
}

impl<C: Borrow<Connection>> Drop for Statement<C> {
    fn drop(&mut self) {
        // SAFETY: prepared once, of a connection that is still open; null is taken.
        unsafe { ffi::sqlite3_finalize(self.handle) };
    }
}

fn failure(connection: &Connection, code: c_int) -> rusqlite::Error {
    // SAFETY: the connection is open; its last message is copied before anything else is asked of it.
    let (code, said) = unsafe {
        let handle = connection.handle();
        let said = CStr::from_ptr(ffi::sqlite3_errmsg(handle));
        let extended = ffi::sqlite3_extended_errcode(handle);
        let code = if extended & 0xff == code & 0xff {
            extended
        } else {
            code
        };
        (code, said.to_string_lossy().into_owned())
    };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(said))
}

/// A stream's rows.
pub struct Stepped {
    statement: Statement<Connection>,
    /// It has come to its end.
    over: bool,
    kinds: Vec<DataType>,
    columns: Columns,
    rows_per_batch: usize,
    path: Arc<Path>,
}

impl Stepped {
    /// The time of the looked-at rows, in SQLite and here.
    fn batch(&mut self, clock: &mut StageClock) -> Result<(Duration, Duration)> {
        let (mut engine, mut ours) = (Duration::ZERO, Duration::ZERO);
        while !self.over && self.columns.rows() < self.rows_per_batch {
            let row = self.columns.rows();
            let looked = (row % SAMPLED == 1).then(Instant::now);
            let more = self.statement.step();
            let more = more.map_err(|error| describe(&self.path, &error))?;
            if row == 0 {
                // It may have to sort all rows before the first.
                clock.mark(Stage::Apply);
            }
            if !more {
                self.over = true;
                break;
            }
            let stepped = looked.map(|_| Instant::now());
            let mut size = 0;
            let columns = self.columns.each().iter_mut().zip(&self.kinds);
            for (at, (column, kind)) in columns.enumerate() {
                size += 8 + push(&self.statement, at, kind, column)?;
            }
            self.columns.row(size)?;
            if let (Some(begun), Some(stepped)) = (looked, stepped) {
                engine += stepped - begun;
                ours += stepped.elapsed();
                clock.count_reads(3);
            }
        }
        Ok((engine, ours))
    }
}

/// Bytes of the value beside its eight.
#[inline]
fn push(
    statement: &Statement<Connection>,
    at: usize,
    kind: &DataType,
    column: &mut column::Column,
) -> Result<usize> {
    let stored = statement.kind(at);
    match (stored, kind) {
        (ffi::SQLITE_NULL, _) => column.push_null(),
        (ffi::SQLITE_INTEGER, DataType::Int64) => column.push(statement.integer(at))?,
        (ffi::SQLITE_FLOAT | ffi::SQLITE_INTEGER, DataType::Float64) => {
            column.push(statement.real(at))?;
        }
        (ffi::SQLITE_TEXT, DataType::Utf8)
        | (ffi::SQLITE_BLOB | ffi::SQLITE_TEXT, DataType::Binary) => {
            let bytes = statement.bytes(at, stored == ffi::SQLITE_TEXT);
            column.push_bytes(bytes)?;
            return Ok(bytes.len());
        }
        (stored, kind) => {
            let name = column.name();
            return Err(Error::protocol(format!(
                "column {name} holds {} where it is read as {kind}: cast it in a query, as CAST({name} AS TEXT)",
                match stored {
                    ffi::SQLITE_INTEGER => "an integer",
                    ffi::SQLITE_FLOAT => "a number with a fraction",
                    ffi::SQLITE_TEXT => "a text",
                    _ => "a blob",
                }
            )));
        }
    }
    Ok(0)
}

impl Rows for Stepped {
    fn poll_rows(
        &mut self,
        _cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        let (engine, ours) = self.batch(clock)?;
        let batch = self.columns.finish()?;
        let spent = clock.last().elapsed();
        let share = match (engine + ours).as_secs_f64() {
            0.0 => 0.5,
            both => engine.as_secs_f64() / both,
        };
        clock.mark_at(Stage::Apply, clock.last() + spent.mul_f64(share));
        clock.mark(Stage::Decode);
        Poll::Ready(Ok(batch))
    }
}
