//! What a server can be asked for, in its own words.

use prost::Message as _;
use serde::Serialize;

use super::call::Link;
use venturi_base::codec::perf::{Perf, Token};
use venturi_base::codec::proto::{descriptor_type, FlightDescriptor, FlightInfo};
use venturi_base::error::{Kind, Result};

/// The longest name of a flight that is one.
const LONGEST: usize = 80;

#[derive(Debug, Serialize)]
pub struct Offers {
    /// It makes records as asked, by Arrow's perf protocol.
    pub perf: bool,
    /// `None`: it does not list what it has.
    pub flights: Option<Vec<Listed>>,
}

/// A flight that a server lists, with its size where the server says one.
#[derive(Debug, PartialEq, Serialize)]
pub struct Listed {
    /// As it stands behind the server in a URL: `/sales/2026`, `?command=SELECT%201`.
    pub place: String,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
}

/// Asks for all of it.
pub(super) async fn offers(link: &Link) -> Result<Offers> {
    let perf = makes_records(link).await?;
    let flights = match listed(link).await {
        Ok(flights) => Some(flights),
        Err(error) if refused(error.kind) => None,
        Err(error) => return Err(error),
    };
    Ok(Offers { perf, flights })
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
        Err(error) if refused(error.kind) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a ticket is the perf protocol's own. A server that answers any question with what it has would be
/// read, and its rows taken for those that were asked for.
pub(super) fn is_ticket(ticket: &[u8]) -> bool {
    Token::decode(ticket).is_ok_and(|token| token.definition.is_some())
}

/// It has understood that it was asked, and will not.
fn refused(kind: Kind) -> bool {
    matches!(kind, Kind::Server | Kind::Unsupported)
}

/// What a server says it has.
pub(super) async fn listed(link: &Link) -> Result<Vec<Listed>> {
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
    Ok(flights.collect())
}

/// `None` where the name is too long to be read.
fn in_url(flight: &FlightDescriptor) -> Option<String> {
    let text = match flight.r#type {
        descriptor_type::PATH => {
            let parts = flight.path.iter().map(|part| escaped(part.as_bytes()));
            parts.map(|part| format!("/{part}")).collect()
        }
        _ => format!("?command={}", escaped(&flight.cmd)),
    };
    (1..=LONGEST).contains(&text.len()).then_some(text)
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
