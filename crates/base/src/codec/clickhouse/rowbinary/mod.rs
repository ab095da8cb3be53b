//! RowBinary: the values of one row after the other, nothing between them.

mod decode;
mod encode;

pub use decode::Decoder;
pub use encode::Encoder;

use super::types::{Column, Type};
use super::varint;
use crate::error::{Error, Result};

/// Rows that are gone over twice: their bytes stay in the processor's cache.
const BLOCK: usize = 512;
/// What a batch may take in Arrow's memory.
pub const MOST_BATCH: usize = 1 << 30;
/// Of a header.
const MOST_COLUMNS: u64 = 1 << 14;
const MOST_TEXT: u64 = 1 << 20;

/// Names and types as `RowBinaryWithNamesAndTypes` has them before the rows.
pub fn header(columns: &[Column]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(columns.len() as u64, &mut out);
    let names = columns.iter().map(|column| column.name.clone());
    let types = columns.iter().map(|column| column.kind.to_string());
    for text in names.chain(types) {
        varint::write(text.len() as u64, &mut out);
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// Reads what `header` wrote; returns it and its length. `None`: it is not whole yet.
pub fn read_header(bytes: &[u8]) -> Result<Option<(Vec<Column>, usize)>> {
    let Some((count, mut at)) = varint::read(bytes, 0)? else {
        return Ok(None);
    };
    if !(1..=MOST_COLUMNS).contains(&count) {
        return Err(Error::protocol(format!(
            "RowBinary: {count} columns; 1 to {MOST_COLUMNS} are read"
        )));
    }
    let mut texts = Vec::new();
    for _ in 0..2 * count {
        let Some((text, next)) = text(bytes, at)? else {
            return Ok(None);
        };
        texts.push(text);
        at = next;
    }
    let types = texts.split_off(count as usize);
    let columns = texts.into_iter().zip(types).map(|(name, kind)| {
        let kind = Type::parse(&kind).map_err(|error| error.context(format!("column {name}")))?;
        Ok(Column { name, kind })
    });
    Ok(Some((columns.collect::<Result<_>>()?, at)))
}

/// A name with its length before it, and where it ends.
pub(super) fn text(bytes: &[u8], at: usize) -> Result<Option<(String, usize)>> {
    let Some((length, start)) = varint::read(bytes, at)? else {
        return Ok(None);
    };
    if length > MOST_TEXT {
        return Err(Error::protocol(format!(
            "byte {at}: a name or type of {length} bytes; at most {MOST_TEXT} are read"
        )));
    }
    let end = start + length as usize;
    let Some(text) = bytes.get(start..end) else {
        return Ok(None);
    };
    match std::str::from_utf8(text) {
        Ok(text) => Ok(Some((text.to_owned(), end))),
        Err(_) => Err(Error::protocol(format!(
            "byte {start}: a name that is not UTF-8"
        ))),
    }
}
