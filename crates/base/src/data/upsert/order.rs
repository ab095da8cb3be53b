//! The rows of each batch in the order of their keys.

use std::cmp::Ordering;

use arrow_array::{Array, RecordBatch, UInt64Array};
use arrow_cmp::make_comparator;
use arrow_schema::SortOptions;
use arrow_select::take::take_record_batch;

use super::Table;
use crate::error::{Error, Result};

/// `rows` with each batch, from one of `bounds` to the next, sorted by key; rows of equal keys
/// stay in their order, so that the last of them still wins.
///
/// A database locks the rows of a statement one after the other. Where two statements lock the
/// same ones in different orders each waits for the other, and one of them is refused.
pub fn by_key(table: &Table, rows: RecordBatch, bounds: &[usize]) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(table.key.len());
    for &at in &table.key {
        let column = rows.column(at);
        columns.push(
            make_comparator(column, column, SortOptions::default()).map_err(|_| {
                Error::usage(format!(
                    "key: {:?} is {}, which has no order",
                    table.column(at),
                    column.data_type()
                ))
            })?,
        );
    }
    let compare = |one: u64, other: u64| {
        columns
            .iter()
            .map(|compare| compare(one as usize, other as usize))
            .find(|found| found.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<u64> = (0..rows.num_rows() as u64).collect();
    let mut moved = false;
    for bound in bounds.windows(2) {
        let batch = &mut order[bound[0]..bound[1]];
        if !batch.is_sorted_by(|one, other| compare(*one, *other).is_le()) {
            batch.sort_by(|one, other| compare(*one, *other));
            moved = true;
        }
    }
    match moved {
        true => Ok(take_record_batch(&rows, &UInt64Array::from(order))?),
        false => Ok(rows),
    }
}
