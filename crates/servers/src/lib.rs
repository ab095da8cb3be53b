//! Reference servers, one a target: something to measure on a fresh machine, and the
//! other end of an exact verification.

mod access;
pub mod account;
mod admission;
pub mod charrow;
pub mod flight;
pub mod http;
mod listening;
mod machine;
mod questions;
mod rows;
mod sampling;
mod shell;
mod state;
mod store;
#[cfg(test)]
mod tests;
pub mod timeseries;
