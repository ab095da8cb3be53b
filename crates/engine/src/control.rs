//! What crosses the line while a trial runs: cancel and progress; and, where it is one of several
//! processes of a trial, what lines it up with the others.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use serde::Serialize;
use tokio::sync::Notify;

use super::tallies::{self, Counted};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::counters::Counters;

/// Where a trial stands; it only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Phase {
    SetUp,
    /// What the trial needs is there at the server.
    Planned,
    /// All streams are connected.
    Ready,
    Running,
    /// All streams have ended, and it is known what they moved.
    Counted,
    Verifying,
    Done,
}

impl Phase {
    const ALL: [Phase; 7] = [
        Phase::SetUp,
        Phase::Planned,
        Phase::Ready,
        Phase::Running,
        Phase::Counted,
        Phase::Verifying,
        Phase::Done,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Phase::SetUp => "set-up",
            Phase::Planned => "planned",
            Phase::Ready => "ready",
            Phase::Running => "running",
            Phase::Counted => "counted",
            Phase::Verifying => "verifying",
            Phase::Done => "done",
        }
    }

    pub fn of_name(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|phase| phase.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Phase::name).join(", ");
            Error::usage(format!("there is no phase {name:?}; known: {names}"))
        })
    }
}

/// Shared between the trial and whoever watches it. Cheap to clone; one a trial.
#[derive(Debug, Clone, Default)]
pub struct Control(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cancel: AtomicBool,
    wake: Notify,
    phase: AtomicU8,
    running: Mutex<Option<Running>>,
    agreed: Mutex<Agreed>,
    /// With `agreed`: the phase, or what is there, is another one.
    changed: Condvar,
}

/// What this process tells the others of its trial, and hears from them.
#[derive(Debug, Default)]
struct Agreed {
    start_unix_ns: Option<u64>,
    own: Option<String>,
    others: Option<Vec<Counted>>,
}

#[derive(Debug, Clone)]
struct Running {
    counters: Arc<[Counters]>,
    start: Instant,
    /// Frozen when the streams have ended.
    elapsed: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Progress {
    pub phase: Phase,
    pub rows: u64,
    /// Payload bytes.
    pub bytes: u64,
    pub batches: u64,
    /// Since the start instant; 0 during set-up.
    pub elapsed_ns: u64,
}

impl Control {
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the trial to end: between batches, or after a second if blocked.
    pub fn cancel(&self) {
        self.0.cancel.store(true, Ordering::Relaxed);
        // A permit is kept for a trial that does not wait yet; one trial has a control.
        self.0.wake.notify_one();
        self.tell();
    }

    /// Returns when the trial shall end or may start, and now and then before.
    pub(super) async fn changed(&self) {
        self.0.wake.notified().await;
    }

    pub fn cancelled(&self) -> bool {
        self.0.cancel.load(Ordering::Relaxed)
    }

    pub fn progress(&self) -> Progress {
        let phase = self.phase();
        let running = self.running().clone();
        let counts = running
            .as_ref()
            .map(|r| Counters::sum(&r.counters))
            .unwrap_or_default();
        let elapsed = running.map_or(Duration::ZERO, |running| {
            running.elapsed.unwrap_or_else(|| running.start.elapsed())
        });
        Progress {
            phase,
            rows: counts.rows,
            bytes: counts.bytes,
            batches: counts.batches,
            elapsed_ns: elapsed.as_nanos() as u64,
        }
    }

    /// Waits until the trial has reached a phase, or a later one: a trial that fails is done.
    /// False: it has not within `limit`.
    pub fn wait(&self, phase: Phase, limit: Duration) -> bool {
        let before = |_: &mut Agreed| self.phase() < phase;
        let changed = &self.0.changed;
        changed.wait_while_for(&mut self.agreed(), before, limit);
        self.phase() >= phase
    }

    /// When the streams of a share shall start, on this host's clock. An error: it is known already.
    pub fn start_at(&self, unix_ns: u64) -> Result<()> {
        let mut agreed = self.agreed();
        if agreed.start_unix_ns.is_some() {
            return Err(Error::usage("the trial has been told when to start"));
        }
        agreed.start_unix_ns = Some(unix_ns);
        drop(agreed);
        self.0.wake.notify_one();
        Ok(())
    }

    pub(super) fn agreed_start(&self) -> Option<u64> {
        self.agreed().start_unix_ns
    }

    /// What each stream of a share has counted, as JSON; `None`: they have not ended well, or not
    /// yet.
    pub fn tallies(&self) -> Option<String> {
        self.agreed().own.clone()
    }

    pub(super) fn publish(&self, own: String) {
        self.agreed().own = Some(own);
    }

    /// To the lead: what the streams of all others have counted, as their `tallies` say. An error:
    /// it cannot be read, or has been said before.
    pub fn conclude(&self, tallies: &str) -> Result<()> {
        let others = tallies::parse(tallies)?;
        let mut agreed = self.agreed();
        if agreed.others.is_some() {
            return Err(Error::usage("the trial has been given the others' tallies"));
        }
        agreed.others = Some(others);
        drop(agreed);
        self.tell();
        Ok(())
    }

    /// What the others have counted; an error: cancelled, or nobody says so within `limit`.
    pub(super) fn await_counts(&self, limit: Duration) -> Result<Vec<Counted>> {
        let waits = |agreed: &mut Agreed| agreed.others.is_none() && !self.cancelled();
        let mut agreed = self.agreed();
        self.0.changed.wait_while_for(&mut agreed, waits, limit);
        match agreed.others.clone() {
            Some(others) => Ok(others),
            None if self.cancelled() => Err(Error::cancelled()),
            None => Err(Error::new(
                Kind::Timeout,
                format!(
                    "nobody told within {} s what the other processes of the trial have counted",
                    limit.as_secs_f64()
                ),
            )),
        }
    }

    fn phase(&self) -> Phase {
        let phase = self.0.phase.load(Ordering::Acquire);
        Phase::ALL
            .get(usize::from(phase))
            .copied()
            .unwrap_or(Phase::Done)
    }

    pub fn enter(&self, phase: Phase) {
        self.0.phase.fetch_max(phase as u8, Ordering::AcqRel);
        if phase > Phase::Running {
            if let Some(running) = self.running().as_mut() {
                if running.elapsed.is_none() {
                    running.elapsed = Some(running.start.elapsed());
                }
            }
        }
        self.tell();
    }

    pub fn start(&self, start: Instant, counters: Arc<[Counters]>) {
        *self.running() = Some(Running {
            counters,
            start,
            elapsed: None,
        });
        self.enter(Phase::Running);
    }

    /// Whoever waits looks again; the lock keeps it from falling asleep in between.
    fn tell(&self) {
        drop(self.agreed());
        self.0.changed.notify_all();
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.running.lock()
    }

    fn agreed(&self) -> MutexGuard<'_, Agreed> {
        self.0.agreed.lock()
    }
}
