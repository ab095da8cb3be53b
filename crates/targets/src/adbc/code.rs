//! A driver as code that is called: what is planned, made, checked and removed through it. All of it blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use adbc_core::options::IngestMode;
use arrow_array::RecordBatchIterator;
use arrow_schema::{DataType, SchemaRef};

use super::driver::{out_of_reach, Base, Batches, Link};
use super::options::Options;
use super::plan::{counted, Counted, Vendor};
use super::stream::{Gives, OfSource, Takes};
use crate::plugin::{Consumer, Planned, Plugin, Producer};
use crate::read::{
    compare, digest_of, distinct, same_types, Baseline, Column, Subject, Summed, OWN_TABLE,
};
use crate::upsert::{is_own, occupied};
use crate::{Tally, Verification};
use venturi_base::data::{row_digest, Source};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Operation, TrialSpec, Verify};

/// The table that a put is for.
const PUT_TABLE: &str = "venturi_put";
/// How a query's rows are called in a statement around it.
const ALIAS: &str = "AS venturi_rows";

pub struct Code {
    pub(super) spec: Arc<TrialSpec>,
    pub(super) options: Options,
    base: OnceLock<Base>,
    plan: OnceLock<Plan>,
    /// Our table is there.
    made: AtomicBool,
}

/// What was found out before the clock.
pub struct Plan {
    pub schema: SchemaRef,
    /// Of a get, by stream; `None`: there is nothing for it.
    pub statements: Vec<Option<String>>,
    pub summed: Arc<Summed>,
    /// Rows are digested one by one.
    pub digest: bool,
    there: Option<Baseline>,
    /// The rows of a put, and how many were in the table before.
    source: Option<Source>,
    before: u64,
    vendor: Vendor,
    note: Option<String>,
}

impl Plan {
    /// The columns whose values are compared: each stream must have them in these types.
    pub fn checked(&self) -> Vec<(usize, DataType)> {
        let fields = self.schema.fields().iter().enumerate();
        let summed = |at| self.summed.columns.iter().any(|(column, _)| *column == at);
        let kept = fields.filter(|(at, _)| self.digest || summed(*at));
        kept.map(|(at, field)| (at, field.data_type().clone()))
            .collect()
    }
}

impl Code {
    pub fn new(spec: Arc<TrialSpec>, options: Options) -> Self {
        Self {
            spec,
            options,
            base: OnceLock::new(),
            plan: OnceLock::new(),
            made: AtomicBool::new(false),
        }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn planned(&self) -> Result<&Plan> {
        let unplanned = || Error::new(Kind::Internal, "adbc: not planned");
        self.plan.get().ok_or_else(unplanned)
    }

    pub fn connect(&self) -> Result<Link> {
        let opened = match self.base.get() {
            Some(base) => base,
            None => {
                let opened = Base::open(&self.options)?;
                self.base.get_or_init(|| opened)
            }
        };
        opened.connect(&self.options.common.init)
    }

    pub fn table(&self) -> &str {
        let usual = match self.spec.operation {
            Operation::Get => OWN_TABLE,
            _ => PUT_TABLE,
        };
        self.options.common.table.as_deref().unwrap_or(usual)
    }

    /// How often the rows are read in all.
    fn times(&self) -> u64 {
        match self.options.reading.shares(self.spec.streams) {
            true => 1,
            false => self.spec.streams as u64,
        }
    }

    /// Makes our table and writes these rows into it.
    fn make(&self, link: &mut Link, vendor: &Vendor, rows: Batches) -> Result<()> {
        let name = self.table();
        let quoted = vendor.dialect().quoted(name);
        if is_own(name) {
            link.run(&format!("DROP TABLE IF EXISTS {quoted}"))?;
            self.made.store(true, Ordering::Release);
        } else if link.ask(&format!("SELECT count(*) FROM {quoted}")).is_ok() {
            return Err(occupied(name));
        }
        let create = String::from(IngestMode::Create);
        let statement = link.ingestion(name, &create, rows)?;
        link.ingest(statement)?;
        // Not sooner: one of that name may have been there unseen.
        self.made.store(true, Ordering::Release);
        Ok(())
    }

    fn plan_put(&self, link: &mut Link, vendor: Vendor, source: Source) -> Result<Plan> {
        let schema = source.schema();
        let mut before = 0;
        if self.options.common.setup {
            let none = Vec::new().into_iter();
            let none = RecordBatchIterator::new(none, schema.clone());
            self.make(link, &vendor, Box::new(none))?;
        } else {
            before = self.count(link, &vendor)?;
        }
        Ok(Plan {
            schema,
            statements: Vec::new(),
            summed: Arc::default(),
            digest: false,
            there: None,
            source: Some(source),
            before,
            vendor,
            note: None,
        })
    }

    fn count(&self, link: &mut Link, vendor: &Vendor) -> Result<u64> {
        let question = format!(
            "SELECT count(*) FROM {}",
            vendor.dialect().quoted(self.table())
        );
        counted(link, &Summed::default(), &question).map(|(rows, _)| rows)
    }

    fn plan_get(&self, link: &mut Link, vendor: Vendor, source: Option<Source>) -> Result<Plan> {
        if let Some(source) = &source {
            let rows = self.spec.planned_rows();
            let rows =
                rows.ok_or_else(|| Error::usage("too many rows: more than 64 bits can count"))?;
            self.make(link, &vendor, Box::new(OfSource(source.cursor(Some(rows)))))?;
        }
        let subject = match &self.options.reading.query {
            Some(query) => Subject::Query(query.clone()),
            None => Subject::Table(vendor.dialect().quoted(self.table())),
        };
        let from = subject.from(ALIAS);
        let all = match &subject {
            Subject::Query(query) => query.clone(),
            Subject::Table(_) => format!("SELECT * FROM {from}"),
        };
        let schema = self.columns(&all)?;
        let columns: Vec<Column> = schema
            .fields()
            .iter()
            .map(|field| Column::of(field))
            .collect();
        distinct(&columns)?;
        let verify = self.spec.verify;
        let sum = |it: &Column| (it.name.clone(), vendor.sum(it));
        let sums = match verify {
            Verify::Checksum => columns.iter().map(sum).collect(),
            _ => Vec::new(),
        };
        let mut counted = Counted::default();
        if verify != Verify::None {
            counted = self.count_all(link, &from, &all, sums)?;
        }
        let Counted {
            summed,
            mut there,
            note,
        } = counted;
        // Rows of ours are known one by one, where they come back in the types that they went in.
        let known = source
            .filter(|source| verify == Verify::Checksum && same_types(&source.schema(), &schema));
        if let (Some(there), Some(source)) = (&mut there, &known) {
            there.checksum = digest_of(source.cursor(self.spec.planned_rows()))?;
        }
        let conditions = self.conditions(link, &vendor, &from, &columns)?;
        let statement = |condition: Option<String>| {
            condition.map(|condition| match condition.as_str() {
                "" => all.clone(),
                condition => format!("SELECT * FROM {from} WHERE {condition}"),
            })
        };
        Ok(Plan {
            schema,
            statements: conditions.into_iter().map(statement).collect(),
            summed: summed.into(),
            digest: known.is_some(),
            there,
            source: None,
            before: 0,
            vendor,
            note,
        })
    }

    /// The columns of a statement. Where the driver tells none without executing it, or tells them from the first rows,
    /// it is asked on a connection that is closed before its rows have come.
    fn columns(&self, statement: &str) -> Result<SchemaRef> {
        if let Some(schema) = self.connect()?.columns(statement)? {
            return Ok(schema);
        }
        let mut link = self.connect()?;
        let mut statement = link.query(statement)?;
        Ok(link.execute(&mut statement)?.schema())
    }

    fn prepare(&self, source: Option<Source>) -> Result<Planned> {
        let mut link = self.connect()?;
        let info = link.info();
        let vendor = Vendor::of(&info.vendor);
        let plan = match (self.spec.operation, source) {
            (Operation::Get, source) => self.plan_get(&mut link, vendor, source)?,
            (_, Some(source)) => self.plan_put(&mut link, vendor, source)?,
            (_, None) => return Err(Error::usage("adbc://: a put needs data of its own")),
        };
        let rows = plan.there.as_ref().map(|there| there.rows * self.times());
        let planned = Planned {
            software: info.text(),
            address: Some(self.options.name.clone()),
            rows: rows.or(plan.source.as_ref().and_then(|_| self.spec.planned_rows())),
            pid: None,
        };
        self.plan.get_or_init(|| plan);
        Ok(planned)
    }

    /// What arrived, held against what there is.
    pub fn verify(&self, tallies: &[Tally]) -> Result<Verification> {
        let plan = self.planned()?;
        if self.spec.operation == Operation::Get {
            let there = plan.there.as_ref();
            let mut found = compare(&self.spec, &plan.summed, there, self.times(), tallies);
            found.add_notes(plan.note.clone());
            return Ok(found);
        }
        let mut link = self.connect()?;
        let sent = tallies.iter().map(|tally| tally.rows).sum();
        let there = self.count(&mut link, &plan.vendor)?;
        let mut found = Verification::of(self.spec.verify, there.saturating_sub(plan.before));
        found.achieved = "count";
        found.expected_rows = Some(sent);
        found.compare_rows(("the database", found.rows), ("the client", sent));
        if self.spec.verify != Verify::Checksum || found.mismatch.is_some() {
            return Ok(found);
        }
        if !self.made.load(Ordering::Acquire) {
            let note = "the table has rows of somebody else's: they are counted, and not read back";
            found.add_notes([note.into()]);
            return Ok(found);
        }
        self.read_back(&mut link, plan, tallies, &mut found)?;
        Ok(found)
    }

    /// All rows of our table, known again one by one in any order.
    fn read_back(
        &self,
        link: &mut Link,
        plan: &Plan,
        tallies: &[Tally],
        found: &mut Verification,
    ) -> Result<()> {
        let Some(source) = &plan.source else {
            return Ok(());
        };
        let select = format!(
            "SELECT * FROM {}",
            plan.vendor.dialect().quoted(self.table())
        );
        let mut statement = link.query(&select)?;
        let batches = link.execute(&mut statement)?;
        let same = same_types(&source.schema(), &batches.schema());
        let mut sent = Some(0u64);
        for tally in tallies {
            let digest = digest_of(source.cursor(Some(tally.rows)))?;
            sent = sent.zip(digest).map(|(sum, more)| sum.wrapping_add(more));
        }
        let Some(sent) = sent.filter(|_| same) else {
            let note = "rows come back in other types than they went in: they are counted, and not compared";
            found.add_notes([note.into()]);
            return Ok(());
        };
        let mut read = 0u64;
        for batch in batches {
            let batch = batch.map_err(|error| link.base().broken(error))?;
            read = read.wrapping_add(row_digest(&batch).unwrap_or_default());
        }
        found.achieved = "checksum";
        found.expected_checksum = Some(format!("{sent:016x}"));
        found.checksum = Some(format!("{read:016x}"));
        found.compare_checksums("the database", "the client");
        Ok(())
    }
}

impl Plugin for Code {
    /// There are drivers that connect when they are first asked something.
    fn plan(&self, source: Option<Source>) -> Result<Planned> {
        self.prepare(source).map_err(out_of_reach)
    }

    fn produce(&self, stream: usize) -> Result<Box<dyn Producer>> {
        Ok(Box::new(Gives::new(self, stream)?))
    }

    fn consume(&self, stream: usize) -> Result<Box<dyn Consumer>> {
        Ok(Box::new(Takes::new(self, stream)?))
    }

    /// Nothing runs any more, and our table is gone.
    fn close(&self) -> Result<()> {
        if let Some(base) = self.base.get() {
            base.cancel();
        }
        if !self.made.load(Ordering::Acquire) || self.options.common.keep {
            return Ok(());
        }
        let vendor = match self.plan.get() {
            Some(plan) => &plan.vendor,
            None => &Vendor::of(&self.connect()?.info().vendor),
        };
        let drop = format!(
            "DROP TABLE IF EXISTS {}",
            vendor.dialect().quoted(self.table())
        );
        self.connect()?.run(&drop)
    }
}
