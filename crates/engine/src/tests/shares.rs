//! Parts of one trial against real targets: what the lead verifies is what all have moved.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use serde_json::{json, Value};

use super::line_up::{line_up, part};
use super::*;
use venturi_base::error::Kind;
use venturi_servers::{charrow, flight};
use venturi_testkit::{assert_contains, with, Directory};

pub fn trial(more: Value) -> Value {
    let shared = json!({"trial": "shared", "streams": 5, "sample_interval_ns": 20_000_000});
    venturi_testkit::trial(with(shared, more))
}

pub fn real(spec: &TrialSpec, control: &Control) -> Record {
    crate::run(spec.clone(), control)
}

/// Streams 0 and 1 here, 2 to 4 there.
pub fn in_two(whole: &Value) -> Vec<Record> {
    line_up(&[part(whole, 0, 2), part(whole, 2, 3)], real, |_| {})
}

/// By one process, and by two: the same is verified.
pub fn same(whole: &Value) -> (Record, Vec<Record>) {
    let one = crate::run(
        TrialSpec::parse(&whole.to_string()).unwrap(),
        &Control::new(),
    );
    assert_eq!(one.error, None);
    let two = in_two(whole);
    for record in &two {
        assert_eq!(record.error, None);
    }
    let (lead, other) = (&two[0], &two[1]);
    assert_eq!(
        lead.counts.rows + other.counts.rows,
        one.counts.rows,
        "{whole}"
    );
    assert_eq!(other.verification.achieved, "none");
    let (here, there) = (&lead.verification, &one.verification);
    assert_eq!(here.achieved, there.achieved);
    assert_eq!(here.rows, there.rows);
    assert_eq!(here.expected_rows, there.expected_rows);
    assert_eq!(here.checksum, there.checksum);
    assert_eq!(here.sums, there.sums);
    (one, two)
}

pub fn flight_server() -> flight::Server {
    flight::Server::start(r#"{"host": "127.0.0.1", "port": 0, "memory_bytes": 1000000000}"#)
        .unwrap()
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
    let statistics: Value = serde_json::from_str(&server.statistics()).unwrap();
    assert_eq!(statistics["tables"], 0);
}

/// Numbers as a file that Rust reads.
pub fn numbers(place: &Directory, rows: i64) -> Value {
    let ipc = place.file("numbers.arrow");
    let numbers = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_from_iter([("n", numbers as _)]).unwrap();
    let file = std::fs::File::create(&ipc).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
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
    for (rows, generate, keys) in [
        (200, "ahead", 1000),
        (200, "inline", 1000),
        (700, "ahead", 1500),
    ] {
        let more = json!({"rows_per_stream": rows, "generate": generate});
        let (_, two) = same(&upsert(&place, more));
        let verified = &two[0].verification;
        assert_eq!((verified.achieved, verified.rows), ("sums", keys));
    }
    // Fewer batches than streams.
    let data = json!({"source": "usage", "working_set": 300, "seed": 7, "loaded_unix_s": 1});
    same(&upsert(
        &place,
        json!({"data": data, "rows_per_stream": 300}),
    ));
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
    assert_eq!(error.kind, Kind::Verification);
    assert_contains(&error.message, "the sum of");
    let error = lie("/batches", json!([[1, 1], [0, 2]]));
    assert_eq!(error.kind, Kind::Verification);
    assert_contains(&error.message, "1000 rows are there, 900 were acknowledged");
    let error = lie("/batches", json!([[1, 7]]));
    assert!(error.message.contains("7 batches, of 15 it has 3"));
    let server = flight_server();
    let whole = records(
        &format!("flight://{}", server.address()),
        "get",
        json!({"trial": "lie"}),
    );
    let parts = [part(&whole, 0, 2), part(&whole, 2, 3)];
    let records = line_up(&parts, real, |tallies| tallies[0]["rows"] = json!(1));
    let error = records[0].error.clone().unwrap();
    assert_eq!(error.kind, Kind::Verification);
    assert_contains(&error.message, "rows");
}

#[test]
fn a_file_of_one_process_is_not_shared() {
    let whole = trial(json!({
        "target": "duckdb:///tmp/none.db", "operation": "upsert", "rows_per_batch": 10, "rows_per_stream": 10,
        "data": {"source": "usage"},
    }));
    let error = real(&part(&whole, 0, 2), &Control::new()).error.unwrap();
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.contains("run it on one host"));
}
