//! Calls, work and the comparison against a database in memory that fails as it is told to.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{json, Value};

use super::*;
use crate::{Session, Tally, Verification};
use venturi_base::data::upsert::{key_hashes, Batches, Table};
use venturi_base::error::{Error, Fate, Kind, Result};
use venturi_base::halt::Halt;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::{TrialSpec, Verify};
use venturi_testkit::arrow::{array, batch};
use venturi_testkit::{assert_contains, assert_error, parse, roles, run, with};

/// What becomes of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// An error, nothing applied.
    Refused,
    /// No answer.
    InDoubtApplied,
    InDoubtHalf,
    InDoubtLost,
    /// The connection breaks.
    BrokenApplied,
    BrokenLost,
    /// Acknowledged, not applied.
    Dropped,
    /// Acknowledged, applied twice.
    Doubled,
}

/// A key's hash and what its row adds.
type Rows = Vec<(u64, i64)>;

#[derive(Default)]
struct Database {
    rows: HashMap<u64, i64>,
    /// The last row wins instead of being added.
    overwrite: bool,
    calls: u64,
    faults: HashMap<u64, Fault>,
}

impl Database {
    fn apply(&mut self, rows: &[(u64, i64)]) {
        for &(key, value) in rows {
            let held = self.rows.entry(key).or_default();
            *held = if self.overwrite { value } else { *held + value };
        }
    }

    fn found(&self) -> Found {
        Found {
            keys: self.rows.len() as u64,
            sums: vec![self.rows.values().map(|&value| i128::from(value)).sum()],
            ..Found::default()
        }
    }
}

struct Memory(Arc<Mutex<Database>>);

impl Executor for Memory {
    type Statement = Rows;

    const WORK: Stage = Stage::Apply;

    fn execute(self, call: Arc<Prepared<Rows>>) -> Executing<Self> {
        Box::pin(async move {
            // The answer comes later, as over a wire.
            tokio::task::yield_now().await;
            let rows = call.rows;
            let answer = {
                let mut database = self.0.lock();
                let number = database.calls;
                database.calls += 1;
                let fault = database.faults.get(&number).copied();
                let times = match fault {
                    None | Some(Fault::InDoubtApplied | Fault::BrokenApplied) => 1,
                    Some(Fault::Doubled) => 2,
                    _ => 0,
                };
                (0..times).for_each(|_| database.apply(&call.statement));
                if fault == Some(Fault::InDoubtHalf) {
                    database.apply(&call.statement[..call.statement.len() / 2]);
                }
                let failed = |kind, fate| Err(Error::new(kind, "told to").with_fate(fate));
                match fault {
                    None | Some(Fault::Dropped | Fault::Doubled) => Ok(()),
                    Some(Fault::Refused) => failed(Kind::Server, Fate::Refused { rows }),
                    Some(Fault::InDoubtApplied | Fault::InDoubtHalf | Fault::InDoubtLost) => {
                        failed(Kind::Timeout, Fate::InDoubt { rows })
                    }
                    Some(Fault::BrokenApplied | Fault::BrokenLost) => {
                        failed(Kind::Lost, Fate::Fatal)
                    }
                }
            };
            (self, answer)
        })
    }
}

/// Statements of the column v; counts how many were built.
#[derive(Default)]
struct Maker {
    built: Arc<AtomicUsize>,
}

impl Builder for Maker {
    type Statement = Rows;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Rows> {
        self.built.fetch_add(1, SeqCst);
        let values = rows.column(1).as_primitive::<Int64Type>().values();
        let keys = key_hashes(table, rows)?;
        Ok(keys.into_iter().zip(values.iter().copied()).collect())
    }

    fn size(_: &Rows) -> usize {
        1
    }
}

/// Of one stream with so many rows, which these fields may change.
fn spec(rows: u64, more: Value) -> TrialSpec {
    let spec = json!({
        "operation": "upsert", "data": {"source": "usage"}, "threads": 1, "rows_per_stream": rows,
    });
    parse(with(spec, more))
}

/// 100 rows in 10 batches; row i has the key i % `keys` and adds i.
fn work(spec: &TrialSpec, keys: i64) -> Arc<Work<Maker>> {
    work_of(spec, keys, |row| row)
}

fn work_of(spec: &TrialSpec, keys: i64, value: fn(i64) -> i64) -> Arc<Work<Maker>> {
    let keys = Int64Array::from_iter_values((0..100).map(|row| row % keys));
    let values = Int64Array::from_iter_values((0..100).map(value));
    let rows = batch([("k", array(keys)), ("v", array(values))]);
    let table = Table::new("t", rows.schema(), &roles(&["k"], &["v"])).unwrap();
    let batches = Batches::of(rows, spec.rows_per_batch);
    Arc::new(Work::new(spec, table, batches, Maker::default()).unwrap())
}

struct Run {
    work: Arc<Work<Maker>>,
    database: Arc<Mutex<Database>>,
    before: Found,
    tally: Tally,
    errors: Vec<Error>,
    stages: [u64; Stage::ALL.len()],
    took: u64,
}

impl Run {
    /// One stream's way through `batches` batches; goes on after errors that are not fatal.
    fn new(batches: u64, retries: u32, database: Database) -> Self {
        let spec = spec(batches * 10, json!({"generate": "inline"}));
        let spec = TrialSpec { retries, ..spec };
        Self::until(work(&spec, 100), &spec, database, false)
    }

    /// `over`: the trial's time is over when it begins.
    fn until(work: Arc<Work<Maker>>, spec: &TrialSpec, database: Database, over: bool) -> Self {
        let before = database.found();
        let database = Arc::new(Mutex::new(database));
        let share = Share::new(spec, 0, work.batches.count());
        let executor = Memory(database.clone());
        let mut calls = Calls::new(work.clone(), share, executor, spec.retries);
        if over {
            calls.end_retries();
        }
        let mut errors = Vec::new();
        let mut clock = StageClock::start();
        let begun = clock.last();
        run(async {
            loop {
                match poll_fn(|cx| calls.poll_batch(cx, &mut clock)).await {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => errors.push(error),
                }
            }
            let finish = poll_fn(|cx| calls.poll_finish(cx, &mut clock));
            finish.await.unwrap();
        });
        Self {
            work,
            database,
            before,
            tally: calls.tally(),
            errors,
            stages: clock.totals().0,
            took: (clock.last() - begun).as_nanos() as u64,
        }
    }

    fn verify(&self) -> Verification {
        let effect = match self.database.lock().overwrite {
            true => Effect::Overwrite,
            false => Effect::Add,
        };
        let (before, after) = (&self.before, &self.database.lock().found());
        let (work, tallies) = (&self.work, &[self.tally]);
        let written = Written::of(work).unwrap();
        let verify = Verify::Checksum;
        compare(work, &written, effect, before, after, tallies, verify).unwrap()
    }

    fn mismatch(&self) -> Option<String> {
        self.verify().mismatch
    }
}

fn faulty(faults: &[(u64, Fault)]) -> Database {
    Database {
        faults: faults.iter().copied().collect(),
        ..Database::default()
    }
}

#[test]
fn all_is_there_once() {
    // Twice over the working set.
    let run = Run::new(20, 0, Database::default());
    assert_eq!((run.errors.len(), run.tally.rows), (0, 200));
    assert_eq!(run.tally.sums[0], 2 * 4950);
    let found = run.verify();
    let seen = (found.mismatch, found.achieved, found.note);
    assert_eq!(seen, (None, "sums", None));
    assert_eq!((found.expected_rows, found.rows), (Some(100), 100));
    let sums = found.sums.unwrap();
    assert_eq!((&*sums[0].column, &*sums[0].found), ("v", "9900"));
    // Every nanosecond is in a stage.
    assert_eq!(run.stages.iter().sum::<u64>(), run.took);
    for stage in [Stage::Generate, Stage::Encode, Stage::Apply] {
        assert!(run.stages[stage as usize] > 0, "{stage:?}");
    }
}

#[test]
fn a_refused_batch_is_not_there_and_the_next_ones_are() {
    let run = Run::new(10, 0, faulty(&[(3, Fault::Refused)]));
    assert_eq!(run.errors[0].fate, Fate::Refused { rows: 10 });
    assert_eq!((run.tally.rows, run.tally.doubt.batches), (90, 0));
    let found = run.verify();
    assert_eq!(found.mismatch, None);
    assert_eq!((found.expected_rows, found.rows), (Some(90), 90));
}

#[test]
fn a_refused_batch_is_tried_again_as_often_as_allowed() {
    let all = [3, 4, 5].map(|at| (at, Fault::Refused));
    for (faults, errors, rows) in [(&all[..2], 0, 100), (&all, 1, 90)] {
        let run = Run::new(10, 2, faulty(faults));
        assert_eq!((run.errors.len(), run.tally.rows), (errors, rows));
        assert_eq!((run.tally.retries, run.mismatch()), (2, None));
        let said = "refused after 2 retries: told to";
        assert!(run.errors.iter().all(|error| error.message == said));
    }
    // What is in doubt must not be: it may be there.
    let run = Run::new(10, 2, faulty(&[(3, Fault::InDoubtLost)]));
    assert_eq!((run.errors.len(), run.tally.retries), (1, 0));
    // Once the trial's time is over, nothing is: the stream ends, with an error if it moved nothing.
    for (at, rows, errors) in [(1, 10, 0), (0, 90, 1)] {
        let spec = spec(100, json!({"generate": "inline", "retries": u32::MAX}));
        let work = work(&spec, 100);
        let run = Run::until(work, &spec, faulty(&[(at, Fault::Refused)]), true);
        assert_eq!((run.tally.rows, run.errors.len()), (rows, errors));
        assert_eq!((run.tally.retries, run.mismatch()), (0, None));
        let said = "refused until the trial's time was over (retries: 0): told to";
        assert!(run.errors.iter().all(|error| error.message == said));
    }
}

#[test]
fn a_batch_in_doubt_may_be_there_or_not() {
    for (fault, keys, sum) in [
        (Fault::InDoubtApplied, 100, 4950),
        (Fault::InDoubtLost, 90, 4950 - 345),
    ] {
        let run = Run::new(10, 0, faulty(&[(3, fault)]));
        assert_eq!((run.tally.rows, run.tally.doubt.rows), (90, 10));
        // 30 + 31 + ... + 39.
        let seen = (run.tally.doubt.least[0], run.tally.doubt.most[0]);
        assert_eq!(seen, (0, 345));
        let found = run.verify();
        assert_eq!(found.mismatch, None);
        assert_eq!((found.expected_rows, found.rows), (Some(90), keys));
        assert_eq!(found.note.unwrap(), "1 batches (10 rows) are in doubt");
        let sums = found.sums.unwrap();
        assert_eq!(sums[0].in_doubt, "345");
        assert_eq!(sums[0].found, sum.to_string());
        // The doubt is no excuse for another batch.
        let run = Run::new(10, 0, faulty(&[(3, fault), (5, Fault::Dropped)]));
        assert!(run.mismatch().is_some());
    }
}

#[test]
fn a_dropped_or_doubled_batch_is_found() {
    let missing =
        "90 rows are there, 100 were acknowledged; the sum of v is 4605, 4950 was acknowledged";
    let more = "the sum of v is 5295, 4950 was acknowledged";
    // In the second round no key is missing, but the sum is.
    let second = "the sum of v is 9555, 9900 was acknowledged";
    for (batches, at, fault, said) in [
        (10, 3, Fault::Dropped, missing),
        (10, 3, Fault::Doubled, more),
        (20, 13, Fault::Dropped, second),
    ] {
        let run = Run::new(batches, 0, faulty(&[(at, fault)]));
        assert_eq!((run.errors.len(), run.tally.rows), (0, 10 * batches));
        assert_eq!(run.mismatch().unwrap(), said);
    }
}

#[test]
fn a_broken_connection_ends_the_stream_and_leaves_a_doubt() {
    for (fault, keys) in [(Fault::BrokenApplied, 40), (Fault::BrokenLost, 30)] {
        let run = Run::new(10, 5, faulty(&[(3, fault)]));
        let fates = run.errors.iter().map(|error| error.fate);
        assert_eq!(fates.collect::<Vec<_>>(), [Fate::Fatal]);
        assert_eq!((run.tally.rows, run.tally.doubt.batches), (30, 1));
        let found = run.verify();
        assert_eq!((found.mismatch, found.rows), (None, keys));
    }
}

#[test]
fn what_was_there_before_is_taken_off() {
    let mut database = Database::default();
    database.apply(&[(1, 1000), (2, 2000)]);
    let found = Run::new(10, 0, database).verify();
    let seen = (found.mismatch, found.expected_rows, found.rows);
    assert_eq!(seen, (None, None, 102));
    assert_eq!(found.note.unwrap(), "2 rows were there before");
    assert_eq!(found.sums.unwrap()[0].found, "4950");
    let mut database = faulty(&[(3, Fault::Doubled)]);
    database.apply(&[(1, 1000)]);
    assert!(Run::new(10, 0, database).mismatch().is_some());
}

#[test]
fn rows_that_overwrite_add_nothing_the_second_time() {
    let database = |faults| Database {
        overwrite: true,
        ..faulty(faults)
    };
    let found = Run::new(20, 0, database(&[])).verify();
    assert_eq!((found.mismatch, found.achieved), (None, "sums"));
    assert_eq!(found.sums.unwrap()[0].expected, "4950");
    let run = Run::new(10, 0, database(&[(3, Fault::Dropped)]));
    assert_contains(&run.mismatch().unwrap(), "90 rows");
    let run = Run::new(10, 0, database(&[(3, Fault::InDoubtLost)]));
    assert_eq!(run.mismatch(), None);
    // Where keys come again, which row was the last is not known: rows are counted only.
    let spec = spec(100, json!({}));
    let found = Run::until(work(&spec, 30), &spec, database(&[]), false).verify();
    let seen = (found.mismatch, found.achieved, found.rows);
    assert_eq!(seen, (None, "count", 30));
}

#[test]
fn keys_that_come_again_are_counted_once() {
    let spec = spec(100, json!({}));
    let run = Run::until(work(&spec, 30), &spec, Database::default(), false);
    let found = run.verify();
    assert_eq!((found.mismatch, found.expected_rows), (None, Some(30)));
    assert_eq!(found.sums.unwrap()[0].found, "4950");
    // To this server all of them are one.
    let mut run = run;
    run.database.lock().rows = HashMap::from([(0, 4950)]);
    assert!(run.mismatch().is_some());
    run.before.meet = Some("the key's column k is compared by NOCASE".into());
    let found = run.verify();
    let claimed = (found.mismatch, found.achieved, found.expected_rows);
    assert_eq!(claimed, (None, "sums", None));
    assert_contains(
        &found.note.unwrap(),
        "compared by NOCASE, so the rows were not counted",
    );
}

#[test]
fn statements_are_built_once_ahead_or_each_time() {
    for (generate, at_first, after) in [("ahead", 10, 10), ("inline", 0, 20)] {
        let spec = spec(200, json!({"generate": generate}));
        let work = work(&spec, 100);
        let built = work.builder().built.clone();
        assert_eq!(built.load(SeqCst), at_first);
        let run = Run::until(work, &spec, Database::default(), false);
        assert_eq!((run.tally.rows, run.verify().mismatch), (200, None));
        assert_eq!(built.load(SeqCst), after);
        let stages = [Stage::Generate, Stage::Encode].map(|stage| run.stages[stage as usize] > 0);
        assert_eq!(stages, [generate == "inline"; 2]);
    }
}

#[test]
fn statements_that_do_not_fit_memory_are_refused_before_the_clock() {
    struct Huge;
    impl Builder for Huge {
        type Statement = ();
        fn build(&self, _: &Table, _: &RecordBatch) -> Result<()> {
            Ok(())
        }
        fn size((): &()) -> usize {
            1 << 31
        }
    }
    let spec = spec(1, json!({}));
    let small = work(&spec, 100);
    let made = Work::new(&spec, small.table.clone(), small.batches.clone(), Huge);
    assert_error!(made.err().unwrap(), Kind::Memory, "--generate inline");
}

#[test]
fn building_ahead_ends_when_nobody_wants_it_any_more() {
    let spec = spec(100, json!({}));
    let known = work(&spec, 100);
    let maker = Maker::default();
    let built = maker.built.clone();
    let _entered = Halt::new(|| Some(Error::cancelled())).enter();
    let made = Work::new(&spec, known.table.clone(), known.batches.clone(), maker);
    assert_eq!(made.err().map(|error| error.kind), Some(Kind::Cancelled));
    assert_eq!(built.load(SeqCst), 0);
}

#[test]
fn streams_go_round_their_own_batches() {
    let more = json!({"streams": 3, "rows_per_stream": null, "duration_ns": 1});
    let spec = spec(0, more);
    let take = |stream, count, times: usize| -> Vec<u64> {
        let share = Share::new(&spec, stream, count);
        let other = share.clone(); // lanes of one stream take turns
        let lane = |at: usize| [&share, &other][at % 2];
        (0..times).map(|at| lane(at).take().unwrap()).collect()
    };
    assert_eq!(take(0, 10, 6), [0, 3, 6, 9, 0, 3]);
    assert_eq!(take(1, 10, 5), [1, 4, 7, 1, 4]);
    // Fewer batches than streams: they share them.
    assert_eq!(take(2, 2, 3), [0, 0, 0]);
    assert_eq!(take(2, 1, 3), [0, 0, 0]);
}

#[test]
fn fixed_work_is_whole_batches() {
    let spec = spec(21, json!({"streams": 2}));
    let share = Share::new(&spec, 1, 4);
    let all: Vec<u64> = std::iter::from_fn(|| share.take()).collect();
    assert_eq!(all, [1, 3, 1]);
    assert_eq!(share.take(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever goes wrong honestly is no mismatch; whatever does not, is one.
    #[test]
    fn the_comparison_is_fair(
        faults in prop::collection::vec(
            (0u64..30, prop::sample::select(vec![
                Fault::Refused, Fault::InDoubtApplied, Fault::InDoubtHalf, Fault::InDoubtLost,
            ])),
            0..6,
        ),
        lie in prop::option::of((1u64..30, prop::sample::select(vec![Fault::Dropped, Fault::Doubled]))),
        retries in 0u32..2,
        keys in prop::sample::select(vec![30i64, 95, 100]),
        (overwrite, rounds) in (any::<bool>(), 1u64..4),
    ) {
        // Signs differ from batch to batch, and within one.
        let value = |row: i64| if (row % 3 == 0) == (row / 10 % 2 == 0) { -row } else { row };
        let spec = spec(rounds * 100, json!({"generate": "inline"}));
        let spec = TrialSpec { retries, ..spec };
        let run = |faults: &HashMap<u64, Fault>, overwrite| {
            let database = Database { faults: faults.clone(), overwrite, ..Database::default() };
            Run::until(work_of(&spec, keys, value), &spec, database, false)
        };
        let mut all: HashMap<u64, Fault> = faults.into_iter().collect();
        prop_assert_eq!(run(&all, overwrite).verify().mismatch, None);
        // A lie is seen for sure where nothing in doubt could hide it.
        all.retain(|_, fault| *fault == Fault::Refused);
        let Some((at, lie)) = lie else { return Ok(()) };
        all.insert(at, lie);
        let told = run(&all, false);
        let reached = told.database.lock().calls > at;
        prop_assert_eq!(told.verify().mismatch.is_some(), reached);
    }
}
