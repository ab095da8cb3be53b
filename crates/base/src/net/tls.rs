//! TLS: certificates and keys, what a client makes of them, and what to do about its errors.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519};
use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::error::{Error, Result};

/// A tls option beside a URL without TLS: the data would travel in the clear, and nothing would say so.
pub fn in_the_clear(scheme: &str) -> Error {
    Error::usage(format!(
        "TLS is asked for by a tls option, but not by the URL: write {scheme}+tls://"
    ))
}

/// What to do about an error of TLS, to be put behind its text; `scheme` is that of URLs
/// without it, `authority`: one was given as tls_ca.
pub fn tls_advice(text: &str, scheme: &str, authority: bool) -> String {
    let lower = text.to_lowercase();
    let says = |part: &str| lower.contains(part);
    let advice = if says("unknownissuer") {
        match authority {
            true => "the authority in tls_ca did not sign the server's certificate",
            false => "give the CA that signed the server's certificate as tls_ca",
        }
    } else if says("expired") {
        "the server's certificate is out of date: renew it (or tls_insecure, for a test server of yours)"
    } else if says("notvalidforname") || says("not valid for name") {
        "give the name in the certificate as tls_server_name"
    } else if says("invalidcontenttype") || says("corrupt") || says("eof") {
        let first = "does the server speak TLS on this port?";
        return format!("; {first} Without TLS the URL begins with {scheme}://");
    } else if says("certificaterequired") {
        "the server wants a client certificate: tls_certificate and tls_key"
    } else {
        return String::new();
    };
    format!("; {advice}")
}

pub fn read_certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |error: String| Error::usage(format!("{path}: not PEM certificates: {error}"));
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(|error| wrong(error.to_string()))?
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong("there is none in the file".into()));
    }
    Ok(certificates)
}

pub fn read_key(path: &str) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| Error::usage(format!("{path}: not a PEM private key: {error}")))
}

const AES_128: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// Prefers AES with keys of 128 bits, as Go and BoringSSL do: it is the fastest, and as safe for as long as a
/// connection lives. Whether rustls offers ML-KEM is a feature that a driver's crate turns on: a build without
/// drivers must not differ in how long it takes to connect.
pub fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let suites = &mut provider.cipher_suites;
    suites.sort_by_key(|suite| !AES_128.contains(&suite.suite()));
    provider.kx_groups = vec![X25519, SECP256R1, SECP384R1];
    Arc::new(provider)
}

/// Who signs the certificates that are trusted: those of a file, or the public ones.
pub fn roots(authority: Option<&str>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(path) => {
            for certificate in read_certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| Error::usage(format!("{path}: {error}")))?;
            }
        }
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    Ok(roots)
}

/// What a client wants of TLS; files are named by their paths.
#[derive(Debug, Clone, Copy)]
pub struct ClientTls<'a> {
    pub authority: Option<&'a str>,
    pub certificate: Option<&'a str>,
    pub key: Option<&'a str>,
    /// Encryption without knowing to whom.
    pub insecure: bool,
}

impl ClientTls<'_> {
    pub fn config(&self) -> Result<ClientConfig> {
        let internal = |error: rustls::Error| Error::usage(format!("TLS: {error}"));
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(internal)?;
        let builder = match self.insecure {
            true => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider()))),
            false => builder.with_root_certificates(roots(self.authority)?),
        };
        match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(read_certificates(certificate)?, read_key(key)?)
                .map_err(internal),
            _ => Ok(builder.with_no_client_auth()),
        }
    }
}

/// `tls_insecure`: encryption without knowing to whom. For throw-away test servers.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
