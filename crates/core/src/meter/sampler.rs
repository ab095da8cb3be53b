//! The sampler: a thread that notes at every interval what the streams have moved and
//! what processes and host have used. A row of samples costs some 30 us.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::counters::Counters;
use super::cpu;

/// `samples` of docs/format.md: columns of equal length. Times and CPU times in ns,
/// CPU times as counted by the system (differences count, not the values).
#[derive(Debug, Clone, Default, Serialize)]
pub struct Samples {
    /// Since the start instant.
    pub t_ns: Vec<u64>,
    /// Payload bytes so far, a list a stream.
    pub streams: Vec<Vec<u64>>,
    /// Rows so far, all streams.
    pub rows: Vec<u64>,
    pub client_cpu_ns: Vec<u64>,
    /// `None`: not on this host, or the system does not tell.
    pub server_cpu_ns: Option<Vec<u64>>,
    pub host_busy_ns: Option<Vec<u64>>,
    pub host_steal_ns: Option<Vec<u64>>,
    pub host_total_ns: Option<Vec<u64>>,
}

impl Samples {
    fn new(streams: usize, server: Option<u32>) -> Self {
        let host = cpu::of_host().map(|_| Vec::new());
        Self {
            streams: vec![Vec::new(); streams],
            server_cpu_ns: server.and_then(cpu::of_process).map(|_| Vec::new()),
            host_busy_ns: host.clone(),
            host_steal_ns: host.clone(),
            host_total_ns: host,
            ..Self::default()
        }
    }

    fn take(&mut self, start: Instant, counters: &[Counters], server: Option<u32>) {
        let mut rows = 0;
        for (stream, counters) in self.streams.iter_mut().zip(counters) {
            let counts = counters.read();
            rows += counts.rows;
            stream.push(counts.bytes);
        }
        self.rows.push(rows);
        self.t_ns.push(start.elapsed().as_nanos() as u64);
        self.client_cpu_ns.push(cpu::own().total());
        if let Some(column) = &mut self.server_cpu_ns {
            // A process that has ended has used what it had used.
            let last = column.last().copied().unwrap_or(0);
            let now = server
                .and_then(cpu::of_process)
                .map_or(last, |time| time.total());
            column.push(now);
        }
        if let (Some(busy), Some(steal), Some(total)) = (
            &mut self.host_busy_ns,
            &mut self.host_steal_ns,
            &mut self.host_total_ns,
        ) {
            let now = cpu::of_host().unwrap_or_default();
            busy.push(now.busy_ns);
            steal.push(now.steal_ns);
            total.push(now.total_ns);
        }
    }
}

/// A running sampler; `stop` takes a last sample and hands over all.
#[derive(Debug)]
pub struct Sampler {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    /// Starts at `start`, which may lie ahead. `server`: a process of this host.
    pub fn start(
        start: Instant,
        interval: Duration,
        counters: Arc<[Counters]>,
        server: Option<u32>,
    ) -> std::io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        let run = move || {
            let mut samples = Samples::new(counters.len(), server);
            let mut due = start;
            while !seen.load(Relaxed) {
                match due.checked_duration_since(Instant::now()) {
                    Some(wait) if !wait.is_zero() => std::thread::park_timeout(wait),
                    _ => {
                        samples.take(start, &counters, server);
                        due += interval;
                        let now = Instant::now();
                        if due <= now {
                            due = now + interval; // a late sample does not make a hurried one
                        }
                    }
                }
            }
            samples.take(start, &counters, server);
            samples
        };
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .spawn(run)?;
        Ok(Self { ended, thread })
    }

    /// `None` where the sampler itself failed: a trial is not lost for its samples.
    pub fn stop(self) -> Option<Samples> {
        self.ended.store(true, Relaxed);
        self.thread.thread().unpark();
        self.thread.join().ok()
    }
}

/// Whether an address ("host:port") is this host's own: only then does a server's
/// process id mean a process here.
pub fn is_local(address: &str) -> bool {
    let mine = |ip: IpAddr| ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok();
    address
        .to_socket_addrs()
        .is_ok_and(|mut addresses| addresses.all(|address| mine(address.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_of_one_length_and_grow() {
        let counters = Counters::row(2);
        let own = Some(std::process::id());
        let start = Instant::now();
        let sampler =
            Sampler::start(start, Duration::from_millis(5), counters.clone(), own).unwrap();
        counters[1].add(10, 320);
        std::thread::sleep(Duration::from_millis(40));
        let samples = sampler.stop().unwrap();
        let rows = samples.t_ns.len();
        assert!(rows >= 3, "{rows} samples in 40 ms");
        assert!(samples.t_ns.is_sorted());
        assert_eq!(samples.streams[0].last(), Some(&0));
        assert_eq!(samples.streams[1].last(), Some(&320));
        assert_eq!(samples.rows.last(), Some(&10));
        assert_eq!(samples.client_cpu_ns.len(), rows);
        for column in [
            &samples.server_cpu_ns,
            &samples.host_busy_ns,
            &samples.host_total_ns,
        ] {
            assert!(column.as_ref().is_none_or(|column| column.len() == rows));
            assert_eq!(column.is_some(), cfg!(target_os = "linux"));
        }
    }

    #[test]
    fn stopping_does_not_wait_for_the_interval() {
        let long = Duration::from_secs(60);
        let sampler = Sampler::start(Instant::now(), long, Counters::row(1), None).unwrap();
        let start = Instant::now();
        assert!(sampler.stop().unwrap().server_cpu_ns.is_none());
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn local_addresses() {
        assert!(is_local("127.0.0.1:31337"));
        assert!(is_local("localhost:1"));
        assert!(!is_local("192.0.2.1:31337")); // TEST-NET-1, nobody's
        assert!(!is_local("no address"));
    }
}
