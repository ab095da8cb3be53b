//! Parts of one trial in several processes (here: threads) that start together.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{json, Value};

use super::peer::{Script, Then, ROWS};
use super::*;
use crate::conductor::unix_ns;
use venturi_base::error::Kind;
use venturi_testkit::{assert_contains, assert_error, refusal, trial};

/// Only what hangs takes that long.
const LIMIT: Duration = Duration::from_secs(300);

/// The whole trial's spec as the part of one process; the first part leads.
pub fn part(whole: &Value, first: usize, count: usize) -> TrialSpec {
    let mut spec = whole.clone();
    spec["share"] = json!({"first": first, "count": count, "lead": first == 0});
    TrialSpec::parse(&spec.to_string()).unwrap()
}

/// Runs all parts as whoever lines hosts up does; `change` may tell the lead something else than
/// the others have counted.
pub fn line_up(
    parts: &[TrialSpec],
    run: impl Fn(&TrialSpec, &Control) -> Record + Sync,
    change: impl Fn(&mut Vec<Value>),
) -> Vec<Record> {
    let controls: Vec<Control> = parts.iter().map(|_| Control::new()).collect();
    let (lead, others) = controls.split_first().unwrap();
    std::thread::scope(|scope| {
        let run = &run;
        let parts = parts.iter().zip(&controls);
        let mut running = parts.map(|(spec, control)| scope.spawn(move || run(spec, control)));
        let mut begun = vec![running.next().unwrap()];
        assert!(lead.wait(Phase::Planned, LIMIT));
        begun.extend(running);
        let all = |phase| assert!(controls.iter().all(|control| control.wait(phase, LIMIT)));
        all(Phase::Ready);
        let start = unix_ns() + 50_000_000;
        let all_controls = controls.iter();
        all_controls.for_each(|control| control.start_at(start).unwrap());
        all(Phase::Counted);
        let tallies = others.iter().filter_map(Control::tallies);
        let tallies = tallies.map(|it| serde_json::from_str::<Vec<Value>>(&it).unwrap());
        let mut tallies = tallies.collect::<Vec<_>>().concat();
        change(&mut tallies);
        lead.conclude(&json!(tallies).to_string()).unwrap();
        let records = begun.into_iter().map(|thread| thread.join().unwrap());
        records.collect()
    })
}

fn whole(streams: usize, more: Value) -> Value {
    let mut whole = trial(more);
    whole["streams"] = json!(streams);
    whole
}

fn scripted(spec: &TrialSpec, control: &Control) -> Record {
    run_on(spec, Box::new(Peer::all(8, Script::of(5))), control)
}

#[test]
fn parts_start_together_and_the_lead_verifies_all() {
    let whole = whole(5, json!({"rate": 1000}));
    let records = line_up(&[part(&whole, 0, 2), part(&whole, 2, 3)], scripted, |_| {});
    let (lead, other) = (&records[0], &records[1]);
    for record in &records {
        assert_eq!(record.error, None);
        // The same instant on one clock, however late each has heard of it.
        let (latest, skew) = (record.times.started_unix_ns, record.times.start_skew_ns);
        for other in &records {
            assert!(latest - skew <= other.times.started_unix_ns);
        }
    }
    let streams = records.iter().flat_map(|record| &record.streams);
    let numbers: Vec<usize> = streams.map(|stream| stream.stream).collect();
    assert_eq!((numbers, lead.streams.len()), (vec![0, 1, 2, 3, 4], 2));
    assert_eq!(lead.counts.rows, 10 * ROWS);
    assert_eq!(other.counts.rows, 15 * ROWS);
    // The peer says how many rows it was told of.
    assert_eq!(lead.verification.rows, 25 * ROWS);
    assert_eq!(lead.verification.achieved, "count");
    assert_eq!(lead.stages.server.as_ref().unwrap()["encode"], 5);
    let verified = &other.verification;
    assert_eq!((verified.achieved, verified.rows), ("none", 15 * ROWS));
    assert_eq!(verified.note.as_deref(), Some("verified by the lead"));
    assert!(other.stages.server.is_none());
    // Slots of the whole schedule: stream 4's fifth is its number 24, one each millisecond.
    let rates = [lead, other].map(|record| record.schedule.unwrap().rate);
    assert_eq!(rates, [400.0, 600.0]);
    assert!(other.streams[2].end_ns >= 24_000_000);
}

#[test]
fn only_the_lead_cleans_up() {
    let whole = whole(2, json!({}));
    for first in [0, 1] {
        let peer = Peer::all(2, Script::of(1).then(Then::Fail));
        let cleaned = peer.cleaned.clone();
        let control = Control::new();
        control.start_at(unix_ns()).unwrap();
        let record = run_on(&part(&whole, first, 1), Box::new(peer), &control);
        assert_eq!(record.outcome, Outcome::Failed);
        assert_eq!(cleaned.load(Ordering::SeqCst), first == 0);
    }
}

/// Runs one part of two; `act` when its streams are ready.
fn alone(more: Value, first: usize, act: impl Fn(&Control) + Sync) -> Record {
    let spec = part(&whole(2, more), first, 1);
    let control = Control::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(control.wait(Phase::Ready, LIMIT));
            act(&control);
        });
        scripted(&spec, &control)
    })
}

#[test]
fn a_start_that_is_past_is_now_and_told() {
    let before = unix_ns();
    let record = alone(json!({}), 1, |control| {
        assert_eq!(control.progress().phase, Phase::Ready);
        control.start_at(before - 3_000_000_000).unwrap();
        assert!(control.start_at(1).is_err());
    });
    assert_eq!(record.error, None);
    assert!(record.times.start_skew_ns >= 3_000_000_000);
    assert!((before..unix_ns()).contains(&record.times.started_unix_ns));
}

#[test]
fn a_start_may_be_given_before_anything_is_ready() {
    let spec = part(&whole(2, json!({})), 1, 1);
    let control = Control::new();
    control.start_at(unix_ns()).unwrap();
    assert_eq!(scripted(&spec, &control).error, None);
}

#[test]
fn nobody_gives_the_start() {
    let record = alone(json!({"timeout_ns": 200_000_000}), 1, |_| {});
    let said = "nobody gave the start for 0.2 s: ";
    assert_error!(record.error.unwrap(), Kind::Timeout, said);
    assert_eq!(record.counts.batches, 0);
}

#[test]
fn a_start_in_the_far_future_is_a_clock_that_is_wrong() {
    let record = alone(json!({}), 1, |control| {
        let hour = 3_600_000_000_000;
        control.start_at(unix_ns() + hour).unwrap();
    });
    assert_error!(record.error.unwrap(), Kind::Usage, "is the clock right?");
}

#[test]
fn a_cancel_ends_every_wait() {
    let ready = alone(json!({}), 1, Control::cancel);
    assert_eq!(ready.outcome, Outcome::Interrupted);
    assert_eq!(ready.counts.batches, 0);
    let counted = alone(json!({}), 0, |control| {
        control.start_at(unix_ns()).unwrap();
        assert!(control.wait(Phase::Counted, LIMIT));
        assert!(!control.wait(Phase::Verifying, Duration::ZERO));
        assert!(control.tallies().is_some());
        control.cancel();
    });
    assert_eq!(counted.outcome, Outcome::Interrupted);
    assert_eq!(counted.counts.batches, 5);
    let forgotten = alone(json!({"timeout_ns": 100_000_000}), 0, |control| {
        control.start_at(unix_ns()).unwrap();
    });
    // Whatever the time-out, others may need a second.
    let said = "nobody told within 1 s";
    assert_error!(forgotten.error.unwrap(), Kind::Timeout, said);
}

#[test]
fn tallies_must_be_those_of_all_others() {
    let said = |tallies: &'static str| {
        let record = alone(json!({}), 0, |control| {
            control.start_at(unix_ns()).unwrap();
            assert!(control.wait(Phase::Counted, LIMIT));
            let own = control.tallies().unwrap();
            let told = tallies.replace("OWN", own.trim_matches(['[', ']']));
            assert!(control.conclude("nothing").is_err());
            control.conclude(&told).unwrap();
            assert!(control.conclude(&told).is_err());
        });
        record.error.unwrap().message
    };
    assert!(said("[]").contains("nobody has told what stream 1 has counted"));
    assert!(said("[OWN]").contains("stream 0 is there twice"));
}

#[test]
fn a_part_that_fails_is_done_and_has_no_tallies() {
    let spec = part(&whole(2, json!({})), 1, 1);
    let control = Control::new();
    control.start_at(unix_ns()).unwrap();
    let peer = Peer::all(2, Script::of(3).then(Then::Fail));
    let record = run_on(&spec, Box::new(peer), &control);
    assert_eq!(record.error.unwrap().stream, Some(1));
    assert_eq!(record.streams[0].stream, 1);
    assert!(control.wait(Phase::Counted, Duration::ZERO));
    assert_eq!(control.progress().phase, Phase::Done);
    assert_eq!(control.tallies(), None);
}

#[test]
fn shares_that_cannot_be_are_said() {
    let refused = |share: Value, more: Value| {
        let mut whole = whole(4, more);
        whole["share"] = share;
        refusal(whole)
    };
    for (first, count, said) in [
        (0, 0, "at least 1"),
        (3, 2, "not among the 4"),
        (usize::MAX, 2, "not among the 4"),
    ] {
        let share = json!({"first": first, "count": count});
        assert!(refused(share, json!({})).contains(said));
    }
    let more = json!({"include_setup": true, "rows_per_stream": 1});
    assert!(refused(json!({"first": 0, "count": 2}), more).contains("one process"));
    let unknown = Phase::of_name("begun").unwrap_err().message;
    let known = "known: set-up, planned, ready, running, counted, verifying, done";
    assert_contains(&unknown, known);
}
