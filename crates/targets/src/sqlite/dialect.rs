//! SQLite's SQL.

use arrow_schema::DataType;

use crate::read::Column;
use crate::sql::{is_bytes, is_text, Dialect, Literals, Nanoseconds, Nul};

/// Behind the declared type of a column in a file that is not in UTF-8.
pub const FOREIGN: &str = " (of a file in UTF-16)";

pub const SQLITE: &Dialect = &Dialect {
    name: "sqlite",
    vendors: &["sqlite"],
    // SQLITE_MAX_VARIABLE_NUMBER, as the bundled one is built.
    most_placeholders: 32_766,
    numbered: false,
    text: "TEXT",
    column_type: |kind| {
        let name = match kind {
            DataType::Boolean => "integer",
            kind if kind.is_integer() => "integer",
            kind if kind.is_floating() => "real",
            kind if is_bytes(kind) => "blob",
            kind if is_text(kind) => "text",
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => "text",
            DataType::Time32(_) | DataType::Time64(_) => "text",
            _ => return None,
        };
        Some(name.to_owned())
    },
    decimals: None,
    read_back: |column, kind| match kind {
        // hex(NULL) is an empty text.
        kind if is_text(kind) || is_bytes(kind) => Some(format!(
            "CASE WHEN {column} IS NOT NULL THEN hex(CAST({column} AS BLOB)) END"
        )),
        kind if kind.is_floating() => Some(format!(
            "CASE WHEN {column} IS NOT NULL THEN printf('%!.17g', {column}) END"
        )),
        _ => None,
    },
    literals: Literals {
        digits_for_booleans: true,
        most_integer: i64::MAX as u64,
        nanoseconds: Nanoseconds::All,
        nul: Nul::Bytes(b"CAST(", b" AS TEXT)"),
        // Its own way to write them; NaN it would take for NULL.
        infinite: |value| match (value.is_nan(), value > 0.0) {
            (true, _) => None,
            (false, true) => Some("9e999".to_owned()),
            (false, false) => Some("-9e999".to_owned()),
        },
        ..Dialect::STANDARD.literals
    },
    sum,
    hash: |column, name, streams| {
        match &column.data_type {
        kind if kind.is_integer() => format!("abs({name} % {streams})"),
        // SQLite has no hash: of text it is made of its length and its last letter.
        _ => format!(
            "(length(CAST({name} AS BLOB)) * 31 + COALESCE(unicode(substr(CAST({name} AS TEXT), -1)), 0)) % {streams}"
        ),
    }
    },
    ..Dialect::STANDARD
};

fn sum(column: &Column, name: &str) -> Option<String> {
    Some(match &column.data_type {
        // Its own sum fails above 64 bits: by halves it does not.
        kind if kind.is_integer() => format!(
            "printf('%d,%d', COALESCE(sum({name} >> 32), 0), COALESCE(sum({name} & 4294967295), 0))"
        ),
        // Of a file in UTF-16 these would be its own bytes, and not those that come.
        DataType::Utf8 if column.native.ends_with(FOREIGN) => return None,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            format!("sum(length(CAST({name} AS BLOB)))")
        }
        _ => return None,
    })
}
