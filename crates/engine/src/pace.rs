//! The open loop: a fixed schedule that does not wait for the system under test.
//!
//! Slot k of stream s is due at (k x streams + s) / rate after the start instant, so the
//! slots of all streams are evenly spaced. A slot that finds its stream still busy is
//! sent as soon as the stream is free; none is skipped.
//!
//! Waiting: a timer of the system until 50 us before the slot, then polling without
//! sleeping, which lets the thread's other streams and its sockets go on. So a slot
//! is met to a few microseconds on an idle CPU. Where there is no `timerfd` (macOS) the
//! runtime's timer wakes 2 ms before, and the polling is that much longer.

use std::cell::Cell;
#[cfg(not(target_os = "linux"))]
use std::future::Future;
#[cfg(not(target_os = "linux"))]
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A batch sent later than this after its slot counts as late.
pub const LATE_NS: u64 = 100_000;

#[cfg(target_os = "linux")]
const SPIN: Duration = Duration::from_micros(50);
#[cfg(not(target_os = "linux"))]
const SPIN: Duration = Duration::from_millis(2);

/// When the slots of one stream are due.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    stream: usize,
    streams: usize,
    /// Batches per second, all streams.
    rate: f64,
}

impl Slots {
    pub fn new(stream: usize, streams: usize, rate: f64) -> Self {
        Self {
            stream,
            streams,
            rate,
        }
    }

    /// When slot `k` is due, in ns after the start instant.
    pub fn due(&self, k: u64) -> u64 {
        let number = k as f64 * self.streams as f64 + self.stream as f64;
        (number * 1e9 / self.rate) as u64
    }

    /// How many slots are due before `ns`.
    pub fn before(&self, ns: u64) -> u64 {
        let number = ns as f64 * self.rate / 1e9 - self.stream as f64;
        let mut k = (number / self.streams as f64).ceil().max(0.0) as u64;
        // Rounding may be off by one either way; `due` decides.
        while k > 0 && self.due(k - 1) >= ns {
            k -= 1;
        }
        while self.due(k) < ns {
            k += 1;
        }
        k
    }
}

/// One lane's way through its stream's slots. Where a stream has several lanes, whichever is
/// free takes the next slot.
#[derive(Debug)]
pub struct Pace {
    pub slots: Slots,
    /// The stream's next slot that nobody has taken.
    next: Rc<Cell<u64>>,
    /// The slot that this lane waits for.
    slot: Option<u64>,
    pub late: u64,
    pub max_lag_ns: u64,
    alarm: Alarm,
}

impl Pace {
    pub fn new(slots: Slots, next: Rc<Cell<u64>>) -> std::io::Result<Self> {
        Ok(Self {
            slots,
            next,
            slot: None,
            late: 0,
            max_lag_ns: 0,
            alarm: Alarm::new()?,
        })
    }

    /// Waits at `now` until `due`; ready at or after it, never before.
    pub fn poll_until(&mut self, due: Instant, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let left = due.saturating_duration_since(now);
        if left.is_zero() {
            return Poll::Ready(());
        }
        if left > SPIN && self.alarm.poll_wait(left - SPIN, cx).is_pending() {
            return Poll::Pending;
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The slot that is this lane's to wait for: the same one until it is taken.
    pub fn slot(&mut self) -> u64 {
        *self.slot.get_or_insert_with(|| {
            let slot = self.next.get();
            self.next.set(slot + 1);
            slot
        })
    }

    /// The slot is taken; the batch is sent `lag_ns` after it was due.
    pub fn take(&mut self, lag_ns: u64) {
        self.slot = None;
        self.late += u64::from(lag_ns > LATE_NS);
        self.max_lag_ns = self.max_lag_ns.max(lag_ns);
    }
}

/// A timer with better precision than the runtime's millisecond.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Alarm {
    timer: tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>,
    armed: bool,
}

#[cfg(target_os = "linux")]
impl Alarm {
    fn new() -> std::io::Result<Self> {
        use std::os::fd::FromRawFd;
        // SAFETY: a new descriptor, owned by nobody else.
        let timer = unsafe {
            let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
            let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, flags);
            if fd < 0 {
                return Err(std::io::Error::last_os_error());
            }
            std::os::fd::OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: the descriptor stays open as long as its owner, which the AsyncFd holds
        // until it is deregistered, and nothing closes it behind our back.
        let timer = unsafe {
            let readable = tokio::io::Interest::READABLE;
            tokio::io::unix::AsyncFd::register_with_interest(timer, readable)?
        };
        Ok(Self {
            timer,
            armed: false,
        })
    }

    fn poll_wait(&mut self, wait: Duration, cx: &mut Context<'_>) -> Poll<()> {
        use std::os::fd::AsRawFd;
        let fd = self.timer.get_ref().as_raw_fd();
        if !self.armed {
            // SAFETY: plain data, alive during the call.
            let failed = unsafe {
                let mut time: libc::itimerspec = std::mem::zeroed();
                time.it_value.tv_sec = wait.as_secs() as libc::time_t;
                time.it_value.tv_nsec = wait.subsec_nanos().max(1) as libc::c_long;
                libc::timerfd_settime(fd, 0, &time, std::ptr::null_mut()) < 0
            };
            if failed {
                return Poll::Ready(()); // the caller polls on; late it is not
            }
            self.armed = true;
        }
        loop {
            let Poll::Ready(ready) = self.timer.poll_read_ready(cx) else {
                return Poll::Pending;
            };
            let Ok(mut ready) = ready else {
                return Poll::Ready(());
            };
            let mut expired = [0u8; 8];
            // SAFETY: 8 bytes, as timerfd wants.
            let read = unsafe { libc::read(fd, expired.as_mut_ptr().cast(), expired.len()) };
            ready.clear_ready();
            if read > 0 {
                self.armed = false;
                return Poll::Ready(());
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Alarm(Option<Pin<Box<tokio::time::Sleep>>>);

#[cfg(not(target_os = "linux"))]
impl Alarm {
    fn new() -> std::io::Result<Self> {
        Ok(Self(None))
    }

    fn poll_wait(&mut self, wait: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self
            .0
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
        let slept = sleep.as_mut().poll(cx);
        if slept.is_ready() {
            self.0 = None;
        }
        slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_of_all_streams_are_evenly_spaced() {
        // 4 streams, 1000 batches/s: one slot a millisecond over all.
        let mut due: Vec<u64> = (0..4)
            .flat_map(|stream| (0..3).map(move |k| Slots::new(stream, 4, 1000.0).due(k)))
            .collect();
        due.sort_unstable();
        let right: Vec<u64> = (0..12).map(|n| n * 1_000_000).collect();
        assert_eq!(due, right);
        let slots = Slots::new(1, 4, 1000.0);
        assert_eq!(slots.before(1_000_000), 0);
        assert_eq!(slots.before(1_000_001), 1);
        assert_eq!(slots.before(9_000_001), 3);
        // The least and the most that a spec may ask for.
        assert_eq!(
            Slots::new(0, 1, 1e9).before(3_600_000_000_000),
            3_600_000_000_000
        );
        assert_eq!(Slots::new(0, 1, f64::MIN_POSITIVE).before(u64::MAX), 1);
        // 90 s at 1.1 batches/s are 99 slots and, by rounding, a little more.
        assert_eq!(Slots::new(0, 1, 1.1).before(90_000_000_000), 99);
    }

    proptest! {
        #[test]
        fn before_agrees_with_due(stream in 0usize..8, rate in 0.5f64..1e7, ns in 0u64..10_000_000_000) {
            let slots = Slots::new(stream, 8, rate);
            let k = slots.before(ns);
            prop_assert!(slots.due(k) >= ns);
            prop_assert!(k == 0 || slots.due(k - 1) < ns);
        }
    }

    #[test]
    fn waiting_is_never_short() {
        venturi_base::net::runtime::block_on(async {
            let mut pace = Pace::new(Slots::new(0, 1, 1.0), Rc::default()).unwrap();
            for n in 0..20 {
                let due = Instant::now() + Duration::from_micros(300 + 170 * n);
                std::future::poll_fn(|cx| pace.poll_until(due, Instant::now(), cx)).await;
                assert!(Instant::now() >= due);
            }
            // The timer wakes shortly before it is due; from then on it polls.
            let now = Instant::now();
            let (woken, mut poll) = pending(&mut pace, now + SPIN, now);
            assert!(poll.is_pending() && woken);
            (_, poll) = pending(&mut pace, now, now);
            assert!(poll.is_ready());
        })
        .unwrap();
    }

    /// Whether it wakes its thread again at once, and what it says.
    fn pending(pace: &mut Pace, due: Instant, now: Instant) -> (bool, Poll<()>) {
        struct Woken(std::sync::atomic::AtomicBool);
        impl std::task::Wake for Woken {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let woken = std::sync::Arc::new(Woken(false.into()));
        let waker = woken.clone().into();
        let poll = pace.poll_until(due, now, &mut Context::from_waker(&waker));
        (woken.0.load(std::sync::atomic::Ordering::Relaxed), poll)
    }
}
