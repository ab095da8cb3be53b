//! What is compared afterwards: with the reference store's account, and with a count of points.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use venturi_base::data::points::{mix, series_hash};
use venturi_base::error::Kind;
use venturi_base::os::machine::Place;

/// Points and the sum of their digests.
type Account = Arc<Mutex<(u64, u64)>>;

/// A store that takes `put` lines, and loses one in so many.
fn store(lose: u64) -> (u16, u16) {
    let account = Account::default();
    account.lock().0 = 7; // somebody was here before
    let held = account.clone();
    let port = server(move |mut socket| {
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let (mut line, mut points) = (String::new(), 0u64);
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "flush\n" {
                let _ = socket.write_all(format!("ok {points}\n").as_bytes());
                continue;
            }
            points += 1;
            if lose > 0 && points % lose == 0 {
                continue;
            }
            let parts: Vec<&str> = line.trim_end().splitn(5, ' ').collect();
            let series = series_hash(format!("{} {}", parts[1], parts[4]).as_bytes());
            let time = parts[2].parse::<i64>().unwrap() * 1_000_000_000;
            let mut held = held.lock();
            held.0 += 1;
            held.1 = held
                .1
                .wrapping_add(mix(series, time, parts[3].parse().unwrap()));
        }
    });
    let http = web(move |request| {
        let (points, checksum) = *account.lock();
        let stored_bytes = match request {
            "GET /api/stats HTTP/1.1" => 0,
            _ => points,
        };
        ok(&format!(
            r#"{{"software": "venturi 0.0.0", "place": {}, "points": {points},
                "checksum": "{checksum:016x}", "stored_bytes": {stored_bytes}, "more": [1]}}"#,
            serde_json::to_string(&Place::here()).unwrap()
        ))
    });
    (port, http)
}

#[test]
fn the_reference_store_knows_every_point() {
    let (port, http) = store(0);
    for verify in ["checksum", "count"] {
        let more = format!(r#""rows_per_stream": 5005, "verify": "{verify}""#);
        let record = ingest("opentsdb", port, http, &more);
        assert_eq!(record.error, None);
        assert!(record.target.reference);
        assert_eq!(record.target.pid, Some(std::process::id()));
        assert_eq!(record.target.software.as_deref(), Some("venturi 0.0.0"));
        assert!(record.counts.stored_bytes >= Some(10_027));
        let found = record.verification;
        assert_eq!(found.achieved, verify);
        assert_eq!((found.rows, found.expected_rows), (10_020, Some(10_020)));
        assert_eq!(found.checksum.is_some(), verify == "checksum");
        assert_eq!(found.checksum, found.expected_checksum);
        assert!(found.note.unwrap().contains("were there before"));
    }
}

#[test]
fn a_table_of_the_users_arrives_whole() {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};

    let times: Vec<i64> = (0..1000).map(|row| (row / 4) * 1_000_000_000).collect();
    let value = |row: i32| (row % 7 != 0).then_some(f64::from(row) / 3.0);
    let hosts: Vec<String> = (0..1000).map(|row| format!("h{}", row % 13)).collect();
    let batch = RecordBatch::try_from_iter([
        (
            "ts",
            Arc::new(TimestampNanosecondArray::from(times)) as ArrayRef,
        ),
        ("host", Arc::new(StringArray::from(hosts)) as ArrayRef),
        (
            "load",
            Arc::new(Float64Array::from_iter((0..1000).map(value))) as ArrayRef,
        ),
    ])
    .unwrap();
    let ipc = std::env::temp_dir().join(format!("venturi-table-{}.arrow", std::process::id()));
    let file = std::fs::File::create(&ipc).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let (port, http) = store(0);
    let spec = TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "opentsdb://127.0.0.1:{port}", "operation": "ingest",
            "data": {{"source": "file", "path": "load.csv", "ipc": {ipc:?}}},
            "ingest": {{"time": "ts", "tags": ["host"], "values": ["load"], "metric": "os"}},
            "rows_per_batch": 50, "streams": 3, "threads": 2,
            "options": {{"http_port": {http}}}}}"#
    ));
    let record = run(spec.unwrap(), &Control::new());
    std::fs::remove_file(&ipc).unwrap();
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 857);
    assert_eq!(record.verification.achieved, "checksum");
    assert_eq!(record.verification.rows, 857);
}

#[test]
fn what_is_lost_is_found_out() {
    let (port, http) = store(1000);
    let record = ingest("opentsdb", port, http, r#""rows_per_stream": 5000"#);
    let error = record.error.unwrap();
    assert_eq!(error.kind, Kind::Verification);
    let says = "holds 9990 points of this trial, 10000 were sent";
    assert!(error.message.contains(says), "{}", error.message);
}

#[test]
fn a_flush_that_is_refused_or_miscounted() {
    for (answer, kind, says) in [
        ("ok 9\n", Kind::Verification, "acknowledged 9 points"),
        ("error: disk full - x\n", Kind::Server, "disk full"),
        ("", Kind::Lost, "in place of an answer"),
    ] {
        let port = server(move |mut socket| {
            let mut reader = BufReader::new(socket.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap_or(0) > 0 && line != "#flush\n" {
                line.clear();
            }
            let _ = socket.write_all(answer.as_bytes());
        });
        let stats = r#"{"software": "venturi 1", "points": 0, "checksum": "0"}"#;
        let http = web(|_| ok(stats));
        let error = ingest("influx", port, http, r#""rows_per_stream": 10"#)
            .error
            .unwrap();
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.message.contains(says), "{}", error.message);
    }
}

#[test]
fn akumuli_counts_by_metric() {
    let sink = || {
        server(|mut socket| {
            drain(&mut socket, usize::MAX);
        })
    };
    // Each metric is counted twice: before (100 points each) and after.
    for (after, fails) in [(1100, false), (1099, true)] {
        let asked = Arc::new(Mutex::new(0));
        let http = web(move |request| {
            if request.starts_with("GET") {
                return "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n-oh?\r\n0\r\n\r\n".into();
            }
            assert_eq!(request, "POST /api/query HTTP/1.1");
            let mut asked = asked.lock();
            *asked += 1;
            let count = if *asked <= 10 { 100 } else { after };
            let body = format!("+m:count host=a\r\n+20170101T000000\r\n+{count}\r\n");
            let (one, two) = body.split_at(9);
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n{:x};x=y\r\n{one}\r\n{:X}\r\n{two}\r\n0\r\nTrailer: x\r\n\r\n",
                one.len(),
                two.len()
            )
        });
        let record = ingest("akumuli", sink(), http, r#""rows_per_stream": 5000"#);
        assert_eq!(record.error.is_some(), fails, "{:?}", record.error);
        assert_eq!(record.verification.achieved, "count");
        assert_eq!(record.verification.expected_rows, Some(10_000));
        assert_eq!(record.verification.rows, if fails { 9_990 } else { 10_000 });
    }
    // Who speaks something else is not verified, and the record says why.
    let http = web(|_| "SSH-2.0-x\r\n".into());
    let record = ingest("akumuli", sink(), http, r#""rows_per_stream": 100"#);
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "acknowledged");
    assert!(record.verification.note.unwrap().contains("SSH-2.0-x"));
}
