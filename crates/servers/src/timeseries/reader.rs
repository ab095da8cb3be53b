//! Reader threads: each has its connections, one read buffer for all of them, a head.
//!
//! A thread is one event loop, so that ten thousand idle connections cost ten thousand
//! registrations and nothing else: what a connection holds is the rest of a message.

use std::cell::RefCell;
use std::net::TcpStream as Socket;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{watch, Semaphore};
use tokio::task::LocalSet;

use super::connection;
use super::head::{Frozen, Head};
use super::http;
use super::sealer::announce;
use super::store::Store;
use crate::admission::Slot;
use venturi_base::codec::budget::Budget;
use venturi_base::codec::timeseries::parse::resp::Room;
use venturi_base::codec::timeseries::parse::{Scratch, Wrong, MESSAGE};

/// What one read takes at most: more than the second-level cache holds, but a read's fixed cost in
/// the kernel (acknowledgements) outweighs the misses.
pub const READ: usize = 512 << 10;
/// Points do not stay unsealed for longer, so that what others read is not older.
const AGE: Duration = Duration::from_secs(60);
/// One head waits for the sealer while another one is being sealed.
pub const PERMITS: usize = 2;
/// How often is looked whether a seal that was asked for is done.
const POLL: Duration = Duration::from_millis(2);
/// How long a stopping reader lets answers go out.
const GRACE: Duration = Duration::from_millis(500);

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
    pub heads: Vec<Arc<Mutex<Head>>>,
    /// What dictionaries may hold, over all connections.
    pub room: Room,
    /// How often somebody has asked for everything to be sealed, and which of these times
    /// each reader has sent its head off.
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
    pub fn head(&self) -> &Arc<Mutex<Head>> {
        &self.shared.heads[self.place]
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Waits until the head takes more: a full one goes to the sealer as soon as that is
    /// not too far behind. Until then nothing is read, and the peers' sockets fill up.
    pub async fn room(&self) -> Result<(), Wrong> {
        loop {
            if let Some(failure) = self.store().failure() {
                return Err(Wrong::Store(failure));
            }
            if !self.head().lock().full() {
                return Ok(());
            }
            match self.permits.acquire().await {
                Err(_) => continue, // closed, as nothing can be written any more
                Ok(permit) => {
                    if self.freeze(|head| head.full()) {
                        permit.forget();
                    }
                }
            }
        }
    }

    /// Sends the head to the sealer if it is time. False: it was not.
    fn freeze(&self, due: impl Fn(&Head) -> bool) -> bool {
        let mut head = self.head().lock();
        if !due(&head) {
            return false;
        }
        let Some(frozen) = head.freeze() else {
            return false;
        };
        // Announced under the lock, so that whoever counts sees it here or there.
        let frozen = announce(self.store(), frozen);
        drop(head);
        self.sealer.send(frozen).is_ok()
    }

    async fn seal_when_asked(&self) {
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

    async fn grow_old(&self) {
        loop {
            tokio::time::sleep(AGE / 60).await;
            if !self.head().lock().older_than(AGE) {
                continue;
            }
            if let Ok(permit) = self.permits.try_acquire() {
                if self.freeze(|head| head.older_than(AGE)) {
                    permit.forget();
                }
            }
        }
    }
}

impl Shared {
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
                // New heads may be on their way meanwhile; they are not waited for.
                Some(ids) if !sealing.iter().any(|frozen| ids.contains(&frozen.id)) => {
                    return Ok(());
                }
                _ => {}
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// A reader thread's body: until it is told to stop, then the head is sealed.
pub fn run(
    shared: Arc<Shared>,
    place: usize,
    mut sockets: UnboundedReceiver<Accepted>,
    mut stopped: watch::Receiver<bool>,
    permits: Arc<Semaphore>,
    sealer: Sender<Arc<Frozen>>,
    udp: Option<std::net::UdpSocket>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        shared
            .store
            .fail("a reader thread cannot have its event loop".into());
        return;
    };
    let reader = Rc::new(Reader {
        shared,
        place,
        buffer: RefCell::new(vec![0; READ + MESSAGE + READ].into()),
        scratch: RefCell::default(),
        permits,
        sealer,
    });
    let tasks = LocalSet::new();
    let stop = stopped.clone();
    runtime.block_on(tasks.run_until(async {
        let aging = reader.clone();
        let aging = tokio::task::spawn_local(async move {
            tokio::join!(aging.grow_old(), aging.seal_when_asked());
        });
        if let Some(udp) = udp {
            let (reader, stop) = (reader.clone(), stop.clone());
            tokio::task::spawn_local(async move { super::udp::serve(udp, reader, stop).await });
        }
        loop {
            let next = tokio::select! {
                next = sockets.recv() => next,
                _ = stopped.changed() => None,
            };
            let Some((socket, language, slot)) = next else {
                break;
            };
            let (reader, stop) = (reader.clone(), stop.clone());
            tokio::task::spawn_local(async move {
                let Ok(socket) = TcpStream::from_std(socket) else {
                    return;
                };
                match language {
                    Language::Http => http::serve(socket, &reader, &slot, stop).await,
                    _ => connection::serve(socket, language, &reader, &slot, stop).await,
                }
            });
        }
        aging.abort();
    }));
    // Connections saw the stop too; what they still have to say is short.
    runtime.block_on(async { tokio::time::timeout(GRACE, tasks).await.is_ok() });
    reader.freeze(|_| true);
}
