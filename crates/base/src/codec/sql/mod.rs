//! Upserts as SQL: tables and statements in the words of four databases.
//!
//! A statement is the whole of a batch: `INSERT INTO t (...) VALUES (...), (...) ON DUPLICATE
//! KEY UPDATE ...` (MySQL) or `... ON CONFLICT (...) DO UPDATE SET ...` (the others). What a
//! server must be told for the text to mean what it says: MySQL: `time_zone = '+00:00'` and an
//! `sql_mode` without `NO_BACKSLASH_ESCAPES`; Postgres:
//! `standard_conforming_strings = on` (its default). All text is UTF-8.

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use crate::data::upsert::Table;
use crate::data::usage::Usage;
use crate::error::{Error, Result};

mod back;
pub mod calendar;
mod ddl;
mod rows;

#[cfg(test)]
mod tests;

pub use ddl::{Extra, Widths};
pub use rows::Rows;

/// Whose SQL it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// MySQL, MariaDB, SingleStore, TiDB.
    MySql,
    Postgres,
    Sqlite,
    DuckDb,
}

impl Dialect {
    /// As options and messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::MySql => "mysql",
            Dialect::Postgres => "postgres",
            Dialect::Sqlite => "sqlite",
            Dialect::DuckDb => "duckdb",
        }
    }

    pub fn from_name(name: &str) -> Result<Self> {
        let all = [
            Dialect::MySql,
            Dialect::Postgres,
            Dialect::Sqlite,
            Dialect::DuckDb,
        ];
        let found = all.into_iter().find(|dialect| dialect.name() == name);
        found.ok_or_else(|| {
            let known = all.map(Dialect::name).join(", ");
            Error::usage(format!("dialect: {name:?} is not known; known: {known}"))
        })
    }

    /// An identifier, quoted.
    pub fn quoted(self, name: &str) -> String {
        match self {
            Dialect::MySql => format!("`{}`", name.replace('`', "``")),
            _ => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }

    /// So many `?` or `$n` a prepared statement may have.
    pub fn most_placeholders(self) -> usize {
        match self {
            // SQLITE_MAX_VARIABLE_NUMBER, as the bundled one is built.
            Dialect::Sqlite => 32_766,
            // Both protocols count them in 16 bits; DuckDB has no narrower limit.
            _ => 65_535,
        }
    }

    /// `INSERT INTO t (a, b) VALUES `.
    pub fn insert_head(self, table: &Table) -> String {
        let all: Vec<usize> = (0..table.schema.fields().len()).collect();
        format!(
            "INSERT INTO {} ({}) VALUES ",
            self.quoted(&table.name),
            self.names(table, &all)
        )
    }

    /// What follows the rows. A null adds nothing.
    pub fn upsert_tail(self, table: &Table) -> String {
        let name = self.quoted(&table.name);
        let column = |at: usize| self.quoted(table.column(at));
        let old = |at: usize| match self {
            Dialect::MySql => column(at),
            _ => format!("{name}.{}", column(at)),
        };
        let new = |at: usize| match self {
            Dialect::MySql => format!("VALUES({})", column(at)),
            _ => format!("excluded.{}", column(at)),
        };
        let mut updates = Vec::new();
        for &at in &table.add {
            let (old, new) = (old(at), new(at));
            updates.push(match (table.schema.field(at).is_nullable(), self) {
                (true, _) => format!("{} = COALESCE({old}, 0) + COALESCE({new}, 0)", column(at)),
                (false, Dialect::MySql) => format!("{} = {new} + {old}", column(at)),
                (false, _) => format!("{} = {old} + {new}", column(at)),
            });
        }
        for at in table.set() {
            updates.push(format!("{} = {}", column(at), new(at)));
        }
        let updates = updates.join(", ");
        match self {
            Dialect::MySql if updates.is_empty() => {
                // There is no DO NOTHING; INSERT IGNORE would hide other errors as well.
                let key = column(table.key[0]);
                format!(" ON DUPLICATE KEY UPDATE {key} = {key}")
            }
            Dialect::MySql => format!(" ON DUPLICATE KEY UPDATE {updates}"),
            _ => {
                let key = self.names(table, &table.key);
                match updates.is_empty() {
                    true => format!(" ON CONFLICT ({key}) DO NOTHING"),
                    false => format!(" ON CONFLICT ({key}) DO UPDATE SET {updates}"),
                }
            }
        }
    }

    /// Appends the statement that upserts `rows`.
    pub fn upsert_text(self, table: &Table, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
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
    pub fn upsert_placeholders(self, table: &Table, rows: usize) -> String {
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
                match self {
                    Dialect::MySql | Dialect::Sqlite => text.push('?'),
                    Dialect::Postgres | Dialect::DuckDb => text.push_str(&format!("${next}")),
                }
            }
            text.push(')');
        }
        text + &self.upsert_tail(table)
    }

    /// One row: the number of rows, an integer; then each added column's sum as the text of a
    /// decimal number, exact ("0" of no rows).
    pub fn select_found(self, table: &Table) -> String {
        let text = self.text();
        let mut select = "SELECT COUNT(*)".to_owned();
        for &at in &table.add {
            let column = self.quoted(table.column(at));
            select += &format!(", CAST(COALESCE(SUM({column}), 0) AS {text})");
        }
        select + " FROM " + &self.quoted(&table.name)
    }

    /// The type of text to which a value is cast.
    fn text(self) -> &'static str {
        match self {
            Dialect::MySql => "CHAR",
            Dialect::Postgres | Dialect::Sqlite => "TEXT",
            Dialect::DuckDb => "VARCHAR",
        }
    }

    fn names(self, table: &Table, columns: &[usize]) -> String {
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
