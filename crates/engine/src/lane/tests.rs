//! What a lane tells of its time, and its session of the schedule.

use super::*;
use crate::record::Failure;
use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;
use venturi_targets::Moved;

/// Has so many batches at once, then none; its end takes a while.
struct Ready {
    left: u64,
    ends: u32,
    /// How often it was told that it is not asked for a while.
    idles: Rc<Cell<u32>>,
}

impl Session for Ready {
    fn poll_batch(
        &mut self,
        _: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        clock.mark(Stage::Decode);
        if self.left == 0 {
            return Poll::Ready(Ok(None));
        }
        self.left -= 1;
        Poll::Ready(Ok(Some(Moved { rows: 1, bytes: 8 })))
    }

    fn idle(&mut self) {
        self.idles.set(self.idles.get() + 1);
    }

    fn poll_finish(&mut self, _: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        clock.wait(Stage::AwaitReply);
        if self.ends == 0 {
            return Poll::Ready(Ok(()));
        }
        self.ends -= 1;
        Poll::Pending
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// Three batches, until `turn` says that the lane is done.
fn driven(
    pace: Option<Pace>,
    idles: &Rc<Cell<u32>>,
    mut turn: impl FnMut(&mut dyn FnMut(&mut Context<'_>) -> Turn, &Stop) -> Turn,
) -> Outcome {
    let (stop, errors) = (Stop::default(), Ledger::new(0));
    let start = Instant::now();
    let rules = Rules {
        operation: Operation::Get,
        start,
        deadline: None,
        stop: &stop,
        counters: &[Counters::default()],
        errors: &errors,
        timeout: Duration::from_secs(1),
        burst: Duration::ZERO,
    };
    let mut latencies = Latencies {
        service: Recorder::new(),
        response: None,
    };
    let session = Box::new(Ready {
        left: 3,
        ends: 2,
        idles: idles.clone(),
    });
    let mut lane = Lane::new(0, 0, 1, session, 0, pace, start);
    let mut readiness = Readiness {
        woken: Instant::now(),
        round: None,
    };
    loop {
        let mut one = |cx: &mut Context<'_>| {
            let turn = lane.turn(cx, &rules, &mut latencies, &readiness);
            turn.unwrap()
        };
        if turn(&mut one, &stop) == Turn::Done {
            return lane.outcome();
        }
        readiness.woken = Instant::now();
    }
}

/// The thread turns to a lane only after `late`, each time.
fn turned(late: Duration, stopped: bool) -> Outcome {
    let mut turns = 0;
    driven(None, &Rc::default(), |turn, stop| {
        std::thread::sleep(late);
        let turned = turn(&mut Context::from_waker(Waker::noop()));
        turns += 1;
        if stopped && turns == 3 {
            stop.set(Failure::new(Error::cancelled(), None));
        }
        turned
    })
}

#[test]
fn who_waits_for_its_schedule_is_told_so() {
    let idles = Rc::default();
    venturi_base::net::runtime::block_on(async {
        let pace = Pace::new(Slots::new(0, 1, 20.0), Rc::default()).unwrap();
        driven(Some(pace), &idles, |turn, _| {
            std::thread::sleep(Duration::from_millis(1));
            turn(&mut Context::from_waker(Waker::noop()))
        })
    })
    .unwrap();
    // Before each slot but the first once, however often it looks, and at its end. A
    // machine that stands still may miss one.
    assert!((3..=4).contains(&idles.get()), "{idles:?}");
}

#[test]
fn what_follows_a_gets_last_batch_is_in_no_stage() {
    for stopped in [false, true] {
        let made = turned(Duration::from_millis(2), stopped);
        let lasted = ns(made.end, made.since);
        assert!(lasted >= 6_000_000, "{lasted}");
        assert_eq!(made.stages.total(), lasted, "stopped: {stopped}");
    }
}
