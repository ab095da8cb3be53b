//! Rows that are read back: the question for some keys, and whether an answer is what was sent.
//!
//! Text and bytes come back in hexadecimal digits, so that nothing on the way can read them in
//! another way than the statement that wrote them.

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use super::{ddl, plain, Dialect, Rows};
use crate::data::upsert::Table;
use crate::data::view::Values;
use crate::error::Result;

impl Dialect {
    /// The rows whose keys these have, all columns as text.
    pub fn select_back(self, table: &Table, rows: &RecordBatch) -> Result<String> {
        let columns: Vec<String> = (0..table.schema.fields().len())
            .map(|at| self.back(table, at))
            .collect();
        let mut select = format!(
            "SELECT {} FROM {} WHERE ",
            columns.join(", "),
            self.quoted(&table.name)
        )
        .into_bytes();
        let mut values = Rows::new(self, table, rows)?;
        for row in 0..rows.num_rows() {
            if row > 0 {
                select.extend_from_slice(b" OR ");
            }
            for (at, &key) in table.key.iter().enumerate() {
                select.extend_from_slice(if at > 0 { b" AND " } else { b"(" });
                select.extend_from_slice(self.quoted(table.column(key)).as_bytes());
                select.extend_from_slice(b" = ");
                values.literal(key, row, &mut select)?;
            }
            select.push(b')');
        }
        Ok(String::from_utf8_lossy(&select).into_owned())
    }

    /// Whether a key of this table is found by its literal. A MySQL `float` is not.
    pub fn finds_keys(self, table: &Table) -> bool {
        let exact = |at: &usize| !plain(table.data_type(*at)).is_floating();
        table.key.iter().all(exact)
    }

    fn back(self, table: &Table, at: usize) -> String {
        let column = self.quoted(table.column(at));
        let kind = plain(table.data_type(at));
        match (self, kind) {
            (Dialect::MySql, kind) if ddl::is_text(kind) => {
                format!("HEX(CONVERT({column} USING utf8mb4))")
            }
            (Dialect::Postgres, kind) if ddl::is_text(kind) => {
                format!("encode(convert_to(CAST({column} AS text), 'UTF8'), 'hex')")
            }
            (Dialect::Postgres, kind) if ddl::is_bytes(kind) => format!("encode({column}, 'hex')"),
            (Dialect::Sqlite, kind) if ddl::is_text(kind) || ddl::is_bytes(kind) => {
                // hex(NULL) is an empty text.
                format!("CASE WHEN {column} IS NOT NULL THEN hex(CAST({column} AS BLOB)) END")
            }
            (_, kind) if ddl::is_text(kind) || ddl::is_bytes(kind) => format!("hex({column})"),
            // Its own text of a `float` has six digits.
            (Dialect::MySql, DataType::Float16 | DataType::Float32) => {
                format!("CAST({column} + 0e0 AS CHAR)")
            }
            (Dialect::Sqlite, kind) if kind.is_floating() => {
                format!("CASE WHEN {column} IS NOT NULL THEN printf('%!.17g', {column}) END")
            }
            (Dialect::Postgres, DataType::Timestamp(_, zone)) => {
                let at = if zone.is_some() {
                    " AT TIME ZONE 'UTC'"
                } else {
                    ""
                };
                format!("to_char({column}{at}, 'YYYY-MM-DD HH24:MI:SS.US')")
            }
            (Dialect::Postgres, DataType::Date32 | DataType::Date64) => {
                format!("to_char({column}, 'YYYY-MM-DD')")
            }
            (Dialect::DuckDb, DataType::Timestamp(_, Some(_))) => {
                format!("CAST(make_timestamp(epoch_us({column})) AS VARCHAR)")
            }
            _ => format!("CAST({column} AS {})", self.text()),
        }
    }
}

impl Rows {
    /// Whether a value that was read back is the one of this row.
    pub fn is_same(&mut self, column: usize, row: usize, found: Option<&str>) -> Result<bool> {
        let view = self.view(column);
        let Some(found) = found.filter(|_| !view.is_null(row)) else {
            return Ok(view.is_null(row) && found.is_none());
        };
        let number = || found.parse::<f64>().ok();
        Ok(match &view.values {
            Values::Text(values) => is_hex_of(found, values.value(row).as_bytes()),
            Values::Bytes(values) => is_hex_of(found, values.value(row)),
            Values::Boolean(values) => match found {
                "1" | "t" | "true" => values.value(row),
                "0" | "f" | "false" => !values.value(row),
                _ => false,
            },
            Values::Float32(values) => {
                let sent = values[row];
                number()
                    .is_some_and(|found| found as f32 == sent || found.is_nan() && sent.is_nan())
            }
            Values::Float64(values) => {
                let sent = values[row];
                number().is_some_and(|found| found == sent || found.is_nan() && sent.is_nan())
            }
            _ => {
                let mut sent = Vec::new();
                self.text(column, row, &mut sent)?;
                let sent = String::from_utf8_lossy(&sent);
                short(&sent) == short(found)
            }
        })
    }
}

/// A number or a time without zeros at its end that say nothing, and without the zone UTC.
fn short(text: &str) -> &str {
    let text = text.strip_suffix("+00").unwrap_or(text);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

fn is_hex_of(found: &str, sent: &[u8]) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = found.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? * 16 + digit(pair[1])?);
    pairs.1.is_empty()
        && pairs
            .0
            .iter()
            .map(byte)
            .eq(sent.iter().map(|byte| Some(u32::from(*byte))))
}
