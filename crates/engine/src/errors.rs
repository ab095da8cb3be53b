//! Batches that failed: counted by kind, sampled by the first of each, against a budget.

use parking_lot::{Mutex, MutexGuard};

use serde::Serialize;

use venturi_base::error::{Error, Fate, Kind};
use venturi_targets::Tally;

/// Distinct kinds that are told apart; what comes after is counted with the last.
const MOST_KINDS: usize = 32;

/// `errors` of the record.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Errors {
    pub refused: Batches,
    pub in_doubt: Batches,
    /// Batches that were tried once more.
    pub retries: u64,
    pub kinds: Vec<Sample>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Batches {
    pub batches: u64,
    pub rows: u64,
}

/// All errors of one kind and code, with the first one's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sample {
    pub kind: Kind,
    pub code: Option<String>,
    pub count: u64,
    pub message: String,
    pub stream: usize,
    /// Since the start instant.
    pub first_ns: u64,
}

/// Shared by all streams of a trial.
#[derive(Debug)]
pub struct Ledger {
    budget: u64,
    errors: Mutex<(u64, Errors)>,
}

impl Ledger {
    /// So many batches may fail before the trial is given up.
    pub fn new(budget: u64) -> Self {
        Self {
            budget,
            errors: Mutex::default(),
        }
    }

    /// Notes a failed batch; true: the stream may go on.
    pub fn note(&self, error: &Error, stream: usize, at_ns: u64) -> bool {
        let mut held = self.held();
        let (count, errors) = &mut *held;
        *count += 1;
        if let Fate::Refused { rows } = error.fate {
            errors.refused.batches += 1;
            errors.refused.rows += rows;
        }
        let known = errors
            .kinds
            .iter()
            .position(|sample| sample.kind == error.kind && sample.code == error.code);
        match known {
            Some(at) => errors.kinds[at].count += 1,
            None if errors.kinds.len() == MOST_KINDS => errors.kinds[MOST_KINDS - 1].count += 1,
            None => errors.kinds.push(Sample {
                kind: error.kind,
                code: error.code.clone(),
                count: 1,
                message: error.message.clone(),
                stream,
                first_ns: at_ns,
            }),
        }
        error.fate != Fate::Fatal && *count <= self.budget
    }

    /// What went wrong in all; `None`: nothing did.
    pub fn total<'a>(&self, tallies: impl Iterator<Item = &'a Tally>) -> Option<Errors> {
        let mut errors = self.held().1.clone();
        for tally in tallies {
            errors.in_doubt.batches += tally.doubt.batches;
            errors.in_doubt.rows += tally.doubt.rows;
            errors.retries += tally.retries;
        }
        let any = !errors.kinds.is_empty() || errors.in_doubt.batches > 0 || errors.retries > 0;
        any.then_some(errors)
    }

    fn held(&self) -> MutexGuard<'_, (u64, Errors)> {
        self.errors.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_and_doubts_of_all_streams_are_summed() {
        let tally = |retries, batches, rows| {
            let mut tally = Tally {
                retries,
                ..Tally::default()
            };
            tally.doubt.batches = batches;
            tally.doubt.rows = rows;
            tally
        };
        let ledger = Ledger::new(0);
        assert!(ledger.total([tally(0, 0, 0)].iter()).is_none());
        let total = ledger.total([tally(2, 1, 30), tally(3, 4, 50)].iter());
        let total = total.unwrap();
        assert_eq!(total.retries, 5);
        assert_eq!((total.in_doubt.batches, total.in_doubt.rows), (5, 80));
    }
}
