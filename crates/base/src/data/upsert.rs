//! What is upserted: a table with its keys, and its rows in batches, again and again.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{file, one_piece, usage::Usage, view::resolved};
use crate::error::{Error, Result};
use crate::halt;
use crate::spec::{Data, TrialSpec, Upsert};

mod merge;
mod order;

/// Columns that an upsert may add; more are refused by the plan.
pub const MAX_SUMS: usize = 8;

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

/// The working set, cut into batches.
#[derive(Debug, Clone)]
pub struct Batches(Arc<Source>);

#[derive(Debug)]
enum Source {
    Usage(Usage),
    File {
        rows: RecordBatch,
        /// Where each batch begins, and where the last one ends.
        bounds: Vec<usize>,
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
                let whole = one_piece(&schema, &batches);
                let whole = whole.map_err(|error| error.context(path))?;
                if whole.num_rows() == 0 {
                    return Err(Error::usage(format!("{path}: there are no rows to upsert")));
                }
                for &at in &made.key {
                    if whole.column(at).logical_null_count() > 0 {
                        return Err(Error::usage(format!(
                            "key: {:?} has nulls; a key must not",
                            made.column(at)
                        )));
                    }
                }
                let batches = Self::of(whole, spec.rows_per_batch).in_order(&made)?;
                Ok((made, batches))
            }
            _ => Err(Error::usage(
                "an upsert needs rows with a key: usage or a file",
            )),
        }
    }

    /// The rows of one table in its order, `rows_per_batch` a batch; the last one may be shorter.
    pub fn of(rows: RecordBatch, rows_per_batch: usize) -> Self {
        let mut bounds: Vec<usize> = (0..rows.num_rows())
            .step_by(rows_per_batch.max(1))
            .collect();
        bounds.push(rows.num_rows());
        Self(Arc::new(Source::File { rows, bounds }))
    }

    /// The same with the rows of each batch in the order of their keys, as `usage` has them.
    fn in_order(self, table: &Table) -> Result<Self> {
        let Source::File { rows, bounds } = &*self.0 else {
            return Ok(self);
        };
        let rows = order::by_key(table, rows.clone(), bounds)?;
        let bounds = bounds.clone();
        Ok(Self(Arc::new(Source::File { rows, bounds })))
    }

    /// How many batches there are before they come again.
    pub fn count(&self) -> u64 {
        match &*self.0 {
            Source::Usage(usage) => usage.batches(),
            Source::File { bounds, .. } => bounds.len() as u64 - 1,
        }
    }

    /// Batch `index`, below `count`.
    pub fn get(&self, index: u64) -> Result<RecordBatch> {
        match &*self.0 {
            Source::Usage(usage) => usage.batch(index),
            Source::File { rows, bounds } => {
                let (from, to) = (bounds[index as usize], bounds[index as usize + 1]);
                Ok(rows.slice(from, to - from))
            }
        }
    }

    /// The same with no key twice in a batch, for databases that refuse that in a statement
    /// (Postgres, DuckDB): such rows become one, as an application would make them. Added
    /// columns are summed, the others are the last row's. Tells how many rows went so.
    /// `usage` has no such rows.
    pub fn merged(self, table: &Table) -> Result<(Self, u64)> {
        let Source::File { rows, bounds } = &*self.0 else {
            return Ok((self, 0));
        };
        let mut parts = Vec::with_capacity(self.count() as usize);
        let mut starts = vec![0];
        let mut end = 0;
        for index in 0..self.count() {
            halt::check()?;
            let part = merge::merged(table, self.get(index)?)?;
            end += part.num_rows();
            starts.push(end);
            parts.push(part);
        }
        let gone = (rows.num_rows() - end) as u64;
        if starts == *bounds {
            return Ok((self, 0));
        }
        let rows = one_piece(&table.schema, &parts)?;
        let bounds = starts;
        Ok((Self(Arc::new(Source::File { rows, bounds })), gone))
    }
}

/// A hash of each row's key: equal for equal keys, and for others with a chance of 2^-64.
pub fn key_hashes(table: &Table, rows: &RecordBatch) -> Result<Vec<u64>> {
    let mut hashes = vec![0x9e37_79b9_7f4a_7c15; rows.num_rows()];
    for &at in &table.key {
        put_column(&mut hashes, &resolved(rows.column(at))?)?;
    }
    Ok(hashes)
}

/// Mixes a column's values into the rows' hashes.
fn put_column(hashes: &mut [u64], column: &ArrayRef) -> Result<()> {
    // One word is put in by a bijection (splitmix64's), so that equal hashes before and
    // different values never give equal hashes after.
    fn word(hash: u64, value: u64) -> u64 {
        let z = hash.rotate_left(23) ^ value;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn words<const N: usize>(hashes: &mut [u64], bytes: &[u8], value: impl Fn([u8; N]) -> u64) {
        let (values, _) = bytes.as_chunks::<N>();
        for (hash, bytes) in hashes.iter_mut().zip(values) {
            *hash = word(*hash, value(*bytes));
        }
    }
    fn bytes<T: AsRef<[u8]>>(hashes: &mut [u64], values: impl Iterator<Item = Option<T>>) {
        for (hash, value) in hashes.iter_mut().zip(values) {
            let value = value.as_ref().map_or(&[][..], AsRef::as_ref);
            *hash = xxh3_64_with_seed(value, *hash);
        }
    }
    let kind = column.data_type();
    match kind {
        DataType::Utf8 => bytes(hashes, column.as_string::<i32>().iter()),
        DataType::LargeUtf8 => bytes(hashes, column.as_string::<i64>().iter()),
        DataType::Utf8View => bytes(hashes, column.as_string_view().iter()),
        DataType::Binary => bytes(hashes, column.as_binary::<i32>().iter()),
        DataType::LargeBinary => bytes(hashes, column.as_binary::<i64>().iter()),
        DataType::BinaryView => bytes(hashes, column.as_binary_view().iter()),
        DataType::FixedSizeBinary(_) => bytes(hashes, column.as_fixed_size_binary().iter()),
        DataType::Boolean => {
            for (hash, value) in hashes.iter_mut().zip(column.as_boolean().values().iter()) {
                *hash = word(*hash, u64::from(value));
            }
        }
        _ => {
            let Some(width) = kind.primitive_width() else {
                for (row, hash) in hashes.iter_mut().enumerate() {
                    let one = RecordBatch::try_from_iter([("", column.slice(row, 1))])?;
                    *hash = word(*hash, super::digest(&one)?);
                }
                return Ok(());
            };
            let data = column.to_data();
            let values = &data.buffers()[0].as_slice()[data.offset() * width..];
            match (width, kind) {
                (1, _) => words::<1>(hashes, values, |v| v[0].into()),
                (2, _) => words::<2>(hashes, values, |v| u16::from_le_bytes(v).into()),
                // To a database -0.0 is 0.0.
                (4, DataType::Float32) => words::<4>(hashes, values, |v| {
                    (f32::from_le_bytes(v) + 0.0).to_bits().into()
                }),
                (8, DataType::Float64) => {
                    words::<8>(hashes, values, |v| (f64::from_le_bytes(v) + 0.0).to_bits());
                }
                (4, _) => words::<4>(hashes, values, |v| u32::from_le_bytes(v).into()),
                (8, _) => words::<8>(hashes, values, u64::from_le_bytes),
                _ => bytes(hashes, values.chunks_exact(width).map(Some)),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
