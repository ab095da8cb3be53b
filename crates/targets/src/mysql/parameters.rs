//! Rows as the parameters of an EXECUTE: a bit for each null, a type and a value for each.

use arrow_array::RecordBatch;
use arrow_schema::TimeUnit;

use super::dialect::MYSQL;
use crate::sql::Rows;
use venturi_base::codec::calendar::civil;
use venturi_base::codec::mysql::put_length;
use venturi_base::data::upsert::Table;
use venturi_base::data::view::{Values, View};
use venturi_base::error::{Error, Kind, Result};

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

/// A column's type and its flags; `None`: its values go as text, as in a statement of text, and the server
/// casts them.
fn typed(values: &Values) -> Option<(u8, u8)> {
    Some(match values {
        Values::Boolean(_) | Values::Int8(_) => (kind::TINY, 0),
        Values::Int16(_) => (kind::SHORT, 0),
        Values::Int32(_) => (kind::LONG, 0),
        Values::Int64(_) => (kind::LONGLONG, 0),
        Values::UInt8(_) => (kind::TINY, kind::UNSIGNED),
        Values::UInt16(_) => (kind::SHORT, kind::UNSIGNED),
        Values::UInt32(_) => (kind::LONG, kind::UNSIGNED),
        Values::UInt64(_) => (kind::LONGLONG, kind::UNSIGNED),
        Values::Float32(_) => (kind::FLOAT, 0),
        Values::Float64(_) => (kind::DOUBLE, 0),
        Values::Text(_) => (kind::STRING, 0),
        Values::Bytes(_) => (kind::BLOB, 0),
        // MySQL keeps microseconds; text says where nanoseconds would be lost.
        Values::Timestamp(_, TimeUnit::Nanosecond, _) => return None,
        Values::Timestamp(..) => (kind::DATETIME, 0),
        Values::Date(_) | Values::Time(..) | Values::Decimal(_) => return None,
    })
}

/// Appends a value that is not null, of a column that is `typed`.
fn put_value(column: &View, row: usize, out: &mut Vec<u8>) -> Result<()> {
    let sized = |value: &[u8], out: &mut Vec<u8>| {
        put_length(value.len(), out);
        out.extend_from_slice(value);
    };
    match &column.values {
        Values::Boolean(values) => out.push(values.value(row).into()),
        Values::Int8(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Int16(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Int32(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Int64(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::UInt8(values) => out.push(values[row]),
        Values::UInt16(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::UInt32(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::UInt64(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Float32(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Float64(values) => out.extend_from_slice(&values[row].to_le_bytes()),
        Values::Text(values) => sized(values.value(row).as_bytes(), out),
        Values::Bytes(values) => sized(values.value(row), out),
        Values::Timestamp(values, unit, _) => {
            let put = put_time(column.micros(values[row], *unit, "MySQL")?, out);
            put.map_err(|year| {
                let value = format_args!("a time in the year {year}");
                column.refused(value, "MySQL's timestamps have the years 1 to 9999")
            })?;
        }
        // They are not `typed`: what is left out here would shift what follows.
        Values::Date(_) | Values::Time(..) | Values::Decimal(_) => {
            let text = format!("column {:?} has no binary form", column.name);
            return Err(Error::new(Kind::Internal, text));
        }
    }
    Ok(())
}

/// The error: a year that MySQL lacks.
fn put_time(micros: i64, out: &mut Vec<u8>) -> std::result::Result<(), i64> {
    let (seconds, micros) = (
        micros.div_euclid(1_000_000),
        micros.rem_euclid(1_000_000) as u32,
    );
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    if !(1..=9999).contains(&year) {
        return Err(year);
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
    let mut texts = Rows::new(MYSQL, table, rows)?;
    let columns: Vec<_> = (0..rows.num_columns())
        .map(|at| texts.view(at).clone())
        .map(|view| (typed(&view.values), view))
        .collect();
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
                Some((number, flag)) => out.extend_from_slice(&[*number, *flag]),
                None => out.extend_from_slice(&[kind::STRING, 0]),
            }
        }
    }
    let mut at = 0;
    for row in 0..rows.num_rows() {
        for (number, (typed, column)) in columns.iter().enumerate() {
            match typed {
                _ if column.is_null(row) => out[nulls + at / 8] |= 1 << (at % 8),
                Some(_) => put_value(column, row, out)?,
                None => {
                    text.clear();
                    texts.text(number, row, &mut text)?;
                    put_length(text.len(), out);
                    out.extend_from_slice(&text);
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

    use arrow_array::types::Int8Type;
    use arrow_array::{
        ArrayRef, Date32Array, DictionaryArray, FixedSizeBinaryArray, Int16Array, Int8Array,
        StringArray, TimestampMicrosecondArray, UInt64Array,
    };

    use super::*;
    use venturi_testkit::{arrow::batch, roles};

    fn sent<const N: usize>(columns: [(&str, ArrayRef); N]) -> Vec<u8> {
        let rows = batch(columns);
        let table = Table::new("t", rows.schema(), &roles(&["a"], &[])).unwrap();
        let mut out = Vec::new();
        put(&table, &rows, &mut out).unwrap();
        out
    }

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
        let out = sent(columns);
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
    fn a_dictionary_goes_as_its_values() {
        let numbers = DictionaryArray::<Int8Type>::try_new(
            Int8Array::from(vec![Some(1), None]),
            Arc::new(Int16Array::from(vec![7, 8])),
        )
        .unwrap();
        let columns: [(&str, ArrayRef); 2] = [
            (
                "a",
                Arc::new(FixedSizeBinaryArray::try_from_iter([[1], [2]].iter()).unwrap()),
            ),
            ("b", Arc::new(numbers)),
        ];
        let out = sent(columns);
        let types = [252, 0, 2, 0];
        let expected = [
            &[0, 0, 0, 0, 0, 1, 0, 0, 0][..],
            &[0b1000, 1],
            &types,
            &types,
            &[1, 1, 8, 0],
            &[1, 2],
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn a_year_that_mysql_lacks() {
        assert_eq!(put_time(i64::MAX, &mut Vec::new()), Err(294_247));
        let before = -62_135_596_800_000_000; // 0001-01-01
        assert_eq!(put_time(before, &mut Vec::new()), Ok(()));
        assert_eq!(put_time(before - 1, &mut Vec::new()), Err(0));
    }
}
