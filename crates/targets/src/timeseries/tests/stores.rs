//! What is compared afterwards: with the reference store's account, and with a count of points.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use arrow_array::{Float64Array, StringArray, TimestampNanosecondArray};
use parking_lot::Mutex;

use super::*;
use venturi_base::data::points::{mix, series_hash};
use venturi_base::error::Kind;
use venturi_base::os::machine::Place;
use venturi_testkit::arrow::{array, batch, write_file};
use venturi_testkit::{assert_error, Directory};

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
            let digest = mix(series, time, parts[3].parse().unwrap());
            *held = (held.0 + 1, held.1.wrapping_add(digest));
        }
    });
    let http = web(move |request| {
        let (points, checksum) = *account.lock();
        let stored_bytes = match request {
            "GET /api/stats HTTP/1.1" => 0,
            _ => points,
        };
        let told = json!({
            "software": "venturi 0.0.0", "place": Place::current(), "points": points,
            "checksum": format!("{checksum:016x}"), "stored_bytes": stored_bytes, "more": [1],
        });
        ok(&told.to_string())
    });
    (port, http)
}

#[test]
fn the_reference_store_knows_every_point() {
    let (port, http) = store(0);
    for verify in ["checksum", "count"] {
        let more = with(points(5005), json!({"verify": verify}));
        let record = ingest("opentsdb", port, http, more);
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
    let times: Vec<i64> = (0..1000).map(|row| (row / 4) * 1_000_000_000).collect();
    let value = |row: i32| (row % 7 != 0).then_some(f64::from(row) / 3.0);
    let hosts: Vec<String> = (0..1000).map(|row| format!("h{}", row % 13)).collect();
    let batch = batch([
        ("ts", array(TimestampNanosecondArray::from(times))),
        ("host", array(StringArray::from(hosts))),
        ("load", array(Float64Array::from_iter((0..1000).map(value)))),
    ]);
    let place = Directory::new();
    let ipc = place.file("load.arrow");
    write_file(&ipc, &[batch]);
    let (port, http) = store(0);
    let more = json!({
        "data": {"source": "file", "path": "load.csv", "ipc": ipc}, "rows_per_batch": 50, "streams": 3,
        "ingest": {"time": "ts", "tags": ["host"], "values": ["load"], "metric": "os"},
        "generate": "ahead",
    });
    let record = ingest("opentsdb", port, http, more);
    assert_eq!(record.error, None);
    let verified = record.verification;
    assert_eq!((record.counts.rows, verified.rows), (857, 857));
    assert_eq!(verified.achieved, "checksum");
}

#[test]
fn what_is_lost_is_found_out() {
    let (port, http) = store(1000);
    let error = ingest("opentsdb", port, http, points(5000)).error.unwrap();
    let says = "holds 9990 points of this trial, 10000 were sent";
    assert_error!(error, Kind::Verification, says);
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
        let error = ingest("influx", port, http, points(10)).error.unwrap();
        assert_error!(error, kind, says);
    }
}

#[test]
fn akumuli_counts_by_metric() {
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
            let chunks = format!(
                "{:x};x=y\r\n{one}\r\n{:X}\r\n{two}\r\n",
                one.len(),
                two.len()
            );
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n";
            format!("{head}{chunks}0\r\nTrailer: x\r\n\r\n")
        });
        let record = ingest("akumuli", sink(), http, points(5000));
        assert_eq!(record.error.is_some(), fails, "{:?}", record.error);
        let verified = record.verification;
        let seen = (verified.achieved, verified.expected_rows);
        assert_eq!(seen, ("count", Some(10_000)));
        assert_eq!(verified.rows, if fails { 9_990 } else { 10_000 });
    }
    // Who speaks something else is not verified, and the record says why.
    let http = web(|_| "SSH-2.0-x\r\n".into());
    let record = ingest("akumuli", sink(), http, points(100));
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "acknowledged");
    assert!(record.verification.note.unwrap().contains("SSH-2.0-x"));
}
