//! Reader threads: each has its connections, one read buffer for all of them, a memtable.
//!
//! A thread is one event loop, so that ten thousand idle connections cost ten thousand
//! registrations and nothing else: what a connection holds is the rest of a message.

use std::cell::RefCell;
use std::net::TcpStream as Socket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{json, Value};
use tokio::sync::{watch, Semaphore};

use super::counts;
use super::memtable::Memtable;
use super::recover::Recovered;
use super::store::{Frozen, Store};
use crate::admission::Slot;
use venturi_base::codec::budget::Budget;
use venturi_base::codec::timeseries::parse::resp::Room;
use venturi_base::codec::timeseries::parse::{Scratch, Wrong, MESSAGE};
use venturi_base::os::machine::Place;

/// What one read takes at most: more than the second-level cache holds, but a read's fixed cost in
/// the kernel (acknowledgements) outweighs the misses.
pub const READ: usize = 512 << 10;
/// Points do not stay unsealed for longer, so that what others read is not older.
const AGE: Duration = Duration::from_secs(60);
/// One memtable waits for the sealer while another one is being sealed.
pub const PERMITS: usize = 2;
/// How often is looked whether a seal that was asked for is done.
const POLL: Duration = Duration::from_millis(2);

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Resp,
    Opentsdb,
    Influx,
    Http,
}

pub type Accepted = (Socket, Language, Slot);

/// What every thread may ask for.
#[derive(Debug)]
pub struct Shared {
    pub store: Arc<Store>,
    pub recovered: Recovered,
    pub memtables: Vec<Arc<Mutex<Memtable>>>,
    /// What dictionaries may hold, over all connections.
    pub room: Room,
    /// How often somebody has asked for everything to be sealed, and which of these times
    /// each reader has sent its memtable off.
    pub asked: watch::Sender<u64>,
    pub answered: Vec<AtomicU64>,
    /// Bounds the bodies of requests that are coming in.
    pub bodies: Budget,
    /// One counts at a time, however many ask.
    pub counting: Semaphore,
    pub http_port: u16,
}

/// What the connections of one thread share.
#[derive(Debug)]
pub struct Reader {
    pub shared: Arc<Shared>,
    pub place: usize,
    pub buffer: RefCell<Box<[u8]>>,
    pub scratch: RefCell<Scratch>,
    permits: Arc<Semaphore>,
    sealer: Sender<Arc<Frozen>>,
}

impl Reader {
    pub fn new(
        shared: Arc<Shared>,
        place: usize,
        permits: Arc<Semaphore>,
        sealer: Sender<Arc<Frozen>>,
    ) -> Self {
        Self {
            shared,
            place,
            buffer: RefCell::new(vec![0; READ + MESSAGE + READ].into()),
            scratch: RefCell::default(),
            permits,
            sealer,
        }
    }

    pub fn memtable(&self) -> &Arc<Mutex<Memtable>> {
        &self.shared.memtables[self.place]
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Waits until all that was read is as durable as was promised.
    pub async fn durable(&self) -> Result<(), String> {
        self.store().durable(self.place).await
    }

    /// Waits until the memtable takes more: a full one goes to the sealer as soon as that is
    /// not too far behind. Until then nothing is read, and the peers' sockets fill up.
    pub async fn room(&self) -> Result<(), Wrong> {
        loop {
            if let Some(failure) = self.store().failure() {
                return Err(Wrong::Store(failure));
            }
            if !self.memtable().lock().full() {
                return Ok(());
            }
            match self.permits.acquire().await {
                Err(_) => continue, // closed, as nothing can be written any more
                Ok(permit) => {
                    if self.freeze(|memtable| memtable.full()) {
                        permit.forget();
                    }
                }
            }
        }
    }

    /// Sends the memtable to the sealer if it is time. False: it was not.
    pub fn freeze(&self, due: impl Fn(&Memtable) -> bool) -> bool {
        let mut memtable = self.memtable().lock();
        if !due(&memtable) {
            return false;
        }
        let Some(frozen) = memtable.freeze() else {
            return false;
        };
        // Announced under the lock, so that whoever counts sees it here or there.
        let frozen = self.store().announce(frozen);
        drop(memtable);
        self.sealer.send(frozen).is_ok()
    }

    pub async fn seal_on_request(&self) {
        let mut asked = self.shared.asked.subscribe();
        let answered = &self.shared.answered[self.place];
        loop {
            let wanted = *asked.borrow_and_update();
            if wanted > answered.load(Ordering::Relaxed) {
                // No permit comes when nothing can be written: then the asker is told so.
                if let Ok(permit) = self.permits.acquire().await {
                    if self.freeze(|_| true) {
                        permit.forget();
                    }
                }
                answered.store(wanted, Ordering::Release);
            }
            if asked.changed().await.is_err() {
                return;
            }
        }
    }

    pub async fn grow_old(&self) {
        loop {
            tokio::time::sleep(AGE / 60).await;
            if !self.memtable().lock().older_than(AGE) {
                continue;
            }
            if let Ok(permit) = self.permits.try_acquire() {
                if self.freeze(|memtable| memtable.older_than(AGE)) {
                    permit.forget();
                }
            }
        }
    }
}

impl Shared {
    /// What is stored, and what the last start found.
    pub fn statistics(&self) -> Value {
        let store = &self.store;
        let all = counts::count(store, &self.memtables);
        let catalog = store.catalog.lock();
        let mut statistics = json!({
            "software": concat!("venturi ", env!("CARGO_PKG_VERSION")),
            "place": Place::current(),
            "durable": store.spec.durable,
            "threads": store.spec.threads,
            "series": store.registry.with_points(),
            "stored_bytes": catalog.stored_bytes,
            "log_bytes": store.log_bytes.load(Ordering::Relaxed),
            "segments": catalog.segments,
            "connections": store.admission.open(),
            "late": store.late.load(Ordering::Relaxed),
            "recovered": self.recovered,
            "failure": store.failure(),
        });
        if let (Value::Object(statistics), Value::Object(all)) = (&mut statistics, all.json()) {
            statistics.extend(all);
        }
        statistics
    }

    /// Seals all points that were read before, and waits until that is done.
    pub async fn seal(&self) -> Result<(), String> {
        let mut wanted = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            wanted = *asked;
        });
        let mut waiting: Option<Vec<u64>> = None;
        loop {
            if let Some(failure) = self.store.failure() {
                return Err(failure);
            }
            let sent = |answered: &AtomicU64| answered.load(Ordering::Acquire) >= wanted;
            let all = self.answered.iter().all(sent);
            let sealing = self.store.catalog.lock().sealing.clone();
            match &waiting {
                None if all => waiting = Some(sealing.iter().map(|frozen| frozen.id).collect()),
                // New memtables may be on their way meanwhile; they are not waited for.
                Some(ids) if !sealing.iter().any(|frozen| ids.contains(&frozen.id)) => {
                    return Ok(());
                }
                _ => {}
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
