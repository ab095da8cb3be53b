//! Native: blocks of columns, as ClickHouse keeps them. A block is the numbers of columns and rows,
//! then of each column its name, its type and its values; nulls are a byte a row before these.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take;

use super::build::{Builder, Room};
use super::rowbinary::{text, MOST_BATCH};
use super::take::Taker;
use super::types::{schema, Column, Layout, Type};
use super::varint;
use crate::error::{Error, Kind, Result};

/// Of a block.
const MOST_COLUMNS: u64 = 1 << 14;
/// A position within a column has 32 bits.
const MOST_COLUMN: usize = u32::MAX as usize;

/// A LowCardinality column: the version of its form, and what its first word may say.
const SHARED_DICTIONARIES: u64 = 1;
const INDEX_TYPE: u64 = 0xff;
const GLOBAL_DICTIONARY: u64 = 1 << 8;
const ADDITIONAL_KEYS: u64 = 1 << 9;

/// Reads blocks one after the other, in pieces as they come in: what was read of a block is not
/// read again when more of it is there.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// Columns of the block before, whose schema most blocks share.
    known: Option<(Vec<Column>, SchemaRef)>,
    block: Option<Block>,
}

/// A block that is on its way.
#[derive(Debug)]
struct Block {
    width: usize,
    rows: usize,
    room: Room,
    /// Everything before it is read.
    at: usize,
    columns: Vec<Column>,
    arrays: Vec<ArrayRef>,
    reading: Option<Reading>,
}

/// A column that is on its way.
#[derive(Debug)]
struct Reading {
    column: Column,
    builder: Builder,
    flags: Option<Vec<u8>>,
    /// Of strings: where those are that were found.
    spans: Vec<(u32, u32)>,
    /// Where its values begin, the nulls behind them.
    start: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::limited(MOST_BATCH)
    }
}

impl Decoder {
    /// With a bound on what a block may take in memory.
    pub fn limited(limit: usize) -> Self {
        Self {
            limit,
            known: None,
            block: None,
        }
    }

    /// Reads on in a block that begins at the front of `bytes`. `None`: it is not whole yet; the
    /// same bytes and more must be given the next time. Otherwise its rows (none for a block
    /// without any) and its length. After an error the decoder must not be used again.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<(RecordBatch, usize)>> {
        if self.block.is_none() {
            let Some((width, at)) = varint::read(bytes, 0)? else {
                return Ok(None);
            };
            let Some((rows, at)) = varint::read(bytes, at)? else {
                return Ok(None);
            };
            self.block = Some(Block::begin(width, rows, at, self.limit)?);
        }
        let Some(block) = &mut self.block else {
            return Ok(None);
        };
        if !block.read(bytes)? {
            return Ok(None);
        }
        let Some(block) = self.block.take() else {
            return Ok(None);
        };
        let schema = match &self.known {
            Some((columns, schema)) if *columns == block.columns => schema.clone(),
            _ => {
                let made = schema(&block.columns);
                self.known = Some((block.columns, made.clone()));
                made
            }
        };
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(block.rows));
        let batch = RecordBatch::try_new_with_options(schema, block.arrays, &options)?;
        Ok(Some((batch, block.at)))
    }

    /// Whether a block has begun and is not whole.
    pub fn is_within(&self) -> bool {
        self.block.is_some()
    }
}

impl Block {
    fn begin(width: u64, rows: u64, at: usize, limit: usize) -> Result<Self> {
        if width > MOST_COLUMNS || (width == 0 && rows > 0) {
            return Err(Error::protocol(format!(
                "Native: a block of {width} columns and {rows} rows"
            )));
        }
        // Every value has a byte at least.
        if rows > limit as u64 {
            return Err(too_large(limit));
        }
        Ok(Self {
            width: width as usize,
            rows: rows as usize,
            room: Room(limit),
            at,
            columns: Vec::new(),
            arrays: Vec::new(),
            reading: None,
        })
    }

    /// True: the block is whole.
    fn read(&mut self, bytes: &[u8]) -> Result<bool> {
        while self.arrays.len() < self.width {
            let mut reading = match self.reading.take() {
                Some(reading) => reading,
                None => {
                    let Some((name, at)) = text(bytes, self.at)? else {
                        return Ok(false);
                    };
                    let Some((kind, at)) = text(bytes, at)? else {
                        return Ok(false);
                    };
                    let parsed = Type::parse(&kind);
                    let kind = parsed.map_err(|error| error.context(format!("column {name}")))?;
                    let column = Column { name, kind };
                    self.at = at;
                    Reading {
                        builder: Builder::new(&column),
                        column,
                        flags: None,
                        spans: Vec::new(),
                        start: at,
                    }
                }
            };
            let name = &reading.column.name;
            let within = |error: Error| error.context(format!("column {name}"));
            let read = match (&reading.column.kind, self.rows) {
                (_, 0) => Ok(Some(self.at)),
                (Type::LowCardinality(_), rows) => {
                    let found = dictionary(bytes, self.at, rows, &reading.column, &mut self.room);
                    let found = found.map_err(within)?;
                    if let Some((array, at)) = found {
                        self.at = at;
                        self.columns.push(reading.column);
                        self.arrays.push(array);
                        continue;
                    }
                    Ok(None)
                }
                (_, rows) => reading.values(bytes, rows, &mut self.room),
            };
            match read? {
                Some(at) => self.at = at,
                None => {
                    self.reading = Some(reading);
                    return Ok(false);
                }
            }
            self.arrays.push(reading.builder.finish()?);
            self.columns.push(reading.column);
        }
        Ok(true)
    }
}

impl Reading {
    /// The place behind the column; `None`: it is not whole.
    fn values(&mut self, bytes: &[u8], rows: usize, room: &mut Room) -> Result<Option<usize>> {
        if self.column.kind.nullable() && self.flags.is_none() {
            let Some(flags) = bytes.get(self.start..self.start + rows) else {
                return Ok(None);
            };
            if flags.iter().any(|flag| *flag > 1) {
                return Err(Error::protocol(format!(
                    "column {}: nulls that are neither 0 nor 1",
                    self.column.name
                )));
            }
            self.builder.nulls(flags);
            self.flags = Some(flags.to_vec());
            self.start += rows;
        }
        match self.column.kind.layout() {
            Layout::Cells(width) => {
                if rows.saturating_mul(width) > room.0 {
                    return Err(too_large(room.0));
                }
                let end = self.start + rows * width;
                let Some(cells) = bytes.get(self.start..end) else {
                    return Ok(None);
                };
                self.builder.cells(cells, room)?;
                Ok(Some(end))
            }
            Layout::Strings => {
                let column = &bytes[self.start..];
                let mut at = self
                    .spans
                    .last()
                    .map_or(0, |span| (span.0 + span.1) as usize);
                while self.spans.len() < rows {
                    let Some((length, start)) = varint::read(column, at)? else {
                        return Ok(None);
                    };
                    if length > room.0 as u64 || start + length as usize > MOST_COLUMN {
                        return Err(too_large(room.0));
                    }
                    if start + length as usize > column.len() {
                        return Ok(None);
                    }
                    self.spans.push((start as u32, length as u32));
                    at = start + length as usize;
                }
                if let Some(flags) = &self.flags {
                    // What lies under a null is nothing, whatever was sent.
                    for (span, _) in self
                        .spans
                        .iter_mut()
                        .zip(flags)
                        .filter(|(_, flag)| **flag == 1)
                    {
                        span.1 = 0;
                    }
                }
                self.builder.strings(column, &self.spans, room)?;
                Ok(Some(self.start + at))
            }
        }
    }
}

fn too_large(limit: usize) -> Error {
    Error::new(
        Kind::Memory,
        format!(
            "Native: a block of more than {limit} bytes: ask for smaller ones (max_block_size)"
        ),
    )
}

fn word(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let word = bytes.get(*at..*at + 8)?.first_chunk()?;
    *at += 8;
    Some(u64::from_le_bytes(*word))
}

/// A LowCardinality column as the plain one that it stands for, and where it ends.
fn dictionary(
    bytes: &[u8],
    mut at: usize,
    rows: usize,
    column: &Column,
    room: &mut Room,
) -> Result<Option<(ArrayRef, usize)>> {
    let (Some(version), Some(form), Some(count)) = (
        word(bytes, &mut at),
        word(bytes, &mut at),
        word(bytes, &mut at),
    ) else {
        return Ok(None);
    };
    if version != SHARED_DICTIONARIES
        || form & GLOBAL_DICTIONARY != 0
        || form & ADDITIONAL_KEYS == 0
        || form & INDEX_TYPE > 3
    {
        return Err(Error::protocol(format!(
            "a LowCardinality column of form {version}/{form:#x}; cast it in the query, or use format rowbinary or arrow"
        )));
    }
    if count > room.0 as u64 {
        return Err(too_large(room.0));
    }
    let plain = Column {
        name: column.name.clone(),
        kind: column.kind.plain().clone(),
    };
    let mut keys = Reading {
        builder: Builder::new(&plain),
        column: plain,
        flags: None,
        spans: Vec::new(),
        start: at,
    };
    // Read again from the front when more is there: taken off the room once only.
    let mut left = *room;
    let Some(behind) = keys.values(bytes, count as usize, &mut left)? else {
        return Ok(None);
    };
    at = behind;
    let Some(found) = word(bytes, &mut at) else {
        return Ok(None);
    };
    if found != rows as u64 {
        return Err(Error::protocol(format!(
            "{found} values in a block of {rows} rows"
        )));
    }
    let width = 1usize << (form & INDEX_TYPE);
    let Some(cells) = bytes.get(at..at + rows * width) else {
        return Ok(None);
    };
    let keys = keys.builder.finish()?;
    let nullable = column.kind.nullable();
    let mut indices = Vec::with_capacity(rows);
    for cell in cells.chunks_exact(width) {
        let index = cell
            .iter()
            .rev()
            .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        if index >= count {
            return Err(Error::protocol(format!("key {index} of {count}")));
        }
        indices.push(index as u32);
    }
    // A key of many bytes may be meant by many rows.
    let bytes_of = |index: &u32| match keys.data_type() {
        arrow_schema::DataType::Utf8 => {
            let offsets = keys.as_string::<i32>().value_offsets();
            (offsets[*index as usize + 1] - offsets[*index as usize]) as usize + 4
        }
        _ => 16,
    };
    let total: usize = indices.iter().map(bytes_of).sum();
    if total > left.0 {
        return Err(too_large(left.0));
    }
    left.0 -= total;
    *room = left;
    let indices: UInt32Array = match nullable {
        // The first key stands for null.
        true => indices
            .into_iter()
            .map(|index| (index > 0).then_some(index))
            .collect(),
        false => indices.into(),
    };
    Ok(Some((take(&keys, &indices, None)?, at + rows * width)))
}

/// Writes a batch as one block behind what is in `out`. LowCardinality columns are written plain,
/// which every server takes.
pub fn encode(columns: &[Column], batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    if batch.num_columns() != columns.len() {
        return Err(Error::usage(format!(
            "a batch of {} columns for a table of {}",
            batch.num_columns(),
            columns.len()
        )));
    }
    let rows = batch.num_rows();
    varint::write(columns.len() as u64, out);
    varint::write(rows as u64, out);
    for (column, array) in columns.iter().zip(batch.columns()) {
        let kind = match &column.kind {
            Type::LowCardinality(inner) => inner.as_ref().clone(),
            kind => kind.clone(),
        };
        for text in [&column.name, &kind.to_string()] {
            varint::write(text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
        let column = Column {
            name: column.name.clone(),
            kind,
        };
        let taker = Taker::new(&column, array)?;
        taker.flags(0, rows, out);
        match taker.width() {
            Some(_) => taker.cells(0, rows, out)?,
            None => {
                for row in 0..rows {
                    let text = taker.text(row);
                    varint::write(text.len() as u64, out);
                    out.extend_from_slice(text);
                }
            }
        }
    }
    Ok(())
}
