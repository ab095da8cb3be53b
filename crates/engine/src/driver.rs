//! Drives a thread's lanes: each is polled when its waker was called, in turn, so that
//! thousands of streams cost a thread no more than those that have something to do.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};

use super::lane::{Lane, Latencies, Readiness, Rules, Turn};
use super::record::Failure;
use venturi_base::error::Error;

/// A look at the sockets that takes longer than this was a sleep.
const NAP: Duration = Duration::from_micros(10);

/// The lanes whose wakers were called.
#[derive(Debug)]
struct Ready {
    /// Wakers tell the time since then.
    base: Instant,
    queue: Mutex<VecDeque<usize>>,
    root: AtomicWaker,
}

impl Ready {
    fn queue(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.queue.lock()
    }
}

#[derive(Debug)]
struct LaneWaker {
    lane: usize,
    queued: AtomicBool,
    /// When it was called, in ns since `Ready::base`.
    woken: AtomicU64,
    ready: Arc<Ready>,
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let now = self.ready.base.elapsed().as_nanos() as u64;
            self.woken.store(now, Ordering::Relaxed);
            self.ready.queue().push_back(self.lane);
            self.ready.root.wake();
        }
    }
}

pub struct Driver<'a> {
    pub lanes: Vec<Lane>,
    pub latencies: Latencies,
    rules: &'a Rules<'a>,
    ready: Arc<Ready>,
    wakers: Vec<(Arc<LaneWaker>, Waker)>,
    left: usize,
    stopping: bool,
    /// The last round of turns: its start and end.
    round: (Instant, Instant),
}

impl<'a> Driver<'a> {
    pub fn new(lanes: Vec<Lane>, latencies: Latencies, rules: &'a Rules<'a>) -> Self {
        let base = Instant::now();
        let ready = Arc::new(Ready {
            base,
            queue: Mutex::default(),
            root: AtomicWaker::new(),
        });
        let wakers = (0..lanes.len())
            .map(|lane| {
                let waker = Arc::new(LaneWaker {
                    lane,
                    queued: AtomicBool::new(false),
                    woken: AtomicU64::new(0),
                    ready: ready.clone(),
                });
                waker.wake_by_ref();
                (waker.clone(), Waker::from(waker))
            })
            .collect();
        Self {
            left: lanes.len(),
            lanes,
            latencies,
            rules,
            ready,
            wakers,
            stopping: false,
            round: (base, base),
        }
    }

    /// Gives every lane that is ready a turn; ready when all lanes are done. Returns in
    /// between to let the runtime look after the sockets.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.ready.root.register(cx.waker());
        let turns = self.ready.queue().len();
        let begun = Instant::now();
        let awake = begun.saturating_duration_since(self.round.1) < NAP;
        let round = awake.then_some(self.round);
        for _ in 0..turns {
            let Some(lane) = self.ready.queue().pop_front() else {
                break;
            };
            self.wakers[lane].0.queued.store(false, Ordering::Release);
            self.turn(lane, round);
        }
        self.round = (begun, Instant::now());
        if self.left == 0 {
            return Poll::Ready(());
        }
        if !self.ready.queue().is_empty() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn turn(&mut self, at: usize, round: Option<(Instant, Instant)>) {
        let lane = &mut self.lanes[at];
        if lane.is_done() {
            return;
        }
        let (rules, latencies) = (self.rules, &mut self.latencies);
        let (waker, in_context) = &self.wakers[at];
        let mut cx = Context::from_waker(in_context);
        let woken = Duration::from_nanos(waker.woken.load(Ordering::Relaxed));
        let readiness = Readiness {
            woken: self.ready.base + woken,
            round,
        };
        let turn = || lane.turn(&mut cx, Instant::now(), rules, latencies, &readiness);
        let turn = catch_unwind(AssertUnwindSafe(turn));
        match turn {
            Ok(Ok(Turn::Again)) => waker.wake_by_ref(),
            Ok(Ok(Turn::Pending)) => {}
            Ok(Ok(Turn::Done)) => self.left -= 1,
            Ok(Err(error)) => self.fail(at, error),
            Err(panic) => {
                self.fail(at, Error::panicked(&*panic));
            }
        }
    }

    fn fail(&mut self, at: usize, error: Error) {
        let stream = self.lanes[at].stream;
        let error = error.context(format_args!("stream {stream}"));
        self.rules.stop.set(Failure::new(error, Some(stream)));
        self.close(at);
    }

    fn close(&mut self, at: usize) {
        let lane = &mut self.lanes[at];
        let operation = self.rules.operation;
        // A session that panicked may do so again.
        let _ = catch_unwind(AssertUnwindSafe(|| lane.close(operation)));
        self.left -= 1;
    }

    /// To be called now and then: notices a stop and streams that make no progress.
    pub fn tick(&mut self, now: Instant) {
        let give_up = self.rules.stop.give_up_at();
        if give_up.is_some() && !self.stopping {
            self.stopping = true;
            self.wakers
                .iter()
                .for_each(|(waker, _)| waker.wake_by_ref());
        }
        for at in 0..self.lanes.len() {
            if self.lanes[at].is_done() {
                continue;
            }
            if give_up.is_some_and(|at| now >= at) {
                self.close(at);
                continue;
            }
            let moved = self.rules.counters[self.lanes[at].counter].read();
            if let Some(error) = self.lanes[at].stalled(now, self.rules, moved) {
                self.fail(at, error);
            }
        }
    }
}

#[cfg(test)]
mod tests;
