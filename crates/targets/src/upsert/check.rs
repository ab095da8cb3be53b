//! After the clock: is every acknowledged row there, once?

use super::work::{sums, Builder, Work};
use crate::{ColumnSum, Doubt, Sums, Tally, Verification, MAX_SUMS};
use venturi_base::data::upsert::key_hashes;
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
    effect: Effect,
    before: &Found,
    after: &Found,
    tallies: &[Tally],
    requested: Verify,
) -> Result<Verification> {
    let mut doubt = Doubt::default();
    let mut acknowledged: Sums = [0; MAX_SUMS];
    for tally in tallies {
        doubt.batches += tally.doubt.batches;
        doubt.rows += tally.doubt.rows;
        add(&mut doubt.sums, &tally.doubt.sums);
        add(&mut acknowledged, &tally.sums);
    }
    let keys = Keys::of(work)?;
    if effect == Effect::Overwrite {
        acknowledged = keys.sums;
        doubt.sums = keys.doubtful_sums;
    }
    let fresh = before.keys == 0;
    let mut wrong = Vec::new();
    let (least, most) = match fresh {
        true => (keys.distinct, keys.distinct + keys.doubtful),
        // Some of them may have been there before.
        false => (before.keys, before.keys + keys.distinct + keys.doubtful),
    };
    if !(least..=most).contains(&after.keys) {
        wrong.push(format!(
            "{} rows are there, {} were acknowledged",
            after.keys,
            between(least.into(), most.into())
        ));
    }
    // Where rows with one key overwrite one another, which one came last is not known.
    let comparable = effect == Effect::Add || (fresh && !keys.repeated);
    let checked = requested == Verify::Checksum && comparable && !work.table.add.is_empty();
    let mut columns = Vec::new();
    for (at, &column) in work.table.add.iter().enumerate() {
        let Some(found) = after.sums.get(at).filter(|_| checked) else {
            continue;
        };
        let found = found - before.sums.get(at).copied().unwrap_or(0);
        let (low, high) = range(acknowledged[at], doubt.sums[at]);
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
            in_doubt: doubt.sums[at].to_string(),
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
        achieved: if whole { "sums" } else { "count" },
        expected_rows: fresh.then_some(keys.distinct),
        rows: after.keys,
        expected_checksum: None,
        checksum: None,
        sums: (!columns.is_empty()).then_some(columns),
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

/// The distinct keys of a trial's batches.
struct Keys {
    distinct: u64,
    /// Keys that only batches in doubt have.
    doubtful: u64,
    /// A key is in more than one row of the working set.
    repeated: bool,
    /// Over the rows that were acknowledged at least once, each counted once.
    sums: Sums,
    doubtful_sums: Sums,
}

impl Keys {
    fn of<B: Builder>(work: &Work<B>) -> Result<Self> {
        let (acknowledged, doubtful) = work.seen();
        let collect = |batches: &[u64]| -> Result<(Vec<u64>, Sums)> {
            let mut hashes = Vec::new();
            let mut total = [0; MAX_SUMS];
            for &index in batches {
                let rows = work.batches.get(index)?;
                hashes.extend(key_hashes(&work.table, &rows)?);
                add(&mut total, &sums(&work.table, &rows)?);
            }
            Ok((hashes, total))
        };
        let (mut hashes, sums) = collect(&acknowledged)?;
        let rows = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        let (mut others, doubtful_sums) = collect(&doubtful)?;
        others.sort_unstable();
        others.dedup();
        let new = others
            .iter()
            .filter(|hash| hashes.binary_search(hash).is_err())
            .count();
        Ok(Self {
            distinct: hashes.len() as u64,
            doubtful: new as u64,
            repeated: hashes.len() < rows,
            sums,
            doubtful_sums,
        })
    }
}

fn add(to: &mut Sums, more: &Sums) {
    for (to, more) in to.iter_mut().zip(more) {
        *to += more;
    }
}

/// From nothing in doubt being there to all of it, which may be negative.
fn range(sure: i128, doubtful: i128) -> (i128, i128) {
    (sure + doubtful.min(0), sure + doubtful.max(0))
}

fn between(low: i128, high: i128) -> String {
    match low == high {
        true => low.to_string(),
        false => format!("{low} to {high}"),
    }
}
