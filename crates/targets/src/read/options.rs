//! What shall be read, and how the streams share it.

use serde::Deserialize;

use venturi_base::error::{Error, Result};
use venturi_base::spec::{Data, TrialSpec};

/// What is received of a batch, a block, or a whole Parquet file, before it is given up.
const MOST_BLOCK: usize = 1 << 30;

/// How the streams of a get share one query's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// They do not: each reads all of them.
    None,
    /// By ranges of a column.
    Key,
    /// By the hash of a column.
    Hash,
    /// By the parts that a table is stored in.
    Parts,
}

/// The options of every get by a query.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Reading {
    pub query: Option<String>,
    pub split: Option<Split>,
    pub split_by: Option<String>,
    pub max_block_bytes: usize,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            query: None,
            split: None,
            split_by: None,
            max_block_bytes: MOST_BLOCK,
        }
    }
}

impl Reading {
    /// Whether the streams share the rows.
    pub fn shares(&self, streams: usize) -> bool {
        streams == 1 || self.split != Some(Split::None)
    }

    /// How often so many streams read the rows in all.
    pub fn times(&self, streams: usize) -> u64 {
        match self.shares(streams) {
            true => 1,
            false => streams as u64,
        }
    }

    /// The column by which the streams share rows: the one that is named, or else the first.
    pub fn column<'a, C>(&self, columns: &'a [C], name: impl Fn(&C) -> &str) -> Result<&'a C> {
        match &self.split_by {
            None => columns
                .first()
                .ok_or_else(|| Error::usage("there are no columns")),
            Some(wanted) => columns
                .iter()
                .find(|column| name(column) == wanted)
                .ok_or_else(|| Error::usage(format!("split_by {wanted}: there is no such column"))),
        }
    }

    /// Whether the options fit one another, and the `table` that is named.
    pub fn check_names(&self, table: Option<&str>) -> Result<()> {
        if table.is_some() && self.query.is_some() {
            return Err(Error::usage("table or query, not both"));
        }
        let empty = |query: &String| query.trim().is_empty();
        if self.query.as_ref().is_some_and(empty) {
            return Err(Error::usage("query: there is none"));
        }
        if !(1 << 16..=4 << 30).contains(&self.max_block_bytes) {
            return Err(Error::usage("max_block_size must be 64 Ki to 4 Gi"));
        }
        Ok(())
    }

    /// Whether it is said what is read, and how much.
    pub fn check_what(&self, spec: &TrialSpec, table: Option<&str>) -> Result<()> {
        let wrong = |what: &str| Err(Error::usage(what));
        let remote = spec.data == Data::Remote;
        if remote && table.is_none() && self.query.is_none() {
            return wrong(
                "what shall be read? give table or query, or data of Venturi's own (records)",
            );
        }
        if !remote && self.query.is_some() {
            return wrong("a query is about the server's own data: source = \"remote\"");
        }
        if !remote && spec.rows_per_stream.is_none() {
            return wrong("a get of our own data writes it into a table first, so it needs rows_per_stream, not duration");
        }
        if remote && spec.rows_per_stream.is_some() {
            return wrong("rows_per_stream: how many rows there are is the query's affair (LIMIT)");
        }
        Ok(())
    }

    /// Whether a get can be made of them.
    pub fn check_get(&self, spec: &TrialSpec, table: Option<&str>) -> Result<()> {
        self.check_what(spec, table)?;
        let wrong = |what: &str| Err(Error::usage(what));
        let remote = spec.data == Data::Remote;
        match self.split {
            Some(Split::Key | Split::Hash) if remote && self.split_by.is_none() => {
                wrong("split key and hash need split_by: the column")
            }
            Some(Split::Parts) if self.query.is_some() => {
                wrong("split parts is for a table: a query has none; use hash or key")
            }
            Some(Split::None | Split::Parts) if self.split_by.is_some() => {
                wrong("split_by is for split key and hash")
            }
            None if spec.streams > 1 && remote && self.split_by.is_none() => {
                wrong("several streams: how shall they share the rows? Give split (hash or key, with split_by; parts; none: each reads all)")
            }
            _ => Ok(()),
        }
    }
}
