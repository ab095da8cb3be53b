//! From an address to an HTTP/2 connection: TCP, TLS, and lines that say what failed.

use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

use super::options::{Address, Options};
use crate::error::{Error, Kind, Result};
use crate::http2::{Config, Connection, Role};
use crate::net::socket::prepare;
use crate::net::tls::tls_advice;
use crate::net::wire::Wire;

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
        let mut config = options.tls().config()?;
        if scheme == "flight" {
            config.alpn_protocols = vec![b"h2".to_vec()];
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
