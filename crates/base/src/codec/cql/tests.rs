//! Pages as a server writes them, and pages that are none.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int32Type, IntervalMonthDayNanoType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{Field, Schema};
use proptest::prelude::*;

use super::*;
use crate::error::Kind as ErrorKind;
use venturi_testkit::assert_contains;

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
    let string = |all: &mut Vec<u8>, text: &str| {
        all.extend((text.len() as u16).to_be_bytes());
        all.extend(text.as_bytes());
    };
    string(&mut all, "ks");
    string(&mut all, "t");
    for (name, kind) in columns {
        string(&mut all, name);
        all.extend(*kind);
    }
    all.extend((rows.len() as u32).to_be_bytes());
    for value in rows.iter().flatten() {
        match value {
            None => all.extend((-1i32).to_be_bytes()),
            Some(value) => {
                all.extend((value.len() as u32).to_be_bytes());
                all.extend(value);
            }
        }
    }
    all
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
    let rows: Vec<_> = values
        .iter()
        .map(|it| vec![it.map(<[u8]>::to_vec)])
        .collect();
    decoded(&page(&[("c", kind)], &rows, None))
}

fn texts(kind: &[u8], values: &[&[u8]]) -> Vec<String> {
    let values: Vec<_> = values.iter().map(|value| Some(*value)).collect();
    let batch = column(kind, &values).unwrap();
    let texts = batch.column(0).as_string::<i32>();
    texts
        .iter()
        .map(|text| text.unwrap_or("null").to_owned())
        .collect()
}

#[test]
fn a_page_says_what_comes_next() {
    let bytes = page(
        &[("a", &[0, 9])],
        &[vec![Some(7i32.to_be_bytes().to_vec())]],
        Some(b"on"),
    );
    let found = Page::parse(&bytes).unwrap().unwrap();
    assert_eq!((found.next, found.rows), (Some(&b"on"[..]), 1));
    assert_eq!(&*found.columns[0].name, "a");
    assert_eq!(&*found.columns[0].native, "int");
    assert_eq!(
        decoded(&bytes)
            .unwrap()
            .column(0)
            .as_primitive::<Int32Type>()
            .value(0),
        7
    );
    // A result that is no rows.
    assert_eq!(Page::parse(&1u32.to_be_bytes()).unwrap(), None);
}

#[test]
fn numbers_of_any_size_are_text() {
    let big = [&[0x01][..], &[0; 20]].concat();
    let least = [&[0x80][..], &[0; 23]].concat();
    let values: [&[u8]; 8] = [
        &[0],
        &[0xff],
        &[0x7f],
        &[0x80],
        &[0, 0x80],
        &big,
        &least,
        &[0; 40],
    ];
    assert_eq!(
        texts(&[0, 0x0e], &values),
        [
            "0",
            "-1",
            "127",
            "-128",
            "128",
            "1461501637330902918203684832716283019655932542976",
            "-3138550867693340381917894711603833208051177722232017256448",
            "0",
        ]
    ); // as Python says of 2**160 and -2**191
    let of = |scale: i32, unscaled: &[u8]| [&scale.to_be_bytes()[..], unscaled].concat();
    let values = [
        of(2, &[0x30, 0x39]),
        of(2, &[0xfb]),
        of(0, &[5]),
        of(-3, &[12]),
        of(9, &[1]),
        of(6, &[1]),
        of(i32::MIN, &[7]),
        of(2, &[0]),
    ];
    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    assert_eq!(
        texts(&[0, 0x06], &values),
        [
            "123.45",
            "-0.05",
            "5",
            "1.2E+4",
            "1E-9",
            "0.000001",
            "7E+2147483648",
            "0.00"
        ]
    );
    let long = vec![1; 5000];
    let error = column(&[0, 0x0e], &[Some(&long)]).unwrap_err();
    assert_contains(&error.message, "column c: a number of 5000 bytes");
}

#[test]
fn addresses_dates_and_durations() {
    assert_eq!(
        texts(
            &[0, 0x10],
            &[
                &[127, 0, 0, 1],
                &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
            ]
        ),
        ["127.0.0.1", "::1"]
    );
    let days = [
        (1u32 << 31).to_be_bytes(),
        ((1u32 << 31) - 1).to_be_bytes(),
        [0; 4],
    ];
    let batch = column(
        &[0, 0x11],
        &[Some(&days[0]), Some(&days[1]), Some(&days[2]), None],
    )
    .unwrap();
    let found: Vec<_> = batch
        .column(0)
        .as_primitive::<Date32Type>()
        .iter()
        .collect();
    assert_eq!(found, [Some(0), Some(-1), Some(i32::MIN), None]);
    // 1 month, -2 days, 86,400,000,000,000 ns, as zigzag in vints: six bytes follow the last head.
    let nanos = 172_800_000_000_000u64.to_be_bytes();
    let value = [&[2, 3, 0xfc][..], &nanos[2..]].concat();
    let batch = column(&[0, 0x15], &[Some(&value)]).unwrap();
    let found = batch
        .column(0)
        .as_primitive::<IntervalMonthDayNanoType>()
        .value(0);
    assert_eq!(found.months, 1);
    assert_eq!(found.days, -2);
    assert_eq!(found.nanoseconds, 86_400_000_000_000);
}

#[test]
fn nulls_and_empty_values() {
    let batch = column(&[0, 9], &[None, Some(&[]), Some(&1i32.to_be_bytes())]).unwrap();
    assert_eq!(batch.column(0).null_count(), 2);
    let batch = column(&[0, 0x0d], &[None, Some(&[])]).unwrap();
    assert_eq!(batch.column(0).null_count(), 1);
    assert_eq!(batch.column(0).as_string::<i32>().value(1), "");
}

#[test]
fn lists_in_lists() {
    let inner = |values: &[Option<i32>]| {
        let mut all = (values.len() as u32).to_be_bytes().to_vec();
        for value in values {
            match value {
                Some(value) => all.extend([4u32.to_be_bytes(), value.to_be_bytes()].concat()),
                None => all.extend((-1i32).to_be_bytes()),
            }
        }
        all
    };
    let (one, two) = (inner(&[Some(1), None]), inner(&[]));
    let mut outer = 2u32.to_be_bytes().to_vec();
    for list in [&one, &two] {
        outer.extend((list.len() as u32).to_be_bytes());
        outer.extend(list);
    }
    let kind = [0, 0x20, 0, 0x22, 0, 9];
    let batch = column(&kind, &[Some(&outer), None, Some(&[])]).unwrap();
    let lists = batch.column(0).as_list::<i32>();
    assert!(lists.is_null(1) && lists.value(2).is_empty());
    let first = lists.value(0);
    let first = first.as_list::<i32>();
    let found: Vec<_> = first.value(0).as_primitive::<Int32Type>().iter().collect();
    assert_eq!((found, first.value(1).len()), (vec![Some(1), None], 0));
}

#[test]
fn maps_tuples_and_types_of_users() {
    let value = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let pair =
        |key: &str, number: i32| [value(key.as_bytes()), value(&number.to_be_bytes())].concat();
    let map = [&2u32.to_be_bytes()[..], &pair("a", 1), &pair("b", 2)].concat();
    let batch = column(&[0, 0x21, 0, 0x0d, 0, 9], &[Some(&map), None, Some(&[])]).unwrap();
    let maps = batch.column(0).as_map();
    assert_eq!(maps.values().as_primitive::<Int32Type>().values(), &[1, 2]);
    assert_eq!(maps.value(0).len(), 2);
    assert!(maps.is_null(1));
    assert_eq!(maps.value(2).len(), 0);
    let lame = [
        &1u32.to_be_bytes()[..],
        &(-1i32).to_be_bytes(),
        &value(&[0; 4]),
    ]
    .concat();
    assert!(column(&[0, 0x21, 0, 0x0d, 0, 9], &[Some(&lame)]).is_err());

    let tuple = [0, 0x31, 0, 2, 0, 0x0d, 0, 9];
    let batch = column(&tuple, &[Some(&pair("x", 5)), Some(&value(b"y"))]).unwrap();
    let found = batch.column(0).as_struct();
    assert_eq!(found.column(0).as_string::<i32>().value(1), "y");
    // Its second field was added later.
    assert!(found.column(1).is_null(1) && found.column(1).is_valid(0));
    let user = [
        &[0, 0x30, 0, 2][..],
        b"ks",
        &[0, 2],
        b"my",
        &[0, 1, 0, 1],
        b"f",
        &[0, 0x0d],
    ]
    .concat();
    let batch = column(&user, &[Some(&value(b"z")), None]).unwrap();
    assert_eq!(
        batch
            .column(0)
            .as_struct()
            .column_by_name("f")
            .unwrap()
            .len(),
        2
    );
    assert!(column(&user, &[Some(&[value(b"z"), vec![0]].concat())]).is_err());
}

#[test]
fn what_arrow_lacks_is_refused_by_name() {
    let custom = [&[0, 0, 0, 6][..], b"Vector"].concat();
    let error = column(&custom, &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
    assert_contains(&error.message, "column c is Vector");
    assert!(error.message.contains("toJson(c) AS c"));
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
        let text = texts(&[0, 0x0e], &[&number.to_be_bytes()]);
        prop_assert_eq!(&text[0], &number.to_string());
        // More bytes than it needs change nothing.
        let sign = if number < 0 { 0xff } else { 0 };
        let long = [&[sign; 9][..], &number.to_be_bytes()].concat();
        prop_assert_eq!(&texts(&[0, 0x0e], &[&long]), &text);
        let value = [&scale.to_be_bytes()[..], &long].concat();
        let decimal = texts(&[0, 0x06], &[&value]).remove(0);
        let (mantissa, exponent) = decimal.split_once('E').unwrap_or((&decimal, "0"));
        let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{places}");
        prop_assert_eq!(digits.parse::<i128>().unwrap(), number);
        prop_assert_eq!(exponent.parse::<i32>().unwrap(), places.len() as i32 - scale);
    }
}
