//! What the directory holds at the start: segments are taken up, logs become segments,
//! what is damaged is told and what is whole is served.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use serde::Serialize;

use super::config::ServerSpec;
use super::files::{self, bytes, Damaged, Segment};
use super::log::{replay, Damage, Log, Replay};
use super::points::Part;
use super::segment::{parse, read_series};
use super::series::Totals;
use super::store::{path, Frozen, Store};
use venturi_base::data::points::series_hash;
use venturi_base::error::{Error, Kind, Result};

/// What was found at the start that a clean stop would not have left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    pub segments: u64,
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

/// Opens a store: everything that is in the directory, as far as it is whole. Nothing there is
/// changed before all of it was read.
pub fn open(spec: ServerSpec) -> Result<(Arc<Store>, Recovered)> {
    let held = hold(&spec.data)?;
    let store = Arc::new(Store::new(spec, held));
    let data = store.spec.data.clone();
    let unreadable = |error: io::Error| io_error(format!("cannot read {}", data.display()), &error);
    let listed = |folder| numbered(&data.join(folder)).map_err(unreadable);
    let (points, series, logs) = (listed("points")?, listed("series")?, listed("log")?);
    for folder in [&points, &series, &logs] {
        store.numbers_from(folder.next);
    }
    let found = files::look(&data).map_err(unreadable)?;
    let mut recovered = Recovered {
        damaged: found.damaged,
        ..Recovered::default()
    };
    let taken: BTreeSet<u64> = points.whole.into_iter().map(|(id, _)| id).collect();
    let logged = logs.whole.iter().map(|&(id, _)| id);
    let unfinished: BTreeSet<u64> = points
        .unfinished
        .iter()
        .map(|it| it.0)
        .chain(logged)
        .collect();
    let (orphans, missed): (Vec<_>, Vec<_>) = (series.whole.iter())
        .filter(|(id, _)| !taken.contains(id))
        .partition(|(id, _)| unfinished.contains(id));
    for (_, series) in missed {
        let why = "the points file of its segment is missing".into();
        recovered.damaged.push(unread(&data, series, why));
    }
    let mut whole = BTreeMap::new();
    for segment in &found.segments {
        match read_series(&segment.series) {
            Ok(lines) => {
                whole.insert(segment.id, (segment, take_in(&store, segment, lines)?));
                recovered.segments += 1;
            }
            Err(error) => {
                let why = format!("its series file: {error}");
                recovered.damaged.push(unread(&data, &segment.points, why));
            }
        }
    }
    for damaged in &mut recovered.damaged {
        damaged.why += "; the segment is left alone";
    }
    let contents = logs
        .whole
        .iter()
        .map(|(_, file)| Contents::of(&store, file));
    let contents = contents.collect::<Result<Vec<_>>>()?;

    // Their points never got their name: the log has them, or nobody was promised anything.
    let unfinished = points.unfinished.iter().chain(&series.unfinished);
    for (_, file) in unfinished.chain(orphans) {
        fs::remove_file(file).map_err(unreadable)?;
    }
    for ((id, file), contents) in logs.whole.iter().zip(contents) {
        match whole.get(id) {
            None => take_up(&store, *id, file, taken.contains(id), &mut recovered)?,
            Some((segment, totals)) if contents.is(totals) => {
                // The crash came between the segment and the end of its log.
                segment.sync().map_err(unreadable)?;
                fs::remove_file(file).map_err(unreadable)?;
            }
            Some((segment, totals)) => {
                let kept = keep(&store, *id, file)?;
                let why = format!(
                    "{} has {} points, the log has {}{}; the log is kept as {kept}",
                    shown(&data, &segment.points),
                    totals.points,
                    contents.totals.points,
                    contents
                        .damage
                        .as_ref()
                        .map_or("", |_| " before a damaged record"),
                );
                let damage = contents.damage.as_ref();
                recovered.damaged.push(Damaged {
                    file: shown(&data, file),
                    offset: damage.map_or(0, |it| it.offset),
                    lost_bytes: damage.map_or(contents.length, |it| it.lost),
                    why,
                });
            }
        }
    }
    for file in &logs.others {
        let why = if file.extension().is_some_and(|it| it == "damaged") {
            "an earlier start kept this log, because not all of it is in a segment"
        } else {
            "its name is not that of a log"
        };
        recovered.damaged.push(unread(&data, file, why.into()));
    }
    Ok((store, recovered))
}

fn unread(data: &Path, file: &Path, why: String) -> Damaged {
    Damaged {
        file: shown(data, file),
        offset: 0,
        lost_bytes: bytes(file),
        why,
    }
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
    /// Those that were being written.
    unfinished: Vec<(u64, PathBuf)>,
    /// What else lies among the logs.
    others: Vec<PathBuf>,
    /// The least number that no file has.
    next: u64,
}

fn numbered(folder: &Path) -> io::Result<Numbered> {
    let (mut found, logs) = (Numbered::default(), folder.ends_with("log"));
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let number = name.get(..16).and_then(|it| it.parse::<u64>().ok());
        found.next = found.next.max(number.map_or(0, |it| it + 1));
        match (number, name.get(16..)) {
            (Some(id), Some(".log")) if logs => found.whole.push((id, path)),
            _ if logs => found.others.push(path),
            (Some(id), Some(".parquet.tmp")) => found.unfinished.push((id, path)),
            _ => found
                .whole
                .extend(parse(name).map(|(id, _)| (id, path.clone()))),
        }
    }
    found.whole.sort();
    found.others.sort();
    Ok(found)
}

fn too_many(store: &Store) -> Error {
    let (data, most) = (store.spec.data.display(), store.spec.max_series);
    Error::usage(format!(
        "{data} holds more series than --max-series {most} allows; nothing was changed: start with \
         a larger --max-series"
    ))
}

/// Takes up a segment: its series and their totals. Returns those of all of them.
fn take_in(store: &Store, segment: &Segment, lines: Vec<(Vec<u8>, Totals)>) -> Result<Totals> {
    let mut all = Totals::default();
    let mut catalog = store.catalog.lock();
    for (name, totals) in &lines {
        let series = store.registry.register(name);
        let series = series.ok_or_else(|| too_many(store))?;
        catalog.totals.add(totals);
        store.seen(series, totals.last);
        all.add(totals);
    }
    catalog.segments += 1;
    catalog.stored_bytes += segment.bytes;
    Ok(all)
}

/// What a log holds, without its rows. Its series are registered.
struct Contents<'a> {
    store: &'a Store,
    /// The hashes of each group's series.
    groups: Vec<Vec<u64>>,
    totals: Totals,
    full: bool,
    damage: Option<Damage>,
    length: u64,
}

impl<'a> Contents<'a> {
    fn of(store: &'a Store, file: &Path) -> Result<Self> {
        let mut contents = Self {
            store,
            groups: Vec::new(),
            totals: Totals::default(),
            full: false,
            damage: None,
            length: bytes(file),
        };
        let damage = replay(file, &mut contents);
        contents.damage =
            damage.map_err(|error| io_error(format!("cannot read {}", file.display()), &error))?;
        if contents.full {
            return Err(too_many(store));
        }
        Ok(contents)
    }

    /// Whether a segment of these totals has all of it.
    fn is(&self, sealed: &Totals) -> bool {
        let whole = self.damage.as_ref().is_none_or(|it| it.torn);
        let sum = |totals: &Totals| (totals.points, totals.checksum);
        whole && sum(&self.totals) == sum(sealed)
    }
}

impl Replay for Contents<'_> {
    fn define(&mut self, names: Vec<&[u8]>) -> Option<()> {
        let registered = |name: &&[u8]| self.store.registry.register(name).is_some();
        self.full = !names.iter().all(registered);
        self.groups
            .push(names.iter().map(|name| series_hash(name)).collect());
        (!self.full && !names.is_empty()).then_some(())
    }

    fn width(&self, group: u32) -> Option<usize> {
        self.groups.get(group as usize).map(Vec::len)
    }

    fn row(&mut self, group: u32, time: i64, values: &[f64]) {
        for (hash, value) in self.groups[group as usize].iter().zip(values) {
            let point = std::iter::once((time, *value));
            self.totals.add(&Totals::of(*hash, point));
        }
    }
}

/// A log's rows, as a memtable would have them.
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
        let frozen = store.announce(frozen);
        store
            .seal(&frozen, true)
            .map_err(|error| cannot("make a segment of", &error))?;
        recovered.logs += 1;
        recovered.points += points as u64;
    } else if damage.as_ref().is_none_or(|it| it.torn) {
        fs::remove_file(file).map_err(|error| cannot("remove", &error))?;
    }
    if let Some(damage) = damage {
        let mut why = "the last record is cut short, as when a machine stops".to_owned();
        if !damage.torn {
            // More may be behind the bad record: not ours to throw away.
            let kept = keep(store, id, file)?;
            why = format!("a record is damaged; the log is kept as {kept}");
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

/// Gives a log that no segment replaces a name that no start takes up. Returns it.
fn keep(store: &Store, id: u64, file: &Path) -> Result<String> {
    let name = |id| path(&store.spec.data, "log", id, "log.damaged");
    let mut kept = name(id);
    while kept.exists() {
        kept = name(store.number());
    }
    let renamed = fs::rename(file, &kept);
    renamed.map_err(|error| io_error(format!("cannot rename {}", file.display()), &error))?;
    Ok(shown(&store.spec.data, &kept))
}
