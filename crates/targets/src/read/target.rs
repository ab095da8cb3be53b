//! The life of an SQL database that is read from: what is asked, of which streams, and what must have come.

use std::future::Future;
use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::columns::{digest_of, distinct, same_types, schema, Column};
use super::session::Checks;
use super::{
    by_hash, compare, Baseline, Partition, Reading, Rows, Split, Subject, Summed, OWN_TABLE,
};
use crate::database::{ask, connected, exists, run, Database, Purpose};
use crate::upsert::{is_own, occupied};
use crate::{each, planned, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::data::upsert::Table;
use venturi_base::data::{Cursor, Source};
use venturi_base::error::{Error, Result};
use venturi_base::limit;
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

/// What one stream asks.
#[derive(Debug, Clone)]
pub struct Question {
    pub statement: String,
    /// Of its columns, in the statement's order.
    pub schema: SchemaRef,
    pub rows_per_batch: usize,
    /// Bytes of a batch at most.
    pub limit: usize,
}

/// What a get asks of a database besides.
pub trait Reads: Database {
    type Rows: Rows;

    /// How a query's rows are called in a statement around it, where that needs a name.
    const ALIAS: &'static str = "AS venturi_rows";
    /// How the streams share a table of our own where nothing is said.
    const SPLIT: Split = Split::Parts;

    fn reading(&self) -> &Reading;
    /// In what form rows come, for the record: a protocol's name.
    fn protocol(&self) -> String;
    /// The columns that a SELECT gives, each with the type of Arrow's that it becomes.
    fn columns(
        &self,
        link: &mut Self::Link,
        select: &str,
    ) -> impl Future<Output = Result<Vec<Column>>>;
    /// Begins what sees one state of all rows, and gives the statement by which another connection sees the
    /// same, as long as this one is held; `None`: there is no such thing.
    fn snapshot(&self, _link: &mut Self::Link) -> impl Future<Output = Result<Option<String>>> {
        async { Ok(None) }
    }
    /// Keeps the plan's connection until all rows have come, and lets it go.
    fn hold(&self, _link: Self::Link) {}
    fn release(&self) {}
    /// Whether what was written into a column comes back bit for bit.
    fn is_exact(&self, _column: &Column) -> bool {
        true
    }
    /// Conditions by the parts in which a table is stored; `None`: nothing for that stream.
    fn parts(
        &self,
        link: &mut Self::Link,
        table: &str,
        streams: usize,
    ) -> impl Future<Output = Result<Vec<Option<String>>>>;
    /// Writes all rows into an empty table.
    fn fill(
        &self,
        link: &mut Self::Link,
        table: &Table,
        rows: Cursor,
    ) -> impl Future<Output = Result<()>>;
    /// A stream's rows; its statement is ready to be sent.
    fn rows(
        &self,
        spec: &TrialSpec,
        link: Self::Link,
        question: Question,
    ) -> impl Future<Output = Result<Self::Rows>>;
}

pub struct ReadTarget<D: Reads> {
    spec: Arc<TrialSpec>,
    database: D,
    plan: Option<Plan>,
    /// Our table is there.
    made: bool,
}

struct Plan {
    schema: SchemaRef,
    /// By stream; `None`: there is nothing for it.
    statements: Vec<Option<String>>,
    /// What each connection is told first.
    snapshot: Option<String>,
    summed: Arc<Summed>,
    /// Rows are digested one by one.
    digest: bool,
    there: Option<Baseline>,
}

impl<D: Reads> ReadTarget<D> {
    pub fn new(spec: Arc<TrialSpec>, database: D) -> Result<Self> {
        let scheme = D::DIALECT.name;
        let here = |error: Error| error.context(format_args!("{scheme}://"));
        if spec.operation != Operation::Get {
            return Err(here(Error::usage("operations are get and upsert")));
        }
        let reading = database.reading();
        let table = database.common().table.as_deref();
        reading.check_names(table).map_err(here)?;
        reading.check_get(&spec, table).map_err(here)?;
        Ok(Self {
            spec,
            database,
            plan: None,
            made: false,
        })
    }

    fn planned(&self) -> Result<&Plan> {
        planned(&self.plan, D::DIALECT.name)
    }

    fn is_ours(&self) -> bool {
        self.spec.data != Data::Remote
    }

    fn table(&self) -> String {
        let named = self.database.common().table.clone();
        named.unwrap_or_else(|| OWN_TABLE.into())
    }

    fn subject(&self) -> Subject {
        match &self.database.reading().query {
            Some(query) => Subject::Query(query.clone()),
            None => Subject::Table(D::DIALECT.quoted(&self.table())),
        }
    }

    /// How often the rows are read in all.
    fn times(&self) -> u64 {
        self.database.reading().times(self.spec.streams)
    }

    async fn make_plan(&mut self) -> Result<Identity> {
        let mut link = connected(&self.database, &self.spec, Purpose::Plan).await?;
        let mut identity = self.database.identify(&self.spec, &mut link).await?;
        identity.protocol = self.database.protocol();
        let source = match self.is_ours() {
            true => Some(Source::make(&self.spec.data, self.spec.rows_per_batch)?),
            false => None,
        };
        if let Some(source) = source.as_ref().filter(|_| self.spec.leads()) {
            self.load(&mut link, source).await?;
        }
        // Other processes of the trial do not hear of it.
        let snapshot = match self.spec.share {
            None => self.database.snapshot(&mut link).await?,
            Some(_) => None,
        };
        let subject = self.subject();
        let from = subject.from(D::ALIAS);
        let all = format!("SELECT * FROM {from}");
        let columns = self.database.columns(&mut link, &all).await?;
        distinct(&columns)?;
        let sums = columns
            .iter()
            .map(|column| (column.name.clone(), D::DIALECT.sum(column)));
        let summed = Summed::new(sums.filter(|_| self.spec.verify == Verify::Checksum));
        let there = match self.spec.leads() && self.spec.verify != Verify::None {
            true => Some(self.count(&mut link, &from, &summed).await?),
            false => None,
        };
        let schema = schema(&columns);
        // Rows of ours are known one by one, where they come back in the types that they went in.
        let known = source.filter(|source| {
            let checked = self.spec.verify == Verify::Checksum;
            let exact = columns.iter().all(|column| self.database.is_exact(column));
            checked && exact && same_types(&source.schema(), &schema)
        });
        let digest = known.is_some();
        let there = match (there, known) {
            (Some(there), Some(source)) => Some(Baseline {
                checksum: digest_of(source.cursor(self.spec.planned_rows()))?,
                ..there
            }),
            (there, _) => there,
        };
        let conditions = self.conditions(&mut link, &from, &columns).await?;
        let statement = |condition: Option<String>| {
            condition.map(|condition| match condition.as_str() {
                "" => all.clone(),
                condition => format!("{all} WHERE {condition}"),
            })
        };
        let statements = conditions.into_iter().map(statement).collect();
        self.plan = Some(Plan {
            schema,
            statements,
            snapshot,
            summed: summed.into(),
            digest,
            there,
        });
        self.database.hold(link);
        Ok(identity)
    }

    /// Writes our own data into a table.
    async fn load(&mut self, link: &mut D::Link, source: &Source) -> Result<()> {
        let name = self.table();
        if exists(&self.database, link, &name).await? && !is_own(&name) {
            return Err(occupied(&name));
        }
        let rows = self.spec.planned_rows();
        let rows =
            rows.ok_or_else(|| Error::usage("too many rows: more than 64 bits can count"))?;
        let table = Table {
            name,
            schema: source.schema(),
            key: Vec::new(),
            add: Vec::new(),
        };
        let create = D::DIALECT.create_plain(&table)?;
        let drop = D::drop_table(&table.name);
        run(&self.database, link, &drop).await?;
        self.made = true;
        run(&self.database, link, &create).await?;
        let rows = source.cursor(Some(rows));
        let filling = self.database.fill(link, &table, rows);
        limit::patient(
            format!("{}: writing the rows", self.database.address()),
            filling,
        )
        .await
    }

    /// What the database itself says of all rows.
    async fn count(&self, link: &mut D::Link, from: &str, summed: &Summed) -> Result<Baseline> {
        let question = format!("SELECT {} FROM {from}", summed.selected());
        let row = ask(&self.database, link, &question).await?;
        summed.read_baseline(&row, &self.database.address(), &question)
    }

    /// What each stream reads; `None`: nothing; empty: all.
    async fn conditions(
        &self,
        link: &mut D::Link,
        from: &str,
        columns: &[Column],
    ) -> Result<Vec<Option<String>>> {
        let streams = self.spec.streams;
        let reading = self.database.reading();
        let by_column = match reading.split_by {
            Some(_) => Split::Hash,
            None => D::SPLIT,
        };
        let split = reading.split.unwrap_or(by_column);
        if streams == 1 || split == Split::None {
            return Ok(vec![Some(String::new()); streams]);
        }
        let column = || reading.column(columns, |column| &column.name);
        match split {
            Split::None => Ok(Vec::new()),
            Split::Parts => self.database.parts(link, &self.table(), streams).await,
            Split::Hash => Ok(by_hash(&D::DIALECT.hash(column()?, streams), streams)),
            Split::Key => {
                let column = column()?;
                let question = D::DIALECT.select_ends(column, from)?;
                let row = ask(&self.database, link, &question).await?;
                Ok(D::DIALECT.by_ends(column, &row, streams))
            }
        }
    }

    async fn open_stream(&self, stream: usize) -> Result<Box<dyn Session>> {
        let plan = self.planned()?;
        let checks = Checks {
            summed: (!plan.summed.columns.is_empty()).then(|| plan.summed.clone()),
            digest: plan.digest,
        };
        let address = self.database.address().into();
        let Some(statement) = plan.statements.get(stream).cloned().flatten() else {
            let nothing: Option<D::Rows> = None;
            return Ok(Box::new(Partition::new(nothing, checks, address)));
        };
        let mut link = connected(&self.database, &self.spec, Purpose::Stream(stream)).await?;
        if let Some(snapshot) = &plan.snapshot {
            run(&self.database, &mut link, snapshot).await?;
        }
        let question = Question {
            statement,
            schema: plan.schema.clone(),
            rows_per_batch: self.spec.rows_per_batch,
            limit: self.database.reading().max_block_bytes,
        };
        let rows = self.database.rows(&self.spec, link, question).await?;
        Ok(Box::new(Partition::new(Some(rows), checks, address)))
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let plan = self.planned()?;
        let there = plan.there.as_ref();
        Ok(compare(
            &self.spec,
            &plan.summed,
            there,
            self.times(),
            tallies,
        ))
    }

    async fn drop_table(&self) -> Result<()> {
        // What it sees would keep the table from being dropped.
        self.database.release();
        let common = self.database.common();
        if !self.made || common.keep {
            return Ok(());
        }
        let mut link = connected(&self.database, &self.spec, Purpose::Clean).await?;
        let drop = D::drop_table(&self.table());
        run(&self.database, &mut link, &drop).await?;
        self.database.close(link).await;
        Ok(())
    }
}

impl<D: Reads> Target for ReadTarget<D> {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.make_plan())
    }

    fn planned_rows(&self) -> Option<u64> {
        Some(self.plan.as_ref()?.there?.rows * self.times())
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(each(group, async |stream| {
            Ok([self.open_stream(stream).await?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.check(tallies))
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        self.database.sockets(&self.spec)
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(self.drop_table())
    }
}
