//! The places of a server's connections. Where all are taken, a client that the server waits for makes room:
//! first who has never said to its end what it wants, the longest silent one of all.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, AtomicU8, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use socket2::Socket;
use tokio::sync::Notify;

use crate::account::Trial;

/// Clients that are told at a time that the server is full, and those that make room at a time.
const MOST_LEAVING: usize = 64;

/// What a connection does, as far as its place is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its client has not said to its end what it wants.
    HalfSaid = 0,
    /// It wants nothing, or goes on for no trial.
    Waiting = 1,
    /// It stays.
    Busy = 2,
}

#[derive(Debug)]
pub(crate) struct Places {
    started: Instant,
    most: usize,
    /// Who has said what it wants is silent for so long before it makes room, others for a tenth of it: a good
    /// client may still be on its way.
    patience: Duration,
    numbers: AtomicU64,
    open: Mutex<Open>,
    /// No more threads than these are beside those of the places.
    turned_away: AtomicUsize,
    leaving: AtomicUsize,
}

/// By number; the socket is shut down by whoever takes its place.
type Open = BTreeMap<u64, (Option<Socket>, Arc<Seen>)>;

#[derive(Debug)]
struct Seen {
    standing: AtomicU8,
    /// When the connection did something last, in nanoseconds from the server's start.
    stirred: AtomicU64,
    gone: Notify,
}

/// Of a connection that moves rows, for a trial or for none.
pub(crate) fn moving(trial: &Option<Trial>) -> Standing {
    match trial {
        Some(_) => Standing::Busy,
        None => Standing::Waiting,
    }
}

/// That of one connection; given back when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    seen: Arc<Seen>,
    /// Why there is none: the client is told so.
    pub full: Option<String>,
}

impl Places {
    pub fn new(most: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            most,
            patience,
            numbers: AtomicU64::new(0),
            open: Mutex::default(),
            turned_away: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
        })
    }

    /// Without a socket the connection itself waits until its place is `taken`. `None`: so many are turned away
    /// already that this one is told nothing.
    pub fn take(self: &Arc<Self>, socket: Option<&Socket>) -> Option<Place> {
        // Without descriptors for it the next one may have more luck.
        let socket = socket.map(Socket::try_clone).transpose().ok()?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let seen = Arc::new(Seen {
            standing: AtomicU8::new(Standing::HalfSaid as u8),
            stirred: AtomicU64::new(self.now()),
            gone: Notify::new(),
        });
        let mut full = None;
        let mut open = self.open.lock();
        if open.len() < self.most || self.make_room(&mut open) {
            open.insert(number, (socket, seen.clone()));
        } else if self.turned_away.load(Ordering::Relaxed) < MOST_LEAVING {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            full = Some(format!("{} connections are open, and this server has no more at a time (--max-connections): try again later", self.most));
        } else {
            return None;
        }
        let places = self.clone();
        Some(Place {
            places,
            number,
            seen,
            full,
        })
    }

    fn make_room(&self, open: &mut Open) -> bool {
        let waited_for = |seen: &Seen| {
            let stirred = seen.stirred.load(Ordering::Relaxed);
            let since = Duration::from_nanos(self.now().saturating_sub(stirred));
            let standing = seen.standing.load(Ordering::Relaxed);
            let long = match standing {
                0 => self.patience / 10,
                1 => self.patience,
                _ => Duration::MAX,
            };
            (since >= long).then_some((standing, stirred))
        };
        let found = open
            .iter()
            .filter_map(|(number, (_, seen))| Some((waited_for(seen)?, *number)));
        let Some((_, number)) = found.min() else {
            return false;
        };
        // The threads of those that went before have still to end.
        if self.leaving.load(Ordering::Relaxed) >= MOST_LEAVING {
            return false;
        }
        if let Some((socket, seen)) = open.remove(&number) {
            self.leaving.fetch_add(1, Ordering::Relaxed);
            seen.gone.notify_one();
            let _ = socket.map(|socket| socket.shutdown(Shutdown::Both));
        }
        true
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    pub fn open(&self) -> usize {
        self.open.lock().len()
    }

    /// Whether no thread of a connection is left.
    pub fn is_empty(&self) -> bool {
        let beside = [&self.turned_away, &self.leaving].map(|count| count.load(Ordering::Relaxed));
        beside == [0, 0] && self.open() == 0
    }
}

impl Place {
    /// When another connection has it.
    pub async fn taken(&self) {
        self.seen.gone.notified().await;
    }

    /// Gives the place back: the client is told why.
    pub fn refuse(&mut self, why: String) {
        if self.places.open.lock().remove(&self.number).is_some() {
            self.places.turned_away.fetch_add(1, Ordering::Relaxed);
            self.full = Some(why);
        }
    }

    /// It did something just now.
    pub fn stir(&self) {
        let now = self.places.now();
        self.seen.stirred.store(now, Ordering::Relaxed);
    }

    pub fn stand(&self, standing: Standing) {
        self.stir();
        let standing = standing as u8;
        self.seen.standing.store(standing, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let held = self.places.open.lock().remove(&self.number).is_some();
        let count = match self.full {
            Some(_) => &self.places.turned_away,
            None if held => return,
            None => &self.places.leaving,
        };
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_room() {
        for (patience, makes_room) in [(0, true), (36_000, false)] {
            let places = Places::new(2, Duration::from_secs(patience));
            let take = || places.take(None).unwrap();
            let (busy, waiting) = (take(), take());
            busy.stand(Standing::Busy);
            waiting.stand(Standing::Waiting);
            assert_eq!(take().full.is_none(), makes_room);
            let next = take();
            assert_eq!(next.full.is_none(), makes_room);
            next.stand(Standing::Busy);
            assert!(take().full.is_some());
            drop((busy, waiting, next));
            assert!(places.is_empty());
        }
    }
}
