//! The encoders of a query: exactly as many threads as its first partition asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema};
use parking_lot::Mutex;

use super::engine::{Raw, Ready, Rows, Run};
use super::query::Block;
use super::query::Query;
use crate::account::{Accounts, Spent, ThreadCpu};
use venturi_base::codec::charrow::messages;
use venturi_base::codec::clickhouse::rowbinary;
use venturi_base::codec::ipc::{schema_to_bytes, Compression, Encoder};
use venturi_base::data::{digest, payload_bytes};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

/// The name of the pool in accounts.
pub const POOL: &str = "encoders";

/// Larger than what was asked for by so much, a batch is cut.
const SLACK: u64 = 2;

/// How blocks are made.
#[derive(Debug, Clone)]
pub struct Making {
    pub compression: Compression,
    /// Each block with its checksum.
    pub checksum: bool,
    /// The trial is verified by digests of the values.
    pub digests: bool,
    pub block_bytes: u64,
    pub handicap: Handicap,
}

struct Work {
    query: Arc<Query>,
    run: Mutex<Box<dyn Run>>,
    making: Making,
    accounts: Arc<Accounts>,
}

/// Encoders of all queries together.
const MOST: usize = 4096;
static WORKING: AtomicUsize = AtomicUsize::new(0);

/// An encoder at work.
struct Working;

impl Drop for Working {
    fn drop(&mut self) {
        WORKING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts them. What goes wrong is told by the query.
pub fn start(
    query: &Arc<Query>,
    run: Box<dyn Run>,
    encoders: usize,
    making: Making,
    accounts: &Arc<Accounts>,
) {
    let work = Arc::new(Work {
        query: query.clone(),
        run: Mutex::new(run),
        making,
        accounts: accounts.clone(),
    });
    query.begin(encoders);
    let most = query.most_encoders(encoders);
    if WORKING.fetch_add(encoders, Ordering::Relaxed) + encoders > most {
        WORKING.fetch_sub(encoders, Ordering::Relaxed);
        query.fail(Error::new(
            Kind::Memory,
            format!("{encoders} more encoders would be over {most} in this process: ask for fewer, or wait for other queries"),
        ));
        (0..encoders).for_each(|_| query.encoder_ends());
        return;
    }
    let mut places: Vec<_> = (0..encoders).map(|_| Working).collect();
    for number in 0..encoders {
        let place = places.pop();
        // The trial's account waits for it from here on.
        if let Some(trial) = &query.trial {
            accounts.begin_pool(trial);
        }
        let mine = work.clone();
        let thread = std::thread::Builder::new()
            .name(format!("encoder-{number}"))
            .stack_size(1 << 20)
            .spawn(move || {
                let _place = place;
                mine.encoder();
            });
        if let Err(error) = thread {
            let error = Error::new(
                Kind::Io,
                format!("encoder {number} of {encoders}: {error}: ask for fewer encoders"),
            );
            query.fail(error);
            if let Some(trial) = &query.trial {
                accounts.end_pool(trial, POOL, Spent::default());
            }
            // Those that were not started have ended.
            (number..encoders).for_each(|_| query.encoder_ends());
            return;
        }
    }
}

impl Query {
    /// Beside those of others. An eighth more is kept for the only queries of clients, 64 for each.
    pub fn most_encoders(&self, wanted: usize) -> usize {
        let is_kept = self.is_only && wanted <= MOST / 64;
        MOST + if is_kept { MOST / 8 } else { 0 }
    }
}

impl Work {
    fn encoder(&self) {
        let mut clock = StageClock::start();
        let (begun, cpu) = (clock.last(), ThreadCpu::now());
        let worked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.encode_all(&mut clock)));
        match worked {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.query.fail(error),
            Err(panic) => self
                .query
                .fail(Error::panicked(&*panic).context("an encoder")),
        }
        self.query.encoder_ends();
        if let Some(trial) = &self.query.trial {
            let time = clock.last().saturating_duration_since(begun);
            let spent = Spent::of_worker(clock.totals(), time, cpu);
            self.accounts.end_pool(trial, POOL, spent);
        }
    }

    fn encode_all(&self, clock: &mut StageClock) -> Result<()> {
        let mut encoder = None;
        let mut columns = None;
        while !self.query.is_over() {
            let raw = {
                let mut run = self.run.lock();
                clock.mark(Stage::AwaitInput);
                if self.query.is_over() {
                    return Ok(());
                }
                let stage = run.stage();
                if encoder.is_none() {
                    let Some(schema) = run.schema()? else {
                        clock.mark(stage);
                        continue;
                    };
                    if !self.query.has_schema() {
                        carries(&schema)?;
                        self.query
                            .publish(messages::schema(&schema_to_bytes(&schema)?));
                    }
                    encoder = Some(Encoder::new(&schema, self.making.compression)?);
                }
                let raw = run.next()?;
                if !matches!(raw, Raw::NotYet | Raw::End) {
                    self.making.handicap.burn(Stage::Generate);
                }
                clock.mark(stage);
                raw
            };
            let Some(encoder) = &mut encoder else {
                continue;
            };
            let goes_on = match raw {
                Raw::End => return Ok(()),
                Raw::NotYet => true,
                Raw::Ready(ready) => self.emit(ready, 0, encoder, clock)?,
                Raw::Rows(rows) => {
                    // In columns they take about as much.
                    let claim = rows.bytes.len() as u64;
                    self.claim(claim, clock) && {
                        let batch = in_columns(&rows, &mut columns)?;
                        self.emit_cut(&batch, claim, encoder, clock)?
                    }
                }
                Raw::Batches(batches) => {
                    let mut goes_on = true;
                    for batch in batches {
                        let batch = batch?;
                        clock.mark(Stage::Encode);
                        goes_on = self.emit_cut(&batch, 0, encoder, clock)?;
                        if !goes_on {
                            break;
                        }
                    }
                    goes_on
                }
            };
            if !goes_on {
                return Ok(());
            }
        }
        Ok(())
    }

    fn claim(&self, bytes: u64, clock: &mut StageClock) -> bool {
        let wanted = self.query.claim(bytes);
        clock.mark(Stage::AwaitOutput);
        wanted
    }

    /// A batch of any size, in blocks of about the size that was asked for. Memory for the first
    /// one may have been claimed.
    fn emit_cut(
        &self,
        batch: &RecordBatch,
        mut claimed: u64,
        encoder: &mut Encoder,
        clock: &mut StageClock,
    ) -> Result<bool> {
        let payload = payload_bytes(batch);
        let pieces = match payload > self.making.block_bytes.saturating_mul(SLACK) {
            true => payload.div_ceil(self.making.block_bytes) as usize,
            false => 1,
        };
        let rows = batch.num_rows().div_ceil(pieces).max(1);
        for at in (0..batch.num_rows()).step_by(rows) {
            let batch = batch.slice(at, rows.min(batch.num_rows() - at));
            let payload = match pieces {
                1 => payload,
                _ => payload_bytes(&batch),
            };
            let ready = Ready {
                batch,
                payload,
                digest: None,
            };
            if !self.emit(ready, std::mem::take(&mut claimed), encoder, clock)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// False: nobody wants more. `claimed`: bytes of memory; 0: none yet.
    fn emit(
        &self,
        ready: Ready,
        mut claimed: u64,
        encoder: &mut Encoder,
        clock: &mut StageClock,
    ) -> Result<bool> {
        let making = &self.making;
        if claimed == 0 {
            claimed = ready.payload;
            if !self.claim(claimed, clock) {
                return Ok(false);
            }
        }
        let rows = ready.batch.num_rows() as u64;
        let mut encoded = Vec::with_capacity(1);
        encoder.encode(&ready.batch, &mut encoded)?;
        let (Some(message), true) = (encoded.pop(), encoded.is_empty()) else {
            return Err(Error::new(
                Kind::Internal,
                "a batch was encoded as several messages",
            ));
        };
        let wrapped = messages::block(message, making.checksum);
        making.handicap.burn(Stage::Encode);
        clock.mark(Stage::Encode);
        let digest = match (making.digests, ready.digest) {
            (false, _) => 0,
            (true, Some(known)) => known,
            (true, None) => {
                let found = digest(&ready.batch)?;
                making.handicap.burn(Stage::Verify);
                clock.mark(Stage::Verify);
                found
            }
        };
        let block = Block {
            wrapped,
            rows,
            payload: ready.payload,
            digest,
        };
        Ok(self.query.put(block, claimed))
    }
}

/// An encoder has one decoder for all rows that it turns into columns.
fn in_columns(rows: &Rows, decoder: &mut Option<rowbinary::Decoder>) -> Result<RecordBatch> {
    let decoder = match decoder {
        Some(known) => known,
        none => none.insert(rowbinary::Decoder::new(&rows.columns)?),
    };
    decoder.push(&rows.bytes, rows.rows)?;
    let batch = decoder.finish()?;
    match &rows.kept {
        None => Ok(batch),
        Some(kept) => Ok(batch.project(kept)?),
    }
}

/// Dictionaries have messages of their own, and blocks of one query go to many readers.
fn carries(schema: &Schema) -> Result<()> {
    fn has_dictionary(data_type: &DataType) -> bool {
        match data_type {
            DataType::Dictionary(..) => true,
            DataType::RunEndEncoded(_, values) => has_dictionary(values.data_type()),
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _)
            | DataType::Map(field, _) => has_dictionary(field.data_type()),
            DataType::Struct(fields) => {
                fields.iter().any(|field| has_dictionary(field.data_type()))
            }
            DataType::Union(fields, _) => fields
                .iter()
                .any(|(_, field)| has_dictionary(field.data_type())),
            _ => false,
        }
    }
    let mut fields = schema.fields().iter();
    match fields.find(|field| has_dictionary(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(Error::usage(format!(
            "column {:?} is dictionary-encoded, which this interface does not carry: ask for its values",
            field.name()
        ))),
    }
}
