//! Our client against our server.

use super::*;
use venturi_base::spec::TrialSpec;
use venturi_engine::{run, Control, Outcome, Record};

fn trial(server: &Server, id: &str, what: &str, options: &str) -> Record {
    let spec = format!(
        r#"{{"trial": "{id}", "target": "http+arrow://{}", "rows_per_batch": 3000, "threads": 2,
            "data": {{"source": "records", "columns": 4, "seed": 3}}, "timeout_ns": 600000000000,
            {what}, "options": {{{options}}}}}"#,
        server.address()
    );
    run(TrialSpec::parse(&spec).unwrap(), &Control::new())
}

#[test]
fn fixed_work_is_verified_by_checksum() {
    let server = serve("");
    let ways = [
        "",
        r#""compression": "lz4""#,
        r#""http_compression": "zstd""#,
        r#""http_compression": "gzip", "compression": "zstd:1""#,
        r#""body": "length""#,
        r#""body": "length", "http_compression": "zstd", "http_method": "PUT""#,
    ];
    for (at, options) in ways.into_iter().enumerate() {
        for (operation, streams) in [("get", 3), ("put", 2)] {
            let id = format!("{operation} {at}");
            let what = format!(
                r#""operation": "{operation}", "streams": {streams}, "rows_per_stream": 50000"#
            );
            let record = trial(&server, &id, &what, options);
            assert_eq!(record.error, None, "{id}: {options}");
            assert_eq!(record.counts.rows, 50_000 * streams);
            assert_eq!(record.counts.payload_bytes, record.counts.rows * 32);
            assert_eq!(record.verification.achieved, "checksum", "{id}: {options}");
            assert!(record.target.reference && record.target.round_trip_ns.is_some());
            assert_eq!(record.latency.service.count, 17 * streams);
            let unpacks = options.contains("http_compression");
            let server = record.stages.server.unwrap();
            let unpacked = match operation {
                "get" => record.stages.client.get("unpack"),
                _ => server.get("unpack"),
            };
            assert_eq!(unpacked.is_some(), unpacks, "{id}: {options}");
            for (stages, workers) in [
                (&record.stages.client, record.workers.client),
                (&server, record.workers.server.unwrap()),
            ] {
                let sum = stages.values().sum::<u64>() as f64;
                let time = workers.time_ns as f64;
                assert!((sum - time).abs() <= 0.05 * time + 2e6, "{sum} of {time}");
            }
        }
    }
}

#[test]
fn fixed_time_ends_early_and_both_ends_agree() {
    let server = serve("");
    for operation in ["get", "put"] {
        let what = format!(r#""operation": "{operation}", "streams": 3, "duration_ns": 100000000"#);
        let record = trial(&server, operation, &what, "");
        assert_eq!(record.error, None);
        assert_eq!(record.outcome, Outcome::Ok);
        assert!(record.counts.rows > 0);
        assert_eq!(record.verification.achieved, "checksum", "{operation}");
    }
}

#[test]
fn what_is_put_can_be_got() {
    let server = serve("");
    let put = trial(
        &server,
        "p",
        r#""operation": "put", "streams": 2, "rows_per_stream": 7000"#,
        "",
    );
    assert_eq!(put.error, None);
    assert_eq!(put.verification.achieved, "checksum");
    // Under paths of their own, a stream each.
    let named = |operation: &str, data: &str, size: &str| {
        let spec = format!(
            r#"{{"trial": "{operation}", "target": "http+arrow://{}/part%20{{stream}}", {size}
                "operation": "{operation}", "streams": 2, "threads": 1, "rows_per_batch": 1000,
                "data": {data}}}"#,
            server.address()
        );
        run(TrialSpec::parse(&spec).unwrap(), &Control::new())
    };
    let records = r#"{"source": "records", "columns": 2, "values": "sequential"}"#;
    let put = named("put", records, r#""rows_per_stream": 2500,"#);
    assert_eq!(put.error, None);
    let got = named("get", r#"{"source": "remote"}"#, "");
    assert_eq!(got.error, None);
    assert_eq!(got.counts.rows, 5000);
    assert_eq!(got.verification.achieved, "checksum");
    let listed = told(&server, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(
        listed.contains(r#"{"path":"part 1","rows":2500}"#),
        "{listed}"
    );
    let dropped = b"DELETE /part%200 HTTP/1.1\r\n\r\n";
    assert_eq!(status(&told(&server, dropped)), 200);
    assert_eq!(status(&told(&server, dropped)), 404);
}
