//! Questions to a server outside of any trial, and the log-in.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use prost::Message as _;
use serde_json::Value;
use socket2::SockAddr;

use super::call::Link;
use super::dial::Destination;
use super::offers::{self, Offers};
use super::options::{self, Address, Options};
use super::reply::is_unknown;
use super::{first_contact, SCHEME};
use venturi_base::codec::proto::Handshake;
use venturi_base::error::{Error, Kind, Result};

/// What a reference server, the first one of the URL, says of the machine and software it runs on: JSON. `None`: the
/// server is another one, or knows nothing.
pub async fn environment(url: &str, options: &BTreeMap<String, Value>) -> Result<Option<String>> {
    let (_, answer) = ask(url, options, "venturi.environment").await?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    Ok(Some(text).filter(|text| !text.is_empty() && text != "null"))
}

/// What the first server of the URL can be asked for.
pub async fn offers(url: &str, options: &BTreeMap<String, Value>) -> Result<Offers> {
    let asking = |link| async move { offers::offers(&link).await };
    match first_of(url, options, "what it offers", asking).await {
        Ok((_, offers)) => Ok(offers),
        Err(error) => {
            let (addresses, _) = options::parse_url(url)?;
            Err(first_contact(error, &addresses[0], SCHEME))
        }
    }
}

/// Where a reference server's raw probe listens, the first one's of the URL, and what it wants
/// to see, where it does not serve everybody; it starts on demand.
pub async fn raw_peer(
    url: &str,
    options: &BTreeMap<String, Value>,
) -> Result<(SockAddr, Option<[u8; 8]>)> {
    let (address, answer) = ask(url, options, "venturi.tcp").await.map_err(stranger)?;
    let (port, ticket) = port_and_ticket(&answer)
        .ok_or_else(|| Error::protocol("the server's answer to venturi.tcp is not a port"))?;
    Ok((address.to_host().raw_peer(port).await?, ticket))
}

/// `PORT`, or `PORT TICKET` with the ticket in hexadecimal.
pub(crate) fn port_and_ticket(answer: &[u8]) -> Option<(u16, Option<[u8; 8]>)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (port, ticket) = match text.split_once(' ') {
        Some((port, ticket)) => (port, Some(u64::from_str_radix(ticket, 16).ok()?)),
        None => (text, None),
    };
    Some((port.parse().ok()?, ticket.map(u64::to_be_bytes)))
}

/// Another server refuses an action that it does not know in words of its own, which may be pages.
fn stranger(error: Error) -> Error {
    match error.kind {
        Kind::Server => Error::new(
            Kind::Unsupported,
            "it is no `venturi serve`, which alone answers this probe",
        ),
        _ => error,
    }
}

/// One action outside of any trial.
async fn ask(
    url: &str,
    options: &BTreeMap<String, Value>,
    action: &str,
) -> Result<(Address, Vec<u8>)> {
    first_of(url, options, action, |link| async move {
        link.action(action, b"").await
    })
    .await
}

/// Something outside of any trial, asked of the first server of the URL over a connection of its own.
async fn first_of<T, F: Future<Output = Result<T>>>(
    url: &str,
    options: &BTreeMap<String, Value>,
    what: &str,
    asking: impl FnOnce(Link) -> F,
) -> Result<(Address, T)> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let (mut addresses, _) = options::parse_url(url)?;
    let address = addresses.swap_remove(0);
    let options = Options::parse(options)?;
    let asked = async {
        let destination = Destination {
            address: address.clone(),
            options: options.clone(),
            timeout: PATIENCE,
            scheme: SCHEME,
        };
        let link =
            Link::connect(destination.into(), address.asked_as(), options.headers()?).await?;
        authenticate(&link, &options).await?;
        asking(link).await
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map(|answer| (address, answer)),
        Err(_) => Err(Error::new(
            Kind::Timeout,
            format!("{}: no answer to {what}", address.authority()),
        )),
    }
}

/// Basic authentication: Handshake for a bearer token, or the header on every call. The
/// header is set on the link, and returned for further ones.
pub(super) async fn authenticate(
    link: &Link,
    options: &Options,
) -> Result<Option<(String, Vec<u8>)>> {
    let Some(basic) = options.basic()? else {
        return Ok(None);
    };
    let header = ("authorization".to_owned(), basic);
    let request = Handshake::default().encode_to_vec();
    let header = match link.login(&header, &request).await {
        Ok(headers) => headers
            .into_iter()
            .find(|header| header.name == "authorization")
            .map_or(header, |found| (found.name, found.value.into_bytes())),
        Err(error) if is_unknown(&error) => header,
        Err(error) => return Err(error),
    };
    link.add_header(&header.0, header.1.clone());
    Ok(Some(header))
}
