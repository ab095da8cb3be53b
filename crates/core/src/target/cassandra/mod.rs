//! `cassandra://`: Cassandra and ScyllaDB, by the driver of the latter (crate scylla).
//! `docs/targets/cassandra.md`.

mod connect;
mod count;
mod errors;
mod execute;
mod hello;
mod limits;
mod options;
mod schema;
mod server;
mod statement;
mod values;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::session::Session as Driver;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::Statement;

use self::execute::{Executor, Stream};
use self::limits::Limits;
use self::options::{Options, Write, LONGEST_NAME};
use self::schema::Layout;
use self::server::Replication;
use self::statement::Builder;
use crate::data::upsert::Batches;
use crate::error::{Error, Kind, Result};
use crate::meter::clock::StageClock;
use crate::meter::readers::listener::pid_of;
use crate::meter::readers::network::is_own;
use crate::spec::{Data, Operation, TrialSpec};
use crate::target::upsert::{compare, Calls, Effect, Found, Host, Place, Share, Work};
use crate::target::{Identity, LocalFuture, ServerReport, Session, Tally, Target, Verification};

/// The protocol numbers a batch's statements with 16 bits.
const MOST_ROWS: usize = 65_535;

pub struct Cassandra {
    spec: Arc<TrialSpec>,
    place: Place,
    options: Options,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    plan: Option<Plan>,
}

struct Plan {
    contact: Contact,
    ready: Ready,
}

/// How the server is reached, and where the table is.
struct Contact {
    builder: SessionBuilder,
    /// For what is not timed: set-up, verification, cleaning up.
    driver: Driver,
    layout: Arc<Layout>,
    /// Tokens are numbers.
    murmur: bool,
    /// For error lines.
    place: String,
    notes: Vec<String>,
}

/// What the streams share.
struct Ready {
    work: Arc<Work<Builder>>,
    prepared: PreparedStatement,
    limits: Arc<Limits>,
    before: Found,
}

impl Ready {
    fn stream(&self, session: Driver, place: &str) -> Stream {
        Stream {
            session,
            prepared: self.prepared.clone(),
            limits: self.limits.clone(),
            place: place.to_owned(),
        }
    }
}

impl Cassandra {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let place = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        if spec.operation != Operation::Upsert {
            return Err(Error::usage(
                "cassandra:// takes upserts: operation = \"upsert\"",
            ));
        }
        match (options.batch(), spec.rows_per_batch) {
            (None, 2..) => {
                return Err(Error::usage(format!(
                    "batch = none sends every row by itself, so rows_per_batch must be 1, not {}: \
                     --rows-per-batch 1, with --in-flight 64 (or so) for speed",
                    spec.rows_per_batch
                )))
            }
            (Some(_), rows) if rows > MOST_ROWS => {
                return Err(Error::usage(format!(
                    "rows_per_batch = {rows}: CQL's BATCH holds {MOST_ROWS} statements at most"
                )))
            }
            _ => {}
        }
        options.login(&place)?;
        let listening = match spec.include_setup {
            true => place.hosts.iter().find_map(Host::listening),
            false => None,
        };
        Ok(Self {
            listening,
            spec,
            place,
            options,
            plan: None,
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    fn plan(&self) -> Result<&Plan> {
        let unplanned = || Error::new(Kind::Internal, "cassandra: not planned");
        self.plan.as_ref().ok_or_else(unplanned)
    }

    fn table_name(&self) -> String {
        let mut name = self.options.common.table(&self.spec.data);
        name.truncate(LONGEST_NAME);
        name
    }

    async fn make_plan(&mut self) -> Result<Identity> {
        let own = matches!(self.spec.data, Data::Usage { .. });
        let (table, batches) = Batches::make(&self.spec, &self.table_name())?;
        let layout = Layout::new(&self.place.space, table, own, &self.options)?;
        let layout = Arc::new(layout);
        let place = self.place.address();

        let tls = connect::tls(&self.place, &self.options.login)?;
        let named = tls
            .clone()
            .map(|tls| (tls, self.options.login.tls_server_name.clone()));
        let hello = hello::hello(&self.place, named.as_ref(), self.timeout()).await?;
        self.check_compression(&place, &hello)?;
        let builder = connect::builder(&self.place, &self.options, tls.as_ref(), self.timeout())?;
        let driver = connect::connect(&builder, &place).await?;
        let software = server::software(&driver).await?;
        let skew = server::skew(&driver).await?;
        let notes = skew.and_then(server::skew_note).into_iter().collect();

        match self.options.common.setup {
            true => server::set_up(&driver, &place, &layout, self.options.replication).await?,
            false => server::must_be_there(&driver, &layout).await?,
        }
        let here = is_own(hello.route.peer.ip());
        let identity = Identity {
            address: place.clone(),
            software: Some(software.name),
            protocol: "cql".to_owned(),
            pid: match (here, self.spec.include_setup) {
                (false, _) => None,
                (true, true) => self.listening,
                (true, false) => pid_of(hello.route.peer),
            },
            round_trip_ns: Some(hello.round_trip.as_nanos() as u64),
            same_machine: here.then_some(true),
            route: Some(hello.route),
            ..Identity::default()
        };
        let contact = Contact {
            builder,
            driver,
            layout,
            murmur: software.murmur,
            place,
            notes,
        };
        let ready = match self.get_ready(&contact, batches).await {
            Ok(ready) => ready,
            Err(error) => {
                // Nobody else will: a plan that failed is the end of its trial.
                let _ = self.drop_table(&contact).await;
                return Err(error);
            }
        };
        self.plan = Some(Plan { contact, ready });
        Ok(identity)
    }

    /// The table is there: statements, limits, and what it holds before the trial.
    async fn get_ready(&self, contact: &Contact, batches: Batches) -> Result<Ready> {
        let Contact {
            driver,
            layout,
            place,
            ..
        } = contact;
        let prepared = driver.prepare(Statement::new(layout.prepared()?)).await;
        let prepared = prepared.map_err(|error| errors::of_prepare(place, &error))?;
        let replication = Replication::read(driver, &self.place.space).await?;
        let limits = match replication {
            Some(replication) => Limits::read(driver, &replication).await,
            None => Limits::default(),
        };
        let kind = self.options.batch();
        let builder = Builder::new(layout.clone(), kind, self.options.statement, &prepared);
        let work = Work::new(&self.spec, layout.table.clone(), batches, builder)?;
        let ready = Ready {
            work: Arc::new(work),
            prepared,
            limits: Arc::new(limits),
            before: match self.options.common.setup {
                true => Found::default(),
                false => self.count(contact).await?.0,
            },
        };
        if kind.is_some() {
            // A batch that the server refuses for its size is explained before the clock starts.
            let mut clock = StageClock::since(Instant::now());
            let first = ready.work.statement(0, &mut clock)?;
            let session = connect::connect(&contact.builder, place).await?;
            let stream = ready.stream(session, place);
            let check = ready.limits.check(&stream, &first.statement, first.rows);
            check.await?;
        }
        Ok(ready)
    }

    fn check_compression(&self, place: &str, hello: &hello::Hello) -> Result<()> {
        let Some(wanted) = self.options.compression()? else {
            return Ok(());
        };
        let offered = hello.supported.get("COMPRESSION");
        match offered.is_some_and(|all| all.iter().any(|name| name == wanted.as_str())) {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "{place}: the server does not know compression = {}; it offers: {}",
                wanted.as_str(),
                offered.map_or_else(|| "none".to_owned(), |all| all.join(", "))
            ))),
        }
    }

    async fn count(&self, contact: &Contact) -> Result<(Found, Option<String>)> {
        let Contact {
            driver,
            layout,
            place,
            ..
        } = contact;
        count::count(driver, place, layout, contact.murmur).await
    }

    async fn drop_table(&self, contact: &Contact) -> Result<()> {
        if !self.options.common.drops() {
            return Ok(());
        }
        let drop = format!("DROP TABLE IF EXISTS {}", contact.layout.path());
        server::execute(&contact.driver, &contact.place, &drop).await
    }

    async fn open_stream(&self, stream: usize) -> Result<Vec<Box<dyn Session>>> {
        let Plan { contact, ready } = self.plan()?;
        let place = &contact.place;
        let session = connect::connect(&contact.builder, place).await?;
        for statement in &self.options.common.init {
            server::execute(&session, place, statement)
                .await
                .map_err(|error| error.context(format_args!("init {statement:?}")))?;
        }
        let connection = Arc::new(ready.stream(session, place));
        let share = Share::new(&self.spec, stream, ready.work.batches.count());
        let lane = |_| -> Box<dyn Session> {
            let (work, share) = (ready.work.clone(), share.clone());
            let executor = Executor::new(connection.clone());
            Box::new(Calls::new(work, share, executor, self.spec.retries))
        };
        Ok((0..self.spec.in_flight).map(lane).collect())
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let Plan { contact, ready } = self.plan()?;
        let (mut found, note) = self.count(contact).await?;
        found.stored_bytes = server::stored_bytes(&contact.driver, &contact.layout).await;
        let effect = match self.options.write {
            Write::Counter => Effect::Add,
            Write::Insert => Effect::Overwrite,
        };
        let (work, before) = (&ready.work, &ready.before);
        let mut verification = compare(work, effect, before, &found, tallies, self.spec.verify)?;
        let warning = ready.limits.warning().map(|warning| {
            format!(
                "the server warns of such batches ({warning}), which costs it time and lines in its log: raise \
                 the threshold in cassandra.yaml, or that is measured with them"
            )
        });
        let own = verification.note.take();
        let all: Vec<String> = contact
            .notes
            .iter()
            .cloned()
            .chain(note)
            .chain(warning)
            .chain(own)
            .collect();
        verification.note = (!all.is_empty()).then(|| all.join("; "));
        Ok(verification)
    }
}

impl Target for Cassandra {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.make_plan())
    }

    fn planned_rows(&self) -> Option<u64> {
        let rows = self.spec.rows_per_stream?;
        let batch = self.spec.rows_per_batch as u64;
        let whole = rows.div_ceil(batch).checked_mul(batch)?;
        whole.checked_mul(self.spec.streams as u64)
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            let mut sessions = Vec::with_capacity(group.len() * self.spec.in_flight);
            for &stream in group {
                let opened = self.open_stream(stream).await;
                let opened = opened.map_err(|error| error.context(format_args!("stream {stream}")));
                sessions.extend(opened?);
            }
            Ok(sessions)
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.check(tallies))
    }

    fn server_report<'a>(&'a self) -> LocalFuture<'a, Result<Option<ServerReport>>> {
        Box::pin(async { Ok(None) })
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            match &self.plan {
                Some(plan) => self.drop_table(&plan.contact).await,
                None => Ok(()),
            }
        })
    }
}
