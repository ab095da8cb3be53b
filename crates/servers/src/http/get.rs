//! A get: batches from a source or a table, encoded as the socket takes them.

use std::future::poll_fn;
use std::time::Duration;

use crate::rows::{Giving, Reading};
use crate::store::Store;
use venturi_base::codec::coding::Coding;
use venturi_base::codec::ipc_queue::Queue;
use venturi_base::error::Result;
use venturi_base::http1::server::{head, Request};
use venturi_base::http1::{Connection, ARROW_STREAM};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

/// Small batches share a system call: no more than this waits for the next one.
const LOW_WATER: usize = 128 << 10;
/// Nor for longer: a batch that takes its time may be small.
const AT_A_TIME: Duration = Duration::from_millis(1);

pub(super) struct Get {
    pub rows: Giving,
    queue: Queue,
    coding: Coding,
    /// Without chunks only the connection's end says where the body ends.
    chunked: bool,
}

impl Get {
    pub fn new(store: &Store, reading: Reading, request: &Request) -> Result<Self> {
        let accepted = request.fields.get("accept-encoding").unwrap_or_default();
        let coding = Coding::accepted(accepted);
        let chunked = !request.is_old;
        Ok(Self {
            rows: Giving::new(store, reading, coding != Coding::Identity)?,
            queue: Queue::http(chunked, coding)?,
            coding,
            chunked,
        })
    }

    pub fn closes(&self) -> bool {
        !self.chunked
    }

    fn head(&self) -> Vec<u8> {
        let mut headers = vec![("Content-Type", ARROW_STREAM)];
        headers.push(match self.chunked {
            true => ("Transfer-Encoding", "chunked"),
            false => ("Connection", "close"),
        });
        headers.extend(self.coding.name().map(|name| ("Content-Encoding", name)));
        head(200, &headers)
    }

    /// The whole answer. An error: the client is gone, or the rows came to no end.
    pub async fn send(
        &mut self,
        connection: &mut Connection,
        handicap: &Handicap,
        clock: &mut StageClock,
    ) -> Result<()> {
        connection.say(&self.head()).await?;
        let mut sent = clock.mark(Stage::Send);
        loop {
            let more = self.rows.next(handicap, clock)?;
            for message in self.rows.encoded.drain(..) {
                self.queue.push(message)?;
            }
            if more {
                handicap.burn(Stage::Encode);
                let now = clock.mark(Stage::Encode);
                if self.queue.bytes() < LOW_WATER && now.duration_since(sent) < AT_A_TIME {
                    continue;
                }
            } else {
                self.queue.end()?;
            }
            self.flush(connection, clock).await?;
            if !more {
                return Ok(());
            }
            sent = clock.mark(Stage::Send);
        }
    }

    async fn flush(&mut self, connection: &mut Connection, clock: &mut StageClock) -> Result<()> {
        let mut waited = false;
        let sent = poll_fn(|cx| {
            if waited {
                clock.mark(Stage::AwaitOutput);
            }
            let sent = connection.poll_queue(cx, &mut self.queue, false);
            clock.mark(Stage::Send);
            waited = sent.is_pending();
            sent
        });
        sent.await.map(|_| ())
    }
}
