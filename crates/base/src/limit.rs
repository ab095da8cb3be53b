//! Limits of waits, outside of the measured time. An inner wait ends no later than the outer one, and
//! is polled first, so its error is the one that is reported.

use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{timeout_at, Instant};

thread_local! {
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// As much as forever, where adding a time-out to the clock would overflow.
const FOREVER: Duration = Duration::from_secs(86400 * 365 * 30);

/// The time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    /// How long this wait was: less than it was given where the one outside of it ended.
    pub waited: Duration,
}

impl Elapsed {
    /// For errors, to the millisecond.
    pub fn seconds(self) -> f64 {
        (self.waited.as_secs_f64() * 1e3).round() / 1e3
    }
}

/// What `work` comes to, or that the time is over: after `most`, or with the wait that this one is
/// inside of.
pub async fn within<T>(most: Duration, work: impl Future<Output = T>) -> Result<T, Elapsed> {
    let now = Instant::now();
    let own = now.checked_add(most).unwrap_or_else(|| now + FOREVER);
    let end = END.get().map_or(own, |outer| outer.min(own));
    let waited = if end == own {
        most
    } else {
        end.saturating_duration_since(now)
    };
    let mut work = pin!(timeout_at(end, work));
    let done = poll_fn(|cx| {
        let _entered = Entered(END.replace(Some(end)));
        work.as_mut().poll(cx)
    });
    done.await.map_err(|_| Elapsed { waited })
}

/// Puts back what held before.
struct Entered(Option<Instant>);

impl Drop for Entered {
    fn drop(&mut self) {
        END.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn the_innermost_wait_is_told_and_ends_with_the_outer_one() {
        let most = Duration::from_millis(20);
        let work = async {
            // So the inner one, of as long a time, would end after the outer one.
            tokio::time::sleep(most / 2).await;
            within(most, pending::<()>()).await.unwrap_err().waited
        };
        let waited = within(most, work).await.unwrap();
        assert!(waited <= most / 2, "{waited:?}");
        let alone = within(most, pending::<()>()).await;
        assert_eq!(alone, Err(Elapsed { waited: most }));
        assert_eq!(END.get(), None);
    }

    #[tokio::test]
    async fn a_time_without_an_end_is_no_overflow() {
        assert_eq!(within(Duration::MAX, async { 7 }).await, Ok(7));
    }
}
