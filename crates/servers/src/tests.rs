//! What the tests of several servers share.

use venturi_base::meter::clock::Workers;
use venturi_engine::record::Stages;

/// The stages of an end are its workers' time, but for what passes between two readings.
pub fn assert_gap_free(stages: &Stages, workers: Workers) {
    let (sum, time) = (stages.values().sum::<u64>() as f64, workers.time_ns as f64);
    assert!((sum - time).abs() <= 0.05 * time + 2e6, "{sum} of {time}");
}
