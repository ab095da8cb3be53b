//! What the servers of bulk data have in common: where they listen, who may talk to them, how
//! long they wait.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::access::{tls_config, Token};
use super::listening::{cannot_bind, cannot_listen, listen, BACKLOG};
use super::machine::Address;
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::meter::handicap::Handicap;
use venturi_base::net::listener::Listener;
use venturi_base::net::unix;

/// A part of the server's spec (docs/format.md).
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Shell {
    #[serde(rename = "server", default)]
    _server: Option<String>,
    #[serde(default)]
    pub host: String,
    #[serde(default)]
    pub port: u16,
    /// The path of a Unix socket to listen on instead.
    #[serde(default)]
    pub unix: Option<PathBuf>,
    #[serde(default = "thousand")]
    pub max_connections: usize,
    /// How long a client may take to say what it has begun to say.
    #[serde(default = "ten_seconds")]
    patience_ns: u64,
    /// Bytes of the sockets' send buffers; absent: `socket::prepare` decides.
    #[serde(default)]
    pub send_buffer: Option<usize>,
    /// Nanoseconds to burn for every block, by stage.
    #[serde(default)]
    handicap: BTreeMap<String, u64>,
    #[serde(default)]
    pub(super) tls_certificate: Option<String>,
    #[serde(default)]
    pub(super) tls_key: Option<String>,
    /// Clients must show a certificate of this CA.
    #[serde(default)]
    pub(super) tls_client_ca: Option<String>,
    /// The environment variable that holds the token, or the password, that clients must give.
    #[serde(default)]
    token_env: Option<String>,
    /// The machine and software that this server runs on, for whoever measures it.
    #[serde(default)]
    pub environment: serde_json::Value,
    /// Files that are held in memory, and served as tables.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    pub name: String,
    /// An Arrow IPC file.
    pub ipc: String,
}

impl Shell {
    pub fn check(&self) -> Result<()> {
        if self.max_connections == 0 {
            return Err(Error::usage("max_connections must be at least 1"));
        }
        if self.patience_ns == 0 {
            return Err(Error::usage("patience_ns must be longer than nothing"));
        }
        Ok(())
    }

    pub fn patience(&self) -> Duration {
        Duration::from_nanos(self.patience_ns)
    }

    pub fn handicap(&self, stages: &[Stage]) -> Result<Handicap> {
        Handicap::parse(&self.handicap, stages, "the server")
    }

    pub(super) fn token(&self) -> Result<Option<Token>> {
        Token::of(self.token_env.as_deref())
    }

    /// `None`: without TLS. `protocols`: those of ALPN, in order.
    pub fn tls(&self, protocols: &[&[u8]]) -> Result<Option<Arc<rustls::ServerConfig>>> {
        Ok(tls_config(self, protocols)?.map(Arc::new))
    }

    pub(crate) fn listen(&self) -> Result<(Listener, Address)> {
        if let Some(path) = &self.unix {
            return self.listen_at(path);
        }
        let bound = listen(&self.host, self.port)
            .and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| self.failed(&error))?;
        Ok((Listener::Tcp(listener.into()), Address::Tcp(address)))
    }

    fn listen_at(&self, path: &Path) -> Result<(Listener, Address)> {
        if self.tls_certificate.is_some() {
            return Err(Error::usage(
                "a Unix socket is of this host alone, and has no TLS: leave its certificate out",
            ));
        }
        // Relative ones are the server's own, and mean nothing to its clients.
        let path = std::path::absolute(path).map_err(|error| cannot_bind(path, &error))?;
        unix::address(&unix::raw_of(&path))?;
        let bound = unix::Listening::bind(&path, BACKLOG);
        let listening = bound.map_err(|error| cannot_bind(&path, &error))?;
        Ok((Listener::Unix(listening), Address::Unix(path)))
    }

    pub fn failed(&self, error: &io::Error) -> Error {
        match &self.unix {
            Some(path) => cannot_bind(path, error),
            None => cannot_listen(&self.host, self.port, None, error),
        }
    }
}

fn thousand() -> usize {
    1024
}
fn ten_seconds() -> u64 {
    10_000_000_000
}
