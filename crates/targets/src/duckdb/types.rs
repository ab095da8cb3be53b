//! Columns of a batch as DuckDB's vectors hold them.

use arrow_array::RecordBatch;
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};

use super::api::Type;
use super::dialect::DUCKDB;
use super::handles::Value;
use crate::sql::Rows;
use venturi_base::data::upsert::Table;
use venturi_base::data::view::Values;
use venturi_base::error::{Error, Result};

#[derive(Debug)]
pub struct Column {
    pub kind: Type,
    pub data: Data,
    pub nulls: Option<NullBuffer>,
}

#[derive(Debug)]
pub enum Data {
    /// As the machine has them in memory.
    Fixed(Vec<u8>),
    /// One after the other, and where each ends.
    Bytes { all: Vec<u8>, ends: Vec<usize> },
}

/// All columns of a batch.
pub fn columns(table: &Table, rows: &RecordBatch) -> Result<Vec<Column>> {
    // What has no type below is cast from text, as it stands in a statement.
    let mut written = Rows::new(DUCKDB, table, rows)?;
    let mut columns = Vec::with_capacity(rows.num_columns());
    for at in 0..rows.num_columns() {
        let view = written.view(at).clone();
        let mut bytes = || {
            let (mut all, mut ends) = (Vec::new(), Vec::with_capacity(rows.num_rows()));
            for row in 0..rows.num_rows() {
                written.text(at, row, &mut all)?;
                ends.push(all.len());
            }
            Ok::<_, Error>(Data::Bytes { all, ends })
        };
        let (kind, data) = match &view.values {
            Values::Boolean(v) => {
                let bytes = v.values().iter().map(u8::from);
                (Type::Boolean, Data::Fixed(bytes.collect()))
            }
            Values::Int8(v) => (Type::TinyInt, fixed(v)),
            Values::Int16(v) => (Type::SmallInt, fixed(v)),
            Values::Int32(v) => (Type::Integer, fixed(v)),
            Values::Int64(v) => (Type::BigInt, fixed(v)),
            Values::UInt8(v) => (Type::UTinyInt, fixed(v)),
            Values::UInt16(v) => (Type::USmallInt, fixed(v)),
            Values::UInt32(v) => (Type::UInteger, fixed(v)),
            Values::UInt64(v) => (Type::UBigInt, fixed(v)),
            Values::Float32(v) => (Type::Float, fixed(v)),
            Values::Float64(v) => (Type::Double, fixed(v)),
            Values::Timestamp(v, unit, zone) => {
                let micros = v.iter().zip(0..).map(|(v, row)| match view.is_null(row) {
                    true => Ok(0),
                    false => view.micros(*v, *unit, "a bound value of DuckDB"),
                });
                let micros = ScalarBuffer::from(micros.collect::<Result<Vec<i64>>>()?);
                let kind = if *zone {
                    Type::TimestampTz
                } else {
                    Type::Timestamp
                };
                (kind, fixed(&micros))
            }
            Values::Bytes(_) => (Type::Blob, bytes()?),
            Values::Text(_) | Values::Date(_) | Values::Time(..) | Values::Decimal(_) => {
                (Type::Varchar, bytes()?)
            }
        };
        let nulls = view.nulls().cloned();
        columns.push(Column { kind, data, nulls });
    }
    Ok(columns)
}

fn fixed<T: ArrowNativeType>(values: &ScalarBuffer<T>) -> Data {
    Data::Fixed(values.inner().as_slice().to_vec())
}

impl Column {
    /// Bytes in memory, about.
    pub fn size(&self) -> usize {
        match &self.data {
            Data::Fixed(bytes) => bytes.len(),
            Data::Bytes { all, ends } => all.len() + 8 * ends.len(),
        }
    }

    /// A string or blob; of another column nothing.
    pub fn bytes(&self, row: usize) -> &[u8] {
        match &self.data {
            Data::Fixed(_) => &[],
            Data::Bytes { all, ends } => {
                let from = row.checked_sub(1).map_or(0, |before| ends[before]);
                &all[from..ends[row]]
            }
        }
    }

    pub fn value(&self, row: usize) -> Value<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Value::Null;
        }
        let Data::Fixed(all) = &self.data else {
            return match self.kind {
                Type::Blob => Value::Blob(self.bytes(row)),
                _ => Value::Text(self.bytes(row)),
            };
        };
        let width = self.kind.width();
        let mut eight = [0u8; 8];
        eight[..width].copy_from_slice(&all[row * width..(row + 1) * width]);
        let word = u64::from_le_bytes(eight);
        // Sign-extended from its own width.
        let signed = (word << (64 - 8 * width)) as i64 >> (64 - 8 * width);
        match self.kind {
            Type::Boolean => Value::Boolean(word != 0),
            Type::TinyInt | Type::SmallInt | Type::BigInt => Value::Integer(signed),
            Type::Integer => Value::Integer32(signed as i32),
            Type::UInteger => Value::Unsigned32(word as u32),
            Type::Float => Value::Double(f64::from(f32::from_bits(word as u32))),
            Type::Double => Value::Double(f64::from_bits(word)),
            Type::Timestamp => Value::Timestamp(signed),
            Type::TimestampTz => Value::TimestampTz(signed),
            _ => Value::Unsigned(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float32Array, Int16Array, StringArray, TimestampSecondArray};

    use super::*;
    use venturi_base::spec::Upsert;

    #[test]
    fn values_as_they_are_bound() {
        let all: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int16Array::from(vec![-2, 300]))),
            ("b", Arc::new(StringArray::from(vec![None, Some("x")]))),
            ("c", Arc::new(Float32Array::from(vec![0.5, -1.0]))),
            ("d", Arc::new(TimestampSecondArray::from(vec![-1, 2]))),
        ];
        let rows = RecordBatch::try_from_iter(all).unwrap();
        let key = vec!["a".into()];
        let add = Vec::new();
        let table = Table::new("t", rows.schema(), &Upsert { key, add }).unwrap();
        let made = columns(&table, &rows).unwrap();
        let row = |row| made.iter().map(move |column| column.value(row));
        assert!(row(0).eq([
            Value::Integer(-2),
            Value::Null,
            Value::Double(0.5),
            Value::Timestamp(-1_000_000),
        ]));
        assert!(row(1).eq([
            Value::Integer(300),
            Value::Text(b"x"),
            Value::Double(-1.0),
            Value::Timestamp(2_000_000),
        ]));
    }
}
