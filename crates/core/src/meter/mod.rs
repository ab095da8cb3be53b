//! Clocks, counters, histograms and samplers.

pub mod clock;
