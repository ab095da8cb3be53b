//! Stages of both ends over real sockets: gap-free, and each wait under its right name.

mod relay;

use serde_json::{json, Value};
use venturi_core::engine::record::Stages;
use venturi_core::engine::{run, Control, Outcome, Record};
use venturi_core::server::flight::Server;
use venturi_testkit::{alone, parse};

use relay::Relay;

fn server(more: &str) -> Server {
    let spec = format!(r#"{{"host": "127.0.0.1", "port": 0, "memory_bytes": 1000000000 {more}}}"#);
    Server::start(&spec).unwrap()
}

struct Case<'a> {
    address: &'a str,
    operation: &'a str,
    streams: usize,
    threads: usize,
    rows_per_batch: u64,
    rows: u64,
    rate: &'a str,
    options: &'a str,
    values: &'a str,
}

impl<'a> Case<'a> {
    fn new(address: &'a str, operation: &'a str) -> Self {
        Self {
            address,
            operation,
            streams: 1,
            threads: 1,
            rows_per_batch: 4096,
            rows: 4_000_000,
            rate: "null",
            options: "",
            values: "random",
        }
    }

    fn run(&self) -> Record {
        static TRIALS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = TRIALS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let rate: Value = serde_json::from_str(self.rate).unwrap();
        let options: Value = serde_json::from_str(&format!("{{{}}}", self.options)).unwrap();
        let spec = json!({
            "trial": format!("stages-{number}"), "target": format!("flight://{}", self.address),
            "operation": self.operation, "data": {"source": "records", "values": self.values},
            "rows_per_batch": self.rows_per_batch, "rows_per_stream": self.rows, "streams": self.streams,
            "threads": self.threads, "rate": rate, "options": options,
        });
        let record = run(parse(spec), &Control::new());
        assert_eq!((&record.error, record.outcome), (&None, Outcome::Ok));
        assert_eq!(record.counts.rows, self.rows * self.streams as u64);
        record
    }
}

fn spent(stages: &Stages, stage: &str) -> u64 {
    stages.get(stage).copied().unwrap_or(0)
}

/// More of an end's time went into this stage than into any other: however busy the machine is,
/// the wait that the test has made is the longest.
fn assert_largest(stages: &Stages, stage: &str, what: &str) {
    let largest = stages.iter().max_by_key(|(_, ns)| **ns).unwrap();
    assert_eq!(*largest.0, stage, "{what}: {stages:?}");
}

fn server_stages(record: &Record) -> &Stages {
    record.stages.server.as_ref().unwrap()
}

fn assert_gap_free(record: &Record, what: &str) {
    let streams = record.streams.len() as u64;
    let (client, server) = (record.workers.client, record.workers.server.unwrap());
    assert_eq!(
        (client.workers, server.workers),
        (streams, streams),
        "{what}"
    );
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
    let address = server.address();
    for operation in ["get", "put"] {
        for (streams, threads) in [(1, 1), (4, 1), (4, 4)] {
            for options in ["", r#""connections": "shared""#, r#""window": 65535"#] {
                let case = Case {
                    streams,
                    threads,
                    rows: 1_000_000,
                    options,
                    ..Case::new(&address, operation)
                };
                let record = case.run();
                assert_gap_free(
                    &record,
                    &format!("{operation} {streams}/{threads} {options}"),
                );
            }
        }
        let case = Case {
            options: r#""ack": "batch""#,
            rows: 400_000,
            ..Case::new(&address, operation)
        };
        assert_gap_free(&case.run(), &format!("{operation}, acknowledged by batch"));
    }
}

#[test]
fn a_schedule_that_is_kept_is_what_the_client_waits_for() {
    let server = server("");
    let address = server.address();
    // 4 streams of 25 batches at 250 a second: 0.4 s, and next to nothing to do.
    for (operation, options) in [
        ("put", ""),
        ("put", r#""connections": "shared""#),
        ("get", ""),
    ] {
        let case = Case {
            streams: 4,
            rows: 25 * 4096,
            rate: "250",
            options,
            ..Case::new(&address, operation)
        };
        let (record, what) = (case.run(), format!("{operation} at 250/s {options}"));
        assert_gap_free(&record, &what);
        assert_largest(&record.stages.client, "await_schedule", &what);
    }
}

#[test]
fn one_thread_for_many_streams_is_what_they_wait_for() {
    let server = server("");
    let address = server.address();
    // The client is the slow end, whoever else keeps this machine busy.
    let crowded = |threads, operation, options| {
        let case = Case {
            streams: 4,
            threads,
            rows: 1_000_000,
            options,
            ..Case::new(&address, operation)
        };
        let record = case.run();
        spent(&record.stages.client, "await_thread")
    };
    for (operation, slow) in [
        ("get", r#""handicap": {"verify": 300000}"#),
        ("put", r#""handicap": {"encode": 300000}"#),
    ] {
        // 244 batches of each stream, during which the three others wait for 0.3 ms.
        let [one, four] = [1, 4].map(|threads| crowded(threads, operation, slow));
        assert!(one > 4 * 244 * 3 * 300_000 / 2, "{operation}: {one}");
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
    for options in ["", r#""connections": "shared""#] {
        for (operation, server) in [("get", &open), ("put", &narrow)] {
            let relay = Relay::start(&server.address(), round_trip / 2);
            let options = match (operation, options) {
                ("get", "") => r#""window": 65535"#.to_owned(),
                ("get", shared) => format!(r#"{shared}, "window": 65535"#),
                (_, options) => options.to_owned(),
            };
            // Batches of 0.3 MB: most of one is sent in several parts.
            let case = Case {
                streams: 2,
                rows_per_batch: 10_000,
                rows: 50_000,
                options: &options,
                ..Case::new(&relay.address, operation)
            };
            let record = case.run();
            let what = format!("{operation} {options}");
            assert_gap_free(&record, &what);
            let stages = match operation {
                "get" => server_stages(&record),
                _ => &record.stages.client,
            };
            assert_largest(stages, "await_window", &what);
            let connections = if options.contains("shared") { 1.0 } else { 2.0 };
            let seconds = record.times.interval_ns as f64 / 1e9;
            let rate = record.counts.payload_bytes as f64 / seconds;
            // Half of the window is granted anew at a time, so two windows' halves overlap.
            assert!(rate < 1.1 * bound * connections, "{what}: {rate} B/s");
            let other = match operation {
                "get" => &record.stages.client,
                _ => server_stages(&record),
            };
            assert_largest(other, "await_input", &what);
        }
    }
}

#[test]
fn a_reader_that_is_slow_is_what_the_writer_waits_for() {
    // A relay that takes 20 MB/s: neither window nor peer, the socket is full.
    let server = server("");
    let relay = Relay::slow(&server.address(), 20_000_000);
    for (operation, options) in [
        ("get", ""),
        ("put", ""),
        ("put", r#""connections": "shared""#),
    ] {
        let case = Case {
            rows: 300_000,
            streams: 2,
            options,
            ..Case::new(&relay.address, operation)
        };
        let record = case.run();
        assert_gap_free(&record, operation);
        let (stages, other) = match operation {
            "get" => (server_stages(&record), &record.stages.client),
            _ => (&record.stages.client, server_stages(&record)),
        };
        // A put's last bytes wait in the socket, and their acknowledgement is what it waits for.
        let (output, reply) = (spent(stages, "await_output"), spent(stages, "await_reply"));
        let rest = stages.values().sum::<u64>() - output - reply;
        assert!(
            output > 0 && output + reply > rest,
            "{operation} {options}: {stages:?}"
        );
        assert_eq!(spent(stages, "await_window"), 0);
        assert_largest(other, "await_input", operation);
    }
}

#[test]
fn acknowledgements_over_a_long_way_are_a_wait_of_their_own() {
    let server = server("");
    let relay = Relay::start(&server.address(), std::time::Duration::from_millis(5));
    let case = Case {
        rows: 20 * 4096,
        options: r#""ack": "batch""#,
        ..Case::new(&relay.address, "put")
    };
    let record = case.run();
    assert_gap_free(&record, "put, acknowledged by batch");
    assert_largest(&record.stages.client, "await_reply", "put");
}

#[test]
fn a_handicap_shows_in_its_own_stage() {
    let plain = server("");
    let slow = server(r#", "handicap": {"encode": 1000000, "decode": 1000000}"#);
    let asked = [
        (
            &plain,
            "get",
            "client",
            "decode",
            r#""handicap": {"decode": 1000000}"#,
        ),
        (
            &plain,
            "get",
            "client",
            "verify",
            r#""handicap": {"verify": 1000000}"#,
        ),
        (
            &plain,
            "put",
            "client",
            "encode",
            r#""handicap": {"encode": 1000000}"#,
        ),
        (
            &plain,
            "put",
            "client",
            "generate",
            r#""handicap": {"generate": 1000000}"#,
        ),
        (&slow, "get", "server", "encode", ""),
        (&slow, "put", "server", "decode", ""),
    ];
    for (server, operation, end, stage, options) in asked {
        let address = server.address();
        let case = Case {
            rows: 100 * 4096,
            options,
            ..Case::new(&address, operation)
        };
        let record = case.run();
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
    let address = server.address();
    for operation in ["get", "put"] {
        let wire = |compression: &str| {
            let options = format!(r#""compression": "{compression}""#);
            let case = Case {
                rows: 40_960,
                options: &options,
                values: "sequential",
                ..Case::new(&address, operation)
            };
            case.run().counts.wire_bytes
        };
        let (none, quick, usual, small) =
            (wire("none"), wire("zstd:1"), wire("zstd"), wire("zstd:19"));
        assert!(
            none > usual && none > wire("lz4"),
            "{operation}: {none}, {usual}"
        );
        assert!(
            small < usual.min(quick),
            "{operation}: {small}, {usual}, {quick}"
        );
    }
}

/// A question of our own has no place in an interval that the set-up is a part of.
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
        let (sampled, told) = (
            process.user_ns + process.system_ns,
            record.cpu.client.total(),
        );
        assert!(told as f64 > 0.9 * sampled as f64, "{told} of {sampled} ns");
        assert!(
            (told as f64) < 1.1 * sampled as f64,
            "{told} of {sampled} ns"
        );
    });
}

/// One batch of so many rows.
fn set_up(server: &Server, operation: &str, rows: u64, include_setup: bool) -> Record {
    let spec = json!({
        "trial": format!("{operation} {include_setup}"), "target": format!("flight://{}", server.address()),
        "operation": operation, "data": {"source": "records"}, "rows_per_batch": rows,
        "rows_per_stream": rows, "threads": 1, "include_setup": include_setup,
    });
    let record = run(parse(spec), &Control::new());
    assert_eq!((&record.error, record.outcome), (&None, Outcome::Ok));
    record
}
