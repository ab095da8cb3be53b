//! `cassandra://`: Cassandra and ScyllaDB. Set-up, the cluster's layout and verification are left
//! to the driver of the latter (crate scylla); batches go over connections of our own, as requests
//! that are made before the clock starts.
//! `docs/targets/cassandra.md`.

mod connect;
mod count;
mod dial;
mod errors;
mod execute;
pub mod frame;
mod hello;
mod limits;
mod link;
mod options;
mod reach;
mod read;
mod ready;
mod schema;
mod server;
mod statement;
mod values;
mod waiting;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use scylla::client::session::Session as Driver;
use scylla::cluster::Node;
use scylla::statement::Consistency;

use self::dial::Access;
use self::execute::{Executor, Stream};
use self::limits::Limits;
use self::link::{Link, MOST_NUMBERS};
use self::options::{Options, Write, LONGEST_NAME};
use self::reach::Reached;
use self::read::Readable;
use self::ready::Ready;
use self::schema::Layout;
use self::statement::Shape;
use crate::systems::System;
use crate::upsert::{compare, unread_note, Calls, Effect, Found, Host, Place, Share, Written};
use crate::{each, planned, Applied, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::data::upsert::Batches;
use venturi_base::error::{Error, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::net::wire::Wire;
use venturi_base::spec::{Data, Operation, TrialSpec};

/// The protocol numbers a batch's statements with 16 bits.
const MOST_ROWS: usize = 65_535;

/// A trial at a cluster. `P`: what its plan has found and made.
pub struct Cluster<P> {
    spec: Arc<TrialSpec>,
    place: Place,
    options: Options,
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
            sockets: Arc::default(),
            plan: None,
        })
    }

    fn plan(&self) -> Result<&P> {
        planned(&self.plan, "cassandra")
    }

    /// A stream's connection is looked at, unless the clock runs while it is made.
    fn keep(&self, wire: &Wire) {
        if !self.spec.include_setup {
            self.sockets.keep(wire.socket());
        }
    }

    /// Of the streams' connections, where these are not made while the clock runs.
    fn kept_sockets(&self) -> Option<Arc<Sockets>> {
        (!self.spec.include_setup).then(|| self.sockets.clone())
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
    driver: Driver,
    /// The connections that are timed.
    access: Access,
    /// All of the cluster.
    nodes: Vec<Arc<Node>>,
    layout: Arc<Layout>,
    /// Tokens are numbers.
    murmur: bool,
    /// For error lines.
    place: String,
    notes: Vec<String>,
}

impl Contact {
    /// A stream with a connection to each node that can be reached.
    async fn stream(
        &self,
        lanes: usize,
        shape: &Arc<Shape>,
        limits: &Arc<Limits>,
        opened: &dyn Fn(&Wire),
    ) -> Result<Stream> {
        let mut links = Vec::with_capacity(self.nodes.len());
        let mut first = None;
        for node in &self.nodes {
            let address = SocketAddr::new(node.address.ip(), node.address.port());
            links.push(match self.access.open(address, &self.place).await {
                Ok(wire) => {
                    opened(&wire);
                    Some(Rc::new(Link::new(
                        wire,
                        lanes,
                        self.access.compression,
                        limits.clone(),
                        self.access.timeout,
                    )))
                }
                Err(error) => {
                    first.get_or_insert(error);
                    None
                }
            });
        }
        match links.iter().any(Option::is_some) {
            true => Ok(Stream::new(
                links,
                shape.clone(),
                limits.clone(),
                &self.place,
            )),
            false => Err(first.unwrap_or_else(|| Error::protocol("the cluster has no nodes"))),
        }
    }
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
        if spec.in_flight > MOST_NUMBERS {
            return Err(Error::usage(format!(
                "in_flight = {}: a CQL connection takes {MOST_NUMBERS} requests at a time: take fewer, and more streams",
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
        let place = self.place.address();

        let Reached {
            driver,
            access,
            software,
            identity,
            note,
        } = self.reach().await?;
        match self.options.common.setup && self.spec.leads() {
            true => server::set_up(&driver, &place, &layout, self.options.replication).await?,
            false => server::must_be_there(&driver, &layout).await?,
        }
        let contact = Contact {
            nodes: driver.get_cluster_state().get_nodes_info().to_vec(),
            access,
            driver,
            layout,
            murmur: software.murmur,
            place,
            notes: note.into_iter().collect(),
        };
        let ready = match self.get_ready(&contact, batches).await {
            Ok(ready) => ready,
            Err(error) => {
                // Nobody else will: `clean` knows only what a plan that succeeded has made.
                let _ = self.drop_table(&contact).await;
                return Err(error);
            }
        };
        self.plan = Some(Plan { contact, ready });
        Ok(identity)
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
        if !self.options.common.drops() || !self.spec.leads() {
            return Ok(());
        }
        let drop = format!("DROP TABLE IF EXISTS {}", contact.layout.path());
        server::execute(&contact.driver, &contact.place, &drop).await
    }

    async fn open_stream(&self, stream: usize) -> Result<Vec<Box<dyn Session>>> {
        let Plan { contact, ready } = self.plan()?;
        let keep = |wire: &Wire| self.keep(wire);
        let lanes = self.spec.in_flight;
        let opened = contact.stream(lanes, &ready.shape, &ready.limits, &keep);
        let opened = Rc::new(opened.await?);
        for statement in &self.options.common.init {
            for link in opened.links.iter().flatten() {
                let done = opened.run(link, statement).await;
                done.map_err(|error| error.context(format_args!("init {statement:?}")))?;
            }
        }
        let share = Share::new(&self.spec, stream, ready.work.batches.count());
        let lane = |lane| -> Box<dyn Session> {
            let (work, share) = (ready.work.clone(), share.clone());
            let executor = Executor {
                stream: opened.clone(),
                lane,
            };
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
        let (written, verify) = (Written::of(work)?, self.spec.verify);
        let mut verification = compare(work, &written, effect, before, &found, tallies, verify)?;
        if note.is_some() {
            count::unjudged(&mut verification, Consistency::One);
        }
        verification.add_notes(unread_note(&work.table, verify));
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
                Some(plan) => self.drop_table(&plan.contact).await,
                None => Ok(()),
            }
        })
    }
}
