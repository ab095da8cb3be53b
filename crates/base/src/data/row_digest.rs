//! A digest of rows that does not depend on their order, nor on the batches that they come in: what was
//! loaded into a table is known again in whatever pieces its rows are read.
//!
//! The sum of one number a row; a row's number is a chain over its values. Names of columns and what lies
//! under nulls do not count, types and the order of columns do.

use arrow_array::cast::AsArray;
use arrow_array::{downcast_primitive_array, Array, ArrayRef, RecordBatch};
use arrow_buffer::ToByteSlice;
use arrow_schema::DataType;
use xxhash_rust::xxh3::xxh3_64;

/// Rows whose numbers are kept at a time, in a cache.
const BLOCK: usize = 1024;
/// Odd numbers without a pattern: the fractions of square roots.
const FACTOR: u64 = 0x6a09_e667_f3bc_c909;
const STEP: u64 = 0xbb67_ae85_84ca_a73b;
const NULL: u64 = 0x3c6e_f372_fe94_f82b;

/// The sum over the rows; `None` where a column's values have no digest: lists, structures.
pub fn row_digest(batch: &RecordBatch) -> Option<u64> {
    let mut sum = 0u64;
    let mut states = [0u64; BLOCK];
    for from in (0..batch.num_rows()).step_by(BLOCK) {
        let rows = BLOCK.min(batch.num_rows() - from);
        let states = &mut states[..rows];
        states.fill(STEP);
        for column in batch.columns() {
            add(&column.slice(from, rows), states)?;
        }
        sum = states
            .iter()
            .fold(sum, |sum, state| sum.wrapping_add(*state));
    }
    Some(sum)
}

fn add(column: &ArrayRef, states: &mut [u64]) -> Option<()> {
    match column.data_type() {
        DataType::Boolean => {
            let values = column.as_boolean();
            each(column, states, |row| values.value(row).into());
        }
        DataType::Utf8 => {
            let values = column.as_string::<i32>();
            each(column, states, |row| xxh3_64(values.value(row).as_bytes()));
        }
        DataType::LargeUtf8 => {
            let values = column.as_string::<i64>();
            each(column, states, |row| xxh3_64(values.value(row).as_bytes()));
        }
        DataType::Binary => {
            let values = column.as_binary::<i32>();
            each(column, states, |row| xxh3_64(values.value(row)));
        }
        DataType::LargeBinary => {
            let values = column.as_binary::<i64>();
            each(column, states, |row| xxh3_64(values.value(row)));
        }
        DataType::FixedSizeBinary(_) => {
            let values = column.as_fixed_size_binary();
            each(column, states, |row| xxh3_64(values.value(row)));
        }
        _ => {
            downcast_primitive_array! {
                column => {
                    let values = column.values();
                    each(column, states, |row| word(values[row].to_byte_slice()));
                },
                _ => return None,
            }
        }
    }
    Some(())
}

fn each(column: &dyn Array, states: &mut [u64], value: impl Fn(usize) -> u64) {
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => {
            for (row, state) in states.iter_mut().enumerate() {
                *state = mix(*state, value(row));
            }
        }
        Some(nulls) => {
            for (row, state) in states.iter_mut().enumerate() {
                // Not what a value can be: the chain takes another turn.
                *state = match nulls.is_null(row) {
                    true => mix(state.rotate_left(1), NULL),
                    false => mix(*state, value(row)),
                };
            }
        }
    }
}

/// A value's bytes as one number; those of more than eight are hashed.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    match bytes.len() {
        length @ 0..=8 => {
            whole[..length].copy_from_slice(bytes);
            u64::from_le_bytes(whole)
        }
        _ => xxh3_64(bytes),
    }
}

#[inline]
fn mix(state: u64, value: u64) -> u64 {
    let wide = u128::from(state ^ value) * u128::from(FACTOR);
    (wide as u64 ^ (wide >> 64) as u64).wrapping_add(STEP)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Decimal128Array, Int64Array, StringArray};
    use arrow_select::concat::concat_batches;
    use arrow_select::take::take_record_batch;

    use super::*;
    use crate::data::records;
    use crate::spec::Values;

    #[test]
    fn the_order_and_the_batches_do_not_count() {
        let batch = records::batch(3, 3000, Values::Random, 7).unwrap();
        let whole = row_digest(&batch).unwrap();
        let back: arrow_array::UInt64Array = (0..3000).rev().collect();
        let reversed = take_record_batch(&batch, &back).unwrap();
        assert_eq!(row_digest(&reversed), Some(whole));
        let pieces = [
            batch.slice(0, 1),
            batch.slice(1, 2000),
            batch.slice(2001, 999),
        ];
        let sum = |pieces: &[RecordBatch]| {
            let digests = pieces.iter().map(|piece| row_digest(piece).unwrap());
            digests.fold(0u64, u64::wrapping_add)
        };
        assert_eq!(sum(&pieces), whole);
        // A row twice in place of another.
        let twice = [batch.slice(0, 2999), batch.slice(5, 1)];
        assert_ne!(sum(&twice), whole);
        let joined = concat_batches(&batch.schema(), &twice).unwrap();
        assert_eq!(row_digest(&joined), Some(sum(&twice)));
    }

    #[test]
    fn every_value_counts() {
        let batch = |a: Vec<Option<i64>>, b: Vec<Option<&str>>| {
            let a: ArrayRef = Arc::new(Int64Array::from(a));
            let b: ArrayRef = Arc::new(StringArray::from(b));
            row_digest(&RecordBatch::try_from_iter([("a", a), ("b", b)]).unwrap()).unwrap()
        };
        let one = batch(vec![Some(1), Some(2)], vec![Some("x"), None]);
        for other in [
            batch(vec![Some(1), Some(3)], vec![Some("x"), None]),
            batch(vec![Some(1), Some(2)], vec![Some("y"), None]),
            batch(vec![Some(1), Some(2)], vec![None, Some("x")]),
            batch(vec![Some(1), None], vec![Some("x"), None]),
            batch(vec![Some(1), Some(2)], vec![Some("x"), Some("")]),
        ] {
            assert_ne!(one, other);
        }
        let wide = |value| {
            let column: ArrayRef = Arc::new(Decimal128Array::from(vec![value]));
            row_digest(&RecordBatch::try_from_iter([("a", column)]).unwrap())
        };
        assert_ne!(wide(1), wide(1 << 70));
        let list = arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>(
            vec![Some(vec![Some(1)])],
        );
        let list: ArrayRef = Arc::new(list);
        assert_eq!(
            row_digest(&RecordBatch::try_from_iter([("a", list)]).unwrap()),
            None
        );
    }
}
