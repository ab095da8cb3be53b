//! Reference servers, one a target: something to measure on a fresh machine, and the
//! other end of an exact verification.

pub(crate) mod access;
pub mod account;
pub mod charrow;
pub mod flight;
pub(crate) mod listening;
pub(crate) mod machine;
mod sampling;
pub mod timeseries;

/// A file that is held in memory, and served as a table.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    pub name: String,
    /// An Arrow IPC file.
    pub ipc: String,
}
