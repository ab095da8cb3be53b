//! Who may talk to a reference server: its token, and TLS.

use std::sync::Arc;

use super::shell::Shell;
use venturi_base::error::{Error, Result};
use venturi_base::net::tls::{provider, read_certificates, read_key};
use venturi_base::net::url::secret;

#[derive(Debug)]
pub(crate) struct Token(pub String);

impl Token {
    /// The value of the variable where one is named.
    pub fn of(variable: Option<&str>) -> Result<Option<Self>> {
        match variable.map(secret).transpose()? {
            Some(token) if token.is_empty() => Err(Error::usage("the token is empty")),
            token => Ok(token.map(Self)),
        }
    }

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
    pub fn equals(&self, given: &[u8]) -> bool {
        let expected = self.0.as_bytes();
        let mut difference = u8::from(given.len() != expected.len());
        for (k, byte) in given.iter().enumerate() {
            difference |= byte ^ expected[k % expected.len()];
        }
        difference == 0
    }
}

/// `None`: without TLS. `protocols`: those of ALPN, in order.
pub(crate) fn tls_config(
    shell: &Shell,
    protocols: &[&[u8]],
) -> Result<Option<rustls::ServerConfig>> {
    let (certificate, key) = match (&shell.tls_certificate, &shell.tls_key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if shell.tls_client_ca.is_none() => return Ok(None),
        _ => return Err(Error::usage("TLS needs both a certificate and its key")),
    };
    let wrong = |error: &dyn std::fmt::Display| Error::usage(format!("TLS: {error}"));
    let builder = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let builder = match &shell.tls_client_ca {
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
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Some(config))
}
