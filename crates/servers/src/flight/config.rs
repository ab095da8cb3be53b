//! How the server is set up.

use serde::Deserialize;

use crate::shell::Shell;
use venturi_base::codec::frame;
use venturi_base::error::{Error, Result};
use venturi_base::given::Given;
use venturi_base::meter::clock::Stage;
use venturi_base::meter::handicap::Handicap;

#[derive(Debug, Clone, Deserialize)]
pub struct ServerSpec {
    #[serde(skip)]
    pub shell: Shell,
    /// Bound of all tables together, in bytes.
    pub memory_bytes: u64,
    #[serde(default = "largest_message")]
    pub max_message_size: usize,
    /// The HTTP/2 window granted to clients, in bytes; absent: all that there can be.
    #[serde(default)]
    window: Option<u32>,
}

impl ServerSpec {
    pub fn parse(json: &str) -> Result<Self> {
        let mut given = Given::server(json)?;
        let spec = Self {
            shell: given.take()?,
            ..given.rest()?
        };
        spec.shell.check()?;
        match spec.window {
            Some(window) if window == 0 || window > frame::MAX_WINDOW => {
                Err(Error::usage("window must be 1..2147483647 bytes"))
            }
            _ => Ok(spec),
        }
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

    pub fn window(&self) -> u32 {
        self.window.unwrap_or(frame::MAX_WINDOW)
    }
}

fn largest_message() -> usize {
    256 << 20
}
