//! A put: batches into a table, or counted and forgotten.

use prost::Message as _;

use super::calls::Status;
use crate::account::{Counted, Trial};
use crate::rows::{Sink, Taking};
use crate::state::State;
use crate::store::Store;
use venturi_base::codec::flight::FlightMessage;
use venturi_base::codec::ipc::Decoder;
use venturi_base::codec::proto::{descriptor_type, FlightDescriptor};
use venturi_base::error::Result;
use venturi_base::meter::clock::StageClock;

pub(super) struct Put {
    decoder: Decoder,
    rows: Taking,
    /// Where the rows go is known from the first message.
    begun: bool,
}

impl Put {
    pub fn new(trial: Option<Trial>, store: &Store) -> Self {
        Self {
            decoder: Decoder::limited(store.limit()),
            rows: Taking {
                sink: Sink::Discard,
                trial,
                counted: Counted::default(),
            },
            begun: false,
        }
    }

    pub fn trial(&self) -> Option<&Trial> {
        self.rows.trial.as_ref()
    }

    pub fn has_begun(&self) -> bool {
        self.begun
    }

    pub fn counted(&self) -> Counted {
        self.rows.counted
    }

    /// Takes one message; the application metadata comes back, to be acknowledged.
    pub fn message(
        &mut self,
        message: FlightMessage,
        state: &State,
        clock: &mut StageClock,
    ) -> std::result::Result<Vec<u8>, Status> {
        let (store, handicap) = (&state.store, &state.handicap);
        if !std::mem::replace(&mut self.begun, true) {
            self.rows.sink = sink(&message.descriptor, store)?;
        }
        let body_bytes = message.body.as_ref().map_or(0, |body| body.len()) as u64;
        if !message.header.is_empty() {
            let before = self.decoder.dictionary_bytes();
            match self.decoder.message(&message.header, message.body)? {
                Some(batch) => self
                    .rows
                    .take(batch, body_bytes, (store, handicap), clock)?,
                None => {
                    let now = self.decoder.dictionary_bytes();
                    self.rows
                        .take_dictionary((before, now), body_bytes, store)?;
                }
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
        Ok(self.rows.end(store, self.decoder.schema().cloned())?)
    }
}

fn sink(descriptor: &[u8], store: &Store) -> Result<Sink> {
    match FlightDescriptor::decode(descriptor) {
        Ok(descriptor) if descriptor.r#type == descriptor_type::PATH => {
            Sink::keep(store, descriptor.path.join("/"))
        }
        _ => Ok(Sink::Discard),
    }
}
