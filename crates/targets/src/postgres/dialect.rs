//! Postgres' SQL.

use arrow_schema::DataType;

use crate::read::{Column, SUMMED_DIGITS};
use crate::sql::{is_bytes, is_text, number_word, Dialect, Literals};

pub const POSTGRES: &Dialect = &Dialect {
    name: "postgres",
    vendors: &["postgres"],
    longest_name: (63, str::len),
    text: "TEXT",
    usage_type: |column| {
        Some(match column {
            "subcustomer_id" => "char(12)",
            // A char(20) would come back padded with spaces.
            "ip_address" => "varchar(20)",
            // Its signed eight bytes hold what 10^12 upserts of one key add up to.
            "bytes" | "hits" => "bigint",
            _ => return None,
        })
    },
    read_back: |column, kind| {
        Some(match kind {
            kind if is_text(kind) => {
                format!("encode(convert_to(CAST({column} AS text), 'UTF8'), 'hex')")
            }
            kind if is_bytes(kind) => format!("encode({column}, 'hex')"),
            DataType::Timestamp(_, zone) => {
                let at = if zone.is_some() {
                    " AT TIME ZONE 'UTC'"
                } else {
                    ""
                };
                format!("to_char({column}{at}, 'YYYY-MM-DD HH24:MI:SS.US')")
            }
            DataType::Date32 | DataType::Date64 => format!("to_char({column}, 'YYYY-MM-DD')"),
            _ => return None,
        })
    },
    literals: Literals {
        utc: b"+00",
        bytes: [b"'\\x", b"", b"'"],
        infinite: |value| Some(format!("'{}'", number_word(value))),
        ..Dialect::STANDARD.literals
    },
    counts_utf8: true,
    sum,
    position: |column, value| {
        Some(match &column.data_type {
            kind if kind.is_integer() => value.to_owned(),
            // What has no end, 'infinity', is no number.
            DataType::Date32 => {
                format!("CASE WHEN isfinite({value}) THEN {value} - DATE '1970-01-01' END")
            }
            DataType::Timestamp(..) => format!(
                "CASE WHEN isfinite({value}) THEN (extract(epoch FROM {value}) * 1000000)::bigint END"
            ),
            _ => return None,
        })
    },
    bound: |column, number| match &column.data_type {
        DataType::Date32 => format!("DATE '1970-01-01' + ({number})"),
        DataType::Timestamp(_, None) => {
            format!("TIMESTAMP '1970-01-01' + ({number}) * INTERVAL '1 microsecond'")
        }
        DataType::Timestamp(_, Some(_)) => {
            format!("TIMESTAMPTZ '1970-01-01 00:00:00+00' + ({number}) * INTERVAL '1 microsecond'")
        }
        _ => number.to_string(),
    },
    hash: |_, name, streams| format!("(hashtext({name}::text)::bigint & 2147483647) % {streams}"),
    ..Dialect::STANDARD
};

fn sum(column: &Column, name: &str) -> Option<String> {
    Some(match &column.data_type {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => format!("sum({name})"),
        DataType::Boolean => format!("count(*) FILTER (WHERE {name})"),
        // A NaN is told by the stream that meets it.
        DataType::Decimal128(digits, scale) if *digits <= SUMMED_DIGITS => {
            format!("trunc(sum(NULLIF({name}, 'NaN')) * 1e{scale})")
        }
        DataType::Binary => format!("sum(octet_length({name}))"),
        // In the encoding of the wire, which need not be that of the database. Of character(n) a cast
        // takes the blanks away, and what else becomes text is counted only.
        DataType::Utf8 => match column.native.as_str() {
            "text" | "varchar" | "json" | "jsonb" | "numeric" => {
                format!("sum(length(convert_to({name}::text, 'UTF8')))")
            }
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_columns() {
        let column = |data_type| Column {
            name: "c".into(),
            data_type,
            native: String::new(),
        };
        let position = |data_type| (POSTGRES.position)(&column(data_type), "min(c)");
        let bound = |data_type| (POSTGRES.bound)(&column(data_type), -3);
        assert_eq!(position(DataType::Int64).unwrap(), "min(c)");
        assert!(position(DataType::Date32)
            .unwrap()
            .contains("isfinite(min(c))"));
        assert_eq!(position(DataType::Utf8), None);
        assert_eq!(bound(DataType::Date32), "DATE '1970-01-01' + (-3)");
        assert_eq!(bound(DataType::Int32), "-3");
    }
}
