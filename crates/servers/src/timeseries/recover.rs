//! What the directory holds at the start: segments are taken up, logs become segments,
//! what is damaged is told and what is whole is served.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use serde::Serialize;

use super::config::ServerSpec;
use super::files::{self, Damaged, Inspector, Segment};
use super::head::{Frozen, Part};
use super::log::{replay, Log, Replay};
use super::sealer::{announce, seal};
use super::series_file;
use super::store::{path, Store};
use venturi_base::error::{Error, Kind, Result};

/// What was found at the start that a clean stop would not have left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    pub segments: u64,
    /// Segments of earlier versions among them: their pages have checksums, the rest has none.
    pub pages_only: u64,
    /// Logs that became segments, and their points.
    pub logs: u64,
    pub points: u64,
    pub damaged: Vec<Damaged>,
}

const FOLDERS: [&str; 3] = ["points", "series", "log"];

fn io_error(what: impl std::fmt::Display, error: &io::Error) -> Error {
    Error::new(Kind::Io, format!("{what}: {error}"))
}

/// Makes the directory and takes its lock.
pub fn hold(data: &Path) -> Result<File> {
    for folder in FOLDERS {
        let place = data.join(folder);
        fs::create_dir_all(&place)
            .map_err(|error| io_error(format!("cannot make {}", place.display()), &error))?;
    }
    let path = data.join("LOCK");
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| io_error(format!("cannot open {}", path.display()), &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let text = format!(
                "{} is in use: another server has its LOCK; stop it or choose another directory",
                data.display()
            );
            Err(Error::new(Kind::Io, text))
        }
        Err(TryLockError::Error(error)) => {
            Err(io_error(format!("cannot lock {}", path.display()), &error))
        }
    }
}

/// Opens a store: everything that is in the directory, as far as it is whole.
pub fn open(spec: ServerSpec) -> Result<Arc<Store>> {
    let held = hold(&spec.data)?;
    let store = Arc::new(Store::new(spec, held));
    let data = store.spec.data.clone();
    let unreadable = |error: io::Error| io_error(format!("cannot read {}", data.display()), &error);
    let listed = |folder| numbered(&data.join(folder)).map_err(unreadable);
    let (points, series, logs) = (listed("points")?, listed("series")?, listed("log")?);
    let all = points.whole.iter().chain(&series.whole).chain(&logs.whole);
    store.numbers_from(all.map(|(id, _)| id.saturating_add(1)).max().unwrap_or(1));
    let taken: BTreeSet<u64> = points.whole.into_iter().map(|(id, _)| id).collect();
    let logged = logs.whole.iter().map(|&(id, _)| id);
    let unfinished: BTreeSet<u64> = points.unfinished.into_iter().chain(logged).collect();
    // Its points never got their name: the log has them, or nobody was promised anything.
    for (id, orphan) in &series.whole {
        if unfinished.contains(id) && !taken.contains(id) {
            fs::remove_file(orphan).map_err(unreadable)?;
        }
    }
    let found = Inspector::new(&data).look().map_err(unreadable)?;
    let mut recovered = Recovered {
        damaged: found.damaged,
        ..Recovered::default()
    };
    // One in the making has its points beside it, under a name of their own.
    for (id, series) in &series.whole {
        if !taken.contains(id) && !unfinished.contains(id) {
            recovered.damaged.push(Damaged {
                file: shown(&data, series),
                offset: 0,
                lost_bytes: 0,
                why: "the points file of its segment is missing".into(),
            });
        }
    }
    let mut whole = BTreeSet::new();
    for segment in &found.segments {
        match take_in(&store, segment) {
            Ok(()) => {
                whole.insert(segment.id);
                recovered.segments += 1;
                recovered.pages_only += u64::from(segment.pages_only);
            }
            Err(why) => recovered.damaged.push(Damaged {
                file: shown(&data, &segment.points),
                offset: 0,
                lost_bytes: fs::metadata(&segment.points).map_or(0, |found| found.len()),
                why,
            }),
        }
    }
    for damaged in &mut recovered.damaged {
        damaged.why += "; the segment is left alone";
    }
    for (id, file) in &logs.whole {
        if whole.contains(id) {
            fs::remove_file(file).map_err(unreadable)?;
        } else {
            take_up(&store, *id, file, taken.contains(id), &mut recovered)?;
        }
    }
    let _ = store.recovered.set(recovered);
    Ok(store)
}

fn shown(data: &Path, file: &Path) -> String {
    file.strip_prefix(data)
        .unwrap_or(file)
        .display()
        .to_string()
}

/// The files of a folder that have a number.
#[derive(Debug, Default)]
struct Numbered {
    whole: Vec<(u64, PathBuf)>,
    /// Those that were being written. They are removed.
    unfinished: Vec<u64>,
}

fn numbered(folder: &Path) -> io::Result<Numbered> {
    let mut found = Numbered::default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let log = || name.strip_suffix(".log").and_then(|it| it.parse().ok());
        if let Some(digits) = name.strip_suffix(".parquet.tmp") {
            found.unfinished.extend(digits.parse::<u64>());
            fs::remove_file(&path)?;
        } else if let Some(id) = files::parse(name).map(|(id, _)| id).or_else(log) {
            found.whole.push((id, path));
        }
    }
    found.whole.sort();
    Ok(found)
}

/// Takes up a segment: its series and their totals.
fn take_in(store: &Store, segment: &Segment) -> std::result::Result<(), String> {
    let lines = series_file::read(&segment.series);
    let lines = lines.map_err(|error| format!("its series file: {error}"))?;
    let mut numbers = Vec::with_capacity(lines.len());
    for (name, totals) in lines {
        let number = store.registry.register(&name).ok_or_else(|| {
            let most = store.spec.max_series;
            format!("more series than max_series ({most}) allows")
        })?;
        numbers.push((number, totals));
    }
    let mut catalog = store.catalog.lock();
    for (series, totals) in &numbers {
        catalog.add(*series, totals);
        store.seen(*series, totals.last);
    }
    catalog.segments += 1;
    catalog.stored_bytes += segment.bytes;
    Ok(())
}

/// A log's rows, as a head would have them.
struct Rows<'a> {
    store: &'a Store,
    parts: Vec<Part>,
    points: usize,
}

impl Replay for Rows<'_> {
    fn define(&mut self, names: Vec<&[u8]>) -> Option<()> {
        let register = |name: &&[u8]| self.store.registry.register(name);
        let series: Option<Box<[u32]>> = names.iter().map(register).collect();
        self.parts.push(Part {
            series: series.filter(|series| !series.is_empty())?,
            ..Part::default()
        });
        Some(())
    }

    fn width(&self, group: u32) -> Option<usize> {
        self.parts.get(group as usize).map(|part| part.series.len())
    }

    fn row(&mut self, group: u32, time: i64, values: &[f64]) {
        if let Some(part) = self.parts.get_mut(group as usize) {
            part.stamps.push(time);
            part.values.extend_from_slice(values);
            self.points += values.len();
            for &series in &part.series {
                self.store.seen(series, time);
            }
        }
    }
}

/// Makes a segment of a log; a new number is taken where a damaged segment has the log's.
fn take_up(
    store: &Arc<Store>,
    id: u64,
    file: &Path,
    taken: bool,
    recovered: &mut Recovered,
) -> Result<()> {
    let named = shown(&store.spec.data, file);
    let cannot = |what: &str, error: &dyn std::fmt::Display| {
        let text = format!("cannot {what} {named}: {error}");
        Error::new(Kind::Io, text)
    };
    // By its new number before anything is made of it, or a crash would make it twice.
    let (id, file) = if taken {
        let id = store.number();
        let moved = path(&store.spec.data, "log", id, "log");
        fs::rename(file, &moved).map_err(|error| cannot("rename", &error))?;
        (id, moved)
    } else {
        (id, file.to_path_buf())
    };
    let file = &file;
    let mut rows = Rows {
        store,
        parts: Vec::new(),
        points: 0,
    };
    let damage = replay(file, &mut rows).map_err(|error| cannot("read", &error))?;
    let points = rows.points;
    let mut parts = rows.parts;
    parts.retain(|part| !part.stamps.is_empty());
    if points > 0 {
        // A damaged one is kept, so it is not the segment's to remove.
        let log = if damage.as_ref().is_none_or(|it| it.torn) {
            let log = Log::taken_up(file).map_err(|error| cannot("read", &error))?;
            store.log_bytes.fetch_add(log.length, Ordering::Relaxed);
            Some(log)
        } else {
            None
        };
        let frozen = Frozen { id, parts, log };
        let frozen = announce(store, frozen);
        seal(store, &frozen).map_err(|error| cannot("make a segment of", &error))?;
        recovered.logs += 1;
        recovered.points += points as u64;
    } else if damage.as_ref().is_none_or(|it| it.torn) {
        fs::remove_file(file).map_err(|error| cannot("remove", &error))?;
    }
    if let Some(damage) = damage {
        let mut why = "the last record is cut short, as when a machine stops".to_owned();
        if !damage.torn {
            // More may be behind the bad record: not ours to throw away.
            let kept = file.with_extension("log.damaged");
            fs::rename(file, &kept).map_err(|error| cannot("rename", &error))?;
            why = format!(
                "a record is damaged; the log is kept as {}",
                shown(&store.spec.data, &kept)
            );
        }
        recovered.damaged.push(Damaged {
            file: named,
            offset: damage.offset,
            lost_bytes: damage.lost,
            why,
        });
    }
    Ok(())
}
