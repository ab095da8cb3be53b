//! Values of all types, as the protocol's bytes and as literals.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::{
    Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int16Array,
    Int64Array, StringArray, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampSecondArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, TimeUnit};

use super::cell;
use crate::cassandra::values::{cql_type, encode, literal, Null};
use venturi_base::data::view::View;
use venturi_testkit::assert_contains;

/// The bytes and the literal of the only value of a column.
fn value(array: ArrayRef) -> (Vec<u8>, String) {
    let column = View::of("c", &array).unwrap();
    let (mut cells, mut text) = (Vec::new(), Vec::new());
    encode(&column, 0, Null::Null, &mut cells).unwrap();
    literal(&column, 0, Null::Null, &mut text).unwrap();
    (cells, String::from_utf8(text).unwrap())
}

#[test]
fn values_as_bytes_and_as_literals() {
    let decimal = |unscaled: i128| {
        let array = Decimal128Array::from(vec![unscaled]);
        value(Arc::new(array.with_precision_and_scale(20, 2).unwrap()))
    };
    let time = 3_723_000_004_000i64.to_be_bytes();
    let (not_a_number, large) = (f64::NAN.to_be_bytes(), 1e300f64.to_be_bytes());
    fn of(array: impl Array + 'static) -> (Vec<u8>, String) {
        value(Arc::new(array))
    }
    let long = "longer than a view holds";
    /// What was written as bytes and as a literal, and what should have been.
    type Case<'a> = ((Vec<u8>, String), &'a [u8], &'a str);
    let cases: [Case<'_>; 16] = [
        (of(BooleanArray::from(vec![true])), &[1], "true"),
        (of(Int16Array::from(vec![-2])), &[0xff, 0xfe], "-2"),
        (of(UInt32Array::from(vec![7])), &7u64.to_be_bytes(), "7"),
        (of(StringArray::from(vec!["it's"])), b"it's", "'it''s'"),
        (of(StringArray::from(vec![""])), b"", "''"),
        (
            of(StringViewArray::from(vec![long])),
            long.as_bytes(),
            "'longer than a view holds'",
        ),
        (
            of(BinaryArray::from(vec![&b"\0\xab"[..]])),
            b"\0\xab",
            "0x00ab",
        ),
        (
            of(Date32Array::from(vec![1])),
            &[0x80, 0, 0, 1],
            "2147483649",
        ),
        (
            of(TimestampSecondArray::from(vec![1])),
            &1000u64.to_be_bytes(),
            "1000",
        ),
        (
            of(TimestampMicrosecondArray::from(vec![1])),
            &1u64.to_be_bytes(),
            "1",
        ),
        (
            of(Time64MicrosecondArray::from(vec![3_723_000_004])),
            &time,
            "'01:02:03.000004000'",
        ),
        (decimal(-1), &[0, 0, 0, 2, 0xff], "-0.01"),
        (decimal(128), &[0, 0, 0, 2, 0, 0x80], "1.28"),
        (decimal(0), &[0, 0, 0, 2, 0], "0.00"),
        (of(Float64Array::from(vec![f64::NAN])), &not_a_number, "NaN"),
        (of(Float64Array::from(vec![1e300])), &large, "1e300"),
    ];
    for ((cells, text), bytes, literal) in cases {
        assert_eq!(cells, cell(bytes), "{literal}");
        assert_eq!(text, literal);
    }
    let null = value(Arc::new(Int64Array::from(vec![None])));
    assert_eq!(null, ((-1i32).to_be_bytes().to_vec(), "null".to_owned()));
    assert_eq!(
        cql_type(&DataType::Timestamp(TimeUnit::Nanosecond, None)),
        Some("bigint")
    );
    assert_eq!(cql_type(&DataType::Float16), None);
}

#[test]
fn counters_take_any_integer_that_fits() {
    let encode = |array: ArrayRef| {
        let mut cells = Vec::new();
        encode(&View::of("c", &array).unwrap(), 0, Null::Zero, &mut cells).map(|()| cells)
    };
    assert_eq!(
        encode(Arc::new(Int16Array::from(vec![-3]))).unwrap(),
        cell(&(-3i64).to_be_bytes())
    );
    assert_eq!(
        encode(Arc::new(Int64Array::from(vec![None]))).unwrap(),
        cell(&0i64.to_be_bytes())
    );
    let large = encode(Arc::new(UInt64Array::from(vec![u64::MAX]))).unwrap_err();
    assert_contains(&large.message, "beyond");
}
