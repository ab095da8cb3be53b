//! The stage clock: splits one worker's time, without gaps, into named stages.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A step of the pipeline whose time is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Stage {
    Generate,
    Encode,
    Send,
    Receive,
    /// What HTTP has packed as a whole is unpacked.
    Unpack,
    Decode,
    /// The instrument's own checksum over what arrived.
    Verify,
    Apply,
    /// In code of the user's own: a call of a plugin, whatever it does or waits for there.
    Plugin,
    /// In a driver that was loaded: a call of it, whatever it does or waits for there.
    Driver,
    /// Nothing to read: the peer has not sent it.
    AwaitInput,
    /// The socket takes no more.
    AwaitOutput,
    /// The socket would take more, but the HTTP/2 window that the peer grants is used up.
    AwaitWindow,
    /// All is sent, the acknowledgement has not come.
    AwaitReply,
    /// Open loop: the slot has not come.
    AwaitSchedule,
    /// Ready, but its thread works for another stream.
    AwaitThread,
}

impl Stage {
    pub const ALL: [Stage; 16] = [
        Stage::Generate,
        Stage::Encode,
        Stage::Send,
        Stage::Receive,
        Stage::Unpack,
        Stage::Decode,
        Stage::Verify,
        Stage::Apply,
        Stage::Plugin,
        Stage::Driver,
        Stage::AwaitInput,
        Stage::AwaitOutput,
        Stage::AwaitWindow,
        Stage::AwaitReply,
        Stage::AwaitSchedule,
        Stage::AwaitThread,
    ];

    /// Nothing is done meanwhile.
    pub fn waits(self) -> bool {
        self as usize >= Stage::AwaitInput as usize
    }

    pub fn name(self) -> &'static str {
        match self {
            Stage::Generate => "generate",
            Stage::Encode => "encode",
            Stage::Send => "send",
            Stage::Receive => "receive",
            Stage::Unpack => "unpack",
            Stage::Decode => "decode",
            Stage::Verify => "verify",
            Stage::Apply => "apply",
            Stage::Plugin => "plugin",
            Stage::Driver => "driver",
            Stage::AwaitInput => "await_input",
            Stage::AwaitOutput => "await_output",
            Stage::AwaitWindow => "await_window",
            Stage::AwaitReply => "await_reply",
            Stage::AwaitSchedule => "await_schedule",
            Stage::AwaitThread => "await_thread",
        }
    }
}

/// Nanoseconds by stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTotals(pub [u64; Stage::ALL.len()]);

impl StageTotals {
    pub fn add(&mut self, other: &StageTotals) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The stages that took any time, by name.
    pub fn to_map(&self) -> std::collections::BTreeMap<&'static str, u64> {
        Stage::ALL
            .iter()
            .map(|stage| (stage.name(), self.0[*stage as usize]))
            .filter(|(_, ns)| *ns > 0)
            .collect()
    }
}

/// Who worked at one end: its streams, and the time from each one's start to its end, summed.
/// The stages of that end add up to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    pub workers: u64,
    pub time_ns: u64,
}

/// Attributes the time since the last mark to a stage. Gap-free by construction: every
/// nanosecond between `start` and the last `mark` belongs to one stage.
///
/// Who must wait says for what with `wait`; whoever goes on with it calls `resume` first.
#[derive(Debug, Clone)]
pub struct StageClock {
    last: Instant,
    totals: StageTotals,
    reads: u64,
    waiting: Stage,
}

impl StageClock {
    pub fn start() -> Self {
        Self::since(Instant::now())
    }

    /// A clock that began to run at `begun`. What passes before the first mark or `resume`
    /// is its thread's.
    pub fn since(begun: Instant) -> Self {
        Self {
            last: begun,
            totals: StageTotals::default(),
            reads: 1,
            waiting: Stage::AwaitThread,
        }
    }

    /// Ends the piece of time since the last mark; it was spent in `stage`.
    #[inline]
    pub fn mark(&mut self, stage: Stage) -> Instant {
        let now = Instant::now();
        self.totals.0[stage as usize] += (now - self.last).as_nanos() as u64;
        self.last = now;
        self.reads += 1;
        now
    }

    /// The same, up to an instant that is known already; one in the past marks nothing.
    #[inline]
    pub fn mark_at(&mut self, stage: Stage, at: Instant) {
        let spent = at.saturating_duration_since(self.last);
        self.totals.0[stage as usize] += spent.as_nanos() as u64;
        self.last = self.last.max(at);
    }

    /// From the last mark on it waits for this.
    #[inline]
    pub fn wait(&mut self, reason: Stage) {
        self.waiting = reason;
    }

    /// What it waits, or waited last, for.
    pub fn waiting(&self) -> Stage {
        self.waiting
    }

    /// The wait is over at `now`; for the last `thread` of it there was something to do, but
    /// the thread did something else.
    #[inline]
    pub fn resume(&mut self, now: Instant, thread: Duration) {
        if let Some(ready) = now.checked_sub(thread) {
            self.mark_at(self.waiting, ready);
        }
        self.mark_at(Stage::AwaitThread, now);
    }

    /// So much of what was marked as `from` was `to`, as is known now.
    pub fn move_time(&mut self, from: Stage, to: Stage, spent: Duration) {
        let moved = self.totals.0[from as usize].min(spent.as_nanos() as u64);
        self.totals.0[from as usize] -= moved;
        self.totals.0[to as usize] += moved;
    }

    /// When the last mark was made.
    pub fn last(&self) -> Instant {
        self.last
    }

    pub fn totals(&self) -> StageTotals {
        self.totals
    }

    /// The totals since they were last taken, or since the start.
    pub fn take(&mut self) -> StageTotals {
        std::mem::take(&mut self.totals)
    }

    /// How often the clock was read: what the measuring itself cost, in reads.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Somebody read the clock on behalf of this one.
    pub fn count_reads(&mut self, reads: u64) {
        self.reads += reads;
    }
}

/// What a pool's threads did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolTime {
    pub threads: u64,
    /// At work: neither waiting for something to do nor for somebody to take it.
    pub busy_ns: u64,
    /// Over all threads.
    pub time_ns: u64,
}

impl PoolTime {
    pub fn of(stages: &StageTotals, workers: &Workers) -> Self {
        let at_work = Stage::ALL.iter().filter(|stage| !stage.waits());
        Self {
            threads: workers.workers,
            busy_ns: at_work.map(|stage| stages.0[*stage as usize]).sum(),
            time_ns: workers.time_ns,
        }
    }

    pub fn add(&mut self, other: &PoolTime) {
        self.threads += other.threads;
        self.busy_ns += other.busy_ns;
        self.time_ns += other.time_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_place_and_name() {
        let mut names: Vec<_> = Stage::ALL.iter().map(|stage| stage.name()).collect();
        for (at, stage) in Stage::ALL.iter().enumerate() {
            assert_eq!(*stage as usize, at);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Stage::ALL.len());
    }

    #[test]
    fn a_pool_is_busy_where_it_does_not_wait() {
        let mut stages = StageTotals::default();
        stages.0[Stage::Decode as usize] = 5;
        stages.0[Stage::Verify as usize] = 7;
        stages.0[Stage::AwaitInput as usize] = 1000;
        let workers = Workers {
            workers: 2,
            time_ns: 1012,
        };
        let mut pool = PoolTime::of(&stages, &workers);
        let told = |pool: &PoolTime| (pool.threads, pool.busy_ns, pool.time_ns);
        assert_eq!(told(&pool), (2, 12, 1012));
        pool.add(&pool.clone());
        assert_eq!(told(&pool), (4, 24, 2024));
    }

    #[test]
    fn a_wait_divides_between_its_reason_and_the_thread() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let ms = Duration::from_millis;
        let mut clock = StageClock::since(begun);
        clock.resume(at(1), ms(0)); // not waited for anything yet: the thread's
        clock.mark_at(Stage::Receive, at(3));
        clock.wait(Stage::AwaitInput);
        clock.resume(at(10), ms(2));
        clock.wait(Stage::AwaitWindow);
        clock.resume(at(11), ms(500)); // more than there was
        clock.mark_at(Stage::Decode, at(10)); // the past
        let totals = clock.totals();
        let of = |stage: Stage| totals.0[stage as usize] / 1_000_000;
        assert_eq!(of(Stage::Receive), 2);
        assert_eq!(of(Stage::AwaitInput), 5);
        assert_eq!(of(Stage::AwaitThread), 1 + 2 + 1);
        assert_eq!(of(Stage::AwaitWindow) + of(Stage::Decode), 0);
        assert_eq!(totals.total(), 11_000_000);
        clock.move_time(Stage::Receive, Stage::AwaitThread, ms(1));
        clock.move_time(Stage::Receive, Stage::AwaitThread, ms(5)); // more than there is
        let totals = clock.totals();
        assert_eq!(totals.0[Stage::Receive as usize], 0);
        assert_eq!(totals.0[Stage::AwaitThread as usize], 6_000_000);
        assert_eq!(clock.take().total(), 11_000_000);
        assert_eq!(clock.totals().total(), 0);
    }
}
