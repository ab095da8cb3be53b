//! From an address to a connection: TCP, TLS over it, Unix sockets, and lines that say what failed and
//! what to look at. Who calls puts the address in front of them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::{TcpStream, ToSocketAddrs, UnixStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

use super::socket::prepare;
use super::unix;
use crate::error::{Error, Kind, Result};
use crate::limit::{self, Elapsed};

/// A TCP connection, set up as all of ours are. Without `timeout` the caller bounds the time.
pub async fn tcp(
    to: impl ToSocketAddrs,
    timeout: Option<Duration>,
    send_buffer: Option<usize>,
) -> Result<TcpStream> {
    let socket = within(timeout, TcpStream::connect(to)).await;
    let socket = socket.map_err(|over| late("the connection request", over))?;
    let socket = socket.map_err(|error| unreachable(&error))?;
    prepare((&socket).into(), send_buffer);
    Ok(socket)
}

/// A connection to a Unix socket, set up as all of ours are.
pub async fn unix(
    path: &Path,
    timeout: Option<Duration>,
    send_buffer: Option<usize>,
) -> Result<UnixStream> {
    /// Between two attempts where the server's queue is full, of which nobody tells the end.
    const PAUSE: Duration = Duration::from_millis(2);
    unix::address(path)?;
    let asking = async {
        loop {
            match UnixStream::connect(path).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(PAUSE).await;
                }
                asked => return asked,
            }
        }
    };
    let full = |over: Elapsed| {
        let because = "its queue is full: does the server still take connections?";
        let line = format!("no answer to the connection request within {over}: {because}");
        Error::new(Kind::Unreachable, line)
    };
    let socket = within(timeout, asking).await.map_err(full)?;
    let socket = socket.map_err(|error| unix::refused(path, &error))?;
    prepare((&socket).into(), send_buffer);
    Ok(socket)
}

/// TLS over it; `advice` goes behind the text of a failure.
pub async fn tls(
    socket: TcpStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    timeout: Option<Duration>,
    advice: impl Fn(&str) -> String,
) -> Result<TlsStream<TcpStream>> {
    let session = TlsConnector::from(config).connect(name, socket);
    let session = within(timeout, session).await;
    let session = session.map_err(|over| late("the TLS handshake", over))?;
    session.map_err(|error| {
        let text = error.to_string();
        let advice = advice(&text);
        Error::new(Kind::Tls, format!("TLS: {text}{advice}"))
    })
}

/// The name that a certificate has to be for.
pub fn server_name(name: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let message = format!("{name:?} is not a name that a TLS certificate can have");
        Error::usage(message)
    })
}

pub fn unreachable(error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            ": nothing listens there; is the server running, and is the port right?"
        }
        _ => "",
    };
    Error::new(Kind::Unreachable, format!("{error}{advice}"))
}

/// `what` went unanswered.
pub fn late(what: &str, over: Elapsed) -> Error {
    let hint = "is a firewall in the way, or the address wrong?";
    let message = format!("no answer to {what} within {over}: {hint}");
    Error::new(Kind::Unreachable, message)
}

async fn within<T>(
    timeout: Option<Duration>,
    work: impl std::future::Future<Output = T>,
) -> std::result::Result<T, Elapsed> {
    match timeout {
        None => Ok(work.await),
        Some(most) => limit::within(most, work).await,
    }
}
