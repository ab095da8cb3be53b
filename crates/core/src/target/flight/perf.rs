//! Arrow's perf protocol: records that the server makes on demand.

use prost::Message as _;

use super::call::Link;
use super::plan::Plan;
use super::Flight;
use crate::codec::ipc::{schema_to_bytes, Compression};
use crate::codec::perf::{Perf, Token, COLUMNS};
use crate::codec::proto::FlightDescriptor;
use crate::error::{Error, Kind, Result};
use crate::spec::{Data, Values};

/// Rows that a fixed-time get asks for: more than any clock lets through.
pub(super) const WITHOUT_END: u64 = 1 << 44;

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
        self.plan_at_each(links, &descriptor, plan).await.map_err(|error| {
            if error.kind == Kind::Server {
                error.context("the server does not speak Arrow's perf protocol; name a table (flight://host:port/table) or a command")
            } else {
                error
            }
        })?;
        plan.warm_up = Some(warm_up.encode_to_vec());
        Ok(())
    }
}
