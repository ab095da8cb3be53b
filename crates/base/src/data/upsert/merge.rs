//! Rows of one key in one batch, made one row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{types, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, UInt64Array};
use arrow_schema::DataType;
use arrow_select::take::take;

use super::{key_hashes, Table};
use crate::error::{Error, Result};

/// `rows` with every key once, in the order in which the keys first come.
pub fn merged(table: &Table, rows: RecordBatch) -> Result<RecordBatch> {
    // The group of each key, and of each row.
    let mut groups: HashMap<u64, usize> = HashMap::with_capacity(rows.num_rows());
    let mut group = Vec::with_capacity(rows.num_rows());
    let mut last = Vec::new();
    for (row, hash) in key_hashes(table, &rows)?.into_iter().enumerate() {
        let next = groups.len();
        let at = *groups.entry(hash).or_insert(next);
        match at == next {
            true => last.push(row as u64),
            false => last[at] = row as u64,
        }
        group.push(at);
    }
    if last.len() == rows.num_rows() {
        return Ok(rows);
    }
    let last = UInt64Array::from(last);
    let mut columns = Vec::with_capacity(rows.num_columns());
    for (at, column) in rows.columns().iter().enumerate() {
        columns.push(match table.add.contains(&at) {
            true => summed(table.column(at), column, &group, last.len())?,
            false => take(column, &last, None)?,
        });
    }
    Ok(RecordBatch::try_new(rows.schema(), columns)?)
}

/// The sums of a column's groups; null where all of a group is null.
fn summed(name: &str, column: &ArrayRef, group: &[usize], groups: usize) -> Result<ArrayRef> {
    macro_rules! sum {
        ($kind:ty) => {{
            let mut sums: Vec<Option<i128>> = vec![None; groups];
            for (value, &at) in column.as_primitive::<$kind>().iter().zip(group) {
                if let Some(value) = value {
                    sums[at] = Some(sums[at].unwrap_or(0) + i128::from(value));
                }
            }
            type Native = <$kind as ArrowPrimitiveType>::Native;
            let fit = |sum: Option<i128>| sum.map(Native::try_from).transpose();
            let fitting: std::result::Result<Vec<Option<Native>>, _> =
                sums.into_iter().map(fit).collect();
            let fitting = fitting.map_err(|_| overflow(name, column.data_type()))?;
            Arc::new(PrimitiveArray::<$kind>::from_iter(fitting))
        }};
    }
    Ok(match column.data_type() {
        DataType::Int8 => sum!(types::Int8Type),
        DataType::Int16 => sum!(types::Int16Type),
        DataType::Int32 => sum!(types::Int32Type),
        DataType::Int64 => sum!(types::Int64Type),
        DataType::UInt8 => sum!(types::UInt8Type),
        DataType::UInt16 => sum!(types::UInt16Type),
        DataType::UInt32 => sum!(types::UInt32Type),
        DataType::UInt64 => sum!(types::UInt64Type),
        other => return Err(Error::usage(format!("{name:?} is {other}: it has no sum"))),
    })
}

fn overflow(name: &str, kind: &DataType) -> Error {
    Error::usage(format!(
        "add: rows of one key in one batch add up to more than {name:?}, which is {kind}, can hold: \
         cast it to a wider integer"
    ))
}
