//! How the server is set up.

use std::time::Duration;

use serde::Deserialize;

use crate::shell::Shell;
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::meter::handicap::Handicap;
use venturi_base::option_reader::OptionReader;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    #[default]
    Builtin,
    /// Whoever calls `next_query`.
    Outside,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ServerSpec {
    #[serde(skip)]
    pub shell: Shell,
    /// Bound of the blocks of one query that are encoded and not sent yet, in bytes.
    #[serde(default = "sixty_four_mib")]
    pub query_memory_bytes: u64,
    /// Queries that run at a time.
    #[serde(default = "sixty_four")]
    pub max_queries: usize,
    /// Bound of the rings of all connections, in bytes of shared memory; 0: there are none.
    #[serde(default = "half_a_gib")]
    pub ring_memory_bytes: u64,
    /// How long a partition may read nothing until it counts as gone.
    #[serde(default = "half_a_minute")]
    stall_timeout_ns: u64,
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
        let mut given = OptionReader::server(json)?;
        let spec = Self {
            shell: given.take()?,
            ..given.rest()?
        };
        spec.shell.check()?;
        if spec.query_memory_bytes == 0 || spec.max_queries == 0 {
            return Err(Error::usage(
                "query_memory_bytes and max_queries must be at least 1",
            ));
        }
        if spec.stall_timeout_ns == 0 {
            return Err(Error::usage("stall_timeout_ns must be longer than nothing"));
        }
        Ok(spec)
    }

    pub fn handicap(&self) -> Result<Handicap> {
        self.shell
            .handicap(&[Stage::Generate, Stage::Encode, Stage::Verify])
    }

    pub fn stall_timeout(&self) -> Duration {
        Duration::from_nanos(self.stall_timeout_ns)
    }
}

fn sixty_four_mib() -> u64 {
    64 << 20
}
fn half_a_gib() -> u64 {
    512 << 20
}
fn sixty_four() -> usize {
    64
}
fn half_a_minute() -> u64 {
    30_000_000_000
}
