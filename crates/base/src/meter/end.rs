//! All readers of one end together: one row of samples.

use std::net::SocketAddr;
use std::time::Duration;

use super::pauses::Pauses;
use super::readers::cgroup::Group;
use super::readers::disk::Disks;
use super::readers::frequency::Frequency;
use super::readers::host::Host;
use super::readers::memory::Memory;
use super::readers::network::Network;
use super::readers::pressure::Pressure;
use super::readers::process::Process;
use super::readers::threads::Threads;
use super::series::Series;

#[derive(Debug)]
pub struct End {
    process: Process,
    pauses: Pauses,
    threads: Threads,
    group: Option<Group>,
    /// `None`: another end on this host reads it.
    machine: Option<Machine>,
    network: Option<Network>,
}

/// What all processes of a host share.
#[derive(Debug)]
struct Machine {
    host: Option<Host>,
    frequency: Frequency,
    memory: Option<Memory>,
    pressure: Pressure,
    disks: Option<Disks>,
}

impl End {
    /// This process and its host.
    pub fn own() -> Self {
        Self::of_host(Process::new(None))
    }

    /// The same, with the processes that this one has started to work for it.
    pub fn with_children() -> Self {
        Self::of_host(Process::with_children())
    }

    fn of_host(process: Process) -> Self {
        let mut host = Host::open();
        let cpus = host.as_mut().and_then(|host| Some(host.read()?.1.len()));
        Self {
            machine: Some(Machine {
                host,
                frequency: Frequency::new(cpus.unwrap_or(0)),
                memory: Memory::open(),
                pressure: Pressure::open(),
                disks: Disks::open(),
            }),
            pauses: Pauses::own(),
            process,
            ..Self::of_process(None)
        }
    }

    /// A process alone.
    pub fn of_process(pid: Option<u32>) -> Self {
        Self {
            process: Process::new(pid),
            pauses: Pauses::other(),
            threads: Threads::new(pid),
            group: Group::of(pid),
            machine: None,
            network: None,
        }
    }

    /// Processes alone, which are one end together.
    pub fn of_processes(pids: &[u32]) -> Self {
        match pids {
            [only] => Self::of_process(Some(*only)),
            _ => Self {
                process: Process::several(pids),
                threads: Threads::none(),
                ..Self::of_process(pids.first().copied())
            },
        }
    }

    /// The connection whose interface is watched.
    pub fn aim(&mut self, local: SocketAddr, peer: SocketAddr) {
        self.network = Network::of(local, peer);
    }

    /// The calling thread takes the rows from here on.
    pub fn begin(&mut self) {
        if let Pauses::Own(own) = &mut self.pauses {
            own.watch_this_thread();
        }
    }

    /// Sleeps until it is unparked, for so long at most; whoever wants to sleep longer asks again.
    pub fn park(&mut self, wait: Duration) {
        match &mut self.pauses {
            Pauses::Own(own) => own.park(wait),
            Pauses::Other(_) => std::thread::park_timeout(wait),
        }
    }

    /// Puts what is read now into the row that has begun.
    pub fn read(&mut self, series: &mut Series) {
        self.read_process(series);
        if let Some(machine) = &mut self.machine {
            machine.read(series);
        }
        if let Some(network) = &mut self.network {
            if let Some(moved) = network.read() {
                series.put("net_rx_bytes", Some(moved.rx_bytes));
                series.put("net_tx_bytes", Some(moved.tx_bytes));
                series.put("net_rx_packets", Some(moved.rx_packets));
                series.put("net_tx_packets", Some(moved.tx_packets));
                series.put("net_rx_drops", Some(moved.rx_drops));
                series.put("net_tx_drops", Some(moved.tx_drops));
            }
            // Another trial on a server may have come by another one.
            if series.facts.interface.as_ref() != Some(&network.interface) {
                series.facts.interface = Some(network.interface.clone());
            }
        }
        if let Some(group) = &mut self.group {
            series.facts.quota_cores = group.quota_cores;
            series.put("throttled_ns", group.throttled_ns());
        }
    }

    fn read_process(&mut self, series: &mut Series) {
        let Some(usage) = self.process.read() else {
            return; // it has ended, and has used what it had used
        };
        series.put("user_ns", Some(usage.user_ns));
        series.put("system_ns", Some(usage.system_ns));
        series.put("minor_faults", Some(usage.minor_faults));
        series.put("major_faults", Some(usage.major_faults));
        series.put("rss_bytes", usage.rss_bytes);
        let now = series.t_ns.last().copied().unwrap_or_default();
        series.put("paused_ns", self.pauses.total_ns(usage.stopped, now));
        self.threads.read(usage.threads);
        let switches = usage.switches.or_else(|| self.threads.switches());
        series.put(
            "voluntary_switches",
            switches.map(|(voluntary, _)| voluntary),
        );
        series.put("involuntary_switches", switches.map(|(_, other)| other));
        let delay = self.threads.delay_ns();
        series.put("run_delay_ns", delay);
        if delay.is_none() {
            return; // a kernel without schedstat: the threads' times are not told
        }
        let first = series.rows() <= 1;
        for (thread, (cpu, delay)) in self.threads.times().enumerate() {
            // A thread that was not there at the first row began with nothing.
            let before = (!first).then_some(0);
            series.put_item("thread_cpu_ns", thread, cpu, before);
            series.put_item("thread_delay_ns", thread, delay, before);
        }
        if series.thread_names != self.threads.names() {
            series.thread_names = self.threads.names().to_vec();
        }
    }
}

impl Machine {
    fn read(&mut self, series: &mut Series) {
        if let Some((all, cores)) = self.host.as_mut().and_then(Host::read) {
            series.put("host_busy_ns", Some(all.busy_ns()));
            series.put("host_user_ns", Some(all.user_ns));
            series.put("host_system_ns", Some(all.system_ns));
            series.put("host_irq_ns", Some(all.irq_ns));
            series.put("host_softirq_ns", Some(all.softirq_ns));
            series.put("host_steal_ns", Some(all.steal_ns));
            series.put("host_iowait_ns", Some(all.iowait_ns));
            series.put("host_total_ns", Some(all.total_ns()));
            for (core, times) in cores.iter().enumerate() {
                series.put_item("core_busy_ns", core, times.busy_ns(), None);
                series.put_item("core_softirq_ns", core, times.softirq_ns, None);
                series.put_item("core_steal_ns", core, times.steal_ns, None);
                series.put_item("core_total_ns", core, times.total_ns(), None);
            }
        }
        for (core, khz) in self.frequency.read().iter().enumerate() {
            series.put_item("frequency_khz", core, *khz, None);
        }
        let available = self.memory.as_mut().and_then(Memory::available_bytes);
        series.put("memory_available_bytes", available);
        let [cpu, memory, io] = self.pressure.read();
        series.put("psi_cpu_us", cpu);
        series.put("psi_memory_us", memory);
        series.put("psi_io_us", io);
        if let Some(moved) = self.disks.as_mut().and_then(Disks::read) {
            series.put("disk_read_bytes", Some(moved.read_bytes));
            series.put("disk_written_bytes", Some(moved.written_bytes));
            series.put("disk_busy_ns", Some(moved.busy_ns));
        }
    }
}

/// By the monotonic clock, which `Instant` is read from too.
pub fn monotonic_ns() -> i64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Goes on while the machine is suspended.
pub fn boot_time_ns() -> i64 {
    #[cfg(target_os = "linux")]
    return clock(libc::CLOCK_BOOTTIME);
    #[cfg(not(target_os = "linux"))]
    return monotonic_ns();
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID) as u64
}

fn clock(id: libc::clockid_t) -> i64 {
    // SAFETY: clock_gettime fills the structure it is given; the clocks exist everywhere.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(id, &mut time);
        time
    };
    time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_row_of_this_process_has_all_that_linux_tells() {
        let mut end = End::own();
        let here: SocketAddr = "127.0.0.1:1".parse().unwrap();
        end.aim(here, here);
        let mut series = Series::default();
        for _ in 0..2 {
            series.begin_row(monotonic_ns());
            end.read(&mut series);
            series.end_row(thread_cpu_ns());
        }
        for name in [
            "user_ns",
            "run_delay_ns",
            "voluntary_switches",
            "rss_bytes",
            "paused_ns",
            "host_busy_ns",
            "host_total_ns",
            "memory_available_bytes",
            "net_rx_bytes",
        ] {
            assert_eq!(series.columns[name].len(), 2, "{name}");
        }
        assert_eq!(
            series.lists["thread_cpu_ns"].len(),
            series.thread_names.len()
        );
        assert!(series.facts.interface.as_ref().unwrap().loopback);
        assert!(series.t_ns.is_sorted() && series.cost_ns.is_sorted());
    }

    /// What a row costs here: `cargo test --release row_cost -- --ignored --nocapture`.
    #[cfg(target_os = "linux")]
    #[test]
    #[ignore = "a measurement"]
    fn row_cost() {
        for threads in [0usize, 200, 400] {
            let (end_them, ended) = std::sync::mpsc::channel::<()>();
            let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
            let all: Vec<_> = (0..threads)
                .map(|_| {
                    let ended = ended.clone();
                    std::thread::spawn(move || drop(ended.lock().map(|e| e.recv())))
                })
                .collect();
            let mut end = End::own();
            let mut series = Series::default();
            let mut row = || {
                series.begin_row(monotonic_ns());
                end.read(&mut series);
                series.end_row(0);
            };
            row();
            row();
            let before = thread_cpu_ns();
            (0..200).for_each(|_| row());
            println!(
                "{threads} threads more: {} us a row",
                (thread_cpu_ns() - before) / 200_000
            );
            drop(end_them);
            all.into_iter().for_each(|thread| drop(thread.join()));
        }
    }
}
