//! How trials end, well or not.

use std::sync::atomic::Ordering;

use super::peer::{Script, Then, ROWS};
use super::*;
use venturi_testkit::{assert_error, until};

/// Runs, and cancels once `reached`.
fn run_cancelled<F: Fn(&Control) -> bool + Sync>(
    spec: &TrialSpec,
    peer: Peer,
    reached: F,
) -> Record {
    let control = Control::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            until("the moment to cancel", || reached(&control));
            control.cancel();
        });
        run_on(spec, Box::new(peer), &control)
    })
}

fn batches(count: u64) -> impl Fn(&Control) -> bool {
    move |control| control.progress().batches >= count
}

#[test]
fn fixed_work_ends_with_the_streams() {
    let peer = Peer::new(vec![Script::of(3), Script::of(5), Script::of(4)]);
    let record = run_peer(&spec(3, 2, ""), peer);
    assert_eq!((&record.error, record.outcome), (&None, Outcome::Ok));
    let streams = record.streams.iter().map(|it| (it.batches, it.thread));
    assert_eq!(streams.collect::<Vec<_>>(), [(3, 0), (5, 1), (4, 0)]);
    assert_eq!(record.counts.rows, 12 * ROWS);
    assert_eq!(record.counts.wire_bytes, 12 * 321);
    assert_eq!(record.latency.service.count, 12);
}

#[test]
fn one_failing_stream_ends_all_and_is_named() {
    let failing = Script::of(3).then(Then::Fail);
    let peer = Peer::new(vec![Script::ENDLESS, failing, Script::ENDLESS]);
    let cleaned = peer.cleaned.clone();
    let record = run_peer(&spec(3, 2, ""), peer);
    assert_eq!(record.outcome, Outcome::Failed);
    let error = record.error.unwrap();
    assert_eq!((error.kind, error.stream), (Kind::Server, Some(1)));
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
    let said = "stream 1: no data for 0.2 s (rows so far: 40)";
    assert_error!(record.error.unwrap(), Kind::Timeout, said);
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
    assert_error!(error, Kind::Timeout, "no acknowledgement for 0.2 s");
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
    assert_error!(error, Kind::Internal, "planned to panic");
}

fn spec_one() -> TrialSpec {
    spec(1, 1, "")
}

#[test]
fn a_cancel_keeps_what_was_measured() {
    for (script, least) in [
        (Script::ENDLESS, 10),
        // It is given up after a second.
        (Script::of(3).then(Then::Stall), 3),
    ] {
        let record = run_cancelled(&spec(1, 1, ""), Peer::all(1, script), batches(least));
        assert_eq!(record.outcome, Outcome::Interrupted);
        assert_eq!(record.error.as_ref().unwrap().kind, Kind::Cancelled);
        assert!(record.counts.batches >= least);
        assert_eq!(record.counts.rows, record.counts.batches * ROWS);
        assert_eq!(record.latency.service.count, record.counts.batches);
    }
}

#[test]
fn a_cancel_does_not_wait_for_the_next_slot() {
    let peer = Peer::all(1, Script::of(5));
    let record = run_cancelled(&spec(1, 1, r#", "rate": 0.0001"#), peer, batches(1));
    assert_eq!(record.outcome, Outcome::Interrupted);
    assert_eq!(record.counts.batches, 1);
}

#[test]
fn a_set_up_that_hangs_is_cancelled_or_times_out() {
    for hangs_at_once in [true, false] {
        let peer = || {
            let mut peer = Peer::all(2, Script::of(3));
            let (plan, open) = (&mut peer.plan, &mut peer.open);
            let step = if hangs_at_once { plan } else { open };
            step.never_ends = true;
            (step.clone(), peer)
        };
        let (step, hanging) = peer();
        let record = run_cancelled(&spec(2, 2, ""), hanging, move |_| step.taken() > 0);
        assert_eq!(record.outcome, Outcome::Interrupted);
        assert_eq!(record.counts.batches, 0);
        let record = run_peer(&spec(2, 2, r#", "timeout_ns": 100000000"#), peer().1);
        // A plan asks more than one thing.
        let said = match hangs_at_once {
            true => "plan: no answer for 1 s",
            false => "connect: no answer for 0.1 s",
        };
        assert_error!(record.error.unwrap(), Kind::Timeout, said);
    }
}

#[test]
fn a_cpu_that_is_not_there_is_an_error_of_the_user() {
    let spec = spec(1, 1, r#", "pin": [100000]"#);
    let record = run_peer(&spec, Peer::all(1, Script::of(1)));
    assert_eq!(record.error.unwrap().kind, Kind::Usage);
    assert_eq!(record.pin, Some(vec![100_000]));
}
