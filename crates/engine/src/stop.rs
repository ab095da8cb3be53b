//! Why and when a trial ends before its work is done: cancelled, or a stream failed.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::control::Control;
use super::record::Failure;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::halt::Halt;
use venturi_base::limit;

/// How long a blocked stream may go on after a cancel...
pub const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// ... and after another stream has failed: the trial is lost, so it ends quickly.
pub const FAILURE_GRACE: Duration = Duration::from_millis(100);

/// How often blocked work looks up.
pub const TICK: Duration = Duration::from_millis(20);
/// The same while the clock runs and nothing has stopped it, which wakes the threads by itself.
/// Each look costs a thread that waits for a slow answer some 20 us of its CPU.
pub const RUNNING_TICK: Duration = Duration::from_secs(1);

/// Set once; the first reason stands. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    set: AtomicBool,
    why: Mutex<Option<(Failure, Instant)>>,
    wake: Notify,
}

impl Stop {
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Relaxed)
    }

    pub fn set(&self, failure: Failure) {
        let grace = match failure.kind {
            Kind::Cancelled => CANCEL_GRACE,
            _ => FAILURE_GRACE,
        };
        self.why()
            .get_or_insert_with(|| (failure, Instant::now() + grace));
        self.0.set.store(true, Ordering::Release);
        self.0.wake.notify_waiters();
    }

    /// Waits until it is set.
    pub async fn stopped(&self) {
        loop {
            let mut woken = pin!(self.0.wake.notified());
            // From here on no call is missed.
            woken.as_mut().enable();
            if self.0.set.load(Ordering::Acquire) {
                return;
            }
            woken.await;
        }
    }

    /// From when on blocked streams are given up.
    pub fn give_up_at(&self) -> Option<Instant> {
        self.why().as_ref().map(|(_, at)| *at)
    }

    pub fn failure(&self) -> Option<Failure> {
        self.why().as_ref().map(|(failure, _)| failure.clone())
    }

    fn why(&self) -> MutexGuard<'_, Option<(Failure, Instant)>> {
        self.0.why.lock()
    }

    /// For a lane that blocks its thread, as a database in this process does: it is given up when
    /// those are that wait.
    pub fn halt_blocked(&self) -> Halt {
        let stop = self.clone();
        Halt::new(move || {
            let at = stop.is_set().then(|| stop.give_up_at()).flatten()?;
            (Instant::now() >= at).then(Error::cancelled)
        })
    }

    /// For what computes outside of the clock: it ends with the trial, or when `limit` is over.
    pub fn halt(&self, control: &Control, limit: Option<(Instant, String)>) -> Halt {
        let (stop, control) = (self.clone(), control.clone());
        Halt::new(move || {
            if control.cancelled() || stop.is_set() {
                return Some(Error::cancelled());
            }
            let (_, said) = limit.as_ref().filter(|(end, _)| Instant::now() >= *end)?;
            Some(Error::new(Kind::Timeout, said.clone()))
        })
    }
}

/// Waits for `work`, but no longer than `timeout`, nor past a cancel or a stop. `what`
/// names it where the time is over; the target's own errors say what they are about. What it
/// computes by itself has `longest`, and asks (`halt`) whether it shall end.
pub async fn guarded<T>(
    what: &str,
    work: impl Future<Output = Result<T>>,
    (timeout, longest): (Duration, Duration),
    control: &Control,
    stop: &Stop,
) -> Result<T> {
    let watch = async {
        while !control.cancelled() && !stop.is_set() {
            tokio::time::sleep(TICK).await;
        }
        Error::cancelled()
    };
    let seconds = longest.as_secs_f64();
    let said = format!(
        "{what}: not done after {seconds} s: let it make less, or give it a longer time-out"
    );
    let end = Instant::now().checked_add(longest);
    let halt = stop.halt(control, end.map(|end| (end, said)));
    let mut work = pin!(work);
    let work = std::future::poll_fn(|cx| {
        let _entered = halt.enter();
        work.as_mut().poll(cx)
    });
    let late = |over| Error::new(Kind::Timeout, format!("{what}: no answer for {over}"));
    tokio::select! {
        biased;
        done = limit::within(timeout, work) => done.unwrap_or_else(|over| Err(late(over))),
        error = watch => Err(error),
    }
}
