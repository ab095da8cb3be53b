//! RowBinary: the values of one row after the other, nothing between them.
//!
//! The decoder goes over `BLOCK` rows twice. First row by row, to find where the values are: what
//! has a fixed width is passed over in one step. Then column by column, in loops without branches.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use super::build::{Builder, Room};
use super::take::Taker;
use super::types::{schema, Column, Layout, Type};
use super::varint;
use crate::error::{Error, Result};

/// Rows that are gone over twice: their bytes stay in the processor's cache.
const BLOCK: usize = 512;
/// What a batch may take in Arrow's memory.
pub const MOST_BATCH: usize = 1 << 30;
/// A position within a block has 32 bits.
const MOST_BLOCK: usize = 1 << 31;
/// Of a header.
const MOST_COLUMNS: u64 = 1 << 14;
const MOST_TEXT: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// So many bytes, of one or more columns.
    Fixed(usize),
    Text,
    /// After a byte that says whether it is there.
    MaybeFixed(usize),
    MaybeText,
}

/// A part of each row, and where it is in the rows of a block.
#[derive(Debug)]
struct Step {
    kind: Kind,
    /// Start and, of text, length.
    spans: Box<[(u32, u32); BLOCK]>,
    /// 1: null.
    flags: Box<[u8; BLOCK]>,
}

/// Where a column lies.
#[derive(Debug)]
struct Place {
    step: usize,
    /// Bytes behind the step's start.
    behind: usize,
}

#[derive(Debug)]
pub struct Decoder {
    schema: SchemaRef,
    steps: Vec<Step>,
    places: Vec<Place>,
    builders: Vec<Builder>,
    scratch: Vec<u8>,
    rows: usize,
    limit: usize,
    room: Room,
}

impl Decoder {
    /// Rows of no column have no bytes: there must be one at least.
    pub fn new(columns: &[Column]) -> Result<Self> {
        if columns.is_empty() {
            return Err(Error::usage("RowBinary: there are no columns"));
        }
        let mut steps: Vec<Step> = Vec::new();
        let mut places = Vec::with_capacity(columns.len());
        for column in columns {
            let kind = match (column.kind.layout(), column.kind.nullable()) {
                (Layout::Cells(width), false) => Kind::Fixed(width),
                (Layout::Cells(width), true) => Kind::MaybeFixed(width),
                (Layout::Strings, false) => Kind::Text,
                (Layout::Strings, true) => Kind::MaybeText,
            };
            let mut behind = 0;
            match (steps.last_mut().map(|step| &mut step.kind), kind) {
                (Some(Kind::Fixed(run)), Kind::Fixed(width)) => {
                    behind = *run;
                    *run += width;
                }
                _ => steps.push(Step {
                    kind,
                    spans: Box::new([(0, 0); BLOCK]),
                    flags: Box::new([0; BLOCK]),
                }),
            }
            places.push(Place {
                step: steps.len() - 1,
                behind,
            });
        }
        Ok(Self {
            schema: schema(columns),
            steps,
            places,
            builders: columns.iter().map(Builder::new).collect(),
            scratch: Vec::new(),
            rows: 0,
            limit: MOST_BATCH,
            room: Room(MOST_BATCH),
        })
    }

    /// Bounds what a batch may take in memory.
    pub fn limited(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self.room = Room(bytes);
        self
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Rows that `finish` would give.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes whole rows from the front of `bytes`, `most` at most; returns the bytes taken.
    /// After an error the decoder must not be used again.
    pub fn push(&mut self, bytes: &[u8], most: usize) -> Result<usize> {
        let (mut used, mut left) = (0, most);
        loop {
            let rest = &bytes[used..bytes.len().min(used + MOST_BLOCK)];
            let (rows, end) = self.find(rest, left.min(BLOCK))?;
            if rows == 0 {
                if left > 0 && rest.len() == MOST_BLOCK {
                    return Err(Error::protocol("a row of more than 2 GiB"));
                }
                return Ok(used);
            }
            self.columns(&rest[..end], rows)?;
            self.rows += rows;
            used += end;
            left -= rows;
        }
    }

    /// All rows that were taken since the last call.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        self.rows = 0;
        self.room = Room(self.limit);
        let columns = self.builders.iter_mut().map(Builder::finish);
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// The batch that `bytes` are, with exactly `rows` rows where that is known. Anything
    /// left over is an error.
    pub fn decode(&mut self, bytes: &[u8], rows: Option<usize>) -> Result<RecordBatch> {
        let used = self.push(bytes, rows.unwrap_or(usize::MAX))?;
        let (found, batch) = (self.rows, self.finish()?);
        if rows.is_some_and(|rows| rows != found) || used != bytes.len() {
            return Err(Error::protocol(format!(
                "RowBinary: {found} whole rows in the first {used} of {} bytes{}",
                bytes.len(),
                rows.map_or(String::new(), |rows| format!(
                    ", where {rows} were announced"
                ))
            )));
        }
        Ok(batch)
    }

    /// Finds the parts of up to `most` rows; returns how many are whole and where they end.
    fn find(&mut self, bytes: &[u8], most: usize) -> Result<(usize, usize)> {
        let mut end = 0;
        for row in 0..most.min(BLOCK) {
            let mut at = end;
            for step in &mut self.steps {
                match step.kind {
                    Kind::Fixed(width) => {
                        step.spans[row].0 = at as u32;
                        at += width;
                    }
                    Kind::MaybeFixed(width) => {
                        let Some(&flag) = bytes.get(at) else {
                            return Ok((row, end));
                        };
                        step.flags[row] = null(flag)?;
                        step.spans[row].0 = at as u32 + 1;
                        at += 1 + width * usize::from(flag ^ 1);
                    }
                    Kind::Text | Kind::MaybeText => {
                        if step.kind == Kind::MaybeText {
                            let Some(&flag) = bytes.get(at) else {
                                return Ok((row, end));
                            };
                            step.flags[row] = null(flag)?;
                            at += 1;
                            if flag == 1 {
                                step.spans[row] = (at as u32, 0);
                                continue;
                            }
                        }
                        let Some((length, start)) = varint::read(bytes, at)? else {
                            return Ok((row, end));
                        };
                        if length > MOST_BLOCK as u64 {
                            return Err(Error::protocol(format!(
                                "byte {at}: a string of {length} bytes"
                            )));
                        }
                        step.spans[row] = (start as u32, length as u32);
                        at = start + length as usize;
                    }
                }
                if at > bytes.len() {
                    return Ok((row, end));
                }
            }
            end = at;
        }
        Ok((most.min(BLOCK), end))
    }

    /// Gives each column its parts of the rows found.
    fn columns(&mut self, bytes: &[u8], rows: usize) -> Result<()> {
        for (place, builder) in self.places.iter().zip(&mut self.builders) {
            let step = &self.steps[place.step];
            let (spans, flags) = (&step.spans[..rows], &step.flags[..rows]);
            let maybe = matches!(step.kind, Kind::MaybeFixed(_) | Kind::MaybeText);
            if maybe {
                builder.nulls(flags);
            }
            if matches!(step.kind, Kind::Text | Kind::MaybeText) {
                builder.strings(bytes, spans, &mut self.room)?;
                continue;
            }
            let (width, cells) = (builder.width(), &mut self.scratch);
            // A null FixedString of 16 MB is one byte on the wire.
            if rows * width > self.room.0 {
                return Err(too_large());
            }
            cells.resize(rows * width, 0);
            let gathered = match (width, maybe) {
                (1, false) => gather::<1>(bytes, spans, place.behind, cells),
                (2, false) => gather::<2>(bytes, spans, place.behind, cells),
                (4, false) => gather::<4>(bytes, spans, place.behind, cells),
                (8, false) => gather::<8>(bytes, spans, place.behind, cells),
                (16, false) => gather::<16>(bytes, spans, place.behind, cells),
                (1, true) => gather_some::<1>(bytes, spans, flags, cells),
                (2, true) => gather_some::<2>(bytes, spans, flags, cells),
                (4, true) => gather_some::<4>(bytes, spans, flags, cells),
                (8, true) => gather_some::<8>(bytes, spans, flags, cells),
                (16, true) => gather_some::<16>(bytes, spans, flags, cells),
                _ => gather_any(bytes, spans, place.behind, maybe.then_some(flags), cells),
            };
            if gathered.is_none() {
                return Err(Error::protocol("a value behind the end"));
            }
            builder.cells(cells, &mut self.room)?;
        }
        Ok(())
    }
}

fn too_large() -> Error {
    Error::new(
        crate::error::Kind::Memory,
        "a block of more bytes than its bound: ask for smaller blocks (max_block_size)",
    )
}

#[inline]
fn null(flag: u8) -> Result<u8> {
    match flag {
        0 | 1 => Ok(flag),
        _ => Err(Error::protocol(format!(
            "{flag} where 0 (a value) or 1 (null) must be: the columns are others than was said"
        ))),
    }
}

fn gather<const W: usize>(
    bytes: &[u8],
    spans: &[(u32, u32)],
    behind: usize,
    cells: &mut [u8],
) -> Option<()> {
    let (cells, _) = cells.as_chunks_mut::<W>();
    for (cell, (start, _)) in cells.iter_mut().zip(spans) {
        *cell = *bytes.get(*start as usize + behind..)?.first_chunk()?;
    }
    Some(())
}

fn gather_some<const W: usize>(
    bytes: &[u8],
    spans: &[(u32, u32)],
    flags: &[u8],
    cells: &mut [u8],
) -> Option<()> {
    let (cells, _) = cells.as_chunks_mut::<W>();
    for ((cell, (start, _)), flag) in cells.iter_mut().zip(spans).zip(flags) {
        *cell = match flag {
            0 => *bytes.get(*start as usize..)?.first_chunk()?,
            _ => [0; W],
        };
    }
    Some(())
}

fn gather_any(
    bytes: &[u8],
    spans: &[(u32, u32)],
    behind: usize,
    flags: Option<&[u8]>,
    cells: &mut [u8],
) -> Option<()> {
    let width = cells.len() / spans.len().max(1);
    for (row, (cell, (start, _))) in cells.chunks_exact_mut(width).zip(spans).enumerate() {
        match flags.is_some_and(|flags| flags[row] == 1) {
            true => cell.fill(0),
            false => cell.copy_from_slice(bytes.get(*start as usize + behind..)?.get(..width)?),
        }
    }
    Some(())
}

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

/// Batches -> rows.
#[derive(Debug)]
pub struct Encoder {
    columns: Vec<Column>,
    cells: Vec<u8>,
    flags: Vec<u8>,
    /// Where each row of a block goes on.
    places: Vec<usize>,
}

impl Encoder {
    pub fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            cells: Vec::new(),
            flags: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Writes all rows of a batch, whose columns are in the order of ours, behind what is in `out`.
    pub fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        if batch.num_columns() != self.columns.len() {
            return Err(Error::usage(format!(
                "a batch of {} columns for a table of {}",
                batch.num_columns(),
                self.columns.len()
            )));
        }
        let pairs = self.columns.iter().zip(batch.columns());
        let takers = pairs.map(|(column, array)| Taker::new(column, array));
        let takers = takers.collect::<Result<Vec<_>>>()?;
        for start in (0..batch.num_rows()).step_by(BLOCK) {
            let rows = BLOCK.min(batch.num_rows() - start);
            self.block(&takers, start, rows, out)?;
        }
        Ok(())
    }

    fn block(
        &mut self,
        takers: &[Taker],
        start: usize,
        rows: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let places = &mut self.places;
        places.clear();
        places.resize(rows, 0);
        for taker in takers {
            taker.add_widths(start, places);
        }
        let mut end = out.len();
        for place in places.iter_mut() {
            end += std::mem::replace(place, end);
        }
        out.resize(end, 0);
        for taker in takers {
            self.flags.clear();
            taker.flags(start, rows, &mut self.flags);
            for (place, flag) in places.iter_mut().zip(&self.flags) {
                out[*place] = *flag;
                *place += 1;
            }
            let Some(width) = taker.width() else {
                for (row, place) in places.iter_mut().enumerate() {
                    if self.flags.get(row) == Some(&1) {
                        continue;
                    }
                    let text = taker.text(start + row);
                    let mut length = text.len() as u64;
                    while length >= 0x80 {
                        out[*place] = length as u8 | 0x80;
                        length >>= 7;
                        *place += 1;
                    }
                    out[*place] = length as u8;
                    *place += 1;
                    out[*place..*place + text.len()].copy_from_slice(text);
                    *place += text.len();
                }
                continue;
            };
            self.cells.clear();
            taker.cells(start, rows, &mut self.cells)?;
            match width {
                1 => scatter::<1>(&self.cells, &self.flags, places, out),
                2 => scatter::<2>(&self.cells, &self.flags, places, out),
                4 => scatter::<4>(&self.cells, &self.flags, places, out),
                8 => scatter::<8>(&self.cells, &self.flags, places, out),
                16 => scatter::<16>(&self.cells, &self.flags, places, out),
                _ => {
                    for (row, cell) in self.cells.chunks_exact(width).enumerate() {
                        if self.flags.get(row) != Some(&1) {
                            out[places[row]..places[row] + width].copy_from_slice(cell);
                            places[row] += width;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn scatter<const W: usize>(cells: &[u8], flags: &[u8], places: &mut [usize], out: &mut [u8]) {
    let (cells, _) = cells.as_chunks::<W>();
    for (row, (cell, place)) in cells.iter().zip(places).enumerate() {
        if flags.get(row) != Some(&1) {
            out[*place..*place + W].copy_from_slice(cell);
            *place += W;
        }
    }
}
