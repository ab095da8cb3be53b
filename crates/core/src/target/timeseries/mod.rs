//! Time-series databases that take points as text: one file a system, and here what they share.
//!
//! A system says where it listens, in which words it takes points and what it says to a request
//! to flush; the session, the batches and the comparison afterwards are the same for all.

mod akumuli;
mod http;
mod influx;
mod making;
mod opentsdb;
mod options;
mod place;
mod session;
mod verify;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::codec::timeseries::Writer;
use crate::data::points::Layout;
use crate::error::{Error, Kind, Result};
use crate::meter::readers::listener::pid_of;
use crate::meter::readers::network::is_own;
use crate::meter::sockets::Sockets;
use crate::socket::prepare;
use crate::spec::{Operation, TrialSpec, Verify};
use crate::target::{Identity, LocalFuture, Route, Session, Tally, Target, Verification};

pub use making::{Batch, Maker, Supply};
pub use options::Dialect;
use options::Options;
use place::Place;
use session::{Goodbye, Stream};
use verify::{compare, Held, Stored};

/// What differs from one system to the other.
pub struct System {
    /// Of its URLs.
    pub scheme: &'static str,
    /// Where it listens as a rule.
    pub port: u16,
    /// A URL may, and must, name a database.
    pub databases: bool,
    /// Where the reference store, and who else, tells what it holds.
    pub http_port: u16,
    /// As the record calls it.
    pub protocol: &'static str,
    pub dialect: options::Words,
    /// How the reference store is asked whether it has everything, and what it answers before
    /// the number of points.
    pub flush: &'static str,
    pub flushed: &'static str,
    /// It counts its points by metric, as Akumuli does.
    pub counts: bool,
}

/// The system that a URL's scheme names.
pub fn of_scheme(scheme: &str) -> Option<&'static System> {
    let all = [&akumuli::TCP, &opentsdb::TCP, &influx::TCP];
    all.into_iter().find(|system| system.scheme == scheme)
}

pub struct TimeSeries {
    system: &'static System,
    spec: Arc<TrialSpec>,
    options: Options,
    dialect: Dialect,
    place: Place,
    authority: Arc<str>,
    sockets: Arc<Sockets>,
    planned: Option<Planned>,
}

struct Planned {
    supply: Supply,
    /// What is there before the trial.
    before: Held,
}

impl TimeSeries {
    pub fn new(system: &'static System, spec: Arc<TrialSpec>) -> Result<Self> {
        if spec.operation != Operation::Ingest {
            return Err(Error::usage(format!(
                "{}:// takes points of time series: operation = \"ingest\"",
                system.scheme
            )));
        }
        let options = Options::parse(system.scheme, &spec.options)?;
        let place = Place::parse(&spec.target, system)?;
        Ok(Self {
            dialect: Dialect::new(system.dialect, &options)?,
            authority: place.authority().into(),
            sockets: Arc::default(),
            system,
            options,
            place,
            spec,
            planned: None,
        })
    }

    fn planned(&self) -> Result<&Planned> {
        let unplanned = || Error::new(Kind::Internal, "time series: not planned");
        self.planned.as_ref().ok_or_else(unplanned)
    }

    async fn connect(&self) -> Result<TcpStream> {
        let address = (self.place.host.as_str(), self.place.port);
        let socket = TcpStream::connect(address)
            .await
            .map_err(|error| http::unreachable(&self.authority, &error))?;
        prepare((&socket).into(), None);
        Ok(socket)
    }

    /// Where the server tells what it holds.
    fn web(&self) -> http::Web {
        http::Web {
            host: self.place.host.clone(),
            port: self.options.http_port.unwrap_or(self.system.http_port),
            authority: self
                .place
                .with_port(self.options.http_port.unwrap_or(self.system.http_port)),
        }
    }

    async fn held(&self, supply: &Supply) -> Held {
        let web = self.web();
        if let Some(stored) = Stored::ask(&web).await {
            return Held::Reference(stored);
        }
        if self.system.counts && self.spec.verify != Verify::None {
            return match akumuli::count(&web, &supply.metrics()).await {
                Ok(points) => Held::Count(points),
                Err(error) => Held::Unknown(error.message),
            };
        }
        Held::Unknown(format!(
            "{} is not Venturi's store, or its HTTP port is not {}: nobody tells how many points it holds",
            self.authority, web.port
        ))
    }

    async fn plan_all(&mut self) -> Result<Identity> {
        let supply = Supply::new(&self.spec)?;
        let route = {
            let socket = self.connect().await?;
            match (socket.local_addr(), socket.peer_addr()) {
                (Ok(local), Ok(peer)) => Some(Route { local, peer }),
                _ => None,
            }
        };
        let before = self.held(&supply).await;
        let here = route.filter(|route| is_own(route.peer.ip()));
        let mut identity = Identity {
            address: self.authority.to_string(),
            protocol: self.system.protocol.into(),
            same_machine: here.map(|_| true),
            route,
            ..Identity::default()
        };
        match &before {
            Held::Reference(stored) => {
                identity.software = Some(stored.software.clone());
                identity.reference = true;
                identity.pid = stored.pid;
            }
            _ if self.spec.include_setup => {}
            _ => identity.pid = here.and_then(|route| pid_of(route.peer)),
        }
        self.planned = Some(Planned { supply, before });
        Ok(identity)
    }

    async fn open_one(&self, stream: usize) -> Result<Box<dyn Session>> {
        let planned = self.planned()?;
        let speak = |layout: &Layout| -> Writer { self.dialect.writer(layout) };
        let (preamble, maker) = planned.supply.stream(stream, &speak)?;
        let socket = self.connect().await?;
        let goodbye = match planned.before {
            Held::Reference(_) => Goodbye::Flush(self.system.flush, self.system.flushed),
            _ => Goodbye::Close,
        };
        let mut session = Stream::new(
            socket,
            &self.sockets,
            self.authority.clone(),
            stream,
            maker,
            goodbye,
        );
        session.introduce(&preamble).await?;
        Ok(Box::new(session))
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let planned = self.planned()?;
        let after = match &planned.before {
            Held::Unknown(why) => Held::Unknown(why.clone()),
            Held::Reference(_) => match Stored::seal(&self.web()).await {
                Some(stored) => Held::Reference(stored),
                None => self.held(&planned.supply).await,
            },
            Held::Count(_) => self.held(&planned.supply).await,
        };
        let verify = self.spec.verify;
        Ok(compare(&planned.before, &after, tallies, verify))
    }
}

impl Target for TimeSeries {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        Box::pin(self.plan_all())
    }

    fn planned_rows(&self) -> Option<u64> {
        self.planned.as_ref()?.supply.planned_points()
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            let mut sessions = Vec::with_capacity(group.len());
            for stream in group {
                sessions.push(self.open_one(*stream).await?);
            }
            Ok(sessions)
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.check(tallies))
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        Some(self.sockets.clone())
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        // Points are not taken back: no protocol here can.
        Box::pin(async { Ok(()) })
    }
}

/// Who answers nothing to HTTP for so long is asked no further.
const PATIENCE: Duration = Duration::from_secs(2);
