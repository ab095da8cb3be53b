//! What Cassandra itself says of the rows, before the clock: their number and sums of a table in ranges of
//! tokens, so that no single request is long; of a query its rows, by the driver, which reads them once.

use futures::stream::{self, StreamExt, TryStreamExt};
use scylla::client::session::Session as Driver;
use scylla::deserialize::row::ColumnIterator;
use scylla::response::PagingState;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};

use super::super::count::{integer, scan, tokens, Failed, AT_A_TIME, PAGE};
use super::super::errors;
use crate::read::{wrapped, Summed, There};
use crate::Sums;
use venturi_base::error::{Error, Result};

/// `ranges`: two tokens are bound to the statement. `summed`: what the statement selects, of a table.
pub async fn there(
    driver: &Driver,
    place: &str,
    text: &str,
    ranges: bool,
    summed: Option<&Summed>,
    consistency: Consistency,
) -> Result<There> {
    let prepared = driver
        .prepare(Statement::new(text).with_page_size(PAGE))
        .await;
    let mut prepared = prepared.map_err(|error| errors::of_prepare(place, &error))?;
    prepared.set_is_idempotent(true);
    prepared.set_consistency(consistency);
    let found = match summed {
        None => scan(driver, &prepared, ranges, 0).await.map(|found| There {
            rows: found.keys,
            ..There::default()
        }),
        Some(summed) => sums(driver, &prepared, ranges, summed.columns.len()).await,
    };
    found.map_err(|failed| {
        let error = failed.told(place);
        let said = "while its rows were counted (verify = none leaves that out)";
        Error {
            message: format!("{}: {said}", error.message),
            ..error
        }
    })
}

async fn sums(
    driver: &Driver,
    prepared: &PreparedStatement,
    ranges: bool,
    width: usize,
) -> std::result::Result<There, Failed> {
    let parts: Vec<Vec<i64>> = match ranges {
        true => tokens().map(|(from, to)| vec![from, to]).collect(),
        false => vec![Vec::new()],
    };
    let read = |bound: Vec<i64>| one(driver, prepared, bound, width);
    stream::iter(parts)
        .map(read)
        .buffer_unordered(AT_A_TIME)
        .try_fold(There::default(), |mut all, part| async move {
            all.rows += part.rows;
            for (sum, more) in all.sums.iter_mut().zip(part.sums) {
                *sum = wrapped(*sum + more);
            }
            Ok(all)
        })
        .await
}

/// One range's count and sums.
async fn one(
    driver: &Driver,
    prepared: &PreparedStatement,
    bound: Vec<i64>,
    width: usize,
) -> std::result::Result<There, Failed> {
    let start = PagingState::start();
    let answer = driver.execute_single_page(prepared, &bound, start).await;
    let (answer, _) = answer.map_err(Failed::Driver)?;
    let rows = answer.into_rows_result().map_err(Failed::strange)?;
    let row = rows
        .first_row::<ColumnIterator>()
        .map_err(Failed::strange)?;
    let mut values = Vec::with_capacity(1 + width);
    for column in row {
        let column = column.map_err(Failed::strange)?;
        // The sum of no rows is null in some versions.
        let value = column
            .slice
            .map_or(Some(0), |value| integer(value.as_slice()));
        values.push(value.ok_or_else(|| Failed::strange("a sum that is no integer"))?);
    }
    let mut values = values.into_iter();
    let rows = values.next().and_then(|rows| u64::try_from(rows).ok());
    let rows = rows.ok_or_else(|| Failed::strange("a count that is none"))?;
    let mut sums = Sums::default();
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = wrapped(value);
    }
    Ok(There {
        rows,
        sums,
        checksum: None,
    })
}
