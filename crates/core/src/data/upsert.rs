//! What is upserted: a table with its keys, and its rows in batches, again and again.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat_batches;

use super::{file, usage::Usage};
use crate::error::{Error, Kind, Result};
use crate::spec::{Data, TrialSpec, Upsert};
use crate::target::MAX_SUMS;

/// A table by its roles: rows of equal `key` meet, the columns of `add` are summed up, all
/// others are overwritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    pub schema: SchemaRef,
    /// Column numbers, in the order of the primary key.
    pub key: Vec<usize>,
    /// Column numbers; integers, at most `MAX_SUMS`.
    pub add: Vec<usize>,
}

impl Table {
    pub fn new(name: &str, schema: SchemaRef, roles: &Upsert) -> Result<Self> {
        let find = |flag: &str, columns: &[String]| -> Result<Vec<usize>> {
            let mut found = Vec::with_capacity(columns.len());
            for column in columns {
                let at = schema.index_of(column).map_err(|_| {
                    let names: Vec<&str> =
                        schema.fields().iter().map(|f| f.name().as_str()).collect();
                    Error::usage(format!(
                        "{flag}: there is no column {column:?}; the data has {}",
                        names.join(", ")
                    ))
                })?;
                if found.contains(&at) {
                    return Err(Error::usage(format!("{flag}: {column:?} is named twice")));
                }
                found.push(at);
            }
            Ok(found)
        };
        let key = find("key", &roles.key)?;
        let add = find("add", &roles.add)?;
        if key.is_empty() {
            return Err(Error::usage("key: name at least one column"));
        }
        if add.len() > MAX_SUMS {
            return Err(Error::usage(format!(
                "add: at most {MAX_SUMS} columns can be summed up"
            )));
        }
        for &at in &add {
            let field = schema.field(at);
            if key.contains(&at) {
                return Err(Error::usage(format!(
                    "add: {:?} is a part of the key",
                    field.name()
                )));
            }
            if !field.data_type().is_integer() {
                return Err(Error::usage(format!(
                    "add: {:?} is {}; only integers can be summed up and checked to the last one",
                    field.name(),
                    field.data_type()
                )));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            schema,
            key,
            add,
        })
    }

    /// Columns that are neither key nor added: the last row that is written wins.
    pub fn set(&self) -> Vec<usize> {
        (0..self.schema.fields().len())
            .filter(|at| !self.key.contains(at) && !self.add.contains(at))
            .collect()
    }

    pub fn column(&self, at: usize) -> &str {
        self.schema.field(at).name()
    }

    pub fn data_type(&self, at: usize) -> &DataType {
        self.schema.field(at).data_type()
    }
}

/// The working set, cut into batches of `rows_per_batch` rows.
#[derive(Debug, Clone)]
pub struct Batches(Arc<Source>);

#[derive(Debug)]
enum Source {
    Usage(Usage),
    File {
        table: RecordBatch,
        rows_per_batch: usize,
    },
}

impl Batches {
    /// The rows that a spec names and the table they belong in, called `name`.
    pub fn make(spec: &TrialSpec, name: &str) -> Result<(Table, Self)> {
        match &spec.data {
            Data::Usage {
                working_set,
                seed,
                loaded_unix_s,
            } => {
                let usage = Usage::new(*working_set, spec.rows_per_batch, *seed, *loaded_unix_s);
                let table = Table::new(name, Usage::schema(), &Usage::roles())?;
                Ok((table, Self(Arc::new(Source::Usage(usage)))))
            }
            Data::File { path, ipc } => {
                let (schema, batches) = file::read(path, ipc)?;
                let roles = spec.upsert.clone().unwrap_or_default();
                let made = Table::new(name, schema.clone(), &roles)?;
                let whole = concat_batches(&schema, &batches).map_err(|error| {
                    Error::new(Kind::Memory, format!("{path}: not in one piece: {error}"))
                })?;
                if whole.num_rows() == 0 {
                    return Err(Error::usage(format!("{path}: there are no rows to upsert")));
                }
                for &at in &made.key {
                    if whole.column(at).null_count() > 0 {
                        return Err(Error::usage(format!(
                            "key: {:?} has nulls; a key must not",
                            made.column(at)
                        )));
                    }
                }
                let source = Source::File {
                    rows_per_batch: spec.rows_per_batch.min(whole.num_rows()),
                    table: whole,
                };
                Ok((made, Self(Arc::new(source))))
            }
            _ => Err(Error::usage(
                "an upsert needs rows with a key: usage or a file",
            )),
        }
    }

    /// How many batches there are before they come again.
    pub fn count(&self) -> u64 {
        match &*self.0 {
            Source::Usage(usage) => usage.batches(),
            Source::File {
                table,
                rows_per_batch,
            } => (table.num_rows() as u64).div_ceil(*rows_per_batch as u64),
        }
    }

    /// Batch `index`, below `count`. A file's last one may be shorter.
    pub fn get(&self, index: u64) -> Result<RecordBatch> {
        match &*self.0 {
            Source::Usage(usage) => usage.batch(index),
            Source::File {
                table,
                rows_per_batch,
            } => {
                let start = index as usize * rows_per_batch;
                Ok(table.slice(start, (*rows_per_batch).min(table.num_rows() - start)))
            }
        }
    }
}

/// A hash of each row's key: equal for equal keys, and for others with a chance of 2^-64.
pub fn key_hashes(table: &Table, rows: &RecordBatch) -> Result<Vec<u64>> {
    let mut hashes = Vec::with_capacity(rows.num_rows());
    let key = rows.project(&table.key)?;
    for row in 0..rows.num_rows() {
        hashes.push(super::digest(&key.slice(row, 1))?);
    }
    Ok(hashes)
}
