//! A seeded table of rows as a database keeps its states: sixteen columns of mixed types as in
//! TPC-H's lineitem, as RowBinary bytes and as the batch that these stand for.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array,
    Int64Array, Int8Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};

use super::rowbinary::Encoder;
use super::types::{schema, Column, Names, Type};
use crate::data::records::Random;
use crate::error::{Error, Kind, Result};

/// About the bytes of a row in RowBinary.
pub const ROW_BYTES: usize = 120;
/// Of one block.
const LARGEST_BLOCK: usize = 4 << 20;
/// 1992-01-01 and 2,526 days on: TPC-H's orders.
const FIRST_DAY: i64 = 8_035;
const DAYS: u64 = 2_526;
const FLAGS: [&str; 3] = ["A", "N", "R"];
const INSTRUCTIONS: [&str; 4] = [
    "DELIVER IN PERSON",
    "COLLECT COD",
    "NONE",
    "TAKE BACK RETURN",
];
const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
const WORDS: [&str; 16] = [
    "carefully",
    "ironic",
    "deposits",
    "sleep",
    "quickly",
    "final",
    "requests",
    "above",
    "the",
    "furiously",
    "regular",
    "accounts",
    "haggle",
    "blithely",
    "express",
    "packages",
];
/// One in so many receipts is not known yet: null.
const UNKNOWN: u64 = 16;

/// The columns, in order.
pub fn columns() -> Vec<Column> {
    let money = || Type::Decimal(15, 2);
    let codes = FLAGS
        .iter()
        .zip(1..)
        .map(|(name, code)| (name.to_string(), code));
    let known = Type::Nullable(Box::new(Type::DateTime64(6, None)));
    let columns = [
        ("l_orderkey", Type::Int64),
        ("l_partkey", Type::Int32),
        ("l_suppkey", Type::Int32),
        ("l_linenumber", Type::Int8),
        ("l_quantity", money()),
        ("l_extendedprice", money()),
        ("l_discount", Type::Float64),
        ("l_tax", Type::Float32),
        (
            "l_returnflag",
            Type::Enum8(Arc::new(Names(codes.collect()))),
        ),
        ("l_open", Type::Bool),
        ("l_shipdate", Type::Date),
        ("l_commitdate", Type::Date32),
        ("l_receipttime", known),
        ("l_shipinstruct", Type::String),
        ("l_shipmode", Type::String),
        ("l_comment", Type::String),
    ];
    let column = |(name, kind): (&str, Type)| Column {
        name: name.into(),
        kind,
    };
    columns.into_iter().map(column).collect()
}

/// Block `index` of `rows` rows: the same for the same seed, index and rows.
pub fn batch(seed: u64, index: u64, rows: usize) -> Result<RecordBatch> {
    if rows > LARGEST_BLOCK {
        return Err(Error::new(
            Kind::Memory,
            format!("a block of {rows} state rows; the limit is {LARGEST_BLOCK}"),
        ));
    }
    let mut random = Random::seeded(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut draw = move |below: u64| (random.draw() as u64 >> 11) % below;
    let first = index as i64 * rows as i64;
    let mut made: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(
            (0..rows as i64).map(|row| (first + row) / 4 + 1),
        )),
        Arc::new(Int32Array::from_iter_values(
            (0..rows).map(|_| draw(200_000) as i32 + 1),
        )),
        Arc::new(Int32Array::from_iter_values(
            (0..rows).map(|_| draw(10_000) as i32 + 1),
        )),
        Arc::new(Int8Array::from_iter_values(
            (0..rows as i64).map(|row| ((first + row) % 4) as i8 + 1),
        )),
    ];
    for (low, range) in [(100, 5_000), (90_000, 10_400_000)] {
        let cents = (0..rows).map(|_| i128::from(low + draw(range)));
        made.push(Arc::new(
            Decimal128Array::from_iter_values(cents).with_precision_and_scale(15, 2)?,
        ));
    }
    made.push(Arc::new(Float64Array::from_iter_values(
        (0..rows).map(|_| draw(11) as f64 / 100.0),
    )));
    made.push(Arc::new(Float32Array::from_iter_values(
        (0..rows).map(|_| draw(9) as f32 / 100.0),
    )));
    made.push(Arc::new(StringArray::from_iter_values(
        (0..rows).map(|_| FLAGS[draw(3) as usize]),
    )));
    made.push(Arc::new(BooleanArray::from(
        (0..rows).map(|_| draw(2) == 1).collect::<Vec<_>>(),
    )));
    for _ in 0..2 {
        let days = (0..rows).map(|_| (FIRST_DAY + draw(DAYS) as i64) as i32);
        made.push(Arc::new(Date32Array::from_iter_values(days)));
    }
    let receipts = (0..rows).map(|_| {
        let micros = FIRST_DAY * 86_400_000_000 + draw(DAYS * 86_400_000_000) as i64;
        (draw(UNKNOWN) != 0).then_some(micros)
    });
    made.push(Arc::new(TimestampMicrosecondArray::from_iter(receipts)));
    made.push(Arc::new(StringArray::from_iter_values(
        (0..rows).map(|_| INSTRUCTIONS[draw(4) as usize]),
    )));
    made.push(Arc::new(StringArray::from_iter_values(
        (0..rows).map(|_| MODES[draw(7) as usize]),
    )));
    let mut comment = String::new();
    let comments = (0..rows).map(|_| {
        comment.clear();
        for word in 0..2 + draw(4) {
            if word > 0 {
                comment.push(' ');
            }
            comment.push_str(WORDS[draw(16) as usize]);
        }
        comment.clone()
    });
    made.push(Arc::new(StringArray::from_iter_values(comments)));
    Ok(RecordBatch::try_new(schema(&columns()), made)?)
}

/// The same block as RowBinary bytes.
pub fn bytes(seed: u64, index: u64, rows: usize) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(rows.min(LARGEST_BLOCK) * ROW_BYTES);
    Encoder::new(&columns()).encode(&batch(seed, index, rows)?, &mut out)?;
    Ok(out)
}
