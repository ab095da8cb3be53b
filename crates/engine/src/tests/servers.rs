//! Trials over several servers: two or three of them, one down, one that dies.

use serde_json::{json, Value};

use super::line_up::part;
use super::shares::{flight_server, in_two, numbers, real, records, run_one, same, trial};
use super::*;
use venturi_base::error::Kind;
use venturi_servers::{flight, timeseries};
use venturi_testkit::{
    assert_contains, assert_error, closed_port, parse_json, until, with, Directory, Relay,
};

fn failure(spec: &Value) -> Failure {
    run_one(spec).error.unwrap()
}

/// All points or rows are there, as the checksum shows.
fn assert_verified(record: &Record, rows: u64) {
    assert_eq!(record.error, None);
    let verified = &record.verification;
    assert_eq!((verified.achieved, verified.rows), ("checksum", rows));
}

/// The server behind this relay dies: the stream that it had, and the server, are named.
fn assert_dies(spec: &Value, relay: &Relay) {
    let record = while_it_runs(spec, || relay.cut());
    let error = record.error.unwrap();
    assert_error!(error, Kind::Lost, &relay.address());
    assert!(matches!(error.stream, Some(1 | 3)), "{:?}", error.stream);
    assert!(record.counts.rows > 0);
}

fn count(server: &flight::Server, what: &str) -> u64 {
    parse_json(&server.statistics())[what].as_u64().unwrap()
}

fn url(servers: &[flight::Server]) -> String {
    let all: Vec<String> = servers.iter().map(|server| server.address()).collect();
    format!("flight://{}", all.join(","))
}

/// Runs a trial without an end of its own until it moves, then does `act`.
fn while_it_runs(spec: &Value, act: impl FnOnce()) -> Record {
    let spec = TrialSpec::parse(&spec.to_string()).unwrap();
    let control = Control::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(spec, &control));
        until("it moves", || {
            control.progress().rows >= 10_000 || running.is_finished()
        });
        act();
        running.join().unwrap()
    })
}

#[test]
fn flight_is_the_same_over_one_two_and_three() {
    let servers = [flight_server(), flight_server(), flight_server()];
    for operation in ["get", "put"] {
        for options in [json!({}), json!({"connections": "shared"})] {
            let mut sums = Vec::new();
            for count in 1..=3 {
                let url = url(&servers[..count]);
                let whole = records(&url, operation, json!({"options": options}));
                // By one process and by two.
                let (one, two) = same(&whole);
                // The lead alone has heard of the servers' work.
                assert!(two[1].workers.server.is_none());
                assert!(two[1].samples.as_ref().unwrap().server.is_none());
                for record in [&one, &two[0]] {
                    assert_verified(record, 152_500);
                    let target = &record.target;
                    assert_eq!((target.servers, target.reference), (count, true));
                    assert_eq!(format!("flight://{}", target.address), url);
                    assert!(target.round_trip_ns.is_some());
                    assert_eq!(record.workers.server.unwrap().workers, 5);
                    assert!(record.cpu.server.unwrap().total() > 0);
                    assert!(record.samples.as_ref().unwrap().server.is_some());
                }
                // Streams that share a connection count their part of it as they end.
                if options == json!({}) {
                    assert!(one.counts.wire_bytes > one.counts.payload_bytes);
                }
                sums.push(one.verification.checksum);
            }
            assert!(sums[0] == sums[1] && sums[0] == sums[2], "{sums:?}");
        }
    }
    // Streams 0 and 3 at the first, 1 and 4 at the second, 2 at the third; 16 times in all.
    assert!(count(&servers[2], "rows_sent") >= 30_500 * 4);
    assert!(count(&servers[2], "rows_received") >= 30_500 * 4);
}

#[test]
fn fewer_streams_than_servers() {
    let servers = [flight_server(), flight_server(), flight_server()];
    for operation in ["get", "put"] {
        let record = run_one(&records(&url(&servers), operation, json!({"streams": 1})));
        assert_eq!(record.error, None);
        assert_eq!(record.verification.achieved, "checksum");
        assert_eq!(record.target.servers, 3);
    }
    assert!(count(&servers[0], "gets") > 0 && count(&servers[1], "gets") == 0);
}

#[test]
fn a_get_in_fixed_time_ends_at_all_servers_for_all_parts() {
    let servers = [flight_server(), flight_server()];
    // So long that each of them has begun by then, whatever else the machine does.
    let more = json!({"rows_per_stream": null, "duration_ns": 2_000_000_000});
    let two = in_two(&records(&url(&servers), "get", more));
    assert!(two.iter().all(|record| record.error.is_none()));
    let verified = &two[0].verification;
    assert_eq!(verified.achieved, "checksum");
    // What was on its way at the end has arrived, and does not count.
    assert_eq!(verified.expected_rows, Some(verified.rows));
    assert!(verified.rows >= two[0].counts.rows + two[1].counts.rows && two[1].counts.rows > 0);
}

#[test]
fn a_file_is_given_to_all_servers_and_taken_back() {
    let servers = [flight_server(), flight_server()];
    let place = Directory::new();
    let data = numbers(&place, 2500);
    let one = run_one(&records(&url(&servers[..1]), "get", json!({"data": data})));
    let (two, _) = same(&records(&url(&servers), "get", json!({"data": data})));
    assert_eq!(one.verification.checksum, two.verification.checksum);
    // What one server took is taken back where the other one does not.
    let small = r#"{"host": "127.0.0.1", "port": 0, "memory_bytes": 1000}"#;
    let small = flight::Server::start(small).unwrap();
    let target = format!("{},{}", url(&servers[..1]), small.address());
    let error = failure(&records(&target, "get", json!({"data": data})));
    assert_contains(&error.message, &small.address());
    for server in servers.iter().chain([&small]) {
        assert_eq!(count(server, "tables"), 0);
    }
}

#[test]
fn a_table_is_read_from_all_servers_that_hold_the_same() {
    let servers = [flight_server(), flight_server(), flight_server()];
    let place = Directory::new();
    let put = |server: &[flight::Server], rows: i64| {
        let more = json!({
            "data": numbers(&place, rows), "streams": 1, "rows_per_stream": rows,
        });
        let put = records(&format!("{}/numbers", url(server)), "put", more);
        assert_eq!(run_one(&put).error, None);
    };
    put(&servers[..1], 2500);
    put(&servers[1..2], 2500);
    let get = |servers: &[flight::Server]| {
        let more = json!({"data": {"source": "remote"}, "rows_per_stream": null});
        records(&format!("{}/numbers", url(servers)), "get", more)
    };
    let (one, _) = same(&get(&servers[..1]));
    let (two, _) = same(&get(&servers[..2]));
    // One endpoint, which all five streams read, at either server.
    assert_eq!(two.verification.rows, 5 * 2500);
    assert_eq!(one.verification.checksum, two.verification.checksum);
    // Streams 1 and 3, by one process and by two.
    assert_eq!(count(&servers[1], "gets"), 4);
    // The third has none, then another one.
    let third = &servers[2].address();
    let error = failure(&get(&servers));
    assert_error!(error, Kind::Server, "there is no table");
    assert_contains(&error.message, third);
    put(&servers[2..], 2400);
    let error = failure(&get(&servers));
    assert_error!(error, Kind::Usage, &servers[0].address());
    let said = "1 endpoint, 2500 rows; 1 endpoint, 2400 rows";
    assert_contains(&error.message, third);
    assert_contains(&error.message, said);
}

#[test]
fn a_flight_server_that_is_down_is_named() {
    let up = flight_server();
    let down = format!("127.0.0.1:{}", closed_port());
    for operation in ["get", "put"] {
        let target = format!("{},{down}", url(std::slice::from_ref(&up)));
        let error = failure(&records(&target, operation, json!({})));
        assert_error!(error, Kind::Unreachable, &down);
        assert!(!error.message.contains(&up.address()));
    }
}

#[test]
fn a_flight_server_that_dies_is_named() {
    let servers = [flight_server(), flight_server()];
    for operation in ["get", "put"] {
        let relay = Relay::to(servers[1].address());
        let target = format!("{},{}", url(&servers[..1]), relay.address());
        let more = json!({"rows_per_stream": null, "duration_ns": 600_000_000_000u64});
        assert_dies(&records(&target, operation, more), &relay);
    }
    // Nothing of it is left over.
    let record = run_one(&records(&url(&servers), "get", json!({"trial": "next"})));
    assert_eq!(record.error, None);
}

/// Stores of time series, each with its directory.
struct Stores {
    all: Vec<timeseries::Server>,
    _place: Directory,
}

impl Stores {
    fn new(count: usize) -> Self {
        let place = Directory::new();
        let start = |number| {
            let spec = json!({
                "server": "timeseries", "data": place.file(&format!("store-{number}")),
                "resp": 0, "opentsdb": 0, "influx": 0, "http": 0, "threads": 2,
            });
            timeseries::Server::start(&spec.to_string()).unwrap()
        };
        Self {
            all: (0..count).map(start).collect(),
            _place: place,
        }
    }

    fn addresses(&self, protocol: &str) -> Vec<String> {
        let address = |server: &timeseries::Server| {
            let addresses = &parse_json(&server.statistics())["addresses"];
            addresses[protocol].as_str().unwrap().to_owned()
        };
        self.all.iter().map(address).collect()
    }

    fn http_ports(&self) -> Vec<u16> {
        let port = |address: &String| address.rsplit(':').next().unwrap().parse().unwrap();
        self.addresses("http").iter().map(port).collect()
    }

    fn ingest(&self, scheme: &str, places: &[String], more: Value) -> Value {
        let whole = json!({
            "target": format!("{scheme}://{}", places.join(",")), "operation": "ingest",
            "data": {"source": "metrics", "hosts": 11, "start_unix_ns": 1_483_228_800_000_000_000i64},
            "rows_per_batch": 1000, "rows_per_stream": 20_000, "generate": "inline",
            "options": {"http_port": &self.http_ports()[..places.len()]},
        });
        trial(with(whole, more))
    }
}

#[test]
fn points_are_the_same_over_one_two_and_three_stores() {
    let schemes = [
        ("akumuli", "resp"),
        ("opentsdb", "opentsdb"),
        ("influx", "influx"),
    ];
    for (scheme, protocol) in schemes {
        let mut sums = Vec::new();
        for count in 1..=3 {
            let stores = Stores::new(count);
            let spec = stores.ingest(scheme, &stores.addresses(protocol), json!({}));
            let record = run_one(&spec);
            assert_verified(&record, 100_000);
            assert_eq!(record.target.servers, count);
            assert!(record.target.reference);
            assert!(record.counts.stored_bytes.unwrap() > 0);
            assert!(record.cpu.server.is_some());
            sums.push(record.verification.checksum);
            let points = stores
                .all
                .iter()
                .map(|it| parse_json(&it.statistics())["points"].clone());
            let shares = [&[100_000][..], &[60_000, 40_000], &[40_000, 40_000, 20_000]];
            assert_eq!(points.collect::<Vec<_>>(), shares[count - 1]);
        }
        assert!(sums[0] == sums[1] && sums[0] == sums[2], "{sums:?}");
    }
}

#[test]
fn points_of_all_parts_are_in_all_stores() {
    let mut stores = Stores::new(0);
    let ways = [("akumuli", "resp", "ahead"), ("influx", "influx", "inline")];
    for (scheme, protocol, generate) in ways {
        stores = Stores::new(2);
        let more = json!({"generate": generate});
        let two = in_two(&stores.ingest(scheme, &stores.addresses(protocol), more));
        for record in &two {
            assert_eq!(record.error, None);
            assert_eq!(record.target.servers, 2);
        }
        assert_verified(&two[0], 100_000);
        assert_eq!(two[0].counts.rows, 40_000);
    }
    // The same by requests; and what was there before is taken off.
    let places: Vec<String> = stores.addresses("http");
    let more = json!({
        "target": format!("influx+http://{}/points", places.join(",")), "options": {},
        "data": {"source": "metrics", "hosts": 11, "start_unix_ns": 1_583_228_800_000_000_000i64},
    });
    let record = run_one(&stores.ingest("influx", &[], more));
    assert_verified(&record, 100_000);
    let note = record.verification.note.unwrap();
    assert_contains(&note, "100000 points were there before");
}

#[test]
fn a_store_that_does_not_tell_is_named() {
    let stores = Stores::new(2);
    let mut ports = stores.http_ports();
    ports[1] = closed_port();
    let places = stores.addresses("influx");
    let options = json!({"options": {"http_port": ports}});
    let record = run_one(&stores.ingest("influx", &places, options));
    assert_eq!(record.error, None);
    assert!(!record.target.reference);
    let verified = record.verification;
    let seen = (verified.achieved, verified.rows);
    assert_eq!(seen, ("acknowledged", 100_000));
    let note = verified.note.unwrap();
    assert!(note.contains(&places[1]) && !note.contains(&places[0]));
    let one = json!({"options": {"http_port": [8181]}});
    let error = failure(&stores.ingest("influx", &places, one));
    assert_error!(error, Kind::Usage, "1 ports for 2 hosts");
}

#[test]
fn a_store_that_is_down_or_dies_is_named() {
    let stores = Stores::new(2);
    let mut places = stores.addresses("resp");
    let relay = Relay::to(places[1].clone());
    places[1] = format!("127.0.0.1:{}", closed_port());
    let error = failure(&stores.ingest("akumuli", &places, json!({})));
    assert_error!(error, Kind::Unreachable, &places[1]);
    places[1] = relay.address();
    let more = json!({"rows_per_stream": null, "duration_ns": 600_000_000_000u64});
    assert_dies(&stores.ingest("akumuli", &places, more), &relay);
}

#[test]
fn the_second_part_alone_speaks_to_its_own_servers() {
    // By its number in the whole trial: stream 3 of two servers is the second one's.
    let servers = [flight_server(), flight_server()];
    let whole = records(&url(&servers), "put", json!({"streams": 4}));
    let parts = [part(&whole, 0, 3), part(&whole, 3, 1)];
    let records = line_up::line_up(&parts, real, |_| {});
    assert!(records.iter().all(|record| record.error.is_none()));
    // Warm-up batches are rows as well.
    let [first, second] = servers.map(|server| count(&server, "rows_received"));
    assert!(first == second && second >= 2 * 30_500, "{first}, {second}");
}
