//! A put: batches into a table, or counted and forgotten.

use std::future::poll_fn;

use crate::account::Counted;
use crate::admission::{Activity, Slot};
use crate::rows::{Sink, Taking};
use crate::state::State;
use crate::store::Store;
use venturi_base::codec::coding::{Coding, Unpacker};
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::error::Result;
use venturi_base::http1::server::{Refusal, Request};
use venturi_base::http1::{other_type, Connection, ARROW_STREAM};
use venturi_base::meter::clock::{Stage, StageClock};

pub(super) struct Put {
    pub rows: Taking,
    reader: StreamReader,
    unpacker: Option<Unpacker>,
    /// What the reader had seen when it was looked at last.
    messages: u64,
    dictionaries: u64,
}

type Taken = std::result::Result<(), Refusal>;

impl Put {
    pub fn new(state: &State, request: &Request, sink: Sink) -> std::result::Result<Self, Refusal> {
        let kind = request.fields.get("content-type").unwrap_or_default();
        if let Some(kind) = other_type(kind) {
            let why = format!("the body is {kind}, and must be {ARROW_STREAM}");
            return Err(Refusal::new(415, why));
        }
        let coding = request.fields.get("content-encoding").unwrap_or_default();
        let unknown = || Refusal::new(415, "of content encodings gzip and zstd are known");
        let coding = Coding::of_name(coding).ok_or_else(unknown)?;
        Ok(Self {
            rows: Taking {
                sink,
                trial: None,
                counted: Counted::default(),
            },
            reader: StreamReader::new(state.max_message).within(state.incoming.clone()),
            unpacker: Unpacker::new(coding)?,
            messages: 0,
            dictionaries: 0,
        })
    }

    /// The whole body, which must be one Arrow stream and nothing else.
    pub async fn receive(
        &mut self,
        connection: &mut Connection,
        state: &State,
        slot: &Slot,
        clock: &mut StageClock,
    ) -> Taken {
        let mut behind = [0; 1];
        loop {
            let ended = self.reader.is_ended();
            let room = match ended {
                true => &mut behind[..],
                false => self.reader.room(),
            };
            let got = match &mut self.unpacker {
                None => match body(connection, room, clock).await? {
                    0 => break,
                    got => got,
                },
                Some(unpacker) => {
                    if let Some(packed) = unpacker.room() {
                        match body(connection, packed, clock).await? {
                            0 => {
                                unpacker.end()?;
                                break;
                            }
                            got => unpacker.filled(got),
                        }
                    }
                    let got = unpacker.run(room)?;
                    clock.mark(Stage::Unpack);
                    got
                }
            };
            if got == 0 {
                continue;
            }
            if ended {
                let why = "bytes follow the end of the Arrow stream";
                return Err(Refusal::new(400, why));
            }
            self.reader.filled(got)?;
            if self.messages == 0 && self.reader.messages() > 0 {
                slot.set_activity(Activity::Protected);
            }
            self.look(state, clock)?;
        }
        let whole = self.reader.is_between() && self.reader.schema().is_some();
        match whole {
            true => Ok(()),
            false => Err(Refusal::new(
                400,
                "the Arrow stream did not come to its end",
            )),
        }
    }

    /// Takes the message that is whole now, if one is.
    fn look(&mut self, state: &State, clock: &mut StageClock) -> Result<()> {
        let messages = self.reader.messages();
        if messages == std::mem::replace(&mut self.messages, messages) {
            return Ok(());
        }
        let store = &state.store;
        let body = self.reader.body_bytes() as u64;
        if let Some(batch) = self.reader.take_ready() {
            return self.rows.take(batch, body, (store, &state.handicap), clock);
        }
        let now = self.reader.dictionary_bytes();
        let before = std::mem::replace(&mut self.dictionaries, now);
        self.rows.take_dictionary((before, now), body, store)
    }

    /// A table is kept.
    pub fn end(self, store: &Store) -> Result<()> {
        self.rows.end(store, self.reader.schema().cloned())
    }
}

/// The next bytes of the body; 0: that was all of it.
async fn body(
    connection: &mut Connection,
    place: &mut [u8],
    clock: &mut StageClock,
) -> std::result::Result<usize, Refusal> {
    let mut waited = false;
    let got = poll_fn(|cx| {
        if waited {
            clock.mark(Stage::AwaitInput);
        }
        let got = connection.poll_body(cx, place);
        clock.mark(Stage::Receive);
        waited = got.is_pending();
        got
    });
    let broken = |error: venturi_base::error::Error| Refusal::new(400, error.message);
    got.await.map_err(broken)
}
