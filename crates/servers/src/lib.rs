//! Reference servers, one a target: something to measure on a fresh machine, and the
//! other end of an exact verification.

mod access;
pub mod account;
pub mod charrow;
pub mod flight;
mod listening;
mod machine;
mod sampling;
mod shell;
pub mod timeseries;
