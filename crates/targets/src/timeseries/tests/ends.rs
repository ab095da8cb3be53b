//! How a stream ends: well, by an error line, by a connection that goes away, or not at all.

use super::*;
use venturi_base::error::Kind;
use venturi_engine::{Failure, Outcome};
use venturi_testkit::assert_contains;

fn failure(scheme: &str, port: u16, more: &str) -> Failure {
    let record = ingest(scheme, port, closed_port(), more);
    assert_eq!(record.outcome, Outcome::Failed);
    record.error.unwrap()
}

#[test]
fn a_server_that_closes_after_us_has_read_all() {
    for (scheme, generate) in [
        ("akumuli", "inline"),
        ("opentsdb", "ahead"),
        ("influx", "inline"),
    ] {
        let port = server(|mut socket| {
            drain(&mut socket, usize::MAX);
        });
        let more = format!(r#""rows_per_stream": 50000, "generate": "{generate}""#);
        let more = more.replace(r#""generate": "inline""#, r#""verify": "checksum""#);
        let record = match generate {
            "ahead" => {
                let spec = format!(
                    r#"{{"trial": "t", "target": "{scheme}://127.0.0.1:{port}", "operation": "ingest",
                        "data": {{"source": "metrics"}}, "rows_per_batch": 1000, "streams": 2,
                        "threads": 1, "rows_per_stream": 50000,
                        "options": {{"http_port": {}}}}}"#,
                    closed_port()
                );
                run(TrialSpec::parse(&spec).unwrap(), &Control::new())
            }
            _ => ingest(scheme, port, closed_port(), &more),
        };
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
    let port = server(|mut socket| {
        drain(&mut socket, usize::MAX);
    });
    let record = ingest("akumuli", port, closed_port(), r#""duration_ns": 50000000"#);
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
        let error = failure("akumuli", port, r#""duration_ns": 60000000000"#);
        assert_eq!(error.kind, Kind::Server);
        let text = &error.message;
        assert_contains(text, "-PARSER no such thing - x");
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
    let error = failure("opentsdb", port, r#""duration_ns": 60000000000"#);
    assert_eq!(error.kind, Kind::Lost);
    assert_contains(&error.message, "had been sent");

    // Everything fits the kernel's buffers: only the end of the stream can tell.
    let port = server(|mut socket| {
        drain(&mut socket, 1000);
    });
    let error = failure("influx", port, r#""rows_per_stream": 200"#);
    assert!(matches!(error.kind, Kind::Lost), "{error:?}");
}

#[test]
fn who_does_not_read_or_does_not_close_is_waited_for_in_vain() {
    let port = server(|socket| {
        std::mem::forget(socket);
    });
    let slow = r#""duration_ns": 60000000000, "timeout_ns": 300000000"#;
    let error = failure("akumuli", port, slow);
    assert_eq!(error.kind, Kind::Timeout);
    assert_contains(&error.message, "takes nothing");

    let port = server(|mut socket| {
        drain(&mut socket, usize::MAX);
        std::mem::forget(socket);
    });
    let error = failure(
        "akumuli",
        port,
        r#""rows_per_stream": 10, "timeout_ns": 300000000"#,
    );
    assert_eq!(error.kind, Kind::Timeout);
    assert_contains(&error.message, "acknowledgement");
}

#[test]
fn nobody_there() {
    let error = failure("akumuli", closed_port(), r#""rows_per_stream": 10"#);
    assert_eq!(error.kind, Kind::Unreachable);
    assert_contains(&error.message, "nothing listens");
}

#[test]
fn what_cannot_be_is_said() {
    let port = closed_port();
    let says = |more: &str| failure("opentsdb", port, more).message;
    let streams = |more: &str| more.to_owned();
    let error = says(&streams(
        r#""rows_per_stream": 10, "verify": "none", "pin": null"#,
    ));
    assert_contains(&error, "nothing listens");
    let spec = TrialSpec::parse(
        r#"{"trial": "t", "target": "opentsdb://h", "operation": "ingest", "rows_per_batch": 1,
            "data": {"source": "metrics", "hosts": 2}, "streams": 3, "threads": 1,
            "rows_per_stream": 1, "options": {"format": "values"}}"#,
    );
    let error = run(spec.unwrap(), &Control::new()).error.unwrap().message;
    assert_contains(&error, "akumuli://");
    let spec = TrialSpec::parse(
        r#"{"trial": "t", "target": "sqlite:///tmp/x", "operation": "ingest", "rows_per_batch": 1,
            "data": {"source": "metrics"}, "streams": 1, "threads": 1, "rows_per_stream": 1}"#,
    );
    let error = run(spec.unwrap(), &Control::new()).error.unwrap().message;
    assert_contains(&error, "ingested into akumuli://");
}
