//! The open loop against theory.

use std::time::Duration;

use super::peer::Script;
use super::*;

/// A stream served in constant time s, asked at a rate whose period p is shorter: batch k
/// is due at k p, the queue before it is served at (k + 1) s at the earliest. So its
/// response time is s + k (s - p), growing by s - p each time, while its service time
/// stays s. (The simplest case of Lindley's recursion, without any randomness.)
#[test]
fn response_times_grow_where_the_rate_cannot_be_held() {
    const BATCHES: u64 = 50;
    let service = Duration::from_millis(4);
    let script = Script {
        busy: service,
        ..Script::of(BATCHES)
    };
    let record = run_peer(&spec(1, 1, r#", "rate": 500"#), Peer::all(1, script));
    assert_eq!(record.error, None);
    let response = record.latency.response.unwrap();
    let ms = |latency: &venturi_base::meter::histogram::Latency, percent: f64| {
        let point = latency.percentiles.iter().find(|point| point.0 == percent);
        point.unwrap().1 as f64 / 1e6
    };
    assert_eq!(response.count, BATCHES);
    for percent in [10.0, 25.0, 50.0, 75.0, 90.0, 100.0] {
        let k = (percent / 100.0 * BATCHES as f64).ceil() - 1.0;
        let theory = 4.0 + k * 2.0;
        assert!(ms(&response, percent) > theory * 0.998, "{percent}");
    }
    // A busy machine makes services longer than theory; then the last response is what all
    // of them took, less the time until it was due.
    let service = record.latency.service;
    let last = (service.mean * BATCHES as f64) / 1e6 - (BATCHES - 1) as f64 * 2.0;
    let found = response.max as f64 / 1e6;
    assert!(
        (found - last).abs() < last * 0.01 + 10.0,
        "{found}, theory {last}"
    );
    assert!(service.mean * 3.0 < response.mean);
    let schedule = record.schedule.unwrap();
    assert_eq!(schedule.intended, BATCHES);
    assert!(schedule.late >= BATCHES - 2, "{schedule:?}");
    assert!(schedule.max_lag_ns as f64 >= (BATCHES - 1) as f64 * 2e6);
}

#[test]
fn a_rate_that_can_be_held_is_held() {
    let record = run_peer(
        &spec(4, 2, r#", "rate": 1000, "duration_ns": 300000000"#),
        Peer::all(4, Script::of(u64::MAX)),
    );
    assert_eq!(record.error, None);
    let schedule = record.schedule.unwrap();
    assert_eq!(schedule.intended, 300);
    // Slots missed at the very end, by a machine that was busy, are not sent any more.
    assert!(
        (200..=300).contains(&record.counts.batches),
        "{}",
        record.counts.batches
    );
    let response = record.latency.response.unwrap();
    assert_eq!(response.count, record.counts.batches);
    // Spread over the time, not sent in one go.
    assert!(record.times.interval_ns > 200_000_000);
    assert!(response
        .percentiles
        .iter()
        .any(|&(percent, ns)| percent == 25.0 && ns < 20_000_000));
}

#[test]
fn fixed_work_ends_with_its_last_batch() {
    let record = run_peer(&spec(1, 1, r#", "rate": 2"#), Peer::all(1, Script::of(2)));
    assert_eq!(record.error, None);
    assert_eq!(record.counts.batches, 2);
    assert_eq!(record.schedule.unwrap().intended, 2);
    // The second one is due after half a second; a third would be after a whole one.
    assert!((500_000_000..1_000_000_000).contains(&record.times.interval_ns));
}

#[test]
fn a_cancel_does_not_wait_for_the_next_slot() {
    let control = Control::new();
    let begun = std::time::Instant::now();
    let spec = spec(1, 1, r#", "rate": 0.01"#);
    let record = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            control.cancel();
        });
        run_on(&spec, Box::new(Peer::all(1, Script::of(5))), &control)
    });
    assert_eq!(record.outcome, Outcome::Interrupted);
    assert_eq!(record.counts.batches, 1);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn waiting_for_the_schedule_is_not_a_stall() {
    let more = r#", "rate": 5, "timeout_ns": 100000000"#;
    let record = run_peer(&spec(1, 1, more), Peer::all(1, Script::of(3)));
    assert_eq!(record.error, None);
    assert!(record.times.interval_ns >= 400_000_000);
}
