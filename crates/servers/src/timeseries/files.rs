//! The files of sealed segments, and whether each is what was written.
//!
//! The checksum in a file's name covers every byte of it, and one that turns in the name is found
//! as well.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use super::segment::{self, parse, sync_directory};

const BUFFER: usize = 1 << 20;

/// A file that does not hold what was written to it, and what cannot be read of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damaged {
    /// Below the store's directory.
    pub file: String,
    /// From here on nothing was read.
    pub offset: u64,
    pub lost_bytes: u64,
    pub why: String,
}

/// A segment both of whose files are what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Segment {
    pub id: u64,
    pub points: PathBuf,
    pub series: PathBuf,
    pub bytes: u64,
}

impl Segment {
    /// Waits until both files, and their names, are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        for file in [&self.series, &self.points] {
            File::open(file)?.sync_all()?;
            file.parent().map_or(Ok(()), sync_directory)?;
        }
        Ok(())
    }
}

/// What is sealed in a directory.
#[derive(Debug, Default, Serialize)]
pub struct Sealed {
    pub segments: Vec<Segment>,
    pub damaged: Vec<Damaged>,
}

fn checksum(path: &Path) -> io::Result<u64> {
    let (mut file, mut hash) = (File::open(path)?, Xxh3::new());
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hash.digest()),
            Ok(read) => hash.update(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The size of a file; 0 if nothing can be known of it.
pub fn bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folder {
    Points,
    Series,
}

/// A file as its folder lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    path: PathBuf,
    folder: Folder,
    checksum: u64,
}

impl Listed {
    /// How many points it has, or tells of, once every byte that a checksum covers was looked at.
    fn points(&self) -> Result<u64, String> {
        let path = &self.path;
        let found = checksum(path).map_err(|error| format!("it cannot be read: {error}"))?;
        if found != self.checksum {
            return Err("it does not have the checksum in its name".into());
        }
        let counted = match self.folder {
            Folder::Points => segment::promised_rows(path),
            Folder::Series => segment::count_points(path),
        };
        counted.map_err(|error| error.to_string())
    }
}

/// Looks at the sealed segments of a store, which may run. Every file is read whole.
pub fn look(data: &Path) -> io::Result<Sealed> {
    let mut inspector = Inspector {
        data: data.into(),
        known: HashMap::new(),
    };
    let mut sealed = Sealed::default();
    // A segment counts from the moment its points are there; its series were there before.
    let points = inspector.list("points", Folder::Points, &mut sealed.damaged)?;
    let series = inspector.list("series", Folder::Series, &mut sealed.damaged)?;
    let both = points
        .iter()
        .filter_map(|(id, it)| Some((it, series.get(id)?)));
    let wanted: Vec<&Listed> = both.flat_map(|(a, b)| [a, b]).collect();
    inspector.read(&wanted);
    for (id, points) in &points {
        match inspector.segment(*id, points, series.get(id)) {
            Ok(segment) => sealed.segments.push(segment),
            Err(damaged) => sealed.damaged.extend(damaged),
        }
    }
    sealed.damaged.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(sealed)
}

#[derive(Debug)]
struct Inspector {
    data: PathBuf,
    /// The points of each file that was read.
    known: HashMap<PathBuf, Result<u64, String>>,
}

impl Inspector {
    fn damaged(&self, path: &Path, why: String) -> Damaged {
        let file = path.strip_prefix(&self.data).unwrap_or(path);
        Damaged {
            file: file.display().to_string(),
            offset: 0,
            lost_bytes: bytes(path),
            why,
        }
    }

    /// A folder's files by their numbers.
    fn list(
        &self,
        name: &str,
        folder: Folder,
        damaged: &mut Vec<Damaged>,
    ) -> io::Result<BTreeMap<u64, Listed>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(self.data.join(name))? {
            paths.push(entry?.path());
        }
        paths.sort();
        let mut found = BTreeMap::new();
        for path in paths {
            if path.extension().is_none_or(|it| it != "parquet") {
                continue;
            }
            let parsed = path.file_name().and_then(|it| it.to_str()).and_then(parse);
            let Some((id, checksum)) = parsed else {
                let why = "its name is not one of a segment's file".into();
                damaged.push(self.damaged(&path, why));
                continue;
            };
            let listed = Listed {
                path,
                folder,
                checksum,
            };
            if let Some(other) = found.get(&id) {
                let Listed { path: other, .. } = other;
                let other = other.strip_prefix(&self.data).unwrap_or(other);
                let why = format!("{} is the same segment's", other.display());
                damaged.push(self.damaged(&listed.path, why));
            } else {
                found.insert(id, listed);
            }
        }
        Ok(found)
    }

    /// Reads the files, as many at a time as there are CPUs.
    fn read(&mut self, wanted: &[&Listed]) {
        let (next, known) = (AtomicUsize::new(0), Mutex::new(HashMap::new()));
        let work = || {
            while let Some(listed) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let points = listed.points();
                known.lock().insert(listed.path.clone(), points);
            }
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 1..cpus.min(wanted.len()) {
                // Where no thread can be had, this one does it all.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        self.known = known.into_inner();
    }

    /// The segment, or which of its files is damaged.
    fn segment(
        &self,
        id: u64,
        points: &Listed,
        series: Option<&Listed>,
    ) -> Result<Segment, Vec<Damaged>> {
        let Some(series) = series else {
            let why = "its series file is missing".into();
            return Err(vec![self.damaged(&points.path, why)]);
        };
        let verdict = |listed: &Listed| match self.known.get(&listed.path) {
            Some(Ok(points)) => Ok(*points),
            Some(Err(why)) => Err(self.damaged(&listed.path, why.clone())),
            None => Err(self.damaged(&listed.path, "it was not read".into())),
        };
        match (verdict(points), verdict(series)) {
            (Ok(here), Ok(promised)) if here == promised => Ok(Segment {
                id,
                bytes: bytes(&points.path) + bytes(&series.path),
                points: points.path.clone(),
                series: series.path.clone(),
            }),
            (Ok(here), Ok(promised)) => {
                let why = format!("it has {here} points, its series file says {promised}");
                Err(vec![self.damaged(&points.path, why)])
            }
            (here, promised) => Err([here.err(), promised.err()].into_iter().flatten().collect()),
        }
    }
}
