//! What the table holds: read in ranges of tokens, page by page, so that no single request is
//! long, however many rows there are.

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

use super::errors;
use super::schema::Layout;
use crate::upsert::Found;
use crate::Verification;
use venturi_base::error::{Error, Kind, Result};

/// Rows of one answer.
pub const PAGE: i32 = 5000;
const RANGES: i128 = 64;
/// Ranges that are read at a time.
pub const AT_A_TIME: usize = 4;

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
        .map_err(|error| errors::of_prepare(place, &error))?;
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
            let found = found.map_err(|failed| failed.told(place))?;
            let note = "not all replicas are up, so the table was read at consistency ONE: rows that a replica missed may be missing"
                .to_owned();
            Ok((found, Some(note)))
        }
        found => Ok((found.map_err(|failed| failed.told(place))?, None)),
    }
}

/// Takes a mismatch back, as replicas that are asked one by one may know different rows.
pub fn unjudged(found: &mut Verification, level: Consistency) {
    if let Some(mismatch) = found.mismatch.take() {
        found.achieved = "none";
        let level = errors::level(level);
        found.add_notes([format!(
            "not judged, as replicas may differ at consistency {level}: {mismatch}"
        )]);
    }
}

pub enum Failed {
    Driver(ExecutionError),
    Own(Error),
}

impl Failed {
    pub fn told(self, place: &str) -> Error {
        match self {
            Self::Driver(error) => errors::of_execution(place, &error, errors::Written::default()),
            Self::Own(error) => error,
        }
    }

    pub fn strange(error: impl std::fmt::Display) -> Self {
        let text = format!("a row cannot be read: {}", errors::line(error));
        Self::Own(Error::new(Kind::Protocol, text))
    }
}

/// Rows, and sums of their first columns.
pub async fn scan(
    session: &Session,
    prepared: &PreparedStatement,
    ranges: bool,
    width: usize,
) -> std::result::Result<Found, Failed> {
    let read = |bound: Vec<i64>| range(session, prepared, bound, width);
    let parts: Vec<Vec<i64>> = match ranges {
        true => tokens().map(|(from, to)| vec![from, to]).collect(),
        false => vec![Vec::new()],
    };
    let empty = Found {
        sums: vec![0; width],
        ..Found::default()
    };
    stream::iter(parts)
        .map(read)
        .buffer_unordered(AT_A_TIME)
        .try_fold(empty, |mut all, part| async move {
            all.keys += part.keys;
            for (sum, more) in all.sums.iter_mut().zip(part.sums) {
                *sum += more;
            }
            Ok(all)
        })
        .await
}

/// The whole ring, both ends of each range included.
pub fn tokens() -> impl Iterator<Item = (i64, i64)> {
    let edge = |at: i128| i128::from(i64::MIN) + (1i128 << 64) * at / RANGES;
    (0..RANGES).map(move |at| (edge(at) as i64, (edge(at + 1) - 1) as i64))
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
        let rows = answer.into_rows_result().map_err(Failed::strange)?;
        for columns in rows.rows::<ColumnIterator>().map_err(Failed::strange)? {
            found.keys += 1;
            let columns = columns.map_err(Failed::strange)?;
            for (sum, column) in found.sums.iter_mut().zip(columns) {
                let column = column.map_err(Failed::strange)?;
                // A counter that was never added to, or a null: nothing.
                if let Some(value) = column.slice {
                    *sum += integer(value.as_slice()).ok_or_else(|| {
                        Failed::strange("a sum is not an integer of at most 16 bytes")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_are_the_ring() {
        let all: Vec<_> = tokens().collect();
        assert_eq!(all.first().unwrap().0, i64::MIN);
        assert_eq!(all.last().unwrap().1, i64::MAX);
        assert!(all.iter().all(|(from, to)| from < to));
        assert!(all.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
    }

    #[test]
    fn integers_of_all_widths() {
        assert_eq!(integer(&[0xff]), Some(-1));
        assert_eq!(integer(&300i16.to_be_bytes()), Some(300));
        assert_eq!(integer(&i64::MIN.to_be_bytes()), Some(i64::MIN.into()));
        assert_eq!(integer(&[]), None);
        assert_eq!(integer(&i128::MIN.to_be_bytes()), Some(i128::MIN));
        assert_eq!(integer(&[0; 17]), None);
    }
}
