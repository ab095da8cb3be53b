//! Values of all types, as the protocol's bytes and as literals.

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
use venturi_testkit::arrow::array;
use venturi_testkit::assert_contains;

/// The bytes and the literal of the only value of a column.
fn value(values: impl Array + 'static) -> (Vec<u8>, String) {
    let values = array(values);
    let column = View::of("c", &values).unwrap();
    let (mut cells, mut text) = (Vec::new(), Vec::new());
    encode(&column, 0, Null::Null, &mut cells).unwrap();
    literal(&column, 0, Null::Null, &mut text).unwrap();
    (cells, String::from_utf8(text).unwrap())
}

#[test]
fn values_as_bytes_and_as_literals() {
    let decimal = |unscaled: i128| {
        let array = Decimal128Array::from(vec![unscaled]);
        value(array.with_precision_and_scale(20, 2).unwrap())
    };
    let time = Time64MicrosecondArray::from(vec![3_723_000_004]);
    let time_bytes = 3_723_000_004_000i64.to_be_bytes();
    let (second, micro) = (1000u64.to_be_bytes(), 1u64.to_be_bytes());
    let (not_a_number, large) = (f64::NAN.to_be_bytes(), 1e300f64.to_be_bytes());
    let (long, quoted) = ("longer than a view holds", "'longer than a view holds'");
    let view = value(StringViewArray::from(vec![long]));
    let bytes = BinaryArray::from(vec![&b"\0\xab"[..]]);
    let day = value(Date32Array::from(vec![1]));
    let nan = Float64Array::from(vec![f64::NAN]);
    /// What was written as bytes and as a literal, and what should have been.
    type Case<'a> = ((Vec<u8>, String), &'a [u8], &'a str);
    let cases: [Case<'_>; 16] = [
        (value(BooleanArray::from(vec![true])), &[1], "true"),
        (value(Int16Array::from(vec![-2])), &[0xff, 0xfe], "-2"),
        (value(UInt32Array::from(vec![7])), &7u64.to_be_bytes(), "7"),
        (value(StringArray::from(vec!["it's"])), b"it's", "'it''s'"),
        (value(StringArray::from(vec![""])), b"", "''"),
        (view, long.as_bytes(), quoted),
        (value(bytes), b"\0\xab", "0x00ab"),
        (day, &[0x80, 0, 0, 1], "2147483649"),
        (value(TimestampSecondArray::from(vec![1])), &second, "1000"),
        (value(TimestampMicrosecondArray::from(vec![1])), &micro, "1"),
        (value(time), &time_bytes, "'01:02:03.000004000'"),
        (decimal(-1), &[0, 0, 0, 2, 0xff], "-0.01"),
        (decimal(128), &[0, 0, 0, 2, 0, 0x80], "1.28"),
        (decimal(0), &[0, 0, 0, 2, 0], "0.00"),
        (value(nan), &not_a_number, "NaN"),
        (value(Float64Array::from(vec![1e300])), &large, "1e300"),
    ];
    for ((cells, text), bytes, literal) in cases {
        assert_eq!(cells, cell(bytes), "{literal}");
        assert_eq!(text, literal);
    }
    let null = value(Int64Array::from(vec![None]));
    assert_eq!(null, ((-1i32).to_be_bytes().to_vec(), "null".to_owned()));
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    assert_eq!(cql_type(&nanoseconds), Some("bigint"));
    assert_eq!(cql_type(&DataType::Float16), None);
}

#[test]
fn counters_take_any_integer_that_fits() {
    let encode = |values: ArrayRef| {
        let mut cells = Vec::new();
        encode(&View::of("c", &values).unwrap(), 0, Null::Zero, &mut cells).map(|()| cells)
    };
    for (values, number) in [
        (array(Int16Array::from(vec![-3])), -3i64),
        (array(Int64Array::from(vec![None])), 0),
    ] {
        assert_eq!(encode(values).unwrap(), cell(&number.to_be_bytes()));
    }
    let large = encode(array(UInt64Array::from(vec![u64::MAX]))).unwrap_err();
    assert_contains(&large.message, "beyond");
}
