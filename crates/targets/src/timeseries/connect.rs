//! The servers of a URL: how each is reached, what it says that it holds, and all of them together.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{lookup_host, TcpStream, UdpSocket};

use super::counters::{count_by_akumuli, Counter, Counting};
use super::protocols::{Counts, Transport};
use super::supply::Supply;
use super::verify::{Counted, Held, Stored};
use super::TimeSeries;
use crate::hosts::Host;
use crate::Identity;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1;
use venturi_base::limit::Elapsed;
use venturi_base::meter::readers::listener::pid_of;
use venturi_base::meter::readers::network::is_own;
use venturi_base::net::dial;
use venturi_base::net::route::Route;
use venturi_base::spec::Verify;

/// A server of the URL.
pub struct Server {
    pub host: Host,
    pub authority: Arc<str>,
    /// Where it tells what it holds.
    http_port: u16,
}

/// What is known of a server when the trial is planned.
pub struct Survey {
    /// Who counts, where it was recognised.
    pub counting: Option<Counting>,
    /// What is there before the trial.
    pub before: Held,
    pub identity: Identity,
}

impl Server {
    pub fn new(host: Host, http_port: u16) -> Self {
        Self {
            authority: host.authority().into(),
            host,
            http_port,
        }
    }

    fn address(&self) -> (&str, u16) {
        (self.host.name.as_str(), self.host.port)
    }

    pub async fn connect(&self) -> Result<TcpStream> {
        let socket = dial::tcp(self.address(), None, None).await;
        socket.map_err(|error| error.context(&self.authority))
    }

    /// A socket that sends there; nobody knows whether anyone listens.
    pub async fn aim(&self) -> Result<UdpSocket> {
        let unreachable =
            |error: std::io::Error| dial::unreachable(&error).context(&self.authority);
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

    async fn route(&self, transport: Transport) -> Result<Option<Route>> {
        let (local, peer) = match transport {
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

    /// Where it tells what it holds.
    pub fn web(&self) -> http1::Web {
        self.web_at(self.http_port)
    }

    pub fn web_at(&self, port: u16) -> http1::Web {
        http1::Web {
            host: self.host.name.clone(),
            port,
            authority: self.host.with_port(port),
            tls: None,
        }
    }
}

impl TimeSeries {
    /// First contact with a server.
    pub(super) async fn know(&self, server: &Server, supply: &Supply) -> Result<Survey> {
        let route = server.route(self.protocol.transport).await?;
        let counting = self.recognise(server).await?;
        let before = match (&counting, self.spec.leads()) {
            // One question decides: each further one would take its whole time as well.
            (Err(elapsed), _) => Held::Unknown(self.silent(server, elapsed)),
            (Ok(counting), true) => self.held(server, supply, counting.as_ref()).await,
            (Ok(counting), false) => self.goodbye(server, counting.is_some()).await,
        };
        let counting = counting.ok().flatten();
        let here = route.filter(|route| is_own(route.peer.ip()));
        let mut identity = Identity {
            address: server.authority.to_string(),
            protocol: self.protocol.protocol.into(),
            same_machine: here.map(|_| true),
            route,
            ..Identity::default()
        };
        match &before {
            Held::Reference(stored) => {
                identity.software = Some(stored.software.clone());
                identity.reference = true;
                identity.runs_at(&stored.place);
            }
            _ if self.spec.include_setup => {}
            _ => identity.pid = here.and_then(|route| pid_of(route.peer)),
        }
        if let Some(counting) = &counting {
            identity.software = Some(counting.software.clone());
        }
        Ok(Survey {
            counting,
            before,
            identity,
        })
    }

    /// How long an answer may take that need not come.
    fn patience(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    /// Who counts, if it says what it is; `Elapsed`: the server's HTTP port says nothing.
    async fn recognise(
        &self,
        server: &Server,
    ) -> Result<std::result::Result<Option<Counting>, Elapsed>> {
        if self.protocol.counts != Counts::Recognised {
            return Ok(Ok(None));
        }
        let mut webs = vec![server.web()];
        let usual = self.protocol.counting_port;
        // Elsewhere somebody else's server could answer there.
        let asked = self.options.http_port.is_some();
        if usual > 0 && !asked && server.host.port == self.protocol.port {
            webs.push(server.web_at(usual));
        }
        let database = self.url.database.as_deref();
        let mut silent = Ok(None);
        for web in &webs {
            let authorization = self.options.authorization()?;
            match Counting::find(web, database, authorization, self.patience()).await {
                Err(elapsed) if web.port == server.http_port => silent = Err(elapsed),
                Ok(Some(found)) => return Ok(Ok(Some(found))),
                _ => {}
            }
        }
        Ok(silent)
    }

    pub(super) async fn held(
        &self,
        server: &Server,
        supply: &Supply,
        counting: Option<&Counting>,
    ) -> Held {
        let (who, counted) = match counting {
            Some(_) if self.spec.verify == Verify::None => {
                return Held::Unknown("nobody was asked for a count".into());
            }
            Some(counting) => (counting.who, counting.count(&supply.metrics()).await),
            None => {
                let web = server.web();
                let stored = Stored::ask(&web, self.patience()).await;
                match stored {
                    Ok(Some(stored)) => return Held::Reference(stored),
                    Err(elapsed) => return Held::Unknown(self.silent(server, &elapsed)),
                    Ok(None) => {}
                }
                if self.protocol.counts != Counts::Akumuli || self.spec.verify == Verify::None {
                    return Held::Unknown(self.nobody_tells(server, web.port));
                }
                let counted = count_by_akumuli(&web, &supply.metrics()).await;
                (Counter::Akumuli, counted)
            }
        };
        match counted {
            Ok(points) => Held::Count(Counted { points, who }),
            Err(error) => Held::Unknown(format!("nobody counts the points: {}", error.message)),
        }
    }

    /// The same after the trial.
    pub(super) async fn held_now(&self, server: &Server, supply: &Supply, known: &Survey) -> Held {
        if !matches!(known.before, Held::Reference(_)) {
            return self.held(server, supply, known.counting.as_ref()).await;
        }
        // It may still be busy with what it was given.
        let stored = Stored::ask(&server.web(), self.patience()).await;
        stored.ok().flatten().map_or_else(
            || {
                Held::Unknown(format!(
                    "{}: Venturi's store, which told before the trial what it holds, does not afterwards",
                    server.authority
                ))
            },
            Held::Reference,
        )
    }

    /// Who does not lead counts nothing, but has to know how to say goodbye.
    async fn goodbye(&self, server: &Server, counting: bool) -> Held {
        let stored = match counting {
            true => None,
            false => Stored::ask(&server.web(), self.patience())
                .await
                .ok()
                .flatten(),
        };
        let unknown = || Held::Unknown("the lead counts".into());
        stored.map_or_else(unknown, Held::Reference)
    }

    fn silent(&self, server: &Server, elapsed: &Elapsed) -> String {
        format!(
            "{}: HTTP port {} does not answer within {elapsed}, so nobody counts the points",
            server.authority, server.http_port
        )
    }

    fn nobody_tells(&self, server: &Server, port: u16) -> String {
        let others = match self.protocol.counts {
            Counts::Recognised => ", InfluxDB or QuestDB",
            _ => "",
        };
        format!(
            "{} is not Venturi's store{others}, or its HTTP port is not {port}: nobody tells how many points it holds",
            server.authority
        )
    }
}
