//! Rows as servers give and take them, whatever protocol carries them.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use super::account::{Counted, Trial};
use super::store::{Claim, Lent, Store, Table};
use venturi_base::codec::ipc::{Compression, Encoded, Encoder};
use venturi_base::data::{digest, payload_bytes, Cursor};
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

/// What a get reads.
pub(crate) enum Reading {
    /// A source's rows, over and over.
    Source(Cursor, Compression, Lent),
    /// A table exactly as it was put, and which of its batches is next.
    Table(Table, usize, Compression),
}

impl Reading {
    /// Payload bytes of the largest batch, about.
    fn largest_batch(&self) -> u64 {
        match self {
            Self::Source(_, _, lent) => lent.source.batch_bytes(),
            Self::Table(table, ..) => {
                let batches = table.batches.iter().map(payload_bytes);
                batches.max().unwrap_or(0)
            }
        }
    }
}

/// The rows of a get, batch by batch.
pub(crate) struct Giving {
    encoder: Encoder,
    /// Packed, a batch that is sent is no slice of what is there.
    _claim: Option<Claim>,
    reading: Reading,
    pub trial: Option<Trial>,
    pub counted: Counted,
    /// What is to be sent next: the schema first.
    pub encoded: Vec<Encoded>,
}

impl Giving {
    /// `packed`: who sends the batches compresses them once more.
    pub fn new(store: &Store, reading: Reading, packed: bool) -> Result<Self> {
        let (schema, compression) = match &reading {
            Reading::Source(cursor, compression, _) => (cursor.source().schema(), *compression),
            Reading::Table(table, _, compression) => (table.schema.clone(), *compression),
        };
        let encoder = Encoder::new(&schema, compression)?;
        let claim = match compression {
            Compression::None if !packed => None,
            _ => Some(store.claim(reading.largest_batch())?),
        };
        Ok(Self {
            _claim: claim,
            encoded: vec![encoder.schema_message()],
            encoder,
            reading,
            trial: None,
            counted: Counted::default(),
        })
    }

    /// Encodes the next batch; false: there is no more, or the trial has ended.
    pub fn next(&mut self, handicap: &Handicap, clock: &mut StageClock) -> Result<bool> {
        let trial = self.trial.as_ref();
        if trial.is_some_and(|trial| trial.stop.load(Ordering::Relaxed)) {
            return Ok(false);
        }
        let checksum = trial.is_some_and(|trial| trial.checksum);
        match &mut self.reading {
            Reading::Source(cursor, ..) => {
                let Some(item) = cursor.next() else {
                    return Ok(false);
                };
                handicap.burn(Stage::Generate);
                clock.mark(Stage::Generate);
                let sum = if checksum { item.digest()? } else { 0 };
                self.counted.add(item.rows, item.payload, sum);
                self.encoder.encode(item.batch(), &mut self.encoded)?;
            }
            Reading::Table(table, at, _) => {
                let Some(batch) = table.batches.get(*at) else {
                    return Ok(false);
                };
                *at += 1;
                let sum = if checksum { digest(batch)? } else { 0 };
                self.counted
                    .add(batch.num_rows() as u64, payload_bytes(batch), sum);
                self.encoder.encode(batch, &mut self.encoded)?;
            }
        }
        Ok(true)
    }
}

/// What a batch costs at least: its body lies in memory of its own, in whole pages.
const LEAST_COST: u64 = 4096;
/// What a column costs at least, however few its values.
const ARRAY_COST: u64 = 256;

/// Bytes that a schema takes.
fn described(schema: &Schema) -> usize {
    let more = schema.metadata().iter().map(|(k, v)| k.len() + v.len());
    schema.fields().size() + more.sum::<usize>()
}

/// Where the rows of a put go.
pub(crate) enum Sink {
    /// Rows that nobody keeps.
    Discard,
    Keep {
        path: String,
        batches: Vec<RecordBatch>,
        /// Their memory.
        claim: Claim,
    },
}

impl Sink {
    pub fn keep(store: &Store, path: String) -> Result<Self> {
        Ok(Self::Keep {
            path,
            batches: vec![],
            claim: store.claim(0)?,
        })
    }
}

/// The rows of a put.
pub(crate) struct Taking {
    pub sink: Sink,
    pub trial: Option<Trial>,
    pub counted: Counted,
}

impl Taking {
    /// A batch that has just been decoded, from a body of so many bytes.
    pub fn take(
        &mut self,
        batch: RecordBatch,
        body_bytes: u64,
        (store, handicap): (&Store, &Handicap),
        clock: &mut StageClock,
    ) -> Result<()> {
        let bytes = payload_bytes(&batch);
        handicap.burn(Stage::Decode);
        clock.mark(Stage::Decode);
        let checksum = self.trial.as_ref().is_some_and(|trial| trial.checksum);
        let sum = if checksum { digest(&batch)? } else { 0 };
        if checksum {
            handicap.burn(Stage::Verify);
        }
        clock.mark(Stage::Verify);
        self.counted.add(batch.num_rows() as u64, bytes, sum);
        if let Sink::Keep { batches, claim, .. } = &mut self.sink {
            // A batch without rows adds nothing but its bookkeeping.
            if batch.num_rows() > 0 {
                // Compressed bodies grow when they are decoded, and small ones weigh
                // more than their bytes.
                let least = LEAST_COST.max(ARRAY_COST * batch.num_columns() as u64);
                let cost = body_bytes.max(bytes).max(least);
                store.extend(claim, cost)?;
                batches.push(batch);
            }
            handicap.burn(Stage::Apply);
            clock.mark(Stage::Apply);
        }
        Ok(())
    }

    /// A message that was no batch: the batches that follow hold on to their dictionaries, also to
    /// replaced ones. `before` and `now`: bytes of all dictionaries.
    pub fn take_dictionary(
        &mut self,
        (before, now): (u64, u64),
        body_bytes: u64,
        store: &Store,
    ) -> Result<()> {
        if let Sink::Keep { claim, .. } = &mut self.sink {
            let cost = match now > before {
                true => now - before,
                false => body_bytes,
            };
            store.extend(claim, cost)?;
        }
        Ok(())
    }

    /// All came, and well: a table is kept.
    pub fn end(self, store: &Store, schema: Option<SchemaRef>) -> Result<()> {
        let Sink::Keep {
            path,
            batches,
            mut claim,
        } = self.sink
        else {
            return Ok(());
        };
        let schema = schema.ok_or_else(|| Error::usage("a put without a schema"))?;
        // Also a table without rows takes memory: there must be an end to how many there are.
        let described = (path.len() + described(&schema)) as u64;
        store.extend(&mut claim, LEAST_COST.saturating_add(described))?;
        let table = Table {
            schema,
            batches: Arc::new(batches),
            rows: self.counted.rows,
            claims: vec![Arc::new(claim)],
            trial: self.trial.map(|trial| trial.id),
        };
        store.keep(path, table)
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};

    use super::*;

    fn put(store: &Store, path: &str, name: &str) -> Result<()> {
        let schema = Schema::new(vec![Field::new(name, DataType::Int64, false)]);
        let taking = Taking {
            sink: Sink::keep(store, path.to_owned())?,
            trial: None,
            counted: Counted::default(),
        };
        taking.end(store, Some(Arc::new(schema)))
    }

    #[test]
    fn tables_without_rows_come_to_an_end() {
        let store = Store::new(10 * LEAST_COST);
        let kept = (0..100).take_while(|n| put(&store, &n.to_string(), "n").is_ok());
        assert!((1..10).contains(&kept.count()));
        let store = Store::new(10 * LEAST_COST);
        let long = "x".repeat(store.limit() as usize);
        assert!(put(&store, &long, "n").is_err());
        assert!(put(&store, "t", &long).is_err());
        assert_eq!((store.used(), store.tables().len()), (0, 0));
    }
}
