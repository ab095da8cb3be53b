//! Which lane has the next turn, and when a lane is given up. The tests set the time.

use super::*;
use crate::errors::Ledger;
use crate::stop::{Stop, CANCEL_GRACE, FAILURE_GRACE};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use venturi_base::error::{Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::counters::Counters;
use venturi_base::meter::histogram::Recorder;
use venturi_base::spec::Operation;
use venturi_targets::{Moved, Session, Tally};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Has a batch at each turn, or waits with a waker.
#[derive(Clone, Default)]
struct Stream {
    waits: bool,
    turns: Rc<Cell<u32>>,
    waker: Rc<RefCell<Option<Waker>>>,
}

type Polled = Poll<Result<Option<Moved>>>;

fn waiting() -> Stream {
    Stream {
        waits: true,
        ..Stream::default()
    }
}

impl Session for Stream {
    fn poll_batch(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Polled {
        self.turns.set(self.turns.get() + 1);
        if self.waits {
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        clock.mark(Stage::Receive);
        Poll::Ready(Ok(Some(Moved { rows: 1, bytes: 8 })))
    }

    fn poll_finish(&mut self, _: &mut Context<'_>, _: &mut StageClock) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// A driver of these streams, each of which has a burst of one batch.
fn driven(streams: &[Stream], stop: &Stop, act: impl FnOnce(&mut Driver<'_>, Instant)) {
    let start = Instant::now();
    let errors = Ledger::new(0);
    let counters: Vec<Counters> = streams.iter().map(|_| Counters::default()).collect();
    let rules = Rules {
        operation: Operation::Get,
        start,
        deadline: None,
        stop,
        counters: &counters,
        errors: &errors,
        timeout: TIMEOUT,
        burst: Duration::ZERO,
    };
    let latencies = Latencies {
        service: Recorder::new(),
        response: None,
    };
    let lanes = streams.iter().enumerate().map(|(at, stream)| {
        let session = Box::new(stream.clone());
        Lane::new(at, at, 1, session, 0, None, start, start)
    });
    act(&mut Driver::new(lanes.collect(), latencies, &rules), start);
}

fn round(driver: &mut Driver<'_>) -> Poll<()> {
    driver.poll(&mut Context::from_waker(Waker::noop()))
}

/// 200 streams that wait and 2 that never do: nobody starves another, and nobody has a turn in vain.
#[test]
fn each_that_is_ready_has_a_turn_in_a_round() {
    let mut streams: Vec<Stream> = (0..200).map(|_| waiting()).collect();
    streams.extend([Stream::default(), Stream::default()]);
    driven(&streams, &Stop::default(), |driver, _| {
        // The first round asks all of them.
        assert!(round(driver).is_pending());
        let mut expected = vec![1; 202];
        for number in 1..20 {
            for (at, stream) in streams[..200].iter().enumerate() {
                if at % number == 0 {
                    stream.waker.borrow().as_ref().unwrap().wake_by_ref();
                    expected[at] += 1;
                }
            }
            expected[200..].iter_mut().for_each(|turns| *turns += 1);
            assert!(round(driver).is_pending());
            let turns: Vec<u32> = streams.iter().map(|stream| stream.turns.get()).collect();
            assert_eq!(turns, expected, "round {number}");
        }
    });
}

#[test]
fn a_stop_is_seen_between_batches_and_gives_up_who_is_blocked_after_its_grace() {
    let failed = Error::new(Kind::Server, "no more");
    for (error, grace) in [(Error::cancelled(), CANCEL_GRACE), (failed, FAILURE_GRACE)] {
        let stop = Stop::default();
        driven(&[waiting(), Stream::default()], &stop, |driver, start| {
            assert!(round(driver).is_pending());
            let before = Instant::now();
            stop.set(Failure::new(error, None));
            let at = stop.give_up_at().unwrap();
            assert!((before + grace..=Instant::now() + grace).contains(&at));
            driver.tick(start);
            assert!(round(driver).is_pending());
            assert_eq!(driver.left, 1, "the one that moves has ended");
            driver.tick(at - Duration::from_nanos(1));
            assert!(round(driver).is_pending());
            driver.tick(at);
            assert!(round(driver).is_ready());
        });
    }
}

#[test]
fn who_makes_no_progress_for_the_time_out_fails() {
    let stop = Stop::default();
    driven(&[Stream::default(), waiting()], &stop, |driver, start| {
        assert!(round(driver).is_pending());
        driver.tick(start);
        for late in [TIMEOUT - Duration::from_nanos(1), TIMEOUT] {
            assert!(!stop.is_set());
            assert!(round(driver).is_pending());
            driver.tick(start + late);
        }
        let failure = stop.failure().unwrap();
        assert_eq!((failure.kind, failure.stream), (Kind::Timeout, Some(1)));
    });
}
