//! How the server is set up.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tokio_rustls::TlsAcceptor;

use crate::codec::frame;
use crate::error::{Error, Result};
use crate::meter::clock::Stage;
use crate::meter::handicap::Handicap;
use crate::server::{access, TableSpec};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    #[serde(default)]
    pub server: Option<String>,
    pub host: String,
    pub port: u16,
    /// Bound of all tables together, in bytes.
    pub memory_bytes: u64,
    #[serde(default = "thousand")]
    pub max_connections: usize,
    #[serde(default = "largest_message")]
    pub max_message_size: usize,
    /// Bytes of the sockets' send buffers; absent: `socket::prepare` decides.
    #[serde(default)]
    pub send_buffer: Option<usize>,
    /// The HTTP/2 window granted to clients, in bytes; absent: all that there can be.
    #[serde(default)]
    pub window: Option<u32>,
    /// Nanoseconds to burn for every batch, by stage.
    #[serde(default)]
    pub handicap: BTreeMap<String, u64>,
    /// How long a client may take to say what it wants: TLS, preface, headers, a request.
    #[serde(default = "ten_seconds")]
    pub patience_ns: u64,
    #[serde(default)]
    pub tls_certificate: Option<String>,
    #[serde(default)]
    pub tls_key: Option<String>,
    /// Clients must show a certificate of this CA.
    #[serde(default)]
    pub tls_client_ca: Option<String>,
    /// The environment variable that holds the token.
    #[serde(default)]
    pub token_env: Option<String>,
    /// The machine and software that this server runs on, for whoever measures it.
    #[serde(default)]
    pub environment: serde_json::Value,
    /// Files to serve as tables.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
}

impl ServerSpec {
    pub fn check(&self) -> Result<()> {
        match self.window {
            Some(window) if window == 0 || window > frame::MAX_WINDOW => {
                Err(Error::usage("window must be 1..2147483647 bytes"))
            }
            _ => Ok(()),
        }
    }

    pub fn handicap(&self) -> Result<Handicap> {
        let stages = [
            Stage::Generate,
            Stage::Encode,
            Stage::Decode,
            Stage::Verify,
            Stage::Apply,
        ];
        Handicap::parse(&self.handicap, &stages, "the server")
    }

    pub fn window(&self) -> u32 {
        self.window.unwrap_or(frame::MAX_WINDOW)
    }
}

fn thousand() -> usize {
    1024
}
fn ten_seconds() -> u64 {
    10_000_000_000
}
fn largest_message() -> usize {
    256 << 20
}

pub(super) fn tls_acceptor(spec: &ServerSpec) -> Result<Option<TlsAcceptor>> {
    let files = access::Files {
        certificate: spec.tls_certificate.as_deref(),
        key: spec.tls_key.as_deref(),
        client_ca: spec.tls_client_ca.as_deref(),
    };
    let config = access::tls_config(&files, &[b"h2"])?;
    Ok(config.map(|config| TlsAcceptor::from(Arc::new(config))))
}
