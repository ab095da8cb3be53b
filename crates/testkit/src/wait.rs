//! How a test waits for a state, and the one limit that keeps a test from hanging for ever. The
//! limit is not a verdict: nothing that works comes near it on any machine.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until `reached`. For states of other threads or processes that announce no event.
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        if begun.elapsed() > LIMIT {
            panic!("never: {what}");
        }
        std::thread::sleep(PAUSE);
    }
}

type Running = Mutex<HashMap<String, Instant>>;

/// The tests that run, by name. The first call starts the thread that looks at them.
fn running() -> &'static Running {
    static RUNNING: OnceLock<Running> = OnceLock::new();
    RUNNING.get_or_init(|| {
        std::thread::spawn(|| loop {
            std::thread::sleep(Duration::from_secs(1));
            let running = running().lock().unwrap();
            if let Some((name, _)) = running.iter().find(|(_, at)| at.elapsed() > LIMIT) {
                eprintln!("test {name} hangs: it has run for {} s", LIMIT.as_secs());
                std::process::abort();
            }
        });
        Running::default()
    })
}

/// A test, for as long as its thread lives.
struct Watched(String);

impl Drop for Watched {
    fn drop(&mut self) {
        running().lock().unwrap().remove(&self.0);
    }
}

/// The process is aborted, with the test's name, if the test that calls this hangs. The parts of
/// this crate call it themselves.
pub fn watch() {
    thread_local! {
        static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
    }
    // The test harness names a test's thread after the test; other threads are not tests.
    let thread = std::thread::current();
    let Some(name) = thread.name().filter(|name| *name != "main") else {
        return;
    };
    WATCHED.with_borrow_mut(|watched| {
        watched.get_or_insert_with(|| {
            let mut running = running().lock().unwrap();
            running.insert(name.to_owned(), Instant::now());
            Watched(name.to_owned())
        });
    });
}
