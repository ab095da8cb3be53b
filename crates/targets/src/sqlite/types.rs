//! Columns of a batch as the four kinds of values that SQLite knows.

use arrow_array::RecordBatch;
use arrow_buffer::NullBuffer;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::Statement;

use super::dialect::SQLITE;
use crate::sql::Rows;
use venturi_base::data::upsert::Table;
use venturi_base::data::view::Values;
use venturi_base::error::{Error, Result};

/// A batch by columns.
#[derive(Debug)]
pub struct Columns {
    pub rows: usize,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    values: Kind,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum Kind {
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Text(Bytes),
    Blob(Bytes),
}

/// Values one after the other, and where each ends.
#[derive(Debug, Default)]
struct Bytes {
    all: Vec<u8>,
    ends: Vec<usize>,
}

impl Bytes {
    fn get(&self, row: usize) -> &[u8] {
        let from = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[from..self.ends[row]]
    }
}

impl Columns {
    pub fn of(table: &Table, rows: &RecordBatch) -> Result<Self> {
        // What SQLite has no type for is text, as it stands in a statement.
        let mut written = Rows::new(SQLITE, table, rows)?;
        let mut columns = Vec::with_capacity(rows.num_columns());
        for at in 0..rows.num_columns() {
            let view = written.view(at).clone();
            let mut bytes = || {
                let mut bytes = Bytes::default();
                for row in 0..rows.num_rows() {
                    written.text(at, row, &mut bytes.all)?;
                    bytes.ends.push(bytes.all.len());
                }
                Ok::<_, Error>(bytes)
            };
            let integers = |values: &mut dyn Iterator<Item = i64>| Kind::Integer(values.collect());
            let values = match &view.values {
                Values::Boolean(v) => integers(&mut v.values().iter().map(i64::from)),
                Values::Int8(v) => integers(&mut v.iter().map(|v| i64::from(*v))),
                Values::Int16(v) => integers(&mut v.iter().map(|v| i64::from(*v))),
                Values::Int32(v) => integers(&mut v.iter().map(|v| i64::from(*v))),
                Values::Int64(v) => Kind::Integer(v.to_vec()),
                Values::UInt8(v) => integers(&mut v.iter().map(|v| i64::from(*v))),
                Values::UInt16(v) => integers(&mut v.iter().map(|v| i64::from(*v))),
                Values::UInt32(v) => integers(&mut v.iter().map(|v| i64::from(*v))),
                Values::UInt64(v) => {
                    let large = |row: &usize| !view.is_null(*row) && v[*row] >> 63 > 0;
                    if let Some(row) = (0..v.len()).find(large) {
                        let why = format!("SQLite's integers end at {}", i64::MAX);
                        return Err(view.refused(v[row], why));
                    }
                    integers(&mut v.iter().map(|v| *v as i64))
                }
                Values::Float32(v) => Kind::Real(v.iter().map(|v| f64::from(*v)).collect()),
                Values::Float64(v) => Kind::Real(v.to_vec()),
                Values::Bytes(_) => Kind::Blob(bytes()?),
                Values::Text(_)
                | Values::Date(_)
                | Values::Time(..)
                | Values::Timestamp(..)
                | Values::Decimal(_) => Kind::Text(bytes()?),
            };
            let nulls = view.nulls().cloned();
            columns.push(Column { values, nulls });
        }
        Ok(Self {
            rows: rows.num_rows(),
            columns,
        })
    }

    /// Bytes in memory, about.
    pub fn size(&self) -> usize {
        let size = |column: &Column| match &column.values {
            Kind::Integer(values) => 8 * values.len(),
            Kind::Real(values) => 8 * values.len(),
            Kind::Text(bytes) | Kind::Blob(bytes) => bytes.all.len() + 8 * bytes.ends.len(),
        };
        self.columns.iter().map(size).sum()
    }

    /// Binds one row to the parameters 1, 2, ... of a statement.
    pub fn bind(&self, statement: &mut Statement<'_>, row: usize) -> rusqlite::Result<()> {
        for (at, column) in self.columns.iter().enumerate() {
            let value = ToSqlOutput::Borrowed(column.get(row));
            statement.raw_bind_parameter(at + 1, value)?;
        }
        Ok(())
    }
}

impl Column {
    fn get(&self, row: usize) -> ValueRef<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return ValueRef::Null;
        }
        match &self.values {
            Kind::Integer(values) => ValueRef::Integer(values[row]),
            Kind::Real(values) => ValueRef::Real(values[row]),
            Kind::Text(bytes) => ValueRef::Text(bytes.get(row)),
            Kind::Blob(bytes) => ValueRef::Blob(bytes.get(row)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, Float64Array, StringArray};
    use arrow_array::{TimestampMillisecondArray, UInt64Array};

    use super::*;
    use venturi_base::spec::Upsert;

    fn columns(columns: Vec<(&str, ArrayRef)>) -> Result<Columns> {
        let key = vec![columns[0].0.to_owned()];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let add = Vec::new();
        let table = Table::new("t", rows.schema(), &Upsert { key, add }).unwrap();
        Columns::of(&table, &rows)
    }

    #[test]
    fn values_as_sqlite_has_them() {
        let made = columns(vec![
            ("a", Arc::new(StringArray::from(vec![Some("it's"), None]))),
            (
                "b",
                Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..], b""])),
            ),
            ("c", Arc::new(Float64Array::from(vec![1e300, 0.0]))),
            ("e", Arc::new(TimestampMillisecondArray::from(vec![-1, 0]))),
        ])
        .unwrap();
        let row = |row| made.columns.iter().map(move |column| column.get(row));
        assert!(row(0).eq([
            ValueRef::Text(b"it's"),
            ValueRef::Blob(b"\x00\xff"),
            ValueRef::Real(1e300),
            ValueRef::Text(b"1969-12-31 23:59:59.999"),
        ]));
        assert!(row(1).eq([
            ValueRef::Null,
            ValueRef::Blob(b""),
            ValueRef::Real(0.0),
            ValueRef::Text(b"1970-01-01 00:00:00.000"),
        ]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = columns(vec![("n", Arc::new(UInt64Array::from(vec![u64::MAX])))]);
        let error = error.unwrap_err().message;
        assert!(
            error.contains("\"n\"") && error.contains("18446744073709551615"),
            "{error}"
        );
    }
}
