//! Against real programs.

use arrow_ipc::writer::StreamWriter;

use super::*;
use venturi_engine::{run, Control, Outcome, Record};
use venturi_testkit::{assert_contains, until, Directory};

fn trial(operation: &str, command: &[&str], more: &str) -> Record {
    let command = serde_json::to_string(command).unwrap();
    let spec = TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "exec://", "operation": "{operation}", "streams": 2, "threads": 2,
            "rows_per_batch": 5000, "timeout_ns": 600000000000, "options": {{"command": {command} {more}}}"#
    ));
    run(spec.unwrap(), &Control::new())
}

const RECORDS: &str = r#"}, "data": {"source": "records"}"#;
const REMOTE: &str = r#"}, "data": {"source": "remote"}"#;

fn with(data: &str, amount: &str) -> String {
    format!("{data}, {amount}")
}

/// A file of bytes.
struct Stored(Directory);

impl Stored {
    /// An Arrow stream of the rows that a trial's records are.
    fn records(rows: u64) -> Self {
        let data = serde_json::from_str(r#"{"source": "records"}"#).unwrap();
        let source = Source::make(&data, 5000).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &source.schema()).unwrap();
        let mut cursor = source.cursor(Some(rows));
        while let Some(item) = cursor.next() {
            writer.write(item.batch()).unwrap();
        }
        writer.finish().unwrap();
        Self::of(&writer.into_inner().unwrap())
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
    let rows = r#""rows_per_stream": 200100"#;
    let record = trial("get", &["cat", &file.path()], &with(RECORDS, rows));
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 400_200);
    assert_eq!(record.counts.payload_bytes, 400_200 * 32);
    assert_eq!(record.verification.achieved, "checksum");
    assert!(record.cpu.server.is_some());
    // Other rows than were expected, and fewer.
    let seed = r#"}, "data": {"source": "records", "seed": 9}"#;
    let record = trial("get", &["cat", &file.path()], &with(seed, rows));
    let message = record.error.unwrap().message;
    assert!(
        message.contains("checksum") && message.contains("5000 a batch"),
        "{message}"
    );
    let more = with(RECORDS, r#""rows_per_stream": 200101"#);
    let error = trial("get", &["cat", &file.path()], &more).error;
    let message = error.unwrap().message;
    assert_contains(&message, "400200 rows arrived, 400202");
}

#[test]
fn rows_that_nobody_knows_are_counted_and_held_against_what_the_program_says() {
    let file = Stored::records(12_345);
    let said = |text: &str| {
        let script = format!("cat '{}'; echo {text} >&2", file.path());
        let spec = r#"}, "data": {"source": "remote"}"#;
        trial("get", &["sh", "-c", &script], spec)
    };
    let record = said("rows=12345");
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 24_690);
    assert_eq!(record.verification.achieved, "count");
    let record = said("done");
    assert_eq!(record.verification.achieved, "acknowledged");
    let record = said("rows=12344");
    assert_eq!(
        record.error.unwrap().message,
        "the client counted 24690 rows, the program 24688"
    );
}

#[test]
fn text_is_counted() {
    for (format, rows) in [("lines", 30_001), ("csv", 30_000)] {
        let script = r#"i=0; echo "x,y"; seq 1 30000"#;
        let more = format!(r#", "format": "{format}" }}, "data": {{"source": "remote"}}"#);
        let record = trial("get", &["sh", "-c", script], &more);
        assert_eq!(record.error, None);
        assert_eq!(record.counts.rows, 2 * rows, "{format}");
        // x,y and 1 to 30000 with their line ends.
        assert_eq!(record.counts.payload_bytes, 2 * (4 + 168_894));
    }
}

#[test]
fn what_is_put_arrives_or_is_missed() {
    let rows = with(RECORDS, r#""rows_per_stream": 100000"#);
    let target = Stored::of(b"");
    let script = format!("cat > {}-$VENTURI_STREAM; echo rows=100000", target.path());
    let record = trial("put", &["sh", "-c", &script], &rows);
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "count");
    for stream in 0..2 {
        let written = format!("{}-{stream}", target.path());
        let mut file = std::fs::File::open(written).unwrap();
        let taken = crate::stream::far::take(&mut file, false).unwrap();
        assert_eq!(taken.rows, 100_000);
    }
    let record = trial("put", &["sh", "-c", "cat > /dev/null"], &rows);
    assert_eq!(record.verification.achieved, "acknowledged");
    let lie = ["sh", "-c", "cat > /dev/null; echo rows=99999"];
    let lies = trial("put", &lie, &rows);
    assert_eq!(
        lies.error.unwrap().message,
        "the program counted 199998 rows, the client 200000"
    );
}

#[test]
fn what_goes_wrong_is_told_with_the_programs_last_words() {
    let whole = Stored::records(9000);
    let bytes = std::fs::read(whole.path()).unwrap();
    let cut = Stored::of(&bytes[..bytes.len() - 100]);
    let twice = Stored::of(&[&bytes[..], &bytes[..]].concat());
    let fixed = with(RECORDS, r#""rows_per_stream": 9000"#);
    let timed = with(REMOTE, r#""duration_ns": 60000000000"#);
    let long = with(RECORDS, r#""rows_per_stream": 10000000"#);
    let of = |script: &'static str| vec!["sh", "-c", script];
    let (nobody, nothing) = (vec!["/no/such/program"], vec!["cat", "/no/such/file"]);
    let words = of("echo hello, world");
    let bad = of("echo bad luck >&2; exit 7");
    let [whole, cut, twice] = [whole, cut, twice].map(|file| (file.path(), file));
    let (cut, twice) = (vec!["cat", &cut.0], vec!["cat", &twice.0]);
    let whole = || vec!["cat", &whole.0];
    let fewer = with(REMOTE, r#""rows_per_stream": 8000"#);
    let reads = of("head -c 100000 > /dev/null");
    let full = of("head -c 100000 > /dev/null; echo full >&2; exit 4");
    let late = of("cat > /dev/null; echo late >&2; exit 5");
    for (operation, command, more, parts) in [
        ("get", nobody, REMOTE, "cannot be started|installed"),
        ("get", nothing, REMOTE, "with status 1|No such file"),
        ("get", bad, REMOTE, "ended with status 7: bad luck"),
        ("get", of("kill -9 $$"), REMOTE, "was ended by signal 9"),
        ("get", of("true"), REMOTE, "wrote nothing"),
        ("get", words, REMOTE, "cannot be read|Arrow stream"),
        ("get", cut, REMOTE, "in the middle of its stream"),
        ("get", twice, REMOTE, "after the end of its Arrow stream"),
        ("get", whole(), &timed, "9000 rows|before the trial's time"),
        ("get", whole(), &fewer, "more than the 8000"),
        ("put", of("exit 3"), &fixed, "ended with status 3"),
        ("put", full, &long, "status 4: full"),
        ("put", reads, &long, "stopped reading"),
        ("put", late, &fixed, "status 5: late"),
    ] {
        let record = trial(operation, &command, more);
        let message = record
            .error
            .unwrap_or_else(|| panic!("{command:?} went well"))
            .message;
        for part in parts.split('|') {
            assert!(message.contains(part), "{command:?}: {message}");
        }
    }
}

#[test]
fn a_program_that_neither_writes_nor_reads_is_given_up() {
    for (operation, data, part) in [
        ("get", REMOTE, "has written nothing for 0.5 s"),
        ("put", RECORDS, "has not read its standard input for 0.5 s"),
    ] {
        let spec = TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "exec://", "operation": "{operation}", "streams": 1, "threads": 1,
                "rows_per_batch": 10, "rows_per_stream": 10, "timeout_ns": 500000000,
                "options": {{"command": ["sleep", "1000"] {data}}}"#
        ));
        let message = run(spec.unwrap(), &Control::new()).error.unwrap().message;
        assert!(message.contains(part), "{message}");
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
    let lines = r#", "format": "lines" }, "data": {"source": "remote"}, "duration_ns": 100000000"#;
    let record = trial("get", &["sh", "-c", &script], lines);
    assert_eq!(record.outcome, Outcome::Ok, "{:?}", record.error);
    assert!(record.counts.rows > 0);
    all_end(&stays);
    // Cancelled in its middle.
    let command = serde_json::to_string(&["sh", "-c", &script]).unwrap();
    let spec = TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "exec://", "operation": "get", "streams": 2, "threads": 1,
            "rows_per_batch": 100, "duration_ns": 3600000000000, "data": {{"source": "remote"}},
            "options": {{"command": {command}, "format": "lines"}}}}"#
    ))
    .unwrap();
    let control = Control::new();
    let record = std::thread::scope(|scope| {
        let trial = scope.spawn(|| run(spec, &control));
        until("rows", || control.progress().rows > 0);
        control.cancel();
        trial.join().unwrap()
    });
    assert_eq!(record.outcome, Outcome::Interrupted);
    all_end(&stays);
}

#[test]
fn what_it_cannot_do_is_refused() {
    let rows = with(RECORDS, r#""rows_per_stream": 10"#);
    let and = |option: &str| format!(r#", {option} {rows}"#);
    for (operation, command, more, part) in [
        ("get", &[][..], rows.clone(), "names no program"),
        ("get", &["cat", "{data}"], rows.clone(), "{data}"),
        ("put", &["cat"], and(r#""format": "csv""#), "for gets"),
        ("get", &["cat"], and(r#""format": "lines""#), "counted"),
        (
            "get",
            &["cat"],
            and(r#""window": 1"#),
            "unknown field `window`",
        ),
    ] {
        let error = trial(operation, command, &more).error.unwrap();
        assert_eq!(error.kind, Kind::Usage, "{}", error.message);
        assert!(error.message.contains(part), "{}", error.message);
    }
}
