//! What a server offers and answers outside of a trial's streams: its log-in, its flights, Arrow's perf protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;
use serde::Serialize;
use serde_json::Value;

use super::call::Link;
use super::connect::Destination;
use super::options::{self, Address, Options};
use super::plan::Plan;
use super::reply::{is_unknown, says};
use super::{first_contact, Flight, SCHEME};
use crate::systems::Answer;
use crate::LocalFuture;
use venturi_base::codec::ipc::{schema_to_bytes, Compression};
use venturi_base::codec::perf::{Perf, Token, COLUMNS};
use venturi_base::codec::proto::{descriptor_type, FlightDescriptor, FlightInfo, Handshake};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Values};

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
async fn offers_of(link: &Link) -> Result<Offers> {
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

/// Rows that a fixed-time get asks for: more than any clock lets through.
pub(crate) const WITHOUT_END: u64 = 1 << 44;

/// How long a server may take to list what it has, for the sake of an error's text.
const PATIENCE: Duration = Duration::from_secs(2);
/// Flights that such a text names, and the longest name that is read.
const SHOWN: usize = 5;
const LONGEST: usize = 80;

impl Flight {
    pub(super) async fn plan_perf(&self, links: &[Link], plan: &mut Plan) -> Result<()> {
        let Data::Records {
            columns,
            values,
            seed,
        } = self.spec.data
        else {
            return Err(Error::usage("the perf protocol moves records"));
        };
        let compression = self.options.compression()?;
        let usual =
            columns == COLUMNS && values == Values::Random && compression == Compression::None;
        // Which random numbers they are makes no difference to a foreign server's figures.
        let plain = usual && (seed == 0 || !self.identity.reference);
        if !usual && !self.identity.reference {
            return Err(Error::usage(format!(
                "{}: only Venturi's own server makes {values:?} records of {columns} columns, compression {}; Arrow's perf server knows 4 random columns, uncompressed",
                self.identity.address,
                compression.name()
            )));
        }
        let schema = match &self.source {
            // Arrow's server ignores the field; ours reads what to make from it.
            Some(source) if !plain => {
                let metadata = std::collections::HashMap::from([
                    (
                        "venturi.values".to_owned(),
                        format!("{values:?}").to_lowercase(),
                    ),
                    ("venturi.seed".to_owned(), seed.to_string()),
                    ("venturi.compression".to_owned(), compression.name()),
                ]);
                let schema = source.schema().as_ref().clone().with_metadata(metadata);
                schema_to_bytes(&schema)?
            }
            _ => vec![],
        };
        let perf = Perf {
            schema,
            stream_count: self.spec.streams as i32,
            records_per_stream: self.spec.rows_per_stream.unwrap_or(WITHOUT_END) as i64,
            records_per_batch: self.spec.rows_per_batch as i32,
        };
        let descriptor = FlightDescriptor::command(perf.encode_to_vec());
        let mut warm_up = Token {
            definition: Some(perf),
            start: 0,
            end: self.spec.rows_per_batch as i64,
        };
        if let Some(definition) = &mut warm_up.definition {
            definition.records_per_stream = self.spec.rows_per_batch as i64;
        }
        let planned = self.plan_at_each(links, &descriptor, plan).await;
        if let Err(error) = planned.and_then(|()| answers_perf(plan)) {
            let other = error.kind == Kind::Unsupported || is_unknown(&error);
            return Err(match other && !self.identity.reference {
                true => self.without_perf(&links[0], error).await,
                false => error,
            });
        }
        plan.warm_up = Some(warm_up.encode_to_vec());
        Ok(())
    }

    /// The same error, with what the user can name instead: the server's own flights.
    async fn without_perf(&self, link: &Link, error: Error) -> Error {
        let place = self.servers[0].address.authority();
        let listed = match tokio::time::timeout(PATIENCE, listed(link)).await {
            Ok(Ok((flights, _))) if flights.is_empty() => "its ListFlights names none".to_owned(),
            Ok(Ok((flights, _))) => {
                let short = flights.iter().map(|it| &*it.place);
                let shown: Vec<_> = short.filter(|it| it.len() <= LONGEST).take(SHOWN).collect();
                let more = flights.len() - shown.len();
                let more = match more {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("it lists {}{more}", shown.join(", "))
            }
            Ok(Err(_)) | Err(_) => "it does not list them".to_owned(),
        };
        Error::new(
            Kind::Unsupported,
            format!(
                "{place} does not speak Arrow's perf protocol ({}); name a table of it (flight://{place}/TABLE) or a command (flight://{place}?command=TEXT): {listed}",
                error.message
            ),
        )
    }
}

fn answers_perf(plan: &Plan) -> Result<()> {
    let mut pieces = plan.pieces.iter().flatten();
    match pieces.all(|piece| is_ticket(&piece.ticket)) {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Unsupported,
            "its tickets are not those of the protocol",
        )),
    }
}

/// What the first server of the URL can be asked for.
pub async fn offers(url: &str, options: &BTreeMap<String, Value>) -> Result<Offers> {
    let asking = async |link: Link| offers_of(&link).await;
    match first_of(url, options, "what it offers", asking).await {
        Ok((_, offers)) => Ok(offers),
        Err(error) => {
            let (addresses, _) = options::parse_url(url)?;
            Err(first_contact(error, &addresses[0], SCHEME))
        }
    }
}

/// A reference server's answer; another one refuses an action that it does not know.
pub fn ask<'a>(
    url: &'a str,
    options: &'a BTreeMap<String, Value>,
    name: &'a str,
) -> LocalFuture<'a, Answer> {
    Box::pin(async move {
        let action = format!("venturi.{name}");
        let asking = async |link: Link| link.action(&action, b"").await;
        match first_of(url, options, &action, asking).await {
            Ok((address, answer)) => Ok(Some((address.to_host(), answer))),
            Err(error) if is_no_action(&error) => Ok(None),
            Err(error) => Err(error),
        }
    })
}

/// Whether a server says that it knows no such action. Our own fails by other statuses.
fn is_no_action(error: &Error) -> bool {
    says(error, "UNIMPLEMENTED") || says(error, "INVALID_ARGUMENT")
}

/// Something outside of any trial, asked of the first server of the URL over a connection of its own.
async fn first_of<T>(
    url: &str,
    options: &BTreeMap<String, Value>,
    what: &str,
    asking: impl AsyncFnOnce(Link) -> Result<T>,
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
            Link::connect(destination.into(), address.requested(), options.headers()?).await?;
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
pub(crate) async fn authenticate(
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
