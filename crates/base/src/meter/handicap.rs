//! Slowing a stage down on purpose, to see whether the figures tell which one it was.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clock::{Stage, StageClock};
use crate::error::{Error, Result};

/// The longest handicap of a batch: a trial must still get on.
const MOST: Duration = Duration::from_secs(10);

/// CPU time to burn for every batch, by stage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handicap([u64; Stage::ALL.len()]);

impl Handicap {
    /// Reads `{"encode": ns}`; only stages of `allowed` can be slowed down, and `whose` says
    /// whose they are.
    pub fn parse(asked: &BTreeMap<String, u64>, allowed: &[Stage], whose: &str) -> Result<Self> {
        let mut handicap = Self::default();
        for (name, &ns) in asked {
            let Some(stage) = allowed.iter().find(|stage| stage.name() == name) else {
                let names: Vec<_> = allowed.iter().map(|stage| stage.name()).collect();
                return Err(Error::usage(format!(
                    "handicap: {whose} has no stage {name:?} to slow down; it has {}",
                    names.join(", ")
                )));
            };
            if ns == 0 || ns > MOST.as_nanos() as u64 {
                return Err(Error::usage(format!(
                    "handicap: {name} must be 1 ns to {} s a batch",
                    MOST.as_secs()
                )));
            }
            handicap.0[*stage as usize] = ns;
        }
        Ok(handicap)
    }

    pub fn slows(&self, stage: Stage) -> bool {
        self.0[stage as usize] > 0
    }

    /// Burns what a batch costs more in this stage. To be called before the stage is marked.
    #[inline]
    pub fn burn(&self, stage: Stage) {
        if self.slows(stage) {
            burn(Duration::from_nanos(self.0[stage as usize]));
        }
    }

    /// The same for a stage that takes no time worth a mark otherwise.
    pub fn slow(&self, stage: Stage, clock: &mut StageClock) {
        if self.slows(stage) {
            self.burn(stage);
            clock.mark(stage);
        }
    }

    /// `encode 2 ms, decode 200 us`; empty where nothing is slowed down.
    pub fn text(&self) -> String {
        let slowed = Stage::ALL.iter().filter(|stage| self.slows(**stage));
        let parts: Vec<_> = slowed
            .map(|stage| {
                let time = Duration::from_nanos(self.0[*stage as usize]);
                format!("{} {time:?}", stage.name()).replace('µ', "u")
            })
            .collect();
        parts.join(", ")
    }
}

/// Uses so much CPU time of this thread: time for which it was not scheduled does not count.
#[inline(never)]
fn burn(time: Duration) {
    let until = now() + time;
    while now() < until {
        // A look at the clock is a system call; in between the time is the user's.
        (0..16).for_each(|_| std::hint::spin_loop());
    }
}

/// CPU time of this thread.
#[cfg(target_os = "linux")]
fn now() -> Duration {
    // SAFETY: the call fills the struct that it is given.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Where a thread's CPU time is not told, the time of day is.
#[cfg(not(target_os = "linux"))]
fn now() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BASE: OnceLock<Instant> = OnceLock::new();
    BASE.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(name: &str, ns: u64) -> BTreeMap<String, u64> {
        BTreeMap::from([(name.to_owned(), ns)])
    }

    #[test]
    fn it_burns_what_it_says() {
        let handicap =
            Handicap::parse(&steps("decode", 3_000_000), &[Stage::Decode], "a get").unwrap();
        assert_eq!(handicap.text(), "decode 3ms");
        // A thread's own CPU time, which nobody else uses up.
        let before = now();
        handicap.burn(Stage::Decode);
        let burned = now() - before;
        assert!(burned >= Duration::from_millis(3), "{burned:?}");
        assert!(handicap.slows(Stage::Decode) && !handicap.slows(Stage::Encode));
        let mut clock = StageClock::start();
        handicap.slow(Stage::Encode, &mut clock);
        assert_eq!(clock.totals().total(), 0);
        handicap.slow(Stage::Decode, &mut clock);
        assert_eq!(
            clock.totals().total(),
            clock.totals().0[Stage::Decode as usize]
        );
        assert!(clock.totals().total() >= 3_000_000);
    }

    #[test]
    fn only_what_the_end_does_can_be_slowed_down() {
        let allowed = [Stage::Decode, Stage::Verify];
        let wrong = |name, ns| {
            let refused = Handicap::parse(&steps(name, ns), &allowed, "the client of a get");
            refused.unwrap_err().message
        };
        assert!(wrong("encode", 1).contains("decode, verify"));
        assert!(wrong("decode", 0).contains("1 ns to 10 s"));
        assert!(wrong("decode", u64::MAX).contains("1 ns to 10 s"));
        assert_eq!(Handicap::default().text(), "");
    }
}
