//! What a reference server says of itself and of a trial, and its samples of it, whatever protocol that comes by.

mod samples;

use std::fmt::Display;
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::Deserialize;

use crate::{Identity, Tally, Verification};
use venturi_base::codec::account::Account;
use venturi_base::error::{Error, Result};
use venturi_base::meter::readers::listener::{onward_of, peer_of};
use venturi_base::meter::readers::network::is_own;
use venturi_base::net::route::Route;
use venturi_base::os::machine::Place;
use venturi_base::spec::{Operation, Verify};

pub(crate) use samples::Reference;
pub use samples::{Observation, Question};

#[derive(Deserialize)]
struct Hello {
    software: String,
    /// What the server was slowed down by on purpose; empty: nothing.
    #[serde(default)]
    handicap: String,
    #[serde(default)]
    place: Place,
}

/// The server's account of a trial, as it is told.
pub fn account<T: DeserializeOwned>(told: &[u8]) -> Result<T> {
    let wrong = |error| Error::protocol(format!("the server's account of the trial: {error}"));
    serde_json::from_slice(told).map_err(wrong)
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

/// What was to be moved.
pub struct Planned {
    pub operation: Operation,
    /// Where it is known before.
    pub rows: Option<u64>,
    /// It ends with its rows, and not with its time.
    pub fixed_work: bool,
}

/// METHOD, "Verification": what arrived is what was sent. `account`: of a server that tells what it
/// sent, or has received.
pub fn compared(
    requested: Verify,
    planned: &Planned,
    account: Option<Account>,
    tallies: &[Tally],
) -> Verification {
    let rows = tallies.iter().map(|tally| tally.rows).sum();
    let mut verification = Verification::of(requested, rows);
    if requested == Verify::None {
        return verification;
    }
    if let Some(account) = account {
        verification.expected_rows = Some(account.rows);
        verification.achieved = "count";
        if requested == Verify::Checksum {
            let checksum = tallies
                .iter()
                .fold(0u64, |sum, tally| sum.wrapping_add(tally.checksum));
            verification.achieved = "checksum";
            verification.checksum = Some(format!("{checksum:016x}"));
            verification.expected_checksum = Some(account.checksum);
        }
    } else {
        match (planned.operation, planned.rows) {
            // Where the time was long enough, all of it came.
            (Operation::Get, Some(planned_rows)) if planned.fixed_work || rows >= planned_rows => {
                verification.achieved = "count";
                verification.expected_rows = Some(planned_rows);
            }
            (Operation::Get, Some(_)) => {
                verification.note = Some(
                    "a get that ends with its time has no number of rows to be held against".into(),
                );
            }
            (Operation::Get, None) => {
                verification.note = Some("the server does not say how many rows it sent".into());
            }
            (Operation::Put | Operation::Upsert | Operation::Ingest, _) => {
                verification.achieved = "acknowledged";
                verification.expected_rows = planned.rows.filter(|_| planned.fixed_work);
                verification.note = Some("the server acknowledged the whole stream, but does not say how many rows it took".into());
            }
        }
        if requested == Verify::Checksum && verification.note.is_none() {
            verification.note = Some("only Venturi's own server tells a checksum".into());
        }
    }
    let is_get = planned.operation == Operation::Get;
    let (receiver, sender) = match is_get {
        true => ("the client", "the server"),
        false => ("the server", "the client"),
    };
    if let Some(expected) = verification.expected_rows {
        let (received, sent) = if is_get {
            (rows, expected)
        } else {
            (expected, rows)
        };
        verification.compare_rows((receiver, received), (sender, sent));
    }
    verification.compare_checksums(receiver, sender);
    verification
}
