//! `firebird://`: Firebird 3 and later, by its own protocol. `docs/targets/firebird.md`.

mod auth;
mod connect;
pub mod dialect;
mod errors;
mod get;
mod types;
mod upsert;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::database::{literal, Database, Purpose};
use crate::read::{ReadTarget, Reading};
use crate::sql::Dialect;
use crate::systems::System;
use crate::upsert::{Common, Form, Host, Login, Place, SqlTarget};
use crate::{Identity, Target};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::{Data, Operation, TrialSpec};

use connect::{Link, Op};
use dialect::FIREBIRD;

/// There and back is asked so often, and the quickest kept.
const ROUND_TRIPS: usize = 5;

/// What a server's first user has until somebody changes it.
const USUAL_PASSWORD: &str = "masterkey";

const URL: Form = Form {
    scheme: "firebird",
    port: 3050,
    space: "database",
    usual: "venturi",
    one_host: Some("rows are written and read at one server"),
};

/// Firebird.
pub const SYSTEM: System = System {
    scheme: "firebird",
    operations: &[Operation::Upsert, Operation::Get],
    ports: &[("firebird", URL.port)],
    keeps: true,
    in_flight: false,
    space: Some(URL.usual),
    server: Some("firebird"),
    users: true,
    one_host: URL.one_host,
    aliases: &[("firebird", &["interbase", "fdb"])],
    target: Firebird::target,
    ..System::NOTHING
};

/// See `docs/targets/firebird.md`.
struct Options {
    common: Common,
    login: Login,
    reading: Reading,
}

pub struct Firebird {
    options: Options,
    place: Place,
    /// The process of this host that listens there, where it had to be looked for early.
    listener: Option<u32>,
    /// The streams' connections.
    sockets: Arc<Sockets>,
}

impl Firebird {
    fn target(spec: Arc<TrialSpec>) -> Result<Box<dyn Target>> {
        let mut given = OptionReader::new("firebird", &spec.options);
        let options = Options {
            common: given.take()?,
            login: given.take()?,
            reading: given.rest()?,
        };
        let place = Place::parse(&spec.target, &URL)?;
        options.login.tls(&place)?;
        // Before the clock of a timed set-up has anything to wait for.
        let first = place.hosts.first().filter(|_| spec.include_setup);
        let database = Self {
            listener: first.and_then(Host::listening),
            place,
            options,
            sockets: Arc::default(),
        };
        if spec.operation != Operation::Upsert {
            return Ok(Box::new(ReadTarget::new(spec, database)?));
        }
        if spec.in_flight > 1 {
            return Err(Error::usage(
                "in_flight must be 1 for firebird://: a connection has one transaction at a time; use more --streams",
            ));
        }
        Ok(Box::new(SqlTarget::new(spec, database)))
    }

    fn explained<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.context(self.place.address()))
    }

    async fn dial(&self, spec: &TrialSpec, purpose: Purpose) -> Result<Link> {
        let timeout = Duration::from_nanos(spec.timeout_ns);
        let wire = self.place.host_of(0).dial(Some(timeout), None).await?;
        if let (Purpose::Stream(_), false) = (purpose, spec.include_setup) {
            self.sockets.keep(wire.socket());
        }
        let user = self.options.login.user_or_own(&self.place).ok_or_else(|| {
            Error::usage("no user to log in with: firebird://user@host, or the option user")
        })?;
        let password = self.options.login.password()?;
        let password = password.as_deref().unwrap_or(USUAL_PASSWORD);
        let login = auth::Login::new(&user, password)?;
        let space = &self.place.space;
        let mut link = Link::new(wire, space, &login).await?;
        let makes = purpose == Purpose::Plan
            && self.options.common.setup
            && spec.data != Data::Remote
            && spec.leads();
        match link.attach(space, Op::Attach).await {
            Err(error) if makes && errors::is_unavailable(&error) => {
                // Of the two errors the first says more.
                link.attach(space, Op::Create).await.map_err(|_| error)?;
            }
            attached => attached?,
        }
        Ok(link)
    }
}

impl Database for Firebird {
    type Link = Link;

    const DIALECT: &'static Dialect = FIREBIRD;
    const NAME: &'static str = "Firebird";

    fn common(&self) -> &Common {
        &self.options.common
    }

    fn address(&self) -> String {
        self.place.address()
    }

    fn within(&self) -> String {
        format!(" in {}", self.place.space)
    }

    fn sockets(&self, spec: &TrialSpec) -> Option<Arc<Sockets>> {
        (!spec.include_setup).then(|| self.sockets.clone())
    }

    async fn connect(&self, spec: &TrialSpec, purpose: Purpose) -> Result<Link> {
        self.explained(self.dial(spec, purpose).await)
    }

    async fn close(&self, link: Link) {
        link.detach().await;
    }

    async fn identify(&self, spec: &TrialSpec, link: &mut Link) -> Result<Identity> {
        let mut round_trip = Duration::MAX;
        for _ in 0..ROUND_TRIPS {
            let asked = Instant::now();
            self.explained(link.ping().await)?;
            round_trip = round_trip.min(asked.elapsed());
        }
        let version = "SELECT RDB$GET_CONTEXT('SYSTEM', 'ENGINE_VERSION') FROM RDB$DATABASE";
        let version = self.ask(link, version).await?.into_iter().next().flatten();
        let version =
            version.ok_or_else(|| Error::new(Kind::Server, "it does not tell its version"))?;
        let identity = Identity {
            address: self.place.address(),
            software: Some(format!("Firebird {version}")),
            protocol: "firebird".into(),
            round_trip_ns: Some(round_trip.as_nanos() as u64),
            ..Identity::default()
        };
        let listener = spec.include_setup.then_some(self.listener);
        Ok(identity.connected_by(link.wire.route(), link.wire.neighbour(), listener))
    }

    async fn run(&self, link: &mut Link, sql: &str) -> Result<()> {
        self.explained(link.run(sql).await)
    }

    async fn ask_all(&self, link: &mut Link, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        self.explained(link.ask_all(sql).await)
    }

    fn exists(table: &str) -> String {
        let name = literal(table);
        format!("SELECT COUNT(*) FROM RDB$RELATIONS WHERE RDB$RELATION_NAME = {name}")
    }

    fn drop_table(table: &str) -> String {
        let drop = literal(&format!("DROP TABLE {}", FIREBIRD.quoted(table)));
        let exists = Self::exists(table);
        format!("EXECUTE BLOCK AS BEGIN IF (({exists}) > 0) THEN EXECUTE STATEMENT {drop}; END")
    }
}
