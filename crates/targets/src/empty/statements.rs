//! Upserts into nothing: statements are built, in the words of a database, and discarded. So a
//! trial tells what the client alone can do, a ceiling for every database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::{discarded, nowhere};
use crate::mysql::dialect::MYSQL;
use crate::sql::Dialect;
use crate::upsert::{Builder, Calls, Executing, Executor, Prepared, Share, Work};
use crate::{planned, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::spec::TrialSpec;

pub struct Statements {
    spec: Arc<TrialSpec>,
    dialect: &'static Dialect,
    work: Option<Arc<Work<Text>>>,
}

impl Statements {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        Ok(Self {
            dialect: dialect(&spec.options)?,
            spec,
            work: None,
        })
    }

    fn work(&self) -> Result<&Arc<Work<Text>>> {
        planned(&self.work, "empty")
    }
}

fn dialect(options: &BTreeMap<String, serde_json::Value>) -> Result<&'static Dialect> {
    let mut dialect = MYSQL;
    for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
        match (name.as_str(), value.as_str()) {
            ("dialect", Some(asked)) => dialect = Dialect::from_name(asked)?,
            _ => {
                return Err(Error::usage(format!(
                    "empty://: the option {name} = {value} is not known; known: dialect"
                )))
            }
        }
    }
    Ok(dialect)
}

impl Target for Statements {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            let (table, batches) = Batches::make(&self.spec, "venturi")?;
            self.dialect.check(&table)?;
            let builder = Text {
                dialect: self.dialect,
                longest: AtomicUsize::new(0),
            };
            let work = Work::new(&self.spec, table, batches, builder)?;
            self.work = Some(Arc::new(work));
            Ok(nowhere())
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            let work = self.work()?;
            let mut sessions: Vec<Box<dyn Session>> = Vec::new();
            for &stream in group {
                let share = Share::new(&self.spec, stream, work.batches.count());
                for _ in 0..self.spec.in_flight {
                    let retries = self.spec.retries;
                    let calls = Calls::new(work.clone(), share.clone(), Nothing, retries);
                    sessions.push(Box::new(calls));
                }
            }
            Ok(sessions)
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        let note = "statements were built and discarded; nothing holds their rows";
        Box::pin(async move { Ok(discarded(&self.spec, tallies, note)) })
    }
}

/// Builds a batch's whole statement as text.
struct Text {
    dialect: &'static Dialect,
    /// Bytes of the longest statement so far: the next one finds its room at once.
    longest: AtomicUsize,
}

impl Builder for Text {
    type Statement = Vec<u8>;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Vec<u8>> {
        let longest = self.longest.load(Relaxed);
        let mut text = Vec::with_capacity(longest + longest / 16);
        self.dialect.upsert_text(table, rows, &mut text)?;
        if text.len() > longest {
            self.longest.store(text.len(), Relaxed);
        }
        Ok(text)
    }

    fn size(statement: &Vec<u8>) -> usize {
        statement.capacity()
    }
}

/// Says yes to every statement.
struct Nothing;

impl Executor for Nothing {
    type Statement = Vec<u8>;

    const WORK: Stage = Stage::Send;

    fn execute(self, _: Arc<Prepared<Vec<u8>>>) -> Executing<Self> {
        Box::pin(std::future::ready((self, Ok(()))))
    }
}

#[cfg(test)]
mod tests {
    use venturi_base::spec::TrialSpec;
    use venturi_engine::{run, Control, Outcome, Record};

    fn upsert(more: &str) -> Record {
        let spec = TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "empty://", "operation": "upsert",
                "data": {{"source": "usage", "working_set": 5000, "loaded_unix_s": 1790000000}},
                "rows_per_batch": 100, "streams": 3, "threads": 2, {more}}}"#
        ));
        run(spec.unwrap(), &Control::new())
    }

    #[test]
    fn rows_are_acknowledged_and_stages_have_no_gap() {
        for (generate, dialect) in [("ahead", "mysql"), ("inline", "postgres")] {
            let record = upsert(&format!(
                r#""rows_per_stream": 20050, "in_flight": 4, "generate": "{generate}",
                   "options": {{"dialect": "{dialect}"}}"#
            ));
            assert_eq!(record.error, None);
            // Whole batches.
            assert_eq!(record.counts.rows, 3 * 20_100);
            assert_eq!(record.counts.batches, 3 * 201);
            assert_eq!(record.verification.achieved, "acknowledged");
            assert_eq!(record.verification.rows, 3 * 20_100);
            assert_eq!(record.latency.service.count, 603);
            let stages = &record.stages.client;
            assert_eq!(stages.contains_key("generate"), generate == "inline");
            assert_eq!(stages.contains_key("encode"), generate == "inline");
            assert!(stages["send"] > 0);
            let workers = record.workers.client;
            assert_eq!(workers.workers, 12);
            assert_eq!(stages.values().sum::<u64>(), workers.time_ns);
        }
    }

    #[test]
    fn fixed_time_goes_round_the_working_set() {
        let record = upsert(r#""duration_ns": 50000000, "in_flight": 2"#);
        assert_eq!(record.outcome, Outcome::Ok);
        assert!(record.counts.rows > 3 * 5000, "{}", record.counts.rows);
        assert!(record.times.interval_ns >= 50_000_000);
    }

    #[test]
    fn unknown_options_are_named() {
        for (options, says) in [
            (r#"{"dialect": "oracle"}"#, "\"oracle\" is not known"),
            (r#"{"table": "x"}"#, "table = \"x\" is not known"),
        ] {
            let record = upsert(&format!(r#""rows_per_stream": 1, "options": {options}"#));
            let error = record.error.unwrap();
            assert!(error.message.contains(says), "{}", error.message);
        }
    }
}
