//! 1.2: what a partition and the whole query were given, as the server tells before the end.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dealt {
    pub blocks: u64,
    pub rows: u64,
    /// Of payload, as the server counts them.
    #[serde(default)]
    pub bytes: u64,
}

impl Dealt {
    pub fn add(&mut self, rows: u64, bytes: u64) {
        self.blocks += 1;
        self.rows += rows;
        self.bytes += bytes;
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    #[serde(default)]
    pub index: u64,
    #[serde(flatten)]
    pub dealt: Dealt,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    #[serde(flatten)]
    pub dealt: Dealt,
    /// That have come.
    #[serde(default)]
    pub partitions: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    pub partition: Partition,
    /// All of it: the end comes after the last block has been dealt.
    pub query: Query,
}

impl Statistics {
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text)
            .map_err(|error| Error::protocol(format!("the server's statistics: {error}")))
    }

    pub fn write(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Held against what has come: blocks, and their rows. An error names both.
    pub fn check(&self, blocks: u64, rows: u64) -> Result<()> {
        let told = &self.partition.dealt;
        if (told.blocks, told.rows) == (blocks, rows) {
            return Ok(());
        }
        Err(Error::new(
            crate::error::Kind::Verification,
            format!(
                "the server says that it has sent {} blocks with {} rows on this connection, and {blocks} with {rows} have come: blocks are missing, or came twice",
                told.blocks, told.rows
            ),
        ))
    }
}
