//! Arrow's perf protocol: records that the server makes on demand.

use std::time::Duration;

use prost::Message as _;

use super::call::Link;
use super::plan::Plan;
use super::reply::is_unknown;
use super::Flight;
use venturi_base::codec::ipc::{schema_to_bytes, Compression};
use venturi_base::codec::perf::{Perf, Token, COLUMNS};
use venturi_base::codec::proto::{descriptor_type, FlightDescriptor, FlightInfo};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Values};

/// Rows that a fixed-time get asks for: more than any clock lets through.
pub(super) const WITHOUT_END: u64 = 1 << 44;

/// How long a server may take to list what it has, for the sake of an error's text.
const PATIENCE: Duration = Duration::from_secs(2);
/// Flights that such a text names, and the longest name that is one.
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
        let listed = match tokio::time::timeout(PATIENCE, flights(link)).await {
            Ok(Ok(names)) if names.is_empty() => "its ListFlights names none".to_owned(),
            Ok(Ok(names)) => {
                let more = names.len().saturating_sub(SHOWN);
                let shown: Vec<_> = names.iter().take(SHOWN).map(String::as_str).collect();
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

/// Whether the tickets are the protocol's own. A server that answers any question with what it
/// has would be read, and its rows taken for those that were asked for.
fn answers_perf(plan: &Plan) -> Result<()> {
    let own = |ticket: &[u8]| Token::decode(ticket).is_ok_and(|token| token.definition.is_some());
    match plan.pieces.iter().flatten().all(|piece| own(&piece.ticket)) {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Unsupported,
            "its tickets are not those of the protocol",
        )),
    }
}

/// What a server says it has, each as it is written in a URL.
async fn flights(link: &Link) -> Result<Vec<String>> {
    // Criteria without an expression: all of them.
    let replies = link.unary("ListFlights", &[], &[]).await?;
    let flights = replies
        .iter()
        .filter_map(|reply| FlightInfo::decode(&reply[..]).ok()?.flight_descriptor);
    Ok(flights.filter_map(|it| in_url(&it)).collect())
}

/// `/sales/2026`, `?command=SELECT%201`; `None` where it is too long to be read.
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
