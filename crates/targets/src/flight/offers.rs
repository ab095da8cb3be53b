//! What a server can be asked for, in its own words.

use prost::Message as _;
use serde::Serialize;

use super::call::Link;
use super::reply::is_unknown;
use venturi_base::codec::perf::{Perf, Token};
use venturi_base::codec::proto::{descriptor_type, FlightDescriptor, FlightInfo};
use venturi_base::error::{Kind, Result};

#[derive(Debug, Serialize)]
pub struct Offers {
    /// It makes records as asked, by Arrow's perf protocol.
    pub perf: bool,
    /// `None`: it does not list what it has, or was not asked.
    pub flights: Option<Vec<Listed>>,
    /// Flights that it lists and that no URL can name.
    pub nameless: usize,
}

/// A flight that a server lists, with its size where the server says one.
#[derive(Debug, PartialEq, Serialize)]
pub struct Listed {
    /// As it stands behind the server in a URL: `/sales/2026`, `?command=SELECT%201`.
    pub place: String,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
}

/// Asks whether it makes records, and where it does not, for its flights.
pub(super) async fn offers(link: &Link) -> Result<Offers> {
    let (perf, mut flights, mut nameless) = (makes_records(link).await?, None, 0);
    if !perf {
        match listed(link).await {
            Ok((named, others)) => (flights, nameless) = (Some(named), others),
            Err(error) if is_unknown(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Offers {
        perf,
        flights,
        nameless,
    })
}

/// Whether it answers the perf protocol's question as the protocol has it.
async fn makes_records(link: &Link) -> Result<bool> {
    let one = Perf {
        schema: vec![],
        stream_count: 1,
        records_per_stream: 1,
        records_per_batch: 1,
    };
    let question = FlightDescriptor::command(one.encode_to_vec()).encode_to_vec();
    match link.unary("GetFlightInfo", &[], &question).await {
        Ok(replies) => {
            let info = replies.first().map(|it| FlightInfo::decode(&it[..]));
            let endpoints = info.and_then(|it| it.ok()).unwrap_or_default().endpoint;
            let mut tickets = endpoints.into_iter().filter_map(|it| it.ticket);
            Ok(tickets.next().is_some_and(|it| is_ticket(&it.ticket)))
        }
        Err(error) if error.kind == Kind::Unsupported || is_unknown(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a ticket is the perf protocol's own. A server that answers any question with what it has would be
/// read, and its rows taken for those that were asked for.
pub(super) fn is_ticket(ticket: &[u8]) -> bool {
    Token::decode(ticket).is_ok_and(|token| token.definition.is_some())
}

/// What a server says it has, and how much of it no URL can name.
pub(super) async fn listed(link: &Link) -> Result<(Vec<Listed>, usize)> {
    // Criteria without an expression: all of them.
    let replies = link.unary("ListFlights", &[], &[]).await?;
    let flights = replies.iter().filter_map(|reply| {
        let flight = FlightInfo::decode(&reply[..]).ok()?;
        Some(Listed {
            place: in_url(&flight.flight_descriptor?)?,
            rows: u64::try_from(flight.total_records).ok(),
            bytes: u64::try_from(flight.total_bytes).ok(),
        })
    });
    let named: Vec<_> = flights.collect();
    let nameless = replies.len() - named.len();
    Ok((named, nameless))
}

/// `None` for an empty name.
fn in_url(flight: &FlightDescriptor) -> Option<String> {
    let text = match flight.r#type {
        descriptor_type::PATH => {
            let parts = flight.path.iter().map(|part| escaped(part.as_bytes()));
            parts.map(|part| format!("/{part}")).collect()
        }
        _ => format!("?command={}", escaped(&flight.cmd)),
    };
    (!text.is_empty() && text != "?command=").then_some(text)
}

/// The reverse of `options::unescape`; nothing else of a stranger's name gets to a terminal.
fn escaped(bytes: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    bytes.iter().map(one).collect()
}
