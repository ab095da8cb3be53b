//! How the server is set up.

use serde::Deserialize;

use crate::shell::Shell;
use venturi_base::error::Result;
use venturi_base::given::Given;
use venturi_base::meter::clock::Stage;
use venturi_base::meter::handicap::Handicap;

#[derive(Debug, Clone, Deserialize)]
pub struct ServerSpec {
    #[serde(skip)]
    pub shell: Shell,
    /// Bound of all tables together, in bytes.
    pub memory_bytes: u64,
    /// Of a batch that a put sends, in bytes.
    #[serde(default = "largest_message")]
    pub max_message_size: usize,
}

impl ServerSpec {
    pub fn parse(json: &str) -> Result<Self> {
        let mut given = Given::server(json)?;
        let spec = Self {
            shell: given.take()?,
            ..given.rest()?
        };
        spec.shell.check()?;
        Ok(spec)
    }

    pub fn handicap(&self) -> Result<Handicap> {
        self.shell.handicap(&[
            Stage::Generate,
            Stage::Encode,
            Stage::Decode,
            Stage::Verify,
            Stage::Apply,
        ])
    }
}

fn largest_message() -> usize {
    256 << 20
}
