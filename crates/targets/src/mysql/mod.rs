//! `mysql://`: MySQL's protocol: MariaDB, MySQL, TiDB, SingleStore (MemSQL).
//! `docs/targets/mysql.md`.

mod auth;
mod channel;
mod connect;
pub mod dialect;
mod errors;
mod get;
mod options;
mod parameters;
mod server;
mod statement;
mod upsert;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::database::{Database, Purpose};
use crate::read::ReadTarget;
use crate::sql::Dialect;
use crate::systems::System;
use crate::upsert::{Common, Host, Place, SqlTarget, StatementKind};
use crate::{Identity, Target};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec};

use connect::{Connection, Row};
use dialect::MYSQL;
use errors::Circumstances;
use options::{Access, Options};
use server::{literal, Family, Server};

/// Clocks may differ by so much, in seconds, before it is worth a word.
const SKEW: f64 = 1.0;

pub struct MySql {
    place: Place,
    options: Options,
    access: Access,
    circumstances: Circumstances,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    /// The streams' connections.
    sockets: Arc<Sockets>,
    /// As the plan's connection found it.
    server: OnceLock<Server>,
    /// The table's engine undoes a statement that fails.
    atomic: OnceLock<bool>,
    notes: Mutex<Vec<String>>,
}

/// MySQL, MariaDB, SingleStore, TiDB.
pub const SYSTEM: System = System {
    scheme: "mysql",
    operations: &[Operation::Upsert, Operation::Get],
    ports: &[("mysql", options::URL.port)],
    tls: true,
    unix: true,
    keeps: true,
    in_flight: false,
    statement: Some("text"),
    space: Some(options::URL.usual),
    server: Some("mariadb"),
    users: true,
    one_host: options::URL.one_host,
    aliases: &[("mysql", &["mariadb", "memsql", "singlestore", "tidb"])],
    target: MySql::target,
    dialect: Some(MYSQL),
    ..System::NOTHING
};

impl MySql {
    pub fn target(spec: Arc<TrialSpec>) -> Result<Box<dyn Target>> {
        let database = Self::new(&spec)?;
        if spec.operation != Operation::Upsert {
            return Ok(Box::new(ReadTarget::new(spec, database)?));
        }
        if spec.in_flight > 1 {
            return Err(Error::usage(
                "in_flight must be 1 for mysql://: its protocol answers one statement before it takes the next; use more --streams",
            ));
        }
        Ok(Box::new(SqlTarget::new(spec, database)))
    }

    fn new(spec: &TrialSpec) -> Result<Self> {
        let place = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        let access = options.access(&place, Duration::from_nanos(spec.timeout_ns))?;
        let table = match spec.operation {
            Operation::Upsert => options.common.table(&spec.data),
            _ => options.common.table.clone().unwrap_or_default(),
        };
        // The plan is a part of what is measured; going through all processes shall not be.
        let first = place.hosts.first().filter(|_| spec.include_setup);
        Ok(Self {
            circumstances: Circumstances {
                place: place.address(),
                user: access.user.clone(),
                database: place.space.clone(),
                table,
                password_env: options.login.password_env.clone(),
                streams: spec.streams,
                reads: spec.data == Data::Remote,
            },
            listening: first.and_then(Host::listening),
            place,
            options,
            access,
            sockets: Arc::default(),
            server: OnceLock::new(),
            atomic: OnceLock::new(),
            notes: Mutex::default(),
        })
    }

    /// What is known where something went wrong at one host.
    fn circumstances_at(&self, host: &str) -> Circumstances {
        Circumstances {
            place: host.to_owned(),
            ..self.circumstances.clone()
        }
    }

    fn explained<T>(&self, connection: &Connection, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| self.circumstances_at(connection.host()).explain(error))
    }

    fn server(&self) -> Result<&Server> {
        let unplanned = || Error::new(Kind::Internal, "mysql: not planned");
        self.server.get().ok_or_else(unplanned)
    }

    async fn open(&self, spec: &TrialSpec, purpose: Purpose, host: &Host) -> Result<Connection> {
        let plans = purpose == Purpose::Plan;
        let ours = spec.data != Data::Remote && spec.leads() && self.options.common.setup;
        // The plan's is without the database, which may have to be made.
        let makes = plans && ours;
        let space = self.place.space.as_str();
        let database = (!makes).then_some(space);
        let mut connection = Connection::open(host, &self.access, database).await?;
        if plans {
            let server = identify(&mut connection).await?;
            let server = self.server.get_or_init(|| server);
            if makes && self.has_database(&mut connection).await? {
                connection.use_database(space).await?;
            } else if makes && spec.operation != Operation::Upsert {
                self.make_database(&mut connection, server).await?;
            }
        }
        let told = match spec.operation {
            Operation::Upsert => self.server()?.session(),
            // What a timestamp is written as goes by it; a query means what it means there.
            _ => &["SET time_zone = '+00:00'"],
        };
        for sql in told {
            connection.run(sql).await?;
        }
        if matches!(purpose, Purpose::Stream(_)) && !spec.include_setup {
            self.sockets.keep(connection.socket());
        }
        Ok(connection)
    }

    async fn has_database(&self, connection: &mut Connection) -> Result<bool> {
        let known = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ";
        let known = format!("{known}{}", literal(&self.place.space));
        Ok(connection.value(&known).await?.is_some())
    }

    async fn make_database(&self, connection: &mut Connection, server: &Server) -> Result<()> {
        let space = &self.place.space;
        let create = server.create_database(space, &self.options);
        connection.run(&create).await?;
        connection.use_database(space).await
    }

    async fn change_settings(&self, connection: &mut Connection, server: &Server) -> Result<()> {
        for sql in server.settings() {
            if let Err(error) = connection.run(sql).await {
                if error.code.is_none() {
                    return Err(error);
                }
                let refused = format!("{sql} was refused ({})", error.message);
                self.notes.lock().push(refused);
            }
        }
        Ok(())
    }

    /// In some mode the server reads other text than Venturi writes.
    async fn check_mode(&self, connection: &mut Connection) -> Result<()> {
        if self.options.common.init.is_empty() {
            return Ok(());
        }
        // A server that has no such setting reads as MySQL does by default.
        let mode = connection.value("SELECT @@sql_mode").await;
        match mode.ok().flatten() {
            Some(mode) if mode.contains("NO_BACKSLASH_ESCAPES") => Err(Error::usage(
                "--init sets the sql_mode NO_BACKSLASH_ESCAPES, in which the server reads other text than \
                 Venturi writes: leave it out of --init",
            )),
            _ => Ok(()),
        }
    }

    async fn describe(&self, spec: &TrialSpec, connection: &mut Connection) -> Result<Identity> {
        if spec.data != Data::Remote {
            self.check_mode(connection).await?;
        }
        let server = self.server()?;
        if spec.operation == Operation::Upsert {
            let before = unix_s();
            let theirs = connection.value("SELECT UNIX_TIMESTAMP(NOW(6))").await?;
            let after = unix_s();
            let theirs = theirs.and_then(|text| text.parse::<f64>().ok());
            let skew = theirs.and_then(|theirs| skew(theirs, before, after));
            let mut notes = self.notes.lock();
            notes.extend(server.unused(&self.options).into_iter().chain(skew));
        }
        let round_trip = match spec.include_setup {
            true => None,
            false => Some(connection.round_trip().await?.as_nanos() as u64),
        };
        let listening = spec.include_setup.then_some(self.listening);
        let identity = Identity {
            address: self.place.address(),
            servers: self.place.hosts.len(),
            software: Some(server.software.clone()),
            protocol: match self.options.statement {
                StatementKind::Text => "mysql text",
                StatementKind::Prepared => "mysql prepared",
            }
            .into(),
            round_trip_ns: round_trip,
            ..Identity::default()
        };
        Ok(identity.connected_by(connection.route(), connection.neighbour(), listening))
    }
}

impl Database for MySql {
    type Link = Connection;

    const DIALECT: &'static Dialect = MYSQL;
    const NAME: &'static str = "MySQL";
    const CLEANS_AFTER_INIT: bool = true;

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

    async fn connect(&self, spec: &TrialSpec, purpose: Purpose) -> Result<Connection> {
        let host = self.place.host_of(match purpose {
            Purpose::Stream(stream) => stream,
            _ => 0,
        });
        let opened = self.open(spec, purpose, host).await;
        opened.map_err(|error| self.circumstances_at(&host.authority()).explain(error))
    }

    fn has_space(&self, connection: &Connection) -> bool {
        connection.has_database
    }

    async fn close(&self, connection: Connection) {
        connection.quit().await;
    }

    async fn identify(&self, spec: &TrialSpec, connection: &mut Connection) -> Result<Identity> {
        let identity = self.describe(spec, connection).await;
        self.explained(connection, identity)
    }

    async fn run(&self, connection: &mut Connection, sql: &str) -> Result<()> {
        let done = connection.run(sql).await;
        self.explained(connection, done)
    }

    async fn ask_all(&self, connection: &mut Connection, sql: &str) -> Result<Vec<Row>> {
        let rows = connection.query(sql).await;
        self.explained(connection, rows)
    }

    fn exists(table: &str) -> String {
        format!(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {}",
            literal(table)
        )
    }
}

/// Which server it is.
async fn identify(connection: &mut Connection) -> Result<Server> {
    let select = "SELECT @@version, @@version_comment";
    let row = connection.query(select).await?.into_iter().next();
    let mut values = row.unwrap_or_default().into_iter();
    let mut text = || values.next().flatten().unwrap_or_default();
    let mut server = Server::identify(&text(), &text());
    if server.family == Family::SingleStore {
        if let Ok(Some(own)) = connection.value("SELECT @@memsql_version").await {
            server.software = format!("{} {own}", server.software);
        }
    }
    Ok(server)
}

fn unix_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// How far the server's clock is off, in words. It was read between `before` and `after`.
fn skew(theirs: f64, before: f64, after: f64) -> Option<String> {
    let (ahead, behind) = (theirs - after, before - theirs);
    let off = ahead.max(behind);
    (off > SKEW).then(|| {
        let way = if ahead > behind { "ahead of" } else { "behind" };
        format!(
            "the server's clock is {off:.1} s {way} this host's: what it stamps by itself (logs, NOW()) is off by as much; \
             Venturi's figures are taken by this host's clock alone"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ() {
        assert_eq!(skew(100.5, 100.0, 101.0), None);
        assert_eq!(skew(101.9, 100.0, 101.0), None);
        let ahead = skew(3700.0, 100.0, 100.1).unwrap();
        assert!(
            ahead.starts_with("the server's clock is 3599.9 s ahead of"),
            "{ahead}"
        );
        let behind = skew(90.0, 100.0, 130.0).unwrap();
        assert!(behind.contains("10.0 s behind"), "{behind}");
    }
}
