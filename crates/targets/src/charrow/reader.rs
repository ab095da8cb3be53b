//! One partition of one query, batch by batch, outside of any trial: for whoever wants the rows.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::channel::{server_error, Channel};
use super::options::{parse_url, Options, Place};
use super::plan::asks;
use venturi_base::codec::charrow::handshake::{pairs_by_key, Parameters, Request, LEAVE};
use venturi_base::codec::charrow::receive::{ipc_header, Event};
use venturi_base::codec::charrow::statistics::Statistics;
use venturi_base::codec::charrow::{EXTENDED, PLAIN};
use venturi_base::codec::ipc::Decoder;
use venturi_base::error::{Error, Kind, Result};

/// How long nothing may come.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Reader {
    runtime: Runtime,
    channel: Channel,
    decoder: Decoder,
    schema: SchemaRef,
    authority: String,
    /// What a 1.2 server says of itself.
    hello: BTreeMap<String, String>,
    ended: bool,
    /// What has come of blocks, and of their rows.
    blocks: u64,
    rows: u64,
}

/// How long a reader that leaves early takes what is in flight, so that the server, which may be
/// in the middle of a block, comes to hear of it.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a reader's options have beside those of the target.
struct Share {
    query_id: String,
    partition: Option<u64>,
    partitions: Option<u64>,
}

impl Reader {
    /// Sends the query and waits for its schema. Options beside those of a trial: `partition`
    /// and `partitions`, with `query_id` the way to read one query from several places.
    pub fn open(url: &str, query: &str, mut options: BTreeMap<String, Value>) -> Result<Self> {
        let mut number = |key: &str| match options.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| Error::usage(format!("{key} must be a whole number, not {value}"))),
        };
        let (partition, partitions) = (number("partition")?, number("partitions")?);
        let place = parse_url(url)?;
        let options = Options::parse(&options)?;
        let query = match (query.trim().is_empty(), &place.query, &options.query) {
            (false, _, _) => query.to_owned(),
            (true, Some(query), _) | (true, None, Some(query)) => query.clone(),
            (true, None, None) => return Err(Error::usage("there is no query to run")),
        };
        let share = Share {
            query_id: options.query_id.clone().unwrap_or_default(),
            partition,
            partitions,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::new(Kind::Io, format!("no event loop: {error}")))?;
        let authority = place.address.authority();
        let opening = begin(&place, &options, query, share);
        let (channel, decoder, hello) = runtime
            .block_on(async { tokio::time::timeout(PATIENCE, opening).await })
            .map_err(|_| late(&authority))?
            .map_err(|error| error.context(&authority))?;
        let schema = decoder
            .schema()
            .cloned()
            .ok_or_else(|| Error::protocol(format!("{authority}: the schema is none")))?;
        Ok(Self {
            runtime,
            channel,
            decoder,
            schema,
            authority,
            hello,
            ended: false,
            blocks: 0,
            rows: 0,
        })
    }

    /// What a 1.2 server says of itself, as `cpus`; an older one says nothing.
    pub fn hello(&self) -> &BTreeMap<String, String> {
        &self.hello
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The next batch; `None`: that was all.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while !self.ended {
            let channel = &mut self.channel;
            let event = self
                .runtime
                .block_on(async { tokio::time::timeout(PATIENCE, channel.event()).await })
                .unwrap_or_else(|_| Err(late(&self.authority)));
            match self.take(event) {
                Ok(Some(batch)) => return Ok(Some(batch)),
                Ok(None) => {}
                Err(error) => {
                    self.ended = true;
                    return Err(error.context(&self.authority));
                }
            }
        }
        Ok(None)
    }

    fn take(&mut self, event: Result<Event>) -> Result<Option<RecordBatch>> {
        match event? {
            Event::Block(block) => {
                block.check()?;
                let batch = self.decoder.message(&block.header, block.body)?;
                self.blocks += 1;
                self.rows += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
                Ok(batch)
            }
            Event::Statistics(text) => {
                Statistics::parse(&text)?.check(self.blocks, self.rows)?;
                Ok(None)
            }
            Event::End => {
                self.ended = true;
                Ok(None)
            }
            Event::Error(text) => Err(server_error(&text)),
            Event::Schema(_) => Err(Error::protocol("the server sent a second schema")),
            Event::Hello(_) | Event::Answer(_) => Ok(None),
        }
    }
}

impl Drop for Reader {
    /// Who has read enough says so, or the query would fail for its other partitions.
    fn drop(&mut self) {
        if self.ended || !asks(&self.hello).contains(LEAVE) {
            return;
        }
        let channel = &mut self.channel;
        channel.say(&Request::Ask {
            name: LEAVE.into(),
            payload: String::new(),
        });
        let goodbye = async {
            while channel
                .event()
                .await
                .is_ok_and(|event| !matches!(event, Event::End))
            {}
        };
        let _ = self
            .runtime
            .block_on(async { tokio::time::timeout(GOODBYE, goodbye).await });
    }
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch()
            .map_err(|error| ArrowError::ExternalError(Box::new(error)))
            .transpose()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

fn late(authority: &str) -> Error {
    Error::new(
        Kind::Timeout,
        format!("{authority}: nothing came for {} s", PATIENCE.as_secs()),
    )
}

/// Up to the schema. A server that refuses 1.2 is asked once more in 1.1.
async fn begin(place: &Place, options: &Options, query: String, share: Share) -> Result<Opened> {
    let wanted = options.minor()?;
    match attempt(place, options, &query, &share, wanted).await {
        Err(Refused::Handshake(_)) if wanted == EXTENDED && !options.checksum && !place.shared => {
            attempt(place, options, &query, &share, PLAIN)
                .await
                .map_err(Refused::why)
        }
        other => other.map_err(Refused::why),
    }
}

type Opened = (Channel, Decoder, BTreeMap<String, String>);

enum Refused {
    /// Before a word that tells a 1.2 server.
    Handshake(Error),
    Query(Error),
}

impl Refused {
    fn why(self) -> Error {
        match self {
            Refused::Handshake(error) | Refused::Query(error) => error,
        }
    }
}

async fn attempt(
    place: &Place,
    options: &Options,
    query: &str,
    share: &Share,
    minor: i64,
) -> std::result::Result<Opened, Refused> {
    let opening = async {
        let parameters = Parameters {
            compression: options.compression()?,
            checksum: options.checksum,
            partition: share.partition,
            partitions: share.partitions,
            block_bytes: options.block_bytes,
            ring: options.ring(place)?,
            ..Parameters::default()
        };
        let encoders = options.encoders()?.unwrap_or(1);
        Channel::open(place, options, minor, &parameters, encoders, PATIENCE).await
    };
    let mut channel = opening.await.map_err(Refused::Query)?;
    channel.say(&Request::Query {
        id: share.query_id.clone(),
        text: query.to_owned(),
    });
    let mut greeted = minor == PLAIN;
    let mut hello = BTreeMap::new();
    loop {
        let event = channel.event().await.map_err(|error| match greeted {
            true => Refused::Query(error),
            false => Refused::Handshake(error),
        })?;
        match event {
            Event::Hello(text) => {
                greeted = true;
                hello = pairs_by_key(&text);
            }
            Event::Schema(bytes) => {
                let mut decoder = Decoder::limited(options.largest_block() as u64).exact();
                let header = ipc_header(&bytes).map_err(Refused::Query)?;
                decoder.message(header, None).map_err(Refused::Query)?;
                return Ok((channel, decoder, hello));
            }
            Event::Error(text) => {
                let error = server_error(&text);
                return Err(match greeted || error.kind == Kind::Auth {
                    true => Refused::Query(error),
                    false => Refused::Handshake(error),
                });
            }
            _ => {
                let error = Error::protocol("the server sent something before the schema");
                return Err(Refused::Query(error));
            }
        }
    }
}
