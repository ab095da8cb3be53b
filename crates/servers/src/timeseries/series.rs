//! Series: canonical name <-> number, the time of each one's last point, and sums of points.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::OnceLock;

use parking_lot::{RwLock, RwLockReadGuard};
use serde_json::{json, Value};
use xxhash_rust::xxh3::xxh3_64;

use venturi_base::data::points::mix;

/// Numbers found by a hash that was made elsewhere. Names of the same hash take the next
/// free place, so the caller has to compare.
#[derive(Debug, Default)]
pub struct Index(HashMap<u64, u32, BuildHasherDefault<Ready>>);

/// The key is a hash already.
#[derive(Debug, Default)]
pub struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Index {
    pub fn find(&self, mut hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        loop {
            let number = *self.0.get(&hash)?;
            if same(number) {
                return Some(number);
            }
            hash = hash.wrapping_add(1);
        }
    }

    pub fn insert(&mut self, mut hash: u64, number: u32) {
        while self.0.contains_key(&hash) {
            hash = hash.wrapping_add(1);
        }
        self.0.insert(hash, number);
    }

    pub fn clear(&mut self) {
        self.0 = HashMap::default();
    }
}

const CHUNK: usize = 4096;
/// No point yet.
pub const NEVER: i64 = i64::MIN;

/// Bytes of names that are kept together: an allocation each would cost as much again.
const TEXT: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Names {
    /// Names one after the other; a text is left when the next name does not fit.
    texts: Vec<Vec<u8>>,
    /// By number: which text, and where in it.
    places: Vec<(u32, u32, u32)>,
    index: Index,
}

impl Names {
    pub fn get(&self, series: u32) -> &[u8] {
        let find = |&(text, from, to): &(u32, u32, u32)| {
            self.texts
                .get(text as usize)?
                .get(from as usize..to as usize)
        };
        let place = self.places.get(series as usize);
        place.and_then(find).unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    fn add(&mut self, name: &[u8], hash: u64) -> u32 {
        let fits = |text: &Vec<u8>| text.len() + name.len() <= text.capacity();
        if !self.texts.last().is_some_and(fits) {
            self.texts.push(Vec::with_capacity(TEXT.max(name.len())));
        }
        let (series, last) = (self.len() as u32, self.texts.len() - 1);
        let text = &mut self.texts[last];
        let from = text.len() as u32;
        text.extend_from_slice(name);
        self.places.push((last as u32, from, text.len() as u32));
        self.index.insert(hash, series);
        series
    }

    fn find(&self, name: &[u8], hash: u64) -> Option<u32> {
        self.index.find(hash, |it| self.get(it) == name)
    }
}

type Times = Box<[AtomicI64]>;

#[derive(Debug)]
pub struct Registry {
    names: RwLock<Names>,
    /// Grows without moving, so that readers need no lock.
    lasts: Box<[OnceLock<Times>]>,
    limit: usize,
}

impl Registry {
    pub fn new(limit: usize) -> Self {
        let chunks = limit.div_ceil(CHUNK);
        Self {
            names: RwLock::default(),
            lasts: (0..chunks).map(|_| OnceLock::new()).collect(),
            limit,
        }
    }

    pub fn names(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read()
    }

    /// The number of a series, a new one where it is not known. None: there are too many.
    pub fn register(&self, name: &[u8]) -> Option<u32> {
        let hash = xxh3_64(name);
        if let Some(known) = self.names().find(name, hash) {
            return Some(known);
        }
        let mut names = self.names.write();
        if let Some(known) = names.find(name, hash) {
            return Some(known);
        }
        if names.len() >= self.limit {
            return None;
        }
        Some(names.add(name, hash))
    }

    /// How many series have a point.
    pub fn with_points(&self) -> u64 {
        let times = self.lasts.iter().filter_map(OnceLock::get).flatten();
        times
            .filter(|time| time.load(Ordering::Relaxed) != NEVER)
            .count() as u64
    }

    /// The time of a registered series' last point.
    #[inline]
    pub fn last(&self, series: u32) -> &AtomicI64 {
        let (chunk, place) = (series as usize / CHUNK, series as usize % CHUNK);
        let fill = || (0..CHUNK).map(|_| AtomicI64::new(NEVER)).collect();
        &self.lasts[chunk].get_or_init(fill)[place]
    }
}

/// Sums of points; those of two sets can be put together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    pub points: u64,
    pub first: i64,
    pub last: i64,
    /// NaN where there is no number.
    pub min: f64,
    pub max: f64,
    pub sum: f64,
    pub checksum: u64,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            points: 0,
            first: i64::MAX,
            last: i64::MIN,
            min: f64::NAN,
            max: f64::NAN,
            sum: 0.0,
            checksum: 0,
        }
    }
}

impl Totals {
    /// Of one series' points, whose name has this hash.
    pub fn of(hash: u64, points: impl Iterator<Item = (i64, f64)>) -> Self {
        let mut totals = Self::default();
        for (time, value) in points {
            totals.points += 1;
            totals.first = totals.first.min(time);
            totals.last = totals.last.max(time);
            // These pass over NaN.
            totals.min = totals.min.min(value);
            totals.max = totals.max.max(value);
            totals.sum += value;
            totals.checksum = totals.checksum.wrapping_add(mix(hash, time, value));
        }
        totals
    }

    pub fn add(&mut self, other: &Self) {
        self.points += other.points;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }

    pub fn json(&self) -> Value {
        let time = |time: i64| (self.points > 0).then_some(time);
        json!({
            "points": self.points,
            "first_unix_ns": time(self.first),
            "last_unix_ns": time(self.last),
            "min": self.min,
            "max": self.max,
            "sum": self.sum,
            "checksum": format!("{:016x}", self.checksum),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers() {
        let registry = Registry::new(5000);
        for round in 0..2 {
            for number in 0..5000u32 {
                let name = format!("m host={number}");
                assert_eq!(registry.register(name.as_bytes()), Some(number), "{round}");
            }
        }
        assert_eq!(registry.register(b"one more"), None);
        assert_eq!(registry.names().get(4999), b"m host=4999");
        assert_eq!(registry.last(4999).load(Ordering::Relaxed), NEVER);
        registry.last(4999).store(7, Ordering::Relaxed);
        assert_eq!(registry.last(4999).load(Ordering::Relaxed), 7);
    }

    #[test]
    fn names_longer_than_a_text_and_between() {
        let registry = Registry::new(100);
        let lengths = [1, TEXT - 1, 2, 0, TEXT + 7, TEXT, 3];
        let name = |at: usize| vec![b'a' + at as u8; lengths[at]];
        for at in 0..lengths.len() {
            assert_eq!(registry.register(&name(at)), Some(at as u32));
        }
        let names = registry.names();
        assert!((0..lengths.len()).all(|at| names.get(at as u32) == name(at)));
        assert_eq!(names.len(), lengths.len());
    }

    #[test]
    fn names_of_one_hash_are_kept_apart() {
        let mut index = Index::default();
        index.insert(9, 0);
        index.insert(9, 1);
        index.insert(10, 2);
        assert_eq!(index.find(9, |it| it == 0), Some(0));
        assert_eq!(index.find(9, |it| it == 1), Some(1));
        assert_eq!(index.find(10, |it| it == 2), Some(2));
        assert_eq!(index.find(9, |it| it == 5), None);
    }
}
