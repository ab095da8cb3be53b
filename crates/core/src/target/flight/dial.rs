//! From an address to an HTTP/2 connection: TCP, TLS, and lines that say what failed.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

use super::options::{Address, Options};
use crate::error::{Error, Kind, Result};
use crate::http2::{Config, Connection, Role, Wire};
use crate::socket::prepare;

pub async fn dial(address: &Address, options: &Options, timeout: Duration) -> Result<Connection> {
    let config = Config {
        window: options.window(),
        max_message: options.max_message_size,
        ..Config::new(Role::Client)
    };
    let wire = wire(address, options, timeout, "flight").await?;
    Ok(Connection::new(wire, config))
}

/// TCP, and TLS where the address has it; `scheme` is that of URLs without it.
pub(crate) async fn wire(
    address: &Address,
    options: &Options,
    timeout: Duration,
    scheme: &str,
) -> Result<Wire> {
    let place = address.authority();
    let late = |what: &str| {
        Error::new(
            Kind::Unreachable,
            format!("{place}: no answer to {what} within {} s: is a firewall in the way, or the address wrong?", timeout.as_secs_f64()),
        )
    };
    let connecting = TcpStream::connect((address.host.as_str(), address.port));
    let socket = tokio::time::timeout(timeout, connecting)
        .await
        .map_err(|_| late("the connection request"))?
        .map_err(|error| unreachable(&place, &error))?;
    prepare((&socket).into(), options.send_buffer);
    Ok(if address.tls {
        let name = options.tls_server_name.as_deref().unwrap_or(&address.host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            Error::usage(format!(
                "{name:?} is not a name that a TLS certificate can have"
            ))
        })?;
        let mut config = client_config(options)?;
        if scheme != "flight" {
            config.alpn_protocols.clear();
        }
        let connector = TlsConnector::from(Arc::new(config));
        let session = tokio::time::timeout(timeout, connector.connect(name, socket))
            .await
            .map_err(|_| late("the TLS handshake"))?
            .map_err(|error| tls_error(&place, &error, options, scheme))?;
        Wire::Tls(Box::new(TlsStream::Client(session)))
    } else {
        Wire::Tcp(socket)
    })
}

fn unreachable(place: &str, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            ": nothing listens there; is the server running, and is the port right?"
        }
        _ => "",
    };
    Error::new(Kind::Unreachable, format!("{place}: {error}{advice}"))
}

fn tls_error(place: &str, error: &std::io::Error, options: &Options, scheme: &str) -> Error {
    let text = error.to_string();
    let advice = tls_advice(&text, scheme, options.tls_ca.is_some());
    Error::new(Kind::Tls, format!("{place}: TLS: {text}{advice}"))
}

/// What to do about an error of TLS, to be put behind its text; `scheme` is that of URLs
/// without it, `authority`: one was given as tls_ca.
pub(crate) fn tls_advice(text: &str, scheme: &str, authority: bool) -> String {
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

pub(crate) fn read_certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
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

pub(crate) fn read_key(path: &str) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| Error::usage(format!("{path}: not a PEM private key: {error}")))
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(crate) fn client_config(options: &Options) -> Result<rustls::ClientConfig> {
    let internal = |error: rustls::Error| Error::usage(format!("TLS: {error}"));
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(internal)?;
    let builder = if options.tls_insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())))
    } else {
        let mut roots = rustls::RootCertStore::empty();
        match &options.tls_ca {
            Some(path) => {
                for certificate in read_certificates(path)? {
                    roots
                        .add(certificate)
                        .map_err(|error| Error::usage(format!("{path}: {error}")))?;
                }
            }
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        }
        builder.with_root_certificates(roots)
    };
    let mut config = match (&options.tls_certificate, &options.tls_key) {
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(read_certificates(certificate)?, read_key(key)?)
            .map_err(internal)?,
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
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
