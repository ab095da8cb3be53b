//! Our client against our server.

use super::*;
use venturi_base::spec::TrialSpec;
use venturi_engine::{run, Control, Outcome, Record};
use venturi_testkit::assert_contains;

fn trial(server: &Server, id: &str, streams: usize, work: &str, options: &str) -> Record {
    let spec = format!(
        r#"{{"trial": "{id}", "target": "charrow://{}", "operation": "get",
            "data": {{"source": "records", "columns": 4, "seed": 3}}, "rows_per_batch": 3000,
            "streams": {streams}, "threads": 2, "timeout_ns": 600000000000, {work},
            "options": {{{options}}}}}"#,
        server.address()
    );
    run(TrialSpec::parse(&spec).unwrap(), &Control::new())
}

#[test]
fn fixed_work_is_verified_by_checksum() {
    let server = serve("");
    let cases = [
        (1, ""),
        (1, r#""decoders": 0"#),
        (4, r#""decoders": 3, "encoders": 2"#),
        (64, r#""encoders": "auto", "checksum": true"#),
        (
            3,
            r#""compression": "lz4", "checksum": true, "decoders": 0"#,
        ),
        (2, r#""compression": "zstd:1", "block_bytes": 5000"#),
    ];
    for (at, (streams, options)) in cases.into_iter().enumerate() {
        let id = format!("fixed-{at}");
        let record = trial(
            &server,
            &id,
            streams,
            r#""rows_per_stream": 50000"#,
            options,
        );
        assert_eq!(record.error, None, "{options}");
        assert_eq!(record.counts.rows, 50_000 * streams as u64);
        assert_eq!(record.counts.payload_bytes, record.counts.rows * 32);
        assert_eq!(record.verification.achieved, "checksum", "{options}");
        assert_eq!(record.target.protocol, "1.2");
        assert!(record.target.reference && record.target.round_trip_ns.is_some());
        let pools = record.pools.unwrap();
        assert!(pools.server["encoders"].threads > 0);
        let decoders = pools.client.get("decoders").map_or(0, |pool| pool.threads);
        assert_eq!(
            decoders,
            if options.contains("\"decoders\": 0") {
                0
            } else if at == 2 {
                3
            } else {
                1
            }
        );
        for (stages, workers) in [
            (
                &record.stages.client.values().sum::<u64>(),
                record.workers.client,
            ),
            (
                &record.stages.server.unwrap().values().sum::<u64>(),
                record.workers.server.unwrap(),
            ),
        ] {
            let (sum, time) = (*stages as f64, workers.time_ns as f64);
            assert!((sum - time).abs() <= 0.05 * time + 2e6, "{sum} of {time}");
        }
    }
}

#[test]
fn fixed_time_ends_early_and_both_ends_agree() {
    let server = serve("");
    for (at, options) in ["", r#""decoders": 0"#, r#""encoders": 3, "decoders": 2"#]
        .into_iter()
        .enumerate()
    {
        let id = format!("timed-{at}");
        let record = trial(&server, &id, 3, r#""duration_ns": 200000000"#, options);
        assert_eq!(record.error, None, "{options}");
        assert_eq!(record.verification.achieved, "checksum");
        assert!(record.counts.rows > 0);
        assert!(record.times.interval_ns >= 200_000_000);
    }
    let told: serde_json::Value = serde_json::from_str(&server.statistics()).unwrap();
    assert_eq!(told["queries_running"], 0);
}

#[test]
fn a_1_1_client_counts() {
    let server = serve("");
    let record = trial(
        &server,
        "plain",
        5,
        r#""rows_per_stream": 9000"#,
        r#""version": "1.1""#,
    );
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "count");
    assert_eq!(record.counts.rows, 45_000);
    assert_eq!(record.target.protocol, "1.1");
    let record = trial(
        &server,
        "timed",
        5,
        r#""duration_ns": 100000000"#,
        r#""version": "1.1""#,
    );
    assert_eq!(record.error, None);
    assert_eq!(record.outcome, Outcome::Ok);
    assert!(record.counts.rows > 0);
}

#[test]
fn what_a_query_finds() {
    let server = serve("");
    let spec = |query: &str| {
        let spec = format!(
            r#"{{"trial": "t{}", "target": "charrow://{}", "operation": "get",
                "data": {{"source": "remote"}}, "rows_per_batch": 1, "streams": 2, "threads": 1,
                "options": {{"query": "{query}"}}}}"#,
            query.len(),
            server.address()
        );
        run(TrialSpec::parse(&spec).unwrap(), &Control::new())
    };
    let record = spec("SELECT b, a FROM records(rows = 1000, block_rows = 10) LIMIT 95");
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 95);
    assert_eq!(record.counts.payload_bytes, 95 * 16);
    let record = spec("SELECT nothing");
    let error = record.error.unwrap();
    assert_eq!(error.kind, venturi_base::error::Kind::Server);
    assert_contains(&error.message, "at character 15");
}

#[test]
fn what_is_not_possible_is_said_first() {
    let refused = |target: &str, more: &str| {
        let spec = format!(
            r#"{{"trial": "t", "target": "{target}", "rows_per_batch": 1, "streams": 1,
                "threads": 1, "rows_per_stream": 5, {more}}}"#
        );
        let record = run(TrialSpec::parse(&spec).unwrap(), &Control::new());
        record.error.unwrap()
    };
    let records = r#""data": {"source": "records"}"#;
    let put = refused("charrow://h", &format!(r#""operation": "put", {records}"#));
    assert!(put.message.contains("only has gets"));
    let remote = refused(
        "charrow://h",
        r#""operation": "get", "data": {"source": "remote"}"#,
    );
    assert!(remote.message.contains("query"));
    let nobody = refused(
        "charrow://127.0.0.1:1",
        &format!(r#""operation": "get", {records}"#),
    );
    assert_eq!(nobody.kind, venturi_base::error::Kind::Unreachable);
}
