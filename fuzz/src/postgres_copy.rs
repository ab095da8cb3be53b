//! A COPY in binary as a PostgreSQL sends it: an error, or a batch whose values can be read; where the
//! bytes are cut makes no difference. The first byte is that, the next ones say which columns rows have.

use venturi_core::data::digest;
use venturi_core::target::postgres::get::decode::Decoder;
use venturi_core::target::postgres::get::types::by_oid;
use venturi_core::target::read::{schema, Column, Question};

/// Types by their numbers in pg_type.dat, and modifiers: numeric(9, 2), numeric, arrays of both and of int4.
const KINDS: [(u32, i32); 18] = [
    (16, -1),
    (21, -1),
    (23, -1),
    (20, -1),
    (26, -1),
    (700, -1),
    (701, -1),
    (1700, (9 << 16 | 2) + 4),
    (1700, -1),
    (25, -1),
    (3802, -1),
    (1082, -1),
    (1083, -1),
    (1114, -1),
    (1186, -1),
    (1231, -1),
    (1231, (9 << 16 | 2) + 4),
    (1007, -1),
];
const LIMIT: usize = 1 << 20;

/// The digest of all rows, or what is wrong.
fn decoded(kinds: &[u8], bytes: &[u8], cut: usize) -> Result<Option<u64>, String> {
    let kinds = kinds
        .iter()
        .take(8)
        .map(|kind| KINDS[usize::from(*kind) % KINDS.len()]);
    let known = kinds.filter_map(|(oid, modifier)| by_oid(oid, modifier));
    let (forms, types): (Vec<_>, Vec<_>) = known.unzip();
    let column = |data_type| Column {
        name: "c".to_owned(),
        data_type,
        native: String::new(),
    };
    let columns: Vec<_> = types.into_iter().map(column).collect();
    let question = Question {
        statement: String::new(),
        schema: schema(&columns),
        rows_per_batch: 5,
        limit: LIMIT,
    };
    let mut decoder = Decoder::of(forms, &question).expect("columns that are known");
    let said = |error: venturi_core::error::Error| error.message;
    for piece in bytes.chunks(cut) {
        decoder.copied(piece).map_err(said)?;
    }
    decoder.end_copy().map_err(said)?;
    let batch = decoder.finish().map_err(said)?;
    Ok(batch.map(|batch| digest(&batch).expect("types that are known")))
}

pub fn run(input: &[u8]) {
    let (cut, rest) = super::first(input);
    let (kinds, bytes) = super::two(rest);
    let whole = decoded(kinds, bytes, usize::MAX);
    assert_eq!(whole, decoded(kinds, bytes, usize::from(cut) + 1));
}
