//! How trials end, well or not.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::peer::{Script, Then, ROWS};
use super::*;

/// Runs, cancels once `wait` returns, and says how long the end took from there.
fn run_cancelled(
    spec: &TrialSpec,
    peer: Peer,
    wait: impl FnOnce(&Control) + Send,
) -> (Record, Duration) {
    let control = Control::new();
    std::thread::scope(|scope| {
        let cancelling = scope.spawn(|| {
            wait(&control);
            control.cancel();
            Instant::now()
        });
        let record = run_on(spec, Box::new(peer), &control);
        let ended = Instant::now();
        let cancelled = cancelling.join().unwrap();
        (record, ended.saturating_duration_since(cancelled))
    })
}

fn moment(_: &Control) {
    std::thread::sleep(Duration::from_millis(50));
}

/// So many batches: on a busy machine the first may take its time.
fn batches(count: u64) -> impl FnOnce(&Control) + Send {
    move |control| {
        let until = Instant::now() + Duration::from_secs(20);
        while control.progress().batches < count && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn fixed_work_ends_with_the_streams() {
    let peer = Peer::new(vec![Script::of(3), Script::of(5), Script::of(4)]);
    let record = run_peer(&spec(3, 2, ""), peer);
    assert_eq!(record.error, None);
    assert_eq!(record.outcome, Outcome::Ok);
    let batches: Vec<u64> = record.streams.iter().map(|stream| stream.batches).collect();
    assert_eq!(batches, [3, 5, 4]);
    let threads: Vec<usize> = record.streams.iter().map(|stream| stream.thread).collect();
    assert_eq!(threads, [0, 1, 0]);
    assert_eq!(record.counts.rows, 12 * ROWS);
    assert_eq!(record.counts.wire_bytes, 12 * 321);
    assert_eq!(record.latency.service.count, 12);
}

#[test]
fn one_failing_stream_ends_all_and_is_named() {
    let peer = Peer::new(vec![
        Script::ENDLESS,
        Script::of(3).then(Then::Fail),
        Script::ENDLESS,
    ]);
    let cleaned = peer.cleaned.clone();
    let begun = Instant::now();
    let record = run_peer(&spec(3, 2, ""), peer);
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(record.outcome, Outcome::Failed);
    let error = record.error.unwrap();
    assert_eq!(error.kind, Kind::Server);
    assert_eq!(error.stream, Some(1));
    assert_eq!(error.message, "stream 1: no more today");
    assert_eq!(record.streams[1].rows, 3 * ROWS);
    assert!(record.streams[1].batches == 3 && record.streams.len() == 3);
    assert!(cleaned.load(Ordering::SeqCst));
}

#[test]
fn a_plan_that_fails_is_cleaned_up_after() {
    for clean in [None, Some(Kind::Io)] {
        let mut peer = Peer::all(1, Script::of(1));
        peer.plan_fails = Some(Kind::Server);
        peer.clean = clean;
        let cleaned = peer.cleaned.clone();
        let record = run_peer(&spec_one(), peer);
        assert!(cleaned.load(Ordering::SeqCst));
        assert_eq!(record.error.unwrap().message, "cannot plan");
        let noted = record.verification.note.is_some();
        assert_eq!(noted, clean.is_some());
    }
}

#[test]
fn a_stall_is_a_timeout_that_tells_how_far_it_came() {
    let peer = Peer::new(vec![Script::of(2), Script::of(4).then(Then::Stall)]);
    let record = run_peer(&spec(2, 1, r#", "timeout_ns": 200000000"#), peer);
    let error = record.error.unwrap();
    assert_eq!(error.kind, Kind::Timeout);
    assert_eq!(
        error.message,
        "stream 1: no data for 0.2 s (rows so far: 40)"
    );
    assert_eq!(record.counts.rows, 60);
}

#[test]
fn a_put_that_is_not_acknowledged_is_a_timeout() {
    let script = Script {
        finish_stalls: true,
        ..Script::of(4)
    };
    let mut spec = spec(1, 1, r#", "timeout_ns": 200000000"#);
    spec.operation = venturi_base::spec::Operation::Put;
    let error = run_peer(&spec, Peer::all(1, script)).error.unwrap();
    assert_eq!(error.kind, Kind::Timeout);
    assert!(
        error.message.contains("no acknowledgement for 0.2 s"),
        "{}",
        error.message
    );
}

#[test]
fn a_panic_is_an_internal_failure_and_keeps_the_counts() {
    let peer = Peer::new(vec![Script::of(7).then(Then::Panic), Script::of(2)]);
    let record = run_peer(&spec(2, 2, ""), peer);
    let error = record.error.unwrap();
    assert_eq!((error.kind, error.stream), (Kind::Internal, Some(0)));
    assert_eq!(error.message, "stream 0: panicked: scripted");
    assert_eq!(record.streams[0].rows, 70);
    let mut peer = Peer::all(1, Script::of(1));
    peer.plan_panics = true;
    let error = run_peer(&spec_one(), peer).error.unwrap();
    assert_eq!(error.kind, Kind::Internal);
    assert!(error.message.contains("planned to panic"));
}

fn spec_one() -> TrialSpec {
    spec(1, 1, "")
}

#[test]
fn a_cancel_keeps_what_was_measured() {
    let peer = Peer::all(3, Script::ENDLESS);
    let (record, took) = run_cancelled(&spec(3, 2, ""), peer, batches(10));
    assert_eq!(record.outcome, Outcome::Interrupted);
    assert_eq!(record.error.as_ref().unwrap().kind, Kind::Cancelled);
    assert!(record.counts.rows > 0);
    assert_eq!(record.latency.service.count, record.counts.batches);
    assert!(took < Duration::from_millis(800), "{took:?}");
}

#[test]
fn a_cancel_waits_a_second_for_a_blocked_stream() {
    let peer = Peer::all(1, Script::of(3).then(Then::Stall));
    let (record, took) = run_cancelled(&spec_one(), peer, batches(3));
    assert_eq!(record.outcome, Outcome::Interrupted);
    assert_eq!(record.counts.batches, 3);
    assert!(
        took > Duration::from_millis(900) && took < Duration::from_secs(3),
        "{took:?}"
    );
}

#[test]
fn a_cancel_during_set_up() {
    let mut peer = Peer::all(2, Script::of(3));
    peer.open = Duration::from_secs(60);
    let (record, took) = run_cancelled(&spec(2, 2, ""), peer, moment);
    assert_eq!(record.outcome, Outcome::Interrupted);
    assert_eq!(record.counts.batches, 0);
    assert!(took < Duration::from_secs(1), "{took:?}");
    let mut peer = Peer::all(1, Script::of(3));
    peer.plan = Duration::from_secs(60);
    let (record, _) = run_cancelled(&spec_one(), peer, moment);
    assert_eq!(record.outcome, Outcome::Interrupted);
}

#[test]
fn connecting_is_bounded_too() {
    let mut peer = Peer::all(2, Script::of(3));
    peer.open = Duration::from_secs(60);
    let record = run_peer(&spec(2, 2, r#", "timeout_ns": 100000000"#), peer);
    let error = record.error.unwrap();
    assert_eq!(error.kind, Kind::Timeout);
    assert!(
        error.message.contains("connect: no answer for 0.1 s"),
        "{}",
        error.message
    );
}

#[test]
fn fixed_time_awaits_the_batch_in_flight() {
    // The first batch takes no time, the second ends 200 ms after the end, no third is begun. A
    // busy machine has half a second for the first one.
    let script = Script {
        wait: Duration::ZERO,
        slow: Some((1, Duration::from_millis(700))),
        ..Script::ENDLESS
    };
    let record = run_peer(
        &spec(2, 2, r#", "duration_ns": 500000000"#),
        Peer::all(2, script),
    );
    assert_eq!(record.outcome, Outcome::Ok);
    let batches: Vec<u64> = record.streams.iter().map(|stream| stream.batches).collect();
    assert_eq!(batches, [2, 2]);
    for stream in &record.streams {
        assert!(stream.end_ns >= 699_000_000, "{}", stream.end_ns);
    }
}

#[test]
fn a_put_ends_when_all_is_acknowledged_a_get_with_its_last_batch() {
    let script = Script {
        finish: Duration::from_millis(300),
        ..Script::of(3)
    };
    let get = spec_one();
    let mut put = get.clone();
    put.operation = venturi_base::spec::Operation::Put;
    let get = run_peer(&get, Peer::all(1, script));
    let put = run_peer(&put, Peer::all(1, script));
    assert!(
        get.times.interval_ns < 250_000_000,
        "{}",
        get.times.interval_ns
    );
    assert!(
        put.times.interval_ns >= 300_000_000,
        "{}",
        put.times.interval_ns
    );
    // No gaps: the stages of a put fill its time.
    let stream = &put.streams[0];
    let stages: u64 = stream.stages.values().sum();
    assert_eq!(stages, stream.end_ns);
}

#[test]
fn a_cpu_that_is_not_there_is_an_error_of_the_user() {
    let record = run_peer(
        &spec(1, 1, r#", "pin": [100000]"#),
        Peer::all(1, Script::of(1)),
    );
    assert_eq!(record.error.unwrap().kind, Kind::Usage);
    assert_eq!(record.pin, Some(vec![100_000]));
}
