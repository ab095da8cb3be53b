//! Somebody's own code as a target: for each stream a producer or a consumer of Arrow batches.
//!
//! A call may take any time, or never return. So each stream's calls have a thread of their own (`caller`), and
//! the trial's thread waits for it as for a socket: what a call takes is `Stage::Plugin`, a call without an
//! answer is given up with the time-out, and N streams stay on T threads, for no more than T calls run at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use serde::Deserialize;

use super::empty;
use super::reference::{compared, Planned as Rows};
use super::{each, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

mod caller;
mod session;

pub(crate) use caller::{once, Answer, Ask, Callee, Caller, Turns};
pub(crate) use session::Stream;

/// How often a call that was given up is looked after.
const LOOK: Duration = Duration::from_millis(5);
const CALLEE: Callee = Callee {
    name: "the plugin",
    stage: Stage::Plugin,
};

/// What the code says of itself and of the trial before it begins.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Planned {
    pub software: String,
    pub address: Option<String>,
    /// How many rows all streams of a get of the code's own rows have.
    pub rows: Option<u64>,
    /// The process of the other end, where it runs on this host.
    pub pid: Option<u32>,
}

/// What the other end says it took of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    pub rows: u64,
    /// The sum of the batches' digests.
    pub checksum: Option<u64>,
}

/// Gives a stream's batches. Made, asked and dropped on one thread.
pub trait Producer {
    fn schema(&self) -> SchemaRef;

    fn next(&mut self) -> Result<Option<RecordBatch>>;

    /// Refuses a batch that has more payload bytes than it may have.
    fn admit(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }
}

/// Takes a stream's batches. Made, asked and dropped on one thread.
pub trait Consumer {
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    fn finish(&mut self) -> Result<Taken>;
}

/// The code. Every method may be called from any thread, those of a stream only once.
pub trait Plugin: Send + Sync {
    /// Once, before the clock. `source`: the rows that a get shall deliver, or a put brings.
    fn plan(&self, source: Option<Source>) -> Result<Planned>;

    fn produce(&self, stream: usize) -> Result<Box<dyn Producer>>;

    fn consume(&self, stream: usize) -> Result<Box<dyn Consumer>>;

    /// Once, at the end of what was planned, also after a failure.
    fn close(&self) -> Result<()>;

    /// Does all the work of one thread, between whatever a thread needs once.
    fn within(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }
}

/// The client side of such a system.
pub struct Plugged {
    spec: Arc<TrialSpec>,
    code: Arc<dyn Plugin>,
    turns: Arc<Turns>,
    /// Calls in this process that nobody waits for any more and that still run.
    stuck: Arc<AtomicUsize>,
    /// None: `plan` has not answered, so there is nothing to close.
    planned: Option<Planned>,
    /// None where a get moves rows of the code's own.
    source: Option<Source>,
    /// The other end of a stream told no digest.
    counted: Arc<AtomicBool>,
}

impl Plugged {
    pub fn new(spec: Arc<TrialSpec>, code: Arc<dyn Plugin>, stuck: Arc<AtomicUsize>) -> Self {
        Self {
            turns: Arc::new(Turns::new(spec.threads)),
            spec,
            code,
            stuck,
            planned: None,
            source: None,
            counted: Arc::default(),
        }
    }

    fn scheme(&self) -> &str {
        self.spec.target.split("://").next().unwrap_or_default()
    }

    /// Waits for calls that an earlier trial has given up, for half of what plan may take.
    async fn alone(&self) -> Result<()> {
        let patience = Duration::from_nanos(self.spec.timeout_ns / 2);
        let begun = Instant::now();
        while self.stuck.load(Ordering::Acquire) > 0 {
            if begun.elapsed() >= patience {
                return Err(Error::new(
                    Kind::Plugin,
                    "a call of an earlier trial into the plugin still runs, and would disturb this one; end this \
                     process, and mend why that call does not return",
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn stream(&self, stream: usize) -> Result<[Box<dyn Session>; 1]> {
        let (code, operation) = (self.code.clone(), self.spec.operation);
        let (caller, schema) = Caller::open(
            (CALLEE, code),
            operation,
            stream,
            self.turns.clone(),
            self.stuck.clone(),
        )
        .await?;
        if let (Some(found), Some(source)) = (schema, &self.source) {
            same_columns(&found, &source.schema())?;
        }
        let source = self.source.as_ref();
        // Rows of the code's own have nothing to be compared with.
        let checksum = self.spec.verify == Verify::Checksum && source.is_some();
        let session = Stream::new(caller, &self.spec, source, checksum, self.counted.clone());
        Ok([Box::new(session)])
    }
}

/// Whether a get's columns are those of the rows that it shall deliver, whatever their metadata says.
fn same_columns(found: &Schema, expected: &Schema) -> Result<()> {
    let columns = |schema: &Schema| -> Vec<_> {
        let fields = schema.fields().iter();
        fields
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect()
    };
    if columns(found) == columns(expected) {
        return Ok(());
    }
    let text = |schema: &Schema| {
        let shown = columns(schema).into_iter().take(8);
        let shown: Vec<_> = shown
            .map(|(name, kind)| format!("{name}: {kind}"))
            .collect();
        shown.join(", ")
    };
    Err(Error::new(
        Kind::Plugin,
        format!(
            "the stream has the columns {}; those of the trial's rows are {}",
            text(found),
            text(expected)
        ),
    ))
}

impl Target for Plugged {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            self.alone().await?;
            self.source = match &self.spec.data {
                Data::Remote => None,
                data => Some(Source::make(data, self.spec.rows_per_batch)?),
            };
            let (code, source) = (self.code.clone(), self.source.clone());
            let planned = once(self.stuck.clone(), move || code.plan(source)).await?;
            let planned = self.planned.insert(planned);
            let pid = planned.pid;
            Ok(Identity {
                address: planned
                    .address
                    .clone()
                    .unwrap_or_else(|| self.spec.target.clone()),
                software: Some(planned.software.clone()),
                protocol: self.scheme().to_owned(),
                pid,
                same_machine: pid.map(|_| true),
                same_clock: pid.is_some(),
                ..Identity::default()
            })
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        match self.source {
            Some(_) => self.spec.planned_rows(),
            None => self.planned.as_ref()?.rows,
        }
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, |stream| self.stream(stream)))
    }

    /// METHOD, "Verification": what arrived is what was sent, as far as the code's other end says so.
    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(async move {
            match (&self.source, self.spec.operation) {
                (Some(source), Operation::Get) => empty::compare(&self.spec, source, tallies),
                (Some(_), _) => Ok(self.acknowledged(tallies)),
                (None, operation) => {
                    let planned = Rows {
                        operation,
                        rows: self.planned_rows(),
                        fixed_work: self.spec.duration_ns.is_none(),
                    };
                    Ok(compared(self.spec.verify, &planned, None, tallies))
                }
            }
        })
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            if self.planned.is_none() {
                return Ok(());
            }
            let code = self.code.clone();
            once(self.stuck.clone(), move || code.close()).await
        })
    }
}

impl Plugged {
    /// Of a put, each of whose streams has compared its other end's counts with its own.
    fn acknowledged(&self, tallies: &[Tally]) -> Verification {
        let all = tallies
            .iter()
            .fold(Tally::default(), |all, it| all.plus(it));
        let requested = self.spec.verify;
        let mut verification = Verification::of(requested, all.rows);
        verification.expected_rows = Some(all.rows);
        if requested == Verify::Checksum && !self.counted.load(Ordering::Acquire) {
            let checksum = format!("{:016x}", all.checksum);
            verification.achieved = "checksum";
            verification.expected_checksum = Some(checksum.clone());
            verification.checksum = Some(checksum);
        } else {
            verification.achieved = "count";
            let note = "the other end told the rows that it took, and no digest of them";
            verification.add_notes((requested == Verify::Checksum).then(|| note.to_owned()));
        }
        verification
    }
}
