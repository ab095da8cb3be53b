//! What measuring costs: the instrument measures itself.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use serde::Serialize;

use super::counters::Counters;
use super::histogram::Recorder;

/// Costs in ns a time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Instrument {
    /// The smallest step that the clock was seen to make.
    pub clock_resolution_ns: u64,
    /// Reading the clock once.
    pub clock_read_ns: f64,
    /// Counting one batch: counters and histogram.
    pub record_ns: f64,
}

impl Instrument {
    /// Measured on first use (some 10 ms), then remembered.
    pub fn get() -> Instrument {
        static MEASURED: OnceLock<Instrument> = OnceLock::new();
        *MEASURED.get_or_init(Self::measure)
    }

    pub fn to_json(&self) -> String {
        // Numbers only: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Measures now. The least of several rounds counts: what disturbs only adds.
    pub fn measure() -> Instrument {
        let counters = Counters::default();
        let mut recorder = Recorder::new();
        let mut ns = 0;
        Instrument {
            clock_resolution_ns: resolution(),
            clock_read_ns: least(|| {
                black_box(Instant::now());
            }),
            record_ns: least(|| {
                ns = (ns + 37) & 0xffff;
                recorder.record(black_box(ns));
                counters.add(black_box(4096), black_box(131_072));
            }),
        }
    }
}

fn resolution() -> u64 {
    (0..1000)
        .map(|_| {
            let start = Instant::now();
            loop {
                let step = start.elapsed().as_nanos() as u64;
                if step > 0 {
                    return step;
                }
            }
        })
        .min()
        .unwrap_or(0)
}

fn least(mut step: impl FnMut()) -> f64 {
    const STEPS: u32 = 20_000;
    (0..7)
        .map(|_| {
            let start = Instant::now();
            (0..STEPS).for_each(|_| step());
            start.elapsed().as_nanos() as f64 / f64::from(STEPS)
        })
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_costs_something_but_little() {
        let instrument = Instrument::get();
        assert!(instrument.clock_resolution_ns > 0);
        assert!(instrument.clock_read_ns > 0.1 && instrument.clock_read_ns < 10_000.0);
        assert!(instrument.record_ns > 0.1 && instrument.record_ns < 10_000.0);
    }
}
