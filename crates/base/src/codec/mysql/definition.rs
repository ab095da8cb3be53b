//! The columns of an answer, as a server describes them -> their types.
//!
//! Source: "Column Definition" in the servers' documentation.

use arrow_schema::{DataType, TimeUnit};

use super::{short, Reader};
use crate::error::{Error, Result};

const UNSIGNED: u16 = 32;
/// The character set of what is no text.
const BYTES: u16 = 63;
/// Digits of a Decimal128 at most.
const DIGITS: u32 = 38;

/// How a value lies in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
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
    /// Of so many digits, and so many of them behind the point.
    Decimal(u8, i8),
    /// The bytes are the value.
    Bytes,
    Date,
    DateTime,
    Time,
}

/// A column of an answer, as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    /// As SQL calls it.
    pub native: &'static str,
    pub form: Form,
    pub data_type: DataType,
}

impl Definition {
    pub fn parse(message: &[u8]) -> Result<Self> {
        let found = Self::read(message).ok_or_else(|| short("a column's definition"))?;
        let (name, kind, unsigned, text, length, places) = found;
        let known = form(kind, unsigned, text, length, places);
        let (native, form, data_type) = known.ok_or_else(|| {
            Error::usage(format!(
                "column {name} has type {kind} of MySQL's protocol, which has no type in Arrow here: cast it in a \
                 query, as --query 'SELECT CAST({name} AS CHAR) FROM ...'"
            ))
        })?;
        Ok(Self {
            name,
            native,
            form,
            data_type,
        })
    }

    fn read(message: &[u8]) -> Option<(String, u8, bool, bool, u32, u8)> {
        let mut reader = Reader(message);
        // Catalog, database, table, table as it is stored.
        for _ in 0..4 {
            reader.string()??;
        }
        let name = String::from_utf8_lossy(reader.string()??).into_owned();
        reader.string()??;
        reader.integer()?;
        let set = reader.u16()?;
        let length = reader.u32()?;
        let kind = reader.byte()?;
        let flags = reader.u16()?;
        let places = reader.byte()?;
        Some((
            name,
            kind,
            flags & UNSIGNED != 0,
            set != BYTES,
            length,
            places,
        ))
    }
}

fn form(
    kind: u8,
    unsigned: bool,
    text: bool,
    length: u32,
    places: u8,
) -> Option<(&'static str, Form, DataType)> {
    let micros = TimeUnit::Microsecond;
    Some(match (kind, unsigned) {
        (1, false) => ("tinyint", Form::Int8, DataType::Int8),
        (1, true) => ("tinyint", Form::UInt8, DataType::UInt8),
        (2, false) => ("smallint", Form::Int16, DataType::Int16),
        (2 | 13, _) => ("smallint", Form::UInt16, DataType::UInt16),
        (3 | 9, false) => ("int", Form::Int32, DataType::Int32),
        (3 | 9, true) => ("int", Form::UInt32, DataType::UInt32),
        (8, false) => ("bigint", Form::Int64, DataType::Int64),
        (8, true) => ("bigint", Form::UInt64, DataType::UInt64),
        (4, _) => ("float", Form::Float32, DataType::Float32),
        (5, _) => ("double", Form::Float64, DataType::Float64),
        (0 | 246, _) => {
            // The length is that of the text: with a point, and room for a sign.
            let around = u32::from(places > 0) + u32::from(!unsigned);
            let digits = length.saturating_sub(around);
            match (1..=DIGITS).contains(&digits) && u32::from(places) <= digits {
                true => {
                    let (digits, places) = (digits as u8, places as i8);
                    let data_type = DataType::Decimal128(digits, places);
                    ("decimal", Form::Decimal(digits, places), data_type)
                }
                false => ("decimal", Form::Bytes, DataType::Utf8),
            }
        }
        (10 | 14, _) => ("date", Form::Date, DataType::Date32),
        (11 | 19, _) => ("time", Form::Time, DataType::Duration(micros)),
        (12 | 18, _) => {
            let data_type = DataType::Timestamp(micros, None);
            ("datetime", Form::DateTime, data_type)
        }
        (7 | 17, _) => {
            let data_type = DataType::Timestamp(micros, Some("UTC".into()));
            ("timestamp", Form::DateTime, data_type)
        }
        // SELECT NULL.
        (6, _) => ("null", Form::Bytes, DataType::Utf8),
        (16, _) => ("bit", Form::Bytes, DataType::Binary),
        (245, _) => ("json", Form::Bytes, DataType::Utf8),
        (255, _) => ("geometry", Form::Bytes, DataType::Binary),
        (15 | 247..=254, _) if text => ("text", Form::Bytes, DataType::Utf8),
        (15 | 247..=254, _) => ("blob", Form::Bytes, DataType::Binary),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_what_the_server_says() {
        let of =
            |kind, unsigned, length, places| form(kind, unsigned, true, length, places).unwrap().2;
        assert_eq!(of(246, false, 14, 3), DataType::Decimal128(12, 3));
        assert_eq!(of(246, true, 20, 0), DataType::Decimal128(20, 0));
        assert_eq!(of(246, false, 67, 2), DataType::Utf8);
        assert_eq!(of(8, true, 20, 0), DataType::UInt64);
        assert_eq!(form(252, false, false, 9, 0).unwrap().2, DataType::Binary);
        assert!(form(242, false, false, 9, 0).is_none());
    }
}
