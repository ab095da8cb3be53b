//! The tables that the server holds, in memory and within bounds; and the sources that
//! its gets read from.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::Mutex;

use super::shell::TableSpec;
use venturi_base::data::{file, payload_bytes, Source};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::Data;

/// Ready-made sources kept for the next get of the same shape.
const SOURCES: usize = 8;

#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub schema: SchemaRef,
    pub batches: Arc<Vec<RecordBatch>>,
    pub rows: u64,
    /// What it counts for against the bound, also when it is gone and a get still reads it.
    pub claims: Vec<Arc<Claim>>,
    /// The trial that put it; streams of one trial add to one table.
    pub trial: Option<String>,
}

impl Table {
    pub fn bytes(&self) -> u64 {
        self.claims.iter().map(|claim| claim.bytes).sum()
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    memory: Arc<Memory>,
    inner: Mutex<Inner>,
}

/// What all that is held here may take.
#[derive(Debug)]
struct Memory {
    limit: u64,
    used: AtomicU64,
}

/// Bytes of it; given back when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Relaxed);
    }
}

impl Memory {
    /// False: there is not so much left.
    fn take(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
}

/// A source, and the memory that it takes for as long as somebody reads from it.
#[derive(Debug, Clone)]
pub(crate) struct Lent {
    pub source: Source,
    claim: Arc<Claim>,
    /// Whose batches it may share.
    _table: Option<Table>,
}

/// Whoever asks while it is made waits for it.
type Making = Arc<Mutex<Option<Lent>>>;

/// It is made, and nobody reads from it.
fn is_idle(making: &Making) -> bool {
    let Some(made) = making.try_lock() else {
        return false;
    };
    made.as_ref()
        .is_some_and(|lent| Arc::strong_count(&lent.claim) == 1)
}

#[derive(Debug, Default)]
struct Inner {
    tables: BTreeMap<String, Table>,
    /// The one that came last is the last.
    sources: Vec<(String, Making)>,
}

impl Store {
    pub fn new(limit: u64) -> Self {
        let used = AtomicU64::new(0);
        Self {
            memory: Arc::new(Memory { limit, used }),
            inner: Mutex::default(),
        }
    }

    pub fn limit(&self) -> u64 {
        self.memory.limit
    }

    /// Bytes of all tables, those being put included, and of what gets read from.
    pub fn used(&self) -> u64 {
        self.memory.used.load(Relaxed)
    }

    /// Claims so much more. Sources that nobody reads from give way.
    pub fn extend(&self, claim: &mut Claim, bytes: u64) -> Result<()> {
        while !self.memory.take(bytes) {
            let mut inner = self.inner.lock();
            let idle = inner.sources.iter().position(|(_, making)| is_idle(making));
            let Some(idle) = idle else {
                return Err(Error::new(
                    Kind::Memory,
                    format!(
                        "{bytes} bytes more would not fit into the server's memory of {} bytes, of which tables and what is sent take {}: drop some, or start it with a larger --memory",
                        self.limit(),
                        self.used()
                    ),
                ));
            };
            let gone = inner.sources.remove(idle);
            drop(inner); // what it holds may take a while to free
            drop(gone);
        }
        claim.bytes += bytes;
        Ok(())
    }

    /// Claims memory for what is coming in or sent.
    pub fn claim(&self, bytes: u64) -> Result<Claim> {
        let memory = self.memory.clone();
        let mut claim = Claim { memory, bytes: 0 };
        self.extend(&mut claim, bytes)?;
        Ok(claim)
    }

    /// Keeps a table whose bytes have been claimed. It replaces what the path held,
    /// but streams of one trial add up.
    pub fn keep(&self, path: String, table: Table) -> Result<()> {
        let mut inner = self.inner.lock();
        inner.forget_sources(&path);
        if let Some(old) = inner.tables.get_mut(&path) {
            if old.trial.is_some() && old.trial == table.trial && old.schema == table.schema {
                let batches = Arc::make_mut(&mut old.batches);
                batches.extend(table.batches.iter().cloned());
                old.rows += table.rows;
                old.claims.extend(table.claims);
                return Ok(());
            }
        }
        let gone = inner.tables.insert(path, table);
        drop(inner); // what it holds may take a while to free
        drop(gone);
        Ok(())
    }

    pub fn table(&self, path: &str) -> Result<Table> {
        let inner = self.inner.lock();
        inner.tables.get(path).cloned().ok_or_else(|| {
            let known: Vec<_> = inner.tables.keys().take(10).map(String::as_str).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            let text = format!("there is no table {path:?}; tables here: {known}");
            Error::new(Kind::Unsupported, text)
        })
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        let inner = self.inner.lock();
        let tables = inner.tables.iter();
        tables
            .map(|(path, table)| (path.clone(), table.clone()))
            .collect()
    }

    pub fn drop_table(&self, path: &str) -> Result<()> {
        self.table(path)?;
        let mut inner = self.inner.lock();
        inner.forget_sources(path);
        let gone = inner.tables.remove(path);
        drop(inner); // what it holds may take a while to free
        drop(gone);
        Ok(())
    }

    /// Reads a file into a table.
    pub fn load(&self, spec: &TableSpec) -> Result<()> {
        let (schema, batches) = file::read(&spec.name, &spec.ipc)?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let claim = self.claim(batches.iter().map(payload_bytes).sum())?;
        let table = Table {
            schema,
            batches: Arc::new(batches),
            rows,
            claims: vec![Arc::new(claim)],
            trial: None,
        };
        self.keep(spec.name.clone(), table)
    }

    /// Records of so many columns, in batches of so many rows.
    pub fn records(&self, data: &Data, columns: usize, rows_per_batch: usize) -> Result<Lent> {
        // One batch is made, and every one that is sent is a slice of it.
        let slices = Source::cost((rows_per_batch, 1), (columns, 8), rows_per_batch);
        let bytes = (rows_per_batch as u64).saturating_mul(8 * columns as u64);
        let key = format!("\n{data:?} {rows_per_batch}");
        let make = || Source::make(data, rows_per_batch);
        self.source(&key, None, || bytes.saturating_add(slices), make)
    }

    /// A table's rows in batches of so many, over and over; and how many it has.
    pub fn rows_of(&self, path: &str, rows_per_batch: usize) -> Result<(Lent, u64)> {
        let table = self.table(path)?;
        let bytes = || {
            let payload: u64 = table.batches.iter().map(payload_bytes).sum();
            let row_bytes = payload.div_ceil(table.rows.max(1));
            let columns = table.schema.fields().len();
            let length = (table.rows as usize, table.batches.len());
            Source::cost(length, (columns, row_bytes), rows_per_batch)
        };
        // Of this table, and not of one that is put under its name meanwhile: the source holds it.
        let table_key = Arc::as_ptr(&table.batches);
        let key = format!("{path}\n{rows_per_batch} {table_key:?}");
        let make =
            || Source::from_batches(table.schema.clone(), table.batches.to_vec(), rows_per_batch);
        let held = Some(table.clone());
        let lent = self.source(&key, held, bytes, make)?;
        Ok((lent, table.rows))
    }

    /// A source under a key, made once, after the bytes that it takes have been claimed; the key of
    /// a table's begins with `path\n`.
    pub fn source(
        &self,
        key: &str,
        table: Option<Table>,
        bytes: impl FnOnce() -> u64,
        make: impl FnOnce() -> Result<Source>,
    ) -> Result<Lent> {
        let making = {
            let mut inner = self.inner.lock();
            let known = inner.sources.iter().find(|(known, _)| known == key);
            match known.map(|(_, making)| making.clone()) {
                Some(making) => making,
                None => {
                    if inner.sources.len() >= SOURCES {
                        inner.sources.remove(0);
                    }
                    let making = Making::default();
                    inner.sources.push((key.to_owned(), making.clone()));
                    making
                }
            }
        };
        // Where making it panicked there is none, and it is made again.
        let mut made = making.lock();
        if let Some(lent) = &*made {
            return Ok(lent.clone());
        }
        let claim = Arc::new(self.claim(bytes())?);
        let lent = Lent {
            source: make()?,
            claim,
            _table: table,
        };
        *made = Some(lent.clone());
        Ok(lent)
    }
}

impl Inner {
    fn forget_sources(&mut self, path: &str) {
        let prefix = format!("{path}\n");
        self.sources.retain(|(key, _)| !key.starts_with(&prefix));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use arrow_array::{ArrayRef, Int64Array};

    use super::*;
    use venturi_base::spec::{Data, Values};

    const ROWS: usize = 1000;

    fn made() -> Result<Source> {
        let data = Data::Records {
            columns: 1,
            values: Values::Sequential,
            seed: 0,
        };
        Source::make(&data, ROWS)
    }

    #[test]
    fn sources_count_for_as_long_as_somebody_reads_from_them() {
        let store = Store::new(100);
        let first = store.source("a", None, || 60, made).unwrap();
        assert_eq!(store.used(), 60);
        // Read from: it cannot give way, though it is not kept for the next one.
        let refused = store.source("b", None, || 60, made).unwrap_err();
        assert_eq!(refused.kind, Kind::Memory);
        assert_eq!(store.used(), 60);
        drop(first);
        let second = store.source("b", None, || 60, made).unwrap();
        assert_eq!(store.used(), 60);
        drop(second);
        assert_eq!(store.used(), 60, "kept for the next get");
        let table = store.claim(100).unwrap();
        assert_eq!(store.used(), 100, "gone for a table");
        drop(table);
        for key in 0..2 * SOURCES {
            store.source(&key.to_string(), None, || 1, made).unwrap();
        }
        assert_eq!(store.used(), SOURCES as u64);
        assert!(store.claim(u64::MAX).is_err());
    }

    fn table(store: &Store, first: i64) -> Table {
        let column = Int64Array::from(vec![first, first + 1]);
        let batch = RecordBatch::try_from_iter([("n", Arc::new(column) as ArrayRef)]).unwrap();
        Table {
            schema: batch.schema(),
            batches: Arc::new(vec![batch]),
            rows: 2,
            claims: vec![Arc::new(store.claim(60).unwrap())],
            trial: None,
        }
    }

    #[test]
    fn a_table_counts_for_as_long_as_somebody_reads_it() {
        let store = Store::new(100);
        store.keep("t".into(), table(&store, 0)).unwrap();
        let read = store.table("t").unwrap();
        store.drop_table("t").unwrap();
        assert_eq!(store.used(), 60, "dropped, and read");
        assert!(store.claim(60).is_err());
        drop(read);
        assert_eq!(store.used(), 0);

        store.keep("t".into(), table(&store, 0)).unwrap();
        let read = store.table("t").unwrap();
        let lent = store.source("t\n1", Some(read), || 1, made).unwrap();
        store.drop_table("t").unwrap();
        assert_eq!(store.used(), 61, "dropped, and a source made of it is read");
        drop(lent);
        store.keep("t".into(), table(&store, 2)).unwrap();
        assert_eq!(store.used(), 60);
    }

    #[test]
    fn streams_of_a_trial_add_to_one_table() {
        let store = Store::new(200);
        for (first, trial) in [(0, "a"), (2, "a"), (4, "b"), (6, "b"), (8, "b")] {
            let trial = Some(trial.to_owned());
            let table = table(&store, first);
            store.keep("t".into(), Table { trial, ..table }).unwrap();
        }
        let kept = store.table("t").unwrap();
        assert_eq!((kept.rows, kept.batches.len(), kept.bytes()), (6, 3, 180));
        assert_eq!(store.used(), 180);
    }

    #[test]
    fn one_makes_a_source_for_all_that_want_it() {
        let store = Store::new(100);
        let (makes, barrier) = (AtomicUsize::new(0), std::sync::Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    let make = || {
                        makes.fetch_add(1, Relaxed);
                        made()
                    };
                    store.source("a", None, || 60, make).unwrap()
                });
            }
        });
        assert_eq!((makes.into_inner(), store.used()), (1, 60));
    }
}
