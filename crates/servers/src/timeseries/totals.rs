//! What is known of a series, or of many, without reading their points.

use serde_json::{json, Value};

use venturi_base::data::points::mix;

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
