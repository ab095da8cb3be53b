//! A statement that takes long ends with its trial: the library's own calls ask nobody.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::handles::Connection;
use venturi_base::halt;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Looks after one connection on behalf of the thread that made it.
pub struct Watch {
    done: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// `None`: the thread works for nobody who could want it to end, or there are no more threads.
    pub fn over(connection: &Connection) -> Option<Self> {
        let halt = halt::current()?;
        let interrupt = connection.interrupt();
        let done: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let told = done.clone();
        let look = move || {
            let _entered = halt.enter();
            let (done, changed) = &*told;
            let mut done = done.lock();
            while !*done {
                changed.wait_for(&mut done, LOOK);
                if !*done && halt::check().is_err() {
                    // Again and again: a statement that has not begun hears nothing.
                    interrupt.now();
                }
            }
        };
        let name = "duckdb-watch".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(look).ok()?;
        Some(Self {
            done,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (done, changed) = &*self.done;
        *done.lock() = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
