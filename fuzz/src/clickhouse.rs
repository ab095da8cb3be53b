//! RowBinary and Native of a hostile server: an error, or batches whose values can be read; where
//! the bytes are cut makes no difference. The first byte is that, the next ones say which columns
//! rows have.

use venturi_core::codec::clickhouse::rowbinary::{header, read_header, Decoder};
use venturi_core::codec::clickhouse::{native, Column, Type};
use venturi_core::data::digest;

const KINDS: [&str; 16] = [
    "Int8",
    "UInt64",
    "Float32",
    "Bool",
    "String",
    "FixedString(3)",
    "Date",
    "DateTime('UTC')",
    "DateTime64(2)",
    "Decimal(7, 2)",
    "Decimal(30, 2)",
    "UUID",
    "Enum8('a' = 1, 'b' = -2)",
    "Nullable(Int16)",
    "Nullable(String)",
    "LowCardinality(Nullable(FixedString(9)))",
];
const LIMIT: usize = 1 << 22;

/// The batches' digests; `true`: it ended in an error.
fn blocks(bytes: &[u8], cut: usize) -> (Vec<u64>, bool) {
    let mut decoder = native::Decoder::limited(LIMIT);
    let (mut from, mut to, mut found) = (0, 0, Vec::new());
    while to < bytes.len() {
        to = to.saturating_add(cut).min(bytes.len());
        while from < to {
            match decoder.push(&bytes[from..to]) {
                Ok(Some((batch, used))) => {
                    found.push(digest(&batch).expect("types that are known"));
                    from += used;
                }
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

pub fn run(input: &[u8]) {
    let (cut, rest) = super::first(input);
    let (kinds, bytes) = super::two(rest);
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(kind) = Type::parse(text) {
            assert_eq!(Type::parse(&kind.to_string()).expect("as written"), kind);
        }
    }
    if let Ok(Some((columns, _))) = read_header(bytes) {
        let again = read_header(&header(&columns));
        assert_eq!(again.expect("as written").expect("whole").0, columns);
    }
    let whole = blocks(bytes, usize::MAX);
    assert_eq!(whole, blocks(bytes, usize::from(cut) + 1));
    let columns: Vec<Column> = kinds
        .iter()
        .take(20)
        .enumerate()
        .map(|(at, kind)| Column {
            name: format!("c{at}"),
            kind: Type::parse(KINDS[usize::from(*kind) % KINDS.len()]).expect("a type"),
        })
        .collect();
    if let Ok(decoder) = Decoder::new(&columns) {
        if let Ok(batch) = decoder.limited(LIMIT).decode(bytes, None) {
            digest(&batch).expect("types that are known");
        }
    }
}
