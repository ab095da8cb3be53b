//! Cells and strings of ClickHouse's -> a column of Arrow's.

use std::sync::Arc;

use arrow_array::{make_array, ArrayRef, StringArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::types::{unit, Column, Layout, Names, Type};
use crate::codec::slab::{Growing, Pool};
use crate::error::{Error, Kind, Result};

/// Free memory that a column keeps, in blocks: as many as are in flight at a time between who makes
/// them and who sends them. Theirs is what it was before, so the bound on those bounds it too.
const KEPT: usize = 64;

/// What all columns of a batch may still take; a code of one byte may stand for a long name.
#[derive(Debug, Clone, Copy)]
pub struct Room(pub usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<()> {
        match self.0.checked_sub(bytes) {
            Some(left) => self.0 = left,
            None => {
                return Err(Error::new(
                    Kind::Memory,
                    "a block of more bytes than its bound: ask for smaller blocks (max_block_size)",
                ))
            }
        }
        Ok(())
    }
}

/// What becomes of a cell.
#[derive(Debug)]
enum How {
    /// It is Arrow's value.
    Plain,
    Bool,
    Days,
    Seconds,
    Scaled(i64),
    Wide4,
    Wide8,
    Uuid,
    Code1(Codes),
    Code2(Codes),
    Text,
}

/// Names by code, found without a search.
#[derive(Debug)]
struct Codes {
    names: Arc<Names>,
    /// The place in `names` + 1, by the code's bits; 0: no such code.
    places: Vec<u32>,
}

impl Codes {
    fn new(names: &Arc<Names>, bits: u32) -> Self {
        let mut places = vec![0; 1 << bits];
        let mask = (1usize << bits) - 1;
        for (place, (_, code)) in names.0.iter().enumerate() {
            places[*code as u16 as usize & mask] = place as u32 + 1;
        }
        let names = names.clone();
        Self { names, places }
    }

    fn name(&self, bits: usize) -> Option<&str> {
        let place = self.places[bits].checked_sub(1)?;
        Some(self.names.0[place as usize].0.as_str())
    }
}

/// One column in the making.
#[derive(Debug)]
pub struct Builder {
    name: String,
    data_type: DataType,
    how: How,
    width: usize,
    rows: usize,
    values: Growing,
    /// Of strings: 0, then where they end.
    offsets: Growing,
    /// A byte a row, 1 is null; empty while there is no null.
    nulls: Vec<u8>,
}

impl Builder {
    pub fn new(column: &Column) -> Self {
        let plain = column.kind.plain();
        let how = match plain {
            Type::String => How::Text,
            Type::Bool => How::Bool,
            Type::Date => How::Days,
            Type::DateTime(_) => How::Seconds,
            Type::DateTime64(digits, _) => match unit(*digits).1 {
                1 => How::Plain,
                factor => How::Scaled(factor),
            },
            Type::Decimal(..) => match plain.layout() {
                Layout::Cells(4) => How::Wide4,
                Layout::Cells(8) => How::Wide8,
                _ => How::Plain,
            },
            Type::Uuid => How::Uuid,
            Type::Enum8(names) => How::Code1(Codes::new(names, 8)),
            Type::Enum16(names) => How::Code2(Codes::new(names, 16)),
            _ => How::Plain,
        };
        Self {
            name: column.name.clone(),
            data_type: column.kind.arrow(),
            how,
            width: match plain.layout() {
                Layout::Cells(width) => width,
                Layout::Strings => 0,
            },
            rows: 0,
            values: Growing::new(Pool::keeping(KEPT)),
            offsets: Growing::new(Pool::keeping(KEPT)),
            nulls: Vec::new(),
        }
    }

    /// Bytes of a cell.
    pub fn width(&self) -> usize {
        self.width
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        wrong(&self.name, what)
    }

    /// Notes which of the next rows are null (1); call it before their cells or strings.
    pub fn nulls(&mut self, flags: &[u8]) {
        if self.nulls.is_empty() && flags.iter().all(|flag| *flag == 0) {
            return;
        }
        self.nulls.resize(self.rows, 0);
        self.nulls.extend_from_slice(flags);
    }

    /// Room for the next rows' cells, where they are Arrow's values as they stand.
    pub fn plain_cells(&mut self, rows: usize, room: &mut Room) -> Result<Option<&mut [u8]>> {
        let How::Plain = self.how else {
            return Ok(None);
        };
        room.take(rows * self.width)?;
        self.rows += rows;
        Ok(Some(self.values.add(rows * self.width)))
    }

    /// Adds a row a cell.
    pub fn cells(&mut self, cells: &[u8], room: &mut Room) -> Result<()> {
        let rows = cells.len() / self.width.max(1);
        match &self.how {
            How::Plain => {
                room.take(cells.len())?;
                self.values.add(cells.len()).copy_from_slice(cells);
            }
            How::Bool => {
                room.take(rows)?;
                self.values.add(rows).copy_from_slice(cells);
            }
            How::Days => self.each(cells, room, |cell: [u8; 2]| {
                i32::from(u16::from_le_bytes(cell))
            })?,
            How::Seconds => self.each(cells, room, |cell: [u8; 4]| {
                i64::from(u32::from_le_bytes(cell))
            })?,
            How::Scaled(factor) => {
                let (factor, mut over) = (*factor, false);
                self.each(cells, room, |cell: [u8; 8]| {
                    let (value, wraps) = i64::from_le_bytes(cell).overflowing_mul(factor);
                    over |= wraps;
                    value
                })?;
                if over {
                    return Err(self.wrong("a time that Arrow has no number for"));
                }
            }
            How::Wide4 => self.each(cells, room, |cell: [u8; 4]| {
                i128::from(i32::from_le_bytes(cell))
            })?,
            How::Wide8 => self.each(cells, room, |cell: [u8; 8]| {
                i128::from(i64::from_le_bytes(cell))
            })?,
            // Two numbers, the upper half first.
            How::Uuid => self.each(cells, room, |cell: [u8; 16]| {
                let value = u128::from_le_bytes(cell).rotate_left(64);
                i128::from_ne_bytes(value.to_be_bytes())
            })?,
            How::Code1(_) | How::Code2(_) => self.codes(cells, room)?,
            How::Text => return Err(self.wrong("strings are no cells")),
        }
        self.rows += rows;
        Ok(())
    }

    /// Adds what `make` makes of each cell.
    fn each<const W: usize, T: arrow_buffer::ArrowNativeType>(
        &mut self,
        cells: &[u8],
        room: &mut Room,
        mut make: impl FnMut([u8; W]) -> T,
    ) -> Result<()> {
        let (cells, _) = cells.as_chunks::<W>();
        room.take(cells.len() * size_of::<T>())?;
        let values = self.values.add_values::<T>(cells.len());
        for (value, cell) in values.iter_mut().zip(cells) {
            *value = make(*cell);
        }
        Ok(())
    }

    fn codes(&mut self, cells: &[u8], room: &mut Room) -> Result<()> {
        let (codes, wide) = match &self.how {
            How::Code1(codes) => (codes, false),
            How::Code2(codes) => (codes, true),
            _ => return Ok(()),
        };
        let step = if wide { 2 } else { 1 };
        begin(&mut self.offsets);
        let offsets = self.offsets.add_values::<i32>(cells.len() / step);
        for ((row, cell), offset) in cells.chunks_exact(step).enumerate().zip(offsets) {
            let bits = match cell {
                [low, high] => usize::from(u16::from_le_bytes([*low, *high])),
                _ => usize::from(cell[0]),
            };
            let null = self
                .nulls
                .get(self.rows + row)
                .is_some_and(|flag| *flag != 0);
            let name = match codes.name(bits) {
                _ if null => "",
                Some(name) => name,
                None => return Err(wrong(&self.name, format!("no name has the code {bits:#x}"))),
            };
            room.take(name.len() + 4)?;
            self.values.add(name.len()).copy_from_slice(name.as_bytes());
            *offset = end(self.values.len(), &self.name)?;
        }
        Ok(())
    }

    /// Adds a row a span (start and length) of `bytes`. A span outside is an error.
    pub fn strings(&mut self, bytes: &[u8], spans: &[(u32, u32)], room: &mut Room) -> Result<()> {
        /// Most strings are short: a copy of so many bytes needs no call.
        const SHORT: usize = 16;
        let total: usize = spans.iter().map(|(_, length)| *length as usize).sum();
        room.take(total + 4 * spans.len())?;
        let first = self.values.len();
        end(first + total, &self.name)?;
        begin(&mut self.offsets);
        let offsets = self.offsets.add_values::<i32>(spans.len());
        let values = self.values.add(total + SHORT);
        let mut at = 0;
        for (&(start, length), offset) in spans.iter().zip(offsets) {
            let (start, length) = (start as usize, length as usize);
            match bytes.get(start..start + SHORT) {
                Some(whole) if length <= SHORT => {
                    values[at..at + SHORT].copy_from_slice(whole);
                }
                _ => match bytes.get(start..start + length) {
                    Some(text) => values[at..at + length].copy_from_slice(text),
                    None => return Err(Error::protocol("a string behind the end")),
                },
            }
            at += length;
            *offset = (first + at) as i32;
        }
        self.values.truncate(first + at);
        self.rows += spans.len();
        Ok(())
    }

    /// The column; the builder is empty afterwards.
    pub fn finish(&mut self) -> Result<ArrayRef> {
        let rows = std::mem::take(&mut self.rows);
        let flags = &self.nulls;
        let nulls = (!flags.is_empty())
            .then(|| NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| flags[row] == 0)));
        self.nulls.clear();
        match &self.how {
            How::Text | How::Code1(_) | How::Code2(_) => {
                begin(&mut self.offsets);
                let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets.finish()));
                let values = self.values.finish();
                let array = StringArray::try_new(offsets, values, nulls).map_err(|_| {
                    self.wrong(
                        "a string that is not UTF-8: select it as hex(x) or as a FixedString",
                    )
                })?;
                Ok(Arc::new(array))
            }
            How::Bool => {
                let values = self.values.as_slice();
                let bits = BooleanBuffer::collect_bool(rows, |row| values[row] != 0);
                self.values.truncate(0);
                Ok(Arc::new(arrow_array::BooleanArray::new(bits, nulls)))
            }
            _ => {
                let data = ArrayData::builder(self.data_type.clone())
                    .len(rows)
                    .add_buffer(self.values.finish())
                    .nulls(nulls)
                    .build()
                    .map_err(|error| self.wrong(error))?;
                Ok(make_array(data))
            }
        }
    }
}

fn wrong(column: &str, what: impl std::fmt::Display) -> Error {
    Error::protocol(format!("column {column}: {what}"))
}

/// The first string begins at 0.
fn begin(offsets: &mut Growing) {
    if offsets.is_empty() {
        offsets.add_values::<i32>(1)[0] = 0;
    }
}

/// Strings of a column end where 31 bits can say.
fn end(bytes: usize, column: &str) -> Result<i32> {
    i32::try_from(bytes).map_err(|_| {
        Error::new(
            Kind::Memory,
            format!("column {column}: a block with more than 2 GiB of strings: ask for smaller blocks (max_block_size)"),
        )
    })
}
