//! `venturi serve http`: Arrow IPC streams over HTTP/1.1, the reference server. `docs/targets/http.md`.

mod asked;
mod config;
mod connection;
mod get;
mod put;

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::state::{Bounds, Serving};
pub use config::ServerSpec;
use venturi_base::error::Result;

/// A running server; stops when dropped.
pub struct Server(Serving);

impl Server {
    /// Binds and starts to serve.
    pub fn start(spec: &str) -> Result<Self> {
        let spec = ServerSpec::parse(spec)?;
        let handicap = spec.handicap()?;
        let bounds = Bounds {
            memory: spec.memory_bytes,
            max_message: spec.max_message_size,
        };
        let protocols: &[&[u8]] = &[b"http/1.1"];
        let serve = connection::serve;
        Serving::start(&spec.shell, &bounds, handicap, protocols, serve).map(Self)
    }

    pub fn address(&self) -> String {
        self.0.address()
    }

    /// Waits until the server has stopped, but no longer than this. True: it has.
    pub fn wait(&self, limit: Duration) -> bool {
        self.0.wait(limit)
    }

    /// Takes no more connections, lets open streams finish for two seconds, and ends.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Counts since the start, as JSON.
    pub fn statistics(&self) -> String {
        self.0.statistics()
    }
}
