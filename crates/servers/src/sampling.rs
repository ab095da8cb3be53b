//! The server samples itself while a trial is open: one thread for all trials.
//!
//! A client opens the sampling before its streams, or with the first of them, and fetches the rows
//! after them. What it never fetches is forgotten. A trial has a row before its streams whatever the
//! sampling thread has come to: whoever opens the first trial takes that row, and the trials that
//! come while others are open have the last one before them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use venturi_base::limit;
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

/// A sampling thread that takes longer for a row hangs: what it has is handed over without that row.
const UNTIL_ROW: Duration = Duration::from_secs(5);

/// A row that is no older than this will do for a trial's start.
const FRESH_NS: i64 = 20_000_000;

/// When the last row was taken, of a sampler whose thread has ended.
const ENDED: i64 = i64::MAX;

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
}

#[derive(Debug, Default)]
struct Book {
    trials: Vec<Open>,
    /// There is one while a trial is open.
    sampler: Option<Arc<Sampler>>,
    interval: Duration,
    /// Of the trial that has been open longest: what it would count of two interfaces in turn
    /// would be neither's.
    route: Option<Route>,
}

/// A sampling thread and its rows. One that is not in the book any more ends by itself.
#[derive(Debug, Default)]
struct Sampler {
    series: Mutex<Series>,
    /// A row is wanted at once: a trial's first stream begins, or its last one ends.
    nudged: AtomicBool,
    /// When the last row was taken: known without waiting for one that is being read. `ENDED`:
    /// there will be no other.
    last_ns: watch::Sender<i64>,
    thread: OnceLock<Thread>,
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

impl Connections {
    /// With a row of no connection: one that comes later counts from what it had when it came.
    fn opened(now: i64) -> Self {
        let mut series = Series::default();
        series.begin_row(now);
        series.end_row(0);
        Self {
            series: Mutex::new(series),
            ..Self::default()
        }
    }
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
        // Before the lock, for it opens some twenty files.
        let is_first = self.0.book.lock().sampler.is_none();
        let end = is_first.then(|| self.0.end(route));
        let mut book = self.0.book.lock();
        if book.trials.iter().any(|open| open.id == trial) {
            return true;
        }
        if book.trials.len() >= MOST {
            return false;
        }
        let interval = Duration::from_nanos(interval_ns).clamp(SHORTEST, LONGEST);
        let opened_ns = monotonic_ns();
        book.trials.push(Open {
            id: trial.to_owned(),
            interface: interface.map(|interface| interface.name),
            opened_ns,
            streams: 0,
            ended_ns: None,
            expires: Some(Instant::now() + UNTIL_FIRST),
            connections: Arc::new(Connections::opened(opened_ns)),
        });
        if let Some(sampler) = book.sampler.clone() {
            book.interval = book.interval.min(interval);
            book.route = book.route.or(route);
            sampler.nudge();
            return true;
        }
        let end = end.unwrap_or_else(|| self.0.end(route));
        match Sampler::start(self.0.clone(), end, interval, route) {
            Ok(sampler) => {
                book.sampler = Some(sampler);
                (book.interval, book.route) = (interval, route);
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
        self.with(trial, |open, _| open.connections.sockets.clone())
    }

    /// A stream of the trial begins.
    pub fn begin(&self, trial: &str) {
        self.with(trial, |open, sampler| {
            open.streams += 1;
            open.expires = None;
            if open.streams == 1 && !sampler.is_fresh() {
                sampler.nudge();
            }
        });
    }

    /// A stream of the trial has ended.
    pub fn end(&self, trial: &str) {
        self.with(trial, |open, sampler| {
            open.streams = open.streams.saturating_sub(1);
            if open.streams == 0 {
                open.ended_ns = Some(monotonic_ns());
                open.expires = Some(Instant::now() + AFTER_LAST);
                sampler.nudge();
            }
        });
    }

    fn with<T>(&self, trial: &str, act: impl FnOnce(&mut Open, &Arc<Sampler>) -> T) -> Option<T> {
        let mut book = self.0.book.lock();
        let Book {
            trials, sampler, ..
        } = &mut *book;
        let open = trials.iter_mut().find(|open| open.id == trial)?;
        Some(act(open, sampler.as_ref()?))
    }

    /// The trial's rows, handed over once. `None`: it was not sampled, or its sampler hangs.
    pub async fn take(&self, trial: &str) -> Option<Series> {
        self.take_within(UNTIL_ROW, trial).await
    }

    async fn take_within(&self, patience: Duration, trial: &str) -> Option<Series> {
        let (opened, ended, connections, interface, sampler) =
            self.with(trial, |open, sampler| {
                let connections = open.connections.clone();
                let interface = open.interface.clone();
                let sampler = sampler.clone();
                (
                    open.opened_ns,
                    open.ended_ns,
                    connections,
                    interface,
                    sampler,
                )
            })?;
        // The row that was wanted at the end may not be there yet.
        if let Some(ended) = ended {
            let mut taken = sampler.last_ns.subscribe();
            let _ = limit::within(patience, taken.wait_for(|last| *last >= ended)).await;
        }
        let mut series = {
            let series = sampler.series.try_lock_for(patience)?;
            let later = series.t_ns.partition_point(|t| *t <= opened);
            series.since(later.saturating_sub(1))
        };
        let counted = series.facts.interface.as_ref();
        if counted.map(|counted| &counted.name) != interface.as_ref() {
            series.forget_network();
        }
        let own = connections.series.try_lock_for(patience)?;
        series.join(&own);
        drop(own);
        self.0.book.lock().keep(|open| open.id != trial);
        Some(series)
    }

    /// The server stops.
    pub fn close(&self) {
        self.0.book.lock().keep(|_| false);
    }
}

impl Book {
    fn keep(&mut self, kept: impl Fn(&Open) -> bool) {
        self.trials.retain(kept);
        if self.trials.is_empty() {
            if let Some(sampler) = self.sampler.take() {
                sampler.nudge();
            }
        }
    }
}

impl Inner {
    fn end(&self, route: Option<Route>) -> End {
        let mut end = match self.children {
            true => End::with_children(),
            false => End::own(),
        };
        if let Some(route) = route {
            end.aim(route.local, route.peer);
        }
        end
    }
}

impl Sampler {
    /// Takes the first row.
    fn start(
        inner: Arc<Inner>,
        mut end: End,
        interval: Duration,
        aimed: Option<Route>,
    ) -> std::io::Result<Arc<Self>> {
        let sampler = Arc::new(Self::default());
        sampler.row(&mut end, &mut sampler.series.lock(), monotonic_ns(), 0);
        let own = sampler.clone();
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(move || own.run(&inner, end, interval, aimed))?;
        let _ = sampler.thread.set(thread.thread().clone());
        Ok(sampler)
    }

    fn nudge(&self) {
        self.nudged.store(true, Relaxed);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn is_fresh(&self) -> bool {
        monotonic_ns() - *self.last_ns.borrow() < FRESH_NS
    }

    /// The thread, until it is not wanted any more.
    fn run(
        self: Arc<Self>,
        inner: &Inner,
        mut end: End,
        interval: Duration,
        mut aimed: Option<Route>,
    ) {
        let _ended = Ended(&self);
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
            let Some(wanted) = self.wanted(inner) else {
                return;
            };
            if let Some(route) = wanted.route.filter(|_| wanted.route != aimed) {
                end.aim(route.local, route.peer);
                aimed = wanted.route;
            }
            let now = monotonic_ns();
            // Before the server's own row, which tells that all of the instant is there.
            for connections in wanted.connections {
                let mut series = connections.series.lock();
                if series.is_full() {
                    series.halve();
                }
                series.begin_row(now);
                connections.sockets.sample(&mut series);
                series.end_row(0);
            }
            let mut series = self.series.lock();
            if series.is_full() {
                series.halve(); // not after the row: a trial's last one must stay
                stretch *= 2;
            }
            self.row(&mut end, &mut series, now, thread_cpu_ns());
            due = Instant::now() + wanted.interval * stretch;
        }
    }

    fn row(&self, end: &mut End, series: &mut Series, now: i64, spent_ns: u64) {
        series.begin_row(now);
        end.read(series);
        series.end_row(spent_ns);
        self.last_ns.send_replace(now);
    }

    /// What to sample. `None`: nothing, or another thread does.
    fn wanted(self: &Arc<Self>, inner: &Inner) -> Option<Wanted> {
        let mut book = inner.book.lock();
        if !book
            .sampler
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(it, self))
        {
            return None;
        }
        let now = Instant::now();
        book.keep(|open| open.expires.is_none_or(|then| now < then));
        book.sampler.as_ref()?;
        let connections = book.trials.iter().map(|open| open.connections.clone());
        Some(Wanted {
            interval: book.interval,
            route: book.route,
            connections: connections.collect(),
        })
    }
}

/// Says that a sampler's thread takes no more rows, however it ends.
struct Ended<'a>(&'a Sampler);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.last_ns.send_replace(ENDED);
    }
}

/// Of the trials that are open, together.
struct Wanted {
    interval: Duration,
    route: Option<Route>,
    connections: Vec<Arc<Connections>>,
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{pin, Pin};
    use std::task::{Context, Waker};

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(work)
    }

    fn sampler(watch: &Watch) -> Arc<Sampler> {
        watch.0.book.lock().sampler.clone().unwrap()
    }

    fn rows(watch: &Watch) -> usize {
        sampler(watch).series.lock().rows()
    }

    fn until(what: impl Fn() -> bool) {
        venturi_testkit::until("the sampler", what);
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
        assert_eq!(
            rows(&watch),
            1,
            "before any stream, whatever its thread does"
        );
        let ended_with = Arc::downgrade(&sampler(&watch));
        // As if the row were old, whatever the clock says.
        sampler(&watch).last_ns.send_modify(|at| *at -= FRESH_NS);
        let begun = monotonic_ns();
        watch.begin("t");
        watch.begin("t");
        until(|| *sampler(&watch).series.lock().t_ns.last().unwrap() >= begun);
        watch.end("t");
        let ended = monotonic_ns();
        watch.end("t");
        // An interval of a minute, and yet a row at the begin and at the end.
        let series = run(watch.take("t")).unwrap();
        assert!(series.rows() >= 3);
        assert!(series.t_ns[0] <= begun && *series.t_ns.last().unwrap() >= ended);
        assert!(run(watch.take("t")).is_none(), "handed over once");
        until(|| ended_with.strong_count() == 0);
        assert!(watch.0.book.lock().sampler.is_none());
    }

    #[test]
    fn the_row_at_the_end_of_a_trial_is_awaited_but_not_for_ever() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let poll = |taking: Pin<&mut dyn Future<Output = _>>| {
            taking.poll(&mut Context::from_waker(Waker::noop()))
        };
        for (stops, hangs) in [(false, false), (true, false), (false, true)] {
            let watch = Watch::default();
            assert!(watch.open("t", 60_000_000_000, None));
            watch.begin("t");
            let connections = watch.with("t", |open, _| open.connections.clone()).unwrap();
            let held = connections.series.lock(); // the sampling thread comes no further
            let ended = monotonic_ns();
            watch.end("t");
            let patience = if hangs {
                Duration::from_millis(1)
            } else {
                LONGEST
            };
            let mut taking = pin!(watch.take_within(patience, "t"));
            assert!(poll(taking.as_mut()).is_pending());
            if stops {
                watch.close();
            }
            if hangs {
                assert!(runtime.block_on(taking).is_none());
                continue;
            }
            drop(held);
            let series = runtime.block_on(taking).unwrap();
            assert!(stops || *series.t_ns.last().unwrap() >= ended);
        }
    }

    #[test]
    fn two_trials_have_each_their_rows() {
        let watch = Watch::default();
        assert!(watch.open("a", 1_000_000, None));
        until(|| rows(&watch) > 20);
        let opened = monotonic_ns();
        assert!(watch.open("b", 1_000_000, None));
        let second = run(watch.take("b")).unwrap();
        assert_eq!(
            second.t_ns.partition_point(|t| *t <= opened),
            1,
            "the last before it"
        );
        assert!(run(watch.take("a")).unwrap().rows() > 20);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_trial_shorter_than_the_interval_has_what_its_connections_did() {
        use std::io::Write;
        use venturi_base::meter::sockets::Metered;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let watch = Watch::default();
        assert!(watch.open("t", 60_000_000_000, None));
        watch.begin("t"); // the first row is fresh: there is no other
        let sockets = watch.sockets("t").unwrap();
        let mut server = Metered::new(server);
        server.watch(&sockets);
        client.write_all(&[7; 5]).unwrap();
        server.peek(&mut [0]).unwrap();
        watch.end("t");
        let series = run(watch.take("t")).unwrap();
        let [queue] = &series.lists["socket_receive_queue_bytes"][..] else {
            panic!("one connection")
        };
        assert_eq!((queue.first(), queue.last()), (Some(&0), Some(&5)));
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
        let before = rows(&watch);
        until(|| rows(&watch) > before + 3);
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
        until(|| watch.0.book.lock().sampler.is_none());
        assert!(watch.open("one more", 1_000_000, None));
        let last = Arc::downgrade(&sampler(&watch));
        watch.close();
        until(|| last.strong_count() == 0);
    }
}
