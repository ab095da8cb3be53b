//! Whose time a connection's thread spends: one clock, shared out over the streams it serves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use venturi_base::meter::clock::{Stage, StageClock, StageTotals, Workers};

/// The streams in flight on one connection. What the thread does it does for one of them;
/// meanwhile each other one waits, for the thread unless its own window is used up. So every
/// stream's stages add up to the time from its begin to its end.
#[derive(Debug)]
pub(super) struct Ledger {
    clock: StageClock,
    streams: BTreeMap<u32, Entry>,
    /// For whom the clock runs.
    current: u32,
}

#[derive(Debug)]
struct Entry {
    begun: Instant,
    stages: StageTotals,
    /// What it waits for.
    waiting: Stage,
}

impl Ledger {
    pub fn new() -> Self {
        Self {
            clock: StageClock::start(),
            streams: BTreeMap::new(),
            current: 0,
        }
    }

    /// A stream begins now.
    pub fn begin(&mut self, stream: u32) {
        self.share_out();
        if self.streams.is_empty() {
            self.clock = StageClock::start();
        } else {
            self.clock.mark(Stage::AwaitThread);
            self.share_out();
        }
        self.current = stream;
        let entry = Entry {
            begun: self.clock.last(),
            stages: StageTotals::default(),
            waiting: Stage::AwaitThread,
        };
        self.streams.insert(stream, entry);
    }

    /// For whom the thread worked last.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// From here on the thread works for this stream.
    pub fn turn_to(&mut self, stream: u32) -> &mut StageClock {
        if self.current != stream {
            self.share_out();
            self.current = stream;
        }
        &mut self.clock
    }

    /// What a stream waits for while nobody works for it.
    pub fn wait(&mut self, stream: u32, reason: Stage) {
        match self.streams.get(&stream) {
            Some(entry) if entry.waiting != reason => self.share_out(),
            _ => return,
        }
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.waiting = reason;
        }
    }

    /// The thread has slept until now: everybody has waited for their own reason.
    pub fn wake(&mut self) {
        if self.streams.is_empty() {
            return;
        }
        self.share_out();
        self.clock.mark(Stage::AwaitThread);
        let slept = self.clock.take().total();
        for entry in self.streams.values_mut() {
            entry.stages.0[entry.waiting as usize] += slept;
        }
    }

    /// A stream ends, and what was done last was for it: its stages, and how long it took.
    pub fn end(&mut self, stream: u32, last: Stage) -> (StageTotals, Workers) {
        self.turn_to(stream).mark(last);
        self.share_out();
        match self.streams.remove(&stream) {
            Some(entry) => {
                let time = self.clock.last().saturating_duration_since(entry.begun);
                (entry.stages, of_one(time))
            }
            None => Default::default(),
        }
    }

    /// Books what the clock has counted since it was booked last.
    fn share_out(&mut self) {
        let spent = self.clock.take();
        let total = spent.total();
        if total == 0 {
            return;
        }
        for (&stream, entry) in &mut self.streams {
            if stream == self.current {
                entry.stages.add(&spent);
            } else {
                let reason = match entry.waiting {
                    Stage::AwaitWindow => Stage::AwaitWindow,
                    _ => Stage::AwaitThread,
                };
                entry.stages.0[reason as usize] += total;
            }
        }
    }
}

fn of_one(time: Duration) -> Workers {
    Workers {
        workers: 1,
        time_ns: time.as_nanos() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nap() {
        std::thread::sleep(Duration::from_millis(2));
    }

    #[test]
    fn each_stream_s_stages_add_up_to_its_time() {
        let mut ledger = Ledger::new();
        nap(); // nobody's
        ledger.begin(1);
        nap();
        ledger.turn_to(1).mark(Stage::Encode);
        ledger.begin(3);
        ledger.wait(1, Stage::AwaitWindow);
        nap();
        ledger.turn_to(3).mark(Stage::Send); // stream 1 waits for its window all the same
        ledger.wait(3, Stage::AwaitOutput);
        nap();
        ledger.wake();
        ledger.wait(1, Stage::AwaitThread);
        nap();
        ledger.turn_to(3).mark(Stage::Send);
        let (one, one_time) = ledger.end(1, Stage::Send);
        nap();
        let (three, three_time) = ledger.end(3, Stage::Send);
        assert_eq!(one.total(), one_time.time_ns);
        assert_eq!(three.total(), three_time.time_ns);
        let ms = |totals: &StageTotals, stage: Stage| totals.0[stage as usize] / 1_000_000;
        assert!(ms(&one, Stage::Encode) >= 2);
        assert!(ms(&one, Stage::AwaitWindow) >= 4);
        assert!(ms(&one, Stage::AwaitThread) >= 2);
        assert!(ms(&three, Stage::AwaitOutput) >= 2);
        assert!(ms(&three, Stage::Send) >= 6);
        assert_eq!(ms(&three, Stage::Encode), 0);
        assert_eq!(ledger.end(1, Stage::Send).1, Workers::default());
    }
}
