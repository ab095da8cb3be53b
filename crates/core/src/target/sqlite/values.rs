//! Columns of a batch as the four kinds of values that SQLite knows.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::{types, Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::Statement;

use crate::error::{Error, Result};

/// A batch by columns.
#[derive(Debug)]
pub struct Columns {
    pub rows: usize,
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    values: Values,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum Values {
    Integer(Vec<i64>),
    Real(Vec<f64>),
    /// One after the other, and where each ends.
    Text(String, Vec<usize>),
    Blob(Vec<u8>, Vec<usize>),
}

/// What a column is called in CREATE TABLE; `None`: it has no place in SQLite.
pub fn type_name(kind: &DataType) -> Option<&'static str> {
    use DataType::*;
    Some(match kind {
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => "INTEGER",
        Float32 | Float64 => "REAL",
        // Times as CURRENT_TIMESTAMP has them, decimals to the last digit.
        Utf8 | LargeUtf8 | Utf8View | Date32 | Timestamp(..) | Decimal128(..) => "TEXT",
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "BLOB",
        _ => return None,
    })
}

impl Columns {
    pub fn of(rows: &RecordBatch) -> Result<Self> {
        let columns = rows.schema_ref().fields().iter().zip(rows.columns());
        let columns = columns.map(|(field, array)| {
            let values = convert(array).map_err(|what| {
                Error::usage(format!(
                    "column {:?} ({}): {what}",
                    field.name(),
                    field.data_type()
                ))
            })?;
            let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
            Ok(Column {
                values,
                nulls: nulls.cloned(),
            })
        });
        Ok(Self {
            rows: rows.num_rows(),
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// Bytes in memory, about.
    pub fn size(&self) -> usize {
        let size = |column: &Column| match &column.values {
            Values::Integer(values) => 8 * values.len(),
            Values::Real(values) => 8 * values.len(),
            Values::Text(text, ends) => text.len() + 8 * ends.len(),
            Values::Blob(bytes, ends) => bytes.len() + 8 * ends.len(),
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

    /// Writes one row as `(1,'two',NULL)`.
    pub fn write(&self, row: usize, text: &mut String) {
        for (at, column) in self.columns.iter().enumerate() {
            text.push(if at == 0 { '(' } else { ',' });
            // A String takes all that is written to it.
            let _ = match column.get(row) {
                ValueRef::Null => text.write_str("NULL"),
                ValueRef::Integer(value) => write!(text, "{value}"),
                ValueRef::Real(value) if value.is_finite() => write!(text, "{value:?}"),
                // SQLite reads a number beyond its range as infinity, and NaN as NULL.
                ValueRef::Real(value) if value == f64::INFINITY => text.write_str("9e999"),
                ValueRef::Real(value) if value == f64::NEG_INFINITY => text.write_str("-9e999"),
                ValueRef::Real(_) => text.write_str("NULL"),
                ValueRef::Text(bytes) => {
                    let plain = String::from_utf8_lossy(bytes).replace('\'', "''");
                    write!(text, "'{plain}'")
                }
                ValueRef::Blob(bytes) => {
                    text.push_str("X'");
                    let done = bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}"));
                    text.push('\'');
                    done
                }
            };
        }
        text.push(')');
    }
}

impl Column {
    fn get(&self, row: usize) -> ValueRef<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return ValueRef::Null;
        }
        let from = |ends: &[usize]| row.checked_sub(1).map_or(0, |before| ends[before]);
        match &self.values {
            Values::Integer(values) => ValueRef::Integer(values[row]),
            Values::Real(values) => ValueRef::Real(values[row]),
            Values::Text(text, ends) => ValueRef::Text(&text.as_bytes()[from(ends)..ends[row]]),
            Values::Blob(bytes, ends) => ValueRef::Blob(&bytes[from(ends)..ends[row]]),
        }
    }
}

/// `Err`: why not.
fn convert(array: &dyn Array) -> std::result::Result<Values, String> {
    use DataType::*;
    macro_rules! integers {
        ($kind:ty) => {
            Values::Integer(
                array
                    .as_primitive::<$kind>()
                    .values()
                    .iter()
                    .map(|value| i64::from(*value))
                    .collect(),
            )
        };
    }
    macro_rules! written {
        ($kind:ty, $write:expr) => {
            text(
                array.as_primitive::<$kind>().values().iter(),
                |value, to| $write(*value, to),
            )
        };
    }
    Ok(match array.data_type() {
        Boolean => Values::Integer(array.as_boolean().values().iter().map(i64::from).collect()),
        Int8 => integers!(types::Int8Type),
        Int16 => integers!(types::Int16Type),
        Int32 => integers!(types::Int32Type),
        Int64 => integers!(types::Int64Type),
        UInt8 => integers!(types::UInt8Type),
        UInt16 => integers!(types::UInt16Type),
        UInt32 => integers!(types::UInt32Type),
        UInt64 => unsigned(array)?,
        Float32 => {
            let values = array.as_primitive::<types::Float32Type>().values();
            Values::Real(values.iter().map(|value| f64::from(*value)).collect())
        }
        Float64 => Values::Real(array.as_primitive::<types::Float64Type>().values().to_vec()),
        Utf8 => strings(array.as_string::<i32>().iter()),
        LargeUtf8 => strings(array.as_string::<i64>().iter()),
        Utf8View => strings(array.as_string_view().iter()),
        Binary => blobs(array.as_binary::<i32>().iter()),
        LargeBinary => blobs(array.as_binary::<i64>().iter()),
        BinaryView => blobs(array.as_binary_view().iter()),
        FixedSizeBinary(_) => blobs(array.as_fixed_size_binary().iter()),
        Date32 => written!(types::Date32Type, |days: i32, to: &mut String| {
            date(i64::from(days), to)
        }),
        Timestamp(TimeUnit::Second, _) => {
            written!(types::TimestampSecondType, |at, to: &mut String| time(
                at, 0, to
            ))
        }
        Timestamp(TimeUnit::Millisecond, _) => {
            written!(types::TimestampMillisecondType, |at, to: &mut String| time(
                at, 3, to
            ))
        }
        Timestamp(TimeUnit::Microsecond, _) => {
            written!(types::TimestampMicrosecondType, |at, to: &mut String| time(
                at, 6, to
            ))
        }
        Timestamp(TimeUnit::Nanosecond, _) => {
            written!(types::TimestampNanosecondType, |at, to: &mut String| time(
                at, 9, to
            ))
        }
        Decimal128(..) => {
            let decimals = array.as_primitive::<types::Decimal128Type>();
            let all = (0..decimals.len()).map(|row| decimals.value_as_string(row));
            text(all, |value, to| to.push_str(&value))
        }
        _ => return Err("SQLite has no place for it; leave the column out".into()),
    })
}

/// SQLite's integers are signed.
fn unsigned(array: &dyn Array) -> std::result::Result<Values, String> {
    let array = array.as_primitive::<types::UInt64Type>();
    let values = array.iter().map(|value| {
        let value = value.unwrap_or(0);
        i64::try_from(value).map_err(|_| format!("{value} is more than SQLite's largest integer"))
    });
    values
        .collect::<std::result::Result<_, _>>()
        .map(Values::Integer)
}

fn text<T>(values: impl Iterator<Item = T>, write: impl Fn(T, &mut String)) -> Values {
    let mut all = String::new();
    let ends = values.map(|value| {
        write(value, &mut all);
        all.len()
    });
    let ends = ends.collect();
    Values::Text(all, ends)
}

fn strings<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Values {
    text(values, |value, to| to.push_str(value.unwrap_or_default()))
}

fn blobs<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Values {
    let mut all = Vec::new();
    let ends = values.map(|value| {
        all.extend_from_slice(value.unwrap_or_default());
        all.len()
    });
    let ends = ends.collect();
    Values::Blob(all, ends)
}

/// Days since 1970 as `2026-11-21`: Howard Hinnant's civil_from_days.
fn date(days: i64, to: &mut String) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (d, m) = (of_year - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let y = era * 400 + year + i64::from(m <= 2);
    let _ = write!(to, "{y:04}-{m:02}-{d:02}");
}

/// Units of 10^-`digits` s since 1970 as `2026-11-21 18:00:00.123`.
fn time(at: i64, digits: usize, to: &mut String) {
    let unit = 10i64.pow(digits as u32);
    let (seconds, fraction) = (at.div_euclid(unit), at.rem_euclid(unit));
    date(seconds.div_euclid(86_400), to);
    let second = seconds.rem_euclid(86_400);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    let _ = write!(to, " {h:02}:{m:02}:{s:02}");
    if digits > 0 {
        let _ = write!(to, ".{fraction:0digits$}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, Date32Array, Float64Array, StringArray};
    use arrow_array::{TimestampMillisecondArray, UInt64Array};

    use super::*;

    #[test]
    fn values_as_text() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(StringArray::from(vec![Some("it's"), None]))),
            (
                "b",
                Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..], b""])),
            ),
            ("c", Arc::new(Float64Array::from(vec![1e300, f64::NAN]))),
            ("d", Arc::new(Date32Array::from(vec![-1, 20_778]))),
            (
                "e",
                Arc::new(TimestampMillisecondArray::from(vec![-1, 951_782_400_000])),
            ),
        ];
        let columns = Columns::of(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        let mut text = String::new();
        columns.write(0, &mut text);
        columns.write(1, &mut text);
        assert_eq!(
            text,
            "('it''s',X'00ff',1e300,'1969-12-31','1969-12-31 23:59:59.999')\
             (NULL,X'',NULL,'2026-11-21','2000-02-29 00:00:00.000')"
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        let rows = RecordBatch::try_from_iter([("n", large)]).unwrap();
        let error = Columns::of(&rows).unwrap_err().message;
        assert!(
            error.contains("\"n\"") && error.contains("18446744073709551615"),
            "{error}"
        );
    }
}
