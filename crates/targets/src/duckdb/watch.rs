//! A statement that takes long ends with its trial: the library's own calls ask nobody.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::handles::{Connection, Interrupt, Refusal};
use super::upsert::describe;
use venturi_base::error::Error;
use venturi_base::halt::{self, Halt};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Looks after one connection, by a thread that is there before the clock starts.
pub struct Watch(Arc<(Mutex<Watched>, Condvar)>);

struct Watched {
    /// On whose behalf the statement runs; `None`: it does not yet.
    halt: Option<Halt>,
    /// `None`: the watch is over.
    interrupt: Option<Interrupt>,
}

impl Watch {
    /// Without a thread, where there are no more, statements run to their end.
    pub fn over(connection: &Connection) -> Self {
        let watched = Watched {
            halt: None,
            interrupt: Some(connection.interrupt()),
        };
        let shared = Arc::new((Mutex::new(watched), Condvar::new()));
        let seen = shared.clone();
        let thread = std::thread::Builder::new().name("duckdb-watch".to_owned());
        let _ = thread.spawn(move || look(&seen.0, &seen.1));
        Self(shared)
    }

    /// From here on it runs on behalf of whom this thread works for.
    pub fn begin(&self) {
        let (watched, changed) = &*self.0;
        watched.lock().halt = halt::current();
        changed.notify_all();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (watched, changed) = &*self.0;
        // Whoever interrupts has the lock meanwhile.
        watched.lock().interrupt = None;
        changed.notify_all();
    }
}

/// A refusal, or why the statement was interrupted.
pub fn interrupted(path: &Path, said: &Refusal) -> Error {
    halt::check().err().unwrap_or_else(|| describe(path, said))
}

fn look(watched: &Mutex<Watched>, changed: &Condvar) {
    let mut watched = watched.lock();
    while let Some(interrupt) = &watched.interrupt {
        let Some(halt) = &watched.halt else {
            changed.wait(&mut watched);
            continue;
        };
        let _entered = halt.enter();
        if halt::check().is_err() {
            // Again and again: a statement that has not begun hears nothing.
            interrupt.now();
        }
        changed.wait_for(&mut watched, LOOK);
    }
}
