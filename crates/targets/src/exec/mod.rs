//! `exec://`: a program a stream, that writes rows to its standard output or reads them from its standard
//! input: an Arrow IPC stream, or text that is counted.
//!
//! Programs are started before the clock, so that their processes are known when it starts, and each is
//! waited for until it has written its first byte or read the schema: what a program takes to start is set-up.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::unix::pipe;

use crate::empty::compare;
use crate::placeholders::Placeholders;
use crate::stream::text::Text;
use crate::stream::{Incoming, Outgoing, Reader};
use crate::systems::System;
use crate::{each, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

mod options;
pub mod own;
mod program;
mod session;
#[cfg(test)]
mod tests;

use options::{Format, Options};
use program::{Counted, Program, Programs};
use session::{within, Get, Put};

/// Any program.
pub const SYSTEM: System = System {
    scheme: "exec",
    operations: &[Operation::Get, Operation::Put],
    pipe: true,
    target: |spec| Ok(Box::new(Exec::new(spec)?)),
    ..System::NOTHING
};

pub struct Exec {
    spec: Arc<TrialSpec>,
    options: Options,
    /// The rows that are known.
    source: Option<Source>,
    programs: Programs,
    /// This end of each one's pipe, until its stream is opened.
    pipes: Mutex<Vec<Option<OwnedFd>>>,
}

impl Exec {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        Ok(Self {
            options: Options::of(&spec)?,
            spec,
            source: None,
            programs: Programs::default(),
            pipes: Mutex::default(),
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    fn start(&mut self) -> Result<()> {
        for stream in self.spec.own() {
            let told = Placeholders::of(&self.spec, self.options.format.name(), stream);
            let command = told.fill(&self.options.command)?;
            let started = Program::start(&command, told.environment(), self.spec.operation);
            let (program, pipe) =
                started.map_err(|error| error.context(format_args!("stream {stream}")))?;
            self.programs.0.push(Arc::new(program));
            self.pipes.lock().push(Some(pipe));
        }
        Ok(())
    }

    async fn stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let at = stream - self.spec.own().start;
        let pipe = self.pipes.lock().get_mut(at).and_then(Option::take);
        let unplanned = || Error::new(Kind::Internal, "exec: not planned");
        let (pipe, program) = (pipe.ok_or_else(unplanned)?, self.programs.0[at].clone());
        let failed = |error: std::io::Error| program.error(Kind::Io, &error.to_string());
        // Rows that nothing is held against cost no checksum.
        let checksum = self.spec.verify == Verify::Checksum && self.source.is_some();
        if self.spec.operation == Operation::Get {
            let receiver = pipe::Receiver::from_owned_fd(pipe).map_err(failed)?;
            let rows = self.spec.rows_per_batch;
            let reader = match self.options.format {
                Format::Arrow => {
                    Reader::Arrow(Box::new(StreamReader::new(self.options.max_block_bytes)))
                }
                format => Reader::Text(Text::new(format == Format::Csv, rows)),
            };
            let incoming = Incoming::new(receiver, reader, checksum);
            let timed = self.spec.duration_ns.is_some();
            let get = Get::new(incoming, program.clone(), self.spec.rows_per_stream, timed);
            within(self.timeout(), &program, "has written nothing", get.begun()).await?;
            return Ok(Box::new(get));
        }
        let sender = pipe::Sender::from_owned_fd(pipe).map_err(failed)?;
        let cursor = self.source.as_ref().ok_or_else(unplanned)?;
        let cursor = cursor.cursor(self.spec.rows_per_stream);
        let mut put = Put::new(Outgoing::new(sender, cursor, checksum)?, program.clone());
        let what = "has not read its standard input";
        within(self.timeout(), &program, what, put.begun()).await?;
        Ok(Box::new(put))
    }

    fn verification(&self, tallies: &[Tally]) -> Result<Verification> {
        if let (Operation::Get, Some(source)) = (self.spec.operation, &self.source) {
            let mut found = compare(&self.spec, source, tallies)?;
            if let Some(mismatch) = found
                .mismatch
                .as_mut()
                .filter(|_| self.spec.verify == Verify::Checksum)
            {
                *mismatch += &format!(
                    ": the program has to write the rows of the data, {} a batch",
                    self.spec.rows_per_batch
                );
            }
            return Ok(found);
        }
        let counted = self.programs.0.iter().map(|program| program.counted());
        let counted: Option<Vec<Counted>> = counted.collect();
        let counted = counted.filter(|counted| counted.len() == tallies.len());
        Ok(held_against(&self.spec, counted.as_deref(), tallies))
    }
}

/// What this end has counted beside what the programs say, if all of them do.
fn held_against(spec: &TrialSpec, counted: Option<&[Counted]>, tallies: &[Tally]) -> Verification {
    let rows = tallies.iter().map(|tally| tally.rows).sum();
    let mut found = Verification::of(spec.verify, rows);
    let get = spec.operation == Operation::Get;
    let ends = match get {
        true => ("the client", "the program"),
        false => ("the program", "the client"),
    };
    let timed = spec.duration_ns.is_some();
    let told = counted.map(|all| all.iter().map(|one| one.rows).sum::<u64>());
    let planned = spec.planned_rows().filter(|_| get);
    if let Some(expected) = planned.or(told.filter(|_| !(get && timed))) {
        found.achieved = "count";
        found.expected_rows = Some(expected);
    } else if get && timed {
        let note = "a get that ends with its time has no number of rows to be held against";
        found.note = Some(note.into());
    } else {
        found.achieved = "acknowledged";
        found.note = Some(format!(
            "the program ended with status 0 after the whole stream, but does not say how many rows it {}",
            if get { "wrote" } else { "took" }
        ));
    }
    if let (Some(told), Some(_)) = (told, planned) {
        found.compare_rows(("the client", rows), ("the program", told));
    }
    if let Some(expected) = found.expected_rows {
        let (received, sent) = if get {
            (rows, expected)
        } else {
            (expected, rows)
        };
        found.compare_rows((ends.0, received), (ends.1, sent));
    }
    let checksums = counted.filter(|_| spec.verify == Verify::Checksum && !get);
    let told: Option<u64> = checksums.and_then(|all| {
        all.iter()
            .try_fold(0u64, |sum, one| Some(sum.wrapping_add(one.checksum?)))
    });
    if let Some(told) = told {
        let sum = |sum: u64, tally: &Tally| sum.wrapping_add(tally.checksum);
        found.achieved = "checksum";
        found.expected_checksum = Some(format!("{:016x}", tallies.iter().fold(0, sum)));
        found.checksum = Some(format!("{told:016x}"));
        found.compare_checksums(ends.0, ends.1);
    } else if spec.verify == Verify::Checksum && found.note.is_none() {
        found.note = Some("the program does not tell a checksum".into());
    }
    found
}

impl Target for Exec {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            if self.spec.data != Data::Remote {
                self.source = Some(Source::make(&self.spec.data, self.spec.rows_per_batch)?);
            }
            self.start()?;
            let first = self.options.command.first().cloned().unwrap_or_default();
            let name = first.rsplit('/').next().map(str::to_owned);
            Ok(Identity {
                address: "this host".into(),
                software: name,
                protocol: format!("exec ({})", self.options.format.name()),
                pid: self.programs.0.first().map(|program| program.pid()),
                same_machine: Some(true),
                same_clock: true,
                programs: self
                    .programs
                    .0
                    .iter()
                    .map(|program| program.pid())
                    .collect(),
                ..Identity::default()
            })
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            let open = async |stream| Ok(Some(self.stream(stream).await?));
            each(group, open).await
        })
    }

    /// METHOD, "Verification": against the rows that are known, else against what the programs say.
    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(async move { self.verification(tallies) })
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            self.programs.end().await;
            Ok(())
        })
    }
}
