//! Sums over columns by which two ends are compared, the same on the server and here: whole
//! numbers modulo 2^64, strings by their bytes.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Int16Type, Int32Type, Int64Type, Int8Type, UInt16Type, UInt32Type, UInt64Type,
    UInt8Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;

use super::Baseline;
use crate::{Sums, MAX_SUMS};
use venturi_base::error::{Error, Kind, Result};

/// Digits of a decimal whose sum can be asked for in units of its last place: of more the sum may pass 128 bits.
pub const SUMMED_DIGITS: u8 = 30;

/// Columns that a note names.
const SHOWN: usize = 5;

/// The columns that are summed up, by their place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summed {
    pub columns: Vec<(usize, String)>,
    /// As the server is asked for them.
    expressions: Vec<String>,
    /// All others, by their names.
    others: Vec<String>,
}

impl Summed {
    /// The first columns that can be: those with an expression.
    pub fn new(columns: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        let mut found = Self::default();
        for (place, (name, expression)) in columns.into_iter().enumerate() {
            match expression {
                Some(expression) if found.columns.len() < MAX_SUMS => {
                    found.columns.push((place, name));
                    found.expressions.push(expression);
                }
                _ => found.others.push(name),
            }
        }
        found
    }

    /// Which columns have no sum, if any.
    pub fn note(&self) -> Option<String> {
        let (first, more) = self.others.split_at(self.others.len().min(SHOWN));
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!first.is_empty()).then(|| format!("not summed: {}{more}", first.join(", ")))
    }

    /// What is asked for of the rows: their count and the sums.
    pub fn selected(&self) -> String {
        let mut asked = vec!["count(*)".to_owned()];
        asked.extend(self.expressions.iter().cloned());
        asked.join(", ")
    }

    /// What the answer's first row says: rows, and the sums modulo 2^64.
    pub fn found<'a>(
        &self,
        fields: impl IntoIterator<Item = Option<&'a str>>,
    ) -> Option<(u64, Sums)> {
        let mut fields = fields.into_iter();
        let rows = fields.next()??.parse().ok()?;
        let mut sums = Sums::default();
        for sum in sums.iter_mut().take(self.columns.len()) {
            // Null: of no rows, or of nulls only.
            *sum = fields.next()?.map_or(Some(0), number)?;
        }
        Some((rows, sums))
    }

    /// The same of a whole row; `address` and `question`: for the error where it says something else.
    pub fn read_baseline(
        &self,
        row: &[Option<String>],
        address: &str,
        question: &str,
    ) -> Result<Baseline> {
        let found = self.found(row.iter().map(Option::as_deref));
        let (rows, sums) = found.ok_or_else(|| {
            let line = format!("{address}: no count and sums, but {row:?}: {question}");
            Error::new(Kind::Protocol, line)
        })?;
        Ok(Baseline {
            rows,
            sums,
            checksum: None,
        })
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

/// An integer modulo 2^64; where a database cannot add up 64 bits, the sum of the upper 32 bits and, behind a
/// comma, that of the lower ones.
fn number(text: &str) -> Option<i128> {
    let (upper, lower) = text.split_once(',').unwrap_or(("0", text));
    let upper: i128 = upper.parse().ok()?;
    let lower: i128 = lower.parse().ok()?;
    Some(wrapped(wrapped(upper).wrapping_shl(32).wrapping_add(lower)))
}

/// Modulo 2^64.
pub fn wrapped(value: i128) -> i128 {
    i128::from(value as u64)
}

fn sum_of(array: &ArrayRef) -> Option<u64> {
    Some(match array.data_type() {
        DataType::Int8 => sum_values::<Int8Type>(array, |value| value as u64),
        DataType::Int16 => sum_values::<Int16Type>(array, |value| value as u64),
        DataType::Int32 => sum_values::<Int32Type>(array, |value| value as u64),
        DataType::Int64 => sum_values::<Int64Type>(array, |value| value as u64),
        DataType::UInt8 => sum_values::<UInt8Type>(array, u64::from),
        DataType::UInt16 => sum_values::<UInt16Type>(array, u64::from),
        DataType::UInt32 => sum_values::<UInt32Type>(array, u64::from),
        DataType::UInt64 => sum_values::<UInt64Type>(array, |value| value),
        DataType::Decimal128(..) => sum_values::<Decimal128Type>(array, |value| value as u64),
        DataType::Boolean => array.as_boolean().true_count() as u64,
        DataType::Utf8 => bytes(array, array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => bytes(array, array.as_string::<i64>().value_offsets()),
        DataType::Binary => bytes(array, array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => bytes(array, array.as_binary::<i64>().value_offsets()),
        _ => return None,
    })
}

fn sum_values<T: ArrowPrimitiveType>(array: &ArrayRef, widen: impl Fn(T::Native) -> u64) -> u64 {
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

    use arrow_array::{Decimal128Array, Int8Array, StringArray, UInt64Array};

    use super::*;

    #[test]
    fn sums() {
        let columns = [
            ("a", Some("sum(a)")),
            ("f", None),
            ("b", Some("sum(b)")),
            ("s", Some("sum(length(s))")),
            ("d", Some("sum(d)")),
        ];
        let columns = columns.map(|(name, sum)| (name.to_owned(), sum.map(str::to_owned)));
        let summed = Summed::new(columns);
        assert_eq!(
            summed.selected(),
            "count(*), sum(a), sum(b), sum(length(s)), sum(d)"
        );
        assert_eq!(summed.note().as_deref(), Some("not summed: f"));
        let many = Summed::new((0..20).map(|n| (format!("c{n}"), Some(String::new()))));
        assert_eq!(
            many.note().as_deref(),
            Some("not summed: c8, c9, c10, c11, c12 and 7 more")
        );
        let decimals = Decimal128Array::from(vec![Some(1i128 << 64), Some(-2)]);
        let arrays: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int8Array::from(vec![Some(-3), None]))),
            ("f", Arc::new(Int8Array::from(vec![0, 0]))),
            ("b", Arc::new(UInt64Array::from(vec![u64::MAX, 3]))),
            ("s", Arc::new(StringArray::from(vec![Some("abc"), None]))),
            ("d", Arc::new(decimals)),
        ];
        let batch = RecordBatch::try_from_iter(arrays).unwrap();
        let here = summed.of(&batch).unwrap();
        let found = |fields: [&'static str; 5]| summed.found(fields.map(Some));
        assert_eq!(found(["2", "-3", "2", "3", "-2"]), Some((2, here)));
        // As one number, or by halves.
        assert_eq!(
            found(["2", "-3", "0,2", "3", "18446744073709551614"]),
            Some((2, here))
        );
        assert_eq!(
            found(["2", "-1,4294967293", "18446744073709551618", "3", "-2"]),
            Some((2, here))
        );
        let none = [Some("0"), None, Some("0"), None, None];
        assert_eq!(summed.found(none).unwrap().1, Sums::default());
        assert_eq!(found(["Code: 1", "", "", "", ""]), None);
    }
}
