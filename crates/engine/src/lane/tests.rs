//! Lanes by a clock that the test gives: what is recorded of their time is exact.

use super::*;
use crate::record::Failure;
use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;
use venturi_targets::Moved;

const MS: Duration = Duration::from_millis(1);

/// The time, how often a session was set idle, and the batches that nobody has begun.
struct World {
    now: Cell<Instant>,
    idles: Cell<u32>,
    batches: Cell<u64>,
    /// When a session was told to try nothing again.
    over: Cell<Option<Instant>>,
}

/// A peer that takes `service` for a batch, but for those that are slow.
#[derive(Clone, Copy)]
struct Script {
    batches: u64,
    service: Duration,
    slow: Option<(u64, Duration)>,
    finish: Duration,
}

fn script(batches: u64, service: Duration) -> Script {
    Script {
        batches,
        service,
        slow: None,
        finish: Duration::ZERO,
    }
}

struct Scripted {
    script: Script,
    world: Rc<World>,
    /// Its batch, and when that is there; or when the last acknowledgement is.
    ready: Option<Instant>,
}

impl Scripted {
    fn poll(&mut self, wait: Duration) -> Poll<Instant> {
        let now = self.world.now.get();
        let ready = *self.ready.get_or_insert(now + wait);
        if now < ready {
            return Poll::Pending;
        }
        self.ready = None;
        Poll::Ready(ready)
    }
}

type Polled = Poll<Result<Option<Moved>>>;

impl Session for Scripted {
    fn poll_batch(&mut self, _: &mut Context<'_>, clock: &mut StageClock) -> Polled {
        if self.ready.is_none() {
            let number = self.world.batches.get();
            if number == self.script.batches {
                return Poll::Ready(Ok(None));
            }
            self.world.batches.set(number + 1);
            let slow = self.script.slow.filter(|(slow, _)| *slow == number);
            let wait = slow.map_or(self.script.service, |(_, wait)| wait);
            self.ready = Some(self.world.now.get() + wait);
        }
        clock.wait(Stage::AwaitInput);
        let now = ready!(self.poll(Duration::ZERO));
        clock.mark_at(Stage::Receive, now);
        Poll::Ready(Ok(Some(Moved { rows: 1, bytes: 8 })))
    }

    fn is_spent(&self) -> bool {
        self.ready.is_none() && self.world.batches.get() == self.script.batches
    }

    fn idle(&mut self) {
        self.world.idles.set(self.world.idles.get() + 1);
    }

    fn end_retries(&mut self) {
        let world = &self.world;
        world.over.set(world.over.get().or(Some(world.now.get())));
    }

    fn poll_finish(&mut self, _: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        clock.wait(Stage::AwaitReply);
        let now = ready!(self.poll(self.script.finish));
        clock.mark_at(Stage::AwaitReply, now);
        Poll::Ready(Ok(()))
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// The lanes of one stream, whose time goes on by `step` until all are done.
struct Run {
    operation: Operation,
    lanes: u64,
    rate: Option<f64>,
    deadline: Option<Duration>,
    /// From this on the trial is stopped.
    stopped: Option<Duration>,
    step: Duration,
}

/// A get by one lane.
const GET: Run = Run {
    operation: Operation::Get,
    lanes: 1,
    rate: None,
    deadline: None,
    stopped: None,
    step: MS,
};

struct Ran {
    outcomes: Vec<Outcome>,
    service: Recorder,
    response: Recorder,
    idles: u32,
    /// Since the start.
    over: Option<Duration>,
}

impl Ran {
    /// Batches by the milliseconds that their percentile took, exactly but for a histogram's digits.
    fn is_ms(recorder: &Recorder, percent: f64, expected: f64) {
        let found = recorder.percentile(percent) as f64 / 1e6;
        let far = (found - expected).abs();
        assert!(far <= 0.002 * expected, "{percent}: {found} ms, {expected}");
    }
}

impl Run {
    fn of(&self, script: Script) -> Ran {
        venturi_testkit::run(async { self.by_turns(script) })
    }

    fn by_turns(&self, script: Script) -> Ran {
        let start = Instant::now();
        let world = Rc::new(World {
            now: Cell::new(start),
            idles: Cell::default(),
            batches: Cell::default(),
            over: Cell::default(),
        });
        let (stop, errors) = (Stop::default(), Ledger::new(0));
        let rules = Rules {
            operation: self.operation,
            start,
            deadline: self.deadline.map(|after| start + after),
            stop: &stop,
            counters: &[Counters::default()],
            errors: &errors,
            timeout: MS,
            burst: Duration::ZERO,
        };
        let mut latencies = Latencies {
            service: Recorder::new(),
            response: self.rate.map(|_| Recorder::new()),
        };
        let next = Rc::default();
        let lane = |_| {
            let session = Box::new(Scripted {
                script,
                world: world.clone(),
                ready: None,
            });
            let slots = self.rate.map(|rate| Slots::new(0, 1, rate));
            let pace = slots.map(|slots| Pace::new(slots, Rc::clone(&next)).unwrap());
            Lane::new(0, 0, self.lanes as usize, session, 0, pace, start, start)
        };
        let mut lanes: Vec<Lane> = (0..self.lanes).map(lane).collect();
        while !lanes.iter().all(Lane::is_done) {
            let now = world.now.get();
            if self.stopped.is_some_and(|after| now >= start + after) {
                stop.set(Failure::new(Error::cancelled(), None));
            }
            for lane in &mut lanes {
                let (woken, round) = (now, None);
                let readiness = Readiness { woken, round };
                let mut turn = || {
                    let cx = &mut Context::from_waker(Waker::noop());
                    lane.turn(cx, now, &rules, &mut latencies, &readiness)
                };
                while turn().unwrap() == Turn::Again {}
                // Whoever waits for the schedule is not stalled, however short its patience.
                if lane.idle {
                    assert!(lane.stalled(now, &rules, Counts::default()).is_none());
                }
            }
            world.now.set(now + self.step);
        }
        Ran {
            outcomes: lanes.into_iter().map(Lane::outcome).collect(),
            service: latencies.service,
            response: latencies.response.unwrap_or_default(),
            idles: world.idles.get(),
            over: world.over.get().map(|at| at - start),
        }
    }
}

impl Outcome {
    fn lasted(&self) -> Duration {
        self.end - self.since
    }

    fn spent(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.stages.0[stage as usize])
    }
}

/// A stream of n lanes served in constant time s, asked at a rate whose period p is shorter than
/// s / n. Round r of its lanes is due at r n p and begun at r s, each lane p after the one before.
/// So a response time is s + r (s - n p), growing by s - n p with each round, while its service
/// time stays s. (D/D/n, the simplest case of Lindley's recursion, without any randomness.)
#[test]
fn response_times_grow_where_the_rate_cannot_be_held() {
    const BATCHES: u64 = 120;
    for (lanes, period) in [(1, 2), (4, 1)] {
        let service = Duration::from_millis(if lanes == 1 { 4 } else { 8 });
        let mut run = GET;
        (run.lanes, run.rate) = (lanes, Some(1000.0 / period as f64));
        let ran = run.of(script(BATCHES, service));
        let service = service.as_millis() as u64;
        assert_eq!([ran.service.count(), ran.response.count()], [BATCHES; 2]);
        let theory = |n: u64| service + n / lanes * (service - lanes * period);
        for percent in [10.0, 25.0, 50.0, 75.0, 90.0, 100.0] {
            let k = (percent / 100.0 * BATCHES as f64).ceil() as u64 - 1;
            Ran::is_ms(&ran.response, percent, theory(k) as f64);
            Ran::is_ms(&ran.service, percent, service as f64);
        }
        let late: u64 = ran.outcomes.iter().map(|lane| lane.late).sum();
        assert_eq!(late, BATCHES - lanes);
        let lag = ran.outcomes.iter().map(|lane| lane.max_lag_ns).max();
        assert_eq!(lag, Some((theory(BATCHES - 1) - service) * 1_000_000));
    }
}

#[test]
fn a_rate_that_can_be_held_is_held() {
    let mut run = GET;
    (run.rate, run.deadline) = (Some(500.0), Some(300 * MS));
    let ran = run.of(script(u64::MAX, MS));
    assert_eq!((ran.service.count(), ran.response.count()), (150, 150));
    Ran::is_ms(&ran.response, 100.0, 1.0);
    let [lane] = &ran.outcomes[..] else { panic!() };
    assert_eq!((lane.late, lane.max_lag_ns), (0, 0));
    // The last one was due at 298 ms, and nothing is left to wait for.
    assert_eq!(lane.lasted(), 299 * MS);
    assert_eq!(lane.spent(Stage::AwaitSchedule), 149 * MS);
    assert_eq!(lane.spent(Stage::AwaitThread), Duration::ZERO);
}

#[test]
fn what_a_thread_misses_of_its_schedule_is_its_own() {
    // It looks every 3 ms; slots are due every 5.
    let mut run = GET;
    (run.rate, run.step) = (Some(200.0), 3 * MS);
    let ran = run.of(script(3, Duration::ZERO));
    let [lane] = &ran.outcomes[..] else { panic!() };
    assert_eq!(lane.lasted(), 12 * MS);
    assert_eq!(lane.spent(Stage::AwaitSchedule), 4 * MS + 5 * MS);
    assert_eq!(lane.spent(Stage::AwaitThread), MS + 2 * MS);
    assert_eq!((lane.late, lane.max_lag_ns), (2, 2_000_000));
    // It is told once before each slot but the first, however often it looks, and at its end.
    assert_eq!(ran.idles, 3);
}

#[test]
fn whichever_lane_is_free_takes_the_next_slot() {
    let (mut run, mut script) = (GET, script(60, MS));
    (run.lanes, run.rate) = (2, Some(200.0));
    script.slow = Some((3, 400 * MS));
    let ran = run.of(script);
    assert_eq!(ran.response.count(), 60);
    // Had each lane its own slots, half of the batches would have waited for the slow one.
    Ran::is_ms(&ran.response, 98.0, 1.0);
    Ran::is_ms(&ran.response, 100.0, 400.0);
}

#[test]
fn batches_of_one_stream_are_in_flight_together() {
    let run = Run { lanes: 10, ..GET };
    let ran = run.of(script(50, 20 * MS));
    Ran::is_ms(&ran.service, 0.0, 20.0);
    Ran::is_ms(&ran.service, 100.0, 20.0);
    for lane in &ran.outcomes {
        assert_eq!(lane.lasted(), 100 * MS);
    }
}

#[test]
fn fixed_time_awaits_the_batch_in_flight() {
    // The second batch ends 200 ms after the end, no third is begun.
    let (mut run, mut script) = (GET, script(5, 10 * MS));
    run.deadline = Some(500 * MS);
    script.slow = Some((1, 700 * MS));
    let ran = run.of(script);
    assert_eq!(ran.service.count(), 2);
    assert_eq!(ran.outcomes[0].lasted(), 710 * MS);
    assert_eq!(ran.over, Some(500 * MS));
}

#[test]
fn a_put_ends_when_all_is_acknowledged_a_get_with_its_last_batch() {
    for (operation, stopped) in [
        (Operation::Get, None),
        (Operation::Get, Some(20 * MS)),
        (Operation::Put, None),
    ] {
        let (mut run, mut script) = (GET, script(3, 10 * MS));
        (run.operation, run.stopped, script.finish) = (operation, stopped, 300 * MS);
        let ran = run.of(script);
        let moved = if stopped.is_some() { 20 * MS } else { 30 * MS };
        let put = operation == Operation::Put;
        let lane = &ran.outcomes[0];
        let finished = if put { 300 * MS } else { Duration::ZERO };
        assert_eq!(lane.lasted(), moved + finished);
        // No gaps, and what follows a get's last batch is in no stage.
        assert_eq!(lane.stages.total(), lane.lasted().as_nanos() as u64);
        assert_eq!(lane.spent(Stage::AwaitReply), lane.lasted() - moved);
    }
}

/// Of a wait, what passed since its waker was called is the thread's.
#[test]
fn who_is_woken_and_not_looked_at_waits_for_its_thread() {
    let at = |ms: u32, base: Instant| base + ms * MS;
    let base = Instant::now();
    let rounds = [None, Some((5, 6)), Some((0, 6)), Some((5, 9))];
    let found = rounds.map(|round| {
        let round = round.map(|(from, to)| (at(from, base), at(to, base)));
        let woken = at(7, base);
        Readiness { woken, round }.thread_time(base, at(10, base))
    });
    assert_eq!(found, [3, 4, 9, 3].map(|ms| ms * MS));
}
