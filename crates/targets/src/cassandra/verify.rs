//! What the server has: rows and sums of a table or a query, its size, the server's thresholds. A table is
//! read in ranges of tokens, page by page, so that no single request is long, however many rows there are.

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use scylla::client::session::Session;
use scylla::deserialize::row::ColumnIterator;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::retry::DefaultRetryPolicy;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};

use super::connect::query_one;
use super::dialect::{pieces, Layout};
use super::errors;
use crate::read::{wrapped, Baseline, Summed};
use crate::upsert::Found;
use crate::{Sums, Verification};
use venturi_base::error::{Error, Kind, Result};

/// Rows of one answer.
const PAGE: i32 = 5000;
const RANGES: usize = 64;
/// Ranges that are read at a time.
const AT_A_TIME: usize = 4;

/// Counts the rows and adds up the added columns, as all replicas together know them. A note
/// where not all of them can be asked.
pub async fn count(
    session: &Session,
    place: &str,
    layout: &Layout,
    ranges: bool,
) -> Result<(Found, Option<String>)> {
    let prepared = session.prepare(Statement::new(layout.scan(ranges)).with_page_size(PAGE));
    let mut prepared = prepared
        .await
        .map_err(|error| errors::prepare_error(place, &error))?;
    prepared.set_is_idempotent(true);
    prepared.set_retry_policy(Some(Arc::new(DefaultRetryPolicy::new())));
    prepared.set_consistency(Consistency::All);
    let width = layout.table.add.len();
    match scan(session, &prepared, ranges, width).await {
        Err(Failed::Driver(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Unavailable { .. },
            _,
        )))) => {
            prepared.set_consistency(Consistency::One);
            let found = scan(session, &prepared, ranges, width).await;
            let found = found.map_err(|failed| failed.into_error(place))?;
            let note = "not all replicas are up, so the table was read at consistency ONE: rows that a replica missed may be missing"
                .to_owned();
            Ok((found, Some(note)))
        }
        found => Ok((found.map_err(|failed| failed.into_error(place))?, None)),
    }
}

/// Takes a mismatch back, as replicas that are asked one by one may know different rows.
pub fn unjudged(found: &mut Verification, level: Consistency) {
    if let Some(mismatch) = found.mismatch.take() {
        found.achieved = "none";
        let level = errors::level_name(level);
        found.add_notes([format!(
            "not judged, as replicas may differ at consistency {level}: {mismatch}"
        )]);
    }
}

enum Failed {
    Driver(ExecutionError),
    Own(Error),
}

impl Failed {
    fn into_error(self, place: &str) -> Error {
        match self {
            Self::Driver(error) => {
                errors::execution_error(place, &error, errors::Written::default())
            }
            Self::Own(error) => error,
        }
    }

    fn broken(error: impl std::fmt::Display) -> Self {
        let text = format!("a row cannot be read: {}", errors::one_line(error));
        Self::Own(Error::new(Kind::Protocol, text))
    }
}

/// Rows, and sums of their first columns.
async fn scan(
    session: &Session,
    prepared: &PreparedStatement,
    ranges: bool,
    width: usize,
) -> std::result::Result<Found, Failed> {
    let empty = Found {
        sums: vec![0; width],
        ..Found::default()
    };
    let read = |bound| range(session, prepared, bound, width);
    over_ranges(ranges, empty, read, |all, part: Found| {
        all.keys += part.keys;
        for (sum, more) in all.sums.iter_mut().zip(part.sums) {
            *sum += more;
        }
    })
    .await
}

/// Reads all ranges of tokens, some at a time.
async fn over_ranges<T, F>(
    ranges: bool,
    empty: T,
    read: impl FnMut(Vec<i64>) -> F,
    add: impl Fn(&mut T, T),
) -> std::result::Result<T, Failed>
where
    F: Future<Output = std::result::Result<T, Failed>>,
{
    let parts: Vec<Vec<i64>> = match ranges {
        true => {
            let pieces = pieces(RANGES, &[]).concat().into_iter();
            let tokens = pieces.filter_map(|piece| piece.tokens);
            tokens.map(|(low, high)| vec![low, high]).collect()
        }
        false => vec![Vec::new()],
    };
    stream::iter(parts)
        .map(read)
        .buffer_unordered(AT_A_TIME)
        .try_fold(empty, |mut all, part| {
            add(&mut all, part);
            std::future::ready(Ok(all))
        })
        .await
}

async fn range(
    session: &Session,
    prepared: &PreparedStatement,
    bound: Vec<i64>,
    width: usize,
) -> std::result::Result<Found, Failed> {
    let mut found = Found {
        sums: vec![0; width],
        ..Found::default()
    };
    let mut state = PagingState::start();
    loop {
        let page = session.execute_single_page(prepared, &bound, state).await;
        let (answer, more) = page.map_err(Failed::Driver)?;
        let rows = answer.into_rows_result().map_err(Failed::broken)?;
        for columns in rows.rows::<ColumnIterator>().map_err(Failed::broken)? {
            found.keys += 1;
            let columns = columns.map_err(Failed::broken)?;
            for (sum, column) in found.sums.iter_mut().zip(columns) {
                let column = column.map_err(Failed::broken)?;
                // A counter that was never added to, or a null: nothing.
                if let Some(value) = column.slice {
                    *sum += integer(value.as_slice()).ok_or_else(|| {
                        Failed::broken("a sum is not an integer of at most 16 bytes")
                    })?;
                }
            }
        }
        match more.into_paging_control_flow() {
            ControlFlow::Continue(next) => state = next,
            ControlFlow::Break(()) => return Ok(found),
        }
    }
}

/// Of 1 to 16 bytes, signed, the highest first: an integer, or a varint that is not too long.
pub fn integer(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first().filter(|_| bytes.len() <= 16)?;
    let start = i128::from(first as i8);
    let rest = bytes[1..].iter();
    Some(rest.fold(start, |number, byte| number << 8 | i128::from(*byte)))
}

/// `ranges`: two tokens are bound to the statement. `summed`: what the statement selects, of a table.
pub async fn totals(
    driver: &Session,
    place: &str,
    text: &str,
    ranges: bool,
    summed: Option<&Summed>,
    consistency: Consistency,
) -> Result<Baseline> {
    let prepared = driver
        .prepare(Statement::new(text).with_page_size(PAGE))
        .await;
    let mut prepared = prepared.map_err(|error| errors::prepare_error(place, &error))?;
    prepared.set_is_idempotent(true);
    prepared.set_consistency(consistency);
    let found = match summed {
        None => scan(driver, &prepared, ranges, 0)
            .await
            .map(|found| Baseline {
                rows: found.keys,
                ..Baseline::default()
            }),
        Some(summed) => sums(driver, &prepared, ranges, summed.columns.len()).await,
    };
    found.map_err(|failed| {
        let error = failed.into_error(place);
        let said = "while its rows were counted (verify = none leaves that out)";
        Error {
            message: format!("{}: {said}", error.message),
            ..error
        }
    })
}

async fn sums(
    driver: &Session,
    prepared: &PreparedStatement,
    ranges: bool,
    width: usize,
) -> std::result::Result<Baseline, Failed> {
    let read = |bound| range_sums(driver, prepared, bound, width);
    over_ranges(ranges, Baseline::default(), read, |all, part: Baseline| {
        all.rows += part.rows;
        for (sum, more) in all.sums.iter_mut().zip(part.sums) {
            *sum = wrapped(*sum + more);
        }
    })
    .await
}

/// One range's count and sums.
async fn range_sums(
    driver: &Session,
    prepared: &PreparedStatement,
    bound: Vec<i64>,
    width: usize,
) -> std::result::Result<Baseline, Failed> {
    let start = PagingState::start();
    let answer = driver.execute_single_page(prepared, &bound, start).await;
    let (answer, _) = answer.map_err(Failed::Driver)?;
    let rows = answer.into_rows_result().map_err(Failed::broken)?;
    let row = rows.first_row::<ColumnIterator>().map_err(Failed::broken)?;
    let mut values = Vec::with_capacity(1 + width);
    for column in row {
        let column = column.map_err(Failed::broken)?;
        // The sum of no rows is null in some versions.
        let value = column
            .slice
            .map_or(Some(0), |value| integer(value.as_slice()));
        values.push(value.ok_or_else(|| Failed::broken("a sum that is no integer"))?);
    }
    let mut values = values.into_iter();
    let rows = values.next().and_then(|rows| u64::try_from(rows).ok());
    let rows = rows.ok_or_else(|| Failed::broken("a count that is none"))?;
    let mut sums = Sums::default();
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = wrapped(value);
    }
    Ok(Baseline {
        rows,
        sums,
        checksum: None,
    })
}

/// Bytes of the table on disk, as the node that is asked knows it; what is in memory yet does
/// not count. `None`: unknown, or nothing written to disk.
pub async fn stored_bytes(session: &Session, layout: &Layout) -> Option<u64> {
    let cql =
        "SELECT mebibytes FROM system_views.disk_usage WHERE keyspace_name = ? AND table_name = ?";
    let names = [layout.keyspace.as_str(), layout.table.name.as_str()];
    let found = query_one::<(i64,)>(session, cql, &names)
        .await
        .ok()
        .flatten();
    found.and_then(|(mebibytes,)| (mebibytes > 0).then_some((mebibytes as u64) << 20))
}

/// A threshold as the server writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub value: String,
    /// In bytes.
    pub bytes: Option<u64>,
}

/// From which size on batches are refused.
pub async fn batch_size_fail_threshold(session: &Session) -> Option<Setting> {
    // Since Cassandra 4.1, with a unit; before it, and at ScyllaDB, in KiB.
    const NAMES: [&str; 2] = [
        "batch_size_fail_threshold",
        "batch_size_fail_threshold_in_kb",
    ];
    for table in ["system_views.settings", "system.config"] {
        for name in NAMES {
            let cql = format!("SELECT value FROM {table} WHERE name = ?");
            if let Ok(Some((value,))) = query_one::<(String,)>(session, &cql, &[name]).await {
                let bytes = threshold_bytes(&value, name == NAMES[1]);
                return Some(Setting {
                    name: name.to_owned(),
                    value,
                    bytes,
                });
            }
        }
    }
    None
}

pub fn threshold_bytes(value: &str, in_kib: bool) -> Option<u64> {
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = value[..value.len() - unit.len()].parse().ok()?;
    Some(match (unit.trim(), in_kib) {
        ("", true) | ("KiB", _) => number << 10,
        ("", false) | ("B", _) => number,
        ("MiB", _) => number << 20,
        ("GiB", _) => number << 30,
        _ => return None,
    })
}
