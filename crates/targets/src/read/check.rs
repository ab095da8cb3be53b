//! What arrived, held against what the database said there is.

use super::{wrapped, Summed};
use crate::{ColumnSum, Sums, Tally, Verification};
use venturi_base::spec::{TrialSpec, Verify};

/// What the database said before the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Baseline {
    pub rows: u64,
    /// Modulo 2^64.
    pub sums: Sums,
    /// The sum of the rows' digests, of rows that we loaded.
    pub checksum: Option<u64>,
}

impl Baseline {
    /// All of it so many times.
    fn times(&self, times: u64) -> Self {
        Self {
            rows: self.rows * times,
            sums: self.sums.map(|sum| wrapped(sum * i128::from(times))),
            checksum: self.checksum.map(|sum| sum.wrapping_mul(times)),
        }
    }
}

/// The sums of all streams, modulo 2^64.
pub fn total(tallies: &[Tally]) -> Sums {
    let mut sums = Sums::default();
    for tally in tallies {
        for (sum, more) in sums.iter_mut().zip(tally.sums) {
            *sum = wrapped(*sum + more);
        }
    }
    sums
}

/// A get's rows and sums, of which the streams were to read all there is so many `times`.
pub fn compare(
    spec: &TrialSpec,
    summed: &Summed,
    there: Option<&Baseline>,
    times: u64,
    tallies: &[Tally],
) -> Verification {
    let rows = tallies.iter().map(|tally| tally.rows).sum();
    let mut found = Verification::of(spec.verify, rows);
    let Some(there) = there.filter(|_| spec.verify != Verify::None) else {
        return found;
    };
    if spec.duration_ns.is_some() {
        found.add_notes(["stopped by the clock, the streams have read a part only".into()]);
        return found;
    }
    let expected = there.times(times);
    found.achieved = "count";
    found.expected_rows = Some(expected.rows);
    if expected.rows != rows {
        found.mismatch = Some(format!(
            "the server counts {} rows, {rows} were received; did the table change meanwhile, or does the query answer differently each time?",
            expected.rows
        ));
    }
    if spec.verify != Verify::Checksum {
        return found;
    }
    if !summed.columns.is_empty() {
        found.achieved = "sums";
        compare_sums(&mut found, summed, &expected.sums, &total(tallies));
    }
    if let Some(checksum) = expected.checksum {
        found.achieved = "checksum";
        let received = tallies.iter().map(|tally| tally.checksum);
        let received = received.fold(0u64, u64::wrapping_add);
        found.expected_checksum = Some(format!("{checksum:016x}"));
        found.checksum = Some(format!("{received:016x}"));
        found.compare_checksums("the client", "the server");
    } else {
        found.add_notes(summed.note());
    }
    found
}

/// Column by column; the first that differs is kept, where nothing was wrong before.
pub fn compare_sums(found: &mut Verification, summed: &Summed, expected: &Sums, got: &Sums) {
    let columns = summed.columns.iter().enumerate();
    let sum = |(place, (_, name)): (usize, &(usize, String))| ColumnSum {
        column: name.clone(),
        expected: expected[place].to_string(),
        in_doubt: "0".into(),
        found: got[place].to_string(),
    };
    let sums: Vec<ColumnSum> = columns.map(sum).collect();
    let wrong = sums.iter().find(|sum| sum.expected != sum.found);
    if let (Some(wrong), None) = (wrong, &found.mismatch) {
        found.mismatch = Some(format!(
            "column {}: the sum over all rows is {}, expected {}",
            wrong.column, wrong.found, wrong.expected
        ));
    }
    found.sums = Some(sums);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(more: &str) -> TrialSpec {
        let whole = format!(
            r#"{{"trial": "t", "target": "postgres://h", "operation": "get", "data": {{"source": "remote"}},
                "rows_per_batch": 1, "streams": 2, "threads": 1 {more}}}"#
        );
        TrialSpec::parse(&whole).unwrap()
    }

    fn made(spec: &TrialSpec, rows: u64, sum: i128, checksum: u64) -> Verification {
        let columns = [("a".to_owned(), Some("sum(a)".to_owned()))];
        let mut sums = Sums::default();
        sums[0] = -3i128 as u64 as i128;
        let there = Baseline {
            rows: 10,
            sums,
            checksum: Some(7),
        };
        let mut tally = Tally {
            rows,
            checksum,
            ..Tally::default()
        };
        tally.sums[0] = wrapped(sum);
        let tallies = [tally, Tally::default()];
        compare(spec, &Summed::new(columns), Some(&there), 2, &tallies)
    }

    #[test]
    fn all_rows_sums_and_digests_must_be_there() {
        let spec_ = spec("");
        let good = made(&spec_, 20, -6, 14);
        assert_eq!((good.mismatch, good.achieved), (None, "checksum"));
        for (rows, sum, checksum, says) in [
            (19, -6, 14, "counts 20 rows, 19 were received"),
            (20, -5, 14, "column a: the sum over all rows is"),
            (20, -6, 15, "the checksums differ"),
        ] {
            let wrong = made(&spec_, rows, sum, checksum).mismatch.unwrap();
            assert!(wrong.contains(says), "{wrong}");
        }
        let count = made(&spec(r#", "verify": "count""#), 20, 0, 0);
        assert_eq!((count.mismatch, count.achieved), (None, "count"));
        let part = made(&spec(r#", "duration_ns": 5"#), 3, 0, 0);
        assert_eq!((part.mismatch, part.achieved), (None, "none"));
        assert!(part.note.unwrap().contains("a part only"));
    }
}
