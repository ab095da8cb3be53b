//! Several batches in flight on a stream, and batches that fail.

use std::time::Duration;

use super::peer::{Script, ROWS};
use super::*;
use venturi_base::error::{Fate, Kind};
use venturi_base::meter::histogram::Latency;

fn upsert(streams: usize, in_flight: usize, more: &str) -> TrialSpec {
    TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "test://", "operation": "upsert", "data": {{"source": "usage"}},
            "rows_per_batch": 10, "streams": {streams}, "threads": 1, "in_flight": {in_flight}{more}}}"#
    ))
    .unwrap()
}

const LONG: &str = r#", "duration_ns": 60000000000"#;

fn run_lanes(spec: &TrialSpec, script: Script) -> Record {
    let mut peer = Peer::all(spec.streams, script);
    peer.in_flight = spec.in_flight;
    run_peer(spec, peer)
}

fn ms(latency: &Latency, percent: f64) -> f64 {
    let point = latency.percentiles.iter().find(|point| point.0 == percent);
    point.unwrap().1 as f64 / 1e6
}

#[test]
fn batches_of_one_stream_are_in_flight_together() {
    let script = Script {
        wait: Duration::from_millis(20),
        ..Script::of(50)
    };
    let record = run_lanes(&upsert(2, 10, LONG), script);
    assert_eq!(record.error, None);
    // One after the other would take a second; a busy machine gets some room.
    assert!(
        record.times.interval_ns < 600_000_000,
        "{}",
        record.times.interval_ns
    );
    assert_eq!(record.streams.len(), 2);
    assert!(record.streams.iter().all(|stream| stream.batches == 50));
    assert_eq!(record.counts.rows, 100 * ROWS);
    assert_eq!(record.counts.wire_bytes, 100 * 321);
    assert_eq!(record.latency.service.count, 100);
    assert!(ms(&record.latency.service, 10.0) >= 20.0);
    let workers = record.workers.client;
    assert_eq!(workers.workers, 20);
    assert_eq!(record.stages.client.values().sum::<u64>(), workers.time_ns);
    assert!(record.times.steady_rows > 0);
}

/// D/D/k: k servers of constant time s, asked every p < s / k. Batch n is begun in round n / k,
/// so its response time is (n / k + 1) s - n p, growing by s / k - p each time; its service
/// time stays s.
#[test]
fn overload_shows_in_the_response_and_not_in_the_service() {
    const BATCHES: u64 = 120;
    const LANES: u64 = 4;
    let script = Script {
        wait: Duration::from_millis(10),
        ..Script::of(BATCHES)
    };
    let spec = upsert(1, LANES as usize, &format!(r#"{LONG}, "rate": 800"#));
    let record = run_lanes(&spec, script);
    assert_eq!(record.error, None);
    let (service, response) = (record.latency.service, record.latency.response.unwrap());
    assert_eq!((service.count, response.count), (BATCHES, BATCHES));
    let theory = |n: u64, s: f64| (n / LANES + 1) as f64 * s - n as f64 * 1.25;
    for percent in [10.0, 25.0, 50.0, 75.0, 90.0, 100.0] {
        let n = (percent / 100.0 * BATCHES as f64).ceil() as u64 - 1;
        let (found, least) = (ms(&response, percent), theory(n, 10.0));
        assert!(found > least * 0.998, "{percent}: {found}, {least}");
    }
    // With the service as it was, the last one's follows.
    let (found, last) = (
        response.max as f64 / 1e6,
        theory(BATCHES - 1, service.mean / 1e6),
    );
    assert!(
        (found - last).abs() < last * 0.1 + 10.0,
        "{found}, theory {last}"
    );
    assert!(service.mean * 3.0 < response.mean, "{service:?}");
    let schedule = record.schedule.unwrap();
    assert!(schedule.late >= BATCHES - 2 * LANES, "{schedule:?}");
}

#[test]
fn whichever_lane_is_free_takes_the_next_slot() {
    let script = Script {
        wait: Duration::from_millis(1),
        slow: Some((3, Duration::from_millis(400))),
        ..Script::of(60)
    };
    let spec = upsert(1, 2, &format!(r#"{LONG}, "rate": 200"#));
    let record = run_lanes(&spec, script);
    assert_eq!(record.error, None);
    let response = record.latency.response.unwrap();
    assert_eq!(response.count, 60);
    assert!(response.max >= 400_000_000);
    // Had each lane its own slots, half of the batches would have waited for the slow one.
    assert!(ms(&response, 90.0) < 100.0, "{response:?}");
}

#[test]
fn refused_batches_within_the_budget_are_counted_and_the_trial_is_good() {
    let script = Script {
        fails: Some((5, Fate::Refused { rows: ROWS })),
        ..Script::of(10)
    };
    let record = run_lanes(
        &upsert(2, 2, &format!(r#"{LONG}, "max_errors": 4"#)),
        script,
    );
    assert_eq!((record.outcome, &record.error), (Outcome::Ok, &None));
    // 2 of each stream's 10.
    assert_eq!(record.counts.batches, 16);
    assert_eq!(record.latency.service.count, 16);
    let errors = record.errors.unwrap();
    assert_eq!((errors.refused.batches, errors.refused.rows), (4, 4 * ROWS));
    assert_eq!(errors.in_doubt.batches, 0);
    assert_eq!(errors.kinds.len(), 1);
    let kind = &errors.kinds[0];
    assert_eq!(
        (kind.kind, kind.code.as_deref(), kind.count),
        (Kind::Server, Some("1213"), 4)
    );
    assert_eq!(kind.message, "batch 4: no");
    assert!(kind.first_ns > 0);
}

#[test]
fn over_the_budget_the_trial_is_given_up_with_what_it_has() {
    let script = Script {
        fails: Some((5, Fate::Refused { rows: ROWS })),
        ..Script::of(1000)
    };
    let record = run_lanes(
        &upsert(1, 1, &format!(r#"{LONG}, "max_errors": 2"#)),
        script,
    );
    assert_eq!(record.outcome, Outcome::Failed);
    let error = record.error.unwrap();
    assert_eq!((error.kind, error.stream), (Kind::Server, Some(0)));
    assert_eq!(error.message, "stream 0: batch 14: no");
    assert_eq!(record.counts.batches, 12);
    assert_eq!(record.errors.unwrap().refused.batches, 3);
    // Without a budget the first one is one too many.
    let record = run_lanes(&upsert(1, 1, LONG), script);
    assert_eq!(record.counts.batches, 4);
    assert_eq!(record.errors.unwrap().refused.batches, 1);
}

#[test]
fn batches_in_doubt_are_listed_apart() {
    let script = Script {
        fails: Some((4, Fate::InDoubt { rows: ROWS })),
        ..Script::of(10)
    };
    let record = run_lanes(
        &upsert(1, 2, &format!(r#"{LONG}, "max_errors": 9"#)),
        script,
    );
    assert_eq!(record.error, None);
    assert_eq!(record.counts.batches, 8);
    let errors = record.errors.unwrap();
    assert_eq!(
        (errors.in_doubt.batches, errors.in_doubt.rows),
        (2, 2 * ROWS)
    );
    assert_eq!(errors.refused.batches, 0);
}

#[test]
fn a_lost_connection_is_no_matter_of_budgets() {
    let script = Script {
        fails: Some((4, Fate::Fatal)),
        ..Script::of(10)
    };
    let record = run_lanes(
        &upsert(1, 1, &format!(r#"{LONG}, "max_errors": 9"#)),
        script,
    );
    assert_eq!(record.outcome, Outcome::Failed);
    assert_eq!(record.counts.batches, 3);
    assert_eq!(record.errors.unwrap().kinds[0].count, 1);
}

#[test]
fn a_trial_without_errors_has_none() {
    let record = run_lanes(&upsert(1, 3, LONG), Script::of(10));
    assert!(record.errors.is_none());
}
