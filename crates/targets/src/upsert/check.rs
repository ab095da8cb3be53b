//! After the clock: is every acknowledged row there, once?

use super::work::{sums, Builder, Work};
use crate::{add, ColumnSum, Sums, Tally, Verification, MAX_SUMS};
use venturi_base::data::upsert::{key_hashes, Table};
use venturi_base::error::Result;
use venturi_base::spec::Verify;

/// What a target holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Rows, that is distinct keys.
    pub keys: u64,
    /// Of the added columns, in the table's order.
    pub sums: Vec<i128>,
    pub stored_bytes: Option<u64>,
    /// Why rows with different keys may meet: the table is not one that Venturi made.
    pub meet: Option<String>,
}

/// What a second upsert of the same key does to an added column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Add,
    /// The last one wins; with the same row again, nothing changes.
    Overwrite,
}

/// Compares what is there (`after`) with what was there (`before`) and what was acknowledged.
/// Without sums in `after` (there are none, or they were not asked for) only keys are compared.
pub fn compare<B: Builder>(
    work: &Work<B>,
    keys: &Written,
    effect: Effect,
    before: &Found,
    after: &Found,
    tallies: &[Tally],
    requested: Verify,
) -> Result<Verification> {
    let total = tallies
        .iter()
        .fold(Tally::default(), |total, tally| total.plus(tally));
    let (mut acknowledged, mut doubt) = (total.sums, total.doubt);
    if effect == Effect::Overwrite {
        acknowledged = keys.sums;
        (doubt.least, doubt.most) = keys.doubtful_sums;
    }
    let fresh = before.keys == 0;
    let mut wrong = Vec::new();
    // Some of them may have been there before.
    let most = before.keys + keys.distinct + keys.doubtful;
    let least = match before.meet {
        None => before.keys.max(keys.distinct),
        // That is what the server decides.
        Some(_) => before.keys.max(keys.distinct.min(1)),
    };
    if !(least..=most).contains(&after.keys) {
        wrong.push(format!(
            "{} rows are there, {} were acknowledged",
            after.keys,
            between(least.into(), most.into())
        ));
    }
    // Where rows with one key overwrite one another, which one came last is not known.
    let comparable = effect == Effect::Add || (fresh && !keys.repeated && before.meet.is_none());
    let checked = requested == Verify::Checksum && comparable && !work.table.add.is_empty();
    let mut columns = Vec::new();
    for (at, &column) in work.table.add.iter().enumerate() {
        let Some(found) = after.sums.get(at).filter(|_| checked) else {
            continue;
        };
        let found = found - before.sums.get(at).copied().unwrap_or(0);
        let (low, high) = (
            acknowledged[at] + doubt.least[at],
            acknowledged[at] + doubt.most[at],
        );
        let name = work.table.column(column);
        if !(low..=high).contains(&found) {
            wrong.push(format!(
                "the sum of {name} is {found}, {} was acknowledged",
                between(low, high)
            ));
        }
        columns.push(ColumnSum {
            column: name.to_owned(),
            expected: acknowledged[at].to_string(),
            in_doubt: match (doubt.least[at], doubt.most[at]) {
                (0, sum) | (sum, 0) => sum.to_string(),
                (least, most) => between(least, most),
            },
            found: found.to_string(),
        });
    }
    let mut notes = Vec::new();
    if doubt.batches > 0 {
        notes.push(format!(
            "{} batches ({} rows) are in doubt",
            doubt.batches, doubt.rows
        ));
    }
    if !fresh {
        notes.push(format!("{} rows were there before", before.keys));
    }
    if let Some(why) = &before.meet {
        notes.push(format!("{why}, so the rows were not counted by their keys"));
    }
    let whole = columns.len() == work.table.add.len() && !columns.is_empty();
    if requested == Verify::Checksum && !whole {
        notes.push(
            match work.table.add.is_empty() {
                true => "no column is added, so there is no sum to compare",
                false => "the sums could not be compared",
            }
            .to_owned(),
        );
    }
    Ok(Verification {
        requested,
        achieved: match (whole, &before.meet) {
            (true, _) => "sums",
            (false, None) => "count",
            (false, Some(_)) => "acknowledged",
        },
        expected_rows: (fresh && before.meet.is_none()).then_some(keys.distinct),
        rows: after.keys,
        expected_checksum: None,
        checksum: None,
        sums: (!columns.is_empty()).then_some(columns),
        read_back: None,
        stored_bytes: after.stored_bytes,
        note: (!notes.is_empty()).then(|| notes.join("; ")),
        mismatch: (!wrong.is_empty()).then(|| wrong.join("; ")),
    })
}

/// What is told where rows of one batch had the same key; None: no row had another one's.
pub fn merged_note(rows: u64, system: &str) -> Option<String> {
    (rows > 0).then(|| {
        format!(
            "{rows} rows of the file had the key of another one in their batch and were merged \
             with it, for {system} takes a key once a statement"
        )
    })
}

/// What is told where a system cannot be asked for rows; None: no column is overwritten.
pub fn unread_note(table: &Table, requested: Verify) -> Option<String> {
    let overwritten = requested == Verify::Checksum && !table.set().is_empty();
    overwritten.then(|| "what the overwritten columns hold was not read back".into())
}

/// The keys of a trial's batches, and the sums over them.
pub struct Written {
    /// Of all rows that were acknowledged, and of those that are only in doubt, sorted.
    acknowledged: Vec<u64>,
    others: Vec<u64>,
    distinct: u64,
    /// Keys that only batches in doubt have.
    doubtful: u64,
    /// A key is in more than one row that was written, or may have been.
    repeated: bool,
    /// Over the rows that were acknowledged at least once, each counted once.
    sums: Sums,
    /// Over those of batches that are only in doubt: below zero, and above.
    doubtful_sums: (Sums, Sums),
}

impl Written {
    pub fn of<B: Builder>(work: &Work<B>) -> Result<Self> {
        let (acknowledged, doubtful) = work.seen();
        let collect = |batches: &[u64]| -> Result<(Vec<u64>, Sums, Sums)> {
            let mut hashes = Vec::new();
            let (mut least, mut most) = ([0; MAX_SUMS], [0; MAX_SUMS]);
            for &index in batches {
                let rows = work.batches.get(index)?;
                hashes.extend(key_hashes(&work.table, &rows)?);
                let (below, above) = sums(&work.table, &rows)?;
                add(&mut least, &below);
                add(&mut most, &above);
            }
            Ok((hashes, least, most))
        };
        let (mut hashes, mut sums, above) = collect(&acknowledged)?;
        add(&mut sums, &above);
        let (mut others, least, most) = collect(&doubtful)?;
        let rows = hashes.len() + others.len();
        hashes.sort_unstable();
        others.sort_unstable();
        let distinct = hashes.chunk_by(|a, b| a == b).count();
        let new = others
            .chunk_by(|a, b| a == b)
            .filter(|same| hashes.binary_search(&same[0]).is_err())
            .count();
        Ok(Self {
            acknowledged: hashes,
            others,
            distinct: distinct as u64,
            doubtful: new as u64,
            repeated: distinct + new < rows,
            sums,
            doubtful_sums: (least, most),
        })
    }

    pub(super) fn any(&self) -> bool {
        self.distinct > 0
    }

    /// Whether no more than one row has this key.
    pub(super) fn once(&self, hash: u64) -> bool {
        let rows = |all: &[u64]| {
            all.partition_point(|other| *other <= hash) - all.partition_point(|other| *other < hash)
        };
        rows(&self.acknowledged) + rows(&self.others) == 1
    }
}

fn between(low: i128, high: i128) -> String {
    match low == high {
        true => low.to_string(),
        false => format!("{low} to {high}"),
    }
}
