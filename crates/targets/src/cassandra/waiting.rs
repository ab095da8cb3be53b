//! Lanes that wait for one connection.

use std::sync::Arc;
use std::task::{Wake, Waker};

use parking_lot::{Mutex, MutexGuard};

/// Whom the socket wakes: one lane that waits, which then looks after the others.
pub struct Waiting(Mutex<Vec<Option<Waker>>>);

impl Waiting {
    pub fn new(lanes: usize) -> Self {
        Self(Mutex::new(vec![None; lanes]))
    }

    pub fn all(&self) -> MutexGuard<'_, Vec<Option<Waker>>> {
        self.0.lock()
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let first = self.all().iter().flatten().next().cloned();
        if let Some(lane) = first {
            lane.wake();
        }
    }
}
