//! The life of an SQL database as a target: its plan, its streams, what is compared afterwards,
//! and what is cleaned up. A database brings what only it knows.

use std::future::Future;
use std::sync::Arc;

use super::{
    compare, is_own, merged_note, occupied, Builder, Calls, Common, Effect, Executor, Found, Share,
    Work,
};
use crate::{each, Applied, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::codec::sql::{Dialect, Extra};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::TrialSpec;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The plan's: it makes what is missing, where this process may.
    Plan,
    Stream,
    Verify,
    Clean,
}

/// What a database is asked once it is connected to.
pub trait Database: Send + Sync + 'static {
    type Builder: Builder;
    type Link;
    type Executor: Executor<Statement = <Self::Builder as Builder>::Statement>;

    const DIALECT: Dialect;
    /// As people write it.
    const NAME: &'static str;
    /// A statement takes a key once, so rows of a batch that share one are merged beforehand.
    const MERGES: bool = true;
    /// Whether the statements of `init` are run before the table is dropped too.
    const CLEANS_AFTER_INIT: bool = false;

    fn common(&self) -> &Common;
    /// For errors: where it is.
    fn address(&self) -> String;
    /// For errors, behind a table's name: " in" what it is looked for.
    fn within(&self) -> String {
        String::new()
    }
    fn extra(&self) -> Extra<'_> {
        Extra::default()
    }
    fn sockets(&self, _spec: &TrialSpec) -> Option<Arc<Sockets>> {
        None
    }

    fn builder(&self, table: &Table, batches: &Batches) -> Result<Self::Builder>;
    /// `init` is run by whoever asks.
    fn connect(
        &self,
        spec: &TrialSpec,
        purpose: Purpose,
    ) -> impl Future<Output = Result<Self::Link>>;
    fn identify(
        &self,
        spec: &TrialSpec,
        link: &mut Self::Link,
    ) -> impl Future<Output = Result<Identity>>;
    /// Executes statements of text; their rows are dropped.
    fn run(&self, link: &mut Self::Link, sql: &str) -> impl Future<Output = Result<()>>;
    /// The values of an answer's first row, as text.
    fn ask(
        &self,
        link: &mut Self::Link,
        sql: &str,
    ) -> impl Future<Output = Result<Vec<Option<String>>>>;
    /// A question whose answer is 0 where there is no such table.
    fn exists(table: &str) -> String;
    /// What is to be done before the server knows it, and the question for the bytes that a table
    /// takes.
    fn stored_bytes(table: &str) -> (Option<&'static str>, String);
    /// A stream's, `in_flight` of them where the protocol allows it.
    fn executors(
        &self,
        spec: &TrialSpec,
        link: Self::Link,
        work: &Work<Self::Builder>,
    ) -> impl Future<Output = Result<Vec<Self::Executor>>>;
}

pub struct SqlTarget<D: Database> {
    spec: Arc<TrialSpec>,
    table: String,
    database: D,
    planned: Option<Planned<D::Builder>>,
}

struct Planned<B: Builder> {
    work: Arc<Work<B>>,
    before: Found,
    /// Rows that had another one's key in their batch.
    merged: u64,
}

impl<D: Database> SqlTarget<D> {
    pub fn new(spec: Arc<TrialSpec>, database: D) -> Self {
        Self {
            table: database.common().table(&spec.data),
            database,
            spec,
            planned: None,
        }
    }

    fn planned(&self) -> Result<&Planned<D::Builder>> {
        let unplanned = || {
            let scheme = D::DIALECT.name();
            Error::new(Kind::Internal, format!("{scheme}: not planned"))
        };
        self.planned.as_ref().ok_or_else(unplanned)
    }

    async fn connect(&self, purpose: Purpose) -> Result<D::Link> {
        let mut link = self.database.connect(&self.spec, purpose).await?;
        if purpose != Purpose::Clean || D::CLEANS_AFTER_INIT {
            for statement in &self.database.common().init {
                let done = self.database.run(&mut link, statement).await;
                done.map_err(|error| error.context(format_args!("--init {statement:?}")))?;
            }
        }
        Ok(link)
    }

    /// The table as the trial begins with it.
    async fn set_up(&self, link: &mut D::Link, table: &Table, batches: &Batches) -> Result<Found> {
        let exists = D::exists(&self.table);
        let exists = self.numbers(link, &exists).await?.first() > Some(&0);
        if !self.database.common().setup {
            if !exists {
                return Err(Error::usage(format!(
                    "{}: there is no table {}{}, and --no-setup creates none: name an existing \
                     one by --table",
                    self.database.address(),
                    self.table,
                    self.database.within()
                )));
            }
            return self.found(link, table).await;
        }
        if exists && !is_own(&self.table) {
            return Err(occupied(&self.table));
        }
        let create = D::DIALECT.create_table(table, batches, &self.database.extra())?;
        let statements = format!("{}; {create}", self.drop_statement());
        self.database.run(link, &statements).await?;
        Ok(Found::default())
    }

    fn drop_statement(&self) -> String {
        format!("DROP TABLE IF EXISTS {}", D::DIALECT.quoted(&self.table))
    }

    /// Rows and sums of the table.
    async fn found(&self, link: &mut D::Link, table: &Table) -> Result<Found> {
        let select = D::DIALECT.select_found(table);
        let mut numbers = self.numbers(link, &select).await?.into_iter();
        Ok(Found {
            keys: u64::try_from(numbers.next().unwrap_or(0)).unwrap_or(0),
            sums: numbers.collect(),
            stored_bytes: None,
        })
    }

    /// The integers of an answer's first row.
    async fn numbers(&self, link: &mut D::Link, select: &str) -> Result<Vec<i128>> {
        let row = self.database.ask(link, select).await?;
        let number = |text: Option<String>| {
            let text = text.unwrap_or_default();
            // A sum of what is no integer, in a table of somebody else's.
            let strange = || {
                let address = self.database.address();
                let message = format!("{address}: {text:?} is no number: {select}");
                Error::new(Kind::Server, message)
            };
            text.parse().map_err(|_| strange())
        };
        row.into_iter().map(number).collect()
    }

    async fn stored_bytes(&self, link: &mut D::Link) -> Result<Option<u64>> {
        let (before, select) = D::stored_bytes(&self.table);
        if let Some(before) = before {
            self.database.run(link, before).await?;
        }
        let numbers = self.numbers(link, &select).await?;
        Ok(numbers.first().and_then(|bytes| u64::try_from(*bytes).ok()))
    }

    async fn make_plan(&mut self) -> Result<Identity> {
        let (table, mut batches) = Batches::make(&self.spec, &self.table)?;
        let mut merged = 0;
        if D::MERGES {
            (batches, merged) = batches.merged(&table)?;
        }
        let builder = self.database.builder(&table, &batches)?;
        let mut link = self.connect(Purpose::Plan).await?;
        let identity = self.database.identify(&self.spec, &mut link).await?;
        let before = match self.spec.leads() {
            true => self.set_up(&mut link, &table, &batches).await?,
            false => Found::default(),
        };
        self.planned = Some(Planned {
            work: Arc::new(Work::new(&self.spec, table, batches, builder)?),
            before,
            merged,
        });
        Ok(identity)
    }

    async fn open_stream(&self, stream: usize) -> Result<Vec<Box<dyn Session>>> {
        let work = &self.planned()?.work;
        let link = self.connect(Purpose::Stream).await?;
        let executors = self.database.executors(&self.spec, link, work).await?;
        let share = Share::new(&self.spec, stream, work.batches.count());
        let session = |executor| {
            let calls = Calls::new(work.clone(), share.clone(), executor, self.spec.retries);
            Box::new(calls) as Box<dyn Session>
        };
        Ok(executors.into_iter().map(session).collect())
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let planned = self.planned()?;
        let (work, before) = (&*planned.work, &planned.before);
        let mut link = self.connect(Purpose::Verify).await?;
        let mut after = self.found(&mut link, &work.table).await?;
        after.stored_bytes = self.stored_bytes(&mut link).await?;
        let mut made = compare(work, Effect::Add, before, &after, tallies, self.spec.verify)?;
        made.add_notes(merged_note(planned.merged, D::NAME));
        Ok(made)
    }

    async fn drop_table(&self) -> Result<()> {
        if !self.database.common().drops() || self.planned.is_none() {
            return Ok(());
        }
        let mut link = self.connect(Purpose::Clean).await?;
        self.database.run(&mut link, &self.drop_statement()).await
    }
}

/// A name as a string of SQL.
pub fn literal(name: &str) -> String {
    format!("'{}'", name.replace('\'', "''"))
}

impl<D: Database> Target for SqlTarget<D> {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.make_plan())
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| self.open_stream(stream).await))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.check(tallies))
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        self.database.sockets(&self.spec)
    }

    fn batches(&self) -> Option<&dyn Applied> {
        let planned = self.planned.as_ref();
        planned.map(|planned| &*planned.work as &dyn Applied)
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(self.drop_table())
    }
}
