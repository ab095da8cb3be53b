//! This end of what is sent.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use tokio::io::AsyncWrite;
use tokio::net::unix::pipe;

use crate::{Moved, Tally};
use venturi_base::codec::ipc::{Compression, Encoded, Encoder};
use venturi_base::codec::ipc_queue::{Queue, MOST_PIECES};
use venturi_base::data::Cursor;
use venturi_base::error::Result;
use venturi_base::meter::clock::{Stage, StageClock};

/// What became of a batch, or of the end.
#[derive(Debug)]
pub enum Sent {
    Batch(Moved),
    /// There are no more.
    All,
    /// Nobody reads any more.
    Broken(io::Error),
}

pub struct Outgoing {
    /// `None`: the stream's end was written.
    sender: Option<pipe::Sender>,
    cursor: Cursor,
    encoder: Encoder,
    checksum: bool,
    left: Queue,
    encoded: Vec<Encoded>,
    /// The batch that is being written.
    moving: Option<Moved>,
    /// The stream's end is among what is written.
    ending: bool,
    /// Of what was sent.
    pub tally: Tally,
}

impl Outgoing {
    pub fn new(sender: pipe::Sender, cursor: Cursor, checksum: bool) -> Result<Self> {
        let encoder = Encoder::new(&cursor.source().schema(), Compression::None)?;
        let mut left = Queue::default();
        left.push(encoder.schema_message())?;
        Ok(Self {
            sender: Some(sender),
            cursor,
            encoder,
            checksum,
            left,
            encoded: Vec::new(),
            moving: None,
            ending: false,
            tally: Tally::default(),
        })
    }

    pub fn is_spent(&self) -> bool {
        self.cursor.is_spent()
    }

    pub fn sender(&self) -> Option<&pipe::Sender> {
        self.sender.as_ref()
    }

    /// Before the clock: writes the schema. Broken: nobody reads.
    pub async fn begin(&mut self) -> io::Result<()> {
        let mut clock = StageClock::start();
        std::future::poll_fn(|cx| self.poll_write(cx, &mut clock)).await
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<io::Result<()>> {
        while let (false, Some(sender)) = (self.left.is_empty(), &mut self.sender) {
            let mut slices = [IoSlice::new(&[]); MOST_PIECES];
            let filled = self.left.pieces(&mut slices);
            let written = Pin::new(sender).poll_write_vectored(cx, &slices[..filled]);
            clock.mark(Stage::Send);
            let Poll::Ready(written) = written else {
                clock.wait(Stage::AwaitOutput);
                return Poll::Pending;
            };
            let bytes = written?;
            self.tally.wire_bytes += bytes as u64;
            self.left.advance(bytes);
        }
        Poll::Ready(Ok(()))
    }

    pub fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Sent>> {
        if self.moving.is_none() {
            let Some(item) = self.cursor.next() else {
                return Poll::Ready(Ok(Sent::All));
            };
            self.moving = Some(Moved {
                rows: item.rows,
                bytes: item.payload,
            });
            self.tally.rows += item.rows;
            if self.checksum {
                self.tally.checksum = self.tally.checksum.wrapping_add(item.digest()?);
            }
            self.encoder.encode(item.batch(), &mut self.encoded)?;
            for message in self.encoded.drain(..) {
                self.left.push(message)?;
            }
            clock.mark(Stage::Encode);
        }
        let sent = ready!(self.poll_write(cx, clock));
        let moved = self.moving.take().unwrap_or_default();
        Poll::Ready(Ok(sent.map_or_else(Sent::Broken, |()| Sent::Batch(moved))))
    }

    /// Writes the stream's end; the pipe stays open until `close`.
    pub fn poll_end(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<Sent>> {
        if self.sender.is_some() {
            if !self.ending {
                self.ending = true;
                self.left.end()?;
            }
            if let Err(error) = ready!(self.poll_write(cx, clock)) {
                return Poll::Ready(Ok(Sent::Broken(error)));
            }
        }
        Poll::Ready(Ok(Sent::All))
    }

    pub fn close(&mut self) {
        self.sender = None;
    }
}
