//! A put: batches into a table, or counted and forgotten.

use std::sync::Arc;

use arrow_array::RecordBatch;
use prost::Message as _;

use super::calls::{status, Status};
use super::store::{Claim, Store, Table};
use super::State;
use crate::account::{Counted, Trial};
use venturi_base::codec::flight::FlightMessage;
use venturi_base::codec::ipc::Decoder;
use venturi_base::codec::proto::{descriptor_type, FlightDescriptor};
use venturi_base::data::{digest, payload_bytes};
use venturi_base::error::Result;
use venturi_base::meter::clock::{Stage, StageClock};

pub(super) struct Put {
    decoder: Decoder,
    /// Where the rows go; known from the first message.
    sink: Option<Sink>,
    pub trial: Option<Trial>,
    pub counted: Counted,
}

/// What a batch costs at least: its body lies in memory of its own, in whole pages.
const LEAST_COST: u64 = 4096;
/// What a column costs at least, however few its values.
const ARRAY_COST: u64 = 256;

enum Sink {
    /// The perf protocol: a descriptor without a name, rows that nobody keeps.
    Discard,
    Keep {
        path: String,
        batches: Vec<RecordBatch>,
        /// Their memory.
        claim: Claim,
    },
}

impl Put {
    pub fn new(trial: Option<Trial>, store: &Store) -> Self {
        Self {
            decoder: Decoder::limited(store.limit()),
            sink: None,
            trial,
            counted: Counted::default(),
        }
    }

    /// Takes one message; the application metadata comes back, to be acknowledged.
    pub fn message(
        &mut self,
        message: FlightMessage,
        state: &State,
        clock: &mut StageClock,
    ) -> std::result::Result<Vec<u8>, Status> {
        let (store, handicap) = (&state.store, &state.handicap);
        let sink = match &mut self.sink {
            Some(sink) => sink,
            none => none.insert(Sink::of(&message.descriptor, store)?),
        };
        let body_bytes = message.body.as_ref().map_or(0, |body| body.len()) as u64;
        if !message.header.is_empty() {
            let dictionaries = self.decoder.dictionary_bytes();
            if let Some(batch) = self.decoder.message(&message.header, message.body)? {
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
                if let Sink::Keep { batches, claim, .. } = sink {
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
            } else if let Sink::Keep { claim, .. } = sink {
                // The batches that follow hold on to their dictionaries, also to replaced ones.
                let now = self.decoder.dictionary_bytes();
                let cost = match now > dictionaries {
                    true => now - dictionaries,
                    false => body_bytes,
                };
                store.extend(claim, cost)?;
            }
        }
        Ok(message.metadata)
    }

    /// Ends the put: a table is kept if all went well, and forgotten if not.
    pub fn end(
        self,
        store: &Store,
        outcome: std::result::Result<(), Status>,
    ) -> std::result::Result<(), Status> {
        outcome?;
        let Some(Sink::Keep {
            path,
            batches,
            claim,
        }) = self.sink
        else {
            return Ok(());
        };
        let schema = self.decoder.schema().cloned();
        let table = Table {
            schema: schema
                .ok_or_else(|| Status::new(status::INVALID_ARGUMENT, "a put without a schema"))?,
            batches: Arc::new(batches),
            rows: self.counted.rows,
            claims: vec![Arc::new(claim)],
            trial: self.trial.map(|trial| trial.id),
        };
        Ok(store.keep(path, table)?)
    }
}

impl Sink {
    fn of(descriptor: &[u8], store: &Store) -> Result<Self> {
        Ok(match FlightDescriptor::decode(descriptor) {
            Ok(descriptor) if descriptor.r#type == descriptor_type::PATH => Sink::Keep {
                path: descriptor.path.join("/"),
                batches: vec![],
                claim: store.claim(0)?,
            },
            _ => Sink::Discard,
        })
    }
}
