//! Latencies: HDR histograms with 3 significant digits from 1 ns to 1 hour.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer ones are counted as this long.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The percentiles that every report may ask for.
const LADDER: [f64; 12] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0,
];

/// Collects latencies on one thread (some 270 kB); merged after the trial.
#[derive(Debug, Clone)]
pub struct Recorder(Histogram<u64>);

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    pub fn new() -> Self {
        // The bounds are constants that the constructor accepts (tested below).
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).unwrap_or_else(|_| unreachable!()))
    }

    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub fn merge(&mut self, other: &Recorder) {
        // Cannot fail: all recorders have the same bounds.
        let _ = self.0.add(&other.0);
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency below which `percent` of all lie, in ns.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    pub fn latency(&self) -> Latency {
        let mut hdr = Vec::new();
        // Fails only where memory does; then the histogram stays away, the rest counts.
        let _ = V2Serializer::new().serialize(&self.0, &mut hdr);
        Latency {
            count: self.0.len(),
            min: if self.0.is_empty() { 0 } else { self.0.min() },
            mean: self.0.mean(),
            max: self.0.max(),
            stdev: self.0.stdev(),
            percentiles: self.percentiles(),
            hdr: STANDARD.encode(hdr),
        }
    }

    /// The ladder, and five points each time the distance to 100 % halves, which draws
    /// a smooth percentile curve.
    fn percentiles(&self) -> Vec<(f64, u64)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut percents: Vec<f64> = LADDER.to_vec();
        percents.extend(self.0.iter_quantiles(5).map(|point| {
            let percent = point.quantile_iterated_to() * 100.0;
            (percent * 1e6).round() / 1e6
        }));
        percents.sort_by(f64::total_cmp);
        percents.dedup();
        percents
            .into_iter()
            .map(|percent| (percent, self.percentile(percent)))
            .collect()
    }
}

/// `LATENCY` of docs/format.md; all times in ns.
#[derive(Debug, Clone, Serialize)]
pub struct Latency {
    pub count: u64,
    pub min: u64,
    pub mean: f64,
    pub max: u64,
    pub stdev: f64,
    pub percentiles: Vec<(f64, u64)>,
    /// The histogram: HDR V2, not deflated, base64.
    pub hdr: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let latency = Recorder::new().latency();
        assert_eq!((latency.count, latency.min, latency.max), (0, 0, 0));
        assert!(latency.percentiles.is_empty());
        assert!(latency.mean.is_finite() && latency.stdev.is_finite());
    }

    #[test]
    fn longer_than_an_hour_is_an_hour() {
        let mut recorder = Recorder::new();
        recorder.record(u64::MAX);
        recorder.record(0);
        assert_eq!(recorder.count(), 2);
        assert!(recorder.latency().max >= LONGEST_NS);
    }

    #[test]
    fn the_encoding_reads_back() {
        let mut recorder = Recorder::new();
        (1..=1000).for_each(|n| recorder.record(n * 1000));
        let bytes = STANDARD.decode(recorder.latency().hdr).unwrap();
        let read: Histogram<u64> = hdrhistogram::serialization::Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        assert_eq!(read.len(), 1000);
        assert_eq!(read.value_at_percentile(50.0), recorder.percentile(50.0));
    }

    proptest! {
        #[test]
        fn percentiles_keep_three_digits(mut values in proptest::collection::vec(1u64..10_000_000_000, 1..300)) {
            let mut recorders = [Recorder::new(), Recorder::new()];
            for (at, &value) in values.iter().enumerate() {
                recorders[at % 2].record(value);
            }
            let [mut recorder, other] = recorders;
            recorder.merge(&other);
            values.sort_unstable();
            let latency = recorder.latency();
            prop_assert!(latency.percentiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
            for percent in LADDER {
                let rank = (percent / 100.0 * values.len() as f64).ceil().max(1.0) as usize;
                let right = values[rank - 1] as f64;
                let found = latency.percentiles.iter().find(|point| point.0 == percent).unwrap().1 as f64;
                prop_assert!((found - right).abs() <= right * 0.001 + 1.0, "{percent}: {found} for {right}");
            }
        }
    }
}
