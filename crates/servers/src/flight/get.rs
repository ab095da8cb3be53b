//! A get: batches from a source or a table, encoded as the socket takes them.

use std::sync::atomic::Ordering;
use std::time::Instant;

use prost::Message as _;

use super::calls::{status, Reading, Status};
use super::store::Claim;
use super::State;
use crate::account::{Counted, Trial};
use venturi_base::codec::chunk::SendQueue;
use venturi_base::codec::flight::{queue_flight_data, Parts};
use venturi_base::codec::ipc::{Compression, Encoded, Encoder};
use venturi_base::codec::proto::Ticket;
use venturi_base::data::{digest, payload_bytes};
use venturi_base::error::Result;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

pub(super) struct Get {
    encoder: Encoder,
    /// Compressed, a batch that is sent is no slice of what is there.
    _claim: Option<Claim>,
    reading: Reading,
    pub trial: Option<Trial>,
    pub counted: Counted,
    encoded: Vec<Encoded>,
    /// All is queued; it is over when this much of the connection's output is written, once
    /// that is known.
    pub ending: Option<Ending>,
}

/// How far a get has come that has no more to queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Queued,
    /// Its last frame ends there in the connection's output.
    Cut(u64),
}

impl Get {
    /// Reads the request (a ticket); the schema message is queued at once. `compression` is
    /// that of a table: what is made on demand brings its own.
    pub fn open(
        state: &State,
        trial: &mut Option<Trial>,
        request: &[u8],
        compression: &str,
        queue: &mut SendQueue,
    ) -> std::result::Result<Self, Status> {
        let ticket = Ticket::decode(request).map_err(|error| {
            Status::new(status::INVALID_ARGUMENT, format!("not a ticket: {error}"))
        })?;
        let reading = state.reading(&ticket.ticket)?;
        let (schema, compression) = match &reading {
            Reading::Source(cursor, compression, _) => (cursor.source().schema(), *compression),
            Reading::Table(table, _) => (table.schema.clone(), Compression::of_name(compression)?),
        };
        let encoder = Encoder::new(&schema, compression)?;
        let claim = match compression {
            Compression::None => None,
            _ => Some(state.store.claim(reading.largest_batch())?),
        };
        let mut get = Self {
            _claim: claim,
            encoded: vec![encoder.schema_message()],
            encoder,
            reading,
            trial: None,
            counted: Counted::default(),
            ending: None,
        };
        get.queue(queue)?;
        get.trial = trial.take(); // of a get that fails here, whoever called accounts
        Ok(get)
    }

    /// Encodes and queues the next batch, and says when that was done; `None`: there is no more, or the trial
    /// has ended.
    pub fn next(
        &mut self,
        queue: &mut SendQueue,
        handicap: &Handicap,
        clock: &mut StageClock,
    ) -> Result<Option<Instant>> {
        let trial = self.trial.as_ref();
        if trial.is_some_and(|trial| trial.stop.load(Ordering::Relaxed)) {
            return Ok(None);
        }
        let checksum = trial.is_some_and(|trial| trial.checksum);
        match &mut self.reading {
            Reading::Source(cursor, ..) => {
                let Some(item) = cursor.next() else {
                    return Ok(None);
                };
                handicap.burn(Stage::Generate);
                clock.mark(Stage::Generate);
                let sum = if checksum { item.digest()? } else { 0 };
                self.counted.add(item.rows, item.payload, sum);
                self.encoder.encode(item.batch(), &mut self.encoded)?;
            }
            Reading::Table(table, at) => {
                let Some(batch) = table.batches.get(*at) else {
                    return Ok(None);
                };
                *at += 1;
                let sum = if checksum { digest(batch)? } else { 0 };
                self.counted
                    .add(batch.num_rows() as u64, payload_bytes(batch), sum);
                self.encoder.encode(batch, &mut self.encoded)?;
            }
        }
        self.queue(queue)?;
        handicap.burn(Stage::Encode);
        Ok(Some(clock.mark(Stage::Encode)))
    }

    fn queue(&mut self, queue: &mut SendQueue) -> Result<()> {
        for encoded in self.encoded.drain(..) {
            let parts = Parts {
                header: &encoded.header,
                ..Parts::default()
            };
            queue_flight_data(parts, encoded.body.into_iter(), encoded.body_length, queue)?;
        }
        Ok(())
    }
}
