//! Our client against our server.

use serde_json::{json, Value};

use super::*;
use venturi_engine::{run, Control, Outcome, Record};
use venturi_testkit::{assert_contains, parse, with};

/// A trial at these places of the server, with these fields.
fn trial(server: &Server, id: &str, place: &str, operation: &str, more: Value) -> Record {
    let spec = json!({
        "trial": id, "target": format!("http+arrow://{}{place}", server.address()), "rows_per_batch": 3000,
        "data": {"source": "records", "columns": 4, "seed": 3}, "timeout_ns": 600_000_000_000u64,
        "operation": operation,
    });
    let record = run(parse(with(spec, more)), &Control::new());
    assert_eq!((&record.error, record.outcome), (&None, Outcome::Ok));
    assert_eq!(record.verification.achieved, "checksum", "{id}");
    record
}

#[test]
fn trials_are_verified_by_checksum() {
    let server = serve("");
    for options in [
        json!({}),
        json!({"compression": "lz4"}),
        json!({"http_compression": "zstd"}),
        json!({"http_compression": "gzip", "compression": "zstd:1"}),
        json!({"body": "length"}),
        json!({"body": "length", "http_compression": "zstd", "http_method": "PUT"}),
    ] {
        for (operation, streams) in [("get", 3), ("put", 2)] {
            let id = format!("{operation} {options}");
            let more = json!({"streams": streams, "rows_per_stream": 50_000, "options": options});
            let record = trial(&server, &id, "", operation, more);
            assert_eq!(record.counts.rows, 50_000 * streams);
            assert_eq!(record.counts.payload_bytes, record.counts.rows * 32);
            assert!(record.target.reference && record.target.round_trip_ns.is_some());
            assert_eq!(record.latency.service.count, 17 * streams);
            let server = record.stages.server.unwrap();
            let receiver = match operation {
                "get" => &record.stages.client,
                _ => &server,
            };
            let unpacks = options.get("http_compression").is_some();
            assert_eq!(receiver.contains_key("unpack"), unpacks, "{id}");
            crate::tests::assert_gap_free(&record.stages.client, record.workers.client);
            crate::tests::assert_gap_free(&server, record.workers.server.unwrap());
        }
    }
    // Of fixed time, both ends agree too.
    for operation in ["get", "put"] {
        let more = json!({"streams": 3, "duration_ns": 100_000_000});
        assert!(trial(&server, operation, "", operation, more).counts.rows > 0);
    }
}

#[test]
fn what_is_put_can_be_got() {
    let server = serve("");
    // Under paths of their own, a stream each.
    let (place, records) = (
        "/part%20{stream}",
        json!({"source": "records", "columns": 2}),
    );
    let more = json!({"streams": 2, "rows_per_stream": 2500, "data": records});
    trial(&server, "put", place, "put", more);
    let more = json!({"streams": 2, "data": {"source": "remote"}});
    let got = trial(&server, "get", place, "get", more);
    assert_eq!(got.counts.rows, 5000);
    let listed = told(&server, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_contains(&listed, r#"{"path":"part 1","rows":2500}"#);
    let dropped = b"DELETE /part%200 HTTP/1.1\r\n\r\n";
    assert_eq!(status(&told(&server, dropped)), 200);
    assert_eq!(status(&told(&server, dropped)), 404);
}
