//! `pipe://`: an Arrow IPC stream through a pipe of the kernel, to or from a thread of this process.
//!
//! Nothing is between the two ends but the kernel's copy, so a trial against it measures what encoding,
//! copying and decoding cost without a network: a ceiling for streams between processes of one host.

use std::fs::File;
use std::future::Future;
use std::io::{IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::empty::compare;
use super::systems::System;
use super::{Identity, LocalFuture, Moved, Session, Tally, Target, Verification};
use venturi_base::codec::chunk::Chunk;
use venturi_base::codec::ipc::{Compression, Encoded, Encoder};
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::data::digest::digest;
use venturi_base::data::payload::payload_bytes;
use venturi_base::data::{Cursor, Source};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::{Operation, TrialSpec, Verify};

/// Bytes of a batch at most.
const MOST_BATCH: usize = 1 << 31;
/// Reads without a whole batch after which another stream of the thread has its turn.
const IN_ONE_GO: usize = 64;
/// Pieces that one write takes: a batch of a few columns with its header.
const MOST_PIECES: usize = 64;

/// A pipe within this process.
pub const SYSTEM: System = System {
    scheme: "pipe",
    operations: &[Operation::Get, Operation::Put],
    target: |spec| Ok(Box::new(Pipes::new(spec)?)),
    ..System::NOTHING
};

pub struct Pipes {
    spec: Arc<TrialSpec>,
    source: Option<Source>,
}

impl Pipes {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        if let Some((name, _)) = spec.options.iter().find(|(_, asked)| !asked.is_null()) {
            return Err(Error::usage(format!("pipe://: has no option {name}")));
        }
        if !SYSTEM.operations.contains(&spec.operation) {
            return Err(Error::usage("pipe:// takes gets and puts"));
        }
        Ok(Self { spec, source: None })
    }

    fn source(&self) -> Result<&Source> {
        let unplanned = || Error::new(Kind::Internal, "pipe: not planned");
        self.source.as_ref().ok_or_else(unplanned)
    }

    fn stream(&self) -> Result<Box<dyn Session>> {
        let cursor = self.source()?.cursor(self.spec.rows_per_stream);
        let encoder = Encoder::new(&cursor.source().schema(), Compression::None)?;
        let checksum = self.spec.verify == Verify::Checksum;
        let (sender, receiver) = pipe::pipe().map_err(|error| failed("making a pipe", &error))?;
        let (tell, told) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        if self.spec.operation == Operation::Get {
            let far: File = blocking(sender.into_blocking_fd())?;
            let stopped = stop.clone();
            start(move || drop(tell.send(give(far, cursor, encoder, checksum, &stopped))))?;
            return Ok(Box::new(Get {
                receiver,
                reader: StreamReader::new(MOST_BATCH),
                checksum,
                stop,
                far: Far(Some(told)),
                tally: Tally::default(),
            }));
        }
        let far: File = blocking(receiver.into_blocking_fd())?;
        start(move || drop(tell.send(take(far, checksum))))?;
        let mut left = Vec::new();
        queue(encoder.schema_message(), &mut left);
        Ok(Box::new(Put {
            sender: Some(sender),
            cursor,
            encoder,
            checksum,
            left,
            encoded: Vec::new(),
            moving: None,
            ending: false,
            far: Far(Some(told)),
            tally: Tally::default(),
        }))
    }
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Kind::Lost, format!("pipe://: {what}: {error}"))
}

fn blocking(fd: std::io::Result<std::os::fd::OwnedFd>) -> Result<File> {
    fd.map(File::from)
        .map_err(|error| failed("making a pipe", &error))
}

/// A thread of the far end; it ends with its stream, or when this end is dropped.
fn start(work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name("pipe".into())
        .spawn(work)
        .map(drop)
        .map_err(|error| failed("starting a thread", &error))
}

/// A message as it stands in an Arrow IPC stream.
fn queue(message: Encoded, out: &mut Vec<Chunk>) {
    let mut prefix = u32::MAX.to_le_bytes().to_vec();
    prefix.extend((message.header.len() as u32).to_le_bytes());
    prefix.extend_from_slice(&message.header);
    out.push(Chunk::Small(prefix));
    out.extend(message.body);
}

/// The end of an Arrow IPC stream.
fn end() -> Chunk {
    Chunk::Small([u32::MAX.to_le_bytes(), [0; 4]].concat())
}

/// The far end of a get: encodes and writes until all is written, or it shall stop.
fn give(
    mut pipe: File,
    mut cursor: Cursor,
    mut encoder: Encoder,
    checksum: bool,
    stop: &AtomicBool,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut encoded = vec![encoder.schema_message()];
    let mut left = Vec::new();
    loop {
        for message in encoded.drain(..) {
            queue(message, &mut left);
        }
        let next = match stop.load(Ordering::Acquire) {
            true => None,
            false => cursor.next(),
        };
        if next.is_none() {
            left.push(end());
        }
        while !left.is_empty() {
            let written = pipe.write_vectored(&pieces(&left));
            let written = written.map_err(|error| failed("writing", &error))?;
            tally.wire_bytes += written as u64;
            advance(&mut left, written);
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

/// The far end of a put: reads and decodes until the stream's end.
fn take(mut pipe: File, checksum: bool) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut reader = StreamReader::new(MOST_BATCH);
    while !reader.is_ended() {
        let read = pipe.read(reader.room());
        let bytes = read.map_err(|error| failed("reading", &error))?;
        if bytes == 0 {
            return Err(Error::new(Kind::Lost, "pipe://: the stream was cut"));
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

fn pieces(left: &[Chunk]) -> Vec<IoSlice<'_>> {
    let chunks = left.iter().take(MOST_PIECES);
    chunks.map(|chunk| IoSlice::new(chunk.as_slice())).collect()
}

/// Takes off what was written.
fn advance(left: &mut Vec<Chunk>, mut written: usize) {
    let whole = left.iter().take_while(|chunk| {
        let fits = chunk.len() <= written;
        written -= if fits { chunk.len() } else { 0 };
        fits
    });
    let whole = whole.count();
    left.drain(..whole);
    if written > 0 {
        left[0].split_to(written);
    }
}

/// What the far end of a stream has counted, once.
struct Far(Option<oneshot::Receiver<Result<Tally>>>);

impl Far {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Tally>> {
        let gone = || Error::new(Kind::Internal, "pipe: the far end has told nothing");
        let Some(told) = &mut self.0 else {
            return Poll::Ready(Err(gone()));
        };
        let told = ready!(Pin::new(told).poll(cx));
        self.0 = None;
        Poll::Ready(told.unwrap_or_else(|_| Err(gone())))
    }
}

struct Get {
    receiver: pipe::Receiver,
    reader: StreamReader,
    checksum: bool,
    stop: Arc<AtomicBool>,
    far: Far,
    tally: Tally,
}

impl Session for Get {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        for _ in 0..IN_ONE_GO {
            if self.reader.is_ended() {
                return Poll::Ready(Ok(None));
            }
            let mut room = ReadBuf::new(self.reader.room());
            let read = Pin::new(&mut self.receiver).poll_read(cx, &mut room);
            clock.mark(Stage::Receive);
            let Poll::Ready(read) = read else {
                clock.wait(Stage::AwaitInput);
                return Poll::Pending;
            };
            read.map_err(|error| failed("reading", &error))?;
            let bytes = room.filled().len();
            if bytes == 0 {
                // It says why.
                ready!(self.far.poll(cx))?;
                return Poll::Ready(Err(Error::new(Kind::Lost, "pipe://: the stream was cut")));
            }
            self.tally.wire_bytes += bytes as u64;
            self.reader.filled(bytes)?;
            let Some(batch) = self.reader.take_ready() else {
                continue;
            };
            let moved = Moved {
                rows: batch.num_rows() as u64,
                bytes: payload_bytes(&batch),
            };
            clock.mark(Stage::Decode);
            self.tally.rows += moved.rows;
            if self.checksum {
                self.tally.checksum = self.tally.checksum.wrapping_add(digest(&batch)?);
                drop(batch);
                clock.mark(Stage::Verify);
            }
            return Poll::Ready(Ok(Some(moved)));
        }
        cx.waker().wake_by_ref();
        clock.wait(Stage::AwaitThread);
        Poll::Pending
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        self.stop.store(true, Ordering::Release);
        while ready!(self.poll_batch(cx, clock))?.is_some() {}
        let sent = ready!(self.far.poll(cx))?;
        Poll::Ready(agreed(&sent, &self.tally))
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

struct Put {
    /// `None`: the stream's end was written.
    sender: Option<pipe::Sender>,
    cursor: Cursor,
    encoder: Encoder,
    checksum: bool,
    /// Still to be written.
    left: Vec<Chunk>,
    encoded: Vec<Encoded>,
    /// The batch that is being written.
    moving: Option<Moved>,
    /// The stream's end is among what is written.
    ending: bool,
    far: Far,
    tally: Tally,
}

impl Put {
    fn poll_write(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        while let (false, Some(sender)) = (self.left.is_empty(), &mut self.sender) {
            let written = Pin::new(sender).poll_write_vectored(cx, &pieces(&self.left));
            clock.mark(Stage::Send);
            let Poll::Ready(written) = written else {
                clock.wait(Stage::AwaitOutput);
                return Poll::Pending;
            };
            match written {
                Ok(bytes) => {
                    self.tally.wire_bytes += bytes as u64;
                    advance(&mut self.left, bytes);
                }
                Err(error) => {
                    // The far end has ended, and says why.
                    ready!(self.far.poll(cx))?;
                    return Poll::Ready(Err(failed("writing", &error)));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Session for Put {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if self.moving.is_none() {
            let Some(item) = self.cursor.next() else {
                return Poll::Ready(Ok(None));
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
                queue(message, &mut self.left);
            }
            clock.mark(Stage::Encode);
        }
        ready!(self.poll_write(cx, clock))?;
        Poll::Ready(Ok(self.moving.take()))
    }

    fn is_spent(&self) -> bool {
        self.cursor.is_spent()
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        if self.sender.is_some() {
            if !self.ending {
                self.ending = true;
                self.left.push(end());
            }
            ready!(self.poll_write(cx, clock))?;
            self.sender = None;
        }
        let Poll::Ready(taken) = self.far.poll(cx) else {
            clock.wait(Stage::AwaitReply);
            return Poll::Pending;
        };
        clock.mark(Stage::AwaitReply);
        let sent = std::mem::replace(&mut self.tally, taken?);
        Poll::Ready(agreed(&sent, &self.tally))
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// Whether as much arrived as was sent.
fn agreed(sent: &Tally, arrived: &Tally) -> Result<()> {
    match (sent.rows, sent.checksum) == (arrived.rows, arrived.checksum) {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Verification,
            format!(
                "pipe://: {} rows with checksum {:016x} were sent, {} with {:016x} arrived",
                sent.rows, sent.checksum, arrived.rows, arrived.checksum
            ),
        )),
    }
}

impl Target for Pipes {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            self.source = Some(Source::make(&self.spec.data, self.spec.rows_per_batch)?);
            Ok(Identity {
                address: "this process".into(),
                software: Some(concat!("venturi ", env!("CARGO_PKG_VERSION")).into()),
                protocol: "pipe".into(),
                pid: Some(std::process::id()),
                same_machine: Some(true),
                same_clock: true,
                ..Identity::default()
            })
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move { group.iter().map(|_| self.stream()).collect() })
    }

    /// METHOD, "Verification": what arrived is what the source holds.
    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(async move { compare(&self.spec, self.source()?, tallies) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_engine::{run, Control, Outcome};

    fn trial(operation: &str, more: &str) -> venturi_engine::Record {
        let spec = TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "pipe://", "operation": "{operation}",
                "data": {{"source": "records", "columns": 4}}, "rows_per_batch": 5000,
                "streams": 3, "threads": 2, {more}}}"#
        ));
        run(spec.unwrap(), &Control::new())
    }

    #[test]
    fn what_is_sent_arrives() {
        for operation in ["get", "put"] {
            let record = trial(operation, r#""rows_per_stream": 1000050"#);
            assert_eq!(record.error, None);
            assert_eq!(record.counts.rows, 3_000_150);
            assert_eq!(record.counts.payload_bytes, 3_000_150 * 32);
            assert!(record.counts.wire_bytes > record.counts.payload_bytes);
            let verified = record.verification;
            assert_eq!(verified.achieved, "checksum");
            assert_eq!(verified.checksum, verified.expected_checksum);
        }
    }

    #[test]
    fn fixed_time_ends_with_whole_batches() {
        for operation in ["get", "put"] {
            let record = trial(operation, r#""duration_ns": 100000000"#);
            assert_eq!(record.outcome, Outcome::Ok, "{:?}", record.error);
            assert!(record.counts.rows > 0 && record.counts.rows.is_multiple_of(5000));
            assert_eq!(record.verification.achieved, "checksum");
        }
    }

    #[test]
    fn what_it_has_not_is_refused() {
        let options = r#""rows_per_stream": 10, "options": {"window": 1}"#;
        let record = trial("get", options);
        assert!(record
            .error
            .unwrap()
            .message
            .contains("has no option window"));
    }

    #[test]
    fn a_stream_that_is_cut_is_an_error() {
        let path = std::env::temp_dir().join(format!("venturi-pipe-{}", std::process::id()));
        std::fs::write(&path, [0xff; 4]).unwrap();
        let error = take(File::open(&path).unwrap(), true).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.message.contains("was cut"), "{error}");
    }

    #[test]
    fn counts_that_differ_are_a_mismatch() {
        let sent = Tally {
            rows: 2,
            ..Tally::default()
        };
        assert!(agreed(&sent, &sent).is_ok());
        assert!(agreed(&sent, &Tally::default()).is_err());
    }
}
