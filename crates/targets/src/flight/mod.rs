//! `flight://`: Arrow Flight, gets and puts. `docs/targets/flight.md`.
//!
//! Three kinds of server: Arrow's perf server (and any that speaks its protocol), any
//! Flight server (by path, command or ticket), and Venturi's reference server, which
//! speaks both and also accounts for its side of a trial.

pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod get;
pub(crate) mod offers;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod put;
pub(crate) mod reply;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;

use crate::hosts::of_stream;
use crate::reference::{self, compared, Observation, Planned, Question, Reference};
use crate::systems::System;
use crate::{planned, Identity, LocalFuture, Observed, Session, Tally, Target, Verification};
use call::Link;
pub(crate) use connect::wire;
use connect::{Destination, Server};
pub use offers::{offers, Listed, Offers};
pub(crate) use options::Over;
pub use options::{Address, Options};
use options::{Connections, Subject};
use plan::Plan;
use reply::says;
use venturi_base::codec::account::Account;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit;
use venturi_base::meter::clock::StageClock;
use venturi_base::meter::handicap::Handicap;
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

const SCHEME: &str = "flight";
/// What answers there, or should.
pub(crate) const SERVER: &str = "a gRPC server";

pub struct Flight {
    spec: Arc<TrialSpec>,
    /// Of the URL, at least one. Stream s of the whole trial speaks to number s modulo them.
    servers: Vec<Server>,
    subject: Subject,
    options: Options,
    headers: Vec<(String, Vec<u8>)>,
    handicap: Handicap,
    sockets: Arc<Sockets>,
    /// What a put sends, or a reference server is given to serve.
    source: Option<Source>,
    plan: Option<Plan>,
    /// Of all servers together.
    identity: Identity,
    /// The server whose samples are taken.
    watched: usize,
    observation: Observation,
}

/// Arrow Flight.
pub const SYSTEM: System = System {
    scheme: SCHEME,
    operations: &[Operation::Get, Operation::Put],
    ports: &[("flight", options::DEFAULT_PORT)],
    tls: true,
    unix: true,
    reference: Some("flight"),
    remote: true,
    parameters: &["command", "ticket"],
    ask: Some(offers::ask),
    target: |spec| Ok(Box::new(Flight::new(spec)?)),
    ..System::NOTHING
};

impl Flight {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let (addresses, subject) = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        let headers = options.headers()?;
        options::check(&spec, &subject, &options)?;
        let handicap = options.handicap(spec.operation, spec.verify)?;
        // The plan is a part of what is measured; going through all processes shall not be.
        let server = |address| Server::new(address, spec.include_setup);
        let servers = addresses.into_iter().map(server).collect();
        Ok(Self {
            spec,
            servers,
            subject,
            options,
            headers,
            handicap,
            sockets: Arc::default(),
            source: None,
            plan: None,
            identity: Identity::default(),
            watched: 0,
            observation: Observation::default(),
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    /// Whom a stream of the trial speaks to.
    fn server_of(&self, stream: usize) -> &Server {
        of_stream(&self.servers, stream)
    }

    async fn link(&self, server: &Server) -> Result<Link> {
        self.link_to(&server.address, server).await
    }

    /// A connection to where a server has its data; a place that is a server of the URL itself
    /// knows its own log-in.
    async fn link_to(&self, address: &Address, server: &Server) -> Result<Link> {
        let destination = Destination {
            address: address.clone(),
            options: self.options.clone(),
            timeout: self.timeout(),
            scheme: SCHEME,
        };
        let mut known = self.servers.iter().filter(|it| it.address == *address);
        let login = known.next().unwrap_or(server).login.clone();
        let headers = self.headers.iter().cloned().chain(login).collect();
        Link::connect(destination.into(), address.requested(), headers).await
    }

    /// An error says which place it is of, unless there is no other one than the server of the URL.
    fn at(&self, address: &Address, error: Error) -> Error {
        match &self.servers[..] {
            [server] if server.address == *address => error,
            _ => named(error, &address.authority()),
        }
    }

    /// Bounds a call outside of the clock.
    async fn within<T>(
        &self,
        address: &Address,
        what: &str,
        call: impl std::future::Future<Output = Result<T>>,
    ) -> Result<T> {
        let call = async { call.await.map_err(|error| self.at(address, error)) };
        match limit::within(self.timeout(), call).await {
            Ok(result) => {
                result.map_err(|error| first_contact(error.context(what), address, SCHEME))
            }
            Err(over) => {
                let message = format!("{}: {what}: no answer within {over}", address.authority());
                Err(Error::new(Kind::Timeout, message))
            }
        }
    }

    fn planned(&self) -> Result<&Plan> {
        planned(&self.plan, SCHEME)
    }
}

/// The same error with a place in front of it, if it does not say it yet.
pub(crate) fn named(error: Error, place: &str) -> Error {
    match error.message.contains(place) {
        true => error,
        false => error.context(place),
    }
}

/// The first exchange with a server that is something else fails in odd ways.
pub(crate) fn first_contact(mut error: Error, address: &Address, scheme: &str) -> Error {
    // A peer that said why it went has said enough.
    if error.kind == Kind::Lost && !error.message.contains("ended the connection") {
        // TLS 1.3 refuses a client after the handshake has ended well for it.
        let (kind, question) = match address.tls {
            true => (Kind::Tls, "does the server want a client certificate (tls_certificate, tls_key), and does it speak gRPC?".to_owned()),
            false => (Kind::Protocol, address.doubt(SERVER, scheme)),
        };
        error.kind = kind;
        error.message = format!("{}: {question}", error.message);
    }
    error
}

/// Runs a session outside of the clock: a warm-up, an upload.
pub(crate) async fn drive(mut session: Box<dyn Session>, batches: usize) -> Result<Tally> {
    let mut clock = StageClock::start();
    for _ in 0..batches {
        if std::future::poll_fn(|cx| session.poll_batch(cx, &mut clock))
            .await?
            .is_none()
        {
            break;
        }
    }
    std::future::poll_fn(|cx| session.poll_finish(cx, &mut clock)).await?;
    Ok(session.tally())
}

impl Target for Flight {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(async move {
            // What the lead has given the server needs no data here.
            let given = !self.spec.leads()
                && self.spec.operation == Operation::Get
                && matches!(self.spec.data, Data::File { .. });
            if !given && !matches!(self.spec.data, Data::Remote) {
                let source = Source::make(&self.spec.data, self.spec.rows_per_batch)?;
                self.encoder(&source)?;
                self.source = Some(source);
            }
            let links = self.contact().await?;
            let what = format!("{}: planning", self.identity.address);
            let plan = limit::patient(what, self.make_plan(&links)).await;
            // The servers of a URL are all reached in the same way.
            let all = &self.servers[0].address;
            let plan = plan.map_err(|error| match error.kind {
                Kind::Timeout => error,
                _ => first_contact(error.context("planning"), all, SCHEME),
            })?;
            self.identity.protocol = plan.protocol.to_owned();
            self.plan = Some(plan);
            Ok(self.identity.clone())
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        self.plan.as_ref()?.rows
    }

    fn groups(&self, streams: usize) -> Vec<Vec<usize>> {
        match self.options.connections {
            Connections::PerStream => (0..streams).map(|stream| vec![stream]).collect(),
            Connections::Shared => vec![(0..streams).collect()],
        }
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            let mut links = BTreeMap::new();
            let mut sessions = Vec::with_capacity(group.len());
            for &stream in group {
                let session = self.open_stream(stream, &mut links).await;
                sessions.push(session.map_err(|error| error.context(format!("stream {stream}")))?);
            }
            for (link, streams) in links.values() {
                link.share_among(streams.len())?;
            }
            Ok(sessions)
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.compare(tallies))
    }

    fn observed(&self) -> Option<&dyn Observed> {
        Some(self)
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        Some(self.sockets.clone())
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            match self.plan.as_ref().and_then(|plan| plan.uploaded.as_ref()) {
                Some(table) => self.drop_table(table).await,
                None => Ok(()),
            }
        })
    }
}

impl Flight {
    /// The servers that streams of the trial speak to, of those in the URL. A single one is
    /// asked in any case.
    fn spoken_to(&self) -> impl Iterator<Item = &Server> {
        let pieces = self.plan.as_ref().map_or(&[][..], |plan| &plan.pieces);
        let streams = self.spec.streams;
        self.servers
            .iter()
            .enumerate()
            .filter_map(move |(at, server)| {
                let spoken = match self.spec.operation {
                    _ if self.servers.len() == 1 => true,
                    Operation::Get => pieces
                        .iter()
                        .flatten()
                        .any(|piece| piece.address == server.address),
                    _ => at < streams,
                };
                spoken.then_some(server)
            })
    }

    async fn account_of(&self, server: &Server) -> Result<Account> {
        let link = self.link(server).await?;
        let asking = link.action("venturi.account", self.spec.trial.as_bytes());
        let what = "asking the server for its account of the trial";
        let bytes = self.within(&server.address, what, asking).await?;
        reference::account(&bytes).map_err(|error| self.at(&server.address, error))
    }

    async fn compare(&self, tallies: &[Tally]) -> Result<Verification> {
        let account = match self.spec.verify {
            Verify::None => None,
            _ => self.account().await?,
        };
        let planned = Planned {
            operation: self.spec.operation,
            rows: self.plan.as_ref().and_then(|plan| plan.rows),
            fixed_work: self.spec.duration_ns.is_none(),
        };
        Ok(compared(self.spec.verify, &planned, account, tallies))
    }
}

impl Reference for Flight {
    type Link = Link;

    fn of_trial(&self) -> (&Observation, &Identity, &str) {
        (&self.observation, &self.identity, &self.spec.trial)
    }

    async fn link(&self, _: Question) -> Result<Link> {
        Flight::link(self, &self.servers[self.watched]).await
    }

    async fn ask(&self, link: &mut Link, question: Question, payload: &str) -> Result<Vec<u8>> {
        let name = format!("venturi.{}", question.name());
        let asking = async {
            match question {
                Question::Samples => {
                    let pieces = link.samples(&name, payload.as_bytes()).await?;
                    Ok(pieces.concat())
                }
                _ => link.action(&name, payload.as_bytes()).await,
            }
        };
        self.within(&self.servers[self.watched].address, question.what(), asking)
            .await
    }

    /// Of all servers that streams speak to, together.
    async fn ask_account(&self) -> Result<Option<Account>> {
        if !self.identity.reference {
            return Ok(None);
        }
        let accounts = self.spoken_to().map(|server| self.account_of(server));
        let accounts = try_join_all(accounts).await?;
        Ok(accounts.into_iter().reduce(Account::plus))
    }

    fn has_none(question: Question, error: &Error) -> bool {
        let has_none_of_it = question == Question::Samples && says(error, "NOT_FOUND");
        says(error, "UNIMPLEMENTED") || has_none_of_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flight::reply::Reply;
    use venturi_base::codec::hpack::Header;
    use venturi_base::http2::Event;

    #[test]
    fn an_error_names_the_place_that_it_is_of_and_how_that_is_reached() {
        let spec = r#"{"trial": "t", "target": "flight://plain:1", "operation": "get",
        "data": {"source": "records", "columns": 4}, "rows_per_batch": 100,
        "rows_per_stream": 100, "streams": 1, "threads": 1}"#;
        let flight = Flight::new(Arc::new(TrialSpec::parse(spec).unwrap())).unwrap();
        let lost = async |url: &str| {
            let (addresses, _) = options::parse_url(url).unwrap();
            let call = async { Err::<(), _>(Error::new(Kind::Lost, "it is gone")) };
            let failed = flight.within(&addresses[0], "warming up", call).await;
            failed.unwrap_err()
        };
        venturi_base::net::runtime::block_on(async {
            let own = lost("flight://plain:1").await;
            assert_eq!(own.kind, Kind::Protocol);
            assert!(own.message.starts_with("warming up: it is gone: "), "{own}");
            assert!(own.message.contains("does it want TLS"), "{own}");
            let other = lost("flight+tls://secure:2").await;
            assert_eq!(other.kind, Kind::Tls);
            assert!(other.message.contains("secure:2: it is gone"), "{other}");
            assert!(other.message.contains("client certificate"), "{other}");
        })
        .unwrap();
    }

    /// As a server of gRPC says it.
    fn refusal(status: u32) -> Error {
        let header = |name: &str, value: &str| Header {
            name: name.into(),
            value: value.into(),
        };
        let event = Event::Headers {
            stream: 1,
            headers: vec![
                header(":status", "200"),
                header("content-type", "application/grpc"),
                header("grpc-status", &status.to_string()),
                header("grpc-message", "no UNIMPLEMENTED, no NOT_FOUND"),
            ],
            end: true,
        };
        Reply::default().event(event).unwrap_err()
    }

    #[test]
    fn a_reference_server_that_fails_is_not_one_without_an_answer() {
        let none = |question, status| {
            let error = refusal(status).context("comparing clocks");
            Flight::has_none(question, &error)
        };
        for question in [Question::Watch, Question::Samples, Question::Clock] {
            assert!(none(question, 12), "UNIMPLEMENTED");
            assert_eq!(
                none(question, 5),
                question == Question::Samples,
                "NOT_FOUND"
            );
            // UNKNOWN, INVALID_ARGUMENT, INTERNAL
            for failed in [2, 3, 13] {
                assert!(!none(question, failed), "{failed}");
            }
        }
    }
}
