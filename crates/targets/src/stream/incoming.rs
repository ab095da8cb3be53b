//! This end of what arrives.

use std::pin::Pin;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;

use super::failed;
use super::text::Text;
use crate::{Moved, Tally};
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::data::digest::digest;
use venturi_base::data::payload::payload_bytes;
use venturi_base::error::Result;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::os::pipe::HOLDS;

/// Reads without a whole batch after which another stream of the thread has its turn.
const IN_ONE_GO: usize = 64;

/// What the bytes are.
pub enum Reader {
    Arrow(Box<StreamReader>),
    Text(Text),
}

impl Reader {
    fn room(&mut self) -> &mut [u8] {
        match self {
            Self::Arrow(reader) => reader.room(),
            Self::Text(text) => text.room(),
        }
    }

    /// So many bytes of `room` were filled; the batch that they made whole.
    fn filled(&mut self, bytes: usize) -> Result<Option<(Moved, Option<RecordBatch>)>> {
        match self {
            Self::Arrow(reader) => {
                reader.filled(bytes)?;
                Ok(reader.take_ready().map(|batch| {
                    let moved = Moved {
                        rows: batch.num_rows() as u64,
                        bytes: payload_bytes(&batch),
                    };
                    (moved, Some(batch))
                }))
            }
            Self::Text(text) => {
                text.filled(bytes);
                let ready = text.take_ready();
                Ok(ready.map(|(rows, bytes)| (Moved { rows, bytes }, None)))
            }
        }
    }

    /// The pipe has ended.
    fn close(&mut self) -> Arrived {
        match self {
            Self::Arrow(reader) if reader.is_between() && reader.schema().is_some() => Arrived::End,
            Self::Arrow(_) => Arrived::Cut,
            Self::Text(text) => match text.close() {
                Err(()) => Arrived::Cut,
                Ok(None) => Arrived::End,
                Ok(Some((rows, bytes))) => Arrived::Batch(Moved { rows, bytes }),
            },
        }
    }
}

/// What came next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    Batch(Moved),
    /// The whole stream is here.
    End,
    /// The pipe ended in the middle of the stream.
    Cut,
}

pub struct Incoming {
    pub receiver: pipe::Receiver,
    reader: Reader,
    checksum: bool,
    /// The pipe has ended.
    closed: bool,
    pub tally: Tally,
}

impl Incoming {
    pub fn new(receiver: pipe::Receiver, reader: Reader, checksum: bool) -> Self {
        Self {
            receiver,
            reader,
            checksum,
            closed: false,
            tally: Tally::default(),
        }
    }

    pub fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Arrived>> {
        for _ in 0..IN_ONE_GO {
            if self.closed || matches!(&self.reader, Reader::Arrow(reader) if reader.is_ended()) {
                return Poll::Ready(Ok(Arrived::End));
            }
            let room = self.reader.room();
            // A read that leaves room is taken for the last one there is, and the next asks the kernel first
            // whether there is more.
            let most = room.len().min(HOLDS);
            let mut room = ReadBuf::new(&mut room[..most]);
            let read = Pin::new(&mut self.receiver).poll_read(cx, &mut room);
            clock.mark(Stage::Receive);
            let Poll::Ready(read) = read else {
                clock.wait(Stage::AwaitInput);
                return Poll::Pending;
            };
            read.map_err(|error| failed("reading", &error))?;
            let bytes = room.filled().len();
            if bytes == 0 {
                self.closed = true;
                let last = self.reader.close();
                if let Arrived::Batch(moved) = last {
                    self.tally.rows += moved.rows;
                }
                return Poll::Ready(Ok(last));
            }
            self.tally.wire_bytes += bytes as u64;
            let whole = self.reader.filled(bytes)?;
            let Some((moved, batch)) = whole else {
                continue;
            };
            clock.mark(Stage::Decode);
            self.tally.rows += moved.rows;
            if let Some(batch) = batch.filter(|_| self.checksum) {
                self.tally.checksum = self.tally.checksum.wrapping_add(digest(&batch)?);
                drop(batch);
                clock.mark(Stage::Verify);
            }
            return Poll::Ready(Ok(Arrived::Batch(moved)));
        }
        cx.waker().wake_by_ref();
        clock.wait(Stage::AwaitThread);
        Poll::Pending
    }

    /// Whether the pipe ends here; false: something follows the end of the stream.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        if self.closed {
            return Poll::Ready(Ok(true));
        }
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        let read = ready!(Pin::new(&mut self.receiver).poll_read(cx, &mut room));
        read.map_err(|error| failed("reading", &error))?;
        self.closed = room.filled().is_empty();
        Poll::Ready(Ok(self.closed))
    }
}
