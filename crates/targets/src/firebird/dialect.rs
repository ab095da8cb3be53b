//! Firebird's SQL.

use arrow_schema::DataType;

use crate::read::Column;
use crate::sql::{is_bytes, is_text, Dialect, Index, Literals, Second};

/// Characters of a text, and bytes, that a column holds which is no key: a row has 64 KiB at most.
pub const LONGEST: usize = 2000;

pub const FIREBIRD: &Dialect = &Dialect {
    name: "firebird",
    vendors: &["firebird"],
    longest_name: (31, str::len),
    numbered: false,
    text: "VARCHAR(64)",
    column_type,
    decimals: Some((18, 18)),
    usage_type: |column| {
        Some(match column {
            "subcustomer_id" => "char(12)",
            "ip_address" => "varchar(20)",
            "bytes" | "hits" => "bigint",
            _ => return None,
        })
    },
    index: Some(Index {
        // What one holds of a page of 8 KiB, where a key has several columns.
        bytes: 1600,
        text_type: |characters| format!("varchar({characters}) character set utf8"),
        bytes_type: |bytes| format!("varchar({bytes}) character set octets"),
    }),
    // Text comes as its bytes, whose digits `Link::ask_all` writes, and a number with an exponent as itself.
    read_back: |column, kind| {
        Some(match kind {
            kind if is_text(kind) => format!(
                "CAST({column} AS varchar({}) character set octets)",
                4 * LONGEST
            ),
            kind if is_bytes(kind) || kind.is_floating() => column.to_owned(),
            DataType::Boolean => {
                format!("CASE WHEN {column} THEN 't' WHEN NOT {column} THEN 'f' END")
            }
            _ => return None,
        })
    },
    counts_utf8: true,
    sum,
    position: |column, value| {
        Some(match &column.data_type {
            kind if kind.is_integer() => value.to_owned(),
            DataType::Date32 => format!("datediff(day FROM date '1970-01-01' TO {value})"),
            _ => return None,
        })
    },
    bound: |column, number| match &column.data_type {
        DataType::Date32 => format!("dateadd({number} day TO date '1970-01-01')"),
        _ => number.to_string(),
    },
    hash: |_, name, streams| format!("mod(bin_and(hash({name}), 2147483647), {streams})"),
    nullable: "",
    literals: Literals {
        most_integer: i64::MAX as u64,
        second: Second::all(4),
        bytes: [b"x'", b"", b"'"],
        ..Dialect::STANDARD.literals
    },
    ..Dialect::STANDARD
};

fn column_type(kind: &DataType) -> Option<String> {
    let name = match kind {
        DataType::UInt64 => "bigint",
        DataType::Float16 | DataType::Float32 => "float",
        kind if is_text(kind) => return Some(format!("varchar({LONGEST}) character set utf8")),
        kind if is_bytes(kind) => return Some(format!("varchar({LONGEST}) character set octets")),
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Timestamp(..) => "timestamp",
        kind => return (Dialect::STANDARD.column_type)(kind),
    };
    Some(name.to_owned())
}

fn sum(column: &Column, name: &str) -> Option<String> {
    Some(match &column.data_type {
        DataType::Int16 | DataType::Int32 => format!("sum(cast({name} AS bigint))"),
        // A sum that passes 64 bits is an error: by halves it does not.
        DataType::Int64 => format!(
            "coalesce(sum(bin_shr({name}, 32)), 0) || ',' || coalesce(sum(bin_and({name}, 4294967295)), 0)"
        ),
        DataType::Boolean => format!("sum(iif({name}, 1, 0))"),
        DataType::Utf8 | DataType::Binary => format!("sum(octet_length({name}))"),
        _ => return None,
    })
}
