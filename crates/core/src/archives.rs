//! Makes archives: N files by M threads, then the manifest.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};
use parking_lot::Mutex;
use serde::Deserialize;

use venturi_base::codec::timeseries::{Digits, Form, Resp, Text};
use venturi_base::data::archive::{io, Archive, Manifest, MANIFEST, VERSION};
use venturi_base::data::metrics::{Metrics, MOST_HOSTS, WIDTH};
use venturi_base::data::points::{Block, Rows};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::counters::Counters;
use venturi_base::spec::Data;
use venturi_engine::{Control, Phase};

/// Rows that are made in one go.
const ROWS: usize = 1000;

/// What `generate` is asked for, as JSON (docs/format.md).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub path: PathBuf,
    pub data: Data,
    pub archives: usize,
    pub steps: u64,
    #[serde(default)]
    pub format: Form,
    #[serde(default = "seventeen")]
    pub digits: Option<u32>,
    /// Of gzip, 0 to 9.
    #[serde(default = "six")]
    pub level: u32,
    pub threads: usize,
}

fn seventeen() -> Option<u32> {
    Some(17)
}
fn six() -> u32 {
    6
}

impl Order {
    pub fn parse(json: &str) -> Result<Self> {
        let order: Self = serde_json::from_str(json)
            .map_err(|error| Error::usage(format!("archives: {error}")))?;
        let wrong = |message: &str| Err(Error::usage(message));
        if order.archives == 0 || order.archives > 65_536 {
            return wrong("archives must be 1..65536");
        }
        if order.steps == 0 {
            return wrong("steps must be at least 1");
        }
        if order.level > 9 {
            return wrong("level must be 0..9");
        }
        if order.threads == 0 || order.threads > 4096 {
            return wrong("threads must be 1..4096");
        }
        if order.format == Form::Dictionary {
            return wrong("archives hold rows or values: a dictionary is for one connection");
        }
        order.digits()?;
        let metrics = order.metrics()?;
        if metrics.hosts == 0 || metrics.hosts > MOST_HOSTS || metrics.tick_ns < 0 {
            return wrong("hosts must be 1..10000000, and tick_ns not negative");
        }
        if order.archives as u64 > metrics.hosts {
            return Err(Error::usage(format!(
                "{} archives of {} hosts: an archive has at least one host",
                order.archives, metrics.hosts
            )));
        }
        Ok(order)
    }

    fn digits(&self) -> Result<Digits> {
        match self.digits {
            Some(17) => Ok(Digits::Seventeen),
            None => Ok(Digits::Shortest),
            Some(other) => Err(Error::usage(format!(
                "digits = {other}: 17, or null for as few as read back as the same value"
            ))),
        }
    }

    fn metrics(&self) -> Result<Metrics> {
        let none = || Error::usage("archives are made of points: data = metrics");
        let metrics = Metrics::of(&self.data).ok_or_else(none)?;
        Ok(Metrics {
            steps: Some(self.steps),
            ..metrics
        })
    }
}

/// Makes the archives of an order (JSON). Answers with the manifest. What was begun is removed
/// when it fails, or is cancelled.
pub fn generate(json: &str, control: &Control) -> Result<String> {
    let order = Order::parse(json)?;
    let metrics = order.metrics()?;
    let mut made = Made::begin(&order.path)?;
    let counters = Counters::row(order.threads);
    control.start(Instant::now(), counters.clone());
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, Archive)>> = Mutex::default();
    let failure: Mutex<Option<Error>> = Mutex::default();
    std::thread::scope(|scope| {
        for counters in counters.iter() {
            let (order, metrics, made) = (&order, &metrics, &made);
            let (next, failed, done, failure) = (&next, &failed, &done, &failure);
            scope.spawn(move || loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= order.archives || failed.load(Relaxed) {
                    return;
                }
                let stop = || failed.load(Relaxed) || control.cancelled();
                match one(order, metrics, number, made, counters, &stop) {
                    Ok(archive) => {
                        let mut done = done.lock();
                        done.push((number, archive));
                    }
                    Err(error) => {
                        failed.store(true, Relaxed);
                        let mut first = failure.lock();
                        first.get_or_insert(error);
                    }
                }
            });
        }
    });
    control.enter(Phase::Done);
    if let Some(error) = failure.into_inner() {
        return Err(error);
    }
    let mut archives = done.into_inner();
    archives.sort_by_key(|archive| archive.0);
    let archives: Vec<Archive> = archives.into_iter().map(|archive| archive.1).collect();
    let text = manifest(&order, &metrics, archives, json)?;
    let path = made.file(MANIFEST);
    write_file(&path, text.as_bytes())?;
    made.complete = true;
    Ok(text)
}

fn manifest(
    order: &Order,
    metrics: &Metrics,
    archives: Vec<Archive>,
    json: &str,
) -> Result<String> {
    let given: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let sum = |of: fn(&Archive) -> u64| archives.iter().map(of).sum();
    let digest = archives
        .iter()
        .fold(0u64, |sum, archive| sum.wrapping_add(archive.digest()));
    let span = (metrics.tick_ns as i128 * (order.steps as i128 - 1)).min(i64::MAX as i128);
    let manifest = Manifest {
        format: VERSION,
        software: concat!("venturi ", env!("CARGO_PKG_VERSION")).into(),
        messages: if order.format == Form::Values {
            "values"
        } else {
            "rows"
        }
        .into(),
        metrics: Metrics::metrics()
            .into_iter()
            .map(|metric| metric.name)
            .collect(),
        points: sum(|archive| archive.points),
        series: sum(|archive| archive.series),
        bytes: sum(|archive| archive.bytes),
        compressed_bytes: sum(|archive| archive.compressed_bytes),
        checksum: format!("{digest:016x}"),
        first_unix_ns: metrics.start_unix_ns,
        last_unix_ns: metrics.start_unix_ns.saturating_add(span as i64),
        archives,
        data: given["data"].clone(),
    };
    serde_json::to_string_pretty(&manifest)
        .map_err(|error| Error::new(Kind::Internal, format!("the manifest: {error}")))
}

fn one(
    order: &Order,
    metrics: &Metrics,
    number: usize,
    made: &Made,
    counters: &Counters,
    stop: &dyn Fn() -> bool,
) -> Result<Archive> {
    let hosts: Range<u64> = metrics.share(number, order.archives)?;
    let (first, last) = (hosts.start, hosts.end - 1);
    let name = format!("host_range_{first}_{last}.gz");
    let path = made.file(&name);
    let file = File::create_new(&path).map_err(|error| io(&path, &error))?;
    let mut out = GzEncoder::new(
        BufWriter::with_capacity(256 << 10, file),
        Compression::new(order.level),
    );
    let layout = metrics.layout(hosts.clone());
    let mut writer = Resp::new(order.format, order.digits()?, &layout);
    let mut walk = metrics.walk(hosts);
    let (mut block, mut text, mut crc) = (Block::default(), Text::default(), Crc::new());
    let (mut points, mut bytes, mut digest) = (0, 0, 0u64);
    loop {
        if stop() {
            return Err(Error::cancelled());
        }
        block.clear();
        walk.fill(ROWS, &mut block)?;
        if block.rows() == 0 {
            break;
        }
        text.clear();
        writer.write(&block, &layout, &mut text);
        digest = digest.wrapping_add(block.digest(&layout));
        crc.update(text.bytes());
        let written = out.write_all(text.bytes());
        written.map_err(|error| io(&path, &error))?;
        points += text.points();
        bytes += text.bytes().len() as u64;
        counters.add(text.points(), text.bytes().len() as u64);
    }
    let finish = || -> std::io::Result<u64> {
        let file = out
            .finish()?
            .into_inner()
            .map_err(|error| error.into_error())?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    };
    Ok(Archive {
        compressed_bytes: finish().map_err(|error| io(&path, &error))?,
        file: name,
        hosts: (first, last),
        points,
        series: layout.keys() as u64 * WIDTH as u64,
        bytes,
        checksum: format!("{digest:016x}"),
        crc32: format!("{:08x}", crc.sum()),
    })
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_extension("part");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&part);
        io(path, &error)
    })
}

/// What was begun on disk; goes when it is dropped before it is complete.
struct Made {
    directory: PathBuf,
    /// It was not there before.
    own: bool,
    files: Mutex<Vec<PathBuf>>,
    complete: bool,
}

impl Made {
    /// An empty directory, made where it is missing.
    fn begin(directory: &Path) -> Result<Self> {
        let own = !directory.exists();
        if own {
            fs::create_dir_all(directory).map_err(|error| io(directory, &error))?;
        }
        let mut entries = fs::read_dir(directory).map_err(|error| io(directory, &error))?;
        if entries.next().is_some() {
            return Err(Error::usage(format!(
                "{}: there are files in it already; name a directory that is empty or new",
                directory.display()
            )));
        }
        Ok(Self {
            directory: directory.to_owned(),
            own,
            files: Mutex::default(),
            complete: false,
        })
    }

    /// The path of a file that is made now.
    fn file(&self, name: &str) -> PathBuf {
        let path = self.directory.join(name);
        let mut files = self.files.lock();
        files.push(path.clone());
        path
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.complete {
            return;
        }
        // What cannot be removed either stays: the first error is the one that is told.
        for file in self.files.get_mut() {
            let _ = fs::remove_file(file);
        }
        if self.own {
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests;
