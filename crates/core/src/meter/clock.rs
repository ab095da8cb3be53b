//! The stage clock: splits one worker's time, without gaps, into named stages.

use std::time::Instant;

/// A step of the pipeline whose time is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Stage {
    Generate,
    Encode,
    Send,
    Receive,
    Decode,
    /// The instrument's own checksum over what arrived.
    Verify,
    Apply,
    /// Blocked: on the socket, on the peer, on the schedule.
    Wait,
}

impl Stage {
    pub const ALL: [Stage; 8] = [
        Stage::Generate,
        Stage::Encode,
        Stage::Send,
        Stage::Receive,
        Stage::Decode,
        Stage::Verify,
        Stage::Apply,
        Stage::Wait,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Generate => "generate",
            Stage::Encode => "encode",
            Stage::Send => "send",
            Stage::Receive => "receive",
            Stage::Decode => "decode",
            Stage::Verify => "verify",
            Stage::Apply => "apply",
            Stage::Wait => "wait",
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

/// Attributes the time since the last mark to a stage. Gap-free by construction:
/// every nanosecond between `start` and the last `mark` belongs to one stage.
#[derive(Debug, Clone)]
pub struct StageClock {
    last: Instant,
    totals: StageTotals,
    reads: u64,
}

impl StageClock {
    pub fn start() -> Self {
        Self {
            last: Instant::now(),
            totals: StageTotals::default(),
            reads: 1,
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

    /// When the last mark was made.
    pub fn last(&self) -> Instant {
        self.last
    }

    pub fn totals(&self) -> StageTotals {
        self.totals
    }

    /// How often the clock was read: what the measuring itself cost, in reads.
    pub fn reads(&self) -> u64 {
        self.reads
    }
}
