//! Group commit: one `fdatasync` serves every connection that waits for it.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::config::Durable;
use super::store::Store;

/// Nobody has asked for longer than this: what is written goes to the disk all the same.
const PERIOD: Duration = Duration::from_millis(200);

/// What one reader has written and what of it is on the disk, as counts of writes.
#[derive(Debug)]
pub struct Commit {
    durable: Durable,
    written: AtomicU64,
    dirty: Mutex<Vec<Arc<File>>>,
    synced: watch::Sender<u64>,
}

/// Wakes the thread that syncs.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.bell.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock();
        self.bell.wait_while_for(&mut rung, |rung| !*rung, PERIOD);
        *rung = false;
    }
}

impl Commit {
    pub fn new(durable: Durable) -> Self {
        Self {
            durable,
            written: AtomicU64::new(0),
            dirty: Mutex::default(),
            synced: watch::Sender::new(0),
        }
    }

    /// A turn was written to this file.
    pub fn written(&self, file: &Arc<File>) {
        if self.durable != Durable::Fsync {
            return;
        }
        let mut dirty = self.dirty.lock();
        if !dirty.iter().any(|known| Arc::ptr_eq(known, file)) {
            dirty.push(file.clone());
        }
        drop(dirty);
        self.written.fetch_add(1, Ordering::Release);
    }

    /// Waits until all that was written up to now is as durable as was promised.
    pub async fn durable(&self, store: &Store) -> Result<(), String> {
        if self.durable == Durable::Fsync {
            let written = self.written.load(Ordering::Acquire);
            if *self.synced.borrow() < written {
                store.bell.ring();
                let mut synced = self.synced.subscribe();
                // The sender lives as long as the store does.
                let _ = synced.wait_for(|&synced| synced >= written).await;
            }
        }
        store.failure().map_or(Ok(()), Err)
    }

    fn sync(&self, store: &Store) {
        let written = self.written.load(Ordering::Acquire);
        if *self.synced.borrow() >= written {
            return;
        }
        let dirty = std::mem::take(&mut *self.dirty.lock());
        for file in dirty {
            // After an error nobody knows what the disk has, so it is final.
            if let Err(error) = file.sync_data() {
                store.fail(format!("cannot sync a log: {error}"));
            }
        }
        self.synced.send_replace(written);
    }
}

/// The body of the syncing thread: until the store goes.
pub fn run(store: &Weak<Store>, bell: &Bell) {
    loop {
        bell.wait();
        let Some(store) = store.upgrade() else { return };
        for commit in &store.commits {
            commit.sync(&store);
        }
        if store.closed() {
            return;
        }
    }
}
