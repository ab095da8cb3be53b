//! `usage`: the rows of the fast-update workload, as its authors drew them.
//!
//! Customers, sub-customers, addresses, bytes and hits are "Pareto over n": n x (X / 3) where X
//! is Lomax of shape 3 (numpy's `pareto`), drawn again while it is n or more. That is what is
//! left of U^(-1/3) - 1 with U even in (1/64, 1], so nothing needs to be drawn twice. Few
//! customers and addresses are in most rows: the first percent of each in 8.6 % of them.
//!
//! The key holds a sub-customer of 26^12, so practically no two rows have the same one, and the
//! working set has as many keys as rows.

use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampSecondArray};
use arrow_array::{UInt32Array, UInt64Array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::records::Random;
use crate::error::{Error, Kind, Result};
use crate::spec::Upsert;

mod draws;

use draws::{address, customer, letters, pareto, share, LONGEST_ADDRESS};

const CUSTOMERS: u64 = 100_000;
const ADDRESSES: u64 = 10_000;
const LETTERS: usize = 12;
/// 26^12 sub-customers.
const SUBCUSTOMERS: u64 = 95_428_956_661_682_176;
const REGIONS: u64 = 10;
const FLAGS: u64 = 5;
/// 8192, 9216 ... below 5,000,000.
const BYTES: (u64, u64, u64) = (8192, 1024, 4875);
/// 50, 54 ... below 1000.
const HITS: (u64, u64, u64) = (50, 4, 238);

/// Offsets into a batch's strings have 32 bits.
const MOST_ROWS: usize = i32::MAX as usize / LONGEST_ADDRESS;

/// See the module. Batch i depends on seed, i and rows_per_batch alone.
#[derive(Debug, Clone)]
pub struct Usage {
    working_set: u64,
    rows_per_batch: usize,
    seed: u64,
    /// What is the same in every batch: the time, and where the letters lie.
    time: ArrayRef,
    letters: OffsetBuffer<i32>,
}

impl Usage {
    pub fn new(working_set: u64, rows_per_batch: usize, seed: u64, loaded_unix_s: i64) -> Self {
        // A batch of more rows is refused, so nothing is made ready for it.
        let rows = match rows_per_batch > MOST_ROWS {
            true => 0,
            false => rows_per_batch,
        };
        let time = TimestampSecondArray::from(vec![loaded_unix_s; rows]);
        let letters = (0..=rows).map(|row| (row * LETTERS) as i32);
        Self {
            working_set,
            rows_per_batch,
            seed,
            time: Arc::new(time.with_timezone("UTC")),
            letters: OffsetBuffer::new(letters.collect()),
        }
    }

    pub fn schema() -> SchemaRef {
        static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(Usage::columns);
        SCHEMA.clone()
    }

    fn columns() -> SchemaRef {
        let field = |name: &str, kind| Field::new(name, kind, false);
        let time = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        Arc::new(Schema::new(vec![
            field("customer_code", DataType::UInt32),
            field("timestamp_of_data", time),
            field("subcustomer_id", DataType::Utf8),
            field("geographic_region", DataType::UInt32),
            field("billing_flag", DataType::UInt32),
            field("ip_address", DataType::Utf8),
            field("bytes", DataType::UInt64),
            field("hits", DataType::UInt64),
        ]))
    }

    pub fn roles() -> Upsert {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        Upsert {
            key: names(&[
                "timestamp_of_data",
                "customer_code",
                "subcustomer_id",
                "geographic_region",
                "billing_flag",
                "ip_address",
            ]),
            add: names(&["bytes", "hits"]),
        }
    }

    /// The working set in whole batches.
    pub fn batches(&self) -> u64 {
        self.working_set.div_ceil(self.rows_per_batch as u64)
    }

    /// Batch `index`, its rows in the order of the key.
    pub fn batch(&self, index: u64) -> Result<RecordBatch> {
        let rows = self.rows_per_batch;
        if rows > MOST_ROWS {
            return Err(Error::new(
                Kind::Memory,
                format!("a batch of usage has at most {MOST_ROWS} rows: lower rows_per_batch"),
            ));
        }
        let mut random = Random::seeded(xxh3_64_with_seed(&index.to_le_bytes(), self.seed));
        let keys = keys(&mut random, rows);
        let mut customers = Vec::with_capacity(rows);
        let mut subcustomers = vec![0; rows * LETTERS];
        let mut regions = Vec::with_capacity(rows);
        let mut flags = Vec::with_capacity(rows);
        let mut addresses = vec![0; (rows + 1) * LONGEST_ADDRESS];
        let mut ends = Vec::with_capacity(rows + 1);
        let mut end = 0;
        ends.push(0);
        let (id, _) = subcustomers.as_chunks_mut::<LETTERS>();
        for (key, id) in keys.into_iter().zip(id) {
            customers.push(key.customer());
            letters(key.subcustomer(), id);
            regions.push(key.region());
            flags.push(key.flag());
            let (text, length) = address(key.address());
            // All of its room is copied, what is behind its end is overwritten by the next.
            addresses[end..end + LONGEST_ADDRESS].copy_from_slice(text);
            end += length;
            ends.push(end as i32);
        }
        addresses.truncate(end);
        let strings = |ends, text: Vec<u8>| StringArray::try_new(ends, Buffer::from(text), None);
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(customers)),
            self.time.clone(),
            Arc::new(strings(self.letters.clone(), subcustomers)?),
            Arc::new(UInt32Array::from(regions)),
            Arc::new(UInt32Array::from(flags)),
            Arc::new(strings(ends, addresses)?),
            Arc::new(UInt64Array::from(steps(&mut random, rows, BYTES))),
            Arc::new(UInt64Array::from(steps(&mut random, rows, HITS))),
        ];
        Ok(RecordBatch::try_new(Self::schema(), columns)?)
    }
}

/// A row's key in one number whose order is the key's (the time is the same in all rows):
/// customer, sub-customer, region, flag, address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    fn new(customer: u32, subcustomer: u64, region: u64, flag: u64, address: u64) -> Self {
        let head = u128::from(customer) << 64 | u128::from(subcustomer);
        Self(head << 24 | u128::from(region << 20 | flag << 16 | address))
    }

    fn customer(self) -> u32 {
        (self.0 >> 88) as u32
    }

    fn subcustomer(self) -> u64 {
        (self.0 >> 24) as u64
    }

    fn region(self) -> u32 {
        (self.0 >> 20) as u32 & 15
    }

    fn flag(self) -> u32 {
        (self.0 >> 16) as u32 & 15
    }

    fn address(self) -> usize {
        self.0 as usize & 0xffff
    }
}

/// So many rows are drawn at a time, column by column: arithmetic of one kind goes side by side.
const CHUNK: usize = 128;

fn keys(random: &mut Random, rows: usize) -> Vec<Key> {
    let mut keys = Vec::with_capacity(rows);
    let (mut who, mut sub, mut from) = ([0; CHUNK], [0; CHUNK], [0; CHUNK]);
    while keys.len() < rows {
        let rows = CHUNK.min(rows - keys.len());
        pareto(random, CUSTOMERS, &mut who[..rows]);
        pareto(random, SUBCUSTOMERS, &mut sub[..rows]);
        pareto(random, ADDRESSES, &mut from[..rows]);
        for ((&who, &sub), &from) in who.iter().zip(&sub).zip(&from).take(rows) {
            let either = random.draw() as u64;
            let region = 1 + share(either >> 32, REGIONS);
            let flag = 1 + share(either & 0xffff_ffff, FLAGS);
            keys.push(Key::new(
                customer(who),
                sub,
                region,
                flag,
                draws::place(from),
            ));
        }
    }
    keys.sort_unstable();
    keys
}

/// A column of `from`, `from + step` ..., Pareto over `count` of them.
fn steps(random: &mut Random, rows: usize, (from, step, count): (u64, u64, u64)) -> Vec<u64> {
    let mut values = vec![0; rows];
    for part in values.chunks_mut(CHUNK) {
        pareto(random, count, part);
        for value in part {
            *value = from + step * *value;
        }
    }
    values
}

#[cfg(test)]
mod tests;
