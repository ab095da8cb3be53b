//! Our client against our server.

use serde_json::{json, Value};

use super::*;
use venturi_base::error::Kind;
use venturi_engine::{run, Control, Outcome, Record};
use venturi_testkit::{assert_contains, assert_error, closed_port, parse, parse_json, with};

/// A trial by streams that share a query of rows, with these fields.
fn trial(server: &Server, id: &str, more: Value) -> Record {
    let spec = json!({
        "trial": id, "target": format!("charrow://{}", server.address()), "timeout_ns": 600_000_000_000u64,
        "data": {"source": "records", "columns": 4, "seed": 3}, "rows_per_batch": 3000,
    });
    run(parse(with(spec, more)), &Control::new())
}

#[test]
fn fixed_work_is_verified_by_checksum() {
    let server = serve("");
    let packed = json!({"compression": "lz4", "checksum": true, "decoders": 0});
    for (streams, decoders, options) in [
        (1u64, 1, json!({})),
        (1, 0, json!({"decoders": 0})),
        (4, 3, json!({"decoders": 3, "encoders": 2})),
        (64, 1, json!({"encoders": "auto", "checksum": true})),
        (3, 0, packed),
        (2, 1, json!({"compression": "zstd:1", "block_bytes": 5000})),
    ] {
        let more = json!({"streams": streams, "rows_per_stream": 50_000, "options": options});
        let record = trial(&server, &options.to_string(), more);
        assert_eq!(record.error, None, "{options}");
        assert_eq!(record.counts.rows, 50_000 * streams);
        assert_eq!(record.counts.payload_bytes, record.counts.rows * 32);
        assert_eq!(record.verification.achieved, "checksum", "{options}");
        assert_eq!(record.target.protocol, "1.2");
        assert!(record.target.reference && record.target.round_trip_ns.is_some());
        let pools = record.pools.unwrap();
        assert!(pools.server["encoders"].threads > 0);
        let found = pools.client.get("decoders").map_or(0, |pool| pool.threads);
        assert_eq!(found, decoders, "{options}");
        let (stages, workers) = (record.stages, record.workers);
        crate::tests::assert_gap_free(&stages.client, workers.client);
        crate::tests::assert_gap_free(&stages.server.unwrap(), workers.server.unwrap());
    }
}

#[test]
fn fixed_time_ends_early_and_both_ends_agree() {
    let server = serve("");
    for (options, achieved) in [
        (json!({}), "checksum"),
        (json!({"decoders": 0}), "checksum"),
        (json!({"encoders": 3, "decoders": 2}), "checksum"),
        (json!({"version": "1.1"}), "acknowledged"),
    ] {
        let more = json!({"streams": 3, "duration_ns": 200_000_000, "options": options});
        let record = trial(&server, &options.to_string(), more);
        assert_eq!((&record.error, record.outcome), (&None, Outcome::Ok));
        assert_eq!(record.verification.achieved, achieved);
        assert!(record.counts.rows > 0);
        assert!(record.times.interval_ns >= 200_000_000);
    }
    assert_eq!(parse_json(&server.statistics())["queries_running"], 0);
}

#[test]
fn a_1_1_client_counts() {
    let more = json!({"streams": 5, "rows_per_stream": 9000, "options": {"version": "1.1"}});
    let record = trial(&serve(""), "plain", more);
    assert_eq!(record.error, None);
    assert_eq!(record.verification.achieved, "count");
    assert_eq!(record.counts.rows, 45_000);
    assert_eq!(record.target.protocol, "1.1");
}

#[test]
fn what_a_query_finds() {
    let server = serve("");
    let asked = |query: &str| {
        let more = json!({
            "data": {"source": "remote"}, "rows_per_batch": 1, "streams": 2, "options": {"query": query},
        });
        trial(&server, query, more)
    };
    let record = asked("SELECT b, a FROM records(rows = 1000, block_rows = 10) LIMIT 95");
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 95);
    assert_eq!(record.counts.payload_bytes, 95 * 16);
    let error = asked("SELECT nothing").error.unwrap();
    assert_error!(error, Kind::Server, "at character 15");
}

#[test]
fn what_is_not_possible_is_said_first() {
    let server = serve("");
    let refused = |more: Value| trial(&server, "t", more).error.unwrap();
    let put = refused(json!({"operation": "put", "rows_per_stream": 5}));
    assert_contains(&put.message, "only has gets");
    let remote = refused(json!({"data": {"source": "remote"}, "rows_per_stream": 5}));
    assert_contains(&remote.message, "query");
    let nobody = format!("charrow://127.0.0.1:{}", closed_port());
    let nobody = refused(json!({"target": nobody, "rows_per_stream": 5}));
    assert_eq!(nobody.kind, Kind::Unreachable);
}
