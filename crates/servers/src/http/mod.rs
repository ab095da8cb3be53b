//! `venturi serve http`: Arrow IPC streams over HTTP/1.1, the reference server. `docs/targets/http.md`.

mod connection;
mod get;
mod put;
mod request;

#[cfg(test)]
mod tests;

use std::ops::Deref;

use crate::shell::Serving;
use crate::state::start;
use venturi_base::error::Result;
use venturi_base::option_reader::OptionReader;

/// A running server; stops when dropped.
pub struct Server(Serving);

impl Server {
    /// Binds and starts to serve.
    pub fn start(spec: &str) -> Result<Self> {
        let mut given = OptionReader::server(spec)?;
        let shell = given.take()?;
        let bounds = given.rest()?;
        start(&shell, &bounds, &[b"http/1.1"], connection::serve).map(Self)
    }
}

impl Deref for Server {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.0
    }
}
