//! The life of an SQL database that is upserted into: its plan, its streams, what is compared
//! afterwards, and what is cleaned up. A database brings what only it knows.

use std::future::Future;
use std::sync::Arc;

use super::{
    compare, is_own, merged_note, occupied, read_back, Builder, Calls, Effect, Executor, Found,
    Share, Work, Written,
};
use crate::database::{ask, connected, exists, numbers, run, Database, Purpose};
use crate::sql::Extra;
use crate::{each, planned, Applied, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Result};
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::TrialSpec;

/// What an upsert asks of a database besides.
pub trait Upserts: Database {
    type Builder: Builder;
    type Executor: Executor<Statement = <Self::Builder as Builder>::Statement>;

    /// A statement takes a key once, so rows of a batch that share one are merged beforehand.
    const MERGES: bool = true;

    /// What makes the server print values with all their digits, in front of a question.
    const BEFORE_READING: &'static str = "";

    /// What makes statements that the server takes. It comes before the table is made.
    fn builder(
        &self,
        link: &mut Self::Link,
        table: &Table,
        batches: &Batches,
    ) -> impl Future<Output = Result<Self::Builder>>;
    /// Makes what tables are made in, where it is missing, and runs the statements of `init` that
    /// waited for it.
    fn make_space(&self, _link: &mut Self::Link) -> impl Future<Output = Result<()>> {
        async { Ok(()) }
    }
    /// There is no table, and `--no-setup` creates none.
    fn absent(&self, table: &str) -> Error {
        Error::usage(format!(
            "{}: there is no table {table}{}, and --no-setup creates none: name an existing one by --table",
            self.address(),
            self.within()
        ))
    }
    fn create_table(&self, table: &Table, batches: &Batches) -> Result<String> {
        Self::DIALECT.create_table(table, batches, &Extra::default())
    }
    /// What is to be done before the server knows it, and the question for the bytes that a table
    /// takes.
    fn stored_bytes(&self, table: &str) -> (Vec<String>, String);
    /// A question whose rows say which keys meet that differ: columns of unique indexes (null: of
    /// all) that take different values for one, and by what.
    fn meet(table: &str) -> String;
    /// Why they meet, by its answer.
    fn meets(
        table: &Table,
        _batches: &Batches,
        rows: &[Vec<Option<String>>],
    ) -> Result<Option<String>> {
        Ok(rows.iter().find_map(|row| meets(table, row)))
    }
    /// What the record shall say besides.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
    /// A stream's, `in_flight` of them where the protocol allows it.
    fn executors(
        &self,
        spec: &TrialSpec,
        link: Self::Link,
        work: &Work<Self::Builder>,
    ) -> impl Future<Output = Result<Vec<Self::Executor>>>;
}

/// Why keys meet that differ, by an answer's row.
fn meets(table: &Table, row: &[Option<String>]) -> Option<String> {
    let [column, by] = row else { return None };
    let by = by.as_deref().unwrap_or("a collation");
    match column {
        Some(column) => (table.key.iter())
            .any(|&at| table.column(at).eq_ignore_ascii_case(column))
            .then(|| format!("the key's column {column} is compared by {by}")),
        None => Some(format!("keys are compared by {by}")),
    }
}

pub struct SqlTarget<D: Upserts> {
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

impl<D: Upserts> SqlTarget<D> {
    pub fn new(spec: Arc<TrialSpec>, database: D) -> Self {
        Self {
            table: database.common().table(&spec.data),
            database,
            spec,
            planned: None,
        }
    }

    fn planned(&self) -> Result<&Planned<D::Builder>> {
        planned(&self.planned, D::DIALECT.name)
    }

    async fn connect(&self, purpose: Purpose) -> Result<D::Link> {
        connected(&self.database, &self.spec, purpose).await
    }

    /// The table as the trial begins with it.
    async fn set_up(&self, link: &mut D::Link, table: &Table, batches: &Batches) -> Result<Found> {
        let setup = self.database.common().setup;
        if setup {
            self.database.make_space(link).await?;
        }
        let exists = exists(&self.database, link, &self.table).await?;
        if !setup {
            if !exists {
                return Err(self.database.absent(&self.table));
            }
            let mut found = self.found(link, table).await?;
            found.meet = match self.database.ask_all(link, &D::meet(&self.table)).await {
                Ok(rows) => D::meets(table, batches, &rows)?,
                Err(error) if error.code.is_some() => {
                    Some("the server does not tell which keys meet".into())
                }
                Err(error) => return Err(error),
            };
            return Ok(found);
        }
        if exists && !is_own(&self.table) {
            return Err(occupied(&self.table));
        }
        let create = self.database.create_table(table, batches)?;
        if exists {
            let drop = D::drop_table(&self.table);
            run(&self.database, link, &drop).await?;
        }
        run(&self.database, link, &create).await?;
        Ok(Found::default())
    }

    /// Rows and sums of the table.
    async fn found(&self, link: &mut D::Link, table: &Table) -> Result<Found> {
        let select = D::DIALECT.select_found(table);
        let mut numbers = numbers(&self.database, link, &select).await?.into_iter();
        Ok(Found {
            keys: u64::try_from(numbers.next().unwrap_or(0)).unwrap_or(0),
            sums: numbers.collect(),
            ..Found::default()
        })
    }

    /// `None`: the server does not tell.
    async fn stored_bytes(&self, link: &mut D::Link) -> Result<Option<u64>> {
        let answered = async {
            let (before, select) = self.database.stored_bytes(&self.table);
            for statement in &before {
                match run(&self.database, link, statement).await {
                    // Refused: what the server knows by itself will do.
                    Err(error) if error.code.is_some() => {}
                    done => done?,
                }
            }
            ask(&self.database, link, &select).await
        };
        match answered.await {
            Ok(row) => Ok(row.into_iter().next().flatten().and_then(|bytes| {
                let bytes = bytes.parse::<f64>().ok()?;
                Some(bytes as u64)
            })),
            Err(error) if error.code.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn make_plan(&mut self) -> Result<Identity> {
        let (table, mut batches) = Batches::make(&self.spec, &self.table)?;
        let mut merged = 0;
        if D::MERGES {
            (batches, merged) = batches.merged(&table)?;
        }
        let mut link = self.connect(Purpose::Plan).await?;
        let identity = self.database.identify(&self.spec, &mut link).await?;
        let builder = self.database.builder(&mut link, &table, &batches).await?;
        // What cannot be sent leaves nothing behind.
        let work = Work::new(&self.spec, table, batches, builder)?;
        let before = match self.spec.leads() {
            true => self.set_up(&mut link, &work.table, &work.batches).await?,
            false => Found::default(),
        };
        self.database.close(link).await;
        self.planned = Some(Planned {
            work: Arc::new(work),
            before,
            merged,
        });
        Ok(identity)
    }

    async fn open_stream(&self, stream: usize) -> Result<Vec<Box<dyn Session>>> {
        let work = &self.planned()?.work;
        let link = self.connect(Purpose::Stream(stream)).await?;
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
        let (written, verify) = (Written::of(work)?, self.spec.verify);
        let mut made = compare(work, &written, Effect::Add, before, &after, tallies, verify)?;
        if before.meet.is_none() {
            let own = self.database.common().setup;
            let ask = async |question: String| {
                let question = format!("{}{question}", D::BEFORE_READING);
                self.database.ask_all(&mut link, &question).await
            };
            read_back(&mut made, work, &written, D::DIALECT, own, ask).await?;
        }
        self.database.close(link).await;
        made.add_notes(self.database.notes());
        made.add_notes(merged_note(planned.merged, D::NAME));
        Ok(made)
    }

    async fn drop_table(&self) -> Result<()> {
        if !self.database.common().drops() || self.planned.is_none() {
            return Ok(());
        }
        let mut link = self.connect(Purpose::Clean).await?;
        let drop = D::drop_table(&self.table);
        run(&self.database, &mut link, &drop).await?;
        self.database.close(link).await;
        Ok(())
    }
}

impl<D: Upserts> Target for SqlTarget<D> {
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
