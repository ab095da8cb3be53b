//! Rows through a pipe of the kernel: what `pipe://` and `exec://` share. This end is polled, the far
//! one blocks.

pub mod text;

use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use text::Text;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use crate::{Moved, Tally};
use venturi_base::codec::ipc::{Compression, Encoded, Encoder};
use venturi_base::codec::ipc_queue::{Queue, MOST_PIECES};
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::data::digest::digest;
use venturi_base::data::payload::payload_bytes;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::os::pipe::HOLDS;

/// Bytes of a batch between ends of ours at most.
pub const MOST_BATCH: usize = 1 << 31;

/// An error of the pipe itself.
pub fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(Kind::Lost, format!("{what}: {error}"))
}

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

/// Encodes and writes until all is written, or it shall stop.
pub fn give(
    pipe: &mut impl Write,
    mut cursor: Cursor,
    mut encoder: Encoder,
    checksum: bool,
    stop: &AtomicBool,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut encoded = vec![encoder.schema_message()];
    let mut left = Queue::default();
    loop {
        for message in encoded.drain(..) {
            left.push(message)?;
        }
        let next = match stop.load(Ordering::Acquire) {
            true => None,
            false => cursor.next(),
        };
        if next.is_none() {
            left.end()?;
        }
        while !left.is_empty() {
            let mut slices = [IoSlice::new(&[]); MOST_PIECES];
            let filled = left.pieces(&mut slices);
            let written = pipe.write_vectored(&slices[..filled]);
            let written = written.map_err(|error| failed("writing", &error))?;
            tally.wire_bytes += written as u64;
            left.advance(written);
        }
        let Some(item) = next else {
            return Ok(tally);
        };
        tally.rows += item.rows;
        if checksum {
            tally.checksum = tally.checksum.wrapping_add(item.digest()?);
        }
        encoder.encode(item.batch(), &mut encoded)?;
    }
}

/// Reads and decodes until the stream's end.
pub fn take(pipe: &mut impl Read, checksum: bool) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut reader = StreamReader::new(MOST_BATCH);
    while !reader.is_ended() {
        let read = pipe.read(reader.room());
        let bytes = read.map_err(|error| failed("reading", &error))?;
        if bytes == 0 {
            return Err(Error::new(Kind::Lost, "the stream was cut"));
        }
        tally.wire_bytes += bytes as u64;
        reader.filled(bytes)?;
        if let Some(batch) = reader.take_ready() {
            tally.rows += batch.num_rows() as u64;
            if checksum {
                tally.checksum = tally.checksum.wrapping_add(digest(&batch)?);
            }
        }
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_cut_is_an_error() {
        let error = take(&mut &[0xff; 4][..], true).unwrap_err();
        assert!(error.message.contains("was cut"), "{error}");
    }
}
