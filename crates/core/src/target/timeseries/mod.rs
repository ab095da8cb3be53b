//! Time-series databases that take points as text: one file a system, and here what they share.
//!
//! A system says where it listens, in which words it takes points and what it says to a request
//! to flush; the session, the batches and the comparison afterwards are the same for all.

mod akumuli;
mod counters;
mod influx;
mod making;
mod opentsdb;
mod options;
mod place;
mod post;
mod session;
mod udp;
mod verify;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{lookup_host, TcpStream, UdpSocket};

use crate::codec::timeseries::Writer;
use crate::data::points::Layout;
use crate::error::{Error, Kind, Result};
use crate::http1;
use crate::meter::readers::listener::pid_of;
use crate::meter::readers::network::is_own;
use crate::meter::sockets::Sockets;
use crate::socket::prepare;
use crate::spec::{Data, Operation, TrialSpec, Verify};
use crate::target::{Identity, LocalFuture, Route, Session, Tally, Target, Verification};

use counters::{Counter, Counting};
pub use making::{Batch, Maker, Supply};
pub use options::Dialect;
use options::Options;
use place::Place;
use post::Posts;
use session::{Goodbye, Stream};
use udp::Datagrams;
use verify::{compare, Counted, Held, Stored};

/// How bytes get to a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
    Http,
}

/// Who counts a system's points by metric, besides the reference store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    Nobody,
    Akumuli,
    /// Whoever says of itself that it can (`counters`).
    Recognised,
}

/// What differs from one system to the other.
#[derive(Debug)]
pub struct System {
    /// Of its URLs.
    pub scheme: &'static str,
    /// Where it listens as a rule.
    pub port: u16,
    /// A URL must name a database.
    pub databases: bool,
    /// Where the reference store, and who else, tells what it holds; 0: where it listens.
    pub http_port: u16,
    /// Where somebody else may tell it, if the system is where it is as a rule; 0: nowhere.
    pub counting_port: u16,
    /// As the record calls it.
    pub protocol: &'static str,
    pub transport: Transport,
    pub dialect: options::Words,
    /// How the reference store is asked whether it has everything, and what it answers before
    /// the number of points.
    pub flush: &'static str,
    pub flushed: &'static str,
    pub counts: Counts,
}

/// The system that a URL's scheme names.
pub fn of_scheme(scheme: &str) -> Option<&'static System> {
    let all = [
        &akumuli::TCP,
        &akumuli::UDP,
        &opentsdb::TCP,
        &influx::TCP,
        &influx::HTTP,
    ];
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
    /// Who counts, where it was recognised.
    counting: Option<Counting>,
    /// What is there before the trial.
    before: Held,
}

impl TimeSeries {
    pub fn new(system: &'static System, spec: Arc<TrialSpec>) -> Result<Self> {
        let scheme = system.scheme;
        if spec.operation != Operation::Ingest {
            return Err(Error::usage(format!(
                "{scheme}:// takes points of time series: operation = \"ingest\""
            )));
        }
        let options = Options::parse(scheme, &spec.options)?;
        let place = Place::parse(&spec.target, system)?;
        let dialect = Dialect::new(system.dialect, &options)?;
        if system.transport != Transport::Http
            && (options.token_env.is_some() || options.user.is_some())
        {
            return Err(Error::usage(format!("{scheme}:// knows no log-in")));
        }
        if system.transport == Transport::Udp && dialect.has_dictionary() {
            return Err(Error::usage(
                "a dictionary is for a connection: akumuli+udp:// takes rows or values",
            ));
        }
        if matches!(spec.data, Data::Archive { .. }) {
            if !dialect.takes_archives() {
                return Err(Error::usage(format!(
                    "archives hold points as Akumuli reads them: akumuli://, not {scheme}://"
                )));
            }
            if options.format.is_some() || options.digits.is_some() {
                return Err(Error::usage(
                    "archives are text already: format and digits are those that they were made with",
                ));
            }
        }
        Ok(Self {
            authority: place.authority().into(),
            sockets: Arc::default(),
            system,
            dialect,
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

    fn address(&self) -> (&str, u16) {
        (self.place.host.as_str(), self.place.port)
    }

    async fn connect(&self) -> Result<TcpStream> {
        let socket = TcpStream::connect(self.address())
            .await
            .map_err(|error| http1::unreachable(&self.authority, &error))?;
        prepare((&socket).into(), None);
        Ok(socket)
    }

    /// A socket that sends there; nobody knows whether anyone listens.
    async fn aim(&self) -> Result<UdpSocket> {
        let unreachable = |error: std::io::Error| http1::unreachable(&self.authority, &error);
        let mut addresses = lookup_host(self.address()).await.map_err(unreachable)?;
        let nobody = || Error::new(Kind::Unreachable, format!("{}: no address", self.authority));
        let peer = addresses.next().ok_or_else(nobody)?;
        let here = if peer.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket = UdpSocket::bind(here).await.map_err(unreachable)?;
        socket.connect(peer).await.map_err(unreachable)?;
        Ok(socket)
    }

    async fn route(&self) -> Result<Option<Route>> {
        let (local, peer) = match self.system.transport {
            Transport::Udp => {
                let socket = self.aim().await?;
                (socket.local_addr(), socket.peer_addr())
            }
            Transport::Tcp | Transport::Http => {
                let socket = self.connect().await?;
                (socket.local_addr(), socket.peer_addr())
            }
        };
        Ok(match (local, peer) {
            (Ok(local), Ok(peer)) => Some(Route { local, peer }),
            _ => None,
        })
    }

    /// Where the server tells what it holds.
    fn web(&self) -> http1::Web {
        let port = match (self.system.http_port, self.options.http_port) {
            (0, None) => self.place.port,
            (usual, asked) => asked.unwrap_or(usual),
        };
        self.web_at(port)
    }

    fn web_at(&self, port: u16) -> http1::Web {
        http1::Web {
            host: self.place.host.clone(),
            port,
            authority: self.place.with_port(port),
            tls: None,
        }
    }

    /// Who counts, if it says what it is.
    async fn recognise(&self) -> Result<Option<Counting>> {
        if self.system.counts != Counts::Recognised {
            return Ok(None);
        }
        let mut webs = vec![self.web()];
        let usual = self.system.counting_port;
        // Elsewhere somebody else's server could answer there.
        if usual > 0 && self.options.http_port.is_none() && self.place.port == self.system.port {
            webs.push(self.web_at(usual));
        }
        let database = self.place.database.as_deref();
        for web in &webs {
            let found = Counting::find(web, database, self.options.authorization()?).await;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    async fn held(&self, supply: &Supply, counting: Option<&Counting>) -> Held {
        let (who, counted) = match counting {
            Some(_) if self.spec.verify == Verify::None => {
                return Held::Unknown("nobody was asked for a count".into());
            }
            Some(counting) => (counting.who, counting.count(&supply.metrics()).await),
            None => {
                let web = self.web();
                if let Some(stored) = Stored::ask(&web).await {
                    return Held::Reference(stored);
                }
                if self.system.counts != Counts::Akumuli || self.spec.verify == Verify::None {
                    return Held::Unknown(self.nobody_tells(web.port));
                }
                let counted = akumuli::count(&web, &supply.metrics()).await;
                (Counter::Akumuli, counted)
            }
        };
        match counted {
            Ok(points) => Held::Count(Counted { points, who }),
            Err(error) => Held::Unknown(format!("nobody counts the points: {}", error.message)),
        }
    }

    /// Who does not lead counts nothing, but has to know how to say goodbye.
    async fn known(&self, counting: bool) -> Held {
        let stored = match counting {
            true => None,
            false => Stored::ask(&self.web()).await,
        };
        let unknown = || Held::Unknown("the lead counts".into());
        stored.map_or_else(unknown, Held::Reference)
    }

    fn nobody_tells(&self, port: u16) -> String {
        let others = match self.system.counts {
            Counts::Recognised => ", InfluxDB or QuestDB",
            _ => "",
        };
        format!(
            "{} is not Venturi's store{others}, or its HTTP port is not {port}: nobody tells how many points it holds",
            self.authority
        )
    }

    async fn plan_all(&mut self) -> Result<Identity> {
        let supply = Supply::new(&self.spec)?;
        let route = self.route().await?;
        let counting = self.recognise().await?;
        let before = match self.spec.leads() {
            true => self.held(&supply, counting.as_ref()).await,
            false => self.known(counting.is_some()).await,
        };
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
        if let Some(counting) = &counting {
            identity.software = Some(counting.software.clone());
        }
        self.planned = Some(Planned {
            supply,
            counting,
            before,
        });
        Ok(identity)
    }

    async fn open_one(&self, stream: usize) -> Result<Box<dyn Session>> {
        let planned = self.planned()?;
        let names = planned.counting.as_ref().map(|it| it.who.names());
        let dialect = self.dialect.with_names(names.unwrap_or_default());
        let speak = |layout: &Layout| -> Writer { dialect.writer(layout) };
        let (preamble, maker) = planned.supply.stream(stream, &speak)?;
        let place = self.authority.clone();
        match self.system.transport {
            Transport::Udp => {
                let socket = self.aim().await?;
                Ok(Box::new(Datagrams::new(socket, place, maker)))
            }
            Transport::Http => {
                let web = self.web_at(self.place.port);
                let client = http1::Client::connect(&web).await?;
                let head = Arc::new(influx::head(&self.place, &self.options)?);
                let posts = Posts::new(client, &self.sockets, head, maker);
                Ok(Box::new(posts))
            }
            Transport::Tcp => {
                let socket = self.connect().await?;
                let goodbye = match planned.before {
                    Held::Reference(_) => Goodbye::Flush(self.system.flush, self.system.flushed),
                    _ => Goodbye::Close,
                };
                let mut session = Stream::new(socket, &self.sockets, place, maker, goodbye);
                session.introduce(&preamble).await?;
                Ok(Box::new(session))
            }
        }
    }

    /// What is there now, all of the trial's points arrived.
    async fn held_after(&self, planned: &Planned, sent: u64) -> Held {
        let (before, lags) = match &planned.before {
            Held::Unknown(why) => return Held::Unknown(why.clone()),
            Held::Count(counted) => (counted.points, counted.who.lags()),
            Held::Reference(stored) => (stored.points, false),
        };
        let counting = planned.counting.as_ref();
        let mut after = self.held(&planned.supply, counting).await;
        // Datagrams may still wait to be read, or points to be counted.
        let patience = match self.system.transport {
            _ if lags => QUIET_LAGGING,
            Transport::Udp => QUIET,
            _ => 0,
        };
        let mut quiet = 0;
        while quiet < patience {
            let points = after.points();
            if points.is_none_or(|points| points.saturating_sub(before) >= sent) {
                break;
            }
            tokio::time::sleep(LOOK).await;
            after = self.held(&planned.supply, counting).await;
            quiet = if after.points() == points {
                quiet + 1
            } else {
                0
            };
        }
        match (&after, &planned.before) {
            (Held::Reference(_), Held::Reference(_)) => {
                let sealed = Stored::seal(&self.web()).await;
                sealed.map_or(after, Held::Reference)
            }
            _ => after,
        }
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let planned = self.planned()?;
        let sent = tallies.iter().map(|tally| tally.rows).sum();
        let after = self.held_after(planned, sent).await;
        // The checksums of archives are those of whole ones.
        let whole = !planned.supply.is_archive() || planned.supply.whole() == Some(sent);
        let mut found = compare(&planned.before, &after, tallies, self.spec.verify, whole);
        if self.system.transport == Transport::Udp && found.achieved == "acknowledged" {
            found.achieved = "none";
        }
        Ok(found)
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

/// How often a store is asked whether more datagrams have come, and how often in vain.
const LOOK: Duration = Duration::from_millis(100);
const QUIET: usize = 5;
/// The same of a server that counts points a moment after it took them: QuestDB commits what
/// comes over TCP after two seconds at the latest.
const QUIET_LAGGING: usize = 50;

/// Who answers nothing to HTTP for so long is asked no further.
const PATIENCE: Duration = Duration::from_secs(2);
