//! What stands in the record.

use std::collections::BTreeSet;

use serde_json::Value;

use super::peer::{Script, BYTES, ROWS};
use super::*;
use crate::conductor::unix_ns;
use venturi_testkit::{alone, assert_contains, assert_error, until};

/// Where an object is in a record, and the names of its fields.
const FIELDS: &str = "\
: outcome error errors target counts times verification cpu stages workers streams latency schedule pin instrument resources samples
/target: address servers software reference protocol pid round_trip_ns
/counts: rows batches payload_bytes wire_bytes stored_bytes
/times: started_unix_ns setup_ns interval_ns verify_ns start_skew_ns steady_ns steady_rows steady_payload_bytes
/verification: requested achieved expected_rows rows expected_checksum checksum sums note
/cpu/client: user_ns system_ns
/stages: client server
/workers: client server
/workers/client: workers time_ns
/streams/0: stream thread rows batches payload_bytes start_ns first_batch_ns end_ns connect_ns stages
/latency: service response
/latency/service: count min mean max stdev percentiles hdr
/schedule: rate intended late max_lag_ns
/instrument: clock_read_ns clock_reads share
/samples: client server
/resources: same_machine clock sampler client server helpers
/resources/helpers: relay";

#[test]
fn the_fields_are_those_of_the_format() {
    let peer = Peer::all(1, Script::of(5));
    let helper = std::process::id();
    let more = format!(r#", "rate": 1000, "helpers": {{"relay": {helper}}}"#);
    let record = run_peer(&spec(1, 1, &more), peer);
    let json: Value = serde_json::from_str(&record.to_json()).unwrap();
    for line in FIELDS.lines() {
        let (path, names) = line.split_once(": ").unwrap();
        let found = json.pointer(path).unwrap().as_object().unwrap().keys();
        let found: BTreeSet<&str> = found.map(String::as_str).collect();
        assert_eq!(found, names.split(' ').collect(), "{path}");
    }
    assert_eq!(json["outcome"], "ok");
    assert_eq!(json["stages"]["server"]["encode"], 5);
    assert_eq!(json["workers"]["server"]["time_ns"], 5);
    assert_eq!(json["cpu"]["server"]["user_ns"], 7);
    assert_eq!(json["resources"]["same_machine"], true, "its pid is known");
}

#[test]
fn a_mismatch_fails_the_trial_and_trouble_around_it_is_a_note() {
    let run = |more: &str, change: &dyn Fn(&mut Peer)| {
        let mut peer = Peer::all(1, Script::of(5));
        change(&mut peer);
        run_peer(&spec(1, 1, more), peer)
    };
    let record = run("", &|peer| peer.mismatch = Some("49 rows instead of 50"));
    assert_eq!(record.outcome, Outcome::Failed);
    let error = record.error.unwrap();
    assert_error!(error, Kind::Verification, "49 rows instead of 50");
    let record = run("", &|peer| {
        (peer.clean, peer.report) = (Some(Kind::Server), Some(Kind::Lost));
    });
    assert_eq!(record.outcome, Outcome::Ok);
    let note = record.verification.note.unwrap();
    assert_contains(&note, "it sticks");
    assert_contains(&note, "no report today");
    let cannot = |peer: &mut Peer| peer.verify_fails = Some(Kind::Lost);
    assert_eq!(run("", &cannot).error.unwrap().kind, Kind::Lost);
    // Not asked for: not done.
    let record = run(r#", "verify": "none""#, &cannot);
    assert_eq!(record.outcome, Outcome::Ok);
    assert_eq!(record.verification.achieved, "none");
}

#[test]
fn set_up_is_timed_apart_unless_included() {
    for included in [false, true] {
        let peer = Peer::all(2, Script::of(5));
        let (plan, open) = (peer.plan.clone(), peer.open.clone());
        let before = unix_ns();
        let more = format!(r#", "include_setup": {included}"#);
        let record = run_peer(&spec(2, 2, &more), peer);
        assert_eq!(record.error, None);
        let started = record.times.started_unix_ns;
        // By the clock of the day.
        assert!((before..unix_ns()).contains(&started));
        assert_eq!(started <= plan.taken(), included);
        assert_eq!(started <= open.taken(), included);
        if included {
            let set_up = open.taken() - plan.taken();
            assert!(record.times.interval_ns >= set_up);
            let mut streams = record.streams.iter();
            assert!(streams.any(|stream| stream.first_batch_ns >= set_up));
        }
    }
}

#[test]
fn samples_of_a_server_are_on_the_clients_clock() {
    let more = r#", "duration_ns": 50000000, "sample_interval_ns": 10000000"#;
    for ahead_ns in [-1 << 60, 1 << 60] {
        let mut peer = Peer::all(1, Script::ENDLESS);
        peer.ahead_ns = Some(ahead_ns);
        let record = run_peer(&spec(1, 1, more), peer);
        let server = record.samples.unwrap().server.unwrap();
        assert!((50_000_000..1 << 59).contains(&server.t_ns[0]));
        let clock = record.resources.unwrap().clock.unwrap();
        assert_eq!(clock.offset_ns, ahead_ns);
    }
}

#[test]
fn samples_and_the_steady_window_follow_the_streams() {
    // What a process has used is compared, so no other test may use it.
    alone(|| {
        let more = r#", "duration_ns": 1000000000, "sample_interval_ns": 10000000"#;
        let record = run_peer(&spec(2, 2, more), Peer::all(2, Script::ENDLESS));
        let samples = &record.samples.as_ref().unwrap().client;
        assert!(samples.t_ns[0] <= 0 && *samples.t_ns.last().unwrap() >= 1_000_000_000);
        // One before, one after, and of the hundred between them one at least.
        assert!(samples.t_ns.len() > 2);
        let streams = &samples.lists["streams"];
        assert_eq!(streams.len(), 2);
        assert!(streams.iter().all(|bytes| bytes.is_sorted()));
        let last: i64 = streams.iter().map(|bytes| bytes.last().unwrap()).sum();
        assert_eq!(last, record.counts.payload_bytes as i64);
        assert_eq!(samples.columns["payload_bytes"].last(), Some(&last));
        let resources = record.resources.as_ref().unwrap();
        let (client, cpu) = (resources.client.as_ref().unwrap(), &record.cpu.client);
        let process = client.process.as_ref().unwrap();
        let used = process.user_ns + process.system_ns;
        assert!(used.abs_diff(cpu.total()) < cpu.total() / 10 + 5_000_000);
        assert!(client.window_ns >= 1_000_000_000);
        if cfg!(target_os = "linux") {
            let threads = process.threads.as_ref().unwrap();
            // They have ended by now, and what they used until then is known.
            for thread in ["client-0", "client-1"] {
                let mut of_it = threads.iter().filter(|of| of.name == thread);
                assert!(of_it.any(|of| of.cpu_share > 0.0), "{threads:?}");
            }
            assert!((0.0..=1.0).contains(&client.host.as_ref().unwrap().busy_share));
        }
        // This process again, so nobody else's.
        assert!(resources.server.is_none() && record.samples.as_ref().unwrap().server.is_none());
        let times = &record.times;
        // How much of it is steady depends on the machine's other work.
        assert!(times.steady_ns > 0 && times.steady_ns <= times.interval_ns);
        assert!(times.steady_rows > 0 && times.steady_rows <= record.counts.rows);
        // Both are rounded on their own.
        let bytes = times.steady_payload_bytes / BYTES;
        assert!(bytes.abs_diff(times.steady_rows / ROWS) <= 1, "{times:?}");
    });
    let spec = spec(1, 1, r#", "sample_interval_ns": 0"#);
    let none = run_peer(&spec, Peer::all(1, Script::of(1)));
    assert!(none.samples.is_none());
}

#[test]
fn a_group_stays_on_one_thread() {
    let mut peer = Peer::all(4, Script::of(5));
    peer.grouped = true;
    let record = run_peer(&spec(4, 4, ""), peer);
    assert_eq!(record.counts.batches, 20);
    assert!(record.streams.iter().all(|stream| stream.thread == 0));
}

#[test]
fn progress_tells_where_the_trial_is() {
    let control = Control::new();
    assert_eq!(control.progress().phase, Phase::SetUp);
    let spec = spec(1, 1, "");
    let seen = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            until("some batches", || control.progress().batches > 10);
            let seen = control.progress();
            control.cancel();
            seen
        });
        run_on(&spec, Box::new(Peer::all(1, Script::ENDLESS)), &control);
        watch.join().unwrap()
    });
    assert_eq!(seen.phase, Phase::Running);
    assert_eq!(seen.bytes, seen.batches * BYTES);
    assert!(seen.elapsed_ns > 0);
    let done = control.progress();
    assert_eq!(done.phase, Phase::Done);
    assert_eq!(control.progress().elapsed_ns, done.elapsed_ns);
}
