//! `mysql://`: MySQL's protocol: MariaDB, MySQL, TiDB, SingleStore (MemSQL).
//! `docs/targets/mysql.md`.

mod auth;
mod channel;
mod connection;
mod errors;
mod options;
mod parameters;
mod plan;
mod read;
mod server;
mod statement;

use std::sync::Arc;
use std::time::Duration;

use crate::read::ReadTarget;
use crate::systems::System;
use crate::upsert::{
    compare, read_back, Calls, Effect, Executing, Executor, Found, Host, Place, Prepared, Share,
    StatementKind, Waits, Work, Written,
};
use crate::{each, planned, Applied, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::codec::mysql::message_length;
use venturi_base::codec::sql::Dialect;
use venturi_base::error::{Error, Fate, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Operation, TrialSpec};

use connection::Connection;
use errors::Circumstances;
use options::{Access, Options};
use read::Readable;
use server::{quoted, Server};
use statement::{Statement, Statements};

/// How long the kernel waits for an answer before the runtime does: so long a stop or a stalled
/// server may go unnoticed.
const LOOK_UP: Duration = Duration::from_millis(100);

pub struct MySql {
    spec: Arc<TrialSpec>,
    place: Place,
    options: Options,
    access: Access,
    table: String,
    circumstances: Circumstances,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    /// The streams' connections.
    sockets: Arc<Sockets>,
    plan: Option<Plan>,
}

/// What the plan found and made.
struct Plan {
    server: Server,
    work: Arc<Work<Statements>>,
    before: Found,
    /// The table's engine undoes a statement that fails.
    atomic: bool,
    notes: Vec<String>,
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
    target,
    ..System::NOTHING
};

fn target(spec: Arc<TrialSpec>) -> Result<Box<dyn Target>> {
    Ok(match spec.operation {
        Operation::Get => {
            let database = Readable::new(&spec)?;
            Box::new(ReadTarget::new(spec, database)?)
        }
        _ => Box::new(MySql::new(spec)?),
    })
}

impl MySql {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        if spec.operation != Operation::Upsert {
            return Err(Error::usage(
                "mysql:// takes gets and upserts: operation = \"get\" or \"upsert\"",
            ));
        }
        if spec.in_flight > 1 {
            return Err(Error::usage(
                "in_flight must be 1 for mysql://: its protocol answers one statement before it takes the next; use more --streams",
            ));
        }
        let place = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        let access = options.access(&place, Duration::from_nanos(spec.timeout_ns))?;
        let table = options.common.table(&spec.data);
        let circumstances = Circumstances {
            place: place.address(),
            user: access.user.clone(),
            database: place.space.clone(),
            table: table.clone(),
            password_env: options.login.password_env.clone(),
            streams: spec.streams,
            reads: false,
        };
        // The plan is a part of what is measured; going through all processes shall not be.
        let first = place.hosts.first().filter(|_| spec.include_setup);
        let listening = first.and_then(Host::listening);
        Ok(Self {
            spec,
            place,
            options,
            access,
            table,
            circumstances,
            listening,
            sockets: Arc::default(),
            plan: None,
        })
    }

    fn planned(&self) -> Result<&Plan> {
        planned(&self.plan, SYSTEM.scheme)
    }

    /// What is known where something went wrong at one host.
    fn circumstances_at(&self, stream: usize) -> Circumstances {
        Circumstances {
            place: self.place.host_of(stream).authority(),
            ..self.circumstances.clone()
        }
    }

    /// A connection for stream's host, told what every connection is told.
    async fn connect(&self, stream: usize, server: &Server) -> Result<Connection> {
        let host = self.place.host_of(stream);
        let database = Some(self.place.space.as_str());
        let mut connection = Connection::open(host, &self.access, database).await?;
        self.begin(&mut connection, server).await?;
        Ok(connection)
    }

    /// Says what every connection is told first, and then the user's own statements.
    async fn begin(&self, connection: &mut Connection, server: &Server) -> Result<()> {
        for sql in server.session() {
            connection.run(sql).await?;
        }
        for sql in &self.options.common.init {
            let run = connection.run(sql).await;
            run.map_err(|error| error.context(format!("init {sql:?}")))?;
        }
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

    async fn open_stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let plan = self.planned()?;
        let mut connection = self.connect(stream, &plan.server).await?;
        if !self.spec.include_setup {
            self.sockets.keep(connection.socket());
        }
        if self.options.statement == StatementKind::Prepared {
            for rows in plan::batch_lengths(&plan.work)? {
                connection
                    .prepare(rows, &plan::prepared_text(&plan.work.table, rows))
                    .await?;
            }
        }
        // Every stream has a thread of its own.
        if self.spec.own().len() <= self.spec.threads {
            connection.alone(LOOK_UP.min(Duration::from_nanos(self.spec.timeout_ns) / 4));
        }
        let lane = Lane(Box::new(State {
            connection,
            atomic: plan.atomic,
            circumstances: self.circumstances_at(stream),
        }));
        let work = plan.work.clone();
        let share = Share::new(&self.spec, stream, work.batches.count());
        Ok(Box::new(Calls::new(work, share, lane, self.spec.retries)))
    }

    async fn compare(&self, tallies: &[Tally]) -> Result<Verification> {
        let plan = self.planned()?;
        let (work, before, verify) = (&*plan.work, &plan.before, self.spec.verify);
        let written = Written::of(work)?;
        let mut connection = self.connect(0, &plan.server).await?;
        let mut after = plan::found(&mut connection, &work.table).await?;
        after.stored_bytes = self.stored_bytes(&mut connection, &plan.server).await;
        let mut made = compare(work, &written, Effect::Add, before, &after, tallies, verify)?;
        if before.meet.is_none() {
            let own = self.options.common.setup;
            let ask = async |question: String| connection.query(&question).await;
            read_back(&mut made, work, &written, Dialect::MySql, own, ask).await?;
        }
        connection.quit().await;
        made.add_notes(plan.notes.iter().cloned());
        Ok(made)
    }
}

impl Target for MySql {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            let made = self.make_plan().await;
            let (identity, plan) = made.map_err(|error| self.circumstances_at(0).explain(error))?;
            self.plan = Some(plan);
            Ok(identity)
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| {
            let session = self.open_stream(stream).await;
            Ok([session.map_err(|error| self.circumstances_at(stream).explain(error))?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(async move {
            let compared = self.compare(tallies).await;
            compared.map_err(|error| self.circumstances_at(0).explain(error))
        })
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        (!self.spec.include_setup).then(|| self.sockets.clone())
    }

    fn batches(&self) -> Option<&dyn Applied> {
        self.plan.as_ref().map(|plan| &*plan.work as &dyn Applied)
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(plan) = &self.plan else {
                return Ok(());
            };
            if !self.options.common.drops() {
                return Ok(());
            }
            let work = async {
                let mut connection = self.connect(0, &plan.server).await?;
                let drop = format!("DROP TABLE IF EXISTS {}", quoted(&self.table));
                connection.run(&drop).await?;
                connection.quit().await;
                Ok(())
            };
            work.await
                .map_err(|error| self.circumstances_at(0).explain(error))
        })
    }
}

/// One stream's connection, moved from call to call.
struct Lane(Box<State>);

struct State {
    connection: Connection,
    atomic: bool,
    circumstances: Circumstances,
}

impl Executor for Lane {
    type Statement = Statement;

    const WORK: Stage = Stage::Send;

    fn execute(mut self, call: Arc<Prepared<Statement>>) -> Executing<Self> {
        Box::pin(async move {
            let done = self.0.connection.upsert(&call.statement).await;
            let done = done.map_err(|error| self.0.explain(error, &call));
            (self, done)
        })
    }

    fn waits(&self) -> Option<Waits> {
        Some(self.0.connection.waits())
    }
}

impl State {
    fn explain(&self, error: Error, call: &Prepared<Statement>) -> Error {
        let code = error.code.as_ref().and_then(|code| code.parse().ok());
        let fate = match code {
            Some(code) => errors::fate(code, self.atomic, call.rows),
            None => Fate::Fatal,
        };
        let (rows, bytes) = (call.rows, message_length(&call.statement.packets));
        let batch = format!("a batch of {rows} rows ({bytes} bytes)");
        self.circumstances
            .explain(error.context(batch))
            .with_fate(fate)
    }
}
