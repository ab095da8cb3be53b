//! A memtable's write-ahead log: `MAGIC`, then records `[length u32][!length u32][xxh3 u64][payload]`.
//!
//! The length is there twice, so that a damaged one is not taken for a record that is merely cut
//! short.
//!
//! A record is what one turn of a connection brought, written at once. Its payload is
//! entries: a group's number, its stamp and its values; before a group's first row its
//! definition, the names of its series. Numbers are little-endian.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"VENTLOG2";
/// That of the format before. Two bits differ, so that a flipped one is damage.
const BEFORE: &[u8; 8] = b"VENTLOG1";
const HEADER: usize = 16;
/// In place of a group's number: a definition follows.
const DEFINITION: u32 = u32::MAX;
/// A record is cut off here, so that none needs much room when it is read again.
pub const RECORD: usize = 4 << 20;

/// The log being written.
#[derive(Debug)]
pub struct Log {
    pub path: PathBuf,
    pub file: Arc<File>,
    pub length: u64,
    record: Vec<u8>,
}

impl Log {
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        file.write_all(MAGIC)?;
        Ok(Self {
            path,
            file: Arc::new(file),
            length: MAGIC.len() as u64,
            record: Vec::new(),
        })
    }

    /// One of an earlier run, which is not written any more.
    pub fn taken_up(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self {
            path: path.into(),
            length: file.metadata()?.len(),
            file: Arc::new(file),
            record: Vec::new(),
        })
    }

    fn open(&mut self) {
        if self.record.is_empty() {
            self.record.extend_from_slice(&[0; HEADER]);
        }
    }

    pub fn define<'a>(&mut self, names: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.open();
        let record = &mut self.record;
        record.extend_from_slice(&DEFINITION.to_le_bytes());
        record.extend_from_slice(&(names.len() as u32).to_le_bytes());
        for name in names {
            record.extend_from_slice(&(name.len() as u32).to_le_bytes());
            record.extend_from_slice(name);
        }
    }

    #[inline]
    pub fn row(&mut self, group: u32, time: i64, values: &[f64]) {
        self.open();
        let record = &mut self.record;
        record.extend_from_slice(&group.to_le_bytes());
        record.extend_from_slice(&time.to_le_bytes());
        // A row is short: a call for each costs more than a look at the room for each value.
        for value in values {
            record.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Forgets what has come together.
    pub fn discard(&mut self) {
        self.record.clear();
    }

    pub fn pending(&self) -> usize {
        self.record.len()
    }

    /// Writes what has come together. After an error the file ends with its last whole
    /// record. Returns the bytes written.
    pub fn write(&mut self) -> io::Result<u64> {
        if self.record.is_empty() {
            return Ok(0);
        }
        let payload = &self.record[HEADER..];
        let (length, hash) = (payload.len() as u32, xxh3_64(payload));
        self.record[..4].copy_from_slice(&length.to_le_bytes());
        self.record[4..8].copy_from_slice(&(!length).to_le_bytes());
        self.record[8..HEADER].copy_from_slice(&hash.to_le_bytes());
        // Not behind what an earlier write left in vain: no hole comes between two records.
        let written = self.file.write_all_at(&self.record, self.length);
        let bytes = self.record.len() as u64;
        self.record.clear();
        match written {
            Ok(()) => {
                self.length += bytes;
                Ok(bytes)
            }
            Err(error) => {
                let _ = self.file.set_len(self.length);
                Err(error)
            }
        }
    }
}

/// Where a log stops making sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub offset: u64,
    /// Bytes from there to the file's end.
    pub lost: u64,
    /// The last record is merely cut short, as after a crash of the machine.
    pub torn: bool,
}

/// What a log holds.
pub trait Replay {
    /// The names of the group that is next in number.
    fn define(&mut self, names: Vec<&[u8]>) -> Option<()>;
    /// A row; None: there is no such group. The number of values it has otherwise.
    fn width(&self, group: u32) -> Option<usize>;
    fn row(&mut self, group: u32, time: i64, values: &[f64]);
}

/// Reads a log up to its first bad record.
pub fn replay(path: &Path, into: &mut impl Replay) -> io::Result<Option<Damage>> {
    let mut reader = Reader {
        file: File::open(path)?,
        buffer: Vec::new(),
    };
    let size = reader.file.metadata()?.len();
    let damage = |offset: u64, torn: bool| {
        let lost = size - offset;
        Ok(Some(Damage { offset, lost, torn }))
    };
    if size < MAGIC.len() as u64 {
        // It was being made; an empty one has lost nothing.
        return if size == 0 { Ok(None) } else { damage(0, true) };
    }
    match reader.take(MAGIC.len())? {
        magic if magic == MAGIC => {}
        magic if magic == BEFORE => {
            let text = "another version of Venturi wrote it, in log format 1, and this one reads format 2; \
                        start that version, which seals it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        _ => return damage(0, false),
    }
    let mut offset = MAGIC.len() as u64;
    while offset < size {
        let left = size - offset;
        if left < HEADER as u64 {
            return damage(offset, true);
        }
        let header = reader.take(HEADER)?;
        let word = |from: usize| u32::from_le_bytes(std::array::from_fn(|at| header[from + at]));
        let length = word(0) as usize;
        let hash = u64::from_le_bytes(std::array::from_fn(|at| header[8 + at]));
        if length > 2 * RECORD || word(4) != !word(0) {
            return damage(offset, false);
        }
        if ((HEADER + length) as u64) > left {
            return damage(offset, true);
        }
        let payload = reader.take(length)?;
        if xxh3_64(payload) != hash || entries(payload, into).is_none() {
            return damage(offset, false);
        }
        offset += (HEADER + length) as u64;
    }
    Ok(None)
}

struct Reader {
    file: File,
    buffer: Vec<u8>,
}

impl Reader {
    fn take(&mut self, length: usize) -> io::Result<&[u8]> {
        self.buffer.resize(length, 0);
        io::Read::read_exact(&mut self.file, &mut self.buffer)?;
        Ok(&self.buffer)
    }
}

/// None: the payload is not what this version writes, though its hash is right.
fn entries(payload: &[u8], into: &mut impl Replay) -> Option<()> {
    let mut rest = payload;
    let mut values = Vec::new();
    while !rest.is_empty() {
        let group = number(&mut rest)?;
        if group == DEFINITION {
            let columns = number(&mut rest)?;
            let mut names = Vec::new();
            for _ in 0..columns {
                let length = number(&mut rest)? as usize;
                let (name, left) = rest.split_at_checked(length)?;
                names.push(name);
                rest = left;
            }
            into.define(names)?;
            continue;
        }
        let width = into.width(group)?;
        let (time, left) = rest.split_first_chunk::<8>()?;
        let (bytes, left) = left.split_at_checked(width * 8)?;
        rest = left;
        values.clear();
        let (chunks, _) = bytes.as_chunks::<8>();
        values.extend(chunks.iter().map(|bytes| f64::from_le_bytes(*bytes)));
        into.row(group, i64::from_le_bytes(*time), &values);
    }
    Some(())
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, left) = rest.split_first_chunk::<4>()?;
    *rest = left;
    Some(u32::from_le_bytes(*bytes))
}

/// Nobody has asked for longer than this: what is written goes to the disk all the same.
const PERIOD: Duration = Duration::from_millis(200);

/// Group commit: one `fdatasync` serves every connection that waits for it. What one reader has
/// written and what of it is on the disk, as counts of writes.
#[derive(Debug)]
pub struct Commit {
    written: AtomicU64,
    dirty: Mutex<Vec<Arc<File>>>,
    synced: watch::Sender<u64>,
}

/// Wakes the thread that syncs.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Bell {
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.bell.notify_one();
    }

    pub fn wait(&self) {
        let mut rung = self.rung.lock();
        self.bell.wait_while_for(&mut rung, |rung| !*rung, PERIOD);
        *rung = false;
    }
}

impl Default for Commit {
    fn default() -> Self {
        Self {
            written: AtomicU64::new(0),
            dirty: Mutex::default(),
            synced: watch::Sender::new(0),
        }
    }
}

impl Commit {
    /// A turn was written to this file.
    pub fn written(&self, file: &Arc<File>) {
        let mut dirty = self.dirty.lock();
        if !dirty.iter().any(|known| Arc::ptr_eq(known, file)) {
            dirty.push(file.clone());
        }
        drop(dirty);
        self.written.fetch_add(1, Ordering::Release);
    }

    /// Waits until all that was written up to now was synced, or could not be.
    pub async fn synced(&self, bell: &Bell) {
        let written = self.written.load(Ordering::Acquire);
        if *self.synced.borrow() < written {
            bell.ring();
            let mut synced = self.synced.subscribe();
            // The sender lives as long as the store does.
            let _ = synced.wait_for(|&synced| synced >= written).await;
        }
    }

    /// Syncs what was written; `failed` hears of an error before those who wait do.
    pub fn sync(&self, failed: impl Fn(io::Error)) {
        let written = self.written.load(Ordering::Acquire);
        if *self.synced.borrow() >= written {
            return;
        }
        let dirty = std::mem::take(&mut *self.dirty.lock());
        for file in dirty {
            if let Err(error) = file.sync_data() {
                failed(error);
            }
        }
        self.synced.send_replace(written);
    }
}
