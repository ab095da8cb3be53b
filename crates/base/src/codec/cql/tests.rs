//! Pages as a server writes them, and pages that are none.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int32Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{Field, Schema};
use proptest::prelude::*;

use super::*;
use crate::error::Kind as ErrorKind;
use venturi_testkit::arrow::{self, items, values};
use venturi_testkit::{assert_contains, assert_error};

/// A page of a table, each column by its type's bytes, with rows of values.
fn page(columns: &[(&str, &[u8])], rows: &[Vec<Option<Vec<u8>>>], next: Option<&[u8]>) -> Vec<u8> {
    let mut all = ROWS.to_be_bytes().to_vec();
    let flags = GLOBAL_TABLE | next.map_or(0, |_| MORE_PAGES);
    all.extend(flags.to_be_bytes());
    all.extend((columns.len() as u32).to_be_bytes());
    if let Some(next) = next {
        all.extend((next.len() as u32).to_be_bytes());
        all.extend(next);
    }
    let string = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    all.extend([string("ks"), string("t")].concat());
    for (name, kind) in columns {
        all.extend([&string(name), *kind].concat());
    }
    all.extend((rows.len() as u32).to_be_bytes());
    for cell in rows.iter().flatten() {
        all.extend(cell.as_ref().map_or(NULL.to_vec(), value));
    }
    all
}

const NULL: [u8; 4] = (-1i32).to_be_bytes();

/// A value behind its length.
fn value(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A list's, or a map's, elements behind their number.
fn list(count: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    [&count.to_be_bytes()[..], &elements.concat()].concat()
}

fn decoded(bytes: &[u8]) -> Result<RecordBatch> {
    let page = Page::parse(bytes)?.ok_or_else(short)?;
    let field = |one: &Definition| Field::new(&one.name, one.data_type.clone(), true);
    let fields: Vec<Field> = page.columns.iter().map(field).collect();
    let mut columns = Columns::new(&Arc::new(Schema::new(fields)), 1 << 20)?;
    let forms: Vec<Form> = page.columns.iter().map(|one| one.form.clone()).collect();
    let mut rest = page.body;
    for _ in 0..page.rows {
        rest = row(rest, &forms, &mut columns)?;
    }
    columns.finish()?.ok_or_else(short)
}

/// One column's values, as one batch shows them.
fn column(kind: &[u8], values: &[Option<&[u8]>]) -> Result<RecordBatch> {
    let rows = values.iter().map(|it| vec![it.map(<[u8]>::to_vec)]);
    decoded(&page(&[("c", kind)], &rows.collect::<Vec<_>>(), None))
}

/// The text of one value.
fn text(kind: &[u8], value: &[u8]) -> String {
    let batch = column(kind, &[Some(value)]).unwrap();
    arrow::texts(&batch, 0)[0].unwrap().to_owned()
}

#[test]
fn a_page_says_what_comes_next() {
    let rows = [vec![Some(7i32.to_be_bytes().to_vec())]];
    let bytes = page(&[("a", &[0, 9])], &rows, Some(b"on"));
    let found = Page::parse(&bytes).unwrap().unwrap();
    assert_eq!((found.next, found.rows), (Some(&b"on"[..]), 1));
    assert_eq!(&*found.columns[0].name, "a");
    assert_eq!(&*found.columns[0].native, "int");
    let batch = decoded(&bytes).unwrap();
    assert_eq!(values::<Int32Type>(&batch, 0), [Some(7)]);
    // A result that is no rows.
    assert_eq!(Page::parse(&1u32.to_be_bytes()).unwrap(), None);
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
        assert_eq!(text(&[0, 0x0e], bytes), expected);
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
        assert_eq!(text(&[0, 0x06], &bytes), expected);
    }
    let long = vec![1; 5000];
    let error = column(&[0, 0x0e], &[Some(&long)]).unwrap_err();
    assert_contains(&error.message, "column c: a number of 5000 bytes");
}

#[test]
fn addresses_dates_and_durations() {
    assert_eq!(text(&[0, 0x10], &[127, 0, 0, 1]), "127.0.0.1");
    assert_eq!(text(&[0, 0x10], &1u128.to_be_bytes()), "::1");
    let [first, before, least] = [1u32 << 31, (1 << 31) - 1, 0].map(u32::to_be_bytes);
    let days = [Some(&first[..]), Some(&before), Some(&least), None];
    let found = values::<Date32Type>(&column(&[0, 0x11], &days).unwrap(), 0);
    assert_eq!(found, [Some(0), Some(-1), Some(i32::MIN), None]);
    // 1 month, -2 days, 86,400,000,000,000 ns, as zigzag in vints: six bytes follow the last head.
    let nanos = 172_800_000_000_000u64.to_be_bytes();
    let value = [&[2, 3, 0xfc][..], &nanos[2..]].concat();
    let batch = column(&[0, 0x15], &[Some(&value)]).unwrap();
    let expected = IntervalMonthDayNano::new(1, -2, 86_400_000_000_000);
    let seen = values::<IntervalMonthDayNanoType>(&batch, 0);
    assert_eq!(seen, [Some(expected)]);
}

#[test]
fn nulls_and_empty_values() {
    let batch = column(&[0, 9], &[None, Some(&[]), Some(&1i32.to_be_bytes())]).unwrap();
    assert_eq!(batch.column(0).null_count(), 2);
    let batch = column(&[0, 0x0d], &[None, Some(&[])]).unwrap();
    assert_eq!(arrow::texts(&batch, 0), [None, Some("")]);
}

#[test]
fn lists_in_lists() {
    let one = list(2, &[value(1i32.to_be_bytes()), NULL.to_vec()]);
    let outer = list(2, &[value(one), value(list(0, &[]))]);
    let kind = [0, 0x20, 0, 0x22, 0, 9];
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
    let kind = [0, 0x21, 0, 0x0d, 0, 9];
    let map = list(2, &[pair("a", 1), pair("b", 2)]);
    let batch = column(&kind, &[Some(&map), None, Some(&[])]).unwrap();
    let maps = batch.column(0).as_map();
    assert_eq!(items::<Int32Type>(maps.values()), [Some(1), Some(2)]);
    assert!(maps.value(0).len() == 2 && maps.is_null(1) && maps.value(2).is_empty());
    let without_key = list(1, &[NULL.to_vec(), value([0; 4])]);
    assert!(column(&kind, &[Some(&without_key)]).is_err());

    let tuple = [0, 0x31, 0, 2, 0, 0x0d, 0, 9];
    let batch = column(&tuple, &[Some(&pair("x", 5)), Some(&value("y"))]).unwrap();
    let found = batch.column(0).as_struct();
    assert_eq!(found.column(0).as_string::<i32>().value(1), "y");
    // Its second field was added later.
    assert!(found.column(1).is_null(1) && found.column(1).is_valid(0));
    let user = b"\0\x30\0\x02ks\0\x02my\0\x01\0\x01f\0\x0d";
    let batch = column(user, &[Some(&value("z")), None]).unwrap();
    let field = batch.column(0).as_struct().column_by_name("f");
    assert_eq!(field.unwrap().len(), 2);
    assert!(column(user, &[Some(&[value("z"), vec![0]].concat())]).is_err());
}

#[test]
fn what_arrow_lacks_is_refused_by_name() {
    let custom = [&[0, 0, 0, 6][..], b"Vector"].concat();
    let error = column(&custom, &[]).unwrap_err();
    assert_error!(error, ErrorKind::Usage, "column c is Vector");
    assert_contains(&error.message, "toJson(c) AS c");
    let inside = [&[0, 0x21, 0, 0x0d][..], &custom].concat();
    let error = column(&inside, &[]).unwrap_err();
    assert_contains(&error.message, "map<text, Vector>");
    let deep = [0, 0x20].repeat(1000);
    assert_contains(&column(&deep, &[]).unwrap_err().message, "in one another");
}

proptest! {
    #[test]
    fn no_bytes_of_a_page_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..200) {
        let whole = page(
            &[("a", &[0, 9]), ("c", &[0, 0x20, 0, 0x06]), ("d", &[0, 0x15]), ("m", &[0, 0x21, 0, 9, 0, 0x31, 0, 1, 0, 3])],
            &[vec![Some(vec![0, 0, 0, 1]), Some(vec![0; 4]), Some(vec![0, 0, 0]), Some(vec![0; 4])]],
            None,
        );
        let mut broken = whole.clone();
        for (place, byte) in broken.iter_mut().skip(at).zip(&bytes) {
            *place = *byte;
        }
        let _ = decoded(&broken);
        let _ = decoded(&bytes);
        prop_assert!(decoded(&whole).is_ok());
        prop_assert!(decoded(&whole[..at.min(whole.len() - 1)]).is_err());
    }

    #[test]
    fn integers_as_the_language_says_them(number: i128, scale in -3i32..12) {
        let found = text(&[0, 0x0e], &number.to_be_bytes());
        prop_assert_eq!(&found, &number.to_string());
        // More bytes than it needs change nothing.
        let sign = if number < 0 { 0xff } else { 0 };
        let long = [&[sign; 9][..], &number.to_be_bytes()].concat();
        prop_assert_eq!(&text(&[0, 0x0e], &long), &found);
        let value = [&scale.to_be_bytes()[..], &long].concat();
        let decimal = text(&[0, 0x06], &value);
        let (mantissa, exponent) = decimal.split_once('E').unwrap_or((&decimal, "0"));
        let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{places}");
        prop_assert_eq!(digits.parse::<i128>().unwrap(), number);
        prop_assert_eq!(exponent.parse::<i32>().unwrap(), places.len() as i32 - scale);
    }
}
