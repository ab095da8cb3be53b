//! `empty://`: a target that moves nothing. It counts the batches of its source, so a
//! trial against it measures what the engine itself can do: a ceiling for every other.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::systems::System;
use super::{planned, Identity, LocalFuture, Session, Tally, Target, Verification};
use super::{Moved, StageClock};
use venturi_base::data::{Cursor, Source};
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::spec::{Operation, TrialSpec, Verify};

mod points;
mod statements;

pub use points::Points;
pub use statements::Statements;

/// Who this is.
fn nowhere() -> Identity {
    Identity {
        address: "nowhere".into(),
        software: Some(concat!("venturi ", env!("CARGO_PKG_VERSION")).into()),
        reference: true,
        protocol: "empty".into(),
        ..Identity::default()
    }
}

/// What is to be said of work that nothing holds afterwards.
fn discarded(spec: &TrialSpec, tallies: &[Tally], note: &str) -> Verification {
    Verification {
        requested: spec.verify,
        achieved: "acknowledged",
        expected_rows: None,
        rows: tallies.iter().map(|tally| tally.rows).sum(),
        expected_checksum: None,
        checksum: None,
        sums: None,
        read_back: None,
        stored_bytes: None,
        note: Some(note.into()),
        mismatch: None,
    }
}

/// Nowhere: what the engine itself can do.
pub const SYSTEM: System = System {
    scheme: "empty",
    operations: &[
        Operation::Get,
        Operation::Put,
        Operation::Upsert,
        Operation::Ingest,
    ],
    target: of,
    ..System::NOTHING
};

fn of(spec: Arc<TrialSpec>) -> Result<Box<dyn Target>> {
    let handicap = spec.options.get("handicap");
    if handicap.is_some_and(|asked| !asked.is_null()) {
        return Err(Error::usage(
            "empty://: the engine alone has no stage to slow down by a handicap",
        ));
    }
    Ok(match spec.operation {
        Operation::Upsert => Box::new(Statements::new(spec)?),
        Operation::Ingest => Box::new(Points::new(spec)?),
        Operation::Get | Operation::Put => Box::new(Empty::new(spec)),
    })
}

pub struct Empty {
    spec: Arc<TrialSpec>,
    source: Option<Source>,
}

impl Empty {
    pub fn new(spec: Arc<TrialSpec>) -> Self {
        Self { spec, source: None }
    }

    fn source(&self) -> Result<&Source> {
        planned(&self.source, "empty")
    }
}

/// What arrived beside what the source holds.
pub(super) fn compare(
    spec: &TrialSpec,
    source: &Source,
    tallies: &[Tally],
) -> Result<Verification> {
    let requested = spec.verify;
    let checked = requested == Verify::Checksum;
    let rows: u64 = tallies.iter().map(|tally| tally.rows).sum();
    let mut expected_rows = 0;
    let mut expected = 0u64;
    let mut checksum = 0u64;
    for tally in tallies {
        let stream_rows = spec.rows_per_stream.unwrap_or(tally.rows);
        expected_rows += stream_rows;
        if checked {
            let whole = source.expected(stream_rows)?;
            expected = expected.wrapping_add(whole.checksum);
            checksum = checksum.wrapping_add(tally.checksum);
        }
    }
    let mismatch = if rows != expected_rows {
        Some(format!(
            "{rows} rows arrived, {expected_rows} were expected"
        ))
    } else if checksum != expected {
        let both = format!("{checksum:016x}, expected {expected:016x}");
        Some(format!("the checksum of what arrived is {both}"))
    } else {
        None
    };
    Ok(Verification {
        requested,
        achieved: match requested {
            Verify::Checksum => "checksum",
            Verify::Count => "count",
            Verify::None => "none",
        },
        expected_rows: Some(expected_rows),
        rows,
        expected_checksum: checked.then(|| format!("{expected:016x}")),
        checksum: checked.then(|| format!("{checksum:016x}")),
        sums: None,
        read_back: None,
        stored_bytes: None,
        note: None,
        mismatch,
    })
}

impl Target for Empty {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            self.source = Some(Source::make(&self.spec.data, self.spec.rows_per_batch)?);
            Ok(nowhere())
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.spec.planned_rows()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            let open = |_: &usize| -> Result<Box<dyn Session>> {
                let cursor = self.source()?.cursor(self.spec.rows_per_stream);
                Ok(Box::new(Stream {
                    cursor,
                    stage: match self.spec.operation {
                        Operation::Get => Stage::Receive,
                        Operation::Put | Operation::Upsert | Operation::Ingest => Stage::Send,
                    },
                    checksums: self.spec.verify == Verify::Checksum,
                    tally: Tally::default(),
                }))
            };
            group.iter().map(open).collect()
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(async move { compare(&self.spec, self.source()?, tallies) })
    }
}

struct Stream {
    cursor: Cursor,
    stage: Stage,
    checksums: bool,
    tally: Tally,
}

impl Session for Stream {
    fn poll_batch(
        &mut self,
        _cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let Some(item) = self.cursor.next() else {
            return Poll::Ready(Ok(None));
        };
        self.tally.rows += item.rows;
        if self.checksums {
            self.tally.checksum = self.tally.checksum.wrapping_add(item.digest()?);
        }
        let moved = Moved {
            rows: item.rows,
            bytes: item.payload,
        };
        clock.mark(self.stage);
        Poll::Ready(Ok(Some(moved)))
    }

    fn is_spent(&self) -> bool {
        self.cursor.is_spent()
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_engine::{run, Control, Outcome};

    fn spec(more: &str) -> TrialSpec {
        TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "empty://", "operation": "get",
                "data": {{"source": "records", "columns": 4}}, "rows_per_batch": 100,
                "streams": 3, "threads": 2, {more}}}"#
        ))
        .unwrap()
    }

    #[test]
    fn it_moves_what_it_was_asked_to_and_verifies() {
        let record = run(spec(r#""rows_per_stream": 1050"#), &Control::new());
        assert_eq!(record.error, None);
        assert_eq!(record.counts.rows, 3150);
        assert_eq!(record.counts.batches, 33);
        assert_eq!(record.counts.payload_bytes, 3150 * 32);
        assert_eq!(record.verification.achieved, "checksum");
        assert_eq!(
            record.verification.checksum,
            record.verification.expected_checksum
        );
        assert_eq!(record.latency.service.count, 33);
    }

    #[test]
    fn fixed_time_is_kept() {
        let record = run(spec(r#""duration_ns": 50000000"#), &Control::new());
        assert_eq!(record.outcome, Outcome::Ok);
        let ns = record.times.interval_ns;
        assert!((50_000_000..300_000_000).contains(&ns), "{ns}");
        assert!(record.counts.rows > 3 * 100);
        assert!(record.times.steady_rows <= record.counts.rows);
    }

    #[test]
    fn lost_rows_and_another_checksum_are_mismatches() {
        let mut empty = Empty::new(Arc::new(spec(r#""rows_per_stream": 100"#)));
        empty.source = Some(Source::make(&empty.spec.data, 100).unwrap());
        let right = empty.source().unwrap().expected(100).unwrap().checksum;
        let verify = |rows, checksum| {
            let tally = Tally {
                rows,
                checksum,
                ..Tally::default()
            };
            compare(&empty.spec, empty.source().unwrap(), &[tally])
                .unwrap()
                .mismatch
        };
        assert_eq!(verify(100, right), None);
        assert!(verify(99, right).unwrap().contains("99 rows"));
        assert!(verify(100, right ^ 1).unwrap().contains("checksum"));
    }
}
