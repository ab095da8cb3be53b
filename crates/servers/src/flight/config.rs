//! How the server is set up.

use serde::Deserialize;

use crate::shell::Shell;
use crate::state::Bounds;
use venturi_base::codec::frame;
use venturi_base::error::{Error, Result};
use venturi_base::given::Given;

#[derive(Debug, Clone, Deserialize)]
pub struct ServerSpec {
    #[serde(skip)]
    pub shell: Shell,
    #[serde(skip)]
    pub bounds: Bounds,
    /// The HTTP/2 window granted to clients, in bytes; absent: all that there can be.
    #[serde(default)]
    window: Option<u32>,
}

impl ServerSpec {
    pub fn parse(json: &str) -> Result<Self> {
        let mut given = Given::server(json)?;
        let spec = Self {
            shell: given.take()?,
            bounds: given.take()?,
            ..given.rest()?
        };
        match spec.window {
            Some(window) if window == 0 || window > frame::MAX_WINDOW => {
                Err(Error::usage("window must be 1..2147483647 bytes"))
            }
            _ => Ok(spec),
        }
    }

    pub fn window(&self) -> u32 {
        self.window.unwrap_or(frame::MAX_WINDOW)
    }
}
