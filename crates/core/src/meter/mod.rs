//! Clocks, counters, histograms and samplers.

pub mod clock;
pub mod counters;
pub mod cpu;
pub mod handicap;
pub mod histogram;
pub mod instrument;
pub mod sampler;
pub mod sockets;
