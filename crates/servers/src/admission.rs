//! Which connections a server has. Where it takes no more, one that asks for nothing makes room for the next.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{ready, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Connections that are refused at a time, and those that are evicted.
const MOST_LEAVING: usize = 64;
/// How long an evicted connection has to end before its thread or its descriptors are asked for.
const PAUSE: Duration = Duration::from_millis(20);

/// What a connection does, in the order in which they make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Activity {
    /// Its request has not come to its end, or none has ever begun.
    Incomplete,
    /// No call is open.
    Idle,
    /// A call is open, or a trial was named: it stays.
    Protected,
}

#[derive(Debug)]
pub(crate) struct Admission {
    most: usize,
    /// An idle connection stays so long, one with an incomplete request a tenth of it.
    patience: Duration,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    connections: BTreeMap<u64, Entry>,
    /// How many of the connections were evicted and have not ended yet.
    evicted: usize,
    /// Beside the connections.
    refused: usize,
}

#[derive(Debug)]
struct Entry {
    state: State,
    signal: Arc<Signal>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    activity: Activity,
    since: Instant,
    /// When its last call ended, or it was accepted: what it begins and gives up does not count.
    unserved: Instant,
}

#[derive(Debug, Default)]
struct Signal {
    evicted: AtomicBool,
    woken: Notify,
}

/// That of one connection; given back when it is dropped.
pub(crate) struct Slot {
    admission: Arc<Admission>,
    number: u64,
    signal: Arc<Signal>,
    activity: Cell<Activity>,
    /// Why the server refuses the connection; its client is sent this.
    pub refusal: Option<String>,
}

impl State {
    fn new(now: Instant) -> Self {
        Self {
            activity: Activity::Incomplete,
            since: now,
            unserved: now,
        }
    }

    fn may_leave(&self, patience: Duration, now: Instant) -> bool {
        let unserved = now.saturating_duration_since(self.unserved) >= patience;
        match self.activity {
            Activity::Incomplete => {
                unserved || now.saturating_duration_since(self.since) >= patience / 10
            }
            Activity::Idle => unserved,
            Activity::Protected => false,
        }
    }
}

impl Admission {
    pub fn new(most: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            most,
            patience,
            open: Mutex::default(),
        })
    }

    /// `None` if too many refused clients wait for their answer: this one is closed without one.
    pub fn admit(self: &Arc<Self>) -> Option<Slot> {
        let now = Instant::now();
        let signal = Arc::new(Signal::default());
        let mut refusal = None;
        let mut open = self.open.lock();
        open.last += 1;
        let number = open.last;
        let mut has_room = self.has_room(&open);
        while !has_room && self.evict(&mut open, now) {
            has_room = self.has_room(&open);
        }
        if has_room {
            let entry = Entry {
                state: State::new(now),
                signal: signal.clone(),
            };
            open.connections.insert(number, entry);
        } else if open.refused < MOST_LEAVING {
            open.refused += 1;
            refusal = Some(self.why());
        } else {
            return None;
        }
        drop(open);
        Some(Slot {
            admission: self.clone(),
            number,
            signal,
            activity: Cell::new(Activity::Incomplete),
            refusal,
        })
    }

    fn has_room(&self, open: &Open) -> bool {
        open.connections.len() - open.evicted < self.most
    }

    fn why(&self) -> String {
        let open = match self.most {
            1 => "1 connection is open".to_owned(),
            most => format!("{most} connections are open"),
        };
        format!(
            "{open}, and this server has no more at a time (--max-connections): try again later"
        )
    }

    /// Wakes one connection, which ends unless it finds that a request has come.
    fn evict(&self, open: &mut Open, now: Instant) -> bool {
        if open.evicted >= MOST_LEAVING {
            return false;
        }
        let staying = open
            .connections
            .values()
            .filter(|entry| !entry.signal.evicted.load(Ordering::Relaxed));
        let found = staying
            .filter(|entry| entry.state.may_leave(self.patience, now))
            .min_by_key(|entry| (entry.state.activity, entry.state.since));
        let Some(entry) = found else { return false };
        entry.signal.evicted.store(true, Ordering::Relaxed);
        entry.signal.woken.notify_one();
        open.evicted += 1;
        true
    }

    /// Where threads or descriptors are used up. False: nobody can go.
    fn make_room(&self) -> bool {
        self.evict(&mut self.open.lock(), Instant::now())
    }

    /// Without a descriptor for the next connection one that is open makes room for it.
    pub fn accept_failed(&self, error: &std::io::Error) {
        if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            self.make_room();
        }
    }

    /// What fails for want of a thread or a descriptor is tried again once.
    pub fn with_room<T, E>(&self, attempt: impl Fn() -> Result<T, E>) -> Result<T, E> {
        attempt().or_else(|error| {
            if !self.make_room() {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
            attempt()
        })
    }

    pub fn open(&self) -> usize {
        self.open.lock().connections.len()
    }

    /// Whether no thread of a connection is left.
    pub fn is_empty(&self) -> bool {
        let open = self.open.lock();
        open.connections.is_empty() && open.refused == 0
    }
}

impl Slot {
    /// Whoever begins or ends a call stays.
    pub fn set_activity(&self, activity: Activity) {
        let before = self.activity.replace(activity);
        if before == activity || self.refusal.is_some() {
            return;
        }
        let now = Instant::now();
        let mut open = self.admission.open.lock();
        if let Some(entry) = open.connections.get_mut(&self.number) {
            entry.state.activity = activity;
            entry.state.since = now;
            if before == Activity::Protected {
                entry.state.unserved = now;
            }
        }
        if self.signal.evicted.swap(false, Ordering::Relaxed) {
            open.evicted -= 1;
        }
    }

    /// The connection has to end; its client is sent `why`.
    pub fn is_evicted(&self) -> bool {
        self.signal.evicted.load(Ordering::Relaxed)
    }

    pub fn why(&self) -> String {
        self.admission.why()
    }

    pub async fn evicted(&self) {
        let woken = || self.signal.woken.notified();
        let mut waiting = pin!(woken());
        poll_fn(|cx| {
            // Without the lock within: rows may be moving.
            if self.activity.get() == Activity::Protected {
                return Poll::Pending;
            }
            while !self.is_evicted() {
                ready!(waiting.as_mut().poll(cx));
                waiting.set(woken());
            }
            Poll::Ready(())
        })
        .await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.admission.open.lock();
        open.connections.remove(&self.number);
        open.refused -= usize::from(self.refusal.is_some());
        open.evicted -= usize::from(self.is_evicted());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Activity::{Idle, Incomplete, Protected};

    #[test]
    fn who_makes_room() {
        let now = Instant::now() + Duration::from_secs(3600);
        // Seconds in this activity, and since its last call.
        for (connections, leaves) in [
            (&[(Protected, 3600, 3600)][..], None),
            (&[(Idle, 9, 9), (Incomplete, 0, 9)], None),
            (&[(Idle, 10, 10), (Protected, 0, 99)], Some(0)),
            // Half a request goes first, the longest of them.
            (&[(Idle, 99, 99), (Incomplete, 1, 1)], Some(1)),
            (&[(Incomplete, 2, 5), (Incomplete, 3, 3)], Some(1)),
            // Given up and begun again and again.
            (&[(Incomplete, 0, 10)], Some(0)),
            (&[(Idle, 0, 10)], Some(0)),
        ] {
            let admission = Admission::new(connections.len(), Duration::from_secs(10));
            let slots: Vec<_> = (connections.iter())
                .map(|_| admission.admit().unwrap())
                .collect();
            let mut open = admission.open.lock();
            let ago = |seconds| now - Duration::from_secs(seconds);
            for (entry, &(activity, since, unserved)) in
                open.connections.values_mut().zip(connections)
            {
                let (since, unserved) = (ago(since), ago(unserved));
                entry.state = State {
                    activity,
                    since,
                    unserved,
                };
            }
            admission.evict(&mut open, now);
            drop(open);
            assert_eq!(slots.iter().position(Slot::is_evicted), leaves);
            drop(slots);
            assert!(admission.is_empty());
        }
    }

    #[test]
    fn a_request_that_has_just_come_stays() {
        let admission = Admission::new(1, Duration::ZERO);
        let admit = || admission.admit().unwrap();
        let (first, second) = (admit(), admit());
        assert!(first.is_evicted() && second.refusal.is_none());
        first.set_activity(Protected);
        assert!(!first.is_evicted());
        // One too many is there now.
        let third = admit();
        assert!(second.is_evicted() && third.refusal.is_some());
        drop((first, second, third));
        assert!(admission.is_empty() && admit().refusal.is_none());
    }
}
