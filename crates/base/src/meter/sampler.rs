//! The sampler of the client's end: a thread that notes at every interval what the streams
//! have moved and what this process and its host have used; also what a foreign server's
//! process and Venturi's helpers have, where they run here. A row costs some 0.1 ms; what all cost is measured.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::counters::Counters;
use super::end::{monotonic_ns, thread_cpu_ns, End};
use super::series::Series;
use super::sockets::Sockets;
use crate::net::route::Route;

/// What was sampled; times by this machine's monotonic clock.
#[derive(Debug, Default)]
pub struct Taken {
    pub client: Series,
    /// Of a foreign server's process on this host.
    pub server: Option<Series>,
    /// Of Venturi's helpers on this host, in the order in which they are watched.
    pub helpers: Vec<Series>,
}

/// Opened before the clock starts, so that nothing has to be opened while it runs.
#[derive(Debug)]
pub struct Prepared {
    interval: Duration,
    counters: Arc<[Counters]>,
    client: End,
    server: Option<End>,
    helpers: Vec<End>,
    sockets: Option<Arc<Sockets>>,
    taken: Taken,
    cost_ns: u64,
}

impl Prepared {
    pub fn new(interval: Duration, counters: Arc<[Counters]>) -> Self {
        Self {
            interval,
            counters,
            client: End::own(),
            server: None,
            helpers: Vec::new(),
            sockets: None,
            taken: Taken::default(),
            cost_ns: 0,
        }
    }

    /// Where the trial's bytes go.
    pub fn aim(&mut self, route: &Route) {
        self.client.aim(route.local, route.peer);
    }

    /// The connections that the trial's streams use.
    pub fn connections(&mut self, sockets: Option<Arc<Sockets>>) {
        self.sockets = sockets;
    }

    /// A foreign server's processes on this host.
    pub fn watch(&mut self, servers: &[u32]) {
        self.server = Some(End::of_processes(servers));
    }

    /// Processes of this host that Venturi runs beside both ends.
    pub fn watch_helpers(&mut self, helpers: impl IntoIterator<Item = u32>) {
        self.helpers = helpers
            .into_iter()
            .map(|pid| End::of_process(Some(pid)))
            .collect();
        self.taken.helpers = vec![Series::default(); self.helpers.len()];
    }

    /// One row, now.
    pub fn take(&mut self) {
        let before = thread_cpu_ns();
        self.row(0);
        self.cost_ns += thread_cpu_ns() - before;
    }

    fn row(&mut self, spent: u64) {
        // Before the row, not after it: the last one of a trial must stay.
        if self.taken.client.is_full() {
            self.taken.client.halve();
            self.taken.server.as_mut().map(Series::halve);
            self.taken.helpers.iter_mut().for_each(Series::halve);
            self.interval *= 2;
        }
        let series = &mut self.taken.client;
        series.begin_row(monotonic_ns());
        let (mut rows, mut bytes) = (0, 0);
        for (stream, counters) in self.counters.iter().enumerate() {
            let counts = counters.read();
            rows += counts.rows;
            bytes += counts.bytes;
            series.put_item("streams", stream, counts.bytes, None);
        }
        series.put("rows", Some(rows));
        series.put("payload_bytes", Some(bytes));
        self.client.read(series);
        if let Some(sockets) = &self.sockets {
            sockets.sample(series);
        }
        if let Some(end) = &mut self.server {
            let series = self.taken.server.get_or_insert_default();
            series.begin_row(monotonic_ns());
            end.read(series);
            series.end_row(0); // the client's rows hold the cost of all
        }
        for (end, series) in self.helpers.iter_mut().zip(&mut self.taken.helpers) {
            series.begin_row(monotonic_ns());
            end.read(series);
            series.end_row(0);
        }
        self.taken.client.end_row(self.cost_ns + spent);
    }

    /// Takes a row now and goes on from `start`, which may lie ahead.
    pub fn begin(mut self, start: Instant) -> std::io::Result<Sampler> {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        let run = move || {
            let mut due = start + self.interval;
            self.client.begin();
            while !seen.load(Relaxed) {
                match due.checked_duration_since(Instant::now()) {
                    Some(wait) if !wait.is_zero() => self.client.park(wait),
                    _ => {
                        self.row(thread_cpu_ns());
                        due = next_due(due, self.interval, Instant::now());
                    }
                }
            }
            self.row(thread_cpu_ns());
            self.taken
        };
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(run)?;
        Ok(Sampler {
            ended,
            thread: Some(thread),
        })
    }
}

/// When the next row is due after one that was due at `due` and has been taken by `now`: a late
/// one does not make a hurried one.
fn next_due(due: Instant, interval: Duration, now: Instant) -> Instant {
    let next = due + interval;
    match next > now {
        true => next,
        false => now + interval,
    }
}

/// A running sampler; `stop` takes a last sample and hands over all. It ends with its owner,
/// also where a trial that panicked never comes to stop it.
#[derive(Debug)]
pub struct Sampler {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Taken>>,
}

impl Sampler {
    /// `None` where the sampler itself failed: a trial is not lost for its samples.
    pub fn stop(mut self) -> Option<Taken> {
        self.end();
        self.thread.take()?.join().ok()
    }

    fn end(&self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

/// The monotonic clock at an instant.
pub fn monotonic_at(instant: Instant) -> i64 {
    let (now, raw) = (Instant::now(), monotonic_ns());
    match instant.checked_duration_since(now) {
        Some(ahead) => raw + ahead.as_nanos() as i64,
        None => raw - (now - instant).as_nanos() as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::series::MOST_ROWS;
    use venturi_testkit::until;

    const HOUR: Duration = Duration::from_secs(3600);

    fn prepared(interval: Duration, counters: &Arc<[Counters]>) -> Prepared {
        let mut prepared = Prepared::new(interval, counters.clone());
        prepared.take();
        prepared
    }

    #[test]
    fn columns_are_of_one_length_and_grow() {
        let counters = Counters::row(2);
        let mut prepared = Prepared::new(HOUR, counters.clone());
        prepared.watch(&[std::process::id()]);
        prepared.watch_helpers([std::process::id()]);
        prepared.take();
        let start = Instant::now();
        (0..3).for_each(|_| prepared.take());
        let sampler = prepared.begin(start).unwrap();
        counters[1].add(10, 320);
        let taken = sampler.stop().unwrap();
        let (client, rows) = (&taken.client, taken.client.rows());
        assert_eq!(rows, 5, "before, three, and the last");
        assert!(client.t_ns.is_sorted());
        assert!(client.t_ns[0] <= monotonic_at(start) && monotonic_at(start) < client.t_ns[1]);
        assert_eq!(client.lists["streams"][0].last(), Some(&0));
        assert_eq!(client.lists["streams"][1].last(), Some(&320));
        assert_eq!(client.columns["rows"].last(), Some(&10));
        assert_eq!(client.columns["payload_bytes"].last(), Some(&320));
        assert_eq!(client.columns["user_ns"].len(), rows);
        assert!(client.cost_ns.is_sorted() && *client.cost_ns.last().unwrap() > 0);
        let server = taken.server.unwrap();
        assert_eq!(server.rows(), rows);
        assert_eq!(
            server.columns.contains_key("user_ns"),
            cfg!(target_os = "linux")
        );
        assert!(!server.columns.contains_key("host_busy_ns"));
        assert_eq!(taken.helpers[0].rows(), rows);
        assert_eq!(taken.helpers[0].columns.len(), server.columns.len());
    }

    #[test]
    fn a_late_row_does_not_make_a_hurried_one() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for (now, next) in [(5, 10), (9, 10), (10, 15), (12, 17), (70, 75)] {
            assert_eq!(next_due(at(5), Duration::from_millis(5), at(now)), at(next));
        }
    }

    #[test]
    fn a_sampler_that_nobody_stops_ends_with_its_owner() {
        let counters = Counters::row(1);
        let sampler = prepared(HOUR, &counters).begin(Instant::now()).unwrap();
        assert_eq!(Arc::strong_count(&counters), 2);
        drop(sampler);
        until("it ends", || Arc::strong_count(&counters) == 1);
    }

    #[test]
    fn halving_leaves_the_last_row() {
        let mut prepared = Prepared::new(Duration::from_secs(1), Counters::row(1));
        for _ in 1..MOST_ROWS {
            prepared.taken.client.begin_row(0);
            prepared.taken.client.end_row(0);
        }
        let before = monotonic_ns();
        prepared.take();
        let series = &prepared.taken.client;
        assert!(series.is_full() && *series.t_ns.last().unwrap() >= before);
        prepared.take();
        assert_eq!(prepared.taken.client.rows(), MOST_ROWS / 2 + 1);
        assert_eq!(prepared.interval, Duration::from_secs(2));
    }

    #[test]
    fn stopping_does_not_wait_for_the_interval_and_takes_a_last_row() {
        let sampler = prepared(HOUR, &Counters::row(1))
            .begin(Instant::now())
            .unwrap();
        assert_eq!(sampler.stop().unwrap().client.rows(), 2);
    }
}
