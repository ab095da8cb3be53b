//! The event loop of a thread.

use std::future::Future;

use crate::error::{Error, Kind, Result};

pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(Kind::Io, format!("no event loop: {error}")))
}

/// Waits for one call outside any trial, on an event loop made for it.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    Ok(runtime()?.block_on(work))
}
