//! From an address to an HTTP/2 connection: TCP, TLS, a Unix socket, and lines that say what failed.

use std::time::Duration;

use tokio_rustls::TlsStream;

use super::options::{Address, Options};
use venturi_base::error::Result;
use venturi_base::http2::{Config, Connection, Role};
use venturi_base::net::dial;
use venturi_base::net::tls::tls_advice;
use venturi_base::net::wire::Wire;

/// Where connections go, and how.
pub struct Destination {
    pub address: Address,
    pub options: Options,
    pub timeout: Duration,
    /// Of the URL that the user wrote.
    pub scheme: &'static str,
}

impl Destination {
    pub async fn dial(&self) -> Result<Connection> {
        let config = Config {
            window: self.options.window(),
            max_message: self.options.max_message_size,
            ..Config::new(Role::Client)
        };
        let wire = wire(&self.address, &self.options, self.timeout, self.scheme).await?;
        Ok(Connection::new(wire, config))
    }
}

/// What the address says, and TLS where it has it; `scheme` is that of URLs without it.
pub(crate) async fn wire(
    address: &Address,
    options: &Options,
    timeout: Duration,
    scheme: &str,
) -> Result<Wire> {
    let place = address.authority();
    let wire = address
        .to_host()
        .dial(Some(timeout), options.send_buffer)
        .await;
    let wire = wire.map_err(|error| error.context(&place))?;
    let socket = match wire {
        Wire::Tcp(socket) if address.tls => socket,
        plain => return Ok(plain),
    };
    let name = options.tls_server_name.as_deref().unwrap_or(&address.host);
    let name = dial::server_name(name)?;
    let mut config = options.tls().config()?;
    if scheme.starts_with("flight") {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    let advice = |text: &str| tls_advice(text, scheme, options.tls_ca.is_some());
    let session = dial::tls(socket, config.into(), name, Some(timeout), advice).await;
    let session = session.map_err(|error| error.context(&place))?;
    Ok(Wire::Tls(Box::new(TlsStream::Client(session))))
}
