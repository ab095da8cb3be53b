//! The points of the time-series workload: hosts with ten metrics each, that walk at random.
//!
//! A host's tags and walk depend on the seed and its number alone: the points are the same
//! however many streams they are dealt to.

use std::ops::Range;

use super::gauss::{splitmix, Ziggurat};
use super::points::{Block, Layout, Metric, Rows};
use crate::error::{Error, Result};
use crate::spec::Data;

/// Metrics of a host, and from which one on they are whole numbers.
const NAMES: [&str; WIDTH] = [
    "cpu.user",
    "cpu.sys",
    "cpu.real",
    "idle",
    "mem.commit",
    "mem.virt",
    "iops",
    "tcp.packets.in",
    "tcp.packets.out",
    "tcp.ret",
];
pub const WIDTH: usize = 10;
const INTEGER_METRICS: usize = 5;

/// Where each metric starts, and the standard deviation of its steps.
const ORIGIN: f64 = 10.0;
const STEP: f64 = 0.01;

/// A host takes some 300 bytes of each end's memory.
pub const MOST_HOSTS: u64 = 10_000_000;

const SYSTEMS: [&str; 4] = [
    "Ubuntu_14.04",
    "Ubuntu_15.10",
    "Ubuntu_16.04",
    "Ubuntu_16.10",
];
const ARCHITECTURES: [&str; 2] = ["x64", "x86"];
const INSTANCES: [&str; 5] = [
    "c3.large",
    "m3.large",
    "m3.xlarge",
    "m3.2xlarge",
    "r3.large",
];
const REGIONS: [&str; 5] = [
    "ap-southeast-1",
    "eu-central-1",
    "eu-west-1",
    "us-east-1",
    "us-west-1",
];
const TEAMS: [&str; 4] = ["LON", "NJ", "NY", "SF"];

/// All points of a spec's `metrics`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    pub hosts: u64,
    pub seed: u64,
    pub tick_ns: i64,
    pub start_unix_ns: i64,
    /// How many steps of time there are; `None`: time goes on.
    pub steps: Option<u64>,
}

impl Metrics {
    /// `None`: the data are of another kind.
    pub fn of(data: &Data) -> Option<Self> {
        let Data::Metrics {
            hosts,
            seed,
            tick_ns,
            start_unix_ns,
            steps,
        } = *data
        else {
            return None;
        };
        Some(Self {
            hosts,
            seed,
            tick_ns,
            start_unix_ns,
            steps,
        })
    }

    pub fn metrics() -> Vec<Metric> {
        let metric = |(at, name): (usize, &&str)| Metric {
            name: (*name).to_owned(),
            integer: at >= INTEGER_METRICS,
        };
        NAMES.iter().enumerate().map(metric).collect()
    }

    /// The hosts of one of so many streams: contiguous ranges that differ by one at most.
    pub fn share(&self, stream: usize, streams: usize) -> Result<Range<u64>> {
        if streams as u64 > self.hosts {
            return Err(Error::usage(format!(
                "{streams} streams for {} hosts: a host's series belong to one stream, so there must be at least as many hosts as streams",
                self.hosts
            )));
        }
        let bound = |at: usize| (self.hosts as u128 * at as u128 / streams as u128) as u64;
        Ok(bound(stream)..bound(stream + 1))
    }

    /// The layout of some hosts: key i is the i-th of them.
    pub fn layout(&self, hosts: Range<u64>) -> Layout {
        let mut layout = Layout::new(Self::metrics());
        for host in hosts {
            layout.add(self.tags(host).as_bytes());
        }
        layout
    }

    fn tags(&self, host: u64) -> String {
        let mut state = self.state(host) ^ 0x7461_6773;
        let mut pick =
            |from: &[&'static str]| from[(splitmix(&mut state) % from.len() as u64) as usize];
        let (system, architecture) = (pick(&SYSTEMS), pick(&ARCHITECTURES));
        let (instance, region, team) = (pick(&INSTANCES), pick(&REGIONS), pick(&TEAMS));
        let rack = splitmix(&mut state) % 100;
        format!("OS={system} arch={architecture} host=host_{host} instance-type={instance} rack={rack} region={region} team={team}")
    }

    /// Where a host's random numbers begin.
    fn state(&self, host: u64) -> u64 {
        let mut state = self.seed;
        let mut mixed = splitmix(&mut state) ^ host;
        splitmix(&mut mixed)
    }

    /// The walk of some hosts: for each step of time, all of them in turn.
    pub fn walk(&self, hosts: Range<u64>) -> Walk {
        let host = |host| Host {
            random: self.state(host),
            values: [ORIGIN; WIDTH],
        };
        Walk {
            hosts: hosts.map(host).collect(),
            next: 0,
            time: self.start_unix_ns,
            tick: self.tick_ns,
            left: self.steps,
        }
    }
}

struct Host {
    random: u64,
    values: [f64; WIDTH],
}

pub struct Walk {
    hosts: Vec<Host>,
    /// The host whose turn it is.
    next: usize,
    time: i64,
    tick: i64,
    /// Steps of time, the present one included.
    left: Option<u64>,
}

impl Rows for Walk {
    fn fill(&mut self, rows: usize, block: &mut Block) -> Result<()> {
        let table = Ziggurat::get();
        let mut missing = rows;
        block.values.reserve(rows.min(1 << 20) * WIDTH);
        while missing > 0 && self.left != Some(0) && !self.hosts.is_empty() {
            let until = self.hosts.len().min(self.next + missing);
            for host in &mut self.hosts[self.next..until] {
                let mut random = host.random;
                for value in &mut host.values {
                    *value += STEP * table.draw(&mut random);
                }
                host.random = random;
                let mut shown = host.values;
                for value in &mut shown[INTEGER_METRICS..] {
                    *value = (*value as i64) as f64; // by way of integers: there is no -0
                }
                block.values.extend_from_slice(&shown);
            }
            block.keys.extend(self.next as u32..until as u32);
            let count = until - self.next;
            block.times.resize(block.times.len() + count, self.time);
            missing -= count;
            self.next = until;
            if until == self.hosts.len() {
                self.next = 0;
                self.left = self.left.map(|left| left - 1);
                let over = || Error::usage("metrics: time has come to its end, the year 2262");
                self.time = self.time.checked_add(self.tick).ok_or_else(over)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::points::mix;

    fn metrics(hosts: u64, steps: Option<u64>) -> Metrics {
        Metrics {
            hosts,
            seed: 3,
            tick_ns: 1_000_000_000,
            start_unix_ns: 1_483_228_800_000_000_000,
            steps,
        }
    }

    fn all(metrics: &Metrics, streams: usize, rows: usize) -> (u64, u64) {
        let (mut points, mut digest) = (0, 0u64);
        for stream in 0..streams {
            let hosts = metrics.share(stream, streams).unwrap();
            let layout = metrics.layout(hosts.clone());
            let mut walk = metrics.walk(hosts);
            loop {
                let mut block = Block::default();
                walk.fill(rows, &mut block).unwrap();
                if block.rows() == 0 {
                    break;
                }
                points += block.points();
                digest = digest.wrapping_add(block.digest(&layout));
            }
        }
        (points, digest)
    }

    #[test]
    fn the_points_are_the_same_for_any_number_of_streams() {
        let metrics = metrics(11, Some(20));
        let one = all(&metrics, 1, 1000);
        assert_eq!(one.0, 11 * 20 * 10);
        for (streams, rows) in [(1, 1), (2, 7), (3, 100), (11, 13)] {
            assert_eq!(all(&metrics, streams, rows), one);
        }
        let other = Metrics { seed: 4, ..metrics };
        assert_ne!(all(&other, 1, 1000).1, one.1);
        assert!(other.share(0, 12).unwrap_err().message.contains("11 hosts"));
    }

    #[test]
    fn a_host_walks_as_it_should() {
        let metrics = metrics(2, None);
        let mut walk = metrics.walk(1..2);
        let mut block = Block::default();
        const STEPS: usize = 20_000;
        walk.fill(STEPS, &mut block).unwrap();
        assert_eq!(block.times[1] - block.times[0], metrics.tick_ns);
        assert_eq!(block.times[0], metrics.start_unix_ns);
        for (at, row) in block.values.chunks_exact(WIDTH).enumerate() {
            assert!(row[INTEGER_METRICS..]
                .iter()
                .all(|value| value.fract() == 0.0));
            if at == 0 {
                assert!(row[..INTEGER_METRICS]
                    .iter()
                    .all(|value| (value - 10.0).abs() < 0.06));
                assert!(row[INTEGER_METRICS..]
                    .iter()
                    .all(|value| (9.0..=10.0).contains(value)));
            }
        }
        let steps: Vec<f64> = block
            .values
            .chunks_exact(WIDTH)
            .map(|row| row[2])
            .collect::<Vec<_>>()
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect();
        let variance = steps.iter().map(|step| step * step).sum::<f64>() / steps.len() as f64;
        let error = (2.0 / steps.len() as f64).sqrt();
        assert!((variance / 1e-4 - 1.0).abs() < 5.0 * error, "{variance}");
        let layout = metrics.layout(1..2);
        assert!(std::str::from_utf8(layout.tags(0))
            .unwrap()
            .contains(" host=host_1 "));
        let names: Vec<&str> = std::str::from_utf8(layout.tags(0))
            .unwrap()
            .split(' ')
            .map(|tag| tag.split('=').next().unwrap())
            .collect();
        assert!(names.is_sorted());
        assert_eq!(layout.hashes(0).len(), WIDTH);
        let whole = block.digest(&layout);
        let first = (0..WIDTH).fold(0u64, |sum, at| {
            sum.wrapping_add(mix(layout.hashes(0)[at], block.times[0], block.values[at]))
        });
        block.clear();
        let mut again = metrics.walk(1..2);
        again.fill(1, &mut block).unwrap();
        assert_eq!(block.digest(&layout), first);
        assert_ne!(whole, first);
    }
}
