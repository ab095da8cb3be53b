//! What is asked: of a table all its rows, in ranges of tokens; a query as it stands.

use scylla::client::session::Session as Driver;

use super::super::schema::quoted;
use super::super::server::partition_key;
use venturi_base::error::{Error, Kind, Result};

/// A table whose rows are read.
pub struct Table {
    path: String,
    /// Of its partitions.
    key: String,
}

impl Table {
    pub async fn find(driver: &Driver, keyspace: &str, table: &str) -> Result<Self> {
        let key = partition_key(driver, keyspace, table).await?;
        if key.is_empty() {
            return Err(Error::new(
                Kind::Server,
                format!("table {keyspace}.{table} is not there"),
            ));
        }
        Ok(Self::of(keyspace, table, &key))
    }

    pub fn of(keyspace: &str, table: &str, key: &[String]) -> Self {
        let key: Vec<String> = key.iter().map(|name| quoted(name)).collect();
        Self {
            path: format!("{}.{}", quoted(keyspace), quoted(table)),
            key: key.join(", "),
        }
    }

    /// `ranges`: of rows whose tokens lie between two that are bound.
    pub fn select(&self, what: &str, ranges: bool) -> String {
        let Self { path, key } = self;
        match ranges {
            true => {
                format!("SELECT {what} FROM {path} WHERE token({key}) >= ? AND token({key}) <= ?")
            }
            false => format!("SELECT {what} FROM {path}"),
        }
    }
}

/// Columns by their names.
pub fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(quoted).collect();
    names.join(", ")
}

/// What a column's values are added up by; `None`: they are no integers.
pub fn sum(name: &str, native: &str) -> Option<String> {
    let whole = matches!(native, "tinyint" | "smallint" | "int" | "bigint");
    // The sum of an int is an int, whatever it would need.
    whole.then(|| format!("sum(CAST({} AS varint))", quoted(name)))
}
