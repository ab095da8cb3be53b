//! Points of time series: one value of one series at one time.
//!
//! Points travel in rows: a row is one set of tags at one time, with a value for each metric.
//! A `Layout` says what rows are made of, a `Block` holds some.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;

/// Payload of a point, in bytes: an int64 time and a float64 value.
pub const POINT_BYTES: u64 = 16;

/// The hash by which a series goes into digests. Its canonical name is `metric tag=value ...`:
/// one blank between, the tags sorted by name.
pub fn series_hash(canonical: &[u8]) -> u64 {
    xxh3_64(canonical)
}

/// A point's digest. Those of many points are summed up (wrapping): order does not matter,
/// and a point that comes twice counts twice.
#[inline]
pub fn mix(series: u64, time_ns: i64, value: f64) -> u64 {
    let mut x = series ^ (time_ns as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 32)).wrapping_add(value.to_bits().wrapping_mul(0xC2B2_AE3D_27D4_EB4F));
    x ^= x >> 29;
    x = x.wrapping_mul(0x1656_67B1_9E37_79F9);
    x ^ (x >> 32)
}

/// A column of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    pub name: String,
    /// All values are whole numbers that fit an int64, and are written so.
    pub integer: bool,
}

/// Metrics, and the sets of tags of the rows' keys.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    metrics: Vec<Metric>,
    /// The keys' tags, `a=b c=d`, one after the other.
    tags: Vec<u8>,
    ends: Vec<usize>,
    /// Of the keys' series, key by key.
    hashes: Vec<u64>,
}

impl Layout {
    pub fn new(metrics: Vec<Metric>) -> Self {
        Self {
            metrics,
            ..Self::default()
        }
    }

    /// Adds a key by its tags, sorted and without what no protocol can carry. Returns its number.
    pub fn add(&mut self, tags: &[u8]) -> u32 {
        let mut name = Vec::new();
        for metric in &self.metrics {
            name.clear();
            name.extend_from_slice(metric.name.as_bytes());
            name.push(b' ');
            name.extend_from_slice(tags);
            self.hashes.push(series_hash(&name));
        }
        self.tags.extend_from_slice(tags);
        self.ends.push(self.tags.len());
        (self.ends.len() - 1) as u32
    }

    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    pub fn keys(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub fn tags(&self, key: u32) -> &[u8] {
        let key = key as usize;
        let from = if key == 0 { 0 } else { self.ends[key - 1] };
        &self.tags[from..self.ends[key]]
    }

    /// Bytes of the longest key's tags.
    pub fn longest_tags(&self) -> usize {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let lengths = starts.zip(&self.ends).map(|(from, to)| to - from);
        lengths.max().unwrap_or(0)
    }

    /// Hashes of the key's series, one a metric.
    #[inline]
    pub fn hashes(&self, key: u32) -> &[u64] {
        let width = self.metrics.len();
        &self.hashes[key as usize * width..][..width]
    }
}

/// Some rows.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// A row's key and its time, in nanoseconds of Unix time.
    pub keys: Vec<u32>,
    pub times: Vec<i64>,
    /// Row by row, one a metric.
    pub values: Vec<f64>,
    /// Values that are not there, as `values`; empty where all are.
    pub absent: Vec<bool>,
}

impl Block {
    pub fn clear(&mut self) {
        self.keys.clear();
        self.times.clear();
        self.values.clear();
        self.absent.clear();
    }

    pub fn rows(&self) -> usize {
        self.keys.len()
    }

    pub fn points(&self) -> u64 {
        let absent = self.absent.iter().filter(|absent| **absent).count();
        (self.values.len() - absent) as u64
    }

    /// The sum of the points' digests.
    pub fn digest(&self, layout: &Layout) -> u64 {
        let width = layout.metrics.len().max(1);
        let rows = self.values.chunks_exact(width);
        let mut sum = 0u64;
        for (row, values) in rows.enumerate() {
            let (hashes, time) = (layout.hashes(self.keys[row]), self.times[row]);
            if self.absent.is_empty() {
                for (hash, value) in hashes.iter().zip(values) {
                    sum = sum.wrapping_add(mix(*hash, time, *value));
                }
                continue;
            }
            let absent = &self.absent[row * width..][..width];
            for ((hash, value), absent) in hashes.iter().zip(values).zip(absent) {
                if !absent {
                    sum = sum.wrapping_add(mix(*hash, time, *value));
                }
            }
        }
        sum
    }
}

/// A stream's rows, in the order in which they are sent: time never goes back.
pub trait Rows: Send {
    /// Puts so many rows at most into a block that is empty; none: there are no more.
    fn fill(&mut self, rows: usize, block: &mut Block) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_every_part_of_a_point() {
        let series = series_hash(b"cpu.user host=a");
        let one = mix(series, 1_000, 1.5);
        assert_ne!(one, mix(series_hash(b"cpu.user host=b"), 1_000, 1.5));
        assert_ne!(one, mix(series, 1_001, 1.5));
        assert_ne!(one, mix(series, 1_000, -1.5));
        assert_ne!(mix(series, 0, 0.0), mix(series, 0, -0.0));
        // For ever: stores keep them.
        assert_eq!(mix(1, 2, 3.0), 0xfd7f_86b9_61a3_36ee);
        assert_eq!(series_hash(b""), 0x2d06_8005_38d3_94c2);
    }

    #[test]
    fn what_is_absent_is_no_point() {
        let metric = |name: &str| Metric {
            name: name.into(),
            integer: false,
        };
        let mut layout = Layout::new(vec![metric("a"), metric("b")]);
        assert_eq!(layout.add(b"h=1"), 0);
        assert_eq!(layout.add(b"h=22"), 1);
        assert_eq!(
            (layout.tags(0), layout.tags(1)),
            (&b"h=1"[..], &b"h=22"[..])
        );
        assert_eq!(layout.longest_tags(), 4);
        let mut block = Block {
            keys: vec![0, 1],
            times: vec![5, 6],
            values: vec![1.0, 2.0, 3.0, 4.0],
            absent: Vec::new(),
        };
        let all = block.digest(&layout);
        assert_eq!(block.points(), 4);
        block.absent = vec![false, true, false, false];
        assert_eq!(block.points(), 3);
        let gone = mix(series_hash(b"b h=1"), 5, 2.0);
        assert_eq!(block.digest(&layout), all.wrapping_sub(gone));
    }
}
