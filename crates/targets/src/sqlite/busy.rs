//! A wait for a lock, and a statement that takes long, end with the trial: SQLite's own wait and a
//! running statement ask nobody.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use rusqlite::{ffi, Connection};

use venturi_base::halt;

thread_local! {
    /// Of this thread's connections, and since when the present wait lasts: a thread executes one
    /// call at a time, and all that are open together have the same patience.
    static PATIENCE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// How long SQLite itself would sleep before each new try (`sqliteDefaultBusyCallback`), in ms:
/// figures must not depend on who waits.
const SLEEPS: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

/// Instructions of SQLite's machine between two looks: some 0.1 ms.
const INSTRUCTIONS: c_int = 10_000;

/// A connection of this thread waits so long for a lock, but no longer than its trial lasts.
pub fn wait(connection: &mut Connection, patience: Duration) -> rusqlite::Result<()> {
    PATIENCE.set(patience);
    connection.busy_handler(Some(again))?;
    // SAFETY: the connection is open, and the function needs no data of ours.
    unsafe {
        let handle = connection.handle();
        ffi::sqlite3_progress_handler(handle, INSTRUCTIONS, Some(ends), std::ptr::null_mut());
    }
    Ok(())
}

/// Whether to try once more, after so many times.
fn again(times: i32) -> bool {
    let now = Instant::now();
    if times == 0 {
        SINCE.set(Some(now));
    }
    let waited = SINCE.get().map_or(Duration::ZERO, |since| now - since);
    let left = PATIENCE.get().saturating_sub(waited);
    if left.is_zero() || halt::check().is_err() {
        return false;
    }
    let at = usize::try_from(times).unwrap_or(0).min(SLEEPS.len() - 1);
    std::thread::sleep(left.min(Duration::from_millis(SLEEPS[at])));
    true
}

/// Not 0: the statement ends.
extern "C" fn ends(_: *mut c_void) -> c_int {
    c_int::from(halt::check().is_err())
}
