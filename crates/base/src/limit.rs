//! Limits of waits, outside of the measured time. An inner wait ends no later than the outer one, and
//! is polled first, so its error is the one that is reported.

use std::cell::Cell;
use std::fmt;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{timeout_at, Instant};

use crate::error::{Error, Kind, Result};

/// What takes longer than any single answer may (a count of all rows, an upload), in time-outs.
pub const PATIENCE: u32 = 10;

thread_local! {
    /// When the innermost wait ends, and the limit by which it does.
    static END: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// As much as forever, where adding a time-out to the clock would overflow.
const FOREVER: Duration = Duration::from_secs(86400 * 365 * 30);

/// The time is over. For errors: "2 s", or "2 s in all" where an enclosing wait of 2 s ended, a tenth of that or
/// more before this one would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    limit: Duration,
    in_all: bool,
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.in_all { " in all" } else { "" };
        write!(f, "{} s{more}", self.limit.as_secs_f64())
    }
}

/// What `work` comes to, or that the time is over: after `most`, or with the wait that this one is
/// inside of.
pub async fn within<T>(
    most: Duration,
    work: impl Future<Output = T>,
) -> std::result::Result<T, Elapsed> {
    let now = Instant::now();
    let own = (now.checked_add(most).unwrap_or_else(|| now + FOREVER), most);
    let (end, limit) = match END.get() {
        Some(outer) if outer.0 < own.0 => outer,
        _ => own,
    };
    let in_all = own.0 - end > limit / 10;
    let mut work = pin!(timeout_at(end, work));
    let done = poll_fn(|cx| {
        let _entered = Entered(END.replace(Some((end, limit))));
        work.as_mut().poll(cx)
    });
    done.await.map_err(|_| Elapsed { limit, in_all })
}

/// What `work` comes to, for which only the wait around it has a limit; where that is over, `what` names it.
pub async fn patient<T>(
    what: impl fmt::Display,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let done = within(FOREVER, work).await;
    done.unwrap_or_else(|over| {
        let message =
            format!("{what}: not done after {over}, ten times --timeout: give it a longer one");
        Err(Error::new(Kind::Timeout, message))
    })
}

/// Puts back what held before.
struct Entered(Option<(Instant, Duration)>);

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
            within(most, pending::<()>()).await.unwrap_err().to_string()
        };
        assert_eq!(within(most, work).await.unwrap(), "0.02 s in all");
        let alone = within(most, pending::<()>()).await;
        assert_eq!(alone.unwrap_err().to_string(), "0.02 s");
        assert_eq!(END.get(), None);
    }

    #[tokio::test]
    async fn what_took_too_long_is_named() {
        let most = Duration::from_millis(20);
        let asked = within(most, patient("SELECT 1", pending::<Result<()>>()));
        assert_eq!(
            asked.await.unwrap().unwrap_err().message,
            "SELECT 1: not done after 0.02 s in all, ten times --timeout: give it a longer one"
        );
    }

    #[tokio::test]
    async fn a_time_without_an_end_is_no_overflow() {
        assert_eq!(within(Duration::MAX, async { 7 }).await, Ok(7));
    }
}
