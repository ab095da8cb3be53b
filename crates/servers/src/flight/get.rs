//! A get: batches from a source or a table, encoded as the socket takes them.

use std::time::Instant;

use prost::Message as _;

use super::calls::{status, Status};
use crate::account::Trial;
use crate::rows::Giving;
use crate::state::State;
use venturi_base::codec::chunk::SendQueue;
use venturi_base::codec::flight::{queue_flight_data, Parts};
use venturi_base::codec::proto::Ticket;
use venturi_base::error::Result;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

pub(super) struct Get {
    pub rows: Giving,
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
        let reading = state.reading(&ticket.ticket, compression)?;
        let mut get = Self {
            rows: Giving::new(&state.store, reading, false)?,
            ending: None,
        };
        get.queue(queue)?;
        get.rows.trial = trial.take(); // of a get that fails here, whoever called accounts
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
        if !self.rows.next(handicap, clock)? {
            return Ok(None);
        }
        self.queue(queue)?;
        handicap.burn(Stage::Encode);
        Ok(Some(clock.mark(Stage::Encode)))
    }

    fn queue(&mut self, queue: &mut SendQueue) -> Result<()> {
        for encoded in self.rows.encoded.drain(..) {
            let parts = Parts {
                header: &encoded.header,
                ..Parts::default()
            };
            queue_flight_data(parts, encoded.body.into_iter(), encoded.body_length, queue)?;
        }
        Ok(())
    }
}
