//! Before the clock: who the server is, what is asked of it, and what must have come of it.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};

use super::server::shown;
use super::tables::Way;
use super::FlightSql;
use crate::flight::call::Link;
use crate::flight::plan::Piece;
use crate::read::{
    by_hash, digest_of, distinct_names, same_types, Baseline, Column, Split, Subject, Summed,
};
use crate::sql::Dialect;
use crate::upsert::StatementKind;
use crate::Identity;
use venturi_base::codec::ipc::{schema_from_bytes, Encoder};
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Operation, Verify};

/// What the plan found and made.
pub struct Plan {
    pub dialect: &'static Dialect,
    pub schema: SchemaRef,
    /// A get's pieces by stream, where the streams share one result.
    pub dealt: Option<Vec<Vec<Piece>>>,
    /// Otherwise its statements by stream; `None`: nothing for that one.
    pub statements: Vec<Option<String>>,
    pub way: Way,
    pub summed: Arc<Summed>,
    /// Rows of a get are digested one by one.
    pub digest: bool,
    /// What a get is to read; what is in a put's table before.
    pub there: Option<Baseline>,
    pub notes: Vec<String>,
}

impl FlightSql {
    pub(super) async fn make_plan(&mut self) -> Result<Identity> {
        if self.spec.data != Data::Remote {
            let source = Source::make(&self.spec.data, self.spec.rows_per_batch)?;
            self.encoder(&source)?;
            self.source = Some(source);
        }
        let link = self.server.log_in().await?;
        let software = self.server.introduce(&link).await?;
        let mut identity = self.identity(&link, &software).await;
        let dialect = self.options.dialect()?;
        let dialect = dialect.or_else(|| Dialect::of_vendor(&software));
        // Of Postgres' words those of the standard, which more servers know.
        let dialect = dialect.filter(|it| it.name != "postgres");
        let dialect = dialect.unwrap_or(&Dialect::STANDARD);
        let plan = match self.spec.operation {
            Operation::Put => self.plan_put(&link, dialect).await?,
            _ => self.plan_get(&link, dialect).await?,
        };
        let way = match (self.spec.operation, &plan.way) {
            (Operation::Put, Way::Ingest) => "ingest",
            (Operation::Put, Way::Insert(_)) => "insert",
            _ if self.prepares() => "prepared",
            _ => "statement",
        };
        identity.protocol = format!("flightsql-{way}");
        self.plan = Some(plan);
        Ok(identity)
    }

    async fn identity(&self, link: &Link, software: &str) -> Identity {
        let mut identity = Identity {
            address: self.server.address.authority(),
            software: Some(software.to_owned()).filter(|text| !text.is_empty()),
            route: link.route(),
            ..Identity::default()
        };
        identity.look(self.spec.include_setup.then_some(self.listening));
        // Where the clock runs already, it would be a part of what is measured.
        if !self.spec.include_setup {
            let took = self.server.round_trip(link).await;
            identity.round_trip_ns = took.map(|took| took.as_nanos() as u64);
        }
        identity
    }

    pub(super) fn prepares(&self) -> bool {
        self.options.statement == Some(StatementKind::Prepared)
    }

    pub(super) fn encoder(&self, source: &Source) -> Result<Encoder> {
        Encoder::new(&source.schema(), self.options.transport.compression()?)
    }

    async fn plan_put(&mut self, link: &Link, dialect: &'static Dialect) -> Result<Plan> {
        let source = self.source()?.clone();
        if self.options.common.setup && self.spec.leads() {
            let table = self.table_of(&source);
            self.make_table(link, dialect, &table).await?;
        }
        let (way, note) = self.way(link, dialect, &source).await?;
        let schema = source.schema();
        let summed = self.summed(dialect, &schema);
        let from = dialect.quoted(&self.table());
        Ok(Plan {
            dialect,
            there: self.measure_baseline(link, &from, &summed).await?,
            schema,
            dealt: None,
            statements: Vec::new(),
            way,
            summed: summed.into(),
            digest: false,
            notes: note.into_iter().collect(),
        })
    }

    async fn plan_get(&mut self, link: &Link, dialect: &'static Dialect) -> Result<Plan> {
        let source = self.source.clone();
        if let Some(source) = source.as_ref().filter(|_| self.spec.leads()) {
            let table = self.table_of(source);
            self.make_table(link, dialect, &table).await?;
            self.fill(link, dialect, source).await?;
        }
        let subject = match &self.options.reading.query {
            Some(query) => Subject::Query(query.clone()),
            None => Subject::Table(dialect.quoted(&self.table())),
        };
        let from = match &subject {
            // A line end in it would be one in the error's headers, as some servers repeat it there.
            Subject::Query(query) if !query.contains(['-', '#', '\n']) => {
                let query = query.trim().trim_end_matches(';').trim_end();
                format!("({query}) AS venturi_rows")
            }
            subject => subject.from("AS venturi_rows"),
        };
        // What is not shared by conditions is asked in the user's own words.
        let all = match &subject {
            Subject::Query(query) => query.clone(),
            Subject::Table(name) => format!("SELECT * FROM {name}"),
        };
        let mut handle = None;
        if self.prepares() {
            handle = Some(self.prepared(link, &all).await?);
        }
        let info = self.server.planned(link, &all, handle.as_deref()).await?;
        let schema = self.columns(link, &info.schema, &from).await?;
        distinct_names(schema.fields().iter().map(|field| field.name()))?;
        let streams = self.spec.streams;
        let offer = self.server.offer(&info)?;
        let split = match (
            self.options.reading.split,
            self.options.reading.split_by.is_some(),
        ) {
            (Some(split), _) => Some(split),
            (None, true) => Some(Split::Hash),
            (None, false) if offer.endpoints() >= streams => None,
            // Rows of our own have a first column that says how.
            (None, false) if source.is_some() => Some(Split::Hash),
            (None, false) => return Err(few(offer.endpoints(), streams)),
        };
        let (dealt, statements) = match split {
            None => {
                let of = |stream| offer.pieces(&self.server.address, stream, streams);
                (Some((0..streams).map(of).collect()), Vec::new())
            }
            Some(_) if streams == 1 => (
                Some(vec![offer.pieces(&self.server.address, 0, 1)]),
                Vec::new(),
            ),
            Some(Split::None) => (None, vec![Some(all); streams]),
            Some(split) => {
                let conditions = self
                    .conditions(link, split, dialect, &from, &schema)
                    .await?;
                let statement = |condition: Option<String>| {
                    condition.map(|it| format!("SELECT * FROM {from} WHERE {it}"))
                };
                (None, conditions.into_iter().map(statement).collect())
            }
        };
        let summed = self.summed(dialect, &schema);
        let mut there = self.measure_baseline(link, &from, &summed).await?;
        let known = source.filter(|source| {
            self.spec.verify == Verify::Checksum && same_types(&source.schema(), &schema)
        });
        let digest = known.is_some();
        if let (Some(there), Some(source)) = (&mut there, known) {
            there.checksum = digest_of(source.cursor(self.spec.planned_rows()))?;
        }
        Ok(Plan {
            dialect,
            schema,
            dealt,
            statements,
            way: Way::Ingest,
            summed: summed.into(),
            digest,
            there,
            notes: Vec::new(),
        })
    }

    /// The columns of a result, as its plan says; where that says none, as a row of it has them.
    async fn columns(&self, link: &Link, planned: &[u8], from: &str) -> Result<SchemaRef> {
        if let Some(schema) = schema_from_bytes(planned)
            .ok()
            .filter(|it| !it.fields.is_empty())
        {
            return Ok(schema.into());
        }
        // A hash of our own rows needs their first column.
        let hashed = self.source.is_some() && self.spec.streams > 1;
        if self.spec.verify == Verify::None && self.options.dealt() && !hashed {
            return Ok(Schema::empty().into());
        }
        let one = format!("SELECT * FROM {from} LIMIT 1");
        let answer = self.server.query(link, &one).await?;
        let nothing = || Error::protocol(format!("{}: the server names no columns", shown(&one)));
        answer.schema.ok_or_else(nothing)
    }

    /// The columns that are summed up at both ends.
    fn summed(&self, dialect: &'static Dialect, schema: &Schema) -> Summed {
        let columns = schema.fields().iter();
        let sums = columns.map(|field| {
            let sum = dialect.sum(&Column::of(field));
            (field.name().clone(), sum)
        });
        Summed::new(sums.filter(|_| self.spec.verify == Verify::Checksum))
    }

    /// What there is before the trial is the lead's to know.
    async fn measure_baseline(
        &self,
        link: &Link,
        from: &str,
        summed: &Summed,
    ) -> Result<Option<Baseline>> {
        if !self.spec.leads() || self.spec.verify == Verify::None {
            return Ok(None);
        }
        self.count(link, from, summed).await.map(Some)
    }

    /// Rows, and sums modulo 2^64, as the server has them.
    pub(super) async fn count(&self, link: &Link, from: &str, summed: &Summed) -> Result<Baseline> {
        let question = format!("SELECT {} FROM {from}", summed.selected());
        let row = self.server.ask(link, &question).await.map_err(|error| {
            let advice = match summed.columns.is_empty() {
                true => "--verify none moves the rows uncounted",
                false => "--verify count asks for no sums, --dialect names other words",
            };
            let message = format!("{}; {advice}", error.message);
            Error { message, ..error }
        })?;
        let address = self.server.address.authority();
        summed.read_baseline(&row, &address, &shown(&question))
    }

    /// What each stream reads, by the values of a column.
    async fn conditions(
        &self,
        link: &Link,
        split: Split,
        dialect: &'static Dialect,
        from: &str,
        schema: &Schema,
    ) -> Result<Vec<Option<String>>> {
        let streams = self.spec.streams;
        let reading = &self.options.reading;
        let column = &Column::of(reading.column(schema.fields(), |field| field.name())?);
        if split == Split::Hash {
            return Ok(by_hash(&dialect.hash(column, streams), streams));
        }
        let question = dialect.select_ends(column, from)?;
        let row = self.server.ask(link, &question).await?;
        Ok(dialect.by_ends(column, &row, streams))
    }
}

/// Streams that would have nothing of their own to read.
fn few(endpoints: usize, streams: usize) -> Error {
    let endpoints = match endpoints {
        1 => "1 endpoint".to_owned(),
        many => format!("{many} endpoints"),
    };
    Error::new(
        Kind::Unsupported,
        format!(
            "the server offers the result at {endpoints}, fewer than {streams} streams: share its rows by --split hash --split-by COLUMN or --split key --split-by COLUMN, or --split none: each reads all"
        ),
    )
}
