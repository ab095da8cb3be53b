//! From an address to a connection that takes requests: TCP, TLS, STARTUP, log-in.

use std::future::poll_fn;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use scylla::frame::Compression;
use tokio_rustls::TlsStream;

use super::errors::{self, Written};
use super::frame::{log_in, opcode, startup, Answer, Head, Request, HEAD, LONGEST};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::net::dial;
use venturi_base::net::tls::tls_advice;
use venturi_base::net::wire::Wire;

/// What every connection of a trial is made with.
pub struct Access {
    pub tls: Option<Arc<ClientConfig>>,
    pub login: Option<(String, String)>,
    pub compression: Option<Compression>,
    pub timeout: Duration,
}

impl Access {
    /// A connection to a node; `place`: for error lines.
    pub async fn open(&self, node: SocketAddr, place: &str) -> Result<Wire> {
        let opened = limit::within(self.timeout, self.try_open(node, place));
        opened.await.unwrap_or_else(|over| {
            let message = format!("{place}: no answer from {node} within {over}");
            Err(Error::new(Kind::Unreachable, message))
        })
    }

    async fn try_open(&self, node: SocketAddr, place: &str) -> Result<Wire> {
        let socket = dial::tcp(node, None, None).await;
        let socket = socket.map_err(|error| error.context(node).context(place))?;
        let mut wire = match &self.tls {
            None => Wire::Tcp(socket),
            Some(config) => {
                // As the driver does: nodes are known by their addresses.
                let name = ServerName::from(node.ip());
                let advice = |text: &str| tls_advice(text, "cassandra", false);
                let session = dial::tls(socket, config.clone(), name, None, advice).await;
                let session = session.map_err(|error| error.context(node).context(place))?;
                Wire::Tls(Box::new(TlsStream::Client(session)))
            }
        };
        let hello = startup(self.compression);
        let mut answer = exchange(&mut wire, &hello, self.compression).await?;
        if answer.opcode == opcode::AUTHENTICATE {
            let (user, password) = self.login.as_ref().ok_or_else(|| {
                Error::new(
                    Kind::Auth,
                    format!("{place}: {node} wants a user and a password"),
                )
            })?;
            answer = exchange(&mut wire, &log_in(user, password), self.compression).await?;
        }
        match (answer.opcode, answer.refusal) {
            (opcode::READY | opcode::AUTH_SUCCESS, _) => Ok(wire),
            (_, Some(refusal)) => Err(errors::of_server(
                place,
                &refusal.error,
                &refusal.reason,
                Written::default(),
            )),
            (other, None) => Err(Error::protocol(format!(
                "{place}: {node}: an answer of kind {other:#04x} to the log-in"
            ))),
        }
    }
}

/// One request and its answer, on a connection that has nothing else to do.
pub async fn exchange(
    wire: &mut Wire,
    request: &Request,
    compression: Option<Compression>,
) -> Result<Answer> {
    let lost = |error: std::io::Error| {
        Error::new(
            Kind::Lost,
            format!("the connection broke at the log-in: {error}"),
        )
    };
    let message = [&request.head(0)[..], &request.body].concat();
    let mut rest = &message[..];
    while !rest.is_empty() {
        let wrote = poll_fn(|cx| wire.poll_write(cx, &[IoSlice::new(rest)])).await;
        match wrote.map_err(lost)? {
            0 => return Err(lost(std::io::ErrorKind::WriteZero.into())),
            count => rest = &rest[count..],
        }
    }
    poll_fn(|cx| wire.poll_flush(cx)).await.map_err(lost)?;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(head) = Head::parse(&bytes)? {
            if let Some(body) = bytes[HEAD..].get(..head.length) {
                return Answer::parse(&head, body, compression, LONGEST);
            }
        }
        let read = poll_fn(|cx| wire.poll_read(cx, &mut [IoSliceMut::new(&mut piece)])).await;
        match read.map_err(lost)? {
            0 => return Err(lost(std::io::ErrorKind::UnexpectedEof.into())),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}
