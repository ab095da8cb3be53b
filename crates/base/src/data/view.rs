//! One column as its values: its Arrow type is looked up once a batch, so a value costs no more than
//! one match.

use std::fmt::Display;

use arrow_array::cast::AsArray;
use arrow_array::{types, Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray};
use arrow_array::{FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray};
use arrow_array::{StringArray, StringViewArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::take::take;

use crate::error::{Error, Kind, Result};

/// A column of a batch. A clone copies no values.
#[derive(Debug, Clone)]
pub struct View {
    pub name: String,
    pub values: Values,
    nulls: Option<NullBuffer>,
}

#[derive(Debug, Clone)]
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
    Text(Text),
    Bytes(Bytes),
    /// Days since 1970-01-01.
    Date(ScalarBuffer<i64>),
    /// Since midnight.
    Time(ScalarBuffer<i64>, TimeUnit),
    /// Since 1970-01-01 00:00:00; whether it is an instant (with a zone) or a clock's face.
    Timestamp(ScalarBuffer<i64>, TimeUnit, bool),
    Decimal(ArrayRef),
}

#[derive(Debug, Clone)]
pub enum Text {
    Small(StringArray),
    Large(LargeStringArray),
    View(StringViewArray),
}

impl Text {
    #[inline]
    pub fn value(&self, row: usize) -> &str {
        match self {
            Text::Small(values) => values.value(row),
            Text::Large(values) => values.value(row),
            Text::View(values) => values.value(row),
        }
    }
}

#[derive(Debug, Clone)]
pub enum Bytes {
    Small(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
}

impl Bytes {
    #[inline]
    pub fn value(&self, row: usize) -> &[u8] {
        match self {
            Bytes::Small(values) => values.value(row),
            Bytes::Large(values) => values.value(row),
            Bytes::View(values) => values.value(row),
            Bytes::Fixed(values) => values.value(row),
        }
    }
}

impl View {
    /// Of a dictionary the values that its keys name. Fails where the type is none of `Values`.
    pub fn of(name: &str, array: &ArrayRef) -> Result<Self> {
        let array = resolved(array)?;
        Ok(Self {
            name: name.to_owned(),
            values: Values::of(name, &array)?,
            nulls: array.logical_nulls().filter(|nulls| nulls.null_count() > 0),
        })
    }

    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// `None` where no row is null.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// A time in microseconds, for a database that keeps no more. One with a finer part is refused:
    /// what is read back must be what was sent.
    pub fn micros(&self, value: i64, unit: TimeUnit, keeper: &str) -> Result<i64> {
        let micros = match unit {
            TimeUnit::Second => value.checked_mul(1_000_000),
            TimeUnit::Millisecond => value.checked_mul(1000),
            TimeUnit::Microsecond => Some(value),
            TimeUnit::Nanosecond if value % 1000 == 0 => Some(value / 1000),
            TimeUnit::Nanosecond => {
                let part = value.rem_euclid(1000);
                return Err(self.refused(
                    format_args!("a time with {part} ns"),
                    format_args!("{keeper} keeps microseconds"),
                ));
            }
        };
        micros.ok_or_else(|| {
            let why = format_args!("{keeper} has no time so far from 1970");
            self.refused(value, why)
        })
    }

    /// A user's value that its column in the database cannot hold.
    pub fn refused(&self, value: impl Display, why: impl Display) -> Error {
        Error::usage(format!(
            "column {:?} holds {value}, but {why}: change the value or leave the column out",
            self.name
        ))
    }
}

impl Values {
    fn of(name: &str, array: &ArrayRef) -> Result<Self> {
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
            DataType::Utf8 => Values::Text(Text::Small(array.as_string().clone())),
            DataType::LargeUtf8 => Values::Text(Text::Large(array.as_string().clone())),
            DataType::Utf8View => Values::Text(Text::View(array.as_string_view().clone())),
            DataType::Binary => Values::Bytes(Bytes::Small(array.as_binary().clone())),
            DataType::LargeBinary => Values::Bytes(Bytes::Large(array.as_binary().clone())),
            DataType::BinaryView => Values::Bytes(Bytes::View(array.as_binary_view().clone())),
            DataType::FixedSizeBinary(_) => {
                Values::Bytes(Bytes::Fixed(array.as_fixed_size_binary().clone()))
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
                    "column {name:?} is {other}, which databases have no type for: cast it, or leave it out"
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{DictionaryArray, Int32Array, Int8Array, StringArray, TimestampSecondArray};

    use super::*;

    fn dictionary(keys: Vec<Option<i8>>, values: ArrayRef) -> ArrayRef {
        let keys = Int8Array::from(keys);
        Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).unwrap())
    }

    #[test]
    fn a_dictionary_is_its_values_and_both_its_nulls() {
        let texts = StringArray::from(vec![Some("a"), None, Some("c")]);
        let keys = vec![Some(2), None, Some(1), Some(0), Some(2)];
        let column = dictionary(keys, Arc::new(texts)).slice(1, 4);
        let view = View::of("d", &column).unwrap();
        let Values::Text(texts) = &view.values else {
            panic!("{view:?}");
        };
        let rows: Vec<_> = (0..4)
            .map(|row| (!view.is_null(row)).then(|| texts.value(row)))
            .collect();
        assert_eq!(rows, [None, None, Some("a"), Some("c")]);
        let seconds = TimestampSecondArray::from(vec![7, -1]);
        let column = dictionary(vec![Some(1), Some(0)], Arc::new(seconds));
        let view = View::of("d", &column).unwrap();
        let Values::Timestamp(values, TimeUnit::Second, false) = &view.values else {
            panic!("{view:?}");
        };
        assert_eq!(values[..], [-1, 7]);
    }

    #[test]
    fn what_is_no_whole_microsecond_is_refused() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![0]));
        let view = View::of("t", &column).unwrap();
        let micros = |value, unit| view.micros(value, unit, "X").map_err(|error| error.message);
        assert_eq!(micros(-2, TimeUnit::Second), Ok(-2_000_000));
        assert_eq!(micros(-3000, TimeUnit::Nanosecond), Ok(-3));
        let said = micros(-1, TimeUnit::Nanosecond).unwrap_err();
        assert!(
            said.contains("a time with 999 ns, but X keeps microseconds"),
            "{said}"
        );
        let said = micros(i64::MAX, TimeUnit::Millisecond).unwrap_err();
        assert!(said.contains("so far from 1970"), "{said}");
    }
}
