//! A sample of the rows, read back after the clock and held against what was sent last: sums do
//! not tell what overwritten columns and keys hold.

use arrow_array::RecordBatch;

use super::check::Written;
use super::work::{sums, Builder, Work};
use crate::sql::{Dialect, Rows};
use crate::Verification;
use venturi_base::data::upsert::{key_hashes, Table};
use venturi_base::data::{one_piece, payload_bytes};
use venturi_base::error::Result;
use venturi_base::spec::Verify;

/// Rows of a sample, and bytes of payload, at most.
const ROWS: usize = 256;
const BYTES: u64 = 1 << 20;

/// An answer's rows, as text.
pub type Found = Vec<Vec<Option<String>>>;

/// Reads a sample back by `ask`, a question to the database. `own`: the table's columns are
/// those that Venturi gave it, and it was empty before.
pub async fn read_back<B: Builder>(
    made: &mut Verification,
    work: &Work<B>,
    written: &Written,
    dialect: &'static Dialect,
    own: bool,
    ask: impl AsyncFnOnce(String) -> Result<Found>,
) -> Result<()> {
    if made.requested != Verify::Checksum {
        return Ok(());
    }
    let table = &work.table;
    let mut unread = |why: String| made.add_notes([format!("no rows were read back: {why}")]);
    if !dialect.finds_keys(table) {
        unread("a key with a fraction is not found by its text".into());
        return Ok(());
    }
    let sample = sample(work, written)?;
    if sample.num_rows() == 0 {
        if written.any() {
            unread("no row that was looked at has a key of its own".into());
        }
        return Ok(());
    }
    let found = match ask(dialect.select_back(table, &sample)?).await {
        Ok(found) => found,
        // Not every server or type can be read so; counts and sums still hold.
        Err(error) if error.code.is_some() => {
            unread(error.message);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let Some(wrong) = differing(dialect, table, &sample, found, own)? else {
        made.read_back = Some(sample.num_rows() as u64);
        return Ok(());
    };
    match own {
        true => {
            let all = made.mismatch.take().into_iter().chain([wrong]);
            made.mismatch = Some(all.collect::<Vec<_>>().join("; "));
        }
        false => made.add_notes([format!(
            "{wrong} (Venturi did not make the table: its types may hold less)"
        )]),
    }
    Ok(())
}

/// Acknowledged rows from all over the working set whose keys no other row has.
fn sample<B: Builder>(work: &Work<B>, written: &Written) -> Result<RecordBatch> {
    let (batches, _) = work.seen();
    let taken = batches.len().min(ROWS);
    let each = ROWS.checked_div(taken).unwrap_or(0);
    let mut parts = Vec::new();
    let mut bytes = 0;
    for at in 0..taken {
        let rows = work.batches.get(batches[at * batches.len() / taken])?;
        let hashes = key_hashes(&work.table, &rows)?;
        let count = each.min(rows.num_rows());
        for row in (0..count).map(|at| at * rows.num_rows() / count) {
            if written.once(hashes[row]) && (parts.is_empty() || bytes < BYTES) {
                let row = rows.slice(row, 1);
                bytes += payload_bytes(&row);
                parts.push(row);
            }
        }
    }
    one_piece(&work.table.schema, &parts)
}

/// What is not there as it was sent.
fn differing(
    dialect: &'static Dialect,
    table: &Table,
    sample: &RecordBatch,
    mut found: Found,
    own: bool,
) -> Result<Option<String>> {
    let mut sent = Rows::new(dialect, table, sample)?;
    let (mut count, mut first) = (0, None);
    for row in 0..sample.num_rows() {
        let mut of_key = None;
        for (at, values) in found.iter().enumerate() {
            if other(&mut sent, row, values, &table.key)?.is_none() {
                of_key = Some(at);
                break;
            }
        }
        let differs = match of_key.map(|at| found.remove(at)) {
            None => Some("is not there".to_owned()),
            Some(values) => {
                let mut wrong = other(&mut sent, row, &values, &table.set())?;
                if own {
                    let (least, most) = sums(table, &sample.slice(row, 1))?;
                    let added = table.add.iter().zip(least.iter().zip(&most));
                    let mut added = added.map(|(at, (least, most))| (*at, least + most));
                    let is_wrong =
                        |&(at, value): &(usize, i128)| !is_multiple(cell(&values, at), value);
                    wrong = wrong.or_else(|| added.find(is_wrong).map(|(at, _)| at));
                }
                wrong.map(|at| format!("has another {}", table.column(at)))
            }
        };
        let Some(differs) = differs else { continue };
        count += 1;
        if first.is_none() {
            let mut key = Vec::new();
            for &at in &table.key {
                if !key.is_empty() {
                    key.extend_from_slice(b", ");
                }
                sent.text(at, row, &mut key)?;
            }
            let key: String = String::from_utf8_lossy(&key).chars().take(100).collect();
            first = Some(format!("the one with the key {key:?} {differs}"));
        }
    }
    Ok(first.map(|first| {
        let rows = sample.num_rows();
        format!("of {rows} rows that were read back {count} are not as they were sent: {first}")
    }))
}

fn cell(values: &[Option<String>], at: usize) -> Option<&str> {
    values.get(at).and_then(Option::as_deref)
}

/// The first of these columns that holds another value.
fn other(
    sent: &mut Rows,
    row: usize,
    values: &[Option<String>],
    columns: &[usize],
) -> Result<Option<usize>> {
    for &at in columns {
        if !sent.is_same(at, row, cell(values, at))? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Whether a column that is added up holds its row's value once or several times.
fn is_multiple(found: Option<&str>, value: i128) -> bool {
    let found = found.map_or(Some(0), |found| found.parse::<i128>().ok());
    found.is_some_and(|found| match value {
        0 => found == 0,
        value => found % value == 0 && found / value >= 1,
    })
}

#[cfg(test)]
mod tests {
    use crate::mysql::dialect::MYSQL;
    use arrow_array::{Int64Array, StringArray};
    use venturi_testkit::arrow::{array, batch};
    use venturi_testkit::{assert_contains, roles};

    use super::*;

    #[test]
    fn rows_that_are_not_as_they_were_sent() {
        let rows = batch([
            ("k", array(Int64Array::from(vec![1, 2]))),
            ("n", array(Int64Array::from(vec![3, -4]))),
            ("s", array(StringArray::from(vec![Some("\\"), None]))),
        ]);
        let table = Table::new("t", rows.schema(), &roles(&["k"], &["n"])).unwrap();
        let wrong = |found: [[Option<&str>; 3]; 2]| {
            let found = found.map(|row| row.map(|cell| cell.map(str::to_owned)).to_vec());
            differing(MYSQL, &table, &rows, found.to_vec(), true).unwrap()
        };
        let first = [Some("1"), Some("3"), Some("5C")];
        let second = [Some("2"), Some("-12"), None];
        assert_eq!(wrong([first, second]), None);
        assert_eq!(wrong([second, first]), None);
        for (other, said) in [
            (
                [Some("1"), Some("3"), Some("5C5C")],
                "key \"1\" has another s",
            ),
            (
                [Some("1"), Some("4"), Some("5C")],
                "key \"1\" has another n",
            ),
            (
                [Some("1"), Some("-3"), Some("5C")],
                "key \"1\" has another n",
            ),
            ([Some("1"), Some("3"), None], "key \"1\" has another s"),
            ([Some("0"), Some("3"), Some("5C")], "key \"1\" is not there"),
        ] {
            let said_of = wrong([other, second]).unwrap();
            assert_contains(&said_of, "of 2 rows that were read back 1 are not");
            assert_contains(&said_of, said);
        }
    }
}
