//! Rows as the parameters of an EXECUTE: a bit for each null, a type and a value for each.

use arrow_array::cast::AsArray;
use arrow_array::{types, Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};

use venturi_base::codec::mysql::put_length;
use venturi_base::codec::sql::calendar::civil;
use venturi_base::codec::sql::{Dialect, Rows};
use venturi_base::data::upsert::Table;
use venturi_base::error::{Error, Result};

/// The protocol's numbers of types.
mod kind {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const LONGLONG: u8 = 8;
    pub const DATETIME: u8 = 12;
    pub const BLOB: u8 = 252;
    pub const STRING: u8 = 253;
    pub const UNSIGNED: u8 = 0x80;
}

type Put<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> Result<()> + 'a>;

/// A column's type, and what writes its value of a row; `None`: its values go as text, as in a
/// statement of text, and the server casts them.
fn column(values: &dyn Array) -> Option<(u8, u8, Put<'_>)> {
    macro_rules! fixed {
        ($arrow:ty, $number:expr, $flag:expr) => {{
            let values = values.as_primitive::<$arrow>().values();
            let put: Put<'_> = Box::new(move |row, out| {
                out.extend_from_slice(&values[row].to_le_bytes());
                Ok(())
            });
            ($number, $flag, put)
        }};
    }
    macro_rules! bytes {
        ($values:expr, $number:expr) => {{
            let values = $values;
            let put: Put<'_> = Box::new(move |row, out| {
                let value: &[u8] = values.value(row).as_ref();
                put_length(value.len(), out);
                out.extend_from_slice(value);
                Ok(())
            });
            ($number, 0, put)
        }};
    }
    macro_rules! time {
        ($arrow:ty, $per_second:expr) => {{
            let values = values.as_primitive::<$arrow>().values();
            let put: Put<'_> = Box::new(move |row, out| {
                let per_second: i64 = $per_second;
                let part = values[row].rem_euclid(per_second) * (1_000_000 / per_second);
                put_time(values[row].div_euclid(per_second), part as u32, out)
            });
            (kind::DATETIME, 0, put)
        }};
    }
    Some(match values.data_type() {
        DataType::Int8 => fixed!(types::Int8Type, kind::TINY, 0),
        DataType::Int16 => fixed!(types::Int16Type, kind::SHORT, 0),
        DataType::Int32 => fixed!(types::Int32Type, kind::LONG, 0),
        DataType::Int64 => fixed!(types::Int64Type, kind::LONGLONG, 0),
        DataType::UInt8 => fixed!(types::UInt8Type, kind::TINY, kind::UNSIGNED),
        DataType::UInt16 => fixed!(types::UInt16Type, kind::SHORT, kind::UNSIGNED),
        DataType::UInt32 => fixed!(types::UInt32Type, kind::LONG, kind::UNSIGNED),
        DataType::UInt64 => fixed!(types::UInt64Type, kind::LONGLONG, kind::UNSIGNED),
        DataType::Float32 => fixed!(types::Float32Type, kind::FLOAT, 0),
        DataType::Float64 => fixed!(types::Float64Type, kind::DOUBLE, 0),
        DataType::Boolean => {
            let values = values.as_boolean();
            let put: Put<'_> = Box::new(move |row, out| {
                out.push(values.value(row).into());
                Ok(())
            });
            (kind::TINY, 0, put)
        }
        DataType::Utf8 => bytes!(values.as_string::<i32>(), kind::STRING),
        DataType::LargeUtf8 => bytes!(values.as_string::<i64>(), kind::STRING),
        DataType::Utf8View => bytes!(values.as_string_view(), kind::STRING),
        DataType::Binary => bytes!(values.as_binary::<i32>(), kind::BLOB),
        DataType::LargeBinary => bytes!(values.as_binary::<i64>(), kind::BLOB),
        DataType::Timestamp(TimeUnit::Second, _) => time!(types::TimestampSecondType, 1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            time!(types::TimestampMillisecondType, 1_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            time!(types::TimestampMicrosecondType, 1_000_000)
        }
        _ => return None,
    })
}

fn put_time(seconds: i64, micros: u32, out: &mut Vec<u8>) -> Result<()> {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    if !(0..=9999).contains(&year) {
        return Err(Error::usage(format!(
            "a timestamp lies in the year {year}; MySQL's end with the year 9999"
        )));
    }
    let of_day = seconds.rem_euclid(86_400);
    out.push(if micros == 0 { 7 } else { 11 });
    out.extend_from_slice(&(year as u16).to_le_bytes());
    out.extend_from_slice(&[month as u8, day as u8]);
    out.extend_from_slice(&[
        (of_day / 3600) as u8,
        (of_day / 60 % 60) as u8,
        (of_day % 60) as u8,
    ]);
    if micros != 0 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
    Ok(())
}

/// What follows EXECUTE's byte. The statement's number is left open.
pub fn put(table: &Table, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let columns: Vec<_> = rows
        .columns()
        .iter()
        .map(|values| (column(values), values))
        .collect();
    let mut texts = Rows::new(Dialect::MySql, table, rows)?;
    let mut text = Vec::new();
    let count = rows.num_rows() * columns.len();
    out.extend_from_slice(&[0; 4]); // the statement's number
    out.push(0); // no cursor
    out.extend_from_slice(&1u32.to_le_bytes()); // executed once
    let nulls = out.len();
    out.resize(nulls + count.div_ceil(8), 0);
    out.push(1); // types follow
    for _ in 0..rows.num_rows() {
        for (column, _) in &columns {
            match column {
                Some((number, flag, _)) => out.extend_from_slice(&[*number, *flag]),
                None => out.extend_from_slice(&[kind::STRING, 0]),
            }
        }
    }
    let mut at = 0;
    for row in 0..rows.num_rows() {
        for (number, (column, values)) in columns.iter().enumerate() {
            match column {
                _ if values.is_null(row) => out[nulls + at / 8] |= 1 << (at % 8),
                Some((.., put)) => put(row, out)?,
                None => {
                    text.clear();
                    match texts.text(number, row, &mut text)? {
                        true => {
                            put_length(text.len(), out);
                            out.extend_from_slice(&text);
                        }
                        // A dictionary's null is not in its bitmap.
                        false => out[nulls + at / 8] |= 1 << (at % 8),
                    }
                }
            }
            at += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, Date32Array, Int16Array, StringArray, TimestampMicrosecondArray, UInt64Array,
    };

    use super::*;
    use venturi_base::spec::Upsert;

    #[test]
    fn two_rows_by_hand() {
        let columns: [(&str, ArrayRef); 5] = [
            ("a", Arc::new(UInt64Array::from(vec![1, 2]))),
            ("b", Arc::new(StringArray::from(vec![Some("xy"), None]))),
            ("c", Arc::new(Int16Array::from(vec![None, Some(-2)]))),
            (
                "d",
                Arc::new(TimestampMicrosecondArray::from(vec![
                    1_500_000,
                    951_782_400_000_000,
                ])),
            ),
            ("e", Arc::new(Date32Array::from(vec![0, 20_778]))),
        ];
        let rows = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, values)| (name, values, true)),
        )
        .unwrap();
        let roles = Upsert {
            key: vec!["a".into()],
            add: vec![],
        };
        let table = Table::new("t", rows.schema(), &roles).unwrap();
        let mut out = Vec::new();
        put(&table, &rows, &mut out).unwrap();
        let types = [8, 0x80, 253, 0, 2, 0, 12, 0, 253, 0];
        let expected = [
            &[0, 0, 0, 0, 0, 1, 0, 0, 0][..],
            &[0b0100_0100, 0, 1],
            &types,
            &types,
            &[1, 0, 0, 0, 0, 0, 0, 0, 2, b'x', b'y'],
            &[11, 0xb2, 7, 1, 1, 0, 0, 1, 0x20, 0xa1, 7, 0],
            b"\x0a1970-01-01",
            &[2, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff],
            &[7, 0xd0, 7, 2, 29, 0, 0, 0],
            b"\x0a2026-11-21",
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn a_year_that_mysql_lacks() {
        let late = put_time(i64::MAX / 1000, 0, &mut Vec::new()).unwrap_err();
        assert!(late.message.contains("9999"));
    }
}
