//! Rows -> batches.
//!
//! The decoder goes over `BLOCK` rows twice. First row by row, to find where the values are: what
//! has a fixed width is passed over in one step. Then column by column, in loops without branches.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use super::{BLOCK, MOST_BATCH};
use crate::codec::clickhouse::build::{Builder, Room};
use crate::codec::clickhouse::types::{schema, Column, Layout};
use crate::codec::clickhouse::varint;
use crate::error::{Error, Result};

/// A position within a block has 32 bits.
const MOST_BLOCK: usize = 1 << 31;

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
            let width = builder.width();
            // A null FixedString of 16 MB is one byte on the wire.
            if rows * width > self.room.0 {
                return Err(too_large());
            }
            let flags = maybe.then_some(flags);
            if let Some(cells) = builder.plain_cells(rows, &mut self.room)? {
                cells_of(bytes, spans, place.behind, flags, width, cells)?;
                continue;
            }
            self.scratch.resize(rows * width, 0);
            let cells = &mut self.scratch[..];
            cells_of(bytes, spans, place.behind, flags, width, cells)?;
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

/// A column's cells, one behind the other; `flags`: where 1, there is none, and its cell is zeros.
fn cells_of(
    bytes: &[u8],
    spans: &[(u32, u32)],
    behind: usize,
    flags: Option<&[u8]>,
    width: usize,
    cells: &mut [u8],
) -> Result<()> {
    let gathered = match (width, flags) {
        (1, None) => gather::<1>(bytes, spans, behind, cells),
        (2, None) => gather::<2>(bytes, spans, behind, cells),
        (4, None) => gather::<4>(bytes, spans, behind, cells),
        (8, None) => gather::<8>(bytes, spans, behind, cells),
        (16, None) => gather::<16>(bytes, spans, behind, cells),
        (1, Some(flags)) => gather_some::<1>(bytes, spans, flags, cells),
        (2, Some(flags)) => gather_some::<2>(bytes, spans, flags, cells),
        (4, Some(flags)) => gather_some::<4>(bytes, spans, flags, cells),
        (8, Some(flags)) => gather_some::<8>(bytes, spans, flags, cells),
        (16, Some(flags)) => gather_some::<16>(bytes, spans, flags, cells),
        _ => gather_any(bytes, spans, behind, flags, cells),
    };
    gathered.ok_or_else(|| Error::protocol("a value behind the end"))
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
