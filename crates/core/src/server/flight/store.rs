//! The tables that the server holds, in memory and within bounds; and the sources that
//! its gets read from.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::data::Source;
use crate::error::{Error, Kind, Result};

/// Ready-made sources kept for the next get of the same shape.
const SOURCES: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Table {
    pub schema: SchemaRef,
    pub batches: Arc<Vec<RecordBatch>>,
    pub rows: u64,
    /// What it counts for against the bound.
    pub bytes: u64,
    /// The trial that put it; streams of one trial add to one table.
    pub trial: Option<String>,
}

#[derive(Debug)]
pub(super) struct Store {
    limit: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    tables: BTreeMap<String, Table>,
    /// Bytes of all tables, those being put included.
    used: u64,
    sources: Vec<(String, Source)>,
}

fn poisoned<T>(_: T) -> Error {
    Error::new(
        Kind::Internal,
        "the store is broken: a thread of the server died",
    )
}

impl Store {
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            inner: Mutex::default(),
        }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn used(&self) -> u64 {
        self.inner.lock().map_or(0, |inner| inner.used)
    }

    /// Claims memory for rows that are coming in.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        let mut inner = self.inner.lock().map_err(poisoned)?;
        if inner.used + bytes > self.limit {
            return Err(Error::new(
                Kind::Memory,
                format!(
                    "the tables would not fit into the server's memory of {} bytes: drop some, or start it with a larger --memory",
                    self.limit
                ),
            ));
        }
        inner.used += bytes;
        Ok(())
    }

    pub fn release(&self, bytes: u64) {
        if let Ok(mut inner) = self.inner.lock() {
            inner.used = inner.used.saturating_sub(bytes);
        }
    }

    /// Keeps a table whose bytes have been reserved. It replaces what the path held,
    /// but streams of one trial add up.
    pub fn keep(&self, path: String, table: Table) -> Result<()> {
        let mut inner = self.inner.lock().map_err(poisoned)?;
        inner.forget_sources(&path);
        if let Some(old) = inner.tables.get_mut(&path) {
            if old.trial.is_some() && old.trial == table.trial && old.schema == table.schema {
                let batches = Arc::make_mut(&mut old.batches);
                batches.extend(table.batches.iter().cloned());
                old.rows += table.rows;
                old.bytes += table.bytes;
                return Ok(());
            }
            let bytes = old.bytes;
            inner.used = inner.used.saturating_sub(bytes);
        }
        inner.tables.insert(path, table);
        Ok(())
    }

    pub fn table(&self, path: &str) -> Result<Table> {
        let inner = self.inner.lock().map_err(poisoned)?;
        inner.tables.get(path).cloned().ok_or_else(|| {
            let known: Vec<_> = inner.tables.keys().take(10).map(String::as_str).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            Error::usage(format!("there is no table {path:?}; tables here: {known}"))
        })
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        self.inner.lock().map_or(vec![], |inner| {
            inner
                .tables
                .iter()
                .map(|(path, table)| (path.clone(), table.clone()))
                .collect()
        })
    }

    pub fn drop_table(&self, path: &str) -> Result<()> {
        self.table(path)?;
        let mut inner = self.inner.lock().map_err(poisoned)?;
        inner.forget_sources(path);
        if let Some(table) = inner.tables.remove(path) {
            inner.used = inner.used.saturating_sub(table.bytes);
        }
        Ok(())
    }

    /// A source under a key, made once; the key of a table's begins with `path\n`.
    pub fn source(&self, key: &str, make: impl FnOnce() -> Result<Source>) -> Result<Source> {
        let known = |inner: &Inner| {
            inner
                .sources
                .iter()
                .find(|(k, _)| k == key)
                .map(|(_, s)| s.clone())
        };
        if let Some(source) = known(&*self.inner.lock().map_err(poisoned)?) {
            return Ok(source);
        }
        let source = make()?;
        let mut inner = self.inner.lock().map_err(poisoned)?;
        if inner.sources.len() >= SOURCES {
            inner.sources.remove(0);
        }
        inner.sources.push((key.to_owned(), source.clone()));
        Ok(source)
    }
}

impl Inner {
    fn forget_sources(&mut self, path: &str) {
        let prefix = format!("{path}\n");
        self.sources.retain(|(key, _)| !key.starts_with(&prefix));
    }
}
