//! Clocks, counters, histograms and samplers.

pub mod align;
pub mod clock;
pub mod counters;
pub mod cpu;
pub mod end;
pub mod handicap;
pub mod histogram;
pub mod instrument;
pub mod pauses;
pub mod readers;
pub mod resources;
pub mod sampler;
pub mod series;
pub mod sockets;
