//! What a reference server says of itself, and its samples of a trial, on the client's clock, whatever
//! protocol they come by.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use crate::{Identity, Watched};
use venturi_base::error::{Error, Result};
use venturi_base::meter::align::{align, Clock, Trip, TRIPS};
use venturi_base::meter::end::monotonic_ns;
use venturi_base::meter::readers::listener::{onward_of, peer_of};
use venturi_base::meter::readers::network::is_own;
use venturi_base::meter::series::Packed;
use venturi_base::net::route::Route;
use venturi_base::os::machine::Place;

#[derive(Deserialize)]
struct Hello {
    software: String,
    /// What the server was slowed down by on purpose; empty: nothing.
    #[serde(default)]
    handicap: String,
    #[serde(default)]
    place: Place,
}

impl Identity {
    /// By the first words of a reference server; another one says something else.
    pub(crate) fn introduce(&mut self, hello: &[u8]) {
        let Ok(hello) = serde_json::from_slice::<Hello>(hello) else {
            return;
        };
        self.reference = true;
        self.samples_itself = true;
        self.software = Some(hello.software);
        self.handicap = Some(hello.handicap).filter(|slowed| !slowed.is_empty());
        self.runs_at(&hello.place);
    }

    /// Another server: whose process it is, where it is one of this host. `listening`: who listens
    /// there, if that was looked for early.
    pub(crate) fn look(&mut self, listening: Option<Option<u32>>) {
        // At the other end of a Unix socket the kernel has told who it is.
        let neighbour = self.pid.filter(|_| listening.is_none());
        if let Some((pid, onward)) = neighbour.and_then(|pid| Some((pid, onward_of(pid)?))) {
            let at = self.address.clone();
            self.may_be_a_proxy(pid, &at, onward);
        }
        let Some(route) = self.route.filter(|route| is_own(route.peer.ip())) else {
            return;
        };
        self.same_machine = Some(true);
        match listening {
            Some(pid) => self.pid = pid,
            None => self.see(route),
        }
    }

    /// The process of this host that listens there is the server, unless it may be a proxy.
    fn see(&mut self, route: Route) {
        let Some(peer) = peer_of(route.local, route.peer) else {
            return;
        };
        match peer.onward {
            None => self.pid = Some(peer.pid),
            Some(onward) => self.may_be_a_proxy(peer.pid, &route.peer, onward),
        }
    }

    fn may_be_a_proxy(&mut self, pid: u32, at: &dyn Display, (name, to): (String, SocketAddr)) {
        (self.pid, self.same_machine) = (None, None);
        self.relay = Some(format!(
            "process {pid} ({name}) listens on {at} and has a connection of its own to {to}"
        ));
    }
}

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
