//! MySQL's SQL: MySQL, MariaDB, SingleStore, TiDB.

use arrow_schema::DataType;

use crate::read::{Column, SUMMED_DIGITS};
use crate::sql::{digits, is_bytes, is_text, Dialect, Index, Literals, Merge, Nul};

pub const MYSQL: &Dialect = &Dialect {
    name: "mysql",
    vendors: &["mysql", "mariadb", "doris", "starrocks"],
    quote: '`',
    longest_name: (64, |name| name.chars().count()),
    numbered: false,
    text: "CHAR",
    merge: Merge::OnDuplicateKey,
    column_type,
    decimals: Some((65, 30)),
    usage_type: |column| {
        Some(match column {
            "timestamp_of_data" => "timestamp",
            "subcustomer_id" => "char(12)",
            "ip_address" => "char(20)",
            _ => return None,
        })
    },
    index: Some(Index {
        // What InnoDB's holds.
        bytes: 3072,
        text_type: |characters| {
            format!("varchar({characters}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        },
        bytes_type: |bytes| format!("varbinary({bytes})"),
    }),
    read_back: |column, kind| match kind {
        kind if is_text(kind) => Some(format!("HEX(CONVERT({column} USING utf8mb4))")),
        kind if is_bytes(kind) => Some(format!("hex({column})")),
        // Its own text of a `float` has six digits.
        DataType::Float16 | DataType::Float32 => Some(format!("CAST({column} + 0e0 AS CHAR)")),
        _ => None,
    },
    literals: Literals {
        nul: Nul::Escaped,
        ..Dialect::STANDARD.literals
    },
    sum,
    position,
    bound: |column, number| match &column.data_type {
        DataType::Date32 => format!("FROM_DAYS({number})"),
        DataType::Timestamp(..) => format!("TIMESTAMPADD(MICROSECOND, {number}, '1970-01-01')"),
        _ => number.to_string(),
    },
    hash: |_, name, streams| format!("CRC32({name}) % {streams}"),
    ..Dialect::STANDARD
};

fn column_type(kind: &DataType) -> Option<String> {
    let name = match kind {
        DataType::Boolean => "boolean",
        DataType::Int8 => "tinyint",
        DataType::Int16 => "smallint",
        DataType::Int32 => "int",
        DataType::Int64 => "bigint",
        DataType::UInt8 => "tinyint unsigned",
        DataType::UInt16 => "smallint unsigned",
        DataType::UInt32 => "int unsigned",
        DataType::UInt64 => "bigint unsigned",
        DataType::Float16 | DataType::Float32 => "float",
        DataType::Float64 => "double",
        kind if is_text(kind) => "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        kind if is_bytes(kind) => "longblob",
        // Its timestamp ends in 2038 and follows the session's zone.
        DataType::Timestamp(unit, _) => return Some(format!("datetime({})", digits(*unit).min(6))),
        kind => return (Dialect::STANDARD.column_type)(kind),
    };
    Some(name.to_owned())
}

fn sum(column: &Column, name: &str) -> Option<String> {
    Some(match &column.data_type {
        kind if kind.is_integer() => format!("SUM({name})"),
        DataType::Decimal128(digits, scale) if *digits <= SUMMED_DIGITS => {
            let places = "0".repeat(*scale as usize);
            format!("TRUNCATE(SUM({name}) * 1{places}, 0)")
        }
        DataType::Utf8 if column.native == "text" => {
            format!("SUM(OCTET_LENGTH(CONVERT({name} USING utf8mb4)))")
        }
        DataType::Binary if column.native == "blob" => format!("SUM(OCTET_LENGTH({name}))"),
        // Somebody else's server, which has no other types.
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
            if column.native.is_empty() =>
        {
            format!("SUM(LENGTH({name}))")
        }
        _ => return None,
    })
}

fn position(column: &Column, value: &str) -> Option<String> {
    Some(match &column.data_type {
        kind if kind.is_integer() => value.to_owned(),
        DataType::Date32 => format!("TO_DAYS({value})"),
        DataType::Timestamp(..) => format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {value})"),
        _ => return None,
    })
}
