//! DuckDB's SQL.

use arrow_schema::{DataType, TimeUnit};

use crate::read::{Column, SUMMED_DIGITS};
use crate::sql::{is_bytes, is_text, number_word, Dialect, Literals, Nanoseconds, Nul};

pub const DUCKDB: &Dialect = &Dialect {
    name: "duckdb",
    vendors: &["duckdb", "gizmosql"],
    column_type,
    decimals: Some((38, 38)),
    read_back: |column, kind| match kind {
        kind if is_text(kind) || is_bytes(kind) => Some(format!("hex({column})")),
        DataType::Timestamp(_, Some(_)) => Some(format!(
            "CAST(make_timestamp(epoch_us({column})) AS VARCHAR)"
        )),
        _ => None,
    },
    // It compares all conditions of an OR with each other: 0.3 s for 250 rows.
    any: ["CASE WHEN ", " THEN true WHEN ", " THEN true END"],
    literals: Literals {
        nanoseconds: Nanoseconds::Timestamps,
        utc: b"+00",
        bytes: [b"'", b"\\x", b"'::BLOB"],
        nul: Nul::Bytes(b"decode(", b")"),
        infinite: |value| Some(format!("CAST('{}' AS DOUBLE)", number_word(value))),
        ..Dialect::STANDARD.literals
    },
    counts_utf8: true,
    sum,
    position: |column, value| {
        Some(match &column.data_type {
            kind if kind.is_integer() => value.to_owned(),
            DataType::Date32 => {
                format!("CASE WHEN isfinite({value}) THEN {value} - DATE '1970-01-01' END")
            }
            DataType::Timestamp(_, None) => {
                format!("CASE WHEN isfinite({value}) THEN epoch_us({value}) END")
            }
            _ => return None,
        })
    },
    bound: |column, number| match &column.data_type {
        DataType::Date32 => format!("DATE '1970-01-01' + ({number})::INTEGER"),
        DataType::Timestamp(..) => format!("make_timestamp(({number})::BIGINT)"),
        _ => number.to_string(),
    },
    hash: |_, name, streams| format!("hash({name}) % {streams}"),
    ..Dialect::STANDARD
};

fn column_type(kind: &DataType) -> Option<String> {
    let name = match kind {
        DataType::Int8 => "tinyint",
        DataType::UInt8 => "utinyint",
        DataType::UInt16 => "usmallint",
        DataType::UInt32 => "uinteger",
        DataType::UInt64 => "ubigint",
        DataType::Float64 => "double",
        kind if is_text(kind) => "varchar",
        kind if is_bytes(kind) => "blob",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Timestamp(TimeUnit::Second, None) => "timestamp_s",
        DataType::Timestamp(TimeUnit::Millisecond, None) => "timestamp_ms",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp",
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "timestamp_ns",
        kind => return (Dialect::STANDARD.column_type)(kind),
    };
    Some(name.to_owned())
}

fn sum(column: &Column, name: &str) -> Option<String> {
    Some(match (&column.data_type, column.native.as_str()) {
        // Modulo 2^64 beforehand: the sum itself has 128 bits at most; one without a sign is no integer.
        (_, "HUGEINT" | "UHUGEINT") => format!("sum(({name} % 18446744073709551616)::HUGEINT)"),
        (kind, _) if kind.is_integer() => format!("sum({name})"),
        (DataType::Boolean, _) => format!("count(*) FILTER (WHERE {name})"),
        // Without its point it is a number of its last place.
        (DataType::Decimal128(digits, _), _) if *digits <= SUMMED_DIGITS => {
            format!("replace(sum({name})::VARCHAR, '.', '')")
        }
        (DataType::Utf8 | DataType::LargeUtf8, _) => format!("sum(strlen({name}::VARCHAR))"),
        (DataType::Binary | DataType::LargeBinary, _) => format!("sum(octet_length({name}))"),
        _ => return None,
    })
}
