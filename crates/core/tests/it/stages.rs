//! Stages of both ends over real sockets: gap-free, and each wait under its right name.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{json, Value};
use venturi_core::engine::record::Stages;
use venturi_core::engine::{run, Control, Outcome, Record};
use venturi_core::server::flight::Server;
use venturi_testkit::{alone, parse, with, Relay};

fn server(more: &str) -> Server {
    let spec = format!(r#"{{"host": "127.0.0.1", "port": 0, "memory_bytes": 1000000000 {more}}}"#);
    Server::start(&spec).unwrap()
}

/// A trial of one stream that moves records, but for what these fields say.
fn trial(address: impl AsRef<str>, operation: &str, more: Value) -> Record {
    static TRIALS: AtomicU64 = AtomicU64::new(0);
    let number = TRIALS.fetch_add(1, Ordering::Relaxed);
    let spec = json!({
        "trial": format!("stages-{number}"), "target": format!("flight://{}", address.as_ref()), "threads": 1,
        "operation": operation, "data": {"source": "records", "values": "random"},
        "rows_per_batch": 4096, "rows_per_stream": 4_000_000,
    });
    let spec = parse(with(spec, more));
    let rows = spec.rows_per_stream.unwrap() * spec.streams as u64;
    let record = run(spec, &Control::new());
    assert_eq!((&record.error, record.outcome), (&None, Outcome::Ok));
    assert_eq!(record.counts.rows, rows);
    record
}

fn shared() -> Value {
    json!({"connections": "shared"})
}

fn spent(stages: &Stages, stage: &str) -> u64 {
    stages.get(stage).copied().unwrap_or(0)
}

/// More of an end's time went into this stage than into any other: the wait that the test has made is the
/// longest. But streams wait for their thread as long as a busy machine lets it wait.
fn assert_largest(stages: &Stages, stage: &str, what: &str) {
    let own = stages.iter().filter(|(name, _)| **name != "await_thread");
    let largest = own.max_by_key(|(_, ns)| **ns).unwrap();
    assert_eq!(*largest.0, stage, "{what}: {stages:?}");
}

fn server_stages(record: &Record) -> &Stages {
    record.stages.server.as_ref().unwrap()
}

/// The end that sends, then the one that receives.
fn ends<'a>(record: &'a Record, operation: &str) -> (&'a Stages, &'a Stages) {
    match operation {
        "get" => (server_stages(record), &record.stages.client),
        _ => (&record.stages.client, server_stages(record)),
    }
}

fn assert_gap_free(record: &Record, what: &str) {
    let streams = record.streams.len() as u64;
    let (client, server) = (record.workers.client, record.workers.server.unwrap());
    assert_eq!(client.workers, streams, "{what}");
    assert_eq!(server.workers, streams, "{what}");
    for (end, stages, time) in [
        ("client", &record.stages.client, client.time_ns),
        ("server", server_stages(record), server.time_ns),
    ] {
        let sum: u64 = stages.values().sum();
        let off = (sum as f64 - time as f64).abs() / time as f64;
        assert!(off < 0.02, "{what}: {end}: {sum} of {time} ns: {stages:?}");
        assert!(!stages.contains_key("wait"), "{what}: {stages:?}");
    }
    let ends: u64 = record.streams.iter().map(|stream| stream.end_ns).sum();
    assert_eq!(client.time_ns, ends, "{what}");
}

#[test]
fn stages_are_gap_free_at_both_ends() {
    let server = server("");
    for operation in ["get", "put"] {
        for (streams, threads) in [(1, 1), (4, 1), (4, 4)] {
            for options in [json!({}), shared(), json!({"window": 65535})] {
                let what = format!("{operation} {streams}/{threads} {options}");
                let more = json!({
                    "streams": streams, "threads": threads, "rows_per_stream": 400_000, "options": options,
                });
                assert_gap_free(&trial(server.address(), operation, more), &what);
            }
        }
        let more = json!({"options": {"ack": "batch"}, "rows_per_stream": 400_000});
        let record = trial(server.address(), operation, more);
        assert_gap_free(&record, "acknowledged by batch");
    }
}

#[test]
fn a_schedule_that_is_kept_is_what_the_client_waits_for() {
    let server = server("");
    // 4 streams of 25 batches at 250 a second: 0.4 s, and next to nothing to do.
    for (operation, options) in [("put", json!({})), ("put", shared()), ("get", json!({}))] {
        let what = format!("{operation} at 250/s {options}");
        let more = json!({
            "streams": 4, "rows_per_stream": 25 * 4096, "rate": 250, "options": options,
        });
        let record = trial(server.address(), operation, more);
        assert_gap_free(&record, &what);
        assert_largest(&record.stages.client, "await_schedule", &what);
    }
}

#[test]
fn one_thread_for_many_streams_is_what_they_wait_for() {
    let server = server("");
    // The client is the slow end, whoever else keeps this machine busy.
    for (operation, slow) in [("get", "verify"), ("put", "encode")] {
        // 122 batches of each stream, during which the three others wait for 0.3 ms.
        let [one, four] = [1, 4].map(|threads| {
            let more = json!({
                "streams": 4, "threads": threads, "rows_per_stream": 122 * 4096,
                "options": {"handicap": {slow: 300_000}},
            });
            let record = trial(server.address(), operation, more);
            spent(&record.stages.client, "await_thread")
        });
        assert!(one > 4 * 122 * 3 * 300_000 / 2, "{operation}: {one}");
        assert!(four < one, "{operation}: {four} of {one}");
    }
}

#[test]
fn a_window_that_is_used_up_has_its_own_name() {
    // 64 KiB a round trip of 10 ms: 6.5 MB/s, and nobody is busy.
    let window = 65_535u64;
    let round_trip = std::time::Duration::from_millis(10);
    let bound = window as f64 / round_trip.as_secs_f64();
    let (open, narrow) = (server(""), server(r#", "window": 65535"#));
    for shares in [false, true] {
        for (operation, server) in [("get", &open), ("put", &narrow)] {
            let relay = Relay::delayed(server.address(), round_trip / 2);
            let mut options = if shares { shared() } else { json!({}) };
            if operation == "get" {
                options["window"] = json!(window);
            }
            let what = format!("{operation} {options}");
            // Batches of 0.3 MB: most of one is sent in several parts.
            let more = json!({
                "streams": 2, "rows_per_batch": 10_000, "rows_per_stream": 50_000, "options": options,
            });
            let record = trial(relay.address(), operation, more);
            assert_gap_free(&record, &what);
            let (sender, receiver) = ends(&record, operation);
            assert_largest(sender, "await_window", &what);
            let connections = if shares { 1.0 } else { 2.0 };
            let seconds = record.times.interval_ns as f64 / 1e9;
            let rate = record.counts.payload_bytes as f64 / seconds;
            // Half of the window is granted anew at a time, so two windows' halves overlap.
            assert!(rate < 1.1 * bound * connections, "{what}: {rate} B/s");
            assert_largest(receiver, "await_input", &what);
        }
    }
}

#[test]
fn a_reader_that_is_slow_is_what_the_writer_waits_for() {
    // A relay that takes 20 MB/s: neither window nor peer, the socket is full.
    let server = server("");
    let relay = Relay::slow(server.address(), 20_000_000);
    for (operation, options) in [("get", json!({})), ("put", json!({})), ("put", shared())] {
        let what = format!("{operation} {options}");
        let more = json!({"rows_per_stream": 300_000, "streams": 2, "options": options});
        let record = trial(relay.address(), operation, more);
        assert_gap_free(&record, operation);
        let (stages, other) = ends(&record, operation);
        // A put's last bytes wait in the socket, and their acknowledgement is what it waits for.
        let (output, reply) = (spent(stages, "await_output"), spent(stages, "await_reply"));
        let rest = stages.values().sum::<u64>() - output - reply;
        assert!(output > 0 && output + reply > rest, "{what}: {stages:?}");
        assert_eq!(spent(stages, "await_window"), 0);
        assert_largest(other, "await_input", operation);
    }
}

#[test]
fn acknowledgements_over_a_long_way_are_a_wait_of_their_own() {
    let server = server("");
    let relay = Relay::delayed(server.address(), std::time::Duration::from_millis(5));
    let more = json!({"rows_per_stream": 20 * 4096, "options": {"ack": "batch"}});
    let record = trial(relay.address(), "put", more);
    assert_gap_free(&record, "put, acknowledged by batch");
    assert_largest(&record.stages.client, "await_reply", "put");
}

#[test]
fn a_handicap_shows_in_its_own_stage() {
    let plain = server("");
    let slow = server(r#", "handicap": {"encode": 1000000, "decode": 1000000}"#);
    for (operation, end, stage) in [
        ("get", "client", "decode"),
        ("get", "client", "verify"),
        ("put", "client", "encode"),
        ("put", "client", "generate"),
        ("get", "server", "encode"),
        ("put", "server", "decode"),
    ] {
        let (server, options) = match end {
            "client" => (&plain, json!({"handicap": {stage: 1_000_000}})),
            _ => (&slow, json!({})),
        };
        let more = json!({"rows_per_stream": 100 * 4096, "options": options});
        let record = trial(server.address(), operation, more);
        let what = format!("{operation} with a slow {stage} of the {end}");
        assert_gap_free(&record, &what);
        let stages = match end {
            "client" => &record.stages.client,
            _ => server_stages(&record),
        };
        assert!(stages[stage] >= 100_000_000, "{what}: {stages:?}");
        assert_largest(stages, stage, &what);
        let said = record.target.handicap.clone().unwrap_or_default();
        assert_eq!(said.contains("encode 1ms"), end == "server", "{said}");
    }
}

#[test]
fn a_heavier_level_makes_smaller_bodies() {
    let server = server("");
    for operation in ["get", "put"] {
        let wire = |compression: &str| {
            let more = json!({
                "rows_per_stream": 40_960, "options": {"compression": compression},
                "data": {"source": "records", "values": "sequential"},
            });
            trial(server.address(), operation, more).counts.wire_bytes
        };
        let ways = ["none", "lz4", "zstd:1", "zstd", "zstd:19"];
        let [none, lz4, quick, usual, small] = ways.map(wire);
        assert!(none > usual && none > lz4, "{none}, {usual}, {lz4}");
        assert!(small < usual.min(quick), "{small}, {usual}, {quick}");
    }
}

/// Where the set-up is timed too, nothing is sent only to measure the round trip.
#[test]
fn the_round_trip_is_not_asked_for_within_the_interval() {
    let server = server("");
    for (include_setup, asked) in [(false, true), (true, false)] {
        let record = set_up(&server, "get", 4096, include_setup);
        assert_eq!(record.target.round_trip_ns.is_some(), asked);
        assert!(record.resources.unwrap().server.is_some());
    }
}

#[test]
fn a_timed_set_up_costs_the_client_what_it_costs() {
    alone(|| {
        let record = set_up(&server(""), "put", 1_000_000, true);
        // What was sampled begins just before the clock does: making the rows is in both.
        let process = record.resources.unwrap().client.unwrap().process.unwrap();
        let sampled = (process.user_ns + process.system_ns) as f64;
        let share = record.cpu.client.total() as f64 / sampled;
        assert!((0.9..1.1).contains(&share), "{share} of {sampled} ns");
    });
}

/// One batch of so many rows.
fn set_up(server: &Server, operation: &str, rows: u64, include_setup: bool) -> Record {
    let more = json!({
        "rows_per_batch": rows, "rows_per_stream": rows, "include_setup": include_setup,
    });
    trial(server.address(), operation, more)
}
