//! Several batches in flight on a stream, and batches that fail.

use super::peer::{Script, ROWS};
use super::*;
use venturi_base::error::{Fate, Kind};

/// Of a trial that ends with its streams, or over the budget.
fn within(streams: usize, in_flight: usize, max_errors: u64) -> TrialSpec {
    let more = format!(r#"{LONG}, "max_errors": {max_errors}"#);
    upsert(streams, in_flight, &more)
}

/// So many batches, every n-th of which fails.
fn failing(batches: u64, every: u64, fate: Fate) -> Script {
    Script {
        fails: Some((every, fate)),
        ..Script::of(batches)
    }
}

fn upsert(streams: usize, in_flight: usize, more: &str) -> TrialSpec {
    let more = format!(
        r#", "operation": "upsert", "data": {{"source": "usage"}}, "in_flight": {in_flight}{more}"#
    );
    spec(streams, 1, &more)
}

const LONG: &str = r#", "duration_ns": 60000000000"#;

fn run_lanes(spec: &TrialSpec, script: Script) -> Record {
    let mut peer = Peer::all(spec.streams, script);
    peer.in_flight = spec.in_flight;
    run_peer(spec, peer)
}

#[test]
fn each_lane_of_a_stream_is_a_worker() {
    let script = Script {
        batches: 50,
        ..Script::ENDLESS
    };
    let record = run_lanes(&upsert(2, 10, LONG), script);
    assert!(record.error.is_none() && record.errors.is_none());
    let batches = record.streams.iter().map(|stream| stream.batches);
    assert_eq!(batches.collect::<Vec<_>>(), [50, 50]);
    assert_eq!(record.counts.rows, 100 * ROWS);
    assert_eq!(record.counts.wire_bytes, 100 * 321);
    assert_eq!(record.latency.service.count, 100);
    let workers = record.workers.client;
    assert_eq!(workers.workers, 20);
    assert_eq!(record.stages.client.values().sum::<u64>(), workers.time_ns);
    assert!(record.times.steady_rows > 0);
}

#[test]
fn refused_batches_within_the_budget_are_counted_and_the_trial_is_good() {
    let script = failing(10, 5, Fate::Refused { rows: ROWS });
    let record = run_lanes(&within(2, 2, 4), script);
    assert_eq!((record.outcome, &record.error), (Outcome::Ok, &None));
    // 2 of each stream's 10.
    assert_eq!(record.counts.batches, 16);
    assert_eq!(record.latency.service.count, 16);
    let errors = record.errors.unwrap();
    assert_eq!((errors.refused.batches, errors.refused.rows), (4, 4 * ROWS));
    assert_eq!(errors.in_doubt.batches, 0);
    let [kind] = &errors.kinds[..] else { panic!() };
    assert_eq!((kind.kind, kind.count), (Kind::Server, 4));
    assert_eq!(kind.code.as_deref(), Some("1213"));
    assert_eq!(kind.message, "batch 4: no");
    assert!(kind.first_ns > 0);
}

#[test]
fn over_the_budget_the_trial_is_given_up_with_what_it_has() {
    let script = failing(1000, 5, Fate::Refused { rows: ROWS });
    let record = run_lanes(&within(1, 1, 2), script);
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
    let script = failing(10, 4, Fate::InDoubt { rows: ROWS });
    let record = run_lanes(&within(1, 2, 9), script);
    assert_eq!(record.error, None);
    assert_eq!(record.counts.batches, 8);
    let errors = record.errors.unwrap();
    let doubt = (errors.in_doubt.batches, errors.in_doubt.rows);
    assert_eq!((doubt, errors.refused.batches), ((2, 2 * ROWS), 0));
}

#[test]
fn a_lost_connection_is_no_matter_of_budgets() {
    let script = failing(10, 4, Fate::Fatal);
    let record = run_lanes(&within(1, 1, 9), script);
    assert_eq!(record.outcome, Outcome::Failed);
    assert_eq!(record.counts.batches, 3);
    assert_eq!(record.errors.unwrap().kinds[0].count, 1);
}
