//! Postgres' types as Arrow's, and what of them cannot be.
//!
//! Sources: pg_type.dat; numeric.c (`numerictypmodin`), for what a modifier says.

use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use tokio_postgres::types::{Kind, Type};

use crate::read::Column;
use venturi_base::error::{Error, Result};

/// How a value lies on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    /// Of so many digits, and so many of them behind the point.
    Decimal(u8, i8),
    /// A number of any size, as text.
    Numeric,
    /// The bytes are the value: text, bytea, uuid.
    Bytes,
    /// The same behind a byte that says 1.
    Jsonb,
    Date,
    Time,
    Timestamp,
    Interval,
    Array(Box<Form>),
}

/// Digits of a Decimal128 at most.
const DIGITS: i32 = 38;
/// `VARHDRSZ`
const MODIFIER: i32 = 4;

/// A column of an answer; one that Arrow has no type for is refused with what to write instead.
pub fn column(column: &tokio_postgres::Column) -> Result<Column> {
    let (_, data_type) = form(column)?;
    Ok(Column {
        name: column.name().to_owned(),
        data_type,
        native: column.type_().name().to_owned(),
    })
}

/// How a column's values come, and what they become.
pub fn form(column: &tokio_postgres::Column) -> Result<(Form, DataType)> {
    let found = layout(column.type_(), column.type_modifier());
    found.ok_or_else(|| refused(column.name(), column.type_()))
}

fn refused(name: &str, kind: &Type) -> Error {
    let (called, instead) = match kind.kind() {
        Kind::Array(inner) => (format!("{}[]", inner.name()), "text[]"),
        _ if *kind == Type::MONEY => ("money".to_owned(), "numeric(20, 2)"),
        _ => (kind.name().to_owned(), "text"),
    };
    Error::usage(format!(
        "column {name} is {called}, which has no type in Arrow here: cast it in a query, as \
         --query 'SELECT {name}::{instead} FROM ...'"
    ))
}

/// The same of a type by its number in the catalogue.
pub fn by_oid(oid: u32, modifier: i32) -> Option<(Form, DataType)> {
    layout(&Type::from_oid(oid)?, modifier)
}

fn layout(kind: &Type, modifier: i32) -> Option<(Form, DataType)> {
    Some(match *kind {
        Type::BOOL => (Form::Bool, DataType::Boolean),
        Type::INT2 => (Form::Int2, DataType::Int16),
        Type::INT4 => (Form::Int4, DataType::Int32),
        Type::INT8 => (Form::Int8, DataType::Int64),
        Type::OID => (Form::Oid, DataType::UInt32),
        Type::FLOAT4 => (Form::Float4, DataType::Float32),
        Type::FLOAT8 => (Form::Float8, DataType::Float64),
        Type::NUMERIC => numeric(modifier),
        Type::TEXT
        | Type::VARCHAR
        | Type::BPCHAR
        | Type::NAME
        | Type::CHAR
        | Type::JSON
        | Type::XML
        | Type::UNKNOWN => (Form::Bytes, DataType::Utf8),
        Type::JSONB => (Form::Jsonb, DataType::Utf8),
        Type::BYTEA => (Form::Bytes, DataType::Binary),
        Type::UUID => (Form::Bytes, DataType::FixedSizeBinary(16)),
        Type::DATE => (Form::Date, DataType::Date32),
        Type::TIME => (Form::Time, DataType::Time64(TimeUnit::Microsecond)),
        Type::TIMESTAMP => {
            let kind = DataType::Timestamp(TimeUnit::Microsecond, None);
            (Form::Timestamp, kind)
        }
        Type::TIMESTAMPTZ => {
            let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            (Form::Timestamp, kind)
        }
        Type::INTERVAL => (
            Form::Interval,
            DataType::Interval(IntervalUnit::MonthDayNano),
        ),
        _ => match kind.kind() {
            Kind::Enum(_) => (Form::Bytes, DataType::Utf8),
            Kind::Domain(inner) => return layout(inner, modifier),
            Kind::Array(inner) => {
                let (form, data_type) = layout(inner, modifier)?;
                if matches!(form, Form::Array(_)) {
                    return None;
                }
                let item = Field::new_list_field(data_type, true);
                (Form::Array(form.into()), DataType::List(Arc::new(item)))
            }
            _ if kind.name() == "citext" => (Form::Bytes, DataType::Utf8),
            _ => return None,
        },
    })
}

/// Without a declared size a value may have any, which only text holds; so it is with more than 38 digits.
fn numeric(modifier: i32) -> (Form, DataType) {
    let declared = modifier - MODIFIER;
    let precision = declared >> 16 & 0xffff;
    // Eleven bits with a sign, since 15; before it was never negative.
    let scale = ((declared & 0x7ff) ^ 1024) - 1024;
    // One of more places than digits, as numeric(2, 5), has as many digits as places.
    let digits = precision.max(scale).max(precision - scale.min(0));
    match modifier >= MODIFIER && (1..=DIGITS).contains(&digits) {
        true => {
            let (digits, scale) = (digits as u8, scale.max(0) as i8);
            (
                Form::Decimal(digits, scale),
                DataType::Decimal128(digits, scale),
            )
        }
        false => (Form::Numeric, DataType::Utf8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modifier(precision: i32, scale: i32) -> i32 {
        (precision << 16 | scale & 0x7ff) + MODIFIER
    }

    #[test]
    fn numerics_by_their_declared_size() {
        let decimal = |precision, scale| numeric(modifier(precision, scale)).1;
        assert_eq!(decimal(12, 2), DataType::Decimal128(12, 2));
        assert_eq!(decimal(38, 0), DataType::Decimal128(38, 0));
        assert_eq!(decimal(2, 5), DataType::Decimal128(5, 5));
        assert_eq!(decimal(3, -2), DataType::Decimal128(5, 0));
        assert_eq!(decimal(39, 0), DataType::Utf8);
        assert_eq!(numeric(-1), (Form::Numeric, DataType::Utf8));
    }

    #[test]
    fn what_arrow_lacks_is_refused_by_name() {
        assert!(layout(&Type::POINT, -1).is_none() && layout(&Type::TIMETZ, -1).is_none());
        let line = refused("cost", &Type::MONEY).message;
        assert!(line.contains("column cost is money") && line.contains("cost::numeric(20, 2)"));
        let line = refused("a", &Type::INET_ARRAY).message;
        assert!(
            line.contains("column a is inet[]") && line.contains("a::text[]"),
            "{line}"
        );
        let (form, kind) = layout(&Type::INT4_ARRAY, -1).unwrap();
        assert_eq!(form, Form::Array(Form::Int4.into()));
        assert_eq!(kind.to_string(), "List(Int32)");
    }
}
