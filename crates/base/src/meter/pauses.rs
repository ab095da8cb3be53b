//! For how long a process did not run although it was not kept waiting for a CPU: stopped by a
//! signal, frozen with its control group or its machine, or suspended with it. Nothing that is
//! measured meanwhile tells of the thing under test.
//!
//! A thread that wakes later than it asked for was ready and found no CPU, which the kernel counts
//! (its run delay, and what a quota throttled), or was not allowed to run. So a loaded machine,
//! where every thread is late, is not taken for a stopped process. Only sleep is looked at: between
//! its sleeps the thread may wait for a lock, the allocator's or the kernel's, whose holder is ready
//! and finds no CPU, as with hundreds of threads on two of them. A stop is noticed from the
//! instant on at which the thread should have woken, so what is told is up to `STEP` less than it
//! was. While a machine is suspended the monotonic clock stands still; the boot-time clock goes on.

use std::time::{Duration, Instant};

use super::end::{boot_time_ns, monotonic_ns};
use super::readers::cgroup::Group;
use super::readers::{threads, Reread};

/// How long a thread that watches sleeps at most.
const STEP: Duration = Duration::from_millis(100);

/// What is shorter may be a page that had to be read, or the host of a virtual machine that
/// rations its CPUs by periods of 100 ms, which counts as stolen.
pub const LEAST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub enum Pauses {
    Own(Own),
    Other(Other),
}

impl Pauses {
    /// Of this process.
    pub fn own() -> Self {
        Self::Own(Own::new())
    }

    /// Of another one here.
    pub fn other() -> Self {
        Self::Other(Other::default())
    }

    /// So far, at a row that is taken now. `None`: the kernel does not tell run delays.
    pub fn total_ns(&mut self, stopped: bool, now: i64) -> Option<u64> {
        match self {
            Self::Own(own) => own.total_ns(),
            Self::Other(other) => Some(other.total_ns(stopped, now)),
        }
    }
}

#[derive(Debug)]
pub struct Own {
    /// Of the thread that watches.
    schedstat: Option<Reread>,
    /// The quota that this process is under.
    quota: Option<Group>,
    late_ns: u64,
    /// By how much the boot-time clock was ahead at most when it began.
    ahead_ns: i64,
}

impl Own {
    fn new() -> Self {
        let before = monotonic_ns();
        let mut own = Self {
            schedstat: None,
            quota: Group::of(None).filter(|group| group.quota_cores.is_some()),
            late_ns: 0,
            ahead_ns: boot_time_ns() - before,
        };
        own.watch_this_thread();
        own
    }

    /// From here on the calling thread is the one that watches.
    pub fn watch_this_thread(&mut self) {
        self.schedstat = Reread::open("/proc/thread-self/schedstat");
    }

    /// Sleeps for so long, or less: until it is unparked, or for a `STEP`.
    pub fn park(&mut self, wait: Duration) {
        let known = self.explained_ns();
        let (wait, begun) = (wait.min(STEP), Instant::now());
        std::thread::park_timeout(wait);
        let late = begun.elapsed().saturating_sub(wait);
        if late < LEAST {
            return;
        }
        let (Some(known), Some(explained)) = (known, self.explained_ns()) else {
            return;
        };
        let paused = late.saturating_sub(Duration::from_nanos(explained.saturating_sub(known)));
        if paused >= LEAST {
            self.late_ns += paused.as_nanos() as u64;
        }
    }

    /// For how long the watching thread has run, or was ready and had no CPU.
    fn explained_ns(&mut self) -> Option<u64> {
        let (used, delay) = self.schedstat.as_mut()?.read().and_then(threads::parse)?;
        let quota = self.quota.as_mut();
        let throttled = quota.map_or(Some(0), Group::throttled_ns)?;
        Some(used.saturating_add(delay).saturating_add(throttled))
    }

    fn total_ns(&self) -> Option<u64> {
        self.schedstat.as_ref()?;
        let ahead = boot_time_ns();
        let ahead = ahead - monotonic_ns(); // not more than it was
        let suspended = u64::try_from(ahead - self.ahead_ns).unwrap_or(0);
        let seen = Duration::from_nanos(suspended) >= LEAST;
        Some(self.late_ns + if seen { suspended } else { 0 })
    }
}

/// Another process on this host is seen stopped, or not, at every row; from one row to the next
/// where it was at both.
#[derive(Debug, Default)]
pub struct Other {
    stopped_at: Option<i64>,
    total_ns: u64,
}

impl Other {
    fn total_ns(&mut self, stopped: bool, now: i64) -> u64 {
        if let (Some(since), true) = (self.stopped_at, stopped) {
            self.total_ns += u64::try_from(now - since).unwrap_or(0);
        }
        self.stopped_at = stopped.then_some(now);
        self.total_ns
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Set in a process that watches itself, and is stopped.
    const CHILD: &str = "VENTURI_TEST_PAUSES";

    /// The part of the child process: it watches until its input ends, and prints what it saw.
    fn watches() -> bool {
        if std::env::var_os(CHILD).is_none() {
            return false;
        }
        let mut own = Own::new();
        let told = std::thread::spawn(|| std::io::stdin().read_line(&mut String::new()));
        own.park(STEP);
        // SAFETY: it only tells the number of the calling thread.
        println!("\nwatching {}", unsafe { libc::gettid() });
        while !told.is_finished() {
            own.park(STEP);
        }
        own.park(STEP);
        println!("\npaused {}", own.total_ns().unwrap());
        true
    }

    #[test]
    fn a_process_that_was_stopped_knows_for_how_long() {
        use std::io::{BufRead, BufReader};
        if watches() {
            return;
        }
        let name = std::thread::current().name().unwrap().to_owned();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--nocapture"])
            .env(CHILD, "1")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut line = |begin: &str| {
            let mut found = lines.by_ref().map(|line| line.unwrap());
            found.find(|line| line.starts_with(begin)).unwrap()
        };
        let thread = line("watching")[9..].to_owned();
        let stat = format!("/proc/{}/task/{thread}/stat", child.id());
        // Only its sleep is looked at: it is stopped there.
        while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        let signal = |signal| {
            // SAFETY: our own child, which has not been waited for.
            assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        };
        let stopping = Instant::now();
        signal(libc::SIGSTOP);
        let stopped = Instant::now();
        std::thread::sleep(Duration::from_millis(700));
        let least = stopped.elapsed();
        signal(libc::SIGCONT);
        let most = stopping.elapsed();
        drop(child.stdin.take());
        let paused: u64 = line("paused")[7..].parse().unwrap();
        let paused = Duration::from_nanos(paused);
        assert!(child.wait().unwrap().success());
        // On a loaded machine some of the time after it was let go is run delay.
        assert!(
            least.saturating_sub(STEP + LEAST) <= paused && paused <= most + LEAST,
            "{least:?} {paused:?} {most:?}"
        );
    }

    #[test]
    fn waiting_for_a_cpu_is_no_pause() {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        // The last CPU that this process may use; where there is one only, it is that.
        // SAFETY: all zeros is a set of no CPU, and the calls fill or read what they are given.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &mut set);
            let last = (0..libc::CPU_SETSIZE as usize)
                .rev()
                .find(|cpu| libc::CPU_ISSET(*cpu, &set))
                .unwrap();
            libc::CPU_ZERO(&mut set);
            libc::CPU_SET(last, &mut set);
            set
        };
        // SAFETY: as above; it binds the calling thread.
        let bind = || unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..24 {
                scope.spawn(|| {
                    bind();
                    while !ended.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let seen = scope.spawn(|| {
                bind();
                // SAFETY: of the calling thread: it comes last.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
                let mut own = Own::new();
                let before = own.explained_ns().unwrap();
                while Duration::from_nanos(own.explained_ns().unwrap() - before) < 2 * LEAST {
                    own.park(Duration::from_millis(1));
                }
                own.total_ns().unwrap()
            });
            let paused = seen.join().unwrap();
            ended.store(true, Relaxed);
            assert_eq!(paused, 0);
        });
    }

    #[test]
    fn waiting_for_a_lock_is_no_pause() {
        let mut own = Own::new();
        own.park(Duration::from_millis(1));
        let (_holder, lock) = std::sync::mpsc::channel::<()>();
        lock.recv_timeout(2 * LEAST).unwrap_err();
        own.park(Duration::from_millis(1));
        assert_eq!(own.total_ns(), Some(0));
    }

    #[test]
    fn another_process_counts_while_it_is_seen_stopped() {
        let mut pauses = Pauses::other();
        let rows = [
            (0, false),
            (100, true),
            (200, true),
            (350, true),
            (450, false),
            (550, true),
        ];
        let seen: Vec<_> = rows
            .map(|(now, stopped)| pauses.total_ns(stopped, now).unwrap())
            .into();
        assert_eq!(seen, [0, 0, 100, 250, 250, 250]);
    }
}
