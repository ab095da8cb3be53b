//! The one thing that crosses the line while a clock runs: cancel, and progress.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Notify;

use crate::meter::counters::Counters;

/// Where a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Phase {
    SetUp,
    Running,
    Verifying,
    Done,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::SetUp => "set-up",
            Phase::Running => "running",
            Phase::Verifying => "verifying",
            Phase::Done => "done",
        }
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
        self.0.cancel.store(true, Relaxed);
        // A permit is kept for a trial that does not wait yet; one trial has a control.
        self.0.wake.notify_one();
    }

    /// Returns when the trial shall end, and now and then before.
    pub(super) async fn asked(&self) {
        self.0.wake.notified().await;
    }

    pub fn cancelled(&self) -> bool {
        self.0.cancel.load(Relaxed)
    }

    pub fn progress(&self) -> Progress {
        let phase = match self.0.phase.load(Relaxed) {
            0 => Phase::SetUp,
            1 => Phase::Running,
            2 => Phase::Verifying,
            _ => Phase::Done,
        };
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

    pub(crate) fn enter(&self, phase: Phase) {
        self.0.phase.store(phase as u8, Relaxed);
        if phase != Phase::SetUp {
            if let Some(running) = self.running().as_mut() {
                if phase != Phase::Running && running.elapsed.is_none() {
                    running.elapsed = Some(running.start.elapsed());
                }
            }
        }
    }

    pub(crate) fn start(&self, start: Instant, counters: Arc<[Counters]>) {
        *self.running() = Some(Running {
            counters,
            start,
            elapsed: None,
        });
        self.enter(Phase::Running);
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
