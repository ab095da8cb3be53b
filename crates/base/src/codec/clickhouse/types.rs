//! ClickHouse's types as it writes them, and what they are in Arrow.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::text::Parser;
use crate::error::{Error, Result};

/// A column of a table or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Type,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Bool,
    String,
    /// Of so many bytes.
    FixedString(usize),
    /// Days, 1970 to 2149.
    Date,
    /// Days, 1900 to 2299.
    Date32,
    /// Seconds, 1970 to 2106, shown in a time zone.
    DateTime(Option<Arc<str>>),
    /// So many digits behind the second, 0 to 9.
    DateTime64(u8, Option<Arc<str>>),
    /// Digits in all, of these behind the point.
    Decimal(u8, u8),
    Enum8(Arc<Names>),
    Enum16(Arc<Names>),
    Uuid,
    Nullable(Box<Type>),
    LowCardinality(Box<Type>),
}

/// What an enumeration calls its codes, in the order that ClickHouse gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names(pub Vec<(String, i16)>);

impl Names {
    pub fn name(&self, code: i16) -> Option<&str> {
        let found = self.0.iter().find(|(_, known)| *known == code);
        found.map(|(name, _)| name.as_str())
    }

    pub fn code(&self, name: &str) -> Option<i16> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, code)| *code)
    }
}

/// How a type's values lie in bytes, nulls apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// So many bytes each.
    Cells(usize),
    /// Each with its length before it.
    Strings,
}

impl Type {
    /// Reads a type as ClickHouse writes it: `Nullable(Decimal(9, 2))`.
    pub fn parse(text: &str) -> Result<Self> {
        Parser::new(text).parse_type()
    }

    /// The type without `Nullable` and `LowCardinality` around it.
    pub fn plain(&self) -> &Type {
        match self {
            Type::Nullable(inner) | Type::LowCardinality(inner) => inner.plain(),
            other => other,
        }
    }

    pub fn nullable(&self) -> bool {
        match self {
            Type::Nullable(_) => true,
            Type::LowCardinality(inner) => inner.nullable(),
            _ => false,
        }
    }

    /// How values that are not null lie in bytes.
    pub fn layout(&self) -> Layout {
        Layout::Cells(match self.plain() {
            Type::String | Type::Nullable(_) | Type::LowCardinality(_) => return Layout::Strings,
            Type::Int8 | Type::UInt8 | Type::Bool | Type::Enum8(_) => 1,
            Type::Int16 | Type::UInt16 | Type::Date | Type::Enum16(_) => 2,
            Type::Int32 | Type::UInt32 | Type::Float32 | Type::Date32 | Type::DateTime(_) => 4,
            Type::Int64 | Type::UInt64 | Type::Float64 | Type::DateTime64(..) => 8,
            Type::Uuid => 16,
            Type::FixedString(width) => *width,
            Type::Decimal(digits, _) => match digits {
                0..=9 => 4,
                10..=18 => 8,
                _ => 16,
            },
        })
    }

    /// What it is in Arrow: the type that ClickHouse's own Arrow output has, but for dates and
    /// times, which are dates and times here and not bare numbers.
    pub fn arrow(&self) -> DataType {
        match self.plain() {
            Type::Int8 => DataType::Int8,
            Type::Int16 => DataType::Int16,
            Type::Int32 => DataType::Int32,
            Type::Int64 => DataType::Int64,
            Type::UInt8 => DataType::UInt8,
            Type::UInt16 => DataType::UInt16,
            Type::UInt32 => DataType::UInt32,
            Type::UInt64 => DataType::UInt64,
            Type::Float32 => DataType::Float32,
            Type::Float64 => DataType::Float64,
            Type::Bool => DataType::Boolean,
            Type::FixedString(width) => DataType::FixedSizeBinary(*width as i32),
            Type::Date | Type::Date32 => DataType::Date32,
            Type::DateTime(zone) => DataType::Timestamp(TimeUnit::Second, zone.clone()),
            Type::DateTime64(digits, zone) => DataType::Timestamp(unit(*digits).0, zone.clone()),
            Type::Decimal(digits, scale) => DataType::Decimal128(*digits, *scale as i8),
            Type::Uuid => DataType::FixedSizeBinary(16),
            Type::String
            | Type::Enum8(_)
            | Type::Enum16(_)
            | Type::Nullable(_)
            | Type::LowCardinality(_) => DataType::Utf8,
        }
    }

    /// The type that a column of Arrow's is written as, where a table is to be made for it.
    /// `old`: a server before 2021, which has no `Bool`, `Date32` and `DateTime64`.
    pub fn for_arrow(data_type: &DataType, nullable: bool, old: bool) -> Result<Self> {
        let zone = |zone: &Option<Arc<str>>| zone.clone();
        let plain = match data_type {
            DataType::Int8 => Type::Int8,
            DataType::Int16 => Type::Int16,
            DataType::Int32 => Type::Int32,
            DataType::Int64 => Type::Int64,
            DataType::UInt8 => Type::UInt8,
            DataType::UInt16 => Type::UInt16,
            DataType::UInt32 => Type::UInt32,
            DataType::UInt64 => Type::UInt64,
            DataType::Float32 => Type::Float32,
            DataType::Float64 => Type::Float64,
            DataType::Boolean if old => Type::UInt8,
            DataType::Boolean => Type::Bool,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
                Type::String
            }
            DataType::Dictionary(_, value)
                if matches!(**value, DataType::Utf8 | DataType::LargeUtf8) =>
            {
                Type::String
            }
            DataType::FixedSizeBinary(width) if *width > 0 => Type::FixedString(*width as usize),
            DataType::Date32 if old => Type::Date,
            DataType::Date32 => Type::Date32,
            DataType::Timestamp(TimeUnit::Second, named) if old => Type::DateTime(zone(named)),
            DataType::Timestamp(unit, named) if !old => Type::DateTime64(
                match unit {
                    TimeUnit::Second => 0,
                    TimeUnit::Millisecond => 3,
                    TimeUnit::Microsecond => 6,
                    TimeUnit::Nanosecond => 9,
                },
                zone(named),
            ),
            DataType::Decimal128(digits, scale) if *scale >= 0 && *digits <= 38 => {
                Type::Decimal(*digits, *scale as u8)
            }
            other => {
                let why = match other {
                    DataType::Timestamp(..) => "this server has times of whole seconds only",
                    _ => "the formats rowbinary and native have no such column here",
                };
                return Err(Error::usage(format!(
                    "a column of Arrow's {other}: {why}; cast it, or use format arrow or parquet"
                )));
            }
        };
        Ok(match nullable {
            true => Type::Nullable(Box::new(plain)),
            false => plain,
        })
    }
}

/// Arrow's unit for so many digits behind the second, and by what a value must be multiplied.
pub(super) fn unit(digits: u8) -> (TimeUnit, i64) {
    let (unit, has) = match digits {
        0 => (TimeUnit::Second, 0),
        1..=3 => (TimeUnit::Millisecond, 3),
        4..=6 => (TimeUnit::Microsecond, 6),
        _ => (TimeUnit::Nanosecond, 9),
    };
    (unit, 10i64.pow(u32::from(has - digits.min(has))))
}

/// The Arrow schema of these columns.
pub fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| {
        let kind = &column.kind;
        Field::new(&column.name, kind.arrow(), kind.nullable())
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// The plain columns of an Arrow schema, by which a batch of it may be written.
pub fn columns_for(schema: &SchemaRef, old: bool) -> Result<Vec<Column>> {
    let column = |field: &Arc<Field>| {
        let kind = Type::for_arrow(field.data_type(), field.is_nullable(), old);
        let kind = kind.map_err(|error| error.context(format!("column {}", field.name())))?;
        Ok(Column {
            name: field.name().clone(),
            kind,
        })
    };
    schema.fields().iter().map(column).collect()
}

/// A string in quotes, as ClickHouse reads and writes it.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for letter in text.chars() {
        if matches!(letter, '\'' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('\'');
    out
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |f: &mut fmt::Formatter<'_>, bits: u8, names: &Names| {
            let pairs = names.0.iter();
            let pairs: Vec<_> = pairs
                .map(|(name, code)| format!("{} = {code}", quoted(name)))
                .collect();
            write!(f, "Enum{bits}({})", pairs.join(", "))
        };
        match self {
            Type::FixedString(width) => write!(f, "FixedString({width})"),
            Type::DateTime(None) => f.write_str("DateTime"),
            Type::DateTime(Some(zone)) => write!(f, "DateTime({})", quoted(zone)),
            Type::DateTime64(digits, None) => write!(f, "DateTime64({digits})"),
            Type::DateTime64(digits, Some(zone)) => {
                write!(f, "DateTime64({digits}, {})", quoted(zone))
            }
            Type::Decimal(digits, scale) => write!(f, "Decimal({digits}, {scale})"),
            Type::Enum8(known) => names(f, 8, known),
            Type::Enum16(known) => names(f, 16, known),
            Type::Uuid => f.write_str("UUID"),
            Type::Nullable(inner) => write!(f, "Nullable({inner})"),
            Type::LowCardinality(inner) => write!(f, "LowCardinality({inner})"),
            // The others are called as here.
            plain => write!(f, "{plain:?}"),
        }
    }
}
