//! An ingest into nothing: points are made, written in the words of a time-series database, and
//! discarded. So a trial tells what the loader alone can do, a ceiling for every target.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use super::{discarded, nowhere};
use crate::timeseries::{Batch, Dialect, Maker, Supply};
use crate::{planned, Identity, LocalFuture, Moved, Session, Tally, Target, Verification};
use venturi_base::error::Result;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::TrialSpec;

pub struct Points {
    spec: Arc<TrialSpec>,
    dialect: Dialect,
    supply: Option<Supply>,
}

impl Points {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let mut options: BTreeMap<_, _> = spec.options.clone();
        let named = options.remove("dialect");
        let name = named.as_ref().and_then(|name| name.as_str());
        Ok(Self {
            dialect: Dialect::of_name(name.unwrap_or("akumuli"), &options)?,
            spec,
            supply: None,
        })
    }

    fn supply(&self) -> Result<&Supply> {
        planned(&self.supply, "empty")
    }
}

impl Target for Points {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            self.supply = Some(Supply::new(&self.spec)?);
            Ok(nowhere())
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.supply.as_ref()?.planned_points()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            let open = |stream: &usize| -> Result<Box<dyn Session>> {
                let speak = |layout: &_| self.dialect.writer(layout);
                let (_, maker) = self.supply()?.stream(*stream, &speak)?;
                Ok(Box::new(Discarded {
                    maker,
                    batch: Batch::default(),
                    tally: Tally::default(),
                }))
            };
            group.iter().map(open).collect()
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        let note = "points were made and discarded; nothing holds them";
        Box::pin(async move { Ok(discarded(&self.spec, tallies, note)) })
    }
}

struct Discarded {
    maker: Maker,
    batch: Batch,
    tally: Tally,
}

impl Session for Discarded {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if !ready!(self.maker.poll_next(&mut self.batch, cx, clock))? {
            return Poll::Ready(Ok(None));
        }
        std::hint::black_box(self.batch.text.bytes());
        self.tally.wire_bytes += self.batch.text.bytes().len() as u64;
        let moved = self.batch.done(&mut self.tally);
        clock.mark(Stage::Send);
        Poll::Ready(Ok(Some(moved)))
    }

    fn is_spent(&self) -> bool {
        self.maker.is_spent()
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use venturi_base::spec::TrialSpec;
    use venturi_engine::{run, Control, Record};

    fn ingest(more: &str) -> Record {
        let spec = TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "empty://", "operation": "ingest",
                "data": {{"source": "metrics", "hosts": 7}}, "rows_per_batch": 1000,
                "streams": 3, "threads": 2, {more}}}"#
        ));
        run(spec.unwrap(), &Control::new())
    }

    #[test]
    fn points_are_made_inline_or_ahead() {
        for (generate, options) in [
            ("ahead", r#"{"format": "values"}"#),
            ("inline", r#"{"dialect": "influx", "digits": null}"#),
            ("inline", r#"{"dialect": "opentsdb"}"#),
        ] {
            let record = ingest(&format!(
                r#""rows_per_stream": 20001, "generate": "{generate}", "options": {options}"#
            ));
            assert_eq!(record.error, None);
            assert_eq!(record.counts.rows, 3 * 20_010);
            assert_eq!(record.counts.payload_bytes, 3 * 20_010 * 16);
            assert_eq!(record.counts.batches, 3 * 21);
            assert!(record.counts.wire_bytes > 3 * 20_010 * 10);
            let stages = &record.stages.client;
            assert_eq!(stages.contains_key("generate"), generate == "inline");
            assert_eq!(stages.values().sum::<u64>(), record.workers.client.time_ns);
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let error = |more: &str| ingest(more).error.unwrap().message;
        assert!(error(r#""rows_per_stream": 1, "options": {"table": "x"}"#).contains("table"));
        assert!(error(r#""rows_per_stream": 1, "options": {"dialect": "x"}"#).contains("known:"));
        assert!(error(r#""rows_per_stream": 100000000000"#).contains("2 GiB"));
        let refused = |json: &str| TrialSpec::parse(json).unwrap_err().message;
        let spec = |more: &str| {
            refused(&format!(
                r#"{{"trial": "t", "target": "empty://", "rows_per_batch": 1, "streams": 1, "threads": 1, {more}}}"#
            ))
        };
        let metrics = r#""data": {"source": "metrics"}"#;
        assert!(spec(&format!(
            r#""operation": "put", "rows_per_stream": 1, {metrics}"#
        ))
        .contains("ingest"));
        assert!(spec(&format!(
            r#""operation": "ingest", "duration_ns": 1, {metrics}"#
        ))
        .contains("inline"));
        assert!(spec(
            r#""operation": "ingest", "rows_per_stream": 1, "data": {"source": "records"}"#
        )
        .contains("metrics"));
    }
}
