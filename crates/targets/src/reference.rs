//! A reference server's samples of a trial, on the client's clock, whatever protocol they come by.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;

use crate::Watched;
use venturi_base::error::{Error, Result};
use venturi_base::meter::align::{align, Clock, Trip, TRIPS};
use venturi_base::meter::end::monotonic_ns;
use venturi_base::meter::series::Packed;

/// The question that begins the samples of a trial.
pub fn watch(trial: &str, interval: Duration) -> String {
    json!({"trial": trial, "interval_ns": interval.as_nanos() as u64}).to_string()
}

/// Round trips one after the other, each on the clocks of both ends. `ask` asks for the server's
/// clock, in ns as text; where it answers `None`, there are no trips.
pub async fn trips<T: AsRef<[u8]>>(
    mut ask: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<Vec<Trip>> {
    let mut trips = Vec::with_capacity(2 * TRIPS);
    for _ in 0..TRIPS {
        let sent_ns = monotonic_ns();
        let Some(answer) = ask().await? else {
            return Ok(vec![]);
        };
        let received_ns = monotonic_ns();
        let server_ns = String::from_utf8_lossy(answer.as_ref()).parse();
        trips.push(Trip {
            sent_ns,
            server_ns: server_ns
                .map_err(|_| Error::protocol("the server's answer to clock is not a time"))?,
            received_ns,
        });
    }
    Ok(trips)
}

/// Trips to the server before a trial, kept for those after it: between both lies its clock.
#[derive(Debug, Default)]
pub struct Clocks(Mutex<Vec<Trip>>);

impl Clocks {
    /// Keeps trips that were made before the trial.
    pub fn before(&self, trips: Vec<Trip>) {
        self.0.lock().extend(trips);
    }

    /// The server's answer with its samples; `after`: trips after the trial, `None` where both ends
    /// have one clock. Gives `None` where the clocks could not be compared: such samples have no
    /// place in time.
    pub fn placed(&self, samples: &[u8], after: Option<Vec<Trip>>) -> Result<Option<Watched>> {
        let packed: Packed = serde_json::from_slice(samples)
            .map_err(|error| Error::protocol(format!("the server's samples: {error}")))?;
        let series = packed.unpack()?;
        let clock = match after {
            None => Some(Clock::default()),
            Some(mut trips) => {
                trips.extend(self.0.lock().iter());
                align(&trips)
            }
        };
        Ok(clock.map(|clock| Watched { series, clock }))
    }
}
