//! `cassandra://`: Cassandra and ScyllaDB, by the driver of the latter (crate scylla).
//! `docs/targets/cassandra.md`.

mod connect;
mod dialect;
mod errors;
mod get;
mod options;
mod types;
mod upsert;
mod verify;

#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use scylla::client::session::Session as Driver;
use scylla::statement::Consistency;

use self::connect::{execute, Reached};
use self::dialect::Layout;
use self::get::Readable;
use self::options::{Options, Write, LONGEST_NAME};
use self::upsert::{Executor, Ready, Stream};
use crate::systems::System;
use crate::upsert::{compare, unread_note, Calls, Effect, Found, Host, Place, Share, Written};
use crate::{each, planned, Applied, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::data::upsert::Batches;
use venturi_base::error::{Error, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec};

/// The protocol numbers a batch's statements with 16 bits.
const MOST_ROWS: usize = 65_535;
/// The protocol numbers requests with 15 bits.
const MOST_REQUESTS: usize = 1 << 15;

/// A trial at a cluster. `P`: what its plan has found and made.
pub struct Cluster<P> {
    spec: Arc<TrialSpec>,
    place: Place,
    options: Options,
    tls: OnceLock<Option<Arc<ClientConfig>>>,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    /// The streams' connections.
    sockets: Arc<Sockets>,
    plan: Option<P>,
}

impl<P> Cluster<P> {
    /// Its own options have been checked.
    fn of(spec: Arc<TrialSpec>, place: Place, options: Options) -> Result<Self> {
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
            tls: OnceLock::new(),
            sockets: Arc::default(),
            plan: None,
        })
    }

    fn plan(&self) -> Result<&P> {
        planned(&self.plan, "cassandra")
    }

    /// Of the streams' connections, where these are not made while the clock runs.
    fn kept_sockets(&self) -> Option<Arc<Sockets>> {
        (!self.spec.include_setup).then(|| self.sockets.clone())
    }

    /// The user's own statements.
    async fn run_init(&self, driver: &Driver) -> Result<()> {
        let place = self.place.address();
        for statement in &self.options.common.init {
            let done = execute(driver, &place, statement).await;
            done.map_err(|error| error.context(format_args!("init {statement:?}")))?;
        }
        Ok(())
    }

    async fn drop_table(&self, driver: &Driver, layout: &Layout) -> Result<()> {
        let drop = format!("DROP TABLE IF EXISTS {}", layout.path());
        execute(driver, &self.place.address(), &drop).await
    }
}

/// Upserts into it.
pub type Cassandra = Cluster<Plan>;

pub struct Plan {
    contact: Contact,
    ready: Ready,
}

/// How the server is reached, and where the table is.
struct Contact {
    /// For what is not timed: set-up, verification, cleaning up.
    driver: Arc<Driver>,
    layout: Arc<Layout>,
    /// Tokens are numbers.
    murmur: bool,
    /// For error lines.
    place: String,
    note: Option<String>,
}

/// Cassandra, ScyllaDB.
pub const SYSTEM: System = System {
    scheme: "cassandra",
    operations: &[Operation::Upsert, Operation::Get],
    ports: &[("cassandra", options::URL.port)],
    tls: true,
    keeps: true,
    synced: false,
    statement: Some("prepared"),
    space: Some(options::URL.usual),
    server: Some("cassandra"),
    users: true,
    one_host: options::URL.one_host,
    aliases: &[("cassandra", &["scylla", "scylladb", "cql"])],
    target: |spec| {
        Ok(match spec.operation {
            Operation::Upsert => Box::new(Cassandra::new(spec)?),
            _ => Box::new(Readable::new(spec)?),
        })
    },
    ..System::NOTHING
};

impl Cassandra {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let place = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
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
        if spec.in_flight > MOST_REQUESTS {
            return Err(Error::usage(format!(
                "in_flight = {}: a CQL connection takes {MOST_REQUESTS} requests at a time: take fewer, and more streams",
                spec.in_flight
            )));
        }
        Self::of(spec, place, options)
    }

    /// Cut where a file's long name gives it, of which all is ASCII; what the user named has been
    /// checked with the options.
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
        let Reached {
            driver,
            murmur,
            identity,
            note,
        } = self.reach().await?;
        let place = self.place.address();
        match self.options.common.setup && self.spec.leads() {
            true => dialect::set_up(&driver, &place, &layout, self.options.replication).await?,
            false => dialect::require_table(&driver, &layout).await?,
        }
        let contact = Contact {
            driver: Arc::new(driver),
            layout,
            murmur,
            place,
            note,
        };
        match self.get_ready(&contact, batches).await {
            Ok(ready) => {
                self.plan = Some(Plan { contact, ready });
                Ok(identity)
            }
            Err(error) => {
                // Nobody else will: `clean` knows only what a plan that succeeded has made.
                let _ = self.clean_up(&contact).await;
                Err(error)
            }
        }
    }

    async fn count(&self, contact: &Contact) -> Result<(Found, Option<String>)> {
        let (driver, layout) = (&contact.driver, &contact.layout);
        verify::count(driver, &contact.place, layout, contact.murmur).await
    }

    async fn clean_up(&self, contact: &Contact) -> Result<()> {
        match self.options.common.drops() && self.spec.leads() {
            true => self.drop_table(&contact.driver, &contact.layout).await,
            false => Ok(()),
        }
    }

    async fn open_stream(&self, stream: usize) -> Result<Vec<Box<dyn Session>>> {
        let Plan { contact, ready } = self.plan()?;
        let driver = self.session(Some(stream)).await?;
        self.run_init(&driver).await?;
        let opened = Rc::new(Stream::new(driver.into(), ready, &contact.place));
        let share = Share::new(&self.spec, stream, ready.work.batches.count());
        let lane = |_| -> Box<dyn Session> {
            let (work, share) = (ready.work.clone(), share.clone());
            let executor = Executor(opened.clone());
            Box::new(Calls::new(work, share, executor, self.spec.retries))
        };
        Ok((0..self.spec.in_flight).map(lane).collect())
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let Plan { contact, ready } = self.plan()?;
        let (mut found, note) = self.count(contact).await?;
        found.stored_bytes = verify::stored_bytes(&contact.driver, &contact.layout).await;
        let effect = match self.options.write {
            Write::Counter => Effect::Add,
            Write::Insert => Effect::Overwrite,
        };
        let (work, before) = (&ready.work, &ready.before);
        let (written, verify) = (Written::of(work)?, self.spec.verify);
        let mut verification = compare(work, &written, effect, before, &found, tallies, verify)?;
        if note.is_some() {
            verify::unjudged(&mut verification, Consistency::One);
        }
        verification.add_notes(unread_note(&work.table, verify));
        let warning = ready.limits.warning().map(|warning| {
            format!(
                "the server warns of such batches ({warning}), which costs it time and lines in its log: raise \
                 the threshold in cassandra.yaml, or that is measured with them"
            )
        });
        let notes = contact.note.clone().into_iter().chain(note).chain(warning);
        verification.add_notes(notes);
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
        Box::pin(each(group, async |stream| self.open_stream(stream).await))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.check(tallies))
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        self.kept_sockets()
    }

    fn batches(&self) -> Option<&dyn Applied> {
        self.plan
            .as_ref()
            .map(|plan| &*plan.ready.work as &dyn Applied)
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            match &self.plan {
                Some(plan) => self.clean_up(&plan.contact).await,
                None => Ok(()),
            }
        })
    }
}
