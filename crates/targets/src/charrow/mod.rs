//! `charrow://`: one query's blocks over N connections, as the ClickHouse Arrow interface
//! carries them. `docs/targets/charrow.md`.
//!
//! A stream is a partition: a connection of its own, all of them with one query id. Which
//! blocks it gets is the server's affair, and depends on who takes them faster.

mod channel;
mod options;
mod plan;
mod pool;
mod reader;
mod session;
mod verify;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::reference::Observation;
use crate::systems::System;
use crate::{
    each, Identity, LocalFuture, Observed, Pool as PoolRecord, Session, Tally, Target, Verification,
};
use channel::Channel;
use options::{parse_url, Options, Place};
use pool::{Pool, Rules};
pub use reader::Reader;
use session::{Decoding, Ending, Partition, QueryRows};
use venturi_base::codec::charrow::handshake::{Parameters, Request};
use venturi_base::codec::charrow::{EXTENDED, LONGEST_NAME, LONGEST_QUERY};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::meter::sockets::Sockets;
use venturi_base::net::tls::in_the_clear;
use venturi_base::spec::{Data, Operation, TrialSpec, Values, Verify};
use verify::Reported;

const SOFTWARE: &str = concat!("venturi ", env!("CARGO_PKG_VERSION"));

pub struct Charrow {
    spec: Arc<TrialSpec>,
    place: Place,
    options: Options,
    query: String,
    query_id: String,
    rules: Rules,
    sockets: Arc<Sockets>,
    identity: Identity,
    /// The minor version that the server speaks.
    minor: i64,
    /// As the handshake asks for them.
    encoders: usize,
    pool: Option<Arc<Pool>>,
    leaving: Arc<AtomicBool>,
    /// The questions that the server answers.
    asks: BTreeSet<String>,
    account: Mutex<Option<Reported>>,
    observation: Observation,
    /// Of the whole query, as the partitions are told.
    query_rows: Arc<QueryRows>,
}

/// Arrow blocks over TCP.
pub const SYSTEM: System = System {
    scheme: "charrow",
    operations: &[Operation::Get],
    ports: &[("charrow", venturi_base::codec::charrow::DEFAULT_PORT)],
    tls: true,
    unix: true,
    shared: true,
    one_host: Some("the streams share the blocks of one query, which one server has"),
    reference: Some("charrow"),
    remote: true,
    parameters: &["query"],
    aliases: &[("charrow", &["chspark", "theflash"])],
    ask: Some(plan::ask_once),
    target: |spec| Ok(Box::new(Charrow::new(spec)?)),
    ..System::NOTHING
};

impl Charrow {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let place = parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        if spec.operation != Operation::Get {
            return Err(Error::usage(
                "charrow:// only has gets: the interface carries query results; put into flight://, upsert into a database, ingest into akumuli://, opentsdb:// or influx://",
            ));
        }
        if !place.address.tls && options.dialling().wants_tls() {
            return Err(in_the_clear("charrow"));
        }
        options.ring(&place)?;
        let query = query(&spec, &place, &options)?;
        let query_id = options
            .query_id
            .clone()
            .unwrap_or_else(|| match spec.share {
                // The same for all processes; whoever lines them up has made it a new one.
                Some(_) => spec.trial.clone(),
                None => run_of(&spec.trial),
            });
        if query.len() > LONGEST_QUERY || query_id.len() > LONGEST_NAME {
            return Err(Error::usage(format!(
                "the query may have {LONGEST_QUERY} bytes, its id {LONGEST_NAME}"
            )));
        }
        let rules = Rules {
            digests: false,
            handicap: options.handicap(spec.verify)?,
            largest: options.largest_block() as u64,
        };
        Ok(Self {
            spec,
            place,
            options,
            query,
            query_id,
            rules,
            sockets: Arc::default(),
            identity: Identity::default(),
            minor: 0,
            encoders: 1,
            pool: None,
            leaving: Arc::default(),
            asks: BTreeSet::new(),
            account: Mutex::new(None),
            observation: Observation::default(),
            query_rows: Arc::default(),
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    /// Bounds a call outside of the clock.
    async fn within<T>(
        &self,
        what: &str,
        call: impl std::future::Future<Output = Result<T>>,
    ) -> Result<T> {
        match limit::within(self.timeout(), call).await {
            Ok(result) => result.map_err(|error| error.context(what)),
            Err(over) => Err(Error::new(
                Kind::Timeout,
                format!(
                    "{}: {what}: no answer within {over}",
                    self.place.address.authority(),
                ),
            )),
        }
    }

    async fn channel(&self, minor: i64, parameters: &Parameters) -> Result<Channel> {
        let (place, options) = (&self.place, &self.options);
        let timeout = self.timeout();
        Channel::open(place, options, minor, parameters, self.encoders, timeout).await
    }

    /// What the server is told of a stream.
    fn parameters(&self, stream: usize) -> Result<Parameters> {
        let verify = match self.spec.verify {
            Verify::Checksum => "checksum",
            Verify::Count => "count",
            Verify::None => "none",
        };
        // Where the clock runs already, a call of its own would be in the interval.
        let samples = self.spec.include_setup && self.spec.sample_interval_ns > 0;
        Ok(Parameters {
            compression: self.options.compression()?,
            checksum: self.options.checksum,
            partition: Some(stream as u64),
            partitions: Some(self.spec.streams as u64),
            trial: Some(self.spec.trial.clone()),
            verify: Some(verify.to_owned()),
            sample: samples.then_some(self.spec.sample_interval_ns),
            block_bytes: self.options.block_bytes,
            ring: self.options.ring(&self.place)?,
        })
    }

    /// May the two ends' checksums be compared?
    fn has_checksum(&self) -> bool {
        self.spec.verify == Verify::Checksum && self.asks.contains("account")
    }

    async fn open_stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let mut channel = self.channel(self.minor, &self.parameters(stream)?).await?;
        channel.watch(&self.sockets);
        let query = Request::Query {
            id: self.query_id.clone(),
            text: self.query.clone(),
        };
        let decoding = match &self.pool {
            Some(pool) => Decoding::There(pool.clone()),
            None => Decoding::Here(self.rules.clone()),
        };
        let stops = self.asks.contains("stop");
        let ending = Ending {
            stop: stops.then(|| self.spec.trial.clone()),
            leaving: self.leaving.clone(),
            query_rows: self.query_rows.clone(),
        };
        let session = Partition::new(stream, channel, decoding, query, ending);
        Ok(Box::new(session))
    }

    /// A connection for questions.
    async fn asking(&self) -> Result<Channel> {
        let mut channel = self.channel(EXTENDED, &Parameters::default()).await?;
        plan::hello(&mut channel).await?;
        Ok(channel)
    }

    /// A question on a connection of its own.
    async fn ask(&self, name: &str, payload: &str) -> Result<Vec<u8>> {
        plan::ask(&mut self.asking().await?, name, payload).await
    }
}

/// The text of the trial's query.
fn query(spec: &TrialSpec, place: &Place, options: &Options) -> Result<String> {
    let given = match (&place.query, &options.query) {
        (Some(_), Some(_)) => {
            return Err(Error::usage(
                "the query is given twice: in the URL and as option query",
            ))
        }
        (one, other) => one.as_ref().or(other.as_ref()),
    };
    match (&spec.data, given) {
        (Data::Remote, Some(query)) => Ok(query.clone()),
        (Data::Remote, None) => Err(Error::usage(
            "data = \"remote\" needs to say what to get: charrow://host:port?query=SELECT…, or option query",
        )),
        (
            Data::Records {
                columns,
                values,
                seed,
            },
            None,
        ) => Ok(plan::records_query(
            *columns,
            *values,
            *seed,
            spec.rows_per_batch,
            spec.planned_rows(),
        )),
        (Data::Records { .. }, Some(_)) => Err(Error::usage(
            "a query moves what the server has: data = \"remote\"; without a query the records are the server's to make",
        )),
        _ => Err(Error::usage(
            "charrow:// gets records, or what a query finds (data = \"remote\"): to get a file, give it to the server (venturi serve charrow --table NAME=FILE) and query it",
        )),
    }
}

fn values_name(values: Values) -> &'static str {
    match values {
        Values::Random => "random",
        Values::Sequential => "sequential",
    }
}

/// An id for this run of the trial's query: a server remembers those that it has answered, and a
/// trial's name may come again in another run directory.
fn run_of(trial: &str) -> String {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    format!("{trial}/{:x}-{:x}", now.as_nanos(), std::process::id())
}

impl Target for Charrow {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            self.first_contact().await?;
            self.rules.digests = self.has_checksum();
            if self.options.decoders() > 0 {
                let pool = Pool::start(self.options.decoders(), self.rules.clone())?;
                self.pool = Some(Arc::new(pool));
            }
            Ok(self.identity.clone())
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        match self.spec.data {
            Data::Records { .. } => self.spec.planned_rows(),
            _ => None,
        }
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| {
            Ok([self.open_stream(stream).await?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.compare(tallies))
    }

    fn observed(&self) -> Option<&dyn Observed> {
        Some(self)
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        Some(self.sockets.clone())
    }

    fn pools(&self) -> Vec<PoolRecord> {
        let record = self.pool.as_ref().and_then(|pool| pool.record());
        record.into_iter().collect()
    }
}
