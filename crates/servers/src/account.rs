//! What the server did for each trial: asked for by the client once the trial is over.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::sampling::Watch;
use venturi_base::codec::account::Account;
use venturi_base::meter::clock::{PoolTime, Stage, StageTotals, Workers};
use venturi_base::meter::cpu::{self, CpuTime};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub rows: u64,
    pub batches: u64,
    pub payload: u64,
    pub checksum: u64,
}

impl Counted {
    pub fn add(&mut self, rows: u64, payload: u64, checksum: u64) {
        self.rows += rows;
        self.batches += 1;
        self.payload += payload;
        self.checksum = self.checksum.wrapping_add(checksum);
    }
}

/// The time of a stream that has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub stages: StageTotals,
    pub workers: Workers,
    /// User and system, in ns.
    pub cpu: (u64, u64),
}

impl Spent {
    /// Of one worker on this thread, which had used so much `cpu` when it began.
    pub fn of_worker(stages: StageTotals, time: Duration, cpu: ThreadCpu) -> Self {
        let (workers, time_ns) = (1, time.as_nanos() as u64);
        Self {
            stages,
            workers: Workers { workers, time_ns },
            cpu: ThreadCpu::now().since(cpu),
        }
    }
}

/// A stream that belongs to a trial: it is accounted for.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub id: String,
    pub checksum: bool,
    /// Set when the trial's gets shall end early.
    pub stop: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Entry {
    counted: Counted,
    streams: u64,
    open: u64,
    stages: StageTotals,
    workers: Workers,
    pools: BTreeMap<String, PoolTime>,
    user_ns: u64,
    system_ns: u64,
    /// CPU time of all that works for this server: when the trial began, and until its last stream ended.
    whole: Option<(CpuTime, CpuTime)>,
    stop: Arc<AtomicBool>,
}

impl Entry {
    /// A stream or a thread of a pool has ended.
    fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
        if let (0, Some((_, after))) = (self.open, &mut self.whole) {
            *after = cpu::with_children();
        }
    }

    /// What an engine used that works in threads or processes of its own: all that is not ours. It has
    /// done nothing but make rows.
    fn spend_engine(&mut self) {
        let Some((before, after)) = self.whole else {
            return;
        };
        let all = after.since(&before);
        let user_ns = all.user_ns.saturating_sub(self.user_ns);
        let total = all.total().saturating_sub(self.user_ns + self.system_ns);
        let user_ns = user_ns.min(total);
        let mut spent = Spent {
            cpu: (user_ns, total - user_ns),
            ..Spent::default()
        };
        spent.stages.0[Stage::Generate as usize] = total;
        spent.workers.time_ns = total;
        self.spend(&spent);
    }

    fn spend(&mut self, spent: &Spent) {
        self.stages.add(&spent.stages);
        self.workers.workers += spent.workers.workers;
        self.workers.time_ns += spent.workers.time_ns;
        self.user_ns += spent.cpu.0;
        self.system_ns += spent.cpu.1;
    }
}

/// Trials kept; a client that never asks must not fill the memory.
const KEPT: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Accounts {
    entries: Mutex<Vec<(String, Entry)>>,
    /// What the machine did meanwhile.
    pub watch: Watch,
    /// An engine works in threads or processes that keep no account.
    engine: bool,
}

impl Accounts {
    /// Of a server whose engine works in threads and processes of its own. Whose trial they work for
    /// nobody knows: of several at a time each is told all.
    pub fn with_engine() -> Self {
        Self {
            watch: Watch::with_children(),
            engine: true,
            ..Self::default()
        }
    }

    /// An entry that is there: only streams make one, not whoever asks.
    fn with<T>(&self, trial: &str, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut entries = self.entries.lock();
        let (_, entry) = entries.iter_mut().find(|(id, _)| id == trial)?;
        Some(act(entry))
    }

    /// A stream of the trial begins; the flag says when it shall end early.
    pub fn begin(&self, trial: &str) -> Arc<AtomicBool> {
        self.watch.begin(trial);
        let mut entries = self.entries.lock();
        let at = entries.iter().position(|(id, _)| id == trial);
        let at = at.or_else(|| {
            if entries.len() >= KEPT {
                // One of a trial that still runs is wanted by somebody.
                let ended = entries.iter().position(|(_, entry)| entry.open == 0);
                entries.remove(ended?);
            }
            let now = self.engine.then(cpu::with_children);
            let entry = Entry {
                whole: now.map(|now| (now, now)),
                ..Entry::default()
            };
            entries.push((trial.to_owned(), entry));
            Some(entries.len() - 1)
        });
        let Some(at) = at else {
            return Arc::default(); // as many run: this one has no account, as its client is told
        };
        let entry = &mut entries[at].1;
        entry.streams += 1;
        entry.open += 1;
        entry.stop.clone()
    }

    pub fn end(&self, trial: &str, counted: Counted, spent: Spent) {
        self.with(trial, |entry| {
            entry.close();
            entry.counted.rows += counted.rows;
            entry.counted.batches += counted.batches;
            entry.counted.payload += counted.payload;
            entry.counted.checksum = entry.counted.checksum.wrapping_add(counted.checksum);
            entry.spend(&spent);
        });
        self.watch.end(trial);
    }

    /// A thread of a pool begins to work for the trial.
    pub fn begin_pool(&self, trial: &str) {
        self.with(trial, |entry| entry.open += 1);
    }

    pub fn end_pool(&self, trial: &str, pool: &str, spent: Spent) {
        self.with(trial, |entry| {
            entry.close();
            entry.spend(&spent);
            let time = PoolTime::of(&spent.stages, &spent.workers);
            entry.pools.entry(pool.to_owned()).or_default().add(&time);
        });
    }

    pub fn stop(&self, trial: &str) {
        self.with(trial, |entry| entry.stop.store(true, Ordering::Relaxed));
    }

    /// The account, once all of the trial's streams have ended here as well. It is handed
    /// over once and forgotten, so that a trial of the same id begins with nothing. `None`:
    /// there is no such trial.
    pub async fn settle(&self, trial: &str) -> Option<Account> {
        let until = Instant::now() + Duration::from_secs(5);
        while self.with(trial, |entry| entry.open)? > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut entries = self.entries.lock();
        let at = entries.iter().position(|(id, _)| id == trial)?;
        let (_, mut entry) = entries.remove(at);
        entry.spend_engine();
        Some(Account {
            streams: entry.streams,
            rows: entry.counted.rows,
            batches: entry.counted.batches,
            payload_bytes: entry.counted.payload,
            checksum: format!("{:016x}", entry.counted.checksum),
            stages: entry
                .stages
                .to_map()
                .into_iter()
                .map(|(name, ns)| (name.to_owned(), ns))
                .collect(),
            workers: Some(entry.workers),
            pools: entry.pools,
            user_ns: entry.user_ns,
            system_ns: entry.system_ns,
        })
    }
}

/// CPU time of the calling thread so far, in nanoseconds; zero where it is not known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadCpu {
    total: u64,
    user: u64,
    system: u64,
}

impl ThreadCpu {
    pub fn now() -> Self {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: both calls fill the struct that they are given.
            let (time, usage) = unsafe {
                let mut time: libc::timespec = std::mem::zeroed();
                libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
                let mut usage: libc::rusage = std::mem::zeroed();
                libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
                (time, usage)
            };
            let ns = |time: libc::timeval| {
                time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
            };
            Self {
                total: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
                user: ns(usage.ru_utime),
                system: ns(usage.ru_stime),
            }
        }
        #[cfg(not(target_os = "linux"))]
        Self::default()
    }

    /// (user, system) since `before`. The sum is exact; how it divides is sampled by the
    /// kernel's tick and means little below some ten milliseconds.
    pub fn since(self, before: Self) -> (u64, u64) {
        let total = self.total.saturating_sub(before.total);
        let user = self.user.saturating_sub(before.user);
        let sampled = user + self.system.saturating_sub(before.system);
        let user = match sampled {
            0 => total,
            _ => (u128::from(total) * u128::from(user) / u128::from(sampled)) as u64,
        };
        (user, total - user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handed_over_is_forgotten() {
        let accounts = Accounts::default();
        for stream in 0..3u64 {
            accounts.begin("t");
            let counted = Counted {
                rows: 10,
                batches: 1,
                payload: 320,
                checksum: u64::MAX - stream,
            };
            let spent = Spent {
                cpu: (1, 2),
                ..Spent::default()
            };
            accounts.end("t", counted, spent);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let account = runtime.block_on(accounts.settle("t")).unwrap();
        assert_eq!((account.rows, account.streams, account.user_ns), (30, 3, 3));
        let sum = (0..3u64).fold(0u64, |sum, k| sum.wrapping_add(u64::MAX - k));
        assert_eq!(account.checksum, format!("{sum:016x}"));
        // Handed over once; the next trial of that id begins with nothing.
        accounts.stop("t");
        assert!(runtime.block_on(accounts.settle("t")).is_none());
        assert!(!accounts.begin("t").load(Ordering::Relaxed));
        accounts.end("t", Counted::default(), Spent::default());
        let again = runtime.block_on(accounts.settle("t")).unwrap();
        assert_eq!((again.rows, again.streams), (0, 1));
    }

    #[test]
    fn the_oldest_that_has_ended_is_forgotten_and_none_that_runs() {
        let accounts = Accounts::default();
        let end = |trial: &str| {
            let counted = Counted {
                rows: 10,
                ..Counted::default()
            };
            accounts.end(trial, counted, Spent::default());
        };
        let known = |trial: &str| accounts.with(trial, |entry| entry.counted.rows);
        accounts.begin("runs");
        for trial in 0..KEPT {
            accounts.begin(&trial.to_string());
            end(&trial.to_string());
        }
        end("runs");
        assert_eq!(known("runs"), Some(10));
        assert_eq!((known("0"), known("1")), (None, Some(10)));
        for trial in 0..KEPT {
            accounts.begin(&format!("runs too {trial}"));
        }
        accounts.begin("one more");
        end("one more");
        assert_eq!(known("one more"), None);
        assert_eq!(known("runs too 0"), Some(0));
        assert_eq!(accounts.entries.lock().len(), KEPT);
    }
}
