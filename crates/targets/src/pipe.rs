//! `pipe://`: an Arrow IPC stream through a pipe of the kernel, to or from a thread of this process.
//!
//! Nothing is between the two ends but the kernel's copy, so a trial against it measures what encoding,
//! copying and decoding cost without a network: a ceiling for streams between processes of one host.

use std::fs::File;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::empty::compare;
use super::stream::{self, Arrived, Incoming, Outgoing, Reader, Sent, MOST_BATCH};
use super::stream::{give, take};
use super::systems::System;
use super::{planned, Identity, LocalFuture, Moved, Session, Tally, Target, Verification};
use venturi_base::codec::ipc::{Compression, Encoder};
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::os::pipe::widen;
use venturi_base::spec::{Operation, TrialSpec, Verify};

/// A pipe within this process.
pub const SYSTEM: System = System {
    scheme: "pipe",
    operations: &[Operation::Get, Operation::Put],
    pipe: true,
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
        planned(&self.source, "pipe")
    }

    fn stream(&self) -> Result<Box<dyn Session>> {
        let cursor = self.source()?.cursor(self.spec.rows_per_stream);
        let checksum = self.spec.verify == Verify::Checksum;
        let (sender, receiver) = pipe::pipe().map_err(|error| failed("making a pipe", &error))?;
        widen(&sender);
        let (tell, told) = oneshot::channel();
        let far = OtherEnd(Some(told));
        if self.spec.operation == Operation::Get {
            let encoder = Encoder::new(&cursor.source().schema(), Compression::None)?;
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = stop.clone();
            let mut pipe = blocking(sender.into_blocking_fd())?;
            start(move || drop(tell.send(give(&mut pipe, cursor, encoder, checksum, &stopped))))?;
            let reader = Reader::Arrow(Box::new(StreamReader::new(MOST_BATCH)));
            return Ok(Box::new(Get {
                incoming: Incoming::new(receiver, reader, checksum),
                stop,
                far,
            }));
        }
        let mut pipe = blocking(receiver.into_blocking_fd())?;
        start(move || drop(tell.send(take(&mut pipe, checksum))))?;
        Ok(Box::new(Put {
            outgoing: Outgoing::new(sender, cursor, checksum)?,
            far,
            taken: None,
        }))
    }
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    stream::failed(what, error).context("pipe://")
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

/// What the far end of a stream has counted, once.
struct OtherEnd(Option<oneshot::Receiver<Result<Tally>>>);

impl OtherEnd {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Tally>> {
        let gone = || Error::new(Kind::Internal, "pipe: the far end has told nothing");
        let Some(told) = &mut self.0 else {
            return Poll::Ready(Err(gone()));
        };
        let told = ready!(Pin::new(told).poll(cx));
        self.0 = None;
        let told = told.unwrap_or_else(|_| Err(gone()));
        Poll::Ready(told.map_err(|error| error.context("pipe://")))
    }
}

struct Get {
    incoming: Incoming,
    stop: Arc<AtomicBool>,
    far: OtherEnd,
}

impl Session for Get {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let arrived = ready!(self.incoming.poll_batch(cx, clock));
        match arrived.map_err(|error| error.context("pipe://"))? {
            Arrived::Batch(moved) => Poll::Ready(Ok(Some(moved))),
            Arrived::End => Poll::Ready(Ok(None)),
            Arrived::Cut => {
                // It says why.
                ready!(self.far.poll(cx))?;
                Poll::Ready(Err(Error::new(Kind::Lost, "pipe://: the stream was cut")))
            }
        }
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        self.stop.store(true, Ordering::Release);
        while ready!(self.poll_batch(cx, clock))?.is_some() {}
        let sent = ready!(self.far.poll(cx))?;
        Poll::Ready(agreed(&sent, &self.incoming.tally))
    }

    fn progress(&self) -> u64 {
        self.incoming.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.incoming.tally
    }
}

struct Put {
    outgoing: Outgoing,
    far: OtherEnd,
    /// What the far end has counted.
    taken: Option<Tally>,
}

impl Session for Put {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        match ready!(self.outgoing.poll_batch(cx, clock))? {
            Sent::Batch(moved) => Poll::Ready(Ok(Some(moved))),
            Sent::All => Poll::Ready(Ok(None)),
            Sent::Broken(error) => {
                // The far end has ended, and says why.
                ready!(self.far.poll(cx))?;
                Poll::Ready(Err(failed("writing", &error)))
            }
        }
    }

    fn is_spent(&self) -> bool {
        self.outgoing.is_spent()
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        if let Sent::Broken(error) = ready!(self.outgoing.poll_end(cx, clock))? {
            ready!(self.far.poll(cx))?;
            return Poll::Ready(Err(failed("writing", &error)));
        }
        self.outgoing.close();
        let Poll::Ready(taken) = self.far.poll(cx) else {
            clock.wait(Stage::AwaitReply);
            return Poll::Pending;
        };
        clock.mark(Stage::AwaitReply);
        let taken = *self.taken.insert(taken?);
        Poll::Ready(agreed(&self.outgoing.tally, &taken))
    }

    fn progress(&self) -> u64 {
        self.outgoing.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.taken.unwrap_or(self.outgoing.tally)
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
    fn counts_that_differ_are_a_mismatch() {
        let sent = Tally {
            rows: 2,
            ..Tally::default()
        };
        assert!(agreed(&sent, &sent).is_ok());
        assert!(agreed(&sent, &Tally::default()).is_err());
    }
}
