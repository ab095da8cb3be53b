//! SQL: tables, statements and values in the words of a database, which stand in `dialect.rs` of its folder.
//!
//! A statement is the whole of a batch: `INSERT INTO t (...) VALUES (...), (...) ON DUPLICATE
//! KEY UPDATE ...` (MySQL) or `... ON CONFLICT (...) DO UPDATE SET ...` (the others). What a
//! server must be told for the text to mean what it says: MySQL: `time_zone = '+00:00'` and an
//! `sql_mode` without `NO_BACKSLASH_ESCAPES`; Postgres:
//! `standard_conforming_strings = on` (its default). All text is UTF-8.

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use venturi_base::data::upsert::Table;
use venturi_base::data::usage::Usage;
use venturi_base::error::Result;

mod back;
mod ddl;
mod dialect;
mod rows;

#[cfg(all(test, feature = "drivers"))]
mod tests;

pub use ddl::{digits, is_bytes, is_text, Extra, Widths};
pub use dialect::{Dialect, Index, Literals, Merge, Nanoseconds, Nul};
pub use rows::{number_word, Rows};

impl Dialect {
    /// `INSERT INTO t (a, b) VALUES `.
    pub fn insert_head(&self, table: &Table) -> String {
        let all: Vec<usize> = (0..table.schema.fields().len()).collect();
        format!(
            "INSERT INTO {} ({}) VALUES ",
            self.quoted(&table.name),
            self.names(table, &all)
        )
    }

    /// What follows the rows. A null adds nothing.
    pub fn upsert_tail(&self, table: &Table) -> String {
        let name = self.quoted(&table.name);
        let column = |at: usize| self.quoted(table.column(at));
        let replaces = self.merge == Merge::OnDuplicateKey;
        let old = |at: usize| match replaces {
            true => column(at),
            false => format!("{name}.{}", column(at)),
        };
        let new = |at: usize| match replaces {
            true => format!("VALUES({})", column(at)),
            false => format!("excluded.{}", column(at)),
        };
        let mut updates = Vec::new();
        for &at in &table.add {
            let (old, new) = (old(at), new(at));
            updates.push(match (table.schema.field(at).is_nullable(), replaces) {
                (true, _) => format!("{} = COALESCE({old}, 0) + COALESCE({new}, 0)", column(at)),
                (false, true) => format!("{} = {new} + {old}", column(at)),
                (false, false) => format!("{} = {old} + {new}", column(at)),
            });
        }
        for at in table.set() {
            updates.push(format!("{} = {}", column(at), new(at)));
        }
        let updates = updates.join(", ");
        match self.merge {
            Merge::OnDuplicateKey if updates.is_empty() => {
                // There is no DO NOTHING; INSERT IGNORE would hide other errors as well.
                let key = column(table.key[0]);
                format!(" ON DUPLICATE KEY UPDATE {key} = {key}")
            }
            Merge::OnDuplicateKey => format!(" ON DUPLICATE KEY UPDATE {updates}"),
            Merge::OnConflict => {
                let key = self.names(table, &table.key);
                match updates.is_empty() {
                    true => format!(" ON CONFLICT ({key}) DO NOTHING"),
                    false => format!(" ON CONFLICT ({key}) DO UPDATE SET {updates}"),
                }
            }
        }
    }

    /// Appends the statement that upserts `rows`.
    pub fn upsert_text(
        &'static self,
        table: &Table,
        rows: &RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.extend_from_slice(self.insert_head(table).as_bytes());
        let mut values = Rows::new(self, table, rows)?;
        for row in 0..rows.num_rows() {
            if row > 0 {
                out.push(b',');
            }
            values.tuple(row, out)?;
        }
        out.extend_from_slice(self.upsert_tail(table).as_bytes());
        Ok(())
    }

    /// The same with placeholders, to be prepared; in the order of rows, then columns.
    pub fn upsert_placeholders(&self, table: &Table, rows: usize) -> String {
        self.insert_placeholders(table, rows) + &self.upsert_tail(table)
    }

    /// The same of an INSERT.
    pub fn insert_placeholders(&self, table: &Table, rows: usize) -> String {
        let columns = table.schema.fields().len();
        let mut text = self.insert_head(table);
        let mut next = 0;
        for row in 0..rows {
            text.push_str(if row > 0 { ",(" } else { "(" });
            for column in 0..columns {
                if column > 0 {
                    text.push(',');
                }
                next += 1;
                match self.numbered {
                    true => text.push_str(&format!("${next}")),
                    false => text.push('?'),
                }
            }
            text.push(')');
        }
        text
    }

    /// One row: the number of rows, an integer; then each added column's sum as the text of a
    /// decimal number, exact ("0" of no rows).
    pub fn select_found(&self, table: &Table) -> String {
        let text = self.text;
        let mut select = "SELECT COUNT(*)".to_owned();
        for &at in &table.add {
            let column = self.quoted(table.column(at));
            select += &format!(", CAST(COALESCE(SUM({column}), 0) AS {text})");
        }
        select + " FROM " + &self.quoted(&table.name)
    }

    fn names(&self, table: &Table, columns: &[usize]) -> String {
        let names: Vec<String> = columns
            .iter()
            .map(|&at| self.quoted(table.column(at)))
            .collect();
        names.join(", ")
    }
}

/// A dictionary's values, or the type itself.
fn plain(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The seed's own table has the seed's own column types.
fn is_usage(table: &Table) -> bool {
    table.schema == Usage::schema()
}
