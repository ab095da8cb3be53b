//! The client side of each system under test: one file a system, one small trait.
//!
//! A target knows nothing of threads, pacing or repeats; a session knows one
//! stream and marks its stages on the clock that it is given.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;

use venturi_base::codec::account::Account;
pub use venturi_base::data::upsert::MAX_SUMS;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::align::Clock;
use venturi_base::meter::clock::{PoolTime, Stage, StageClock, StageTotals, Workers};
use venturi_base::meter::readers::listener::pid_of;
use venturi_base::meter::readers::network::is_own;
use venturi_base::meter::series::Series;
use venturi_base::meter::sockets::Sockets;
use venturi_base::net::route::{Neighbour, Route};
use venturi_base::os::machine::Place;
use venturi_base::spec::Verify;

pub mod adbc;
#[cfg(feature = "cassandra")]
pub mod cassandra;
pub mod charrow;
pub mod clickhouse;
mod database;
pub mod duckdb;
pub mod empty;
pub mod exec;
pub mod firebird;
pub mod flight;
pub mod flightsql;
pub mod hosts;
pub mod http;
mod identity;
pub mod mysql;
pub mod pipe;
pub mod plugin;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(not(feature = "postgres"))]
mod postgres {
    pub mod dialect;
}
pub mod read;
pub mod redis;
pub mod reference;
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(not(feature = "sqlite"))]
mod sqlite {
    pub mod dialect;
}
mod placeholders;
pub mod self_test;
mod stream;
pub mod systems;
pub mod timeseries;
pub mod upsert;

/// All systems, in the order in which errors name them.
pub static SYSTEMS: &[&systems::System] = &[
    &flight::SYSTEM,
    &flightsql::SYSTEM,
    &charrow::SYSTEM,
    &mysql::SYSTEM,
    #[cfg(feature = "cassandra")]
    &cassandra::SYSTEM,
    &http::SYSTEM,
    &clickhouse::SYSTEM,
    #[cfg(feature = "postgres")]
    &postgres::SYSTEM,
    &redis::SYSTEM,
    #[cfg(feature = "sqlite")]
    &sqlite::SYSTEM,
    &duckdb::SYSTEM,
    &firebird::SYSTEM,
    &adbc::SYSTEM,
    &timeseries::AKUMULI,
    &timeseries::OPENTSDB,
    &timeseries::INFLUX,
    &exec::SYSTEM,
    &pipe::SYSTEM,
    &empty::SYSTEM,
];

/// A future that stays on the thread that made it.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What one step moved: one batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub rows: u64,
    /// Payload bytes (METHOD: the bytes of values), not wire bytes.
    pub bytes: u64,
}

/// One stream: a flow with its own connection (unless shared), opened before the clock starts.
///
/// Driven by polls, so that N streams run on T threads without an allocation a batch.
/// The session marks its stages on `clock`; on `Pending` it has marked everything up to its
/// return and said with `StageClock::wait` what it waits for. Who polls it again resumes the
/// clock before.
pub trait Session {
    /// Moves the next batch: decoded (get) or handed over (put), which may mean that it is kept to share
    /// a system call with those that follow. `None`: the stream has no more.
    /// A put stops when the engine stops asking; then `poll_finish` follows.
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>>;

    /// Whether it is known, between two batches, that none follows: then no slot of a schedule
    /// is waited for.
    fn is_spent(&self) -> bool {
        false
    }

    /// After a batch: it is not asked for the next one at once, but when its schedule says so, or
    /// never. Where it has read for others as well, another one has to.
    fn idle(&mut self) {}

    /// The trial's time is over: what is refused from now on is not tried again.
    fn end_retries(&mut self) {}

    /// Ends the stream: a put waits until all that was sent is acknowledged; a get that
    /// was stopped early (fixed time, cancel) drops the rest.
    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        // The engine stops between batches, so only a stop on failure finds one in flight.
        match self.is_busy() {
            true => self.poll_batch(cx, clock).map_ok(|_| ()),
            false => Poll::Ready(Ok(())),
        }
    }

    /// Whether a batch is in flight.
    fn is_busy(&self) -> bool {
        false
    }

    /// Grows with every byte of data that this stream's connection moves, a part of a batch
    /// included. What only keeps a connection alive must not count: by this, and by
    /// batches, the engine tells a slow stream from a stalled one.
    fn progress(&self) -> u64 {
        0
    }

    /// For whoever waited in vain: what has not happened, where the session knows better than "no data".
    fn waits_for(&self) -> Option<String> {
        None
    }

    /// What this end counted (after `poll_finish`, or when it failed).
    fn tally(&self) -> Tally;
}

/// What one end of a stream counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    /// Sum of the batches' xxh3 digests (wrapping): order does not matter. 0 where not asked for.
    pub checksum: u64,
    /// Bytes that the sockets carried, both ways, where known.
    pub wire_bytes: u64,
    /// Upserts: sums over the acknowledged rows of the columns that are added.
    pub sums: Sums,
    /// Upserts: batches of which nobody knows whether they were applied.
    pub doubt: Doubt,
    /// Batches that were tried once more.
    pub retries: u64,
}

impl Tally {
    /// Both together.
    pub fn plus(mut self, other: &Tally) -> Self {
        self.rows += other.rows;
        self.checksum = self.checksum.wrapping_add(other.checksum);
        self.wire_bytes += other.wire_bytes;
        self.doubt.batches += other.doubt.batches;
        self.doubt.rows += other.doubt.rows;
        self.retries += other.retries;
        add(&mut self.sums, &other.sums);
        add(&mut self.doubt.least, &other.doubt.least);
        add(&mut self.doubt.most, &other.doubt.most);
        self
    }
}

/// What became of a stream's batches of a working set, in their order: a state and how many have
/// it, again and again.
pub type Runs = Vec<(u8, u64)>;

/// The batches of a working set that other processes of the trial write as well. Sums do not tell
/// which keys are there; whoever verifies has to know which batches were applied.
pub trait Applied {
    fn of_stream(&self, stream: usize) -> Runs;

    /// An error: they are not those of this working set.
    fn learn(&self, stream: usize, runs: &Runs) -> Result<()>;
}

/// Sums over the added columns, in the table's order.
pub type Sums = [i128; MAX_SUMS];

fn add(to: &mut Sums, more: &Sums) {
    for (to, more) in to.iter_mut().zip(more) {
        *to += more;
    }
}

/// Batches whose answer never came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doubt {
    pub batches: u64,
    pub rows: u64,
    /// Sums over the values below zero, and over those above: any of them may be there.
    pub least: Sums,
    pub most: Sums,
}

/// What an upsert has done to one added column, as decimal numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ColumnSum {
    pub column: String,
    /// Over all acknowledged rows.
    pub expected: String,
    /// What the rows in doubt may add: a sum, or the least and the most where signs differ.
    pub in_doubt: String,
    pub found: String,
}

/// What the two ends' counts say about each other.
#[derive(Debug, Clone, Serialize)]
pub struct Verification {
    pub requested: Verify,
    /// "checksum" | "sums" | "count" | "acknowledged" | "none"
    pub achieved: &'static str,
    pub expected_rows: Option<u64>,
    pub rows: u64,
    pub expected_checksum: Option<String>,
    pub checksum: Option<String>,
    /// Upserts: the columns that are added.
    pub sums: Option<Vec<ColumnSum>>,
    /// Upserts: rows of which every column was read back and compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_back: Option<u64>,
    /// Bytes that the target holds afterwards, where it tells.
    #[serde(skip)]
    pub stored_bytes: Option<u64>,
    /// Why less was achieved than was asked for.
    pub note: Option<String>,
    /// What does not agree; the trial has failed.
    #[serde(skip)]
    pub mismatch: Option<String>,
}

impl Verification {
    /// So many rows have arrived, and nobody has been asked yet what was sent.
    pub fn of(requested: Verify, rows: u64) -> Self {
        Self {
            requested,
            achieved: "none",
            expected_rows: None,
            rows,
            expected_checksum: None,
            checksum: None,
            sums: None,
            read_back: None,
            stored_bytes: None,
            note: None,
            mismatch: None,
        }
    }

    /// Who received so many rows, and who sent so many. The first difference is kept.
    pub fn compare_rows(&mut self, (receiver, received): (&str, u64), (sender, sent): (&str, u64)) {
        if received != sent && self.mismatch.is_none() {
            let text = format!("{receiver} counted {received} rows, {sender} {sent}");
            self.mismatch = Some(text);
        }
    }

    pub fn compare_checksums(&mut self, receiver: &str, sender: &str) {
        let differ = self.expected_checksum.is_some() && self.expected_checksum != self.checksum;
        if differ && self.mismatch.is_none() {
            self.mismatch = Some(format!(
                "{receiver} has other values than {sender} sent: the checksums differ"
            ));
        }
    }

    pub fn add_notes(&mut self, more: impl IntoIterator<Item = String>) {
        let all: Vec<_> = self.note.take().into_iter().chain(more).collect();
        self.note = (!all.is_empty()).then(|| all.join("; "));
    }
}

/// Who was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Identity {
    /// Of all servers, with commas between them.
    pub address: String,
    /// How many there are; stream s speaks to number s modulo this.
    pub servers: usize,
    pub software: Option<String>,
    /// A reference server of ours, which accounts for its stages.
    pub reference: bool,
    /// It tells what its process and its host did; else a process here is looked at from outside.
    #[serde(skip)]
    pub samples_itself: bool,
    pub protocol: String,
    pub pid: Option<u32>,
    /// What stands before a server on this host that may be elsewhere, so that nothing of a process
    /// here is told as the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// By what the server was slowed down on purpose, as `encode 2ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handicap: Option<String>,
    /// There and back on an idle connection, as the protocol itself can ask.
    pub round_trip_ns: Option<u64>,
    /// Both ends share CPUs; `None`: that is not known.
    #[serde(skip)]
    pub same_machine: Option<bool>,
    /// Both ends read one monotonic clock.
    #[serde(skip)]
    pub same_clock: bool,
    /// A connection of the trial, for the interface that carries it.
    #[serde(skip)]
    pub route: Option<Route>,
    /// Of several servers, where each is a process of this host: these, each once.
    #[serde(skip)]
    pub pids: Vec<u32>,
    /// Processes of this host that the trial has started, which are the other end together.
    #[serde(skip)]
    pub programs: Vec<u32>,
}

impl Identity {
    /// The same, at the other end of a Unix socket where there is one.
    fn beside(mut self, neighbour: Option<Neighbour>) -> Self {
        if let Some(neighbour) = neighbour {
            self.same_machine = Some(true);
            self.pid = neighbour.pid;
        }
        self
    }

    /// The same, at the other end of a connection. `listening`: who listens there, if that was looked
    /// for early.
    fn connected_by(
        mut self,
        route: Option<Route>,
        neighbour: Option<Neighbour>,
        listening: Option<Option<u32>>,
    ) -> Self {
        self.route = route;
        if let Some(route) = route.filter(|route| is_own(route.peer.ip())) {
            self.same_machine = Some(true);
            self.pid = listening.unwrap_or_else(|| pid_of(route.peer));
        }
        self.beside(neighbour)
    }

    /// Whether both ends share CPUs. A process that is known is one of this host.
    pub fn shares_cpus(&self) -> Option<bool> {
        self.same_machine.or(self.pid.map(|_| true))
    }

    /// By what the server itself says.
    fn runs_at(&mut self, place: &Place) {
        let here = Place::current();
        self.same_machine = place.on_machine_of(&here);
        self.same_clock = place.shares_clock_of(&here);
        self.pid = place.pid_for(&here);
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            address: String::new(),
            servers: 1,
            software: None,
            reference: false,
            samples_itself: false,
            protocol: String::new(),
            pid: None,
            relay: None,
            handicap: None,
            round_trip_ns: None,
            same_machine: None,
            same_clock: false,
            route: None,
            pids: Vec::new(),
            programs: Vec::new(),
        }
    }
}

/// What a reference server sampled of its own process and host.
#[derive(Debug)]
pub struct Watched {
    /// On the server's clock.
    pub series: Series,
    pub clock: Clock,
}

/// A pool of workers of this end beside the streams.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    pub name: &'static str,
    pub stages: StageTotals,
    pub workers: Workers,
}

/// What a reference server hands over after the trial.
#[derive(Debug, Clone, Default)]
pub struct ServerReport {
    pub stages: StageTotals,
    pub workers: Option<Workers>,
    /// Its pools, by name; their time is in `stages` and `workers` too.
    pub pools: BTreeMap<String, PoolTime>,
    pub user_ns: u64,
    pub system_ns: u64,
}

impl From<Account> for ServerReport {
    fn from(account: Account) -> Self {
        let mut stages = StageTotals::default();
        for stage in Stage::ALL {
            stages.0[stage as usize] = account.stages.get(stage.name()).copied().unwrap_or(0);
        }
        Self {
            stages,
            workers: account.workers,
            pools: account.pools,
            user_ns: account.user_ns,
            system_ns: account.system_ns,
        }
    }
}

/// The client side of a system. Shared by all threads of a trial; every method
/// runs on a current-thread tokio runtime of the calling thread.
pub trait Target: Send + Sync {
    /// Endpoints, tables, tickets; asks the server who it is. Not timed. Called once, first.
    /// Where another process leads the trial, all is there already and nothing is made.
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>>;

    /// How many rows the plan will move in all, where known before.
    fn planned_rows(&self) -> Option<u64>;

    /// Groups of streams that must run on one thread (they share a connection).
    /// Default: every stream by itself.
    fn groups(&self, streams: usize) -> Vec<Vec<usize>> {
        (0..streams).map(|stream| vec![stream]).collect()
    }

    /// Connects one group of streams and warms it up; returns `in_flight` sessions a stream,
    /// in order: each moves one batch at a time. An error names the stream.
    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>>;

    /// Compares what arrived with what was sent. `tallies` in the order of streams, those of other
    /// processes included. Called by the lead alone, as all that follows but `sockets` and `pools`.
    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>>;

    /// A server that accounts for the trial from its own end.
    fn observed(&self) -> Option<&dyn Observed> {
        None
    }

    /// Of an upsert whose rows can be found again.
    fn batches(&self) -> Option<&dyn Applied> {
        None
    }

    /// The connections of the trial's streams, to be read while it runs, where it has any.
    fn sockets(&self) -> Option<Arc<Sockets>> {
        None
    }

    /// Workers of this end beside the streams, as they have worked so far. Empty: there are none.
    fn pools(&self) -> Vec<Pool> {
        Vec::new()
    }

    /// Removes what the trial left on the server; also after a plan that failed.
    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// What a server tells of its own end of a trial. `reference::Reference` is how each of Venturi's servers
/// is asked for it.
pub trait Observed {
    /// Its account of the trial, where it gives one.
    fn server_report<'a>(&'a self) -> LocalFuture<'a, Result<Option<ServerReport>>>;

    /// Before the start: it shall sample itself, and its clock is compared with ours. Not called where the
    /// clock runs already (`include_setup`).
    fn watch<'a>(&'a self, interval: Duration) -> LocalFuture<'a, Result<()>>;

    /// After the end: what it sampled meanwhile. `None`: it does not sample.
    fn watched<'a>(&'a self) -> LocalFuture<'a, Result<Option<Watched>>>;
}

/// What a plan has left; without it something was asked for too early, which is Venturi's own fault.
pub(crate) fn planned<'a, P>(plan: &'a Option<P>, scheme: &str) -> Result<&'a P> {
    let unplanned = || Error::new(Kind::Internal, format!("{scheme}: not planned"));
    plan.as_ref().ok_or_else(unplanned)
}

/// The sessions of a group whose streams have nothing in common: each stream's, in order. An error names
/// the stream.
pub async fn each<Opened>(
    group: &[usize],
    open: impl AsyncFn(usize) -> Result<Opened>,
) -> Result<Vec<Box<dyn Session>>>
where
    Opened: IntoIterator<Item = Box<dyn Session>>,
{
    let mut sessions = Vec::with_capacity(group.len());
    for &stream in group {
        let opened = open(stream).await;
        sessions.extend(opened.map_err(|error| error.context(format_args!("stream {stream}")))?);
    }
    Ok(sessions)
}
