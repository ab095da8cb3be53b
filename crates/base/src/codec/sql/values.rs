//! One column's values, looked up once a batch: what remains a value is a jump.

use arrow_array::cast::AsArray;
use arrow_array::{types, Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray};
use arrow_array::{FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray};
use arrow_array::{StringArray, StringViewArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};
use arrow_select::take::take;

use crate::error::{Error, Kind, Result};

#[derive(Debug)]
pub enum Values {
    Boolean(BooleanArray),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    FixedBinary(FixedSizeBinaryArray),
    /// Days since 1970-01-01.
    Date(ScalarBuffer<i64>),
    /// Since midnight.
    Time(ScalarBuffer<i64>, TimeUnit),
    /// Since 1970-01-01 00:00:00; whether it is an instant (with a zone) or a clock's face.
    Timestamp(ScalarBuffer<i64>, TimeUnit, bool),
    Decimal(ArrayRef),
}

impl Values {
    /// `name` is the column's, for the message where its type is none of these.
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self> {
        macro_rules! values {
            ($kind:ident) => {
                array.as_primitive::<types::$kind>().values()
            };
        }
        Ok(match array.data_type() {
            DataType::Boolean => Values::Boolean(array.as_boolean().clone()),
            DataType::Int8 => Values::Int8(values!(Int8Type).clone()),
            DataType::Int16 => Values::Int16(values!(Int16Type).clone()),
            DataType::Int32 => Values::Int32(values!(Int32Type).clone()),
            DataType::Int64 => Values::Int64(values!(Int64Type).clone()),
            DataType::UInt8 => Values::UInt8(values!(UInt8Type).clone()),
            DataType::UInt16 => Values::UInt16(values!(UInt16Type).clone()),
            DataType::UInt32 => Values::UInt32(values!(UInt32Type).clone()),
            DataType::UInt64 => Values::UInt64(values!(UInt64Type).clone()),
            DataType::Float16 => {
                Values::Float32(values!(Float16Type).iter().map(|&v| v.into()).collect())
            }
            DataType::Float32 => Values::Float32(values!(Float32Type).clone()),
            DataType::Float64 => Values::Float64(values!(Float64Type).clone()),
            DataType::Utf8 => Values::Utf8(array.as_string().clone()),
            DataType::LargeUtf8 => Values::LargeUtf8(array.as_string().clone()),
            DataType::Utf8View => Values::Utf8View(array.as_string_view().clone()),
            DataType::Binary => Values::Binary(array.as_binary().clone()),
            DataType::LargeBinary => Values::LargeBinary(array.as_binary().clone()),
            DataType::BinaryView => Values::BinaryView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => {
                Values::FixedBinary(array.as_fixed_size_binary().clone())
            }
            DataType::Date32 => {
                Values::Date(values!(Date32Type).iter().map(|&v| v.into()).collect())
            }
            DataType::Date64 => Values::Date(
                values!(Date64Type)
                    .iter()
                    .map(|&v| v.div_euclid(86_400_000))
                    .collect(),
            ),
            DataType::Time32(TimeUnit::Second) => Values::Time(
                values!(Time32SecondType).iter().map(|&v| v.into()).collect(),
                TimeUnit::Second,
            ),
            DataType::Time32(unit) => Values::Time(
                values!(Time32MillisecondType)
                    .iter()
                    .map(|&v| v.into())
                    .collect(),
                *unit,
            ),
            DataType::Time64(TimeUnit::Microsecond) => Values::Time(
                values!(Time64MicrosecondType).clone(),
                TimeUnit::Microsecond,
            ),
            DataType::Time64(unit) => {
                Values::Time(values!(Time64NanosecondType).clone(), *unit)
            }
            DataType::Timestamp(unit, zone) => {
                let values = match unit {
                    TimeUnit::Second => values!(TimestampSecondType),
                    TimeUnit::Millisecond => values!(TimestampMillisecondType),
                    TimeUnit::Microsecond => values!(TimestampMicrosecondType),
                    TimeUnit::Nanosecond => values!(TimestampNanosecondType),
                };
                Values::Timestamp(values.clone(), *unit, zone.is_some())
            }
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Values::Decimal(array.clone()),
            other => {
                return Err(Error::usage(format!(
                    "column {name:?} is {other}, which cannot be written as SQL: cast it, or leave it out"
                )))
            }
        })
    }
}

/// A column with its dictionary resolved, so that its nulls are the keys' and the values'.
pub fn resolved(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let taken = take(dictionary.values(), dictionary.keys(), None);
            taken.map_err(|error| Error::new(Kind::Internal, format!("dictionary: {error}")))
        }
        _ => Ok(array.clone()),
    }
}

/// A decimal's digits, as its type writes them.
pub fn decimal(array: &ArrayRef, row: usize) -> String {
    match array.data_type() {
        DataType::Decimal32(..) => array
            .as_primitive::<types::Decimal32Type>()
            .value_as_string(row),
        DataType::Decimal64(..) => array
            .as_primitive::<types::Decimal64Type>()
            .value_as_string(row),
        DataType::Decimal128(..) => array
            .as_primitive::<types::Decimal128Type>()
            .value_as_string(row),
        _ => array
            .as_primitive::<types::Decimal256Type>()
            .value_as_string(row),
    }
}
