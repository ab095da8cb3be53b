//! Values of a database that Arrow has none for: an error that names the column and what to write instead.

use venturi_base::data::column::Column;
use venturi_base::error::Error;

pub fn infinite(column: &Column, what: &str) -> Error {
    let name = column.name();
    Error::protocol(format!(
        "column {name}: a {what} without an end ('infinity'), which Arrow has no value for: write \
         NULLIF({name}, 'infinity') in a query"
    ))
}

/// A day's end, as some databases write it.
pub fn midnight(column: &Column) -> Error {
    Error::protocol(format!(
        "column {}: the time 24:00:00, which Arrow has no value for: cast it to text in a query",
        column.name()
    ))
}

pub fn out_of_range(column: &Column) -> Error {
    let what = "a time so far away that Arrow has no number for it";
    Error::protocol(format!("column {}: {what}", column.name()))
}

/// A number with more digits than its column has.
pub fn large(column: &Column, number: &str, digits: u8, scale: i8) -> Error {
    Error::protocol(format!(
        "column {}: {number}, which no Decimal128({digits}, {scale}) can be: cast it to text in a query",
        column.name()
    ))
}
