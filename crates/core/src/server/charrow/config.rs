//! How the server is set up.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::meter::clock::Stage;
use crate::meter::handicap::Handicap;
use crate::server::TableSpec;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    #[default]
    Builtin,
    /// Whoever calls `next_query`.
    Outside,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    #[serde(default)]
    pub server: Option<String>,
    pub host: String,
    pub port: u16,
    /// Bound of the blocks of one query that are encoded and not sent yet, in bytes.
    #[serde(default = "sixty_four_mib")]
    pub query_memory_bytes: u64,
    /// Queries that run at a time.
    #[serde(default = "sixty_four")]
    pub max_queries: usize,
    #[serde(default = "thousand")]
    pub max_connections: usize,
    /// How long a client may take to say what it has begun to say.
    #[serde(default = "ten_seconds")]
    pub patience_ns: u64,
    /// How long a partition may read nothing until it counts as gone.
    #[serde(default = "half_a_minute")]
    pub stall_timeout_ns: u64,
    /// Bytes of the sockets' send buffers; absent: `socket::prepare` decides.
    #[serde(default)]
    pub send_buffer: Option<usize>,
    /// Nanoseconds to burn for every block, by stage.
    #[serde(default)]
    pub handicap: BTreeMap<String, u64>,
    #[serde(default)]
    pub tls_certificate: Option<String>,
    #[serde(default)]
    pub tls_key: Option<String>,
    /// Clients must show a certificate of this CA.
    #[serde(default)]
    pub tls_client_ca: Option<String>,
    /// The environment variable that holds the password that clients must give.
    #[serde(default)]
    pub token_env: Option<String>,
    /// The machine and software that this server runs on, for whoever measures it.
    #[serde(default)]
    pub environment: serde_json::Value,
    /// Files that are held in memory.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
    /// Files that are read while a query runs.
    #[serde(default)]
    pub streams: Vec<StreamSpec>,
    #[serde(default)]
    pub engine: EngineKind,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    pub name: String,
    /// An Arrow IPC or Parquet file.
    pub path: String,
}

impl ServerSpec {
    pub fn parse(json: &str) -> Result<Self> {
        let spec: Self = serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("the server's spec: {error}")))?;
        if spec.query_memory_bytes == 0 || spec.max_queries == 0 || spec.max_connections == 0 {
            return Err(Error::usage(
                "query_memory_bytes, max_queries and max_connections must be at least 1",
            ));
        }
        if spec.patience_ns == 0 || spec.stall_timeout_ns == 0 {
            return Err(Error::usage(
                "patience_ns and stall_timeout_ns must be longer than nothing",
            ));
        }
        Ok(spec)
    }

    pub fn handicap(&self) -> Result<Handicap> {
        let stages = [Stage::Generate, Stage::Encode, Stage::Verify];
        Handicap::parse(&self.handicap, &stages, "the server")
    }

    pub fn patience(&self) -> Duration {
        Duration::from_nanos(self.patience_ns)
    }

    pub fn stall_timeout(&self) -> Duration {
        Duration::from_nanos(self.stall_timeout_ns)
    }
}

fn sixty_four_mib() -> u64 {
    64 << 20
}
fn sixty_four() -> usize {
    64
}
fn thousand() -> usize {
    1024
}
fn ten_seconds() -> u64 {
    10_000_000_000
}
fn half_a_minute() -> u64 {
    30_000_000_000
}
