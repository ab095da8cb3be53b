//! The server's spec (docs/format.md) and what is wrong with it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use venturi_base::error::{Error, Result};

/// How safe a point is once a flush is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durable {
    /// Only sealed segments survive the process.
    None,
    /// In the system's page cache: it survives the process, not the machine.
    Os,
    /// On the disk.
    Fsync,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    #[serde(rename = "server")]
    _server: String,
    pub data: PathBuf,
    #[serde(default = "host")]
    pub host: String,
    /// Ports; 0 is any free one, null serves nothing.
    #[serde(default)]
    pub resp: Option<u16>,
    #[serde(default)]
    pub opentsdb: Option<u16>,
    #[serde(default)]
    pub influx: Option<u16>,
    #[serde(default)]
    pub http: Option<u16>,
    #[serde(default)]
    pub udp: Option<u16>,
    /// Reader threads; 0 is one a core.
    #[serde(default)]
    pub threads: usize,
    #[serde(default = "durable")]
    pub durable: Durable,
    /// Bound on the bytes of points that are not sealed yet.
    #[serde(default = "memory")]
    pub memory: u64,
    #[serde(default = "segment_points")]
    pub segment_points: usize,
    #[serde(default)]
    pub accept_late: bool,
    #[serde(default = "max_connections")]
    pub max_connections: usize,
    #[serde(default = "ten_seconds")]
    pub patience_ns: u64,
    #[serde(default = "max_series")]
    pub max_series: usize,
}

fn host() -> String {
    "127.0.0.1".into()
}

fn durable() -> Durable {
    Durable::Os
}

fn memory() -> u64 {
    2 << 30
}

fn segment_points() -> usize {
    4 << 20
}

fn ten_seconds() -> u64 {
    10_000_000_000
}

fn max_connections() -> usize {
    16_384
}

fn max_series() -> usize {
    16 << 20
}

/// Less memory for a thread, and segments would be confetti.
const LEAST_MEMORY: u64 = 16 << 20;

impl ServerSpec {
    pub fn parse(text: &str) -> Result<Self> {
        let mut spec: Self = serde_json::from_str(text)
            .map_err(|error| Error::usage(format!("the server's spec: {error}")))?;
        if spec.threads == 0 {
            spec.threads = std::thread::available_parallelism().map_or(2, usize::from);
        }
        let wrong = |what: &str| Err(Error::usage(format!("the server's spec: {what}")));
        if spec.threads > 256 {
            return wrong("threads: at most 256");
        }
        if spec.memory / (spec.threads as u64) < LEAST_MEMORY {
            return wrong("memory: at least 16 MiB a thread");
        }
        if !(1..=1 << 28).contains(&spec.segment_points) {
            return wrong("segment_points: from 1 to 268435456");
        }
        if !(1..=1 << 30).contains(&spec.max_series) {
            return wrong("max_series: from 1 to 1073741824");
        }
        let ports = [spec.resp, spec.opentsdb, spec.influx, spec.http, spec.udp];
        if ports.iter().all(Option::is_none) {
            return wrong("no port: nothing would be served");
        }
        Ok(spec)
    }

    /// Bytes of points a thread may gather: one memtable is being filled, one waits, one is
    /// being sealed, and vectors grow by doubling.
    pub fn memtable_bytes(&self) -> usize {
        (self.memory / self.threads as u64 / 4) as usize
    }
}
