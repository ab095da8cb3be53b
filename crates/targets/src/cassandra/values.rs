//! Arrow columns as CQL: their types, their values as the protocol's bytes and as literals.

use std::io::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::{types, Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::take::take;

use venturi_base::error::{Error, Result};

/// The CQL type that keeps every value of an Arrow type; `None`: there is none.
pub fn cql_type(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 => "tinyint",
        DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "int",
        // CQL has no unsigned integers; larger values of uint64 are refused one by one.
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => "bigint",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Utf8 | DataType::LargeUtf8 => "text",
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => "blob",
        DataType::Date32 => "date",
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _) => "timestamp",
        // CQL's timestamp counts milliseconds: finer ones would make one key of two.
        DataType::Timestamp(_, _) => "bigint",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Decimal128(_, _) => "decimal",
        DataType::Dictionary(_, value) => cql_type(value)?,
        _ => return None,
    })
}

/// A column of a batch, ready to be read value by value.
pub struct Column {
    array: ArrayRef,
    name: String,
}

impl Column {
    pub fn new(rows: &RecordBatch, at: usize) -> Result<Self> {
        let array = rows.column(at);
        Ok(Self {
            array: match array.as_any_dictionary_opt() {
                Some(dictionary) => take(dictionary.values(), dictionary.keys(), None)?,
                None => array.clone(),
            },
            name: rows.schema().field(at).name().clone(),
        })
    }

    /// Appends `[int] length, bytes` of each row's value to `cells`, this column's after those of
    /// the columns before; `null`: what stands for a null.
    pub fn encode(&self, row: usize, null: Null, cells: &mut Vec<u8>) -> Result<()> {
        macro_rules! number {
            ($kind:ty, $as:ty) => {
                value(
                    cells,
                    &<$as>::from(self.array.as_primitive::<$kind>().value(row)).to_be_bytes(),
                )
            };
        }
        if self.array.is_null(row) {
            match null {
                Null::Null => cells.extend_from_slice(&(-1i32).to_be_bytes()),
                Null::Zero => value(cells, &0i64.to_be_bytes()),
            }
            return Ok(());
        }
        if null == Null::Zero {
            // A counter is added to by a bigint, whatever the width of the column.
            value(cells, &self.integer(row)?.to_be_bytes());
            return Ok(());
        }
        match self.array.data_type() {
            DataType::Boolean => value(cells, &[self.array.as_boolean().value(row).into()]),
            DataType::Int8 => number!(types::Int8Type, i8),
            DataType::Int16 => number!(types::Int16Type, i16),
            DataType::UInt8 => number!(types::UInt8Type, i16),
            DataType::Int32 => number!(types::Int32Type, i32),
            DataType::UInt16 => number!(types::UInt16Type, i32),
            DataType::Float32 => number!(types::Float32Type, f32),
            DataType::Float64 => number!(types::Float64Type, f64),
            DataType::Utf8 => value(cells, self.array.as_string::<i32>().value(row).as_bytes()),
            DataType::LargeUtf8 => {
                value(cells, self.array.as_string::<i64>().value(row).as_bytes());
            }
            DataType::Binary => value(cells, self.array.as_binary::<i32>().value(row)),
            DataType::LargeBinary => value(cells, self.array.as_binary::<i64>().value(row)),
            DataType::FixedSizeBinary(_) => {
                value(cells, self.array.as_fixed_size_binary().value(row));
            }
            DataType::Date32 => {
                let days = self.array.as_primitive::<types::Date32Type>().value(row);
                // Unsigned, with 1970-01-01 in the middle.
                value(cells, &((days as u32) ^ (1 << 31)).to_be_bytes());
            }
            DataType::Decimal128(_, scale) => {
                let unscaled = self
                    .array
                    .as_primitive::<types::Decimal128Type>()
                    .value(row);
                let mut whole = [0; 20];
                whole[4..].copy_from_slice(&unscaled.to_be_bytes());
                // As short as the number allows, as everybody writes it: keys are compared by bytes.
                let spare = match unscaled < 0 {
                    true => unscaled.leading_ones(),
                    false => unscaled.leading_zeros(),
                };
                let from = (spare.saturating_sub(1) / 8) as usize;
                whole[from..from + 4].copy_from_slice(&i32::from(*scale).to_be_bytes());
                value(cells, &whole[from..]);
            }
            _ => value(cells, &self.integer(row)?.to_be_bytes()),
        }
        Ok(())
    }

    /// Appends each row's value as a CQL literal.
    pub fn literal(&self, row: usize, null: Null, text: &mut Vec<u8>) -> Result<()> {
        if self.array.is_null(row) {
            text.extend_from_slice(match null {
                Null::Null => b"null",
                Null::Zero => b"0",
            });
            return Ok(());
        }
        // Writing to memory does not fail.
        macro_rules! shown {
            ($($what:tt)*) => {{ let _ = write!(text, $($what)*); }};
        }
        macro_rules! float {
            ($kind:ty) => {{
                let number = self.array.as_primitive::<$kind>().value(row);
                match number.is_finite() {
                    true => shown!("{number:?}"),
                    false if number.is_nan() => shown!("NaN"),
                    false if number > 0.0 => shown!("Infinity"),
                    false => shown!("-Infinity"),
                }
            }};
        }
        match self.array.data_type() {
            DataType::Boolean => shown!("{}", self.array.as_boolean().value(row)),
            DataType::Float32 => float!(types::Float32Type),
            DataType::Float64 => float!(types::Float64Type),
            DataType::Utf8 => quoted(self.array.as_string::<i32>().value(row), text),
            DataType::LargeUtf8 => quoted(self.array.as_string::<i64>().value(row), text),
            DataType::Binary => blob(self.array.as_binary::<i32>().value(row), text),
            DataType::LargeBinary => blob(self.array.as_binary::<i64>().value(row), text),
            DataType::FixedSizeBinary(_) => {
                blob(self.array.as_fixed_size_binary().value(row), text);
            }
            // As a number it is what the protocol's bytes are.
            DataType::Date32 => {
                let days = self.array.as_primitive::<types::Date32Type>().value(row);
                shown!("{}", (days as u32) ^ (1 << 31));
            }
            DataType::Decimal128(_, _) => {
                let decimal = self.array.as_primitive::<types::Decimal128Type>();
                shown!("{}", decimal.value_as_string(row));
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                let ns = self.integer(row)?;
                let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
                let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
                shown!("'{hours:02}:{minutes:02}:{:02}.{ns:09}'", seconds % 60);
            }
            _ => shown!("{}", self.integer(row)?),
        }
        Ok(())
    }

    /// A value of an integer, or of a time in the unit that CQL counts it in.
    fn integer(&self, row: usize) -> Result<i64> {
        macro_rules! number {
            ($kind:ty) => {
                self.array.as_primitive::<$kind>().value(row)
            };
        }
        let beyond = |number: &dyn std::fmt::Display| {
            Error::usage(format!(
                "column {:?}: {number} is beyond what CQL's bigint and counter keep (2^63 - 1)",
                self.name
            ))
        };
        let times = |number: i64, by: i64| number.checked_mul(by).ok_or_else(|| beyond(&number));
        Ok(match self.array.data_type() {
            DataType::Int8 => number!(types::Int8Type).into(),
            DataType::Int16 => number!(types::Int16Type).into(),
            DataType::Int32 => number!(types::Int32Type).into(),
            DataType::Int64 => number!(types::Int64Type),
            DataType::UInt8 => number!(types::UInt8Type).into(),
            DataType::UInt16 => number!(types::UInt16Type).into(),
            DataType::UInt32 => number!(types::UInt32Type).into(),
            DataType::UInt64 => {
                let number = number!(types::UInt64Type);
                i64::try_from(number).map_err(|_| beyond(&number))?
            }
            DataType::Timestamp(unit, _) => match unit {
                TimeUnit::Second => times(number!(types::TimestampSecondType), 1000)?,
                TimeUnit::Millisecond => number!(types::TimestampMillisecondType),
                TimeUnit::Microsecond => number!(types::TimestampMicrosecondType),
                TimeUnit::Nanosecond => number!(types::TimestampNanosecondType),
            },
            DataType::Time32(TimeUnit::Second) => {
                times(number!(types::Time32SecondType).into(), 1_000_000_000)?
            }
            DataType::Time32(_) => times(number!(types::Time32MillisecondType).into(), 1_000_000)?,
            DataType::Time64(TimeUnit::Microsecond) => {
                times(number!(types::Time64MicrosecondType), 1000)?
            }
            DataType::Time64(_) => number!(types::Time64NanosecondType),
            other => {
                return Err(Error::usage(format!(
                    "column {:?}: CQL has no type for Arrow's {other}",
                    self.name
                )))
            }
        })
    }
}

/// What a null becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Null {
    Null,
    /// A counter that nothing is added to.
    Zero,
}

fn value(cells: &mut Vec<u8>, bytes: &[u8]) {
    // Arrow's own offsets and the batch's bounds keep it below 2 GiB.
    cells.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    cells.extend_from_slice(bytes);
}

fn quoted(value: &str, text: &mut Vec<u8>) {
    text.push(b'\'');
    for part in value.split_inclusive('\'') {
        text.extend_from_slice(part.as_bytes());
        if part.ends_with('\'') {
            text.push(b'\'');
        }
    }
    text.push(b'\'');
}

fn blob(value: &[u8], text: &mut Vec<u8>) {
    text.extend_from_slice(b"0x");
    for byte in value {
        let _ = write!(text, "{byte:02x}");
    }
}
