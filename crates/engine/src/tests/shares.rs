//! Parts of one trial against real targets: what the lead verifies is what all have moved.

use serde_json::{json, Value};

use super::line_up::{line_up, part};
use super::*;
use venturi_base::error::Kind;
use venturi_servers::{charrow, flight};
use venturi_testkit::{arrow, assert_error, parse_json, with, Directory};

pub fn trial(more: Value) -> Value {
    let shared = json!({"trial": "shared", "streams": 5, "sample_interval_ns": 20_000_000});
    venturi_testkit::trial(with(shared, more))
}

pub fn real(spec: &TrialSpec, control: &Control) -> Record {
    run(spec.clone(), control)
}

/// Streams 0 and 1 here, 2 to 4 there.
pub fn in_two(whole: &Value) -> Vec<Record> {
    line_up(&[part(whole, 0, 2), part(whole, 2, 3)], real, |_| {})
}

/// By one process, and by two: the same is verified.
pub fn same(whole: &Value) -> (Record, Vec<Record>) {
    let one = run_one(whole);
    assert_eq!(one.error, None);
    let two = in_two(whole);
    for record in &two {
        assert_eq!(record.error, None);
    }
    let (lead, other) = (&two[0], &two[1]);
    let rows = lead.counts.rows + other.counts.rows;
    assert_eq!(rows, one.counts.rows, "{whole}");
    assert_eq!(other.verification.achieved, "none");
    let verified = |record: &Record| serde_json::to_value(&record.verification).unwrap();
    assert_eq!(verified(lead), verified(&one));
    (one, two)
}

pub fn run_one(spec: &Value) -> Record {
    real(
        &TrialSpec::parse(&spec.to_string()).unwrap(),
        &Control::new(),
    )
}

pub fn flight_server() -> flight::Server {
    let spec = r#"{"host": "127.0.0.1", "port": 0, "memory_bytes": 1000000000}"#;
    flight::Server::start(spec).unwrap()
}

pub fn records(server: &str, operation: &str, more: Value) -> Value {
    let spec = json!({
        "target": server, "operation": operation, "rows_per_batch": 1000,
        "data": {"source": "records", "columns": 3, "seed": 9}, "rows_per_stream": 30_500,
    });
    trial(with(spec, more))
}

#[test]
fn a_file_is_given_to_the_server_once() {
    let server = flight_server();
    let place = Directory::new();
    let url = format!("flight://{}", server.address());
    let whole = records(&url, "get", json!({"data": numbers(&place, 2500)}));
    same(&whole);
    // Only the lead has the file.
    let mut other = whole.clone();
    other["data"]["ipc"] = json!("/nowhere");
    let two = line_up(&[part(&whole, 0, 2), part(&other, 2, 3)], real, |_| {});
    assert!(two.iter().all(|record| record.error.is_none()));
    assert_eq!(parse_json(&server.statistics())["tables"], 0);
}

/// Numbers as a file that Rust reads.
pub fn numbers(place: &Directory, rows: i64) -> Value {
    let ipc = place.file("numbers.arrow");
    arrow::write_file(&ipc, &[arrow::numbers(0..rows)]);
    json!({"source": "file", "path": "numbers.csv", "ipc": ipc})
}

#[test]
fn charrow_shares_one_query() {
    let spec = r#"{"server": "charrow", "host": "127.0.0.1", "port": 0}"#;
    let server = charrow::Server::start(spec).unwrap();
    let url = format!("charrow://{}", server.address());
    for (trial, decoders) in [("first", 0), ("second", 2)] {
        let options = json!({"encoders": 2, "decoders": decoders});
        let whole = records(&url, "get", json!({"trial": trial, "options": options}));
        let (_, two) = same(&whole);
        assert_eq!(two[0].verification.achieved, "checksum");
        let encoders = |record: &Record| record.pools.as_ref().map(|pools| pools.server.len());
        assert_eq!(encoders(&two[0]), Some(1));
    }
}

fn upsert(place: &Directory, more: Value) -> Value {
    let spec = json!({
        "target": format!("sqlite://{}", place.file("rows.db")), "operation": "upsert",
        "data": {"source": "usage", "working_set": 1500, "seed": 7, "loaded_unix_s": 1_790_000_000},
        "rows_per_batch": 100, "rows_per_stream": 200,
    });
    trial(with(spec, more))
}

#[test]
fn rows_of_all_parts_are_found_and_their_sums() {
    let place = Directory::new();
    // Two of each stream's three batches, and all of them more than once.
    let ways = [
        (200, "ahead", 1000),
        (200, "inline", 1000),
        (700, "ahead", 1500),
    ];
    for (rows, generate, keys) in ways {
        let more = json!({"rows_per_stream": rows, "generate": generate});
        let (_, two) = same(&upsert(&place, more));
        let verified = &two[0].verification;
        assert_eq!((verified.achieved, verified.rows), ("sums", keys));
    }
    // Fewer batches than streams.
    let data = json!({"source": "usage", "working_set": 300, "seed": 7, "loaded_unix_s": 1});
    let more = json!({"data": data, "rows_per_stream": 300});
    same(&upsert(&place, more));
}

#[test]
fn a_wrong_tally_is_found() {
    let place = Directory::new();
    let whole = upsert(&place, json!({}));
    let parts = [part(&whole, 0, 2), part(&whole, 2, 3)];
    let lie = |pointer: &'static str, value: Value| {
        let records = line_up(&parts, real, |tallies| {
            let place = tallies[1].pointer_mut(pointer).unwrap();
            assert_ne!(*place, value);
            *place = value.clone();
        });
        assert_eq!(records[1].error, None);
        records[0].error.clone().unwrap()
    };
    let error = lie("/sums/0", json!("12"));
    assert_error!(error, Kind::Verification, "the sum of");
    let error = lie("/batches", json!([[1, 1], [0, 2]]));
    let said = "1000 rows are there, 900 were acknowledged";
    assert_error!(error, Kind::Verification, said);
    let error = lie("/batches", json!([[1, 7]]));
    assert!(error.message.contains("7 batches, of 15 it has 3"));
    let server = flight_server();
    let url = format!("flight://{}", server.address());
    let whole = records(&url, "get", json!({"trial": "lie"}));
    let parts = [part(&whole, 0, 2), part(&whole, 2, 3)];
    let records = line_up(&parts, real, |tallies| tallies[0]["rows"] = json!(1));
    let error = records[0].error.clone().unwrap();
    assert_error!(error, Kind::Verification, "rows");
}

#[test]
fn a_file_of_one_process_is_not_shared() {
    let whole = trial(json!({
        "target": "duckdb:///tmp/none.db", "operation": "upsert", "rows_per_batch": 10, "rows_per_stream": 10,
        "data": {"source": "usage"},
    }));
    let error = real(&part(&whole, 0, 2), &Control::new()).error.unwrap();
    assert_error!(error, Kind::Usage, "run it on one host");
}
