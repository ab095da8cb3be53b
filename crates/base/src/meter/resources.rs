//! `RESOURCES` of docs/format.md: what processes, hosts and interfaces did over the
//! interval, from the samples. Shares are parts of the window of `END`, or of CPU time.

use std::collections::BTreeMap;

use serde::Serialize;

use super::align::Clock;
use super::readers::tick_ns;
use super::series::Series;
use super::sockets::SocketSummary;

/// The host's CPU times go in the kernel's ticks: a share of fewer would be chance.
const LEAST_TICKS: u64 = 10;

/// Threads told of, the busiest first.
const THREADS: usize = 32;

#[derive(Debug, Clone, Serialize)]
pub struct Resources {
    pub same_machine: Option<bool>,
    pub clock: Option<Clock>,
    pub sampler: Cost,
    pub client: Option<End>,
    pub server: Option<End>,
    /// What Venturi runs beside both ends on the client's host, by its role; absent where there is nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub helpers: BTreeMap<String, End>,
}

/// What sampling cost at both ends.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cost {
    pub samples: usize,
    pub cpu_ns: u64,
    /// Of the CPU time of both processes; `None` where they used none.
    pub share: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct End {
    pub by: &'static str,
    /// It is one of so many servers, and the others were not looked at. `None`: the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_servers: Option<usize>,
    pub window_ns: u64,
    pub process: Option<Process>,
    pub host: Option<Host>,
    pub cgroup: Option<Group>,
    pub network: Option<Network>,
    pub disk: Option<Disk>,
    /// Of the trial's connections; `None` where the system does not tell.
    pub sockets: Option<SocketSummary>,
    #[serde(skip)]
    samples: usize,
    #[serde(skip)]
    cost_ns: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Process {
    pub user_ns: u64,
    pub system_ns: u64,
    pub run_delay_ns: Option<u64>,
    pub voluntary_switches: Option<u64>,
    pub involuntary_switches: Option<u64>,
    pub minor_faults: Option<u64>,
    pub major_faults: Option<u64>,
    pub rss_max_bytes: Option<u64>,
    /// For how long it did not run although it waited for no CPU (`pauses`), and the longest
    /// such time between two rows.
    pub paused_ns: Option<u64>,
    pub longest_pause_ns: Option<u64>,
    pub threads: Option<Vec<Thread>>,
}

/// Shares of one core.
#[derive(Debug, Clone, Serialize)]
pub struct Thread {
    pub name: String,
    pub cpu_share: f64,
    pub delay_share: f64,
}

/// CPU shares are of the time of all CPUs.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    pub cores: usize,
    pub busy_share: f64,
    pub user_share: f64,
    pub system_share: f64,
    pub softirq_share: f64,
    pub irq_share: f64,
    pub steal_share: f64,
    pub iowait_share: f64,
    pub core_busy_share: Vec<Option<f64>>,
    pub memory_available_min_bytes: Option<u64>,
    pub psi_cpu_share: Option<f64>,
    pub psi_memory_share: Option<f64>,
    pub psi_io_share: Option<f64>,
    pub frequency_khz: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Group {
    pub quota_cores: Option<f64>,
    pub throttled_ns: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Network {
    pub interface: String,
    pub loopback: bool,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_drops: u64,
    pub tx_drops: u64,
    pub speed_bits_per_second: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Disk {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub busy_share: f64,
}

impl Resources {
    pub fn of(
        same_machine: Option<bool>,
        clock: Option<Clock>,
        client: Option<End>,
        server: Option<End>,
    ) -> Self {
        let ends = || client.iter().chain(&server);
        let cpu: u64 = ends()
            .filter_map(|end| end.process.as_ref())
            .fold(0u64, |sum, process| {
                sum.saturating_add(process.user_ns.saturating_add(process.system_ns))
            });
        let cost = ends().map(|end| end.cost_ns);
        let cpu_ns = cost.fold(0u64, u64::saturating_add);
        Self {
            same_machine,
            clock,
            sampler: Cost {
                samples: ends().map(|end| end.samples).sum(),
                cpu_ns,
                share: (cpu > 0).then(|| cpu_ns as f64 / cpu as f64),
            },
            client,
            server,
            helpers: BTreeMap::new(),
        }
    }
}

impl End {
    /// The interval from `start` to `end`, on the clock of the series: from the row nearest
    /// to its start to the one nearest to its end. `None` with fewer than two rows.
    pub fn of(series: &Series, by: &'static str, start: i64, end: i64) -> Option<Self> {
        let window = Window::of(series, start, end)?;
        Some(Self {
            by,
            of_servers: None,
            window_ns: window.ns,
            process: window.process(),
            host: window.host(),
            cgroup: window.group(),
            network: window.network(),
            disk: window.disk(),
            sockets: SocketSummary::of(series, window.first..=window.last, window.ns),
            samples: window.last - window.first + 1,
            cost_ns: grown(&series.cost_ns, &window),
        })
    }

    /// A process on the client's host, seen from there: the rest is what the client's end saw.
    pub fn on_clients_host(mut self, client: Option<&End>) -> Self {
        if let Some(client) = client {
            self.host = client.host.clone();
            self.network = client.network.clone();
            self.disk = client.disk.clone();
        }
        self
    }
}

struct Window<'a> {
    series: &'a Series,
    first: usize,
    last: usize,
    ns: u64,
}

fn grown(column: &[i64], window: &Window<'_>) -> u64 {
    match (column.get(window.first), column.get(window.last)) {
        (Some(first), Some(last)) => u64::try_from(last.saturating_sub(*first)).unwrap_or(0),
        _ => 0,
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl<'a> Window<'a> {
    fn of(series: &'a Series, start: i64, end: i64) -> Option<Self> {
        let times = &series.t_ns;
        let nearest = |to: i64| (0..times.len()).min_by_key(|&row| times[row].abs_diff(to));
        let first = nearest(start)?.min(times.len().checked_sub(2)?);
        let last = nearest(end)?.max(first + 1);
        let ns = u64::try_from(times[last].saturating_sub(times[first]))
            .ok()
            .filter(|ns| *ns > 0)?;
        Some(Self {
            series,
            first,
            last,
            ns,
        })
    }

    fn column(&self, name: &str) -> Option<&[i64]> {
        self.series.columns.get(name)?.get(self.first..=self.last)
    }

    fn grown(&self, name: &str) -> Option<u64> {
        Some(grown(self.series.columns.get(name)?, self))
    }

    fn items(&self, name: &str) -> Vec<u64> {
        let list = self.series.lists.get(name).map_or(&[][..], Vec::as_slice);
        list.iter().map(|column| grown(column, self)).collect()
    }

    fn process(&self) -> Option<Process> {
        Some(Process {
            user_ns: self.grown("user_ns")?,
            system_ns: self.grown("system_ns")?,
            run_delay_ns: self.grown("run_delay_ns"),
            voluntary_switches: self.grown("voluntary_switches"),
            involuntary_switches: self.grown("involuntary_switches"),
            minor_faults: self.grown("minor_faults"),
            major_faults: self.grown("major_faults"),
            rss_max_bytes: self
                .column("rss_bytes")
                .and_then(|column| u64::try_from(*column.iter().max()?).ok()),
            paused_ns: self.grown("paused_ns"),
            longest_pause_ns: self.column("paused_ns").and_then(|column| {
                let between = column.windows(2).map(|two| two[1].saturating_sub(two[0]));
                u64::try_from(between.max()?).ok()
            }),
            threads: self.threads(),
        })
    }

    fn threads(&self) -> Option<Vec<Thread>> {
        let (cpu, delay) = (self.items("thread_cpu_ns"), self.items("thread_delay_ns"));
        let mut threads: Vec<Thread> = self
            .series
            .thread_names
            .iter()
            .zip(cpu.iter().zip(&delay))
            .map(|(name, (cpu, delay))| Thread {
                name: name.clone(),
                cpu_share: *cpu as f64 / self.ns as f64,
                delay_share: *delay as f64 / self.ns as f64,
            })
            .collect();
        threads.sort_by(|a, b| b.cpu_share.total_cmp(&a.cpu_share));
        threads.truncate(THREADS);
        (!threads.is_empty()).then_some(threads)
    }

    fn host(&self) -> Option<Host> {
        if self.ns < LEAST_TICKS * tick_ns() {
            return None;
        }
        let total = self.grown("host_total_ns")?;
        let of_total = |name: &str| share(self.grown(name)?, total);
        let cores = self.items("core_total_ns");
        let busy = self.items("core_busy_ns");
        let pressure = |name: &str| self.grown(name).map(|us| us as f64 * 1e3 / self.ns as f64);
        Some(Host {
            cores: cores.len(),
            busy_share: of_total("host_busy_ns")?,
            user_share: of_total("host_user_ns")?,
            system_share: of_total("host_system_ns")?,
            softirq_share: of_total("host_softirq_ns")?,
            irq_share: of_total("host_irq_ns")?,
            steal_share: of_total("host_steal_ns")?,
            iowait_share: of_total("host_iowait_ns")?,
            core_busy_share: busy
                .iter()
                .zip(&cores)
                .map(|(busy, total)| share(*busy, *total))
                .collect(),
            memory_available_min_bytes: self
                .column("memory_available_bytes")
                .and_then(|column| u64::try_from(*column.iter().min()?).ok()),
            psi_cpu_share: pressure("psi_cpu_us"),
            psi_memory_share: pressure("psi_memory_us"),
            psi_io_share: pressure("psi_io_us"),
            frequency_khz: self.frequency(),
        })
    }

    fn frequency(&self) -> Option<f64> {
        let list = self.series.lists.get("frequency_khz")?;
        let all: Vec<f64> = list
            .iter()
            .filter_map(|column| column.get(self.first..=self.last))
            .flatten()
            .map(|khz| *khz as f64)
            .collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    fn group(&self) -> Option<Group> {
        let group = Group {
            quota_cores: self.series.facts.quota_cores,
            throttled_ns: self.grown("throttled_ns"),
        };
        (group.quota_cores.is_some() || group.throttled_ns.is_some()).then_some(group)
    }

    fn network(&self) -> Option<Network> {
        let interface = self.series.facts.interface.as_ref()?;
        Some(Network {
            interface: interface.name.clone(),
            loopback: interface.loopback,
            rx_bytes: self.grown("net_rx_bytes")?,
            tx_bytes: self.grown("net_tx_bytes")?,
            rx_packets: self.grown("net_rx_packets")?,
            tx_packets: self.grown("net_tx_packets")?,
            rx_drops: self.grown("net_rx_drops")?,
            tx_drops: self.grown("net_tx_drops")?,
            speed_bits_per_second: interface.speed_bits_per_second,
        })
    }

    fn disk(&self) -> Option<Disk> {
        Some(Disk {
            read_bytes: self.grown("disk_read_bytes")?,
            written_bytes: self.grown("disk_written_bytes")?,
            busy_share: self.grown("disk_busy_ns")? as f64 / self.ns as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::readers::network::Interface;

    /// Rows at -5, 100, 200, 305 (ms): the window of 0..300 is -5..305.
    fn series() -> Series {
        let mut series = Series::default();
        series.facts.interface = Some(Interface {
            name: "eth0".into(),
            ..Interface::default()
        });
        series.thread_names = vec!["idle".into(), "busy".into()];
        for (row, t) in [-500, -5, 100, 200, 305, 900].into_iter().enumerate() {
            let row = row as u64;
            series.begin_row(1_000_000 * t);
            series.put("user_ns", Some(1000 * row));
            series.put("system_ns", Some(10 * row));
            series.put("paused_ns", Some([0, 7, 7, 60, 260, 900][row as usize]));
            series.put("rss_bytes", Some(if row == 3 { 99 } else { 50 }));
            series.put("host_total_ns", Some(1000 * row));
            for name in [
                "host_user_ns",
                "host_system_ns",
                "host_softirq_ns",
                "host_irq_ns",
            ] {
                series.put(name, Some(200 * row));
            }
            series.put("host_busy_ns", Some(800 * row));
            series.put("host_steal_ns", Some(100 * row));
            series.put("host_iowait_ns", Some(0));
            series.put("psi_cpu_us", Some(31_000 * row));
            series.put(
                "memory_available_bytes",
                Some(if row == 0 { 1 } else { 1000 - row }),
            );
            for name in [
                "rx_bytes",
                "tx_bytes",
                "rx_packets",
                "tx_packets",
                "rx_drops",
                "tx_drops",
            ] {
                let name: &'static str = format!("net_{name}").leak();
                series.put(name, Some(7 * row));
            }
            for (core, busy) in [50 * row, 100 * row].into_iter().enumerate() {
                series.put_item("core_total_ns", core, 100 * row, None);
                series.put_item("core_busy_ns", core, busy, None);
                series.put_item("frequency_khz", core, 1000 * (core as u64 + 1), None);
            }
            series.put_item("thread_cpu_ns", 0, 0, None);
            series.put_item("thread_cpu_ns", 1, 310_000_000 * row / 3, None);
            series.put_item("thread_delay_ns", 0, 0, None);
            series.put_item("thread_delay_ns", 1, 31_000_000 * row / 3, None);
            series.end_row(5 * row);
        }
        series
    }

    #[test]
    fn sums_over_the_interval() {
        let end = End::of(&series(), "self", 0, 300_000_000).unwrap();
        assert_eq!(
            (end.window_ns, end.samples, end.cost_ns),
            (310_000_000, 4, 15)
        );
        let process = end.process.as_ref().unwrap();
        assert_eq!((process.user_ns, process.system_ns), (3000, 30));
        assert_eq!(
            (process.rss_max_bytes, process.run_delay_ns),
            (Some(99), None)
        );
        assert_eq!(process.paused_ns, Some(253));
        assert_eq!(process.longest_pause_ns, Some(200));
        let threads = process.threads.as_ref().unwrap();
        assert_eq!((threads.len(), threads[0].name.as_str()), (2, "busy"));
        assert!((threads[0].cpu_share - 1.0).abs() < 1e-3);
        assert!((threads[0].delay_share - 0.1).abs() < 1e-3);
        let host = end.host.as_ref().unwrap();
        assert_eq!(
            (host.cores, host.busy_share, host.steal_share),
            (2, 0.8, 0.1)
        );
        assert_eq!(host.core_busy_share, [Some(0.5), Some(1.0)]);
        assert_eq!(host.memory_available_min_bytes, Some(996));
        assert!((host.psi_cpu_share.unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(host.frequency_khz, Some(1500.0));
        assert_eq!(end.network.as_ref().unwrap().rx_bytes, 21);
        assert!(end.disk.is_none() && end.cgroup.is_none());
        let both = Resources::of(
            Some(true),
            Some(Clock::default()),
            Some(end.clone()),
            Some(end),
        );
        assert_eq!((both.sampler.samples, both.sampler.cpu_ns), (8, 30));
        assert_eq!(both.sampler.share, Some(30.0 / 6060.0));
    }

    #[test]
    fn a_trial_shorter_than_the_interval_has_its_two_rows() {
        let mut short = series();
        short.halve();
        let short = short.since(1); // rows at 100 and 305
        assert_eq!(short.rows(), 2);
        assert_eq!(
            End::of(&short, "self", 150_000_000, 160_000_000)
                .unwrap()
                .window_ns,
            205_000_000
        );
        assert!(End::of(&short.since(1), "self", 0, 1).is_none());
        assert!(End::of(&Series::default(), "self", 0, 1).is_none());
    }

    #[test]
    fn nothing_known_is_null() {
        let mut bare = Series::default();
        for t in [0, 10] {
            bare.begin_row(t);
            bare.end_row(0);
        }
        let end = End::of(&bare, "client", 0, 10).unwrap();
        let json = serde_json::to_value(&end).unwrap();
        for part in ["process", "host", "cgroup", "network", "disk", "sockets"] {
            assert!(json[part].is_null(), "{part}");
        }
        assert_eq!(
            Resources::of(None, None, Some(end), None).sampler.share,
            None
        );
    }
}
