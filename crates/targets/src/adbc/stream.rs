//! One stream through a driver: rows of a statement, or rows into a bulk ingest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::thread::JoinHandle;

use adbc_core::options::IngestMode;
use adbc_driver_manager::ManagedStatement;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};

use super::code::Code;
use super::driver::{Batches, Link};
use crate::plugin::{Answer, Ask, Caller, Consumer, Producer, Taken};
use crate::read::{Checks, Counted, Counting};
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};

/// As a stream of Arrow's has it.
type Batched = std::result::Result<RecordBatch, ArrowError>;

/// The rows of a source, as a stream that a driver is given.
pub struct OfSource(pub Cursor);

impl Iterator for OfSource {
    type Item = Batched;

    fn next(&mut self) -> Option<Batched> {
        self.0.next().map(|item| Ok(item.batch().clone()))
    }
}

impl RecordBatchReader for OfSource {
    fn schema(&self) -> SchemaRef {
        self.0.source().schema()
    }
}

/// A get: the statement is executed when the first batch is asked for.
pub struct Gives {
    schema: SchemaRef,
    /// Columns whose types must be these, by their place.
    checked: Vec<(usize, DataType)>,
    /// Most bytes of a batch.
    limit: usize,
    /// Dropped in this order. `None`: it has come to its end.
    batches: Option<Batches>,
    statement: ManagedStatement,
    link: Link,
    begun: bool,
}

impl Gives {
    pub fn new(code: &Code, stream: usize) -> Result<Self> {
        let plan = code.planned()?;
        let statement = plan.statements.get(stream).and_then(Option::as_deref);
        let nothing = || Error::new(Kind::Internal, "adbc: nothing to read");
        let statement = statement.ok_or_else(nothing)?;
        let mut link = code.connect()?;
        let statement = link.query(statement)?;
        Ok(Self {
            schema: plan.schema.clone(),
            checked: plan.checked(),
            limit: code.options().reading.max_block_bytes,
            batches: None,
            statement,
            link,
            begun: false,
        })
    }

    fn begin(&mut self) -> Result<()> {
        self.begun = true;
        let batches = self.link.execute(&mut self.statement)?;
        let found = batches.schema();
        let differs = |(at, planned): &(usize, DataType)| {
            let field = found.fields().get(*at);
            field.is_none_or(|field| field.data_type() != planned)
        };
        if self.checked.iter().any(differs) {
            return Err(Error::protocol(format!(
                "{}: the columns of a stream are of other types than those of all rows, as the driver tells them by \
                 the rows that it sees first: cast them in a query",
                self.link.base().name()
            )));
        }
        self.batches = Some(batches);
        Ok(())
    }
}

impl Producer for Gives {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if !self.begun {
            self.begin()?;
        }
        let Some(batches) = &mut self.batches else {
            return Ok(None);
        };
        match batches.next() {
            None => {
                self.batches = None;
                Ok(None)
            }
            Some(batch) => {
                let batch = batch.map_err(|error| self.link.base().broken(error))?;
                Ok(Some(batch))
            }
        }
    }

    fn admit(&self, size: u64) -> Result<()> {
        if size > self.limit as u64 {
            let (name, limit) = (self.link.base().name(), self.limit);
            let line = format!(
                "{name}: a batch of {size} bytes, over the limit of {limit}: raise --max-block-size, or let the \
                 driver make smaller batches (--driver-option)"
            );
            return Err(Error::new(Kind::Memory, line));
        }
        Ok(())
    }
}

/// A get's rows, several batches at a time: each way to the driver's thread and back costs as much as a small
/// batch. They are counted over there, as a batch that another thread drops costs the driver's allocator much.
pub struct Arriving {
    caller: Caller,
    rows: usize,
}

impl Arriving {
    pub fn new(caller: Caller, rows: usize) -> Self {
        Self { caller, rows }
    }
}

impl Counting for Arriving {
    fn poll_counted(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
        checks: &Checks,
    ) -> Poll<Result<Option<Counted>>> {
        if !self.caller.is_running() {
            let ask = Ask::Count(self.rows, checks.clone());
            self.caller.ask("the next batch", ask, clock)?;
        }
        let Answer::Counted(counted, checked) = ready!(self.caller.poll_answer(cx, clock))? else {
            let line = "the driver's thread answered something else";
            return Poll::Ready(Err(Error::new(Kind::Internal, line)));
        };
        clock.move_time(Stage::Driver, Stage::Verify, checked);
        Poll::Ready(Ok(counted))
    }

    fn waits_for(&self) -> Option<String> {
        self.caller.waits_for()
    }

    fn carried(&self) -> u64 {
        0
    }
}

/// Batches as they are handed over, for a driver that asks for them.
struct Handed {
    schema: SchemaRef,
    batches: Receiver<RecordBatch>,
    /// No more follow; where they end without it, the trial has broken off.
    whole: Arc<AtomicBool>,
}

impl Iterator for Handed {
    type Item = Batched;

    fn next(&mut self) -> Option<Batched> {
        match self.batches.recv() {
            Ok(batch) => Some(Ok(batch)),
            Err(_) if self.whole.load(Ordering::Acquire) => None,
            Err(_) => Some(Err(ArrowError::CDataInterface(
                "the trial was broken off".into(),
            ))),
        }
    }
}

impl RecordBatchReader for Handed {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A put: one bulk ingest, on a thread of its own, which asks for the batches that are written here.
pub struct Takes {
    name: Arc<str>,
    batches: Option<SyncSender<RecordBatch>>,
    whole: Arc<AtomicBool>,
    ingest: Option<JoinHandle<Result<Option<u64>>>>,
    rows: u64,
}

impl Takes {
    pub fn new(code: &Code, stream: usize) -> Result<Self> {
        let mut link = code.connect()?;
        // A batch counts as written when the driver has come for it.
        let (batches, handed) = sync_channel(0);
        let whole = Arc::new(AtomicBool::new(false));
        let handed = Handed {
            schema: code.planned()?.schema.clone(),
            batches: handed,
            whole: whole.clone(),
        };
        let append = String::from(IngestMode::Append);
        let statement = link.ingestion(code.table(), &append, Box::new(handed))?;
        let name = link.base().name().clone();
        let thread = std::thread::Builder::new().name(format!("ingest-{stream}"));
        let ingest = thread.spawn(move || link.ingest(statement));
        let ingest = ingest.map_err(|error| {
            Error::new(Kind::Io, format!("a thread for a bulk ingest: {error}"))
        })?;
        Ok(Self {
            name,
            batches: Some(batches),
            whole,
            ingest: Some(ingest),
            rows: 0,
        })
    }

    fn ended(&mut self) -> Result<Option<u64>> {
        match self.ingest.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(panic)) => Err(Error::panicked(&*panic)),
            None => Err(Error::new(
                Kind::Internal,
                "the bulk ingest has ended before",
            )),
        }
    }
}

impl Consumer for Takes {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let given = self.batches.as_ref();
        if given.is_some_and(|batches| batches.send(batch.clone()).is_ok()) {
            self.rows += batch.num_rows() as u64;
            return Ok(());
        }
        let (name, rows) = (self.name.clone(), self.rows);
        let after = move |what: &str| format!("{name}: after {rows} rows were taken: {what}");
        match self.ended() {
            Err(error) => Err(Error {
                message: after(&error.message),
                ..error
            }),
            Ok(_) => Err(Error::new(
                Kind::Plugin,
                after("the driver ended the bulk ingest before all rows were given"),
            )),
        }
    }

    /// All rows are written when the driver says so.
    fn finish(&mut self) -> Result<Taken> {
        self.whole.store(true, Ordering::Release);
        self.batches = None;
        let told = self.ended()?;
        Ok(Taken {
            rows: told.unwrap_or(self.rows),
            checksum: None,
        })
    }
}
