//! Sums over columns by which two ends are compared, the same on the server and here: whole
//! numbers modulo 2^64, strings by their bytes.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int16Type, Int32Type, Int64Type, Int8Type, UInt16Type, UInt32Type, UInt64Type, UInt8Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;

use super::server::quoted;
use crate::{Sums, MAX_SUMS};
use venturi_base::codec::clickhouse::{Column, Type};

/// The columns that are summed up, by their place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summed {
    pub columns: Vec<(usize, String)>,
    /// As the server is asked for them.
    expressions: Vec<String>,
}

impl Summed {
    /// The first columns that can be.
    pub fn new(columns: &[Column]) -> Self {
        let mut found = Self::default();
        for (place, column) in columns.iter().enumerate() {
            let name = quoted(&column.name);
            let expression = match column.kind.plain() {
                Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 => {
                    format!("sum(toInt64({name}))")
                }
                Type::UInt8 | Type::UInt16 | Type::UInt32 | Type::UInt64 => {
                    format!("sum(toUInt64({name}))")
                }
                Type::String => format!("sum(length({name}))"),
                _ => continue,
            };
            if found.columns.len() < MAX_SUMS {
                found.columns.push((place, column.name.clone()));
                found.expressions.push(expression);
            }
        }
        found
    }

    /// What the server is asked for: the count and the sums of what is selected `from`.
    pub fn question(&self, from: &str) -> String {
        let mut asked = vec!["count()".to_owned()];
        asked.extend(self.expressions.iter().cloned());
        format!(
            "SELECT {} FROM {from} FORMAT TabSeparated",
            asked.join(", ")
        )
    }

    /// What it answered: rows, and the sums modulo 2^64.
    pub fn answer(&self, text: &str) -> Option<(u64, Sums)> {
        let mut fields = text.trim_end_matches('\n').split('\t');
        let rows = fields.next()?.parse().ok()?;
        let mut sums = Sums::default();
        for sum in sums.iter_mut().take(self.columns.len()) {
            let field = fields.next()?;
            let value: i128 = match field {
                // Of no rows, or of nulls only.
                "\\N" | "" => 0,
                number => number.parse().ok()?,
            };
            *sum = wrapped(value);
        }
        Some((rows, sums))
    }

    /// Of a batch; `None`: a column is of another type here than on the server.
    pub fn of(&self, batch: &RecordBatch) -> Option<Sums> {
        let mut sums = Sums::default();
        for (sum, (place, _)) in sums.iter_mut().zip(&self.columns) {
            *sum = i128::from(sum_of(batch.columns().get(*place)?)?);
        }
        Some(sums)
    }
}

/// Modulo 2^64.
pub fn wrapped(value: i128) -> i128 {
    i128::from(value as u64)
}

fn sum_of(array: &ArrayRef) -> Option<u64> {
    Some(match array.data_type() {
        DataType::Int8 => whole::<Int8Type>(array, |value| value as u64),
        DataType::Int16 => whole::<Int16Type>(array, |value| value as u64),
        DataType::Int32 => whole::<Int32Type>(array, |value| value as u64),
        DataType::Int64 => whole::<Int64Type>(array, |value| value as u64),
        DataType::UInt8 => whole::<UInt8Type>(array, u64::from),
        DataType::UInt16 => whole::<UInt16Type>(array, u64::from),
        DataType::UInt32 => whole::<UInt32Type>(array, u64::from),
        DataType::UInt64 => whole::<UInt64Type>(array, |value| value),
        DataType::Boolean => array.as_boolean().true_count() as u64,
        DataType::Utf8 => bytes(array, array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => bytes(array, array.as_string::<i64>().value_offsets()),
        DataType::Binary => bytes(array, array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => bytes(array, array.as_binary::<i64>().value_offsets()),
        _ => return None,
    })
}

fn whole<T: ArrowPrimitiveType>(array: &ArrayRef, widen: impl Fn(T::Native) -> u64) -> u64 {
    let array = array.as_primitive::<T>();
    let add = |sum: u64, value: T::Native| sum.wrapping_add(widen(value));
    match array.null_count() {
        0 => array.values().iter().copied().fold(0, add),
        _ => array.iter().flatten().fold(0, add),
    }
}

fn bytes<O: ArrowNativeType>(array: &ArrayRef, offsets: &[O]) -> u64 {
    let at = |row: usize| offsets[row].as_usize() as u64;
    match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            nulls.valid_indices().map(|row| at(row + 1) - at(row)).sum()
        }
        _ if offsets.is_empty() => 0,
        _ => at(array.len()) - at(0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int8Array, StringArray, UInt64Array};

    use super::*;

    #[test]
    fn sums() {
        let column = |name: &str, kind: &str| Column {
            name: name.into(),
            kind: Type::parse(kind).unwrap(),
        };
        let columns = [
            column("a", "Nullable(Int8)"),
            column("f", "Float64"),
            column("b`c", "UInt64"),
            column("s", "LowCardinality(String)"),
        ];
        let summed = Summed::new(&columns);
        assert_eq!(
            summed.question("t"),
            "SELECT count(), sum(toInt64(`a`)), sum(toUInt64(`b\\`c`)), sum(length(`s`)) FROM t FORMAT TabSeparated"
        );
        let arrays: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int8Array::from(vec![Some(-3), None]))),
            ("f", Arc::new(Int8Array::from(vec![0, 0]))),
            ("b", Arc::new(UInt64Array::from(vec![u64::MAX, 3]))),
            ("s", Arc::new(StringArray::from(vec![Some("abc"), None]))),
        ];
        let batch = RecordBatch::try_from_iter(arrays).unwrap();
        let here = summed.of(&batch).unwrap();
        assert_eq!(summed.answer("2\t-3\t2\t3\n"), Some((2, here)));
        assert_eq!(summed.answer("0\t\\N\t0\t0\n").unwrap().1, Sums::default());
        assert_eq!(summed.answer("Code: 1"), None);
    }
}
