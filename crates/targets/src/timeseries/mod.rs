//! Time-series databases that take points as text: one file a system, and here what they share.
//!
//! A system says where it listens, in which words it takes points and what it says to a request
//! to flush; the session, the batches and the comparison afterwards are the same for all.

mod connect;
mod counters;
mod ingest;
mod options;
mod post;
mod protocols;
mod supply;
pub(crate) mod verify;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};

use crate::hosts::of_stream;
use crate::systems::System;
use crate::{each, planned, Identity, LocalFuture, Session, Tally, Target, Verification};
use venturi_base::codec::timeseries::Writer;
use venturi_base::data::points::Layout;
use venturi_base::error::{Error, Result};
use venturi_base::http1;
use venturi_base::meter::sockets::Sockets;
use venturi_base::spec::{Data, Operation, TrialSpec};

use connect::{Server, Survey};
use ingest::{Datagrams, Goodbye, Stream};
pub use options::Dialect;
use options::{Options, TargetUrl};
use post::Posts;
use protocols::{Protocol, Transport};
pub use supply::{Batch, Maker, Supply};
use verify::{compare, Held, Stored};

/// Akumuli's RESP, by TCP or in datagrams.
pub const AKUMULI: System = System {
    scheme: protocols::AKUMULI.scheme,
    ports: &[
        (protocols::AKUMULI.scheme, protocols::AKUMULI.port),
        (protocols::AKUMULI_UDP.scheme, protocols::AKUMULI_UDP.port),
    ],
    aliases: &[("akumuli", &["resp", "aku"])],
    ..STORE
};
/// OpenTSDB's lines.
pub const OPENTSDB: System = System {
    scheme: protocols::OPENTSDB.scheme,
    ports: &[(protocols::OPENTSDB.scheme, protocols::OPENTSDB.port)],
    aliases: &[("opentsdb", &["tsdb", "telnet"])],
    ..STORE
};
/// Influx's lines, over TCP or as requests to write.
pub const INFLUX: System = System {
    scheme: protocols::INFLUX.scheme,
    ports: &[
        (protocols::INFLUX.scheme, protocols::INFLUX.port),
        (protocols::INFLUX_HTTP.scheme, protocols::INFLUX_HTTP.port),
    ],
    aliases: &[
        (
            "influx",
            &["questdb", "telegraf", "victoriametrics", "influxdb"],
        ),
        ("influx+http", &["influxdb+http", "influxdb2"]),
    ],
    ..STORE
};
const STORE: System = System {
    operations: &[Operation::Ingest],
    keeps: true,
    remote: true,
    target: |spec| Ok(Box::new(TimeSeries::new(spec)?)),
    ..System::NOTHING
};
const PROTOCOLS: [&Protocol; 5] = [
    &protocols::AKUMULI,
    &protocols::AKUMULI_UDP,
    &protocols::OPENTSDB,
    &protocols::INFLUX,
    &protocols::INFLUX_HTTP,
];

pub struct TimeSeries {
    protocol: &'static Protocol,
    spec: Arc<TrialSpec>,
    options: Options,
    dialect: Dialect,
    url: TargetUrl,
    /// At least one. Stream s of the whole trial speaks to number s modulo them.
    servers: Vec<Server>,
    sockets: Arc<Sockets>,
    planned: Option<Planned>,
}

struct Planned {
    supply: Supply,
    /// Of each server.
    known: Vec<Survey>,
}

impl TimeSeries {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let scheme = spec.target.split("://").next().unwrap_or_default();
        let known = PROTOCOLS.into_iter().find(|known| known.scheme == scheme);
        let Some(protocol) = known else {
            return Err(Error::usage(format!(
                "{scheme}:// is no store of time series"
            )));
        };
        let scheme = protocol.scheme;
        if spec.operation != Operation::Ingest {
            return Err(Error::usage(format!(
                "{scheme}:// takes points of time series: operation = \"ingest\""
            )));
        }
        let options = Options::parse(scheme, &spec.options)?;
        let url = TargetUrl::parse(&spec.target, protocol)?;
        let dialect = Dialect::new(protocol.dialect, &options)?;
        if protocol.transport != Transport::Http
            && (options.token_env.is_some() || options.user.is_some())
        {
            return Err(Error::usage(format!("{scheme}:// knows no log-in")));
        }
        if protocol.transport == Transport::Udp && dialect.has_dictionary() {
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
        let ports = options.http_ports(&url.hosts, protocol.http_port)?;
        let hosts = url.hosts.iter().cloned().zip(ports);
        Ok(Self {
            servers: hosts.map(|(host, port)| Server::new(host, port)).collect(),
            sockets: Arc::default(),
            protocol,
            dialect,
            options,
            url,
            spec,
            planned: None,
        })
    }

    fn planned(&self) -> Result<&Planned> {
        planned(&self.planned, "time series")
    }

    async fn plan_all(&mut self) -> Result<Identity> {
        let supply = Supply::new(&self.spec)?;
        let known = self.servers.iter().map(|server| self.know(server, &supply));
        let known = try_join_all(known).await?;
        let all: Vec<&Identity> = known.iter().map(|it| &it.identity).collect();
        let (identity, _) = Identity::together(&all)?;
        self.planned = Some(Planned { supply, known });
        Ok(identity)
    }

    async fn open_one(&self, stream: usize) -> Result<Box<dyn Session>> {
        let planned = self.planned()?;
        let server = of_stream(&self.servers, stream);
        let known = of_stream(&planned.known, stream);
        let names = known.counting.as_ref().map(|it| it.who.names());
        let dialect = self.dialect.with_names(names.unwrap_or_default());
        let speak = |layout: &Layout| -> Writer { dialect.writer(layout) };
        let (preamble, maker) = planned.supply.stream(stream, &speak)?;
        let place = server.authority.clone();
        match self.protocol.transport {
            Transport::Udp => {
                let socket = server.aim().await?;
                Ok(Box::new(Datagrams::new(socket, place, maker)))
            }
            Transport::Http => {
                let web = server.web_at(server.host.port);
                let client = http1::Client::connect(&web).await?;
                let head = Arc::new(post::head(&server.authority, &self.url, &self.options)?);
                let posts = Posts::new(client, &self.sockets, head, maker);
                Ok(Box::new(posts))
            }
            Transport::Tcp => {
                let socket = server.connect().await?;
                let goodbye = match known.before {
                    Held::Reference(_) => {
                        Goodbye::Flush(self.protocol.flush, self.protocol.flushed)
                    }
                    _ => Goodbye::Close,
                };
                let mut session = Stream::new(socket, &self.sockets, place, maker, goodbye);
                session.introduce(&preamble).await?;
                Ok(Box::new(session))
            }
        }
    }

    /// What all servers hold now.
    async fn held_by_all(&self, planned: &Planned) -> Held {
        let all = self.servers.iter().zip(&planned.known);
        let all = all.map(|(server, known)| self.held_now(server, &planned.supply, known));
        let all = join_all(all).await;
        Held::together(self.authorities().zip(&all))
    }

    fn authorities(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| &*server.authority)
    }

    /// What is there now, all of the trial's points arrived.
    async fn held_after(&self, planned: &Planned, before: &Held, sent: u64) -> Held {
        let (before, lags) = match before {
            Held::Unknown(why) => return Held::Unknown(why.clone()),
            Held::Count(counted) => (counted.points, counted.who.lags()),
            Held::Reference(stored) => (stored.points, false),
        };
        let mut after = self.held_by_all(planned).await;
        // Datagrams may still wait to be read, or points to be counted.
        let patience = match self.protocol.transport {
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
            after = self.held_by_all(planned).await;
            quiet = if after.points() == points {
                quiet + 1
            } else {
                0
            };
        }
        after
    }

    /// The same when all stores have sealed what they have, if they can.
    async fn sealed(&self, after: Held) -> Held {
        if !matches!(after, Held::Reference(_)) {
            return after;
        }
        let sealing = self.servers.iter().map(|server| async move {
            let sealed = Stored::seal(&server.web()).await;
            sealed.map(Held::Reference)
        });
        let sealed: Option<Vec<Held>> = join_all(sealing).await.into_iter().collect();
        sealed.map_or(after, |all| Held::together(self.authorities().zip(&all)))
    }

    async fn check(&self, tallies: &[Tally]) -> Result<Verification> {
        let planned = self.planned()?;
        let sent = tallies.iter().map(|tally| tally.rows).sum();
        let before = planned.known.iter().map(|known| &known.before);
        let before = Held::together(self.authorities().zip(before));
        let mut after = self.held_after(planned, &before, sent).await;
        if matches!(before, Held::Reference(_)) {
            after = self.sealed(after).await;
        }
        // The checksums of archives are those of whole ones.
        let whole = !planned.supply.is_archive() || planned.supply.total() == Some(sent);
        let mut found = compare(&before, &after, tallies, self.spec.verify, whole);
        if self.protocol.transport == Transport::Udp && found.achieved == "acknowledged" {
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
        Box::pin(each(group, async |stream| {
            Ok([self.open_one(stream).await?])
        }))
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.check(tallies))
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        Some(self.sockets.clone())
    }
}

/// How often a store is asked whether more datagrams have come, and how often in vain.
const LOOK: Duration = Duration::from_millis(100);
const QUIET: usize = 5;
/// The same of a server that counts points a moment after it took them: QuestDB commits what
/// comes over TCP after two seconds at the latest.
const QUIET_LAGGING: usize = 50;
