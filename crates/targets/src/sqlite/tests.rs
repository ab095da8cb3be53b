//! Against real files; SQLite is a part of this program.

use std::time::Duration;

use rusqlite::Connection;

use venturi_base::error::Kind;
use venturi_base::spec::TrialSpec;
use venturi_engine::{run, Control, Outcome, Phase, Record};
use venturi_testkit::{assert_contains, until, Directory};

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
fn trial(file: &File, streams: usize, work: &str, options: &str) -> Record {
    controlled(file, streams, work, options, &Control::new())
}

fn controlled(file: &File, streams: usize, work: &str, options: &str, control: &Control) -> Record {
    let target = file.path();
    let spec = TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "sqlite://{target}", "operation": "upsert",
            "data": {{"source": "usage", "working_set": 1000, "seed": 7, "loaded_unix_s": 1790000000}},
            "rows_per_batch": 100, "streams": {streams}, "threads": {streams},
            "options": {{{options}}}, {work}}}"#
    ))
    .unwrap();
    run(spec, control)
}

fn message(record: &Record) -> &str {
    &record.error.as_ref().unwrap().message
}

#[test]
fn every_row_is_there_once_and_what_is_added_is_the_sum() {
    for options in [
        r#""keep": true"#,
        r#""keep": true, "statement": "text""#,
        r#""keep": true, "without_rowid": false, "journal": "delete", "synchronous": "full""#,
    ] {
        let file = File::new();
        // Three times over the working set.
        let record = trial(&file, 1, r#""rows_per_stream": 3000"#, options);
        assert_eq!(record.error, None);
        assert_eq!((record.counts.rows, record.counts.batches), (3000, 30));
        assert!(record.counts.stored_bytes.unwrap() > 50_000);
        let checked = &record.verification;
        assert_eq!((checked.achieved, checked.rows), ("sums", 1000));
        assert_eq!(checked.expected_rows, Some(1000));
        let hits = &checked.sums.as_ref().unwrap()[1];
        assert_eq!(hits.found, hits.expected);
        let found = file.number("SELECT sum(hits) FROM venturi_usage");
        assert_eq!(found.to_string(), hits.found);
        let time = file.number(
            "SELECT count(*) FROM venturi_usage WHERE timestamp_of_data = '2026-09-21 14:13:20'",
        );
        assert_eq!(time, 1000);
    }
}

#[test]
fn streams_contend_for_one_lock() {
    let file = File::new();
    let record = trial(&file, 4, r#""rows_per_stream": 2000"#, "");
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 8000);
    assert_eq!(record.verification.achieved, "sums");
    assert!(record.errors.is_none());
    // It has cleaned up, for nobody has asked to keep the table.
    assert_eq!(file.number("SELECT count(*) FROM sqlite_schema"), 0);
}

#[test]
fn a_lock_that_is_kept_refuses_batches() {
    let file = File::new();
    let keep = r#""keep": true"#;
    assert_eq!(
        trial(&file, 1, r#""rows_per_stream": 1000"#, keep).error,
        None
    );
    // Somebody else writes, all the time. Were the lock taken while the stream is at work, it
    // would be luck who gets it: SQLite's waiters poll.
    let holder = file.open();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let work = r#""rows_per_stream": 3000, "timeout_ns": 50000000, "max_errors": 3"#;
    let into_it = r#""setup": false"#;
    let record = trial(&file, 1, work, into_it);
    assert_eq!(record.outcome, Outcome::Failed);
    assert_contains(message(&record), "SQLITE_BUSY");
    let errors = record.errors.unwrap();
    assert_eq!((errors.refused.batches, errors.in_doubt.batches), (4, 0));
    assert_eq!(errors.kinds[0].code.as_deref(), Some("SQLITE_BUSY"));
    assert_eq!(record.counts.batches, 0);
    holder.execute_batch("ROLLBACK").unwrap();
    let record = trial(&file, 1, r#""rows_per_stream": 3000"#, into_it);
    assert_eq!(record.error, None);
    assert!(record.errors.is_none());
    assert_eq!(record.verification.achieved, "sums");
}

#[test]
fn a_cancel_ends_a_wait_for_the_lock() {
    let file = File::new();
    let keep = r#""keep": true"#;
    let made = trial(&file, 1, r#""rows_per_stream": 1000"#, keep);
    assert_eq!(made.error, None);
    let holder = file.open();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let work = r#""rows_per_stream": 3000, "timeout_ns": 3600000000000"#;
    // A stream that waits, and a plan that wants to drop the table.
    for (phase, options) in [(Phase::Running, r#""setup": false"#), (Phase::SetUp, "")] {
        let control = Control::new();
        let record = std::thread::scope(|scope| {
            let running = scope.spawn(|| controlled(&file, 1, work, options, &control));
            assert!(control.wait(phase, Duration::from_secs(300)));
            // The clock runs from a millisecond ahead; by then its first batch waits.
            until("the wait", || {
                phase == Phase::SetUp || control.progress().elapsed_ns > 100_000_000
            });
            control.cancel();
            running.join().unwrap()
        });
        assert_eq!(record.outcome, Outcome::Interrupted, "{:?}", record.error);
    }
}

#[test]
fn a_full_disk_is_a_line() {
    let file = File::new();
    let few = r#""init": ["PRAGMA max_page_count = 12"]"#;
    let record = trial(&file, 1, r#""rows_per_stream": 3000"#, few);
    assert_eq!(record.outcome, Outcome::Failed);
    assert_contains(message(&record), "full (SQLITE_FULL)");
    assert_eq!(record.error.as_ref().unwrap().kind, Kind::Server);
    // Within the budget it goes on, and what was acknowledged is there, no more.
    let record = trial(
        &file,
        1,
        r#""rows_per_stream": 3000, "max_errors": 100"#,
        few,
    );
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "sums");
    let errors = record.errors.unwrap();
    assert!(errors.refused.batches > 5, "{errors:?}");
    assert_eq!(record.counts.batches + errors.refused.batches, 30);
}

#[test]
fn somebody_elses_table_is_not_dropped() {
    let file = File::new();
    let work = r#""rows_per_stream": 1000"#;
    let kept = r#""table": "sales", "keep": true"#;
    assert_eq!(trial(&file, 1, work, kept).error, None);
    let record = trial(&file, 1, work, kept);
    assert_contains(message(&record), "--no-setup");
    // As it is: the same keys again, and only what is new is compared.
    let record = trial(&file, 1, work, r#""table": "sales", "setup": false"#);
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "sums");
    assert_eq!(record.verification.rows, 1000);
    assert_eq!(file.number("SELECT count(*) FROM sales"), 1000);
    let record = trial(&file, 1, work, r#""table": "sale", "setup": false"#);
    assert_contains(message(&record), "no table sale");
}

#[test]
fn what_cannot_be_is_said() {
    let file = File::new();
    let work = r#""rows_per_stream": 100"#;
    let failed = |options: &str, more: &str| {
        let record = trial(&file, 1, &format!("{work}{more}"), options);
        message(&record).to_owned()
    };
    let said = failed("", r#", "in_flight": 2"#);
    assert_contains(&said, "in_flight");
    let said = failed(r#""method": "copy""#, "");
    assert_contains(&said, "method");
    let said = failed(r#""init": ["PRAGMA query_only = on"]"#, "");
    assert_contains(&said, "SQLITE_READONLY");
    let said = failed(r#""init": ["SELEC 1"]"#, "");
    assert!(said.contains("--init") && said.contains("syntax"), "{said}");
    std::fs::write(file.path(), "no database".repeat(100)).unwrap();
    let said = failed("", "");
    assert_contains(&said, "SQLITE_NOTADB");
    let nowhere = File(Directory::new(), "no/such/directory/x.db");
    let record = trial(&nowhere, 1, work, "");
    assert!(message(&record).contains("directory does not exist"));
    assert_eq!(record.error.unwrap().kind, Kind::Unreachable);
}
