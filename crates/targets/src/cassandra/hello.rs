//! First contact: is a CQL server there, what does it support, how far away is it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::upsert::{Host, Place};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit::{self, Elapsed};
use venturi_base::net::dial;
use venturi_base::net::route::Route;
use venturi_base::net::tls::tls_advice;

/// OPTIONS of protocol 4: the one request that needs no log-in, answered by itself.
const OPTIONS: [u8; 9] = [0x04, 0, 0, 0, 0x05, 0, 0, 0, 0];
const SUPPORTED: u8 = 0x06;
/// What a sane server says of itself fits into this.
const LONGEST: usize = 64 << 10;
/// The shortest of so many round trips is the way there and back.
const TRIPS: usize = 8;

pub struct Hello {
    pub route: Route,
    pub round_trip: Duration,
    /// As CQL's SUPPORTED lists it: COMPRESSION, CQL_VERSION, SCYLLA_..., ...
    pub supported: BTreeMap<String, Vec<String>>,
}

/// Asks the first contact point that answers.
pub async fn hello(
    place: &Place,
    tls: Option<&(Arc<rustls::ClientConfig>, Option<String>)>,
    timeout: Duration,
) -> Result<Hello> {
    let each = timeout / place.hosts.len().max(1) as u32;
    let mut first = None;
    for host in &place.hosts {
        let name = host.authority();
        let asked = limit::within(each, ask(host, &name, tls));
        let late = |over: Elapsed| {
            Error::new(
                Kind::Unreachable,
                format!(
                    "{name}: no answer within {over}: is a firewall in the way, or the address wrong, or does the server want TLS (cassandra+tls://)?",
                ),
            )
        };
        match asked.await.unwrap_or_else(|over| Err(late(over))) {
            Ok(hello) => return Ok(hello),
            Err(error) => first.get_or_insert(error),
        };
    }
    Err(first.unwrap_or_else(|| Error::usage("there is no host to connect to")))
}

async fn ask(
    host: &Host,
    name: &str,
    tls: Option<&(Arc<rustls::ClientConfig>, Option<String>)>,
) -> Result<Hello> {
    let socket = dial::tcp((host.name.as_str(), host.port), None, None).await;
    let socket = socket.map_err(|error| error.context(name))?;
    let unreachable = |error| dial::unreachable(&error).context(name);
    let route = Route {
        local: socket.local_addr().map_err(unreachable)?,
        peer: socket.peer_addr().map_err(unreachable)?,
    };
    let (round_trip, body) = match tls {
        None => trips(socket, name).await?,
        Some((config, server_name)) => {
            // As the driver does: nodes are known by their addresses.
            let whom = match server_name {
                Some(server_name) => dial::server_name(server_name)?,
                None => ServerName::from(route.peer.ip()),
            };
            let advice = |text: &str| tls_advice(text, "cassandra", false);
            let session = dial::tls(socket, config.clone(), whom, None, advice).await;
            trips(session.map_err(|error| error.context(name))?, name).await?
        }
    };
    let supported = parse(&body).ok_or_else(|| {
        Error::protocol(format!(
            "{name}: the server's list of what it supports is broken"
        ))
    })?;
    Ok(Hello {
        route,
        round_trip,
        supported,
    })
}

async fn trips(
    mut wire: impl AsyncRead + AsyncWrite + Unpin,
    name: &str,
) -> Result<(Duration, Vec<u8>)> {
    let mut least = Duration::MAX;
    let mut body = Vec::new();
    for _ in 0..TRIPS {
        let begun = Instant::now();
        let asked = async {
            wire.write_all(&OPTIONS).await?;
            wire.flush().await?;
            let mut head = [0; 9];
            wire.read_exact(&mut head).await?;
            Ok::<_, std::io::Error>(head)
        };
        let strange = |what: &str| {
            Error::protocol(format!(
                "{name}: {what}: is it a Cassandra or ScyllaDB server, and does it want TLS (cassandra+tls://)?"
            ))
        };
        let head = asked
            .await
            .map_err(|error| strange(&format!("no answer in CQL ({error})")))?;
        let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) as usize;
        if head[0] & 0x80 == 0 || head[4] != SUPPORTED || length > LONGEST {
            return Err(strange("not an answer in CQL's protocol 4"));
        }
        body.resize(length, 0);
        wire.read_exact(&mut body)
            .await
            .map_err(|error| strange(&format!("half an answer in CQL ({error})")))?;
        least = least.min(begun.elapsed());
    }
    Ok((least, body))
}

/// CQL's string multimap.
fn parse(mut body: &[u8]) -> Option<BTreeMap<String, Vec<String>>> {
    fn number(body: &mut &[u8]) -> Option<usize> {
        let (number, rest) = body.split_first_chunk::<2>()?;
        *body = rest;
        Some(u16::from_be_bytes(*number).into())
    }
    fn string(body: &mut &[u8]) -> Option<String> {
        let length = number(body)?;
        let (text, rest) = body.split_at_checked(length)?;
        *body = rest;
        String::from_utf8(text.to_vec()).ok()
    }
    let body = &mut body;
    (0..number(body)?)
        .map(|_| {
            let key = string(body)?;
            let values = (0..number(body)?)
                .map(|_| string(body))
                .collect::<Option<_>>()?;
            Some((key, values))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_supports() {
        let mut body = vec![0, 1, 0, 3];
        body.extend(b"ABC");
        body.extend([0, 2, 0, 1, b'x', 0, 0]);
        let parsed = parse(&body).unwrap();
        assert_eq!(parsed["ABC"], ["x", ""]);
        for cut in 0..body.len() {
            assert!(parse(&body[..cut]).is_none(), "{cut}");
        }
    }
}
