//! Where batches come from: made before the clock starts, shared by all streams.

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;

use crate::error::{Error, Kind, Result};
use crate::halt;
use crate::spec;

pub mod archive;
pub mod column;
pub mod digest;
pub mod file;
pub mod gauss;
pub mod metrics;
pub mod payload;
pub mod points;
pub mod records;
pub mod row_digest;
pub mod table;
pub mod upsert;
pub mod usage;
pub mod view;

pub use digest::digest;
pub use payload::payload_bytes;
pub use row_digest::row_digest;

/// At most so many different batches are kept ready-made, counted in arrays (a sliced
/// array is some 100 bytes of bookkeeping, so this bounds it near 30 MB). A table that
/// gives more has its batches sliced as they are asked for.
const READY_ARRAYS: usize = 1 << 18;

/// What a sliced array costs.
const READY_ARRAY: u64 = 100;

/// The largest batch that a short table is repeated to, in payload bytes.
const LARGEST_BATCH: u64 = 4 << 30;

/// A schema and an endless sequence of batches: row i of a stream is row i modulo the
/// table's length, and every batch has exactly `rows_per_batch` rows (the last of a
/// stream may have fewer).
///
/// The table lies in memory once, with as many of its first rows behind its end as a
/// batch needs to run over the seam; every batch is a slice of that and copies nothing.
/// Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Source(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    schema: SchemaRef,
    /// The table with its beginning once more behind its end.
    table: RecordBatch,
    /// Its bytes (METHOD).
    payload: u64,
    /// Rows of the table proper.
    length: usize,
    rows_per_batch: usize,
    /// How many batches there are before the sequence repeats.
    cycle: u64,
    /// The cycle's batches, or nothing where they are too many to be kept.
    ring: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    batch: RecordBatch,
    payload: u64,
    digest: OnceLock<u64>,
}

impl Slot {
    fn new(batch: RecordBatch) -> Self {
        Self {
            payload: payload_bytes(&batch),
            batch,
            digest: OnceLock::new(),
        }
    }

    fn digest(&self) -> Result<u64> {
        if let Some(&known) = self.digest.get() {
            return Ok(known);
        }
        let made = digest(&self.batch)?;
        Ok(*self.digest.get_or_init(|| made))
    }
}

/// What a whole stream holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    pub rows: u64,
    pub batches: u64,
    /// Payload bytes (METHOD).
    pub payload: u64,
    /// Wrapping sum of the batches' digests.
    pub checksum: u64,
}

impl Source {
    /// Makes (or reads) the data of a spec. `Data::Remote` has none.
    pub fn make(data: &spec::Data, rows_per_batch: usize) -> Result<Self> {
        match data {
            spec::Data::Records {
                columns,
                values,
                seed,
            } => {
                let batch = records::batch(*columns, rows_per_batch, *values, *seed)?;
                Self::from_batches(batch.schema(), vec![batch], rows_per_batch)
            }
            spec::Data::File { path, ipc } => {
                let (schema, batches) = file::read(path, ipc)?;
                Self::from_batches(schema, batches, rows_per_batch)
                    .map_err(|error| error.context(path))
            }
            spec::Data::Usage { .. } => Err(Error::usage("usage is for upserts")),
            spec::Data::Metrics { .. } | spec::Data::Archive { .. } => {
                Err(Error::usage("metrics and archives are for an ingest"))
            }
            spec::Data::Remote => Err(Error::usage(
                "the data is the server's (source = \"remote\"): there is none to send",
            )),
        }
    }

    /// A source of the rows of `batches`, in order, over and over.
    pub fn from_batches(
        schema: SchemaRef,
        mut batches: Vec<RecordBatch>,
        rows_per_batch: usize,
    ) -> Result<Self> {
        batches.retain(|batch| batch.num_rows() > 0);
        let length: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if length == 0 || schema.fields().is_empty() {
            return Err(Error::usage("there are no rows or no columns to move"));
        }
        if rows_per_batch == 0 {
            return Err(Error::usage("rows_per_batch must be at least 1"));
        }
        let bytes: u64 = batches.iter().map(payload_bytes).sum();
        let batch_bytes = u128::from(bytes) * rows_per_batch as u128 / length as u128;
        if batch_bytes > u128::from(LARGEST_BATCH) {
            return Err(Error::new(
                Kind::Memory,
                format!(
                    "a batch of {rows_per_batch} rows would be {batch_bytes} bytes; \
                     the limit is {LARGEST_BATCH}: lower rows_per_batch"
                ),
            ));
        }
        let (cycle, more) = seam(length, rows_per_batch);
        let table = extended(&schema, batches, more)?;
        let mut inner = Inner {
            schema,
            payload: payload_bytes(&table),
            table,
            length,
            rows_per_batch,
            cycle: cycle as u64,
            ring: Vec::new(),
        };
        if cycle.saturating_mul(inner.schema.fields().len()) <= READY_ARRAYS {
            inner.ring = (0..cycle as u64)
                .map(|index| Slot::new(inner.slice(index, rows_per_batch)))
                .collect();
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Bytes of memory that a source takes for itself, about: what a table of so many rows in so
    /// many pieces is copied to, where slices of it do not do, and what keeps its batches ready.
    pub fn cost(
        (rows, pieces): (usize, usize),
        (columns, row_bytes): (usize, u64),
        rows_per_batch: usize,
    ) -> u64 {
        if rows == 0 || rows_per_batch == 0 {
            return 0;
        }
        let (cycle, more) = seam(rows, rows_per_batch);
        let copied = match (pieces, more) {
            (1, 0) => 0,
            _ => (rows as u64)
                .saturating_add(more as u64)
                .saturating_mul(row_bytes),
        };
        let ready = cycle.saturating_mul(columns);
        let ready = if ready <= READY_ARRAYS { ready } else { 0 };
        copied.saturating_add(ready as u64 * READY_ARRAY)
    }

    pub fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    pub fn rows_per_batch(&self) -> usize {
        self.0.rows_per_batch
    }

    /// Rows of the table that the sequence goes round.
    pub fn rows(&self) -> u64 {
        self.0.length as u64
    }

    /// Payload bytes of a batch, on the mean.
    pub fn batch_bytes(&self) -> u64 {
        let inner = &*self.0;
        let rows = inner.table.num_rows().max(1) as u128;
        let batch = u128::from(inner.payload) * inner.rows_per_batch as u128;
        (batch / rows) as u64
    }

    /// How many batches there are before the sequence repeats.
    pub fn cycle(&self) -> u64 {
        self.0.cycle
    }

    /// One stream's way through the data: `rows` rows, or without end.
    pub fn cursor(&self, rows: Option<u64>) -> Cursor {
        Cursor {
            source: self.clone(),
            left: rows,
            rows,
            index: 0,
            place: 0,
            made: None,
        }
    }

    /// What a stream of `rows` rows holds, without walking over its batches: each
    /// batch of the cycle is digested at most once in the life of the source (if the
    /// cycle is too long to be kept ready: once a call).
    pub fn expected(&self, rows: u64) -> Result<Expected> {
        let inner = &*self.0;
        let full = rows / inner.rows_per_batch as u64;
        let rest = (rows % inner.rows_per_batch as u64) as usize;
        let (rounds, over) = (full / inner.cycle, full % inner.cycle);
        let mut whole = Expected {
            rows,
            batches: full + u64::from(rest > 0),
            ..Expected::default()
        };
        for index in 0..inner.cycle.min(full) {
            halt::check()?;
            let times = rounds + u64::from(index < over);
            let (payload, checksum) = match inner.ring.get(index as usize) {
                Some(slot) => (slot.payload, slot.digest()?),
                None => {
                    let slot = Slot::new(inner.slice(index, inner.rows_per_batch));
                    (slot.payload, slot.digest()?)
                }
            };
            whole.payload += payload * times;
            whole.checksum = whole.checksum.wrapping_add(checksum.wrapping_mul(times));
        }
        if rest > 0 {
            let last = Slot::new(inner.slice(full, rest));
            whole.payload += last.payload;
            whole.checksum = whole.checksum.wrapping_add(last.digest()?);
        }
        Ok(whole)
    }
}

impl Inner {
    /// Batch `index` of the endless sequence, cut to `rows` rows.
    fn slice(&self, index: u64, rows: usize) -> RecordBatch {
        let start = u128::from(index) * self.rows_per_batch as u128 % self.length as u128;
        self.table.slice(start as usize, rows)
    }
}

/// One stream's way through a source.
#[derive(Debug)]
pub struct Cursor {
    source: Source,
    rows: Option<u64>,
    left: Option<u64>,
    /// Number of the next batch in the stream.
    index: u64,
    /// Its place in the cycle.
    place: usize,
    /// A batch that is not in the ring.
    made: Option<Slot>,
}

/// One batch of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    slot: &'a Slot,
    /// Number of the batch in its stream, from 0.
    pub index: u64,
    /// Its place among the ready-made batches: the same place is the same batch, so
    /// that what was made of it (an encoded message) may be kept. `None`: sliced for
    /// this once.
    pub place: Option<usize>,
    pub rows: u64,
    /// Payload bytes (METHOD).
    pub payload: u64,
}

impl<'a> Item<'a> {
    pub fn batch(&self) -> &'a RecordBatch {
        &self.slot.batch
    }

    /// The batch's digest; computed once for a ready-made batch.
    pub fn digest(&self) -> Result<u64> {
        self.slot.digest()
    }
}

impl Cursor {
    /// Whether all has been handed out.
    pub fn is_spent(&self) -> bool {
        self.left == Some(0)
    }

    /// The next batch. Allocates nothing for a ready-made one.
    #[allow(clippy::should_implement_trait)] // an Iterator cannot lend its item
    #[inline]
    pub fn next(&mut self) -> Option<Item<'_>> {
        let inner = &*self.source.0;
        let full = inner.rows_per_batch as u64;
        let rows = self.left.map_or(full, |left| left.min(full));
        if rows == 0 {
            return None;
        }
        if let Some(left) = &mut self.left {
            *left -= rows;
        }
        let index = self.index;
        self.index += 1;
        let place = self.place;
        if rows == full {
            if let Some(slot) = inner.ring.get(place) {
                self.place = if place + 1 == inner.ring.len() {
                    0
                } else {
                    place + 1
                };
                return Some(Item {
                    slot,
                    index,
                    place: Some(place),
                    rows,
                    payload: slot.payload,
                });
            }
        }
        let slot = &*self
            .made
            .insert(Slot::new(inner.slice(index, rows as usize)));
        Some(Item {
            slot,
            index,
            place: None,
            rows,
            payload: slot.payload,
        })
    }

    /// The source that this walks over.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// What the whole stream holds; `None` for one without end.
    pub fn expected(&self) -> Option<Result<Expected>> {
        self.rows.map(|rows| self.source.expected(rows))
    }
}

/// How many batches of a table there are before they repeat, and how many of its first rows have
/// to lie behind its end.
fn seam(rows: usize, rows_per_batch: usize) -> (usize, usize) {
    let common = greatest_common_divisor(rows, rows_per_batch);
    (rows / common, rows_per_batch - common)
}

/// The rows of `batches` in one piece, with `more` rows from the beginning behind them.
fn extended(schema: &SchemaRef, mut batches: Vec<RecordBatch>, more: usize) -> Result<RecordBatch> {
    let own = batches.len();
    let mut left = more;
    let mut next = 0;
    while left > 0 {
        let rows = batches[next].num_rows().min(left);
        batches.push(batches[next].slice(0, rows));
        left -= rows;
        next = (next + 1) % own;
    }
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([only]) => Ok(only),
        Err(batches) => one_piece(schema, &batches),
    }
}

/// The rows of all batches, one behind the other.
pub fn one_piece(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let failed = |error: &dyn std::fmt::Display| {
        let what = format!("the table cannot lie in memory in one piece: {error}");
        Error::new(Kind::Memory, what)
    };
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(schema.clone()));
    }
    let mut columns = Vec::with_capacity(schema.fields().len());
    for at in 0..schema.fields().len() {
        halt::check()?;
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(at)).collect();
        columns.push(concat(&parts).map_err(|error| failed(&error))?);
    }
    RecordBatch::try_new(schema.clone(), columns).map_err(|error| failed(&error))
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
