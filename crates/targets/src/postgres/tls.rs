//! TLS for the driver, by the same stack as every other target.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aws_lc_rs::digest::{digest, Algorithm, SHA256, SHA384, SHA512};
use rustls::pki_types::ServerName;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect};
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

pub struct Tls {
    pub config: Arc<ClientConfig>,
    /// The name that the server's certificate has to be for.
    pub name: String,
}

impl TlsConnect<TcpStream> for Tls {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: TcpStream) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.name);
            let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            let session = TlsConnector::from(self.config).connect(name, socket);
            session.await.map(Stream)
        })
    }
}

pub struct Stream(TlsStream<TcpStream>);

impl tokio_postgres::tls::TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let bound = certificates.and_then(|certificates| end_point(certificates.first()?));
        bound.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, room)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// What a log-in is bound to (RFC 5929, `tls-server-end-point`): a hash of the server's certificate, by
/// the hash of its signature. `None`: the signature names none (Ed25519, RSASSA-PSS), or is not known.
/// Then the log-in goes without, as SCRAM allows.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = hash_of(signature_algorithm(certificate)?)?;
    Some(digest(algorithm, certificate).as_ref().to_vec())
}

/// By the object identifier of a signature's algorithm (RFC 3279, RFC 4055, RFC 5758).
fn hash_of(identifier: &[u8]) -> Option<&'static Algorithm> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    match (identifier.strip_prefix(RSA), identifier.strip_prefix(ECDSA)) {
        // For MD5 and SHA-1, RFC 5929 has SHA-256 instead.
        (Some([4 | 5 | 11]), _) | (_, Some([1] | [3, 2])) => Some(&SHA256),
        (Some([12]), _) | (_, Some([3, 3])) => Some(&SHA384),
        (Some([13]), _) | (_, Some([3, 4])) => Some(&SHA512),
        _ => None,
    }
}

/// The object identifier in a certificate (RFC 5280):
/// `SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OBJECT IDENTIFIER, ... }, ... }`.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (inside, _) = element(SEQUENCE, certificate)?;
    let (_, rest) = element(SEQUENCE, inside)?;
    let (algorithm, _) = element(SEQUENCE, rest)?;
    element(OBJECT_IDENTIFIER, algorithm).map(|(identifier, _)| identifier)
}

/// The contents of a DER element of this tag, and what follows on it.
fn element(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(&[tag])?;
    let (&first, rest) = rest.split_first()?;
    if first < 0x80 {
        return rest.split_at_checked(first.into());
    }
    let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
    if length.is_empty() || length.len() > 4 {
        return None;
    }
    let length = length
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use base64::Engine;

    /// By `openssl req -x509 -sha384` of a key on P-256, and its fingerprint by `openssl x509 -sha384`.
    const CERTIFICATE: &str = concat!(
        "MIIBAjCBqAIBATAKBggqhkjOPQQDAzAMMQowCAYDVQQDDAFhMCAXDTI2MTEyNzAzNTcxM1oYDzIxMjYxMTAzMDM1NzEz",
        "WjAMMQowCAYDVQQDDAFhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEXFWBpnhSM1yuxyh/L3y4QNtHGREMiSg+dAtZ",
        "MaTBQuuK2bFvm5tGgWmuKt5jrpGG4djTfQQJuw9h1Cg1PJpf2jAKBggqhkjOPQQDAwNJADBGAiEAq2HbIs/10P/D4Gl9",
        "N9JJK5qKl+mbXOQQiBU/7mxNkA0CIQDGNv5S5Q6psED5VFxyLD5bjk1XZkGMtjZVqTDibsOSew==",
    );
    const FINGERPRINT: &str = concat!(
        "855a40ce9517db052096659c72bd685100d7bfa6998b77c1413f7442fa1db645",
        "63ca7e684ebc8c47eac4d9d8cab1f077",
    );

    #[test]
    fn a_log_in_is_bound_to_the_certificate() {
        let certificate = STANDARD.decode(CERTIFICATE).unwrap();
        let bound = end_point(&certificate).unwrap();
        let hex: String = bound.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, FINGERPRINT);
    }

    #[test]
    fn a_certificate_that_is_cut_short_binds_nothing() {
        let certificate = STANDARD.decode(CERTIFICATE).unwrap();
        for cut in 0..certificate.len() {
            assert_eq!(end_point(&certificate[..cut]), None, "{cut}");
        }
        for strange in [
            &b"\x30\x80"[..],
            b"\x30\x85\x01\x00\x00\x00\x00",
            b"\x30\x84\xff\xff\xff\xff\x30",
            b"\x04\x00",
        ] {
            assert_eq!(end_point(strange), None);
        }
    }

    #[test]
    fn hashes_by_signature() {
        for (identifier, length) in [
            ("2a864886f70d010104", Some(32)), // md5WithRSAEncryption
            ("2a864886f70d010105", Some(32)), // sha1WithRSAEncryption
            ("2a864886f70d01010b", Some(32)), // sha256WithRSAEncryption
            ("2a864886f70d01010c", Some(48)), // sha384WithRSAEncryption
            ("2a864886f70d01010d", Some(64)), // sha512WithRSAEncryption
            ("2a864886f70d01010a", None),     // id-RSASSA-PSS
            ("2a8648ce3d0401", Some(32)),     // ecdsa-with-SHA1
            ("2a8648ce3d040302", Some(32)),   // ecdsa-with-SHA256
            ("2a8648ce3d040303", Some(48)),   // ecdsa-with-SHA384
            ("2a8648ce3d040304", Some(64)),   // ecdsa-with-SHA512
            ("2b6570", None),                 // id-Ed25519
            ("", None),
        ] {
            let digits = |at| u8::from_str_radix(&identifier[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..identifier.len()).step_by(2).map(digits).collect();
            let found = hash_of(&bytes).map(Algorithm::output_len);
            assert_eq!(found, length, "{identifier}");
        }
    }
}
