//! One client thread: opens its streams, waits for the start, drives them to their end.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::conductor::HEAD_START;
use super::control::Control;
use super::driver::Driver;
use super::errors::Ledger;
use super::lane::{Lane, Latencies, Outcome, Rules};
use super::pace::{Pace, Slots};
use super::record::Failure;
use super::stop::{guarded, Stop, RUNNING_TICK, TICK};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit::PATIENCE;
use venturi_base::meter::counters::Counters;
use venturi_base::meter::histogram::Recorder;
use venturi_base::net::runtime::runtime;
use venturi_base::os::pin::pin;
use venturi_base::spec::TrialSpec;
use venturi_targets::{Session, Target};

/// How long a lane keeps its thread while its batches are ready at once: long against
/// the microsecond that a look at the sockets costs, short for the lanes that wait.
const BURST: Duration = Duration::from_micros(50);
/// The same where it is alone: a cancel is seen between batches, only ticks wait.
const BURST_ALONE: Duration = Duration::from_millis(250);
/// How long before the start a thread is awake.
const AWAKE: Duration = HEAD_START;
/// How long a thread that has ended stays to be looked at.
const LEAVE: Duration = Duration::from_millis(250);

/// The barrier's state.
#[derive(Debug, Clone, Copy)]
pub enum Gate {
    Closed,
    /// All start at this instant.
    Open(Instant),
    /// The trial will not start.
    Off,
    /// The trial is over, and all that was to be seen of the threads has been.
    Leave,
}

/// What a worker tells the coordinator.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    Ready,
    /// All its streams have ended.
    Ended,
}

/// What all workers share.
pub struct Shared<'a> {
    pub spec: &'a TrialSpec,
    pub target: &'a dyn Target,
    pub control: &'a Control,
    pub stop: Stop,
    pub errors: Ledger,
    pub counters: Arc<[Counters]>,
}

impl Shared<'_> {
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }
}

/// What a worker measured.
pub struct Report {
    pub thread: usize,
    pub lanes: Vec<Outcome>,
    pub latencies: Latencies,
}

struct Opened {
    stream: usize,
    session: Box<dyn Session>,
    connect_ns: u64,
}

/// The whole life of client thread `thread`. Failures go to `shared.stop`.
pub fn work(
    shared: &Shared<'_>,
    thread: usize,
    groups: &[Vec<usize>],
    mut gate: watch::Receiver<Gate>,
    events: mpsc::UnboundedSender<Event>,
) -> Report {
    let mut report = Report {
        thread,
        lanes: Vec::new(),
        latencies: Latencies {
            service: Recorder::new(),
            response: shared.spec.rate.map(|_| Recorder::new()),
        },
    };
    let _entered = shared.stop.halt_blocked().enter();
    let done = set_up(shared, thread).and_then(|runtime| {
        runtime.block_on(async {
            let Some(opened) = open(shared, groups).await else {
                return Ok(());
            };
            let _ = events.send(Event::Ready); // a coordinator that is gone has stopped us
            let Some(start) = started(&mut gate).await else {
                return Ok(());
            };
            drive(shared, start, opened, &mut report, &events, &mut gate).await
        })
    });
    if let Err(error) = done {
        let error = error.context(format_args!("thread {thread}"));
        shared.stop.set(Failure::new(error, None));
    }
    report
}

fn set_up(shared: &Shared<'_>, thread: usize) -> Result<tokio::runtime::Runtime> {
    if let Some(cpus) = &shared.spec.pin {
        pin(cpus[thread % cpus.len()])?;
    }
    runtime()
}

/// Opens the groups one after the other. None: it failed, and the stop is set.
async fn open(shared: &Shared<'_>, groups: &[Vec<usize>]) -> Option<Vec<Opened>> {
    let mut opened = Vec::new();
    for group in groups {
        let begun = Instant::now();
        let work = shared.target.open(group);
        let sessions = guarded(
            "connect",
            work,
            (shared.timeout(), shared.timeout().saturating_mul(PATIENCE)),
            shared.control,
            &shared.stop,
        )
        .await;
        let connect_ns = begun.elapsed().as_nanos() as u64;
        let in_flight = shared.spec.in_flight;
        let sessions =
            sessions.and_then(|sessions| match sessions.len() == group.len() * in_flight {
                true => Ok(sessions),
                false => Err(Error::new(
                    Kind::Internal,
                    "other than `in_flight` sessions a stream",
                )),
            });
        let stream = match group[..] {
            [only] => Some(only),
            _ => None,
        };
        match sessions {
            Ok(sessions) => {
                opened.extend(
                    sessions
                        .into_iter()
                        .enumerate()
                        .map(|(at, session)| Opened {
                            stream: group[at / in_flight],
                            session,
                            connect_ns,
                        }),
                )
            }
            Err(error) => {
                // The target knows which of the group it was, and has said so.
                shared.stop.set(Failure::new(error, stream));
                return None;
            }
        }
    }
    Some(opened)
}

/// Waits at the barrier; the runtime goes on looking after the connections meanwhile.
async fn started(gate: &mut watch::Receiver<Gate>) -> Option<Instant> {
    let state = *gate
        .wait_for(|gate| !matches!(gate, Gate::Closed))
        .await
        .ok()?;
    let Gate::Open(start) = state else {
        return None;
    };
    // The last millisecond of it awake, so that all start together.
    while let Some(left) = start.checked_duration_since(Instant::now()) {
        if left.is_zero() {
            break;
        }
        match left.checked_sub(AWAKE) {
            Some(asleep) if !asleep.is_zero() => std::thread::sleep(asleep),
            _ => std::hint::spin_loop(),
        }
    }
    Some(start)
}

async fn drive(
    shared: &Shared<'_>,
    start: Instant,
    opened: Vec<Opened>,
    report: &mut Report,
    events: &mpsc::UnboundedSender<Event>,
    gate: &mut watch::Receiver<Gate>,
) -> Result<()> {
    let spec = shared.spec;
    let rules = Rules {
        operation: spec.operation,
        start,
        deadline: spec.duration_ns.map(|ns| start + Duration::from_nanos(ns)),
        stop: &shared.stop,
        counters: &shared.counters,
        errors: &shared.errors,
        timeout: shared.timeout(),
        burst: if opened.len() == 1 {
            BURST_ALONE
        } else {
            BURST
        },
    };
    let mut slots: HashMap<usize, Rc<Cell<u64>>> = HashMap::new();
    let mut pace = |stream| {
        let next = slots.entry(stream).or_default();
        let pace = |rate| Pace::new(Slots::new(stream, spec.streams, rate), next.clone());
        let pace = spec.rate.map(pace).transpose();
        pace.map_err(|error| Error::new(Kind::Io, format!("no timer: {error}")))
    };
    let mut lanes = Vec::with_capacity(opened.len());
    for Opened {
        stream,
        session,
        connect_ns,
    } in opened
    {
        let now = Instant::now();
        lanes.push(Lane::new(
            stream,
            stream - spec.own().start,
            spec.lanes(),
            session,
            connect_ns,
            pace(stream)?,
            // Set-up is not a stage: where it is part of the interval, they begin after it.
            if spec.include_setup { now } else { start },
            now,
        ));
    }
    let mut driver = Driver::new(lanes, report.latencies.clone(), &rules);
    let every = RUNNING_TICK.min(rules.timeout / 4);
    let ticks = |every: Duration| {
        let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks
    };
    let mut tick = ticks(every);
    let mut stopped = std::pin::pin!(shared.stop.stopped());
    let mut stopping = false;
    // Unconstrained: fairness between lanes is the driver's, and the runtime's budget
    // would end a burst in its middle.
    tokio::task::unconstrained(std::future::poll_fn(|cx| {
        if !stopping && stopped.as_mut().poll(cx).is_ready() {
            stopping = true;
            tick = ticks(TICK.min(every)); // whoever is blocked is given up soon
        }
        while tick.poll_tick(cx).is_ready() {
            driver.tick(Instant::now());
        }
        driver.poll(cx)
    }))
    .await;
    let _ = events.send(Event::Ended);
    // What a thread has used is told while it lives only, and its connection keeps the
    // server's thread alive.
    let leave = gate.wait_for(|gate| matches!(gate, Gate::Leave));
    let _ = tokio::time::timeout(LEAVE, leave).await;
    report.lanes = driver.lanes.into_iter().map(Lane::outcome).collect();
    report.latencies = driver.latencies;
    Ok(())
}
