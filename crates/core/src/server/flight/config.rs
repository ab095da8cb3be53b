//! How the server is set up: its spec, who may talk to it, and TLS.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tokio_rustls::TlsAcceptor;

use crate::codec::frame;
use crate::error::{Error, Result};
use crate::meter::clock::Stage;
use crate::meter::handicap::Handicap;
use crate::target::flight::{provider, read_certificates, read_key};

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

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    pub name: String,
    /// An Arrow IPC file.
    pub ipc: String,
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

#[derive(Debug)]
pub(super) struct Token(pub String);

impl Token {
    /// `Bearer token`, or `Basic` with the token as the password.
    pub fn admits(&self, authorization: Option<&str>) -> bool {
        use base64::Engine;
        let Some(authorization) = authorization else {
            return false;
        };
        if let Some(bearer) = authorization.strip_prefix("Bearer ") {
            return self.equals(bearer.as_bytes());
        }
        let basic = authorization.strip_prefix("Basic ").unwrap_or_default();
        match base64::engine::general_purpose::STANDARD.decode(basic) {
            Ok(pair) => match pair.iter().position(|byte| *byte == b':') {
                Some(colon) => self.equals(&pair[colon + 1..]),
                None => false,
            },
            Err(_) => false,
        }
    }

    /// Takes the same time wherever the difference is.
    fn equals(&self, given: &[u8]) -> bool {
        let expected = self.0.as_bytes();
        let mut difference = u8::from(given.len() != expected.len());
        for (k, byte) in given.iter().enumerate() {
            difference |= byte ^ expected[k % expected.len()];
        }
        difference == 0
    }
}

pub(super) fn tls_acceptor(spec: &ServerSpec) -> Result<Option<TlsAcceptor>> {
    let (certificate, key) = match (&spec.tls_certificate, &spec.tls_key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if spec.tls_client_ca.is_none() => return Ok(None),
        _ => return Err(Error::usage("TLS needs both a certificate and its key")),
    };
    let wrong = |error: &dyn std::fmt::Display| Error::usage(format!("TLS: {error}"));
    let builder = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let builder = match &spec.tls_client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = rustls::RootCertStore::empty();
            for certificate in read_certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
                Arc::new(roots),
                provider(),
            )
            .build()
            .map_err(|error| wrong(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(read_certificates(certificate)?, read_key(key)?)
        .map_err(|error| wrong(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let token = Token("open sesame".into());
        assert!(token.admits(Some("Bearer open sesame")));
        // user:open sesame
        assert!(token.admits(Some("Basic dXNlcjpvcGVuIHNlc2FtZQ==")));
        for wrong in [
            None,
            Some(""),
            Some("Bearer "),
            Some("Bearer open"),
            Some("Bearer open sesamf"),
            Some("Basic ???"),
            Some("open sesame"),
        ] {
            assert!(!token.admits(wrong), "{wrong:?}");
        }
    }
}
