//! As much HTTP/1.1 as clients of databases and the reference servers need: one request at a time on a
//! connection, a body that is read as it comes, every size bounded.

mod client;
mod connection;
pub mod server;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustls::ClientConfig;

use crate::error::Result;

pub use client::{Client, Framing, Head};
pub use connection::Connection;

/// The media type of an Arrow IPC stream.
pub const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";

/// A media type that no Arrow stream has: text of some form. Others are used for it, where nobody has said
/// better.
pub fn other_type(content_type: &str) -> Option<String> {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    let others = ["html", "csv", "json", "xml", "form-data"];
    let other = others.iter().any(|end| kind.ends_with(end));
    other.then_some(kind)
}

/// Where a server speaks HTTP.
#[derive(Debug, Clone)]
pub struct Web {
    pub host: String,
    pub port: u16,
    pub authority: String,
    pub tls: Option<Tls>,
}

/// How it is spoken to in TLS.
#[derive(Debug, Clone)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    /// Where it is not the host.
    pub server_name: Option<String>,
    /// An authority was given by the user.
    pub authority: bool,
    /// What to do about an error, to be put behind its text.
    pub advice: fn(text: &str, authority: bool) -> String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
}

/// One request on a connection of its own. An answer of more than `most` bytes is an error.
pub async fn ask(
    web: &Web,
    method: &str,
    path: &str,
    body: &[u8],
    most: usize,
) -> Result<Response> {
    let mut client = Client::connect(web).await?;
    let headers = [("Connection", "close")];
    let (head, body) = client.call(method, path, &headers, body, most).await?;
    let status = head.status;
    Ok(Response { status, body })
}
