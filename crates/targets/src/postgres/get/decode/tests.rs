//! A COPY in any pieces, and what is none.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;

use super::*;
use venturi_testkit::arrow::{texts, values};
use venturi_testkit::assert_contains;

fn decoder_of(columns: Vec<(Form, DataType)>) -> Decoder {
    let (forms, types): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let fields = types.into_iter().map(|kind| Field::new("c", kind, true));
    let question = Question {
        statement: String::new(),
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        rows_per_batch: 3,
        limit: 1000,
    };
    Decoder::of(forms, &question).unwrap()
}

fn decoder() -> Decoder {
    decoder_of(vec![
        (Form::Int8, DataType::Int64),
        (Form::Bytes, DataType::Utf8),
    ])
}

fn copy() -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for row in 0..3i64 {
        bytes.extend_from_slice(&2i16.to_be_bytes());
        bytes.extend_from_slice(&8i32.to_be_bytes());
        bytes.extend_from_slice(&row.to_be_bytes());
        match row {
            1 => bytes.extend_from_slice(&(-1i32).to_be_bytes()),
            _ => bytes.extend_from_slice(b"\0\0\0\x02ab"),
        }
    }
    bytes.extend_from_slice(&(-1i16).to_be_bytes());
    bytes
}

#[test]
fn a_copy_in_any_pieces() {
    for cut in 1..copy().len() {
        let mut decoder = decoder();
        for piece in copy().chunks(cut) {
            decoder.copied(piece).unwrap();
        }
        decoder.end_copy().unwrap();
        assert!(decoder.is_full());
        let batch = decoder.finish().unwrap().unwrap();
        assert_eq!(values::<Int64Type>(&batch, 0), [Some(0), Some(1), Some(2)]);
        assert_eq!(texts(&batch, 1), [Some("ab"), None, Some("ab")]);
        assert!(decoder.finish().unwrap().is_none());
    }
    let mut cut_off = decoder();
    cut_off.copied(&copy()[..40]).unwrap();
    assert_contains(&cut_off.end_copy().unwrap_err().message, "broke off");
    let mut behind = decoder();
    let more = [copy(), vec![0]].concat();
    assert!(behind.copied(&more).is_err());
}

#[test]
fn what_is_announced_has_a_bound() {
    let mut long = decoder();
    let row = [&HEADER[..], b"\0\x02\0\0\0\x08", &[0; 8], b"\0\0\x03\xe0"].concat();
    assert_eq!(long.copied(&row).unwrap_err().kind, Kind::Memory);
    let mut header = HEADER;
    header[15..].copy_from_slice(&1001u32.to_be_bytes());
    let refused = decoder().copied(&header).unwrap_err();
    assert_contains(&refused.message, "max_block_size");
    // A day's end is a time to Postgres, and none to Arrow.
    let mut times = decoder_of(vec![(
        Form::Time,
        DataType::Time64(arrow_schema::TimeUnit::Microsecond),
    )]);
    let time = |micros: i64| [&[0, 1, 0, 0, 0, 8][..], &micros.to_be_bytes()].concat();
    let day = [&HEADER[..], &time(DAY_MICROS - 1), &time(DAY_MICROS)].concat();
    assert_contains(&times.copied(&day).unwrap_err().message, "24:00:00");
    // One digit far before the point: 10 bytes are 1,201 digits.
    let mut numbers = decoder_of(vec![(Form::Numeric, DataType::Utf8)]);
    let value: [u8; 10] = [0, 1, 1, 44, 0, 0, 0, 0, 0, 1];
    let refused = numbers.row(|_| Ok(Some(&value))).unwrap_err();
    assert_eq!(refused.kind, Kind::Memory);
}

proptest! {
    #[test]
    fn no_bytes_of_a_peer_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), headed: bool) {
        let mut decoder = decoder();
        let head = if headed { HEADER.to_vec() } else { Vec::new() };
        let _ = decoder.copied(&[head, bytes.clone()].concat());
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
        let mut column = Column::new("a", &list).unwrap();
        let _ = array(&Form::Int4, &mut column, &bytes);
        if let Ok(number) = Numeric::of(&bytes) {
            let text = number.text();
            prop_assert!(text.len() <= 2 * 70_000 + 10 && number.scaled(38, 4).is_none_or(|n| n.abs() < 10i128.pow(38)));
        }
    }
}
