//! Servers of Influx's lines that are asked for their count, in the words of InfluxDB and QuestDB.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use super::*;
use venturi_base::error::Kind;
use venturi_testkit::{assert_contains, assert_error};

const PING: &str = "GET /ping HTTP/1.1";

/// A trial of 1,000 points.
fn counted(http: u16) -> Record {
    ingest("influx", sink(), http, points(500))
}

/// An answer to `/ping` with these headers.
fn pong(headers: &str) -> String {
    format!("HTTP/1.1 204 No Content\r\n{headers}\r\n\r\n")
}

/// QuestDB that counts so many points more each time it is asked about a metric, up to `most`.
fn questdb(step: u64, most: u64) -> u16 {
    let asked = Arc::new(AtomicU64::new(0));
    web(move |request| {
        if request == PING {
            return pong("Server: questDB/1.0\r\nX-Influxdb-Version: v2.7.4");
        }
        if request.contains("select%20build") {
            return ok(r#"{"dataset": [["Build Information: QuestDB 9.2.2, JDK 17"]]}"#);
        }
        if !request.contains("/exec?query=select%20count%28%22user%22%29%20from%20%22cpu%22") {
            return response("400 Bad", r#"{"error": "table does not exist [table=x]"}"#);
        }
        let before = asked.fetch_add(1, Relaxed);
        let points = (7 + before * step).min(most);
        ok(&format!(r#"{{"dataset": [[{points}]], "count": 1}}"#))
    })
}

#[test]
fn questdb_is_asked_until_it_has_counted_all() {
    let record = counted(questdb(100, 1007));
    assert_eq!(record.error, None);
    assert_eq!(record.target.software.as_deref(), Some("QuestDB 9.2.2"));
    let found = record.verification;
    assert_eq!(found.achieved, "count");
    assert_eq!((found.rows, found.expected_rows), (1000, Some(1000)));
    // One that stops short has lost some.
    let error = counted(questdb(400, 1006)).error.unwrap();
    let says = "holds 999 points of this trial, 1000 were sent";
    assert_error!(error, Kind::Verification, says);
}

/// InfluxDB with so many points of `cpu.user` at first and afterwards.
fn influxdb(before: u64, after: u64) -> u16 {
    let asked = Arc::new(AtomicU64::new(0));
    web(move |request| {
        if request == PING {
            return pong("X-Influxdb-Build: OSS\r\nX-Influxdb-Version: 1.6.4");
        }
        if !request.contains("q=SELECT%20count%28%22user%22%29%20FROM%20%22cpu%22") {
            return ok(r#"{"results": [{"statement_id": 0}]}"#);
        }
        let points = match asked.fetch_add(1, Relaxed) {
            0 => before,
            _ => after,
        };
        let series = format!(r#"[{{"name": "cpu", "values": [[0, {points}]]}}]"#);
        ok(&format!(r#"{{"results": [{{"series": {series}}}]}}"#))
    })
}

#[test]
fn influxdb_keeps_one_of_equal_points() {
    for (before, after, achieved, note) in [
        (0, 1000, "count", None),
        (5, 1005, "count", None),
        (1000, 1000, "acknowledged", Some("keeps one")),
    ] {
        let record = counted(influxdb(before, after));
        assert_eq!(record.error, None);
        assert_eq!(record.target.software.as_deref(), Some("InfluxDB 1.6.4"));
        assert_eq!(record.verification.achieved, achieved);
        let found = record.verification.note.unwrap_or_default();
        assert_contains(&found, note.unwrap_or_default());
    }
    let error = counted(influxdb(0, 999)).error.unwrap();
    assert_contains(&error.message, "holds 999 points");
}

#[test]
fn who_cannot_count_is_said() {
    let refusing = |body: &'static str| {
        let http = web(move |request| match request == PING {
            true => pong("X-Influxdb-Build: OSS\r\nX-Influxdb-Version: 2.7"),
            false => ok(body),
        });
        let record = counted(http);
        assert_eq!(record.error, None);
        assert_eq!(record.verification.achieved, "acknowledged");
        record.verification.note.unwrap()
    };
    let says = refusing(r#"{"results": [{"error": "database not found: d"}]}"#);
    assert!(says.contains("no count of cpu.user") && says.contains("not found: d"));
    assert!(refusing("<html>").contains("<html>"));
    assert!(refusing(r#"{"error": "unauthorized access"}"#).contains("unauthorized"));
    assert!(refusing(r#"{"results": [{"series": [{}]}]}"#).contains("series"));
    // One question decides: a second one would be in vain for as long again.
    let asked = Arc::new(AtomicU64::new(0));
    let questions = asked.clone();
    let silent = server(move |socket| {
        asked.fetch_add(1, Relaxed);
        std::mem::forget(socket);
    });
    let more = with(points(500), json!({"timeout_ns": 1_000_000_000}));
    let note = ingest("influx", sink(), silent, more)
        .verification
        .note
        .unwrap();
    assert_contains(&note, "does not answer");
    assert_eq!(questions.load(Relaxed), 1);
    // Others that take these lines.
    let record = counted(web(|_| pong("X-Influxdb-Version: 1.8.0")));
    let note = record.verification.note.unwrap();
    assert_contains(&note, "is not Venturi's store, InfluxDB or QuestDB");
}
