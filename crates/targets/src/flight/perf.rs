//! Arrow's perf protocol: records that the server makes on demand.

use std::time::Duration;

use prost::Message as _;

use super::call::Link;
use super::offers::{is_ticket, listed};
use super::plan::Plan;
use super::reply::is_unknown;
use super::Flight;
use venturi_base::codec::ipc::{schema_to_bytes, Compression};
use venturi_base::codec::perf::{Perf, Token, COLUMNS};
use venturi_base::codec::proto::FlightDescriptor;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Values};

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
