//! Rows that are read back: the question for some keys, and whether an answer is what was sent.
//!
//! Text and bytes come back in hexadecimal digits, so that nothing on the way can read them in
//! another way than the statement that wrote them.

use arrow_array::RecordBatch;

use super::{plain, Dialect, Rows};
use venturi_base::data::upsert::Table;
use venturi_base::data::view::Values;
use venturi_base::error::Result;

impl Dialect {
    /// The rows whose keys these have, all columns as text.
    pub fn select_back(&'static self, table: &Table, rows: &RecordBatch) -> Result<String> {
        let [case, or, end] = self.any;
        let fields = 0..table.schema.fields().len();
        let columns: Vec<_> = fields.map(|at| self.back(table, at)).collect();
        let mut select = format!(
            "SELECT {} FROM {} WHERE {case}",
            columns.join(", "),
            self.quoted(&table.name)
        )
        .into_bytes();
        let mut values = Rows::new(self, table, rows)?;
        for row in 0..rows.num_rows() {
            if row > 0 {
                select.extend_from_slice(or.as_bytes());
            }
            for (at, &key) in table.key.iter().enumerate() {
                select.extend_from_slice(if at > 0 { b" AND " } else { b"(" });
                select.extend_from_slice(self.quoted(table.column(key)).as_bytes());
                select.extend_from_slice(b" = ");
                values.literal(key, row, &mut select)?;
            }
            select.push(b')');
        }
        select.extend_from_slice(end.as_bytes());
        Ok(String::from_utf8_lossy(&select).into_owned())
    }

    /// Whether a key of this table is found by its literal. A MySQL `float` is not.
    pub fn finds_keys(&self, table: &Table) -> bool {
        let exact = |at: &usize| !plain(table.data_type(*at)).is_floating();
        table.key.iter().all(exact)
    }

    fn back(&self, table: &Table, at: usize) -> String {
        let column = self.quoted(table.column(at));
        let own = (self.read_back)(&column, plain(table.data_type(at)));
        own.unwrap_or_else(|| format!("CAST({column} AS {})", self.text))
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
