//! What all threads share: the series, the segments, the directory; and the threads that bring
//! points to the disk. A reader has a thread that seals, so that sealing keeps up with reading and
//! both are bounded by the same cores.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::config::{Durable, ServerSpec};
use super::log::{Bell, Commit, Log};
use super::points::{write_points, Part};
use super::segment::{named, sync_directory, write_series};
use super::series::{Registry, Totals, NEVER};
use crate::admission::Admission;
use venturi_base::codec::timeseries::parse::Wrong;

/// A memtable that takes no more points, to be sealed.
#[derive(Debug)]
pub struct Frozen {
    pub id: u64,
    pub parts: Vec<Part>,
    pub log: Option<Log>,
}

/// The segments, and what is on its way to become one.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Of all sealed points.
    pub totals: Totals,
    pub sealing: Vec<Arc<Frozen>>,
    pub segments: u64,
    pub stored_bytes: u64,
}

#[derive(Debug)]
pub struct Store {
    pub spec: ServerSpec,
    pub memtable_bytes: usize,
    pub registry: Registry,
    pub catalog: Mutex<Catalog>,
    commits: Vec<Commit>,
    bell: Arc<Bell>,
    pub late: AtomicU64,
    pub log_bytes: AtomicU64,
    pub admission: Arc<Admission>,
    next: AtomicU64,
    failed: OnceLock<String>,
    closed: AtomicBool,
    /// One server a directory; released with the file.
    _lock: File,
}

/// `folder/<id>.<extension>`; ids sort by age.
pub fn path(data: &Path, folder: &str, id: u64, extension: &str) -> PathBuf {
    data.join(folder).join(format!("{id:016}.{extension}"))
}

impl Store {
    pub fn new(spec: ServerSpec, held: File) -> Self {
        Self {
            memtable_bytes: spec.memtable_bytes(),
            registry: Registry::new(spec.max_series),
            catalog: Mutex::default(),
            commits: (0..spec.threads).map(|_| Commit::default()).collect(),
            bell: Arc::default(),
            late: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            admission: Admission::new(spec.max_connections, Duration::from_nanos(spec.patience_ns)),
            next: AtomicU64::new(1),
            failed: OnceLock::new(),
            closed: AtomicBool::new(false),
            spec,
            _lock: held,
        }
    }

    /// Numbers from here on are free.
    pub fn numbers_from(&self, next: u64) {
        self.next.fetch_max(next, Ordering::Relaxed);
    }

    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a new segment, and the log of its points where there is to be one.
    pub fn begin(&self) -> Result<(u64, Option<Log>), String> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let id = self.number();
        if self.spec.durable == Durable::None {
            return Ok((id, None));
        }
        let path = path(&self.spec.data, "log", id, "log");
        let made = Log::create(path.clone()).and_then(|log| {
            if self.spec.durable == Durable::Fsync {
                sync_directory(&self.spec.data.join("log"))?;
            }
            Ok(log)
        });
        match made {
            Ok(log) => {
                self.log_bytes.fetch_add(log.length, Ordering::Relaxed);
                Ok((id, Some(log)))
            }
            Err(error) => Err(self.fail(format!("cannot make {}: {error}", path.display()))),
        }
    }

    /// From now on nothing is written any more; the first reason is the one that is told.
    pub fn fail(&self, what: String) -> String {
        let advice = "nothing more is stored until the server is started again";
        self.failed
            .get_or_init(|| format!("{what}; {advice}"))
            .clone()
    }

    pub fn failure(&self) -> Option<String> {
        self.failed.get().cloned()
    }

    pub fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    /// A reader has written a turn to its log.
    pub fn written(&self, reader: usize, log: &Log, bytes: u64) {
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.spec.durable == Durable::Fsync {
            self.commits[reader].written(&log.file);
        }
    }

    /// Waits until all that a reader has written is as durable as was promised.
    pub async fn durable(&self, reader: usize) -> Result<(), String> {
        self.commits[reader].synced(&self.bell).await;
        self.failure().map_or(Ok(()), Err)
    }

    /// A row has come after a later one of its series.
    #[cold]
    pub fn allow_late(&self, series: u32, points: usize) -> Result<(), Wrong> {
        self.late.fetch_add(points as u64, Ordering::Relaxed);
        if self.spec.accept_late {
            return Ok(());
        }
        let name = String::from_utf8_lossy(self.registry.names().get(series)).into_owned();
        Err(Wrong::Late { series: name })
    }

    /// A series has points up to here already.
    pub fn seen(&self, series: u32, last: i64) {
        let known = self.registry.last(series);
        if last != NEVER {
            known.fetch_max(last, Ordering::Relaxed);
        }
    }

    /// Announces a memtable that is on its way: its points are counted there from now on. The caller
    /// still holds the memtable's lock.
    pub fn announce(&self, frozen: Frozen) -> Arc<Frozen> {
        let frozen = Arc::new(frozen);
        self.catalog.lock().sealing.push(frozen.clone());
        frozen
    }

    /// Writes both files of a segment, which exists once the points' one has its name, and removes
    /// its log. `sync`: only once they are on the disk.
    pub fn seal(&self, frozen: &Arc<Frozen>, sync: bool) -> Result<(), String> {
        let data = &self.spec.data;
        let temporary = |folder: &str| path(data, folder, frozen.id, "parquet.tmp");
        let [series, points] = ["series", "points"].map(temporary);
        let written = || -> Result<_, parquet::errors::ParquetError> {
            let (lines, of_points) = write_points(&points, &frozen.parts, &self.registry, sync)?;
            let of_series = write_series(&series, &lines, sync)?;
            Ok((lines, of_points, of_series))
        };
        let name = |of_points: u64, of_series: u64| -> io::Result<u64> {
            let bytes = fs::metadata(&series)?.len() + fs::metadata(&points)?.len();
            fs::rename(&series, named(data, "series", frozen.id, of_series))?;
            if sync {
                // The points' name is the commit: the series' one has to be there before it.
                sync_directory(&data.join("series"))?;
            }
            fs::rename(&points, named(data, "points", frozen.id, of_points))?;
            if sync {
                sync_directory(&data.join("points"))?;
            }
            Ok(bytes)
        };
        let outcome = written().map_err(|error| error.to_string());
        let outcome = outcome.and_then(|(lines, of_points, of_series)| {
            let bytes = name(of_points, of_series).map_err(|error| error.to_string())?;
            Ok((lines, bytes))
        });
        let (lines, bytes) = outcome.inspect_err(|_| {
            // The log has it all; what is half written only takes room.
            let _ = fs::remove_file(&series);
            let _ = fs::remove_file(&points);
        })?;
        let mut catalog = self.catalog.lock();
        catalog.sealing.retain(|other| !Arc::ptr_eq(other, frozen));
        for line in &lines {
            catalog.totals.add(&line.totals);
        }
        catalog.segments += 1;
        catalog.stored_bytes += bytes;
        drop(catalog);
        if let Some(log) = &frozen.log {
            self.log_bytes.fetch_sub(log.length, Ordering::Relaxed);
            // One that stays is found to be of no use at the next start.
            let _ = fs::remove_file(&log.path);
        }
        Ok(())
    }
}

/// The sealing thread's body: until the reader hangs up. A permit comes back with every
/// memtable that is done; where nothing can be written any more, all waiting are let go.
pub fn run_sealer(store: &Arc<Store>, memtables: &Receiver<Arc<Frozen>>, permits: &Semaphore) {
    while let Ok(frozen) = memtables.recv() {
        match store.seal(&frozen, store.spec.durable == Durable::Fsync) {
            Ok(()) => permits.add_permits(1),
            Err(error) => {
                store.fail(format!("cannot write segment {}: {error}", frozen.id));
                permits.close();
            }
        }
    }
}

/// The syncing thread's body: until the store goes.
pub fn run_sync(store: &Weak<Store>, bell: &Bell) {
    loop {
        bell.wait();
        let Some(store) = store.upgrade() else { return };
        for commit in &store.commits {
            commit.sync(|error| {
                // Nobody knows what the disk has, so it is final.
                store.fail(format!("cannot sync a log: {error}"));
            });
        }
        if store.closed.load(Ordering::Relaxed) {
            return;
        }
    }
}
