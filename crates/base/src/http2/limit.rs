//! How often a peer may do what moves nothing.

use std::time::{Duration, Instant};

/// Reaching a bound in less time is a flood. What comes slowly may go on for ever, as PINGs
/// do that keep a connection alive.
const PERIOD: Duration = Duration::from_secs(10);

/// Counts one kind of such things.
#[derive(Debug)]
pub(super) struct RateLimit {
    most: u32,
    count: u32,
    since: Instant,
}

impl RateLimit {
    pub fn new(most: u32) -> Self {
        Self {
            most,
            count: 0,
            since: Instant::now(),
        }
    }

    /// Counts one more; true: that is too many. The clock is read only where the bound is met.
    pub fn exceeded(&mut self) -> bool {
        self.count += 1;
        if self.count <= self.most {
            return false;
        }
        let now = Instant::now();
        let flood = now.duration_since(self.since) < PERIOD;
        (self.count, self.since) = (0, now);
        flood
    }

    /// Something was moved.
    pub fn reset(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_quickly_is_a_flood() {
        let flood = [false, false, false, true];
        let mut limit = RateLimit::new(3);
        assert_eq!([0; 4].map(|_| limit.exceeded()), flood);
        let Some(before) = Instant::now().checked_sub(PERIOD) else {
            return; // a machine that has just been started
        };
        limit.since = before;
        assert_eq!([0; 4].map(|_| limit.exceeded()), [false; 4]);
        assert_eq!([0; 4].map(|_| limit.exceeded()), flood);
        for _ in 0..9 {
            limit.reset();
            assert!(!limit.exceeded());
        }
    }
}
