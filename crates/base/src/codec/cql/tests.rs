//! Values as a server writes them, and bytes that are none.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int32Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema};
use proptest::prelude::*;

use super::*;
use crate::data::column::Columns;
use venturi_testkit::arrow::{self, items, values};
use venturi_testkit::assert_contains;

type Kind = (Form, DataType);

const NULL: [u8; 4] = (-1i32).to_be_bytes();
const INT: Kind = (Form::Int32, DataType::Int32);
const TEXT: Kind = (Form::Bytes, DataType::Utf8);
const VARINT: Kind = (Form::Varint, DataType::Utf8);
const DECIMAL: Kind = (Form::Decimal, DataType::Utf8);
const INET: Kind = (Form::Inet, DataType::Utf8);
const DURATION: Kind = (
    Form::Duration,
    DataType::Interval(IntervalUnit::MonthDayNano),
);

fn list_of((form, data_type): Kind) -> Kind {
    let item = Arc::new(Field::new_list_field(data_type, true));
    (Form::List(form.into()), DataType::List(item))
}

fn map_of((key, of_key): Kind, (value, of_value): Kind) -> Kind {
    let pair = Fields::from(vec![
        Field::new("key", of_key, false),
        Field::new("value", of_value, true),
    ]);
    let entries = Field::new("entries", DataType::Struct(pair), false);
    let data_type = DataType::Map(Arc::new(entries), false);
    (Form::Map([key, value].into()), data_type)
}

fn record_of<const N: usize>(fields: [(&str, Kind); N]) -> Kind {
    let named = fields
        .clone()
        .map(|(name, (_, kind))| Field::new(name, kind, true));
    let forms = fields.map(|(_, (form, _))| form);
    (
        Form::Struct(forms.into()),
        DataType::Struct(named.to_vec().into()),
    )
}

/// A value behind its length.
fn value(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A list's, or a map's, elements behind their number.
fn list(count: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    [&count.to_be_bytes()[..], &elements.concat()].concat()
}

/// One column's values, as one batch shows them.
fn column((form, data_type): &Kind, values: &[Option<&[u8]>]) -> Result<RecordBatch> {
    let schema = Schema::new(vec![Field::new("c", data_type.clone(), true)]);
    let mut columns = Columns::new(&Arc::new(schema), 1 << 20)?;
    for value in values {
        match value {
            Some(value) => push(form, &mut columns.each()[0], value)?,
            None => columns.each()[0].push_null(),
        }
        columns.row(value.map_or(0, <[u8]>::len))?;
    }
    columns.finish()?.ok_or_else(short)
}

/// The text of one value.
fn text(kind: &Kind, value: &[u8]) -> String {
    let batch = column(kind, &[Some(value)]).unwrap();
    arrow::texts(&batch, 0)[0].unwrap().to_owned()
}

#[test]
fn numbers_of_any_size_are_text() {
    let big = [&[0x01][..], &[0; 20]].concat();
    let least = [&[0x80][..], &[0; 23]].concat();
    for (bytes, expected) in [
        (&[0][..], "0"),
        (&[0xff], "-1"),
        (&[0x7f], "127"),
        (&[0x80], "-128"),
        (&[0, 0x80], "128"),
        // As Python says of 2**160 and -2**191.
        (&big, "1461501637330902918203684832716283019655932542976"),
        (
            &least,
            "-3138550867693340381917894711603833208051177722232017256448",
        ),
        (&[0; 40], "0"),
    ] {
        assert_eq!(text(&VARINT, bytes), expected);
    }
    for (scale, unscaled, expected) in [
        (2i32, &[0x30, 0x39][..], "123.45"),
        (2, &[0xfb], "-0.05"),
        (0, &[5], "5"),
        (-3, &[12], "1.2E+4"),
        (9, &[1], "1E-9"),
        (6, &[1], "0.000001"),
        (i32::MIN, &[7], "7E+2147483648"),
        (2, &[0], "0.00"),
    ] {
        let bytes = [&scale.to_be_bytes(), unscaled].concat();
        assert_eq!(text(&DECIMAL, &bytes), expected);
    }
    let long = vec![1; 5000];
    let error = column(&VARINT, &[Some(&long)]).unwrap_err();
    assert_contains(&error.message, "column c: a number of 5000 bytes");
}

#[test]
fn addresses_dates_and_durations() {
    assert_eq!(text(&INET, &[127, 0, 0, 1]), "127.0.0.1");
    assert_eq!(text(&INET, &1u128.to_be_bytes()), "::1");
    let [first, before, least] = [1u32 << 31, (1 << 31) - 1, 0].map(u32::to_be_bytes);
    let days = [Some(&first[..]), Some(&before), Some(&least), None];
    let found = values::<Date32Type>(&column(&(Form::Date, DataType::Date32), &days).unwrap(), 0);
    assert_eq!(found, [Some(0), Some(-1), Some(i32::MIN), None]);
    // 1 month, -2 days, 86,400,000,000,000 ns, as zigzag in vints: six bytes follow the last head.
    let nanos = 172_800_000_000_000u64.to_be_bytes();
    let value = [&[2, 3, 0xfc][..], &nanos[2..]].concat();
    let batch = column(&DURATION, &[Some(&value)]).unwrap();
    let expected = IntervalMonthDayNano::new(1, -2, 86_400_000_000_000);
    let seen = values::<IntervalMonthDayNanoType>(&batch, 0);
    assert_eq!(seen, [Some(expected)]);
}

#[test]
fn nulls_and_empty_values() {
    let batch = column(&INT, &[None, Some(&[]), Some(&1i32.to_be_bytes())]).unwrap();
    assert_eq!(batch.column(0).null_count(), 2);
    let batch = column(&TEXT, &[None, Some(&[])]).unwrap();
    assert_eq!(arrow::texts(&batch, 0), [None, Some("")]);
}

#[test]
fn lists_in_lists() {
    let one = list(2, &[value(1i32.to_be_bytes()), NULL.to_vec()]);
    let outer = list(2, &[value(one), value(list(0, &[]))]);
    let kind = list_of(list_of(INT));
    let batch = column(&kind, &[Some(&outer), None, Some(&[])]).unwrap();
    let lists = batch.column(0).as_list::<i32>();
    assert!(lists.is_null(1) && lists.value(2).is_empty());
    let first = lists.value(0);
    let first = first.as_list::<i32>();
    assert_eq!(items::<Int32Type>(&first.value(0)), [Some(1), None]);
    assert_eq!(first.value(1).len(), 0);
}

#[test]
fn maps_tuples_and_types_of_users() {
    let pair = |key: &str, number: i32| [value(key), value(number.to_be_bytes())].concat();
    let kind = map_of(TEXT, INT);
    let map = list(2, &[pair("a", 1), pair("b", 2)]);
    let batch = column(&kind, &[Some(&map), None, Some(&[])]).unwrap();
    let maps = batch.column(0).as_map();
    assert_eq!(items::<Int32Type>(maps.values()), [Some(1), Some(2)]);
    assert!(maps.value(0).len() == 2 && maps.is_null(1) && maps.value(2).is_empty());
    let without_key = list(1, &[NULL.to_vec(), value([0; 4])]);
    assert!(column(&kind, &[Some(&without_key)]).is_err());

    let tuple = record_of([("0", TEXT), ("1", INT)]);
    let batch = column(&tuple, &[Some(&pair("x", 5)), Some(&value("y"))]).unwrap();
    let found = batch.column(0).as_struct();
    assert_eq!(found.column(0).as_string::<i32>().value(1), "y");
    // Its second field was added later.
    assert!(found.column(1).is_null(1) && found.column(1).is_valid(0));
    let user = record_of([("f", TEXT)]);
    let batch = column(&user, &[Some(&value("z")), None]).unwrap();
    let field = batch.column(0).as_struct().column_by_name("f");
    assert_eq!(field.unwrap().len(), 2);
    assert!(column(&user, &[Some(&[value("z"), vec![0]].concat())]).is_err());
}

proptest! {
    #[test]
    fn no_bytes_of_a_value_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let record = record_of([("0", (Form::Float64, DataType::Float64))]);
        for kind in [INT, DECIMAL, INET, DURATION, list_of(VARINT), map_of(INT, record)] {
            let _ = column(&kind, &[Some(&bytes), None]);
        }
        let whole = list(1, &[value(&bytes)]);
        prop_assert!(column(&list_of(TEXT), &[Some(&whole[..whole.len() - 1])]).is_err());
    }

    #[test]
    fn integers_as_the_language_says_them(number: i128, scale in -3i32..12) {
        let found = text(&VARINT, &number.to_be_bytes());
        prop_assert_eq!(&found, &number.to_string());
        // More bytes than it needs change nothing.
        let sign = if number < 0 { 0xff } else { 0 };
        let long = [&[sign; 9][..], &number.to_be_bytes()].concat();
        prop_assert_eq!(&text(&VARINT, &long), &found);
        let value = [&scale.to_be_bytes()[..], &long].concat();
        let decimal = text(&DECIMAL, &value);
        let (mantissa, exponent) = decimal.split_once('E').unwrap_or((&decimal, "0"));
        let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{places}");
        prop_assert_eq!(digits.parse::<i128>().unwrap(), number);
        prop_assert_eq!(exponent.parse::<i32>().unwrap(), places.len() as i32 - scale);
    }
}
