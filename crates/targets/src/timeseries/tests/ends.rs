//! How a stream ends: well, by an error line, by a connection that goes away, or not at all.

use super::*;
use venturi_base::error::Kind;
use venturi_engine::{Failure, Outcome};
use venturi_testkit::{assert_contains, assert_error};

const LONG: u64 = 60_000_000_000;

fn failure(scheme: &str, port: u16, more: Value) -> Failure {
    let record = ingest(scheme, port, closed_port(), more);
    assert_eq!(record.outcome, Outcome::Failed);
    record.error.unwrap()
}

#[test]
fn a_server_that_closes_after_us_has_read_all() {
    let ways = [
        ("akumuli", "inline"),
        ("opentsdb", "ahead"),
        ("influx", "inline"),
    ];
    for (scheme, generate) in ways {
        let more = with(points(50_000), json!({"generate": generate}));
        let record = ingest(scheme, sink(), closed_port(), more);
        assert_eq!(record.error, None);
        assert_eq!(record.counts.rows, 100_000);
        assert_eq!(record.counts.batches, 100);
        assert!(record.counts.wire_bytes > 1_000_000);
        assert_eq!(record.verification.achieved, "acknowledged");
        assert!(record.verification.note.is_some());
        assert!(!record.target.reference);
        assert_eq!(record.target.pid, Some(std::process::id()));
        let stages = &record.stages.client;
        assert_eq!(stages.contains_key("encode"), generate == "inline");
        assert!(stages.contains_key("send"), "{stages:?}");
        assert_eq!(stages.values().sum::<u64>(), record.workers.client.time_ns);
    }
}

#[test]
fn a_stream_without_end_ends_in_time() {
    let more = json!({"duration_ns": 50_000_000});
    let record = ingest("akumuli", sink(), closed_port(), more);
    assert_eq!(record.error, None);
    assert!(record.counts.rows > 0);
    assert_eq!(record.verification.rows, record.counts.rows);
}

#[test]
fn an_error_line_ends_the_stream_with_its_text() {
    let port = server(|mut socket| {
        if !drain(&mut socket, 300_000) {
            let _ = socket.write_all(b"-PARSER no such thing - x\r\n");
            // Closed with bytes unread, as Akumuli does: that resets the connection.
        }
    });
    for _ in 0..5 {
        let error = failure("akumuli", port, json!({"duration_ns": LONG}));
        assert_error!(error, Kind::Server, "-PARSER no such thing - x");
        let text = &error.message;
        assert_contains(text, &format!("127.0.0.1:{port}"));
        assert_contains(text, "sent, not stored");
        let points = text.split("after ").nth(1).unwrap();
        let points: u64 = points.split(' ').next().unwrap().parse().unwrap();
        // 35 bytes a point; the kernel has taken some more than was read.
        assert!((5_000..1_000_000).contains(&points), "{text}");
    }
}

#[test]
fn a_connection_that_is_closed_is_not_a_fast_one() {
    let port = server(|mut socket| {
        drain(&mut socket, 200_000);
    });
    let error = failure("opentsdb", port, json!({"duration_ns": LONG}));
    assert_error!(error, Kind::Lost, "had been sent");

    // Everything fits the kernel's buffers: only the end of the stream can tell.
    let port = server(|mut socket| {
        drain(&mut socket, 1000);
    });
    let error = failure("influx", port, points(200));
    assert_eq!(error.kind, Kind::Lost, "{error:?}");
}

#[test]
fn who_does_not_read_or_does_not_close_is_waited_for_in_vain() {
    let silent = server(std::mem::forget);
    let slow = json!({"duration_ns": LONG, "timeout_ns": 300_000_000});
    let error = failure("akumuli", silent, slow);
    assert_error!(error, Kind::Timeout, "takes nothing");

    let open = server(|mut socket| {
        drain(&mut socket, usize::MAX);
        std::mem::forget(socket);
    });
    let slow = with(points(10), json!({"timeout_ns": 300_000_000}));
    let error = failure("akumuli", open, slow);
    assert_error!(error, Kind::Timeout, "acknowledgement");
}

#[test]
fn nobody_there() {
    let error = failure("akumuli", closed_port(), points(10));
    assert_error!(error, Kind::Unreachable, "nothing listens");
}

#[test]
fn what_cannot_be_is_said() {
    let options = json!({"options": {"format": "values"}});
    let error = failure("opentsdb", closed_port(), with(points(1), options));
    assert_contains(&error.message, "akumuli://");
    let elsewhere = json!({"target": "sqlite:///tmp/x", "options": {}});
    let error = failure("sqlite", 0, with(points(1), elsewhere));
    assert_contains(&error.message, "ingested into akumuli://");
}
