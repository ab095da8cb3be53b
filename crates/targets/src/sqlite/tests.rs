//! Against real files; SQLite is a part of this program.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{json, Value};

use super::busy;
use venturi_base::error::{Error, Kind};
use venturi_base::halt::Halt;
use venturi_engine::{run, Control, Outcome, Phase, Record};
use venturi_testkit::{assert_contains, assert_error, parse, with, Directory};

/// A file of a test's own.
struct File(Directory, &'static str);

impl File {
    fn new() -> Self {
        Self(Directory::new(), "rows.db")
    }

    fn path(&self) -> String {
        self.0.file(self.1)
    }

    fn open(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn number(&self, select: &str) -> i64 {
        self.open().query_row(select, [], |row| row.get(0)).unwrap()
    }
}

/// 1,000 rows in batches of 100, with more fields and options in JSON.
fn trial(file: &File, streams: usize, more: Value, options: Value) -> Record {
    controlled(file, streams, more, options, &Control::new())
}

fn controlled(
    file: &File,
    streams: usize,
    more: Value,
    options: Value,
    control: &Control,
) -> Record {
    let spec = json!({
        "target": format!("sqlite://{}", file.path()), "operation": "upsert", "options": options,
        "data": {"source": "usage", "working_set": 1000, "seed": 7, "loaded_unix_s": 1_790_000_000},
        "rows_per_batch": 100, "streams": streams, "threads": streams,
    });
    run(parse(with(spec, more)), control)
}

fn rows(count: u64) -> Value {
    json!({"rows_per_stream": count})
}

fn keep() -> Value {
    json!({"keep": true})
}

fn message(record: &Record) -> &str {
    &record.error.as_ref().unwrap().message
}

/// All that was acknowledged is there.
fn assert_good(record: &Record) {
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "sums");
}

#[test]
fn every_row_is_there_once_and_what_is_added_is_the_sum() {
    for options in [
        json!({}),
        json!({"statement": "text"}),
        json!({"without_rowid": false, "journal": "delete", "synchronous": "full"}),
    ] {
        let file = File::new();
        // Three times over the working set.
        let record = trial(&file, 1, rows(3000), with(keep(), options));
        assert_good(&record);
        assert_eq!((record.counts.rows, record.counts.batches), (3000, 30));
        assert!(record.counts.stored_bytes.unwrap() > 50_000);
        let checked = &record.verification;
        assert_eq!((checked.rows, checked.expected_rows), (1000, Some(1000)));
        assert_eq!(checked.read_back, Some(250));
        let hits = &checked.sums.as_ref().unwrap()[1];
        assert_eq!(hits.found, hits.expected);
        let found = file.number("SELECT sum(hits) FROM venturi_usage");
        assert_eq!(found.to_string(), hits.found);
        let loaded = "timestamp_of_data = '2026-09-21 14:13:20'";
        let select = format!("SELECT count(*) FROM venturi_usage WHERE {loaded}");
        assert_eq!(file.number(&select), 1000);
    }
}

#[test]
fn streams_contend_for_one_lock() {
    let file = File::new();
    let record = trial(&file, 4, rows(2000), json!({}));
    assert_good(&record);
    assert_eq!(record.counts.rows, 8000);
    assert!(record.errors.is_none());
    // It has cleaned up, for nobody has asked to keep the table.
    assert_eq!(file.number("SELECT count(*) FROM sqlite_schema"), 0);
}

#[test]
fn a_lock_that_is_kept_refuses_batches() {
    let file = File::new();
    assert_good(&trial(&file, 1, rows(1000), keep()));
    // Somebody else writes, all the time. Were the lock taken while the stream is at work, it
    // would be luck who gets it: SQLite's waiters poll.
    let holder = file.open();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let limits = json!({"timeout_ns": 50_000_000, "max_errors": 3});
    let into_it = json!({"setup": false});
    let record = trial(&file, 1, with(rows(3000), limits), into_it.clone());
    assert_eq!(record.outcome, Outcome::Failed);
    assert_contains(message(&record), "SQLITE_BUSY");
    let errors = record.errors.unwrap();
    assert_eq!((errors.refused.batches, errors.in_doubt.batches), (4, 0));
    assert_eq!(errors.kinds[0].code.as_deref(), Some("SQLITE_BUSY"));
    assert_eq!(record.counts.batches, 0);
    holder.execute_batch("ROLLBACK").unwrap();
    let record = trial(&file, 1, rows(3000), into_it);
    assert_good(&record);
    assert!(record.errors.is_none());
}

#[test]
fn a_cancel_ends_a_wait_for_the_lock() {
    let file = File::new();
    assert_good(&trial(&file, 1, rows(1000), keep()));
    let holder = file.open();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let work = with(rows(3000), json!({"timeout_ns": 3_600_000_000_000u64}));
    // A stream that has to wait, and a plan that wants to drop the table.
    for (phase, options) in [
        (Phase::Running, json!({"setup": false})),
        (Phase::SetUp, json!({})),
    ] {
        let control = Control::new();
        let record = std::thread::scope(|scope| {
            let running = scope.spawn(|| controlled(&file, 1, work.clone(), options, &control));
            assert!(control.wait(phase, Duration::from_secs(300)));
            control.cancel();
            running.join().unwrap()
        });
        assert_eq!(record.outcome, Outcome::Interrupted, "{:?}", record.error);
    }
}

/// The wait asks whether it shall go on before each new try: twice it shall, then no more.
#[test]
fn a_wait_ends_when_nobody_wants_it_any_more() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let file = File::new();
    let holder = file.open();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waiting = file.open();
    busy::wait(&mut waiting, Duration::from_secs(3600)).unwrap();
    let asked = || ASKED.fetch_add(1, Relaxed);
    let _entered = Halt::new(move || (asked() >= 2).then(Error::cancelled)).enter();
    let error = waiting.execute_batch("BEGIN IMMEDIATE").unwrap_err();
    assert_contains(&error.to_string(), "locked");
    assert_eq!(ASKED.load(Relaxed), 3);
}

#[test]
fn a_full_disk_is_a_line() {
    let file = File::new();
    let few = json!({"init": ["PRAGMA max_page_count = 12"]});
    let record = trial(&file, 1, rows(3000), few.clone());
    assert_eq!(record.outcome, Outcome::Failed);
    assert_error!(record.error.unwrap(), Kind::Server, "full (SQLITE_FULL)");
    // Within the budget it goes on, and what was acknowledged is there, no more.
    let record = trial(&file, 1, with(rows(3000), json!({"max_errors": 100})), few);
    assert_good(&record);
    let errors = record.errors.unwrap();
    assert!(errors.refused.batches > 5, "{errors:?}");
    assert_eq!(record.counts.batches + errors.refused.batches, 30);
}

#[test]
fn somebody_elses_table_is_not_dropped() {
    let file = File::new();
    let sales = |more: Value| trial(&file, 1, rows(1000), with(json!({"table": "sales"}), more));
    assert_good(&sales(keep()));
    assert_contains(message(&sales(keep())), "--no-setup");
    // As it is: the same keys again, and only what is new is compared.
    let record = sales(json!({"setup": false}));
    assert_good(&record);
    assert_eq!(record.verification.rows, 1000);
    assert_eq!(file.number("SELECT count(*) FROM sales"), 1000);
    let record = sales(json!({"table": "sale", "setup": false}));
    assert_contains(message(&record), "no table sale");
    // Whether keys that differ in their letters' case are one row is its collation's affair.
    let made: String = (file.open())
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'sales'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let folding = made
        .replace("sales", "folding")
        .replace(" text", " text COLLATE NOCASE");
    file.open().execute_batch(&folding).unwrap();
    let record = sales(json!({"table": "folding", "setup": false}));
    assert_good(&record);
    assert_eq!(record.verification.expected_rows, None);
    assert_contains(
        &record.verification.note.unwrap(),
        "compared by the collation NOCASE",
    );
}

#[test]
fn what_cannot_be_is_said() {
    let file = File::new();
    let check = |more: Value, options: Value, said: &str| {
        let record = trial(&file, 1, with(rows(100), more), options);
        assert_contains(message(&record), said);
    };
    check(json!({"in_flight": 2}), json!({}), "in_flight");
    for (options, said) in [
        (json!({"method": "copy"}), "method"),
        (json!({"init": ["PRAGMA query_only=1"]}), "_READONLY"),
        (json!({"init": ["SELEC 1"]}), "--init"),
        (json!({"init": ["SELEC 1"]}), "syntax"),
    ] {
        check(json!({}), options, said);
    }
    std::fs::write(file.path(), "no database".repeat(100)).unwrap();
    check(json!({}), json!({}), "SQLITE_NOTADB");
    let nowhere = File(Directory::new(), "no/such/directory/x.db");
    let error = trial(&nowhere, 1, rows(100), json!({})).error.unwrap();
    assert_error!(error, Kind::Unreachable, "directory does not exist");
}
