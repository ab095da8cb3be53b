//! What a reference server says of itself and observes of a trial, whatever protocol that comes by; its clock is
//! compared with ours.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::{json, Value};
use socket2::SockAddr;

use crate::systems::{Answer, System};
use crate::{Identity, LocalFuture, Observed, ServerReport, Tally, Verification, Watched};
use venturi_base::codec::account::Account;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::align::{align, Clock, Trip, TRIPS};
use venturi_base::meter::end::monotonic_ns;
use venturi_base::meter::readers::listener::{onward_of, peer_of};
use venturi_base::meter::readers::network::is_own;
use venturi_base::meter::series::Packed;
use venturi_base::net::route::Route;
use venturi_base::os::machine::Place;
use venturi_base::spec::{Operation, Verify};

#[derive(Deserialize)]
struct Hello {
    software: String,
    /// What the server was slowed down by on purpose; empty: nothing.
    #[serde(default)]
    handicap: String,
    #[serde(default)]
    place: Place,
}

/// A question outside of any trial.
async fn ask(url: &str, options: &BTreeMap<String, Value>, name: &str) -> Answer {
    match System::of_url(url).and_then(|system| system.ask) {
        Some(ask) => ask(url, options, name).await,
        None => Ok(None),
    }
}

/// What a reference server says of the machine and software it runs on: JSON. `None`: it is another one, or knows
/// nothing.
pub async fn environment(url: &str, options: &BTreeMap<String, Value>) -> Result<Option<String>> {
    let answer = ask(url, options, "environment").await?;
    let text = answer.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned());
    Ok(text.filter(|text| !text.is_empty() && text != "null"))
}

/// Where a reference server's raw probe listens, and what it wants to see, where it does not serve everybody; it
/// starts on demand.
pub async fn raw_peer(
    url: &str,
    options: &BTreeMap<String, Value>,
) -> Result<(SockAddr, Option<[u8; 8]>)> {
    let Some((host, answer)) = ask(url, options, "tcp").await? else {
        return Err(Error::new(
            Kind::Unsupported,
            "it is no `venturi serve`, which alone answers this probe",
        ));
    };
    let (port, ticket) = port_and_ticket(&answer)
        .ok_or_else(|| Error::protocol("the server's answer to tcp is not a port"))?;
    Ok((host.raw_peer(port).await?, ticket))
}

/// `PORT`, or `PORT TICKET` with the ticket in hexadecimal.
fn port_and_ticket(answer: &[u8]) -> Option<(u16, Option<[u8; 8]>)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (port, ticket) = match text.split_once(' ') {
        Some((port, ticket)) => (port, Some(u64::from_str_radix(ticket, 16).ok()?)),
        None => (text, None),
    };
    Some((port.parse().ok()?, ticket.map(u64::to_be_bytes)))
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// To sample itself from now on: true, if it does.
    Watch,
    /// What it has sampled.
    Samples,
    /// Its clock, in ns as text.
    Clock,
}

impl Question {
    pub fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Samples => "samples",
            Self::Clock => "clock",
        }
    }

    /// For errors.
    pub fn what(self) -> &'static str {
        match self {
            Self::Watch => "asking the server to sample",
            Self::Samples => "asking the server for its samples",
            Self::Clock => "comparing clocks",
        }
    }
}

/// What the server has told of a trial.
#[derive(Debug, Default)]
pub struct Observation {
    /// Comparisons of the clocks before the start, kept for those after it.
    trips: Mutex<Vec<Trip>>,
    account: Mutex<Option<Account>>,
}

/// How a server is asked for its side of a trial.
pub(crate) trait Reference {
    type Link;

    /// What was observed, of whom, and the trial's id.
    fn of_trial(&self) -> (&Observation, &Identity, &str);
    /// Its account, where it gives one.
    async fn ask_account(&self) -> Result<Option<Account>>;

    /// A connection; `first`: what it is for.
    async fn link(&self, first: Question) -> Result<Self::Link>;
    async fn ask(
        &self,
        link: &mut Self::Link,
        question: Question,
        payload: &str,
    ) -> Result<Vec<u8>>;
    /// Whether the error says that this question has no answer there: the server is older, or (samples) has too
    /// many trials at a time.
    fn has_none(question: Question, error: &Error) -> bool;

    /// The same, asked for once.
    async fn account(&self) -> Result<Option<Account>> {
        let kept = &self.of_trial().0.account;
        let known = kept.lock().clone();
        if known.is_some() {
            return Ok(known);
        }
        let account = self.ask_account().await?;
        kept.lock().clone_from(&account);
        Ok(account)
    }
}

/// Asks, unless the server has no answer: then `None`. Any other refusal is an error.
async fn answered<A: Reference>(
    server: &A,
    link: &mut A::Link,
    question: Question,
    payload: &str,
) -> Result<Option<Vec<u8>>> {
    match server.ask(link, question, payload).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if A::has_none(question, &error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks on a new connection, and returns it for further questions. Whatever keeps it from being made is an error:
/// no server says by that that it has no answer.
async fn connect_and_ask<A: Reference>(
    server: &A,
    question: Question,
    payload: &str,
) -> Result<Option<(A::Link, Vec<u8>)>> {
    let mut link = server.link(question).await?;
    let answer = answered(server, &mut link, question, payload).await?;
    Ok(answer.map(|answer| (link, answer)))
}

/// Round trips one after the other, each on the clocks of both ends; none where the server does not tell its own.
async fn trips<A: Reference>(server: &A, link: &mut A::Link) -> Result<Vec<Trip>> {
    let mut trips = Vec::with_capacity(2 * TRIPS);
    for _ in 0..TRIPS {
        let sent_ns = monotonic_ns();
        let Some(answer) = answered(server, link, Question::Clock, "").await? else {
            return Ok(vec![]);
        };
        let received_ns = monotonic_ns();
        let server_ns = String::from_utf8_lossy(&answer).parse();
        trips.push(Trip {
            sent_ns,
            server_ns: server_ns
                .map_err(|_| Error::protocol("the server's answer to clock is not a time"))?,
            received_ns,
        });
    }
    Ok(trips)
}

impl<R: Reference> Observed for R {
    fn server_report<'a>(&'a self) -> LocalFuture<'a, Result<Option<ServerReport>>> {
        Box::pin(async { Ok(self.account().await?.map(ServerReport::from)) })
    }

    fn watch<'a>(&'a self, interval: Duration) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (observation, identity, trial) = self.of_trial();
            if !identity.reference {
                return Ok(());
            }
            let interval = interval.as_nanos() as u64;
            let wanted = json!({"trial": trial, "interval_ns": interval}).to_string();
            match connect_and_ask(self, Question::Watch, &wanted).await? {
                Some((mut link, answer)) if answer == b"true" && !identity.same_clock => {
                    let trips = trips(self, &mut link).await?;
                    observation.trips.lock().extend(trips);
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    }

    /// `None` as well where the clocks could not be compared: such samples have no place in time.
    fn watched<'a>(&'a self) -> LocalFuture<'a, Result<Option<Watched>>> {
        Box::pin(async {
            let (observation, identity, trial) = self.of_trial();
            if !identity.reference {
                return Ok(None);
            }
            let asking = connect_and_ask(self, Question::Samples, trial);
            let Some((mut link, samples)) = asking.await? else {
                return Ok(None);
            };
            let packed: Packed = serde_json::from_slice(&samples)
                .map_err(|error| Error::protocol(format!("the server's samples: {error}")))?;
            let series = packed.unpack()?;
            let clock = match identity.same_clock {
                true => Some(Clock::default()),
                false => {
                    let mut trips = trips(self, &mut link).await?;
                    trips.extend(observation.trips.lock().iter());
                    align(&trips)
                }
            };
            Ok(clock.map(|clock| Watched { series, clock }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails at one question, or (`None`) at connecting; the rest it answers. A real server cannot be made to.
    struct Fails {
        at: Option<Question>,
        kind: Kind,
        identity: Identity,
        observation: Observation,
    }

    impl Reference for Fails {
        type Link = ();

        fn of_trial(&self) -> (&Observation, &Identity, &str) {
            (&self.observation, &self.identity, "t")
        }

        async fn ask_account(&self) -> Result<Option<Account>> {
            Ok(None)
        }

        async fn link(&self, _: Question) -> Result<()> {
            match self.at {
                Some(_) => Ok(()),
                None => Err(Error::new(self.kind, "no connection")),
            }
        }

        async fn ask(&self, _: &mut (), question: Question, _: &str) -> Result<Vec<u8>> {
            match question {
                asked if self.at == Some(asked) => Err(Error::new(self.kind, "no answer")),
                Question::Watch => Ok(b"true".to_vec()),
                Question::Samples => Ok(serde_json::to_vec(&Packed::default()).unwrap()),
                Question::Clock => Ok(b"1".to_vec()),
            }
        }

        fn has_none(_: Question, error: &Error) -> bool {
            error.kind == Kind::Unsupported
        }
    }

    #[test]
    fn what_a_server_has_no_answer_to_is_left_out_and_all_else_fails() {
        let begin = async |kind, at| {
            let server = Fails {
                at,
                kind,
                identity: Identity {
                    reference: true,
                    ..Identity::default()
                },
                observation: Observation::default(),
            };
            let begun = server.watch(Duration::ZERO).await;
            begun.map(|()| server.observation.trips.lock().len())
        };
        venturi_base::net::runtime::block_on(async {
            for at in [Question::Watch, Question::Clock] {
                assert_eq!(begin(Kind::Unsupported, Some(at)).await.unwrap(), 0);
                let error = begin(Kind::Server, Some(at)).await.unwrap_err();
                assert_eq!(error.kind, Kind::Server);
            }
            assert_eq!(
                begin(Kind::Server, Some(Question::Samples)).await.unwrap(),
                TRIPS
            );
            // Whatever it says: without a connection nobody was asked.
            let error = begin(Kind::Unsupported, None).await.unwrap_err();
            assert_eq!(error.message, "no connection");
        })
        .unwrap();
    }
}
