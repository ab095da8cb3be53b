//! What all threads share: the series, the segments, the directory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{json, Value};

use super::commit::{Bell, Commit};
use super::config::{Durable, ServerSpec};
use super::counts;
use super::head::{Frozen, Head};
use super::log::Log;
use super::recover::Recovered;
use super::registry::{Registry, NEVER};
use super::segment::sync_directory;
use super::totals::Totals;
use crate::admission::Admission;
use venturi_base::codec::timeseries::parse::Wrong;
use venturi_base::os::machine::Place;

/// The segments, and what is on its way to become one.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Of sealed points, by the series' number.
    pub totals: Vec<Totals>,
    /// Of all of them.
    pub all: Totals,
    pub sealing: Vec<Arc<Frozen>>,
    pub segments: u64,
    pub stored_bytes: u64,
}

impl Catalog {
    pub fn add(&mut self, series: u32, totals: &Totals) {
        let place = series as usize;
        if self.totals.len() <= place {
            self.totals.resize(place + 1, Totals::default());
        }
        self.totals[place].add(totals);
        self.all.add(totals);
    }

    /// What is sealed of these series.
    pub fn of<'a>(&'a self, series: &'a [u32]) -> impl Iterator<Item = (u32, &'a Totals)> {
        let known = |&series: &u32| Some((series, self.totals.get(series as usize)?));
        series.iter().filter_map(known)
    }
}

#[derive(Debug)]
pub struct Store {
    pub spec: ServerSpec,
    pub head_bytes: usize,
    pub registry: Registry,
    pub catalog: Mutex<Catalog>,
    pub commits: Vec<Commit>,
    pub bell: Arc<Bell>,
    pub late: AtomicU64,
    pub log_bytes: AtomicU64,
    pub admission: Arc<Admission>,
    pub recovered: OnceLock<Recovered>,
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
            head_bytes: spec.head_bytes(),
            registry: Registry::new(spec.max_series),
            catalog: Mutex::default(),
            commits: (0..spec.threads)
                .map(|_| Commit::new(spec.durable))
                .collect(),
            bell: Arc::default(),
            late: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            admission: Admission::new(spec.max_connections, Duration::from_nanos(spec.patience_ns)),
            recovered: OnceLock::new(),
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

    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.bell.ring();
    }

    pub fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub fn statistics(&self, heads: &[Arc<Mutex<Head>>]) -> Value {
        let all = counts::count(self, heads, None, |catalog, all: &mut Totals| {
            all.add(&catalog.all);
        });
        let catalog = self.catalog.lock();
        let mut told = json!({
            "software": concat!("venturi ", env!("CARGO_PKG_VERSION")),
            "place": Place::here(),
            "durable": self.spec.durable,
            "threads": self.spec.threads,
            "series": self.registry.with_points(),
            "stored_bytes": catalog.stored_bytes,
            "log_bytes": self.log_bytes.load(Ordering::Relaxed),
            "segments": catalog.segments,
            "connections": self.admission.open(),
            "late": self.late.load(Ordering::Relaxed),
            "recovered": self.recovered.get(),
            "failure": self.failed.get(),
        });
        if let (Value::Object(told), Value::Object(all)) = (&mut told, all.json()) {
            told.extend(all);
        }
        told
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
}
