use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Int16Type, TimestampMillisecondType, TimestampSecondType, UInt8Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow_buffer::NullBuffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use proptest::prelude::*;

use super::rowbinary::{header, read_header, Decoder, Encoder};
use super::types::schema;
use super::*;
use super::{native, types::columns_for};
use crate::data::digest;
use crate::error::Kind;
use venturi_testkit::arrow::{array, texts, values};
use venturi_testkit::assert_contains;

pub(super) fn column(name: &str, kind: &str) -> Column {
    Column {
        name: name.into(),
        kind: Type::parse(kind).unwrap(),
    }
}

fn decoded(columns: &[Column], bytes: &[u8], rows: usize) -> RecordBatch {
    let mut decoder = Decoder::new(columns).unwrap();
    decoder.decode(bytes, Some(rows)).unwrap()
}

fn encoded(columns: &[Column], batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(columns).encode(batch, &mut out).unwrap();
    out
}

/// Types of columns.
const ALL: &str = "Int8; Int16; Int32; Int64; UInt8; UInt16; UInt32; UInt64; Float32; Float64; Bool; String; \
    FixedString(3); FixedString(16); Date; Date32; DateTime; DateTime('Europe/Berlin'); DateTime64(2); \
    DateTime64(3); DateTime64(6, 'UTC'); DateTime64(9); Decimal(7, 2); Decimal(15, 4); Decimal(38, 10); UUID; \
    Enum8('a' = -128, 'it\\'s' = 127); Enum16('big' = 30000, '' = 0); LowCardinality(String)";

/// How many there are with those that can be null.
const KINDS: usize = 57;

/// The types, then those that can be null.
fn types() -> Vec<String> {
    let plain = ALL.split("; ").map(str::to_owned);
    let nullable = ALL.split("; ").filter(|text| !text.starts_with("Low"));
    plain
        .chain(nullable.map(|text| format!("Nullable({text})")))
        .collect()
}

#[test]
fn types_come_back_as_they_were_written() {
    for text in types() {
        let kind = Type::parse(&text).unwrap();
        assert_eq!(kind.to_string(), text);
        assert_eq!(kind.nullable(), text.starts_with("Nullable"));
    }
    assert_eq!(Type::parse("Decimal64(3)").unwrap(), Type::Decimal(18, 3));
    let nested = Type::parse("LowCardinality(Nullable(String))").unwrap();
    assert!(nested.nullable());
    assert_eq!(nested.plain(), &Type::String);
}

#[test]
fn types_that_are_none() {
    let wrong = "; int8; Int8); Array(Int8); FixedString; FixedString(0); FixedString(99999999); DateTime64(10); \
        DateTime64(; DateTime('UTC; Decimal(39, 2); Decimal(5, 6); Decimal(-1, 0); Enum8('a' = 128); Enum8('a'); \
        Enum8(); Nullable(Nullable(Int8)); LowCardinality(LowCardinality(String)); Nullable(Int8) x; \
        Tuple(Int8, Int8)";
    for text in wrong.split("; ") {
        let said = Type::parse(text).unwrap_err();
        assert_eq!(said.kind, Kind::Protocol, "{text}");
        assert!(said.message.starts_with("type "), "{said}");
    }
    let deep = "Nullable(".repeat(10_000) + "Int8" + &")".repeat(10_000);
    assert!(Type::parse(&deep).is_err());
}

#[test]
fn known_bytes() {
    // As clickhouse-server 18.16 writes
    // SELECT 1, 'ab', toDate(1), toNullable(toInt16(-2)), CAST(NULL, 'Nullable(UInt8)'), toDateTime(86400)
    let kinds = "UInt8; String; Date; Nullable(Int16); Nullable(UInt8); DateTime; UUID; Decimal(5, 1); DateTime64(1)";
    let columns: Vec<Column> = kinds.split("; ").map(|kind| column(kind, kind)).collect();
    let mut bytes = b"\x01\x02ab\x01\0\0\xfe\xff\x01\x80\x51\x01\0".to_vec();
    // 61f0c404-5cb3-11e7-907b-a6006ad3dba0
    bytes.extend(b"\xe7\x11\xb3\x5c\x04\xc4\xf0\x61\xa0\xdb\xd3\x6a\0\xa6\x7b\x90");
    bytes.extend(b"\x85\xff\xff\xff\x0b\0\0\0\0\0\0\0");
    let batch = decoded(&columns, &bytes, 1);
    assert_eq!(values::<UInt8Type>(&batch, 0), [Some(1)]);
    assert_eq!(texts(&batch, 1), [Some("ab")]);
    assert_eq!(values::<Date32Type>(&batch, 2), [Some(1)]);
    assert_eq!(values::<Int16Type>(&batch, 3), [Some(-2)]);
    assert_eq!(values::<UInt8Type>(&batch, 4), [None]);
    assert_eq!(values::<TimestampSecondType>(&batch, 5), [Some(86_400)]);
    let uuid = batch.column(6).as_fixed_size_binary().value(0);
    assert_eq!(uuid[..6], [0x61, 0xf0, 0xc4, 0x04, 0x5c, 0xb3]);
    assert_eq!(uuid[14..], [0xdb, 0xa0]);
    assert_eq!(values::<Decimal128Type>(&batch, 7), [Some(-123)]);
    assert_eq!(values::<TimestampMillisecondType>(&batch, 8), [Some(1_100)]);
    assert_eq!(encoded(&columns, &batch), bytes);
}

#[test]
fn state_rows_are_their_bytes() {
    let columns = state_rows::columns();
    assert_eq!(columns.len(), 16);
    for rows in [0, 1, 511, 512, 513, 3_000] {
        let batch = state_rows::batch(3, 1, rows).unwrap();
        let bytes = state_rows::bytes(3, 1, rows).unwrap();
        let found = decoded(&columns, &bytes, rows);
        assert_eq!(found, batch);
        assert_eq!(digest(&found).unwrap(), digest(&batch).unwrap());
    }
    let batch = state_rows::batch(3, 1, 3_000).unwrap();
    let nulls = batch.columns().iter().filter(|it| it.null_count() > 0);
    assert_eq!(nulls.count(), 1);
    assert_ne!(batch, state_rows::batch(4, 1, 3_000).unwrap());
    assert_ne!(batch, state_rows::batch(3, 2, 3_000).unwrap());
    let bytes = state_rows::bytes(3, 1, 3_000).unwrap().len() / 3_000;
    assert!((90..=state_rows::ROW_BYTES).contains(&bytes), "{bytes}");
    let too_many = state_rows::batch(1, 0, 1 << 40).unwrap_err();
    assert_eq!(too_many.kind, Kind::Memory);
}

#[test]
fn headers() {
    let columns = state_rows::columns();
    let bytes = header(&columns);
    assert_eq!(read_header(&bytes).unwrap(), Some((columns, bytes.len())));
    for end in 0..bytes.len() {
        assert_eq!(read_header(&bytes[..end]).unwrap(), None);
    }
    assert!(read_header(&[0]).is_err());
    assert!(read_header(&[0xff; 12]).is_err());
    assert!(read_header(b"\x01\xff\xff\xff\x7f").is_err());
    let said = read_header(b"\x01\x01a\x04What").unwrap_err();
    assert!(said.message.starts_with("column a: type What"), "{said}");
}

#[test]
fn lies_are_errors() {
    let decode = |kind: &str, bytes: &[u8], rows| {
        let mut decoder = Decoder::new(&[column("c", kind)]).unwrap().limited(1 << 20);
        decoder.decode(bytes, rows).unwrap_err()
    };
    // Rows that are not there, bytes behind the end, half a row.
    decode("Int32", &[1, 0, 0, 0], Some(2));
    decode("Int32", &[1, 0, 0, 0, 9], None);
    decode("String", b"\x05abcd", None);
    // Lengths that lie, and one without end.
    decode("String", b"\xff\xff\xff\xff\x0f", None);
    decode("String", &[0xff; 64], None);
    decode("Nullable(Int8)", &[2, 0], None);
    for (kind, bytes, said) in [
        ("String", &b"\x02\xff\xfe"[..], "UTF-8"),
        ("Enum8('a' = 1)", &[2], "0x2"),
        ("DateTime64(1)", &i64::MAX.to_le_bytes(), "time"),
    ] {
        let found = decode(kind, bytes, None).message;
        assert!(
            found.contains(said) && found.contains("column c"),
            "{found}"
        );
    }
    // A byte a row that would be much more in memory.
    let long = format!("Enum8('{}' = 0)", "x".repeat(1000));
    for (kind, byte) in [(&*long, 0), ("Nullable(FixedString(1000))", 1)] {
        assert_eq!(decode(kind, &[byte; 4096], None).kind, Kind::Memory);
    }
    assert!(Decoder::new(&[]).is_err());
}

#[test]
fn what_does_not_fit_is_said() {
    let batch = state_rows::batch(1, 0, 3).unwrap();
    let one = |name: &str, kind: &str| {
        let (at, _) = batch.schema().column_with_name(name).unwrap();
        let batch = batch.project(&[at]).unwrap();
        Encoder::new(&[column(name, kind)]).encode(&batch, &mut Vec::new())
    };
    one("l_receipttime", "Nullable(DateTime64(9))").unwrap();
    for (name, kind, said) in [
        ("l_orderkey", "Int32", "Int64 is not written as Int32"),
        ("l_receipttime", "Nullable(DateTime)", "whole seconds"),
        ("l_returnflag", "Enum8('Z' = 1)", "not a name"),
        ("l_extendedprice", "Decimal(15, 3)", "not written as"),
    ] {
        let error = one(name, kind).unwrap_err().message;
        assert!(error.contains(said) && error.contains(name), "{error}");
    }
}

#[test]
fn a_low_cardinality_block() {
    // SELECT toLowCardinality(['a', NULL, 'bc', 'a'][number + 1]) AS c, number AS n FROM numbers(4)
    let mut bytes = vec![2, 4, 1, b'c'];
    let kind = "LowCardinality(Nullable(String))";
    bytes.push(kind.len() as u8);
    bytes.extend(kind.bytes());
    for word in [1u64, 0x600, 3] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(b"\0\x01a\x02bc");
    bytes.extend(4u64.to_le_bytes());
    bytes.extend([1, 0, 2, 1]);
    bytes.extend(b"\x01n\x05UInt8\0\x01\x02\x03");
    for end in 0..bytes.len() {
        let mut decoder = native::Decoder::default();
        assert!(decoder.push(&bytes[..end]).unwrap().is_none(), "{end}");
        let (batch, used) = decoder.push(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        assert_eq!(texts(&batch, 0), [Some("a"), None, Some("bc"), Some("a")]);
    }
    // A key that is not there; a long key that many rows mean.
    let at = bytes.len() - 13;
    assert_eq!(bytes[at - 1], 2);
    let mut wrong = bytes.clone();
    wrong[at - 1] = 9;
    assert!(native::Decoder::default().push(&wrong).is_err());
}

#[test]
fn blocks_that_lie() {
    let push = |bytes: &[u8]| native::Decoder::limited(1 << 20).push(bytes);
    assert!(push(&[0, 5]).is_err());
    assert!(push(&[0xff; 30]).is_err());
    assert!(push(b"\x01\xff\xff\xff\xff\x0f").is_err());
    assert!(push(b"\x01\x02\x01c\x05Int").unwrap().is_none());
    assert!(push(b"\x01\x02\x01c\x04What").is_err());
    let exception = push(b"Code: 60. DB::Exception: there is no such table. It may be elsewhere");
    assert!(exception.is_err() || exception.is_ok_and(|found| found.is_none()));
    let (batch, used) = push(&[0, 0]).unwrap().unwrap();
    assert_eq!((batch.num_rows(), used), (0, 2));
    let old = columns_for(&state_rows::batch(0, 0, 1).unwrap().schema(), true).unwrap_err();
    assert_contains(&old.message, "l_receipttime");
    assert_contains(&old.message, "whole seconds");
}

/// A column of `rows` values of a type, nulls among them where it has some.
fn drawn(kind: &Type, rows: usize, draw: &mut impl FnMut() -> u64) -> ArrayRef {
    let nulls = kind
        .nullable()
        .then(|| NullBuffer::from_iter((0..rows).map(|_| !draw().is_multiple_of(4))));
    let numbers: Vec<u64> = (0..rows).map(|_| draw()).collect();
    let numbers = numbers.iter();
    let made = match kind.plain() {
        Type::String => {
            let all = numbers.map(|number| "ä".repeat(*number as usize % 90));
            array(StringArray::from_iter_values(all))
        }
        Type::Enum8(known) | Type::Enum16(known) => {
            let known = &known.0;
            let all = numbers.map(|number| &known[*number as usize % known.len()].0);
            array(StringArray::from_iter_values(all))
        }
        Type::Bool => {
            let all = numbers.map(|number| Some(number.is_multiple_of(2)));
            array(BooleanArray::from_iter(all))
        }
        plain => {
            let width = match plain.arrow() {
                DataType::FixedSizeBinary(width) => width as usize,
                other => other.primitive_width().unwrap(),
            };
            let mut cell = || match (plain, width) {
                (Type::Date, _) => (draw() % 65_536).to_le_bytes().to_vec(),
                (Type::DateTime(_), _) => (draw() % (1 << 32)).to_le_bytes().to_vec(),
                (Type::DateTime64(2, _), _) => (draw() % 1_000_000 * 10).to_le_bytes().to_vec(),
                (Type::Decimal(digits, _), _) => {
                    let most = 10i128.pow(u32::from(*digits));
                    (i128::from(draw() as i64 >> 24) % most)
                        .to_le_bytes()
                        .to_vec()
                }
                _ => [(); 4].map(|()| draw().to_le_bytes()).concat(),
            };
            let bytes: Vec<u8> = (0..rows).flat_map(|_| cell()[..width].to_vec()).collect();
            let data = ArrayData::builder(plain.arrow())
                .len(rows)
                .add_buffer(arrow_buffer::Buffer::from_vec(bytes));
            arrow_array::make_array(data.align_buffers(true).build().unwrap())
        }
    };
    let data = made.to_data().into_builder().nulls(nulls).build().unwrap();
    arrow_array::make_array(data)
}

pub(super) fn table(kinds: &[usize], rows: usize, seed: u64) -> (Vec<Column>, RecordBatch) {
    let mut random = crate::data::records::Random::seeded(seed);
    let mut draw = move || random.draw() as u64;
    let types = types();
    let kinds = kinds.iter().map(|kind| &types[kind % types.len()]);
    let columns = kinds
        .enumerate()
        .map(|(at, kind)| column(&format!("c{at}"), kind));
    let columns: Vec<Column> = columns.collect();
    let arrays = columns.iter().map(|it| drawn(&it.kind, rows, &mut draw));
    let batch = RecordBatch::try_new(schema(&columns), arrays.collect()).unwrap();
    (columns, batch)
}

/// Slices of them, of fewer rows than this.
fn tables(rows: usize) -> impl Strategy<Value = (Vec<Column>, RecordBatch)> {
    let kinds = prop::collection::vec(0..KINDS, 1..12);
    let drawn = (kinds, 0..rows, 0usize..9, any::<u64>());
    drawn.prop_map(|(kinds, rows, skip, seed)| {
        let (columns, whole) = table(&kinds, rows + skip, seed);
        (columns, whole.slice(skip, rows))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn rows_come_back((columns, batch) in tables(1_300), cut in 1usize..5_000) {
        let rows = batch.num_rows();
        let bytes = encoded(&columns, &batch);
        let found = decoded(&columns, &bytes, rows);
        prop_assert_eq!(digest(&found).unwrap(), digest(&batch).unwrap());
        prop_assert_eq!(&encoded(&columns, &found), &bytes);
        let mut decoder = Decoder::new(&columns).unwrap();
        // Where the bytes are cut makes no difference.
        let (mut used, mut seen) = (0, 0);
        while used < bytes.len() {
            seen = bytes.len().min(seen + cut);
            used += decoder.push(&bytes[used..seen], usize::MAX).unwrap();
        }
        prop_assert_eq!(decoder.finish().unwrap(), found);
    }

    #[test]
    fn blocks_come_back((columns, batch) in tables(700), cut in 1usize..5_000) {
        let mut bytes = Vec::new();
        native::encode(&columns, &batch, &mut bytes).unwrap();
        let length = bytes.len();
        native::encode(&columns, &batch, &mut bytes).unwrap();
        let mut decoder = native::Decoder::default();
        let (mut from, mut to, mut found) = (0, 0, 0);
        while from < bytes.len() {
            to = bytes.len().min(to + cut);
            while let Some((got, used)) = decoder.push(&bytes[from..to]).unwrap() {
                prop_assert_eq!(digest(&got).unwrap(), digest(&batch).unwrap());
                prop_assert_eq!(used, length);
                from += used;
                found += 1;
                if from == to {
                    break;
                }
            }
        }
        prop_assert_eq!((found, decoder.is_within()), (2, false));
    }

    #[test]
    fn no_bytes_panic_as_a_block(
        kinds in prop::collection::vec(0..KINDS, 1..4),
        rows in 1usize..40,
        at in prop::collection::vec(any::<(usize, u8)>(), 1..6),
        seed in any::<u64>(),
    ) {
        let (columns, batch) = table(&kinds, rows, seed);
        let mut bytes = Vec::new();
        native::encode(&columns, &batch, &mut bytes).unwrap();
        for (at, byte) in at {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let mut decoder = native::Decoder::limited(1 << 20);
        if let Ok(Some((batch, used))) = decoder.push(&bytes) {
            prop_assert!(used <= bytes.len());
            digest(&batch).unwrap();
        }
    }

    #[test]
    fn no_bytes_panic(
        kinds in prop::collection::vec(0..KINDS, 1..6),
        bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        low in any::<bool>(),
    ) {
        let bytes: Vec<u8> = bytes.iter().map(|byte| if low { byte % 3 } else { *byte }).collect();
        let (columns, _) = table(&kinds, 0, 0);
        let mut decoder = Decoder::new(&columns).unwrap().limited(1 << 22);
        if let Ok(batch) = decoder.decode(&bytes, None) {
            digest(&batch).unwrap();
        }
        let _ = read_header(&bytes);
    }
}
