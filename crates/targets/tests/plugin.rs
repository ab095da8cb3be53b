//! Trials of somebody's own code, that does as it should and that does not. Here, as they are the engine's.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::Mutex;
use serde_json::{json, Value};

use venturi_base::data::{digest, Cursor, Source};
use venturi_base::error::{Error, Kind, Result};
use venturi_engine::{run_on, Control, Outcome, Record};
use venturi_targets::plugin::{Consumer, Planned, Plugged, Plugin, Producer, Taken};
use venturi_testkit::arrow::numbers;
use venturi_testkit::{assert_error, parse, with};

/// What goes wrong.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Fault {
    #[default]
    Nothing,
    Plan,
    Open,
    Stream,
    Columns,
    Early,
    Late,
    Empty,
    Panic,
    /// A call that returns when the test says so.
    Hangs,
    Loses,
    Alters,
    NoDigest,
}

#[derive(Default)]
struct Code {
    fault: Fault,
    source: Mutex<Option<Source>>,
    rows: Option<u64>,
    release: Arc<Mutex<()>>,
    /// Calls that run, and the most that ever did.
    calls: Arc<(AtomicUsize, AtomicUsize)>,
    closed: AtomicUsize,
}

fn broken<T>() -> Result<T> {
    Err(Error::new(Kind::Plugin, "ValueError: it is broken"))
}

impl Plugin for Code {
    fn plan(&self, source: Option<Source>) -> Result<Planned> {
        *self.source.lock() = source;
        match self.fault {
            Fault::Plan => broken(),
            _ => Ok(Planned {
                software: "test 1".into(),
                rows: self.rows,
                ..Planned::default()
            }),
        }
    }

    fn produce(&self, _: usize) -> Result<Box<dyn Producer>> {
        if self.fault == Fault::Open {
            return broken();
        }
        let source = self.source.lock().clone();
        let own = || Source::from_batches(one_column(), vec![numbers(0..100)], 100);
        let source = source.map_or_else(own, Ok)?;
        let rows = match self.fault {
            Fault::Early => 900,
            Fault::Late => u64::MAX,
            _ => 1000,
        };
        Ok(Box::new(Gives {
            cursor: source.cursor(Some(rows)),
            fault: self.fault,
            release: self.release.clone(),
            calls: self.calls.clone(),
        }))
    }

    fn consume(&self, _: usize) -> Result<Box<dyn Consumer>> {
        let (fault, rows, checksum) = (self.fault, 0, Some(0));
        let taken = Taken { rows, checksum };
        Ok(Box::new(Takes { fault, taken }))
    }

    fn close(&self) -> Result<()> {
        self.closed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

struct Gives {
    cursor: Cursor,
    fault: Fault,
    release: Arc<Mutex<()>>,
    calls: Arc<(AtomicUsize, AtomicUsize)>,
}

impl Producer for Gives {
    fn schema(&self) -> SchemaRef {
        match self.fault {
            Fault::Columns => one_column(),
            _ => self.cursor.source().schema(),
        }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (now, most) = &*self.calls;
        most.fetch_max(now.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
        if self.fault != Fault::Empty {
            std::thread::sleep(Duration::from_millis(1));
        }
        now.fetch_sub(1, Ordering::AcqRel);
        match self.fault {
            Fault::Stream => broken(),
            Fault::Panic => panic!("at the disco"),
            Fault::Empty => Ok(Some(RecordBatch::new_empty(self.schema()))),
            Fault::Hangs => {
                drop(self.release.lock());
                Ok(None)
            }
            _ => Ok(self.cursor.next().map(|item| item.batch().clone())),
        }
    }
}

struct Takes {
    fault: Fault,
    taken: Taken,
}

impl Consumer for Takes {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.fault == Fault::Stream {
            return broken();
        }
        self.taken.rows += batch.num_rows() as u64;
        let sum = self.taken.checksum.unwrap_or_default();
        self.taken.checksum = Some(sum.wrapping_add(digest(batch)?));
        Ok(())
    }

    fn finish(&mut self) -> Result<Taken> {
        match self.fault {
            Fault::Loses => self.taken.rows -= 1,
            Fault::Alters => self.taken.checksum = self.taken.checksum.map(|sum| sum ^ 1),
            Fault::NoDigest => self.taken.checksum = None,
            _ => {}
        }
        Ok(self.taken)
    }
}

fn one_column() -> SchemaRef {
    numbers(0..1).schema()
}

struct Tried {
    record: Record,
    code: Arc<Code>,
    stuck: Stuck,
}

fn tried(fault: Fault, operation: &str, more: Value) -> Tried {
    run(fault, operation, more, Arc::default(), Arc::default())
}

type Stuck = Arc<AtomicUsize>;

fn run(fault: Fault, operation: &str, more: Value, stuck: Stuck, release: Arc<Mutex<()>>) -> Tried {
    let mut spec = json!({
        "target": "mine://there", "operation": operation, "rows_per_batch": 100, "streams": 3,
        "data": {"source": "records", "columns": 2},
    });
    if more.get("duration_ns").is_none() && more.get("data").is_none() {
        spec["rows_per_stream"] = json!(1000);
    }
    let code = Arc::new(Code {
        fault,
        rows: Some(3000),
        release,
        ..Code::default()
    });
    let spec = Arc::new(parse(with(spec, more)));
    let target = Plugged::new(spec.clone(), code.clone(), stuck.clone());
    Tried {
        record: run_on(&spec, Box::new(target), &Control::new()),
        code,
        stuck,
    }
}

#[test]
fn what_is_asked_for_moves_and_is_compared() {
    for operation in ["get", "put"] {
        let tried = tried(Fault::Nothing, operation, json!({}));
        let record = tried.record;
        assert_eq!(record.error, None);
        assert_eq!((record.counts.rows, record.counts.batches), (3000, 30));
        assert_eq!(record.counts.payload_bytes, 3000 * 16);
        let verified = record.verification;
        assert_eq!(verified.achieved, "checksum");
        assert_eq!(verified.checksum, verified.expected_checksum);
        assert_eq!(record.target.software.as_deref(), Some("test 1"));
        assert_eq!(record.target.protocol, "mine");
        assert!(record.stages.client["plugin"] > 0);
        assert_eq!(tried.code.closed.load(Ordering::Relaxed), 1);
        assert_eq!(tried.stuck.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn no_more_calls_run_at_a_time_than_there_are_threads() {
    let tried = tried(Fault::Nothing, "get", json!({}));
    let most = tried.code.calls.1.load(Ordering::Relaxed);
    assert!((1..=2).contains(&most), "{most}");
    // A stream in three waits for its turn, and that is not the code's time.
    let stages = &tried.record.stages.client;
    assert!(stages["await_thread"] > stages["plugin"] / 10, "{stages:?}");
}

#[test]
fn time_ends_a_trial_as_well() {
    for (operation, fault) in [("get", Fault::Late), ("put", Fault::Nothing)] {
        // Whoever gives rows gives them without end.
        let record = tried(fault, operation, json!({"duration_ns": 100_000_000})).record;
        assert_eq!(record.outcome, Outcome::Ok, "{:?}", record.error);
        assert!(record.counts.rows > 0 && record.counts.rows.is_multiple_of(100));
        assert_eq!(record.verification.achieved, "checksum");
    }
}

#[test]
fn rows_of_its_own_are_counted() {
    let own = json!({"data": {"source": "remote"}});
    let record = tried(Fault::Nothing, "get", own.clone()).record;
    assert_eq!(record.error, None);
    assert_eq!(record.counts.payload_bytes, 3000 * 8);
    assert_eq!(record.verification.achieved, "count");
    let record = tried(Fault::Early, "get", own).record;
    assert_eq!(record.error.unwrap().kind, Kind::Verification);
}

#[test]
fn what_it_does_wrong_is_said() {
    use Kind::{Internal, Plugin, Verification};
    for (fault, operation, kind, said) in [
        (Fault::Plan, "get", Plugin, "it is broken"),
        (Fault::Open, "get", Plugin, ": ValueError: it is broken"),
        (Fault::Stream, "get", Plugin, "it is broken"),
        (Fault::Stream, "put", Plugin, "it is broken"),
        (Fault::Panic, "get", Internal, "at the disco"),
        (Fault::Columns, "get", Plugin, "the columns n: Int64; "),
        (Fault::Early, "get", Verification, "2700 rows arrived"),
        (Fault::Late, "get", Plugin, "more rows than were asked"),
        (Fault::Empty, "get", Plugin, "without a row"),
        (Fault::Loses, "put", Verification, "took 999 rows"),
        (Fault::Alters, "put", Verification, "digest"),
    ] {
        let tried = tried(fault, operation, json!({}));
        let error = tried.record.error.unwrap_or_else(|| panic!("{fault:?}"));
        assert_error!(error, kind, said);
        // Where nothing was planned, there is nothing to close.
        let closed = usize::from(fault != Fault::Plan);
        let found = tried.code.closed.load(Ordering::Relaxed);
        assert_eq!(found, closed, "{fault:?}");
    }
}

#[test]
fn without_a_digest_rows_are_counted() {
    let verified = tried(Fault::NoDigest, "put", json!({})).record.verification;
    assert_eq!((verified.achieved, verified.rows), ("count", 3000));
    assert!(verified.note.unwrap().contains("no digest"));
}

#[test]
fn a_call_that_does_not_return_is_given_up_and_remembered() {
    let (stuck, release) = (Stuck::default(), Arc::<Mutex<()>>::default());
    let held = release.lock();
    let again = |fault| {
        let more = json!({"timeout_ns": 200_000_000});
        let record = run(fault, "get", more, stuck.clone(), release.clone()).record;
        record.error.unwrap()
    };
    let said = "has not returned from a call (the next batch) for 0.2 s";
    assert_error!(again(Fault::Hangs), Kind::Timeout, said);
    assert_eq!(stuck.load(Ordering::Relaxed), 3);
    assert_error!(again(Fault::Nothing), Kind::Plugin, "earlier trial");
    drop(held);
    let patient = run(Fault::Nothing, "get", json!({}), stuck.clone(), release);
    assert_eq!(patient.record.error, None);
    assert_eq!(stuck.load(Ordering::Relaxed), 0);
}
