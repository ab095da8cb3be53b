//! A length of cable between two interfaces of this network namespace: a frame that arrives at one leaves by
//! the other after a time, or is lost. Rate and buffer are not its affair: the queue of the interface by which
//! a frame leaves has them.
//!
//! A thread a direction. A frame's time counts from its arrival as the kernel saw it, so a thread that is
//! woken late delays only what should have gone by then.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::frames::{Port, Room};
use super::length::{Fate, Length, Way};

/// How often a thread without work looks whether it shall end.
const TICK: Duration = Duration::from_millis(50);

/// What lies between two interfaces.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Between {
    pub interfaces: [String; 2],
    /// From the first to the second, and back.
    pub ways: [Way; 2],
    /// Of chance: the same frames are lost again.
    pub seed: u64,
}

/// What happened to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Passed {
    pub frames: u64,
    pub bytes: u64,
    /// By chance, as was asked.
    pub lost: u64,
    /// Because too much was under way, or this end too slow: then the link was not what was asked for.
    pub overrun: u64,
}

#[derive(Default)]
struct Counts {
    frames: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    overrun: AtomicU64,
}

/// Runs until it is dropped.
pub struct Relay {
    ending: Arc<AtomicBool>,
    ways: Vec<(Arc<Counts>, JoinHandle<io::Result<()>>)>,
}

impl Relay {
    pub fn start(between: &Between) -> io::Result<Self> {
        let ([there, back], seed) = (between.ways, between.seed);
        let open = |n: usize, way: Way| {
            let end = &between.interfaces[n];
            let named = |error| io::Error::other(format!("{end}: {error}"));
            Port::open(end, way.buffer).map(Arc::new).map_err(named)
        };
        let (first, second) = (open(0, back)?, open(1, there)?);
        let ending = Arc::new(AtomicBool::new(false));
        let mut made = Self {
            ending,
            ways: vec![],
        };
        for (from, to, way, seed) in [
            (first.clone(), second.clone(), there, seed),
            (second, first, back, !seed),
        ] {
            let counts = Arc::new(Counts::default());
            let direction = Direction {
                queue: way.buffer.saturating_sub(to.sends()),
                from,
                to,
                length: Length::new(way, seed),
                counts: counts.clone(),
            };
            let ending = made.ending.clone();
            let builder = std::thread::Builder::new().name("venturi-link".into());
            let thread = builder.spawn(move || direction.run(&ending))?;
            made.ways.push((counts, thread));
        }
        Ok(made)
    }

    /// Of both directions, since the start. An error where one has ended.
    pub fn passed(&self) -> io::Result<[Passed; 2]> {
        let of = |n: usize| {
            let (counts, thread) = &self.ways[n];
            if thread.is_finished() {
                return Err(io::Error::other("the relay has ended in mid-trial"));
            }
            Ok(Passed {
                frames: counts.frames.load(Relaxed),
                bytes: counts.bytes.load(Relaxed),
                lost: counts.lost.load(Relaxed),
                overrun: counts.overrun.load(Relaxed),
            })
        };
        Ok([of(0)?, of(1)?])
    }

    /// Ends both directions; an error where one had ended before.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.ending.store(true, Relaxed);
        let mut found = Ok(());
        for (_, thread) in self.ways.drain(..) {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
            found = found.and(ended);
        }
        found
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

struct Direction {
    from: Arc<Port>,
    to: Arc<Port>,
    length: Length,
    /// Bytes of the interface's queue that the kernel does not keep for us.
    queue: usize,
    counts: Arc<Counts>,
}

impl Direction {
    fn run(mut self, ending: &AtomicBool) -> io::Result<()> {
        be_punctual();
        let mut room = Room::default();
        while !ending.load(Relaxed) {
            let full = self.release()?;
            if full {
                // The kernel keeps no more for us: what waits here is of the same queue.
                self.length.trim(now_ns(), self.queue);
                self.to.wait(libc::POLLOUT, Duration::from_millis(1))?;
            } else {
                let now = now_ns();
                let next = self.length.next().map(|due| due.saturating_sub(now));
                let patience = next.map_or(TICK, Duration::from_nanos).min(TICK);
                self.from.wait(libc::POLLIN, patience)?;
            }
            self.take(&mut room)?;
        }
        Ok(())
    }

    /// Sends what is due; whether the interface takes no more for now.
    fn release(&mut self) -> io::Result<bool> {
        let now = now_ns();
        loop {
            let mut due = self.length.due(now).peekable();
            if due.peek().is_none() {
                return Ok(false);
            }
            match self.to.send(due) {
                Ok(sent) => {
                    let gone = self.length.leave(sent);
                    self.counts.frames.fetch_add(sent as u64, Relaxed);
                    self.counts.bytes.fetch_add(gone as u64, Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if refused(&error) => {
                    self.length.leave(1);
                    self.counts.overrun.fetch_add(1, Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes in what has arrived.
    fn take(&mut self, room: &mut Room) -> io::Result<()> {
        let (from, counts) = (&self.from, &self.counts);
        let got = from.receive(room, |frame, arrived| {
            let count = match self.length.enter(frame, arrived, now_ns()) {
                Fate::UnderWay => return,
                Fate::Lost => &counts.lost,
                Fate::NoRoom => &counts.overrun,
            };
            count.fetch_add(1, Relaxed);
        });
        match got {
            // All is read: what was dropped for want of room has been by now.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                counts.overrun.fetch_add(from.missed()?, Relaxed);
                Ok(())
            }
            // Kernels before 6.2 cannot say how a host's datagrams are to be cut, and drop them all.
            Err(error) if refused(&error) => {
                counts.overrun.fetch_add(1, Relaxed);
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }
}

/// Whether an interface does not take this frame, but may take the next.
fn refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EMSGSIZE))
}

/// Gives this thread precise timers and a real-time priority, as far as this user may.
pub(super) fn be_punctual() {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: numbers, and a structure that the call only reads.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_RR, &first);
    }
}

fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos() as u64
}
