//! Reference servers, one a target: something to measure on a fresh machine, and the
//! other end of an exact verification.

pub mod flight;
pub mod timeseries;
