//! Against real programs.

use serde_json::{json, Value};

use super::*;
use venturi_engine::{run, Control, Outcome, Record};
use venturi_testkit::arrow::write_stream;
use venturi_testkit::{assert_contains, assert_error, parse, until, with, Directory};

fn spec(operation: &str, command: &[&str], more: Value) -> TrialSpec {
    let spec = json!({
        "target": "exec://", "operation": operation, "streams": 2, "rows_per_batch": 5000,
        "timeout_ns": 600_000_000_000u64, "options": {"command": command},
    });
    parse(with(spec, more))
}

fn trial(operation: &str, command: &[&str], more: Value) -> Record {
    run(spec(operation, command, more), &Control::new())
}

/// So many rows of each stream.
fn records(rows: u64) -> Value {
    json!({"data": {"source": "records"}, "rows_per_stream": rows})
}

fn remote() -> Value {
    json!({"data": {"source": "remote"}})
}

/// A file of bytes.
struct Stored(Directory);

impl Stored {
    /// An Arrow stream of the rows that a trial's records are.
    fn records(rows: u64) -> Self {
        let data = serde_json::from_str(r#"{"source": "records"}"#).unwrap();
        let source = Source::make(&data, 5000).unwrap();
        let mut cursor = source.cursor(Some(rows));
        let batches = std::iter::from_fn(|| cursor.next().map(|item| item.batch().clone()));
        Self::of(&write_stream(&batches.collect::<Vec<_>>()))
    }

    fn of(bytes: &[u8]) -> Self {
        let stored = Self(Directory::new());
        std::fs::write(stored.path(), bytes).unwrap();
        stored
    }

    fn path(&self) -> String {
        self.0.file("stored")
    }
}

#[test]
fn a_file_that_cat_writes_is_checked_to_the_last_bit() {
    let file = Stored::records(200_100);
    let cat = |more: Value| trial("get", &["cat", &file.path()], more);
    let record = cat(records(200_100));
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 400_200);
    assert_eq!(record.counts.payload_bytes, 400_200 * 32);
    assert_eq!(record.verification.achieved, "checksum");
    assert!(record.cpu.server.is_some());
    // Other rows than were expected, and fewer.
    let seed = json!({"data": {"source": "records", "seed": 9}});
    let message = cat(with(records(200_100), seed)).error.unwrap().message;
    assert_contains(&message, "checksum");
    assert_contains(&message, "5000 a batch");
    let message = cat(records(200_101)).error.unwrap().message;
    assert_contains(&message, "400200 rows arrived, 400202");
}

#[test]
fn rows_that_nobody_knows_are_counted_and_held_against_what_the_program_says() {
    let file = Stored::records(12_345);
    let said = |text: &str| {
        let script = format!("cat '{}'; echo {text} >&2", file.path());
        trial("get", &["sh", "-c", &script], remote())
    };
    let record = said("rows=12345");
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 24_690);
    assert_eq!(record.verification.achieved, "count");
    let record = said("done");
    assert_eq!(record.verification.achieved, "acknowledged");
    let message = said("rows=12344").error.unwrap().message;
    assert_eq!(message, "the client counted 24690 rows, the program 24688");
}

#[test]
fn text_is_counted() {
    for (format, rows) in [("lines", 30_001), ("csv", 30_000)] {
        let script = r#"i=0; echo "x,y"; seq 1 30000"#;
        let options = json!({"command": ["sh", "-c", script], "format": format});
        let record = trial("get", &[], with(remote(), json!({"options": options})));
        assert_eq!(record.error, None);
        assert_eq!(record.counts.rows, 2 * rows, "{format}");
        // x,y and 1 to 30000 with their line ends.
        assert_eq!(record.counts.payload_bytes, 2 * (4 + 168_894));
    }
}

#[test]
fn what_is_put_arrives_or_is_missed() {
    let put = |script: &str| trial("put", &["sh", "-c", script], records(100_000));
    let target = Stored::of(b"");
    let script = format!("cat > {}-$VENTURI_STREAM; echo rows=100000", target.path());
    let record = put(&script);
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "count");
    for stream in 0..2 {
        let written = format!("{}-{stream}", target.path());
        let mut file = std::fs::File::open(written).unwrap();
        let taken = crate::stream::take(&mut file, false).unwrap();
        assert_eq!(taken.rows, 100_000);
    }
    let record = put("cat > /dev/null");
    assert_eq!(record.verification.achieved, "acknowledged");
    let lies = put("cat > /dev/null; echo rows=99999")
        .error
        .unwrap()
        .message;
    assert_eq!(lies, "the program counted 199998 rows, the client 200000");
}

#[test]
fn what_goes_wrong_is_told_with_the_programs_last_words() {
    let whole = Stored::records(9000);
    let bytes = std::fs::read(whole.path()).unwrap();
    let cut = Stored::of(&bytes[..bytes.len() - 100]);
    let twice = Stored::of(&[&bytes[..], &bytes[..]].concat());
    let (fixed, long) = (records(9000), records(10_000_000));
    let timed = with(remote(), json!({"duration_ns": 60_000_000_000u64}));
    let fewer = with(remote(), json!({"rows_per_stream": 8000}));
    let of = |script: &'static str| vec!["sh", "-c", script];
    let (nobody, nothing) = (vec!["/no/such/program"], vec!["cat", "/no/such/file"]);
    let words = of("echo hello, world");
    let bad = of("echo bad luck >&2; exit 7");
    let [whole, cut, twice] = [whole, cut, twice].map(|file| (file.path(), file));
    let (cut, twice) = (vec!["cat", &cut.0], vec!["cat", &twice.0]);
    let whole = || vec!["cat", &whole.0];
    let reads = of("head -c 100000 > /dev/null");
    let full = of("head -c 100000 > /dev/null; echo full >&2; exit 4");
    let late = of("cat > /dev/null; echo late >&2; exit 5");
    let any = remote();
    for (operation, command, more, parts) in [
        ("get", nobody, &any, "cannot be started|installed"),
        ("get", nothing, &any, "with status 1|No such file"),
        ("get", bad, &any, "ended with status 7: bad luck"),
        ("get", of("kill -9 $$"), &any, "was ended by signal 9"),
        ("get", of("true"), &any, "wrote nothing"),
        ("get", words, &any, "cannot be read|Arrow stream"),
        ("get", cut, &any, "in the middle of its stream"),
        ("get", twice, &any, "after the end of its Arrow stream"),
        ("get", whole(), &timed, "9000 rows|before the trial's time"),
        ("get", whole(), &fewer, "more than the 8000"),
        ("put", of("exit 3"), &fixed, "ended with status 3"),
        ("put", full, &long, "status 4: full"),
        ("put", reads, &long, "stopped reading"),
        ("put", late, &fixed, "status 5: late"),
    ] {
        let error = trial(operation, &command, more.clone()).error;
        let message = error.unwrap_or_else(|| panic!("{command:?}")).message;
        parts
            .split('|')
            .for_each(|part| assert_contains(&message, part));
    }
}

#[test]
fn a_program_that_neither_writes_nor_reads_is_given_up() {
    for (operation, data, part) in [
        ("get", remote(), "has written nothing for 0.5 s"),
        ("put", records(10), "not read its standard input for 0.5 s"),
    ] {
        let more = with(data, json!({"streams": 1, "timeout_ns": 500_000_000}));
        let record = trial(operation, &["sleep", "1000"], more);
        assert_contains(&record.error.unwrap().message, part);
    }
}

/// Its processes, by a word of their commands.
fn running(word: &str) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word) && !stat.contains(") Z ")
    };
    pids.filter(has).count()
}

/// What was killed takes a moment to be gone.
#[cfg(target_os = "linux")]
fn all_end(word: &str) {
    until("all have ended", || running(word) == 0);
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_left_running() {
    let stays = format!("venturi-stays-{}", std::process::id());
    // It ends by no signal but the last, and has started another one.
    let script = format!("trap '' TERM; sh -c 'sleep 1000; : {stays}' & yes {stays}");
    let for_ns = |duration: u64| {
        let options = json!({"command": ["sh", "-c", script], "format": "lines"});
        spec(
            "get",
            &[],
            with(
                remote(),
                json!({"duration_ns": duration, "options": options}),
            ),
        )
    };
    let record = run(for_ns(100_000_000), &Control::new());
    assert_eq!(record.outcome, Outcome::Ok, "{:?}", record.error);
    assert!(record.counts.rows > 0);
    all_end(&stays);
    // Cancelled in its middle.
    let control = Control::new();
    let record = std::thread::scope(|scope| {
        let trial = scope.spawn(|| run(for_ns(3_600_000_000_000), &control));
        until("rows", || control.progress().rows > 0);
        control.cancel();
        trial.join().unwrap()
    });
    assert_eq!(record.outcome, Outcome::Interrupted);
    all_end(&stays);
}

#[test]
fn what_it_cannot_do_is_refused() {
    for (operation, options, part) in [
        ("get", json!({"command": []}), "names no program"),
        ("get", json!({"command": ["cat", "{data}"]}), "{data}"),
        ("put", json!({"format": "csv"}), "for gets"),
        ("get", json!({"format": "lines"}), "counted"),
        ("get", json!({"window": 1}), "unknown field `window`"),
    ] {
        let options = with(json!({"command": ["cat"]}), options);
        let more = with(records(10), json!({"options": options}));
        let error = trial(operation, &[], more).error.unwrap();
        assert_error!(error, Kind::Usage, part);
    }
}
