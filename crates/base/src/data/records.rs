//! `records`: columns of int64, 32 bytes a record by default, as Arrow's own Flight
//! benchmark moves them.
//!
//! The fields are nullable and hold no nulls, because Arrow's benchmark declares them so.
//! One batch is made and sent again and again, as there: it stays in the processor's
//! cache if it fits, so the sender's memory is not part of what is measured. To move
//! data that is not in cache, use a file.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_buffer::BufferBuilder;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::error::{Error, Kind, Result};
use crate::halt;
use crate::spec::Values;

/// The largest batch that is made, in bytes.
const LARGEST_BATCH: u64 = 4 << 30;

/// So many values are made between two looks whether to go on.
const STEP: usize = 1 << 20;

/// a, b, ... z, c26, c27 ...
fn name(column: usize) -> String {
    match u8::try_from(column) {
        Ok(letter @ 0..26) => char::from(b'a' + letter).to_string(),
        _ => format!("c{column}"),
    }
}

pub fn schema(columns: usize) -> SchemaRef {
    let fields: Vec<Field> = (0..columns)
        .map(|column| Field::new(name(column), DataType::Int64, true))
        .collect();
    Arc::new(Schema::new(fields))
}

/// One batch. Sequential: every column holds the row's number, so a stream holds
/// row number modulo `rows`. Random: any 64 bits, the same for the same seed.
pub fn batch(columns: usize, rows: usize, values: Values, seed: u64) -> Result<RecordBatch> {
    let bytes = rows as u64 as u128 * columns as u128 * 8;
    if bytes > u128::from(LARGEST_BATCH) {
        return Err(Error::new(
            Kind::Memory,
            format!(
                "a batch of {rows} rows x {columns} int64 columns is {bytes} bytes; \
                 the limit is {LARGEST_BATCH}: lower rows_per_batch"
            ),
        ));
    }
    let mut random = Random::seeded(seed);
    let mut made: Vec<ArrayRef> = Vec::with_capacity(columns);
    for _ in 0..columns {
        // Every column has memory of its own: a shared buffer would move fewer bytes
        // through the cache than the payload says.
        let mut column = BufferBuilder::<i64>::new(rows);
        while column.len() < rows {
            halt::check()?;
            let (from, to) = (column.len(), rows.min(column.len() + STEP));
            match values {
                Values::Random => column.extend((from..to).map(|_| random.draw())),
                Values::Sequential => column.extend(from as i64..to as i64),
            }
        }
        made.push(Arc::new(Int64Array::new(column.finish().into(), None)));
    }
    Ok(RecordBatch::try_new(schema(columns), made)?)
}

/// xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64 as its authors advise.
pub struct Random([u64; 4]);

impl Random {
    pub fn seeded(mut seed: u64) -> Self {
        Self(std::array::from_fn(|_| {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    pub fn draw(&mut self) -> i64 {
        let s = &mut self.0;
        let value = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        value as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    #[test]
    fn the_schema_is_that_of_arrows_benchmark() {
        let schema = schema(28);
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names[..5], ["a", "b", "c", "d", "e"]);
        assert_eq!(names[25..], ["z", "c26", "c27"]);
        assert!(schema
            .fields()
            .iter()
            .all(|f| f.is_nullable() && f.data_type() == &DataType::Int64));
    }

    #[test]
    fn random_values_depend_on_the_seed_alone() {
        let make = |seed| batch(4, 100, Values::Random, seed).unwrap();
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        let columns = make(1);
        assert_ne!(columns.column(0), columns.column(1));
        assert_eq!(columns.column(0).null_count(), 0);
    }

    #[test]
    fn making_ends_when_nobody_wants_it_any_more() {
        let looks = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = looks.clone();
        let halt = halt::Halt::new(move || {
            let before = counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (before == 2).then(Error::cancelled)
        });
        let _entered = halt.enter();
        let made = batch(1, 100 * STEP, Values::Random, 1);
        assert_eq!(made.unwrap_err().kind, Kind::Cancelled);
        assert_eq!(looks.load(std::sync::atomic::Ordering::Relaxed), 3);
    }

    #[test]
    fn xoshiro_seeded_by_splitmix_as_published() {
        // splitmix64 of 0 starts with this value (its authors' reference program).
        assert_eq!(Random::seeded(0).0[0], 0xe220_a839_7b1d_cdaf);
        // xoshiro256++ from the state 1, 2, 3, 4 (test vector of the rand crates).
        let mut random = Random([1, 2, 3, 4]);
        let first: Vec<u64> = (0..3).map(|_| random.draw() as u64).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn sequential_values_are_row_numbers() {
        let batch = batch(2, 5, Values::Sequential, 9).unwrap();
        for column in batch.columns() {
            assert_eq!(
                column.as_primitive::<Int64Type>().values()[..],
                [0, 1, 2, 3, 4]
            );
        }
    }

    #[test]
    fn a_batch_too_large_is_refused() {
        let error = batch(4, 1 << 40, Values::Random, 0).unwrap_err();
        assert_eq!(error.kind, Kind::Memory);
        assert!(error.message.contains("rows_per_batch"), "{error}");
    }
}
