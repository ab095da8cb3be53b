//! Batches -> rows.

use arrow_array::RecordBatch;

use super::BLOCK;
use crate::codec::clickhouse::take::Taker;
use crate::codec::clickhouse::types::Column;
use crate::error::{Error, Result};

/// Writes rows column by column, a block of them at a time.
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
