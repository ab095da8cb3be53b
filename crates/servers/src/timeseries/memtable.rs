//! A reader thread's memtable: the points that are in memory only, and their log.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::log::{Log, RECORD};
use super::points::Part;
use super::series::Index;
use super::store::{Frozen, Store};
use venturi_base::codec::timeseries::parse::{Group as Number, Result, Sink, Wrong};

/// A group's text, vectors and places in tables, about.
const GROUP_BYTES: usize = 320;
/// Beyond this many groups the table is made anew for each memtable: most of them are not
/// heard of twice.
const KEPT_GROUPS: usize = 1 << 16;

/// The series that one message's columns belong to, and their rows since the last seal.
#[derive(Debug)]
struct Group {
    key: Box<[u8]>,
    cuts: Box<[u32]>,
    series: Box<[u32]>,
    /// The protocol that its key is cut by.
    language: u8,
    /// Which group followed this one the last time.
    next: Number,
    /// Its number in the log, once it has rows.
    logged: u32,
    /// How many rows the last memtable had of it.
    expected: usize,
    stamps: Vec<i64>,
    /// Row by row.
    values: Vec<f64>,
}

/// Has memory on its way to the cache, where this processor can be asked to.
#[inline(always)]
fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which no address can make fail.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

impl Group {
    /// What its next row takes comes to the cache while that row is read.
    #[inline(always)]
    fn prefetch(&self) {
        prefetch(self.key.as_ptr());
        // Its next line of the cache: names are long.
        prefetch(self.key.as_ptr().wrapping_add(64));
        prefetch(self.series.as_ptr());
        prefetch(self.stamps.as_ptr_range().end);
        prefetch(self.values.as_ptr_range().end);
    }
}

#[derive(Debug)]
pub struct Memtable {
    store: Arc<Store>,
    /// Place among the readers.
    reader: usize,
    groups: Vec<Group>,
    /// By protocol, as texts of two may be alike.
    index: [Index; 3],
    /// Groups that have rows, in the order of their first ones.
    active: Vec<Number>,
    points: usize,
    bytes: usize,
    id: Option<u64>,
    log: Option<Log>,
    born: Instant,
}

impl Memtable {
    pub fn new(store: Arc<Store>, reader: usize) -> Self {
        Self {
            store,
            reader,
            groups: Vec::new(),
            index: Default::default(),
            active: Vec::new(),
            points: 0,
            bytes: 0,
            id: None,
            log: None,
            born: Instant::now(),
        }
    }

    /// Whether it has to be sealed before it takes more.
    pub fn full(&self) -> bool {
        self.points >= self.store.spec.segment_points || self.bytes >= self.store.memtable_bytes
    }

    pub fn older_than(&self, age: Duration) -> bool {
        self.points > 0 && self.born.elapsed() >= age
    }

    /// The series, the stamps and the values, row by row, of one group after the other.
    pub fn rows(&self, at: usize) -> Option<(&[u32], &[i64], &[f64])> {
        let group = &self.groups[*self.active.get(at)? as usize];
        Some((&group.series, &group.stamps, &group.values))
    }

    /// Its number, where it has points.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// Ends a turn: what came goes to the log. After an error the store takes nothing more.
    pub fn commit(&mut self) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        if log.pending() == 0 {
            return Ok(());
        }
        // A record may need what one that was not written defines.
        if let Some(failure) = self.store.failure() {
            log.discard();
            return Err(Wrong::Store(failure));
        }
        match log.write() {
            Ok(bytes) => {
                self.store.written(self.reader, log, bytes);
                Ok(())
            }
            Err(error) => {
                let what = format!("cannot write {}: {error}", log.path.display());
                Err(Wrong::Store(self.store.fail(what)))
            }
        }
    }

    /// Takes the points out, for the sealer; the groups are kept for the next ones.
    pub fn freeze(&mut self) -> Option<Frozen> {
        let points = std::mem::take(&mut self.points);
        // Groups count too, those without a row as well: names alone may fill a memtable.
        self.bytes = 0;
        let forget = self.groups.len() > KEPT_GROUPS;
        let mut parts = Vec::with_capacity(self.active.len());
        for number in self.active.drain(..) {
            let group = &mut self.groups[number as usize];
            group.expected = group.stamps.len();
            parts.push(Part {
                series: group.series.clone(),
                stamps: std::mem::take(&mut group.stamps),
                values: std::mem::take(&mut group.values),
            });
        }
        if forget {
            self.groups = Vec::new();
            self.index.iter_mut().for_each(Index::clear);
        }
        if points == 0 {
            return None;
        }
        Some(Frozen {
            id: self.id.take()?,
            parts,
            log: self.log.take(),
        })
    }

    /// The first point of a memtable: its number, its log.
    #[cold]
    fn begin(&mut self) -> Result<()> {
        let (id, log) = self.store.begin().map_err(Wrong::Store)?;
        self.id = Some(id);
        self.log = log;
        self.born = Instant::now();
        Ok(())
    }

    /// A group's first row in this memtable.
    #[cold]
    fn enlist(&mut self, number: Number) -> Result<()> {
        if self.id.is_none() {
            self.begin()?;
        }
        let group = &mut self.groups[number as usize];
        group.logged = self.active.len() as u32;
        group.stamps.reserve_exact(group.expected);
        group
            .values
            .reserve_exact(group.expected * group.series.len());
        self.active.push(number);
        self.bytes += GROUP_BYTES;
        if let Some(log) = &mut self.log {
            let names = self.store.registry.names();
            log.define(group.series.iter().map(|&series| names.get(series)));
        }
        Ok(())
    }
}

/// Whose points are being read; what a parser is given.
#[derive(Debug)]
pub struct Turn<'a> {
    pub memtable: &'a mut Memtable,
    /// The protocol: 0, 1 or 2.
    pub language: usize,
    /// The group of this connection's last message.
    pub last: Number,
    pub points: u64,
}

impl Sink for Turn<'_> {
    #[inline]
    fn guess(&self) -> Option<Number> {
        let groups = &self.memtable.groups;
        let number = groups.get(self.last as usize)?.next;
        let group = groups.get(number as usize)?;
        // All protocols' groups are in one table, and another one's key would be misread.
        (usize::from(group.language) == self.language).then_some(number)
    }

    #[inline]
    fn key(&self, group: Number) -> (&[u8], &[u32]) {
        let group = &self.memtable.groups[group as usize];
        (&group.key, &group.cuts)
    }

    fn find(&self, key: &[u8]) -> Option<Number> {
        let hash = xxh3_64_with_seed(key, self.language as u64);
        let groups = &self.memtable.groups;
        self.memtable.index[self.language].find(hash, |it| &groups[it as usize].key[..] == key)
    }

    fn define(&mut self, key: &[u8], cuts: &[u32], series: &[Vec<u8>]) -> Result<Number> {
        let memtable = &mut *self.memtable;
        let registry = &memtable.store.registry;
        let numbers: Option<Box<[u32]>> =
            series.iter().map(|name| registry.register(name)).collect();
        let series = numbers.ok_or_else(|| {
            let most = memtable.store.spec.max_series;
            Wrong::Store(format!("too many series: max_series is {most}"))
        })?;
        let number = memtable.groups.len() as Number;
        memtable.bytes += key.len() + 4 * cuts.len() + GROUP_BYTES;
        memtable.index[self.language].insert(xxh3_64_with_seed(key, self.language as u64), number);
        memtable.groups.push(Group {
            key: key.into(),
            cuts: cuts.into(),
            series,
            language: self.language as u8,
            next: 0,
            logged: 0,
            expected: 0,
            stamps: Vec::new(),
            values: Vec::new(),
        });
        Ok(number)
    }

    #[inline]
    fn width(&self, group: Number) -> usize {
        self.memtable.groups[group as usize].series.len()
    }

    #[inline]
    fn push(&mut self, number: Number, time: i64, values: &[f64]) -> Result<()> {
        let memtable = &mut *self.memtable;
        if let Some(last) = memtable.groups.get_mut(self.last as usize) {
            last.next = number;
        }
        self.last = number;
        let group = &memtable.groups[number as usize];
        let store = &*memtable.store;
        // Racing connections of one series may pass each other here; sealing sorts.
        let mut late = None;
        for &series in &group.series {
            if time < store.registry.last(series).load(Ordering::Relaxed) {
                late = Some(series);
            }
        }
        if let Some(series) = late {
            store.allow_late(series, group.series.len())?;
        }
        // Only a row that stays makes a group active: whoever is, has one.
        if group.stamps.is_empty() {
            memtable.enlist(number)?;
        }
        let group = &mut memtable.groups[number as usize];
        let store = &*memtable.store;
        for &series in &group.series {
            match late {
                None => store.registry.last(series).store(time, Ordering::Relaxed),
                // Others of the row may not have been later.
                Some(_) => store.seen(series, time),
            }
        }
        group.stamps.push(time);
        // A row is short: a call for each costs more than a look at the room for each value.
        values.iter().for_each(|&value| group.values.push(value));
        memtable.points += values.len();
        memtable.bytes += 8 + 8 * values.len();
        self.points += values.len() as u64;
        let next = group.next;
        if let Some(log) = &mut memtable.log {
            log.row(group.logged, time, values);
            if log.pending() >= RECORD {
                memtable.commit()?;
            }
        }
        if let Some(group) = memtable.groups.get(next as usize) {
            group.prefetch();
        }
        Ok(())
    }

    fn now(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        })
    }
}
