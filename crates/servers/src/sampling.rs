//! The server samples itself while a trial is open: one thread for all trials.
//!
//! A client opens the sampling before its streams, or with the first of them, and fetches the rows
//! after them. The first row is taken by whoever opens it: a thread that has yet to start may come
//! after a short trial has ended. What is never fetched is forgotten.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use venturi_base::meter::end::{monotonic_ns, thread_cpu_ns, End};
use venturi_base::meter::readers::network::Interface;
use venturi_base::meter::series::Series;
use venturi_base::meter::sockets::Sockets;
use venturi_base::net::route::Route;

/// Trials that are sampled at a time; of more the server has no samples.
const MOST: usize = 16;

/// Bytes of a trial's name: a longer one wants our memory, and has no samples.
const LONGEST_ID: usize = 256;

/// How long a trial may be open without a stream, before the first one and after the last.
const UNTIL_FIRST: Duration = Duration::from_secs(120);
const AFTER_LAST: Duration = Duration::from_secs(15);

/// A row that is no older than this will do for a trial's start, also where it was taken for
/// another trial.
const FRESH_NS: i64 = 20_000_000;

/// Intervals that a client may ask for.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub(crate) struct Watch(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// What is sampled is this process with those that it has started.
    children: bool,
    book: Mutex<Book>,
    series: Mutex<Series>,
    /// A row is wanted at once: a trial's first stream begins, or its last one ends.
    nudged: AtomicBool,
    /// When the last row was taken: known without waiting for one that is being read.
    last_ns: AtomicI64,
}

#[derive(Debug, Default)]
struct Book {
    trials: Vec<Open>,
    /// There is one while a trial is open.
    thread: Option<Thread>,
    running: bool,
    interval: Duration,
    /// Of the trial that has been open longest: what it would count of two interfaces in turn
    /// would be neither's.
    route: Option<Route>,
}

#[derive(Debug)]
struct Open {
    id: String,
    /// That carries its connections.
    interface: Option<String>,
    opened_ns: i64,
    streams: u64,
    /// When its last stream ended.
    ended_ns: Option<i64>,
    /// Forgotten then; `None`: streams are in flight.
    expires: Option<Instant>,
    connections: Arc<Connections>,
}

/// A trial's own: the connections of its streams, with a row for each of the server's.
#[derive(Debug, Default)]
struct Connections {
    sockets: Arc<Sockets>,
    series: Mutex<Series>,
}

impl Watch {
    /// Of a server that has other processes work for it.
    pub fn with_children() -> Self {
        Self(Arc::new(Inner {
            children: true,
            ..Inner::default()
        }))
    }

    /// Samples from now on for this trial. False: too many are open.
    pub fn open(&self, trial: &str, interval_ns: u64, route: Option<Route>) -> bool {
        if interval_ns == 0 || trial.len() > LONGEST_ID {
            return false;
        }
        // Where set-up is timed every stream asks, and looking at interfaces takes a while.
        if self.sockets(trial).is_some() {
            return true;
        }
        let interface = route.and_then(|route| Interface::of(route.local.ip(), route.peer.ip()));
        let mut book = self.0.book.lock();
        if book.trials.iter().any(|open| open.id == trial) {
            return true;
        }
        if book.trials.len() >= MOST {
            return false;
        }
        let interval = Duration::from_nanos(interval_ns).clamp(SHORTEST, LONGEST);
        if book.trials.is_empty() || interval < book.interval {
            book.interval = interval;
        }
        if book.trials.is_empty() {
            book.route = None;
        }
        book.route = book.route.or(route);
        book.trials.push(Open {
            id: trial.to_owned(),
            interface: interface.map(|interface| interface.name),
            opened_ns: monotonic_ns(),
            streams: 0,
            ended_ns: None,
            expires: Some(Instant::now() + UNTIL_FIRST),
            connections: Arc::default(),
        });
        if book.running {
            self.0.nudge(&book);
            return true;
        }
        let inner = self.0.clone();
        let mut end = match inner.children {
            true => End::with_children(),
            false => End::own(),
        };
        if let Some(route) = book.route {
            end.aim(route.local, route.peer);
        }
        inner.row(&mut end, &mut inner.series.lock(), monotonic_ns(), 0);
        let aimed = book.route;
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(move || inner.run(end, interval, aimed));
        match thread {
            Ok(thread) => {
                book.running = true;
                book.thread = Some(thread.thread().clone());
                true
            }
            Err(_) => {
                book.trials.clear();
                false
            }
        }
    }

    /// Where the trial's connections are to be entered. `None`: it is not sampled.
    pub fn sockets(&self, trial: &str) -> Option<Arc<Sockets>> {
        let book = self.0.book.lock();
        let open = book.trials.iter().find(|open| open.id == trial)?;
        Some(open.connections.sockets.clone())
    }

    /// A stream of the trial begins.
    pub fn begin(&self, trial: &str) {
        let fresh = monotonic_ns() - self.0.last_ns.load(Relaxed) < FRESH_NS;
        self.with(trial, |open| {
            open.streams += 1;
            open.expires = None;
            open.streams == 1 && !fresh
        });
    }

    /// A stream of the trial has ended.
    pub fn end(&self, trial: &str) {
        self.with(trial, |open| {
            open.streams = open.streams.saturating_sub(1);
            if open.streams > 0 {
                return false;
            }
            open.ended_ns = Some(monotonic_ns());
            open.expires = Some(Instant::now() + AFTER_LAST);
            true
        });
    }

    fn with(&self, trial: &str, act: impl FnOnce(&mut Open) -> bool) {
        let mut book = self.0.book.lock();
        let Some(open) = book.trials.iter_mut().find(|open| open.id == trial) else {
            return;
        };
        if act(open) {
            self.0.nudge(&book);
        }
    }

    /// The trial's rows, handed over once. `None`: it was not sampled.
    pub async fn take(&self, trial: &str) -> Option<Series> {
        let (opened, ended, connections, interface) = {
            let book = self.0.book.lock();
            let open = book.trials.iter().find(|open| open.id == trial)?;
            let connections = open.connections.clone();
            let interface = open.interface.clone();
            (open.opened_ns, open.ended_ns, connections, interface)
        };
        // The row that was wanted at the end may not be there yet.
        for _ in 0..200 {
            let last = self.0.series.lock().t_ns.last().copied();
            if ended.is_none_or(|ended| last.is_some_and(|last| last >= ended)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut series = {
            let series = self.0.series.lock();
            series.since(series.t_ns.partition_point(|t| *t < opened - FRESH_NS))
        };
        let counted = series.facts.interface.as_ref();
        if counted.map(|counted| &counted.name) != interface.as_ref() {
            series.forget_network();
        }
        series.join(&connections.series.lock());
        let mut book = self.0.book.lock();
        book.trials.retain(|open| open.id != trial);
        self.0.nudge(&book);
        Some(series)
    }

    /// The server stops.
    pub fn close(&self) {
        let mut book = self.0.book.lock();
        book.trials.clear();
        self.0.nudge(&book);
    }
}

impl Inner {
    fn nudge(&self, book: &Book) {
        self.nudged.store(true, Relaxed);
        if let Some(thread) = &book.thread {
            thread.unpark();
        }
    }

    /// The sampling thread, until no trial is open. The first row is there.
    fn run(&self, mut end: End, interval: Duration, mut aimed: Option<Route>) {
        end.begin();
        let mut stretch = 1;
        let mut due = Instant::now() + interval;
        loop {
            while !self.nudged.swap(false, Relaxed) {
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                end.park(left);
            }
            let Some((interval, route)) = self.next() else {
                return;
            };
            if route != aimed {
                if let Some(route) = route {
                    end.aim(route.local, route.peer);
                }
                aimed = route;
            }
            let now = monotonic_ns();
            self.read_connections(now);
            let mut series = self.series.lock();
            if series.is_full() {
                series.halve(); // not after the row: a trial's last one must stay
                stretch *= 2;
            }
            self.row(&mut end, &mut series, now, thread_cpu_ns());
            due = Instant::now() + interval * stretch;
        }
    }

    fn row(&self, end: &mut End, series: &mut Series, now: i64, spent_ns: u64) {
        series.begin_row(now);
        end.read(series);
        series.end_row(spent_ns);
        self.last_ns.store(now, Relaxed);
    }

    /// Before the server's own row, which tells that all of the instant is there.
    fn read_connections(&self, now: i64) {
        let trials = self
            .book
            .lock()
            .trials
            .iter()
            .map(|open| open.connections.clone())
            .collect::<Vec<_>>();
        for connections in trials {
            let mut series = connections.series.lock();
            if series.is_full() {
                series.halve();
            }
            series.begin_row(now);
            connections.sockets.sample(&mut series);
            series.end_row(0);
        }
    }

    /// What to sample for. `None`: for nobody; the thread is no more.
    fn next(&self) -> Option<(Duration, Option<Route>)> {
        let mut book = self.book.lock();
        let now = Instant::now();
        book.trials
            .retain(|open| open.expires.is_none_or(|then| now < then));
        if !book.trials.is_empty() {
            return Some((book.interval, book.route));
        }
        *book = Book::default();
        *self.series.lock() = Series::default();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl std::future::Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(work)
    }

    fn is_running(watch: &Watch) -> bool {
        watch.0.book.lock().running
    }

    fn until(what: impl Fn() -> bool) {
        let start = Instant::now();
        while !what() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(what());
    }

    #[test]
    fn it_runs_while_a_trial_is_open_and_not_longer() {
        let watch = Watch::default();
        assert!(run(watch.take("t")).is_none());
        assert!(!watch.open("t", 0, None), "interval 0: no samples");
        assert!(watch.open("t", 60_000_000_000, None));
        assert!(
            watch.open("t", 60_000_000_000, None),
            "a second opening is the same one"
        );
        let first = watch.0.series.lock().rows();
        assert!(first > 0, "the first row is there before any stream");
        std::thread::sleep(Duration::from_nanos(FRESH_NS as u64));
        let begun = monotonic_ns();
        watch.begin("t");
        watch.begin("t");
        until(|| *watch.0.series.lock().t_ns.last().unwrap() >= begun);
        watch.end("t");
        let ended = monotonic_ns();
        watch.end("t");
        // An interval of a minute, and yet a row at the begin and at the end.
        let series = run(watch.take("t")).unwrap();
        assert!(series.rows() >= 3);
        assert!(series.t_ns[0] <= begun && *series.t_ns.last().unwrap() >= ended);
        assert!(run(watch.take("t")).is_none(), "handed over once");
        until(|| !is_running(&watch));
        assert_eq!(watch.0.series.lock().rows(), 0);
    }

    #[test]
    fn two_trials_have_each_their_rows() {
        let watch = Watch::default();
        assert!(watch.open("a", 1_000_000, None));
        until(|| watch.0.series.lock().rows() > 20);
        let opened = monotonic_ns();
        assert!(watch.open("b", 1_000_000, None));
        let second = run(watch.take("b")).unwrap();
        assert!(second.t_ns.iter().all(|t| *t >= opened - FRESH_NS));
        assert!(is_running(&watch));
        assert!(run(watch.take("a")).unwrap().rows() > 20);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_trial_gets_another_one_s_interface() {
        let route = |local: &str, peer: &str| {
            Some(Route {
                local: format!("{local}:1").parse().unwrap(),
                peer: format!("{peer}:1").parse().unwrap(),
            })
        };
        let watch = Watch::default();
        // TEST-NET-3 is nobody's: no interface has its addresses.
        assert!(watch.open("a", 1_000_000, route("127.0.0.1", "127.0.0.1")));
        assert!(watch.open("b", 1_000_000, route("203.0.113.1", "203.0.113.2")));
        assert!(watch.open("c", 1_000_000, route("127.0.0.1", "127.0.0.2")));
        let rows = watch.0.series.lock().rows();
        until(|| watch.0.series.lock().rows() > rows + 3);
        for (trial, told) in [("b", false), ("a", true), ("c", true)] {
            let series = run(watch.take(trial)).unwrap();
            assert_eq!(series.columns.contains_key("net_rx_bytes"), told, "{trial}");
            let name = series.facts.interface.map(|interface| interface.loopback);
            assert_eq!(name, told.then_some(true), "{trial}");
        }
    }

    #[test]
    fn what_is_not_fetched_is_bounded_and_ends() {
        let watch = Watch::default();
        assert!(!watch.open(&"x".repeat(LONGEST_ID + 1), 1_000_000, None));
        for trial in 0..MOST {
            assert!(watch.open(&trial.to_string(), 1_000_000, None));
        }
        assert!(!watch.open("one more", 1_000_000, None));
        for open in &mut watch.0.book.lock().trials {
            open.expires = Some(Instant::now());
        }
        until(|| !is_running(&watch));
        assert!(watch.open("one more", 1_000_000, None));
        watch.close();
        until(|| !is_running(&watch));
    }
}
