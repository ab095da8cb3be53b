//! Our client, by way of the engine, against the stock server.

use std::sync::atomic::Ordering;

use venturi_core::engine::{run, Control, Outcome, Record};
use venturi_core::error::Kind;
use venturi_core::spec::TrialSpec;

use super::peer::Peer;

/// A get of `what`, or a put to it, over so many streams.
fn trial(address: &str, what: &str, operation: &str, streams: usize, options: &str) -> Record {
    let data = match operation {
        "get" => r#"{"source": "remote"}"#,
        _ => r#"{"source": "records"}, "rows_per_stream": 10000"#,
    };
    let spec = format!(
        r#"{{"trial": "t", "target": "flight://{address}{what}", "operation": "{operation}", "data": {data},
            "rows_per_batch": 1000, "streams": {streams}, "threads": 2, "timeout_ns": 5000000000,
            "sample_interval_ns": 0, "options": {{{options}}}}}"#
    );
    run(TrialSpec::parse(&spec).unwrap(), &Control::new())
}

fn moved(record: Record) -> u64 {
    assert_eq!((record.error, record.outcome), (None, Outcome::Ok));
    record.counts.rows
}

fn failed(record: Record, kind: Kind, words: &str) {
    assert_eq!(record.outcome, Outcome::Failed);
    let error = record.error.unwrap();
    assert_eq!(error.kind, kind, "{}", error.message);
    assert!(error.message.contains(words), "{}", error.message);
}

const OPTIONS: [&str; 4] = [
    "",
    r#""connections": "shared""#,
    r#""window": 65535"#,
    r#""window": 1000, "connections": "shared""#,
];

#[test]
fn gets_by_path_command_and_ticket() {
    let address = Peer::default().start();
    for options in OPTIONS {
        for (what, streams, rows) in [
            ("/one", 1, 1000),
            ("/one", 3, 3000),
            ("/three", 1, 3000),
            ("/three", 2, 3000),
            ("/three", 3, 3000),
            ("?command=one", 1, 1000),
            ("?ticket=rows", 2, 2000),
        ] {
            let record = trial(&address, what, "get", streams, options);
            let achieved = record.verification.achieved;
            assert_eq!(moved(record), rows, "{what} {streams} {options}");
            let planned = if what == "?ticket=rows" {
                "none"
            } else {
                "count"
            };
            assert_eq!(achieved, planned, "{what} {streams} {options}");
        }
    }
    let unsure = trial(&address, "/unsure", "get", 1, "");
    assert_eq!(unsure.verification.achieved, "none");
    assert_eq!(moved(unsure), 1000);
}

#[test]
fn puts_with_and_without_acknowledgement() {
    let peer = Peer::default();
    let batches = peer.batches.clone();
    let address = peer.start();
    let mut expected = 0;
    for options in OPTIONS {
        for ack in ["stream", "batch"] {
            let comma = if options.is_empty() { "" } else { ", " };
            let options = format!(r#"{options}{comma}"ack": "{ack}""#);
            let record = trial(&address, "/any", "put", 2, &options);
            assert_eq!(record.verification.achieved, "acknowledged");
            assert_eq!(moved(record), 20_000, "{options}");
            expected += 20;
            assert_eq!(batches.load(Ordering::Relaxed), expected, "{options}");
        }
    }
}

#[test]
fn what_goes_wrong_is_told() {
    let address = Peer::default().start();
    for options in OPTIONS {
        let get = |what: &str| trial(&address, what, "get", 1, options);
        failed(get("/lies"), Kind::Verification, "1001");
        failed(get("/fails"), Kind::Server, "DATA_LOSS: the disk, the disk");
        failed(get("/nothing"), Kind::Server, "NOT_FOUND: no nothing here");
        failed(
            get("?ticket=other"),
            Kind::Auth,
            "PERMISSION_DENIED: closed",
        );
        let put = |what: &str| trial(&address, what, "put", 2, options);
        failed(put("/refused"), Kind::Server, "RESOURCE_EXHAUSTED: no room");
    }
    failed(
        trial(&address, "/fails", "put", 1, ""),
        Kind::Server,
        "ABORTED: enough",
    );
}
