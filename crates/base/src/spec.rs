//! The trial spec: what Python asks for. Documented in `docs/format.md`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::data::metrics::MOST_HOSTS;
use crate::error::{Error, Result};

/// Points of a batch: its text is some 35 bytes a point.
const MOST_POINTS: usize = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Get,
    Put,
    Upsert,
    /// Points of time series.
    Ingest,
}

/// When a batch's rows and its statement are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Generate {
    /// Before the clock starts.
    #[default]
    Ahead,
    /// Inside the interval, as an application would.
    Inline,
}

/// What an upsert does with a user's columns: rows of the same `key` meet, the columns of
/// `add` are summed up, all others overwritten.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upsert {
    pub key: Vec<String>,
    #[serde(default)]
    pub add: Vec<String>,
}

/// Which columns of a user's table are what to an ingest. A metric is called as its column of
/// values, with `metric` and a dot before where that is given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ingest {
    pub time: String,
    pub tags: Vec<String>,
    pub values: Vec<String>,
    #[serde(default)]
    pub metric: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    Checksum,
    Count,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    Sequential,
    Random,
}

/// Batches per second: the schedule goes by nanoseconds.
const MOST_RATE: f64 = 1e9;

/// Where batches come from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "source", rename_all = "lowercase", deny_unknown_fields)]
pub enum Data {
    /// `columns` columns of int64, not null.
    Records {
        #[serde(default = "four")]
        columns: usize,
        #[serde(default = "random")]
        values: Values,
        #[serde(default)]
        seed: u64,
    },
    /// A user's file; `ipc` is the Arrow IPC file that was made of it.
    File { path: String, ipc: String },
    /// The rows of the fast-update workload: `working_set` of them, again and again.
    Usage {
        #[serde(default = "million")]
        working_set: u64,
        #[serde(default)]
        seed: u64,
        /// The time that all rows carry.
        #[serde(default)]
        loaded_unix_s: i64,
    },
    /// The points of the time-series workload: hosts with ten metrics each.
    Metrics {
        #[serde(default = "hundred")]
        hosts: u64,
        #[serde(default = "first")]
        seed: u64,
        #[serde(default = "second")]
        tick_ns: i64,
        /// 2017-01-01.
        #[serde(default = "year_2017")]
        start_unix_ns: i64,
        /// Steps of time; endless without.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// Points of a directory of archives, which `generate` made.
    Archive { path: String },
    /// A get of whatever the server holds.
    Remote,
}

fn hundred() -> u64 {
    100
}
fn first() -> u64 {
    1
}
fn second() -> i64 {
    1_000_000_000
}
fn year_2017() -> i64 {
    1_483_228_800_000_000_000
}
fn four() -> usize {
    4
}
fn million() -> u64 {
    1_000_000
}
fn one() -> usize {
    1
}
fn random() -> Values {
    Values::Random
}

/// The streams of a trial that this process runs, where others run the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    pub first: usize,
    pub count: usize,
    /// It makes what the trial needs at the server, verifies for all and cleans up.
    #[serde(default)]
    pub lead: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    pub trial: String,
    pub target: String,
    /// Options of the target; each target has its own, so they are read there.
    #[serde(default)]
    pub options: BTreeMap<String, serde_json::Value>,
    pub operation: Operation,
    pub data: Data,
    pub rows_per_batch: usize,
    #[serde(default)]
    pub rows_per_stream: Option<u64>,
    #[serde(default)]
    pub duration_ns: Option<u64>,
    /// Of the whole trial, over all processes.
    pub streams: usize,
    /// Of this process.
    pub threads: usize,
    /// `None`: this process runs all streams.
    #[serde(default)]
    pub share: Option<Share>,
    /// Open loop: batches per second over all streams together.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Batches that may be in flight on one stream at a time.
    #[serde(default = "one")]
    pub in_flight: usize,
    #[serde(default)]
    pub generate: Generate,
    /// Batches that may be refused or in doubt before the trial is given up.
    #[serde(default)]
    pub max_errors: u64,
    /// How often a refused batch is tried again.
    #[serde(default)]
    pub retries: u32,
    /// Of a user's table; `usage` has its own.
    #[serde(default)]
    pub upsert: Option<Upsert>,
    /// Of a user's table; `metrics` and archives have their own.
    #[serde(default)]
    pub ingest: Option<Ingest>,
    #[serde(default = "checksum")]
    pub verify: Verify,
    #[serde(default)]
    pub include_setup: bool,
    #[serde(default)]
    pub pin: Option<Vec<usize>>,
    #[serde(default = "half_a_minute")]
    pub timeout_ns: u64,
    #[serde(default = "tenth_of_a_second")]
    pub sample_interval_ns: u64,
    /// Processes of this host that Venturi runs beside both ends, by their role: the relay of a link.
    #[serde(default)]
    pub helpers: BTreeMap<String, u32>,
}

fn checksum() -> Verify {
    Verify::Checksum
}
fn half_a_minute() -> u64 {
    30_000_000_000
}
fn tenth_of_a_second() -> u64 {
    100_000_000
}

impl TrialSpec {
    pub fn parse(json: &str) -> Result<Self> {
        let spec: Self = serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("the trial spec: {error}")))?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<()> {
        let wrong = |message: &str| Err(Error::usage(message));
        if self.streams == 0 || self.streams > 65_536 {
            return wrong("streams must be 1..65536");
        }
        if self.threads == 0 || self.threads > 4_096 {
            return wrong("threads must be 1..4096");
        }
        self.check_share()?;
        if self.rows_per_batch == 0 {
            return wrong("rows_per_batch must be at least 1");
        }
        match (self.rows_per_stream, self.duration_ns, &self.data) {
            (Some(_), Some(_), _) => {
                return wrong(
                    "give rows_per_stream (fixed work) or duration (fixed time), not both",
                )
            }
            (None, None, Data::Remote | Data::Archive { .. }) => {}
            (None, None, Data::Metrics { steps: Some(_), .. }) => {}
            (None, None, Data::File { .. }) if self.operation == Operation::Ingest => {}
            (None, None, _) => return wrong("give rows_per_stream or duration"),
            (Some(0), ..) => return wrong("rows_per_stream must be at least 1"),
            (_, Some(0), _) => return wrong("duration must be longer than nothing"),
            _ => {}
        }
        if let Data::Records { columns, .. } = self.data {
            if columns == 0 || columns > 10_000 {
                return wrong("columns must be 1..10000");
            }
        }
        if self.operation == Operation::Put && self.data == Data::Remote {
            return wrong("a put needs data of its own: records or a file");
        }
        self.check_upsert()?;
        self.check_ingest()?;
        if self
            .rate
            .is_some_and(|rate| !(rate > 0.0 && rate <= MOST_RATE))
        {
            return wrong("rate must be a number of batches per second above 0, 1e9 at most");
        }
        if self.pin.as_ref().is_some_and(Vec::is_empty) {
            return wrong("pin must name at least one CPU");
        }
        Ok(())
    }

    fn check_share(&self) -> Result<()> {
        let Some(Share { first, count, .. }) = self.share else {
            return Ok(());
        };
        if count == 0 {
            return Err(Error::usage("share.count must be at least 1 stream"));
        }
        if first
            .checked_add(count)
            .is_none_or(|end| end > self.streams)
        {
            return Err(Error::usage(format!(
                "share: {count} streams from number {first} on are not among the {} of the trial",
                self.streams
            )));
        }
        if self.include_setup {
            return Err(Error::usage(
                "include_setup times the set-up of one process; leave it out, or run on one host",
            ));
        }
        Ok(())
    }

    fn check_upsert(&self) -> Result<()> {
        let wrong = |message: &str| Err(Error::usage(message));
        if self.in_flight == 0 || self.in_flight > 65_536 {
            return wrong("in_flight must be 1..65536");
        }
        if self.streams.saturating_mul(self.in_flight) > 1 << 20 {
            return wrong("streams x in_flight must be at most 1048576");
        }
        match (self.operation, &self.data) {
            (Operation::Upsert, Data::Usage { working_set: 0, .. }) => {
                wrong("working_set must be at least 1 row")
            }
            (Operation::Upsert, Data::Usage { .. }) => Ok(()),
            (Operation::Upsert, Data::File { .. }) if self.upsert.is_none() => {
                wrong("an upsert of a file needs upsert.key: the columns by which rows meet")
            }
            (Operation::Upsert, Data::File { .. }) => Ok(()),
            (Operation::Upsert, _) => wrong("an upsert needs rows with a key: usage or a file"),
            (_, Data::Usage { .. }) => wrong("usage is for upserts"),
            _ if self.in_flight > 1 => wrong("in_flight is for upserts"),
            _ => Ok(()),
        }
    }

    /// Of all streams together, where the work is fixed.
    pub fn planned_rows(&self) -> Option<u64> {
        self.rows_per_stream?.checked_mul(self.streams as u64)
    }

    fn check_ingest(&self) -> Result<()> {
        let wrong = |message: &str| Err(Error::usage(message));
        match (self.operation, &self.data) {
            (
                Operation::Ingest,
                Data::Metrics {
                    hosts,
                    tick_ns,
                    steps,
                    ..
                },
            ) => {
                if *hosts == 0 || *hosts > MOST_HOSTS {
                    return wrong("hosts must be 1..10000000");
                }
                if *tick_ns < 0 {
                    return wrong("tick_ns must not be negative: time must not go back");
                }
                if *steps == Some(0) {
                    return wrong("steps must be at least 1");
                }
            }
            (Operation::Ingest, Data::File { .. }) if self.ingest.is_none() => {
                return wrong("an ingest of a file needs ingest: which columns are what")
            }
            (Operation::Ingest, Data::File { .. } | Data::Archive { .. }) => {}
            (Operation::Ingest, _) => {
                return wrong("an ingest needs points: metrics, an archive or a file")
            }
            (_, Data::Metrics { .. } | Data::Archive { .. }) => {
                return wrong("metrics and archives are for an ingest")
            }
            _ => return Ok(()),
        }
        if self.rows_per_batch > MOST_POINTS {
            return wrong("rows_per_batch must be at most 16777216 points");
        }
        let archive = matches!(self.data, Data::Archive { .. });
        if self.generate == Generate::Ahead && self.duration_ns.is_some() && !archive {
            return wrong("generate = \"ahead\" makes all bytes before the clock, so it needs rows_per_stream, not duration; or give generate = \"inline\"");
        }
        Ok(())
    }

    /// Numbers of the streams that this process runs.
    pub fn own(&self) -> Range<usize> {
        match self.share {
            Some(share) => share.first..share.first + share.count,
            None => 0..self.streams,
        }
    }

    /// Whether this process makes what the trial needs at the server, and verifies.
    pub fn leads(&self) -> bool {
        self.share.is_none_or(|share| share.lead)
    }

    /// Own streams times batches in flight: so many sessions drive this process's part.
    pub fn lanes(&self) -> usize {
        self.own().len() * self.in_flight
    }
}
