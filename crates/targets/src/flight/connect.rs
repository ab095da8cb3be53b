//! How servers are reached, who they are, and how a stream is opened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::try_join_all;
use tokio_rustls::TlsStream;

use super::call::Link;
use super::get::GetSession;
use super::offers::authenticate;
use super::options::{Address, Connections, Options};
use super::plan::Plan;
use super::put::PutSession;
use super::{drive, named, Flight, SCHEME, SERVER};
use crate::identity::unlike;
use crate::{Identity, Moved, Session, Tally};
use venturi_base::codec::flight::{COMPRESSION_HEADER, SAMPLE_HEADER, TRIAL_HEADER, VERIFY_HEADER};
use venturi_base::codec::ipc::Encoder;
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http2::{Config, Connection, Role};
use venturi_base::meter::clock::StageClock;
use venturi_base::net::dial;
use venturi_base::net::tls::tls_advice;
use venturi_base::net::wire::Wire;
use venturi_base::spec::{Operation, Verify};

/// Where connections go, and how.
pub struct Destination {
    pub address: Address,
    pub options: Options,
    pub timeout: Duration,
    /// Of the URL that the user wrote.
    pub scheme: &'static str,
}

impl Destination {
    pub async fn dial(&self) -> Result<Connection> {
        let config = Config {
            window: self.options.window(),
            max_message: self.options.max_message_size,
            ..Config::new(Role::Client)
        };
        let wire = wire(&self.address, &self.options, self.timeout, self.scheme).await?;
        Ok(Connection::new(wire, config))
    }
}

/// What the address says, and TLS where it has it; `scheme` is that of URLs without it.
pub(crate) async fn wire(
    address: &Address,
    options: &Options,
    timeout: Duration,
    scheme: &str,
) -> Result<Wire> {
    let place = address.authority();
    let wire = address
        .to_host()
        .dial(Some(timeout), options.send_buffer)
        .await;
    let wire = wire.map_err(|error| error.context(&place))?;
    let socket = match wire {
        Wire::Tcp(socket) if address.tls => socket,
        plain => return Ok(plain),
    };
    let name = options.tls_server_name.as_deref().unwrap_or(&address.host);
    let name = dial::server_name(name)?;
    let mut config = options.tls().config()?;
    if scheme.starts_with("flight") {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    let advice = |text: &str| tls_advice(text, scheme, options.tls_ca.is_some());
    let session = dial::tls(socket, config.into(), name, Some(timeout), advice).await;
    let session = session.map_err(|error| error.context(&place))?;
    Ok(Wire::Tls(Box::new(TlsStream::Client(session))))
}

/// A server of the URL, and what is known of it.
pub(super) struct Server {
    pub address: Address,
    /// The process of this host that listens there, where it had to be looked for early.
    pub listening: Option<u32>,
    /// The header that its log-in gave for all further calls.
    pub login: Option<(String, Vec<u8>)>,
    pub identity: Identity,
}

impl Server {
    /// `early`: now, because the clock will run when it is contacted.
    pub fn new(address: Address, early: bool) -> Self {
        let host = early.then(|| address.to_host());
        Self {
            listening: host.and_then(|host| host.listening()),
            address,
            login: None,
            identity: Identity::default(),
        }
    }
}

impl Flight {
    /// A connection to each server, all of them at a time; afterwards it is known who they are.
    pub(super) async fn contact(&mut self) -> Result<Vec<Link>> {
        let contacts = self.servers.iter().map(|server| self.contact_one(server));
        let mut contacts = try_join_all(contacts).await?;
        // Where the clock runs already, it would be a part of what is measured. One after the
        // other, for what another one says would be waited for as well.
        for (link, _, identity) in contacts.iter_mut().filter(|_| !self.spec.include_setup) {
            let Some(took) = link.round_trip(self.timeout()).await else {
                break; // servers that are alike are all silent, and each costs seconds
            };
            identity.round_trip_ns = Some(took.as_nanos() as u64);
        }
        let mut links = Vec::with_capacity(contacts.len());
        for (server, (link, login, identity)) in self.servers.iter_mut().zip(contacts) {
            server.login = login;
            server.identity = identity;
            links.push(link);
        }
        let all: Vec<&Identity> = self.servers.iter().map(|it| &it.identity).collect();
        if let Some(pair) = all.windows(2).find(|it| it[0].reference != it[1].reference) {
            let who = |it: &Identity| match it.reference {
                true => format!("{} is Venturi's own server", it.address),
                false => format!("{} is not", it.address),
            };
            return Err(unlike(&who(pair[0]), &who(pair[1])));
        }
        (self.identity, self.watched) = Identity::together(&all)?;
        Ok(links)
    }

    async fn contact_one(
        &self,
        server: &Server,
    ) -> Result<(Link, Option<(String, Vec<u8>)>, Identity)> {
        let link = self.link(server).await?;
        let address = &server.address;
        // It has not answered anything yet: it may be something else.
        let doubted = |mut error: Error| {
            if error.kind == Kind::Timeout {
                error.message += &format!("; {}", address.doubt(SERVER, SCHEME));
            }
            error
        };
        let login = self.within(address, "logging in", authenticate(&link, &self.options));
        let login = login.await.map_err(doubted)?;
        let identifying = self.identify(server, &link);
        let identity = self.within(address, "first contact", identifying).await;
        Ok((link, login, identity.map_err(doubted)?))
    }

    async fn identify(&self, server: &Server, link: &Link) -> Result<Identity> {
        let mut identity = Identity {
            address: server.address.authority(),
            route: link.route(),
            ..Identity::default()
        };
        match link.action("venturi.hello", b"").await {
            Ok(bytes) => {
                identity.introduce(&bytes);
                Ok(identity)
            }
            // Any other server: it answers in its own way that it does not know the action.
            Err(error) if error.kind == Kind::Server => {
                identity = identity.beside(link.neighbour());
                identity.look(self.spec.include_setup.then_some(server.listening));
                Ok(identity)
            }
            Err(error) => Err(error),
        }
    }
}

/// The connections of a group of streams, and which streams use each.
pub(super) type Links = BTreeMap<Address, (Link, BTreeSet<usize>)>;

impl Flight {
    fn trial_headers(&self) -> Vec<(String, Vec<u8>)> {
        let verify: &[u8] = match self.spec.verify {
            Verify::Checksum => b"checksum",
            Verify::Count => b"count",
            Verify::None => b"none",
        };
        let mut headers = vec![
            (
                TRIAL_HEADER.to_owned(),
                self.spec.trial.clone().into_bytes(),
            ),
            (VERIFY_HEADER.to_owned(), verify.to_vec()),
        ];
        // Where the clock runs already, a call of its own would be in the interval.
        if self.spec.include_setup && self.spec.sample_interval_ns > 0 {
            let interval = self.spec.sample_interval_ns.to_string().into_bytes();
            headers.push((SAMPLE_HEADER.to_owned(), interval));
        }
        if let (Operation::Get, Some(name)) = (self.spec.operation, &self.options.compression) {
            headers.push((COMPRESSION_HEADER.to_owned(), name.clone().into_bytes()));
        }
        headers
    }

    /// Can the two ends' checksums be compared?
    pub(super) fn has_checksum(&self) -> bool {
        self.spec.verify == Verify::Checksum && self.identity.reference
    }

    /// A schema may be beyond Flight, and a batch beyond a gRPC message: said before any
    /// connection is made.
    pub(super) fn encoder(&self, source: &Source) -> Result<Encoder> {
        Encoder::new(&source.schema(), self.options.compression()?)
    }

    pub(super) async fn open_stream(
        &self,
        stream: usize,
        links: &mut Links,
    ) -> Result<Box<dyn Session>> {
        let plan = self.planned()?;
        if self.options.connections != Connections::Shared {
            links.clear();
        }
        let session = match self.spec.operation {
            Operation::Get => self.open_get(stream, plan, links).await?,
            Operation::Put | Operation::Upsert | Operation::Ingest => {
                self.open_put(stream, plan, links).await?
            }
        };
        if self.servers.len() == 1 {
            return Ok(session);
        }
        let mut places: Vec<_> = match plan.pieces.get(stream) {
            Some(pieces) => pieces.iter().map(|it| it.address.authority()).collect(),
            None => vec![self.server_of(stream).address.authority()],
        };
        places.dedup();
        let place = places.join(" or ");
        Ok(Box::new(Placed { session, place }))
    }

    async fn open_get(
        &self,
        stream: usize,
        plan: &Plan,
        links: &mut Links,
    ) -> Result<Box<dyn Session>> {
        let mut pieces = VecDeque::new();
        for piece in &plan.pieces[stream] {
            let link = self.linked(&piece.address, stream, links).await?;
            pieces.push_back((link, piece.ticket.clone()));
        }
        let first = plan.pieces[stream].first().zip(pieces.front());
        if let (Some(ticket), Some((piece, (link, _)))) = (&plan.warm_up, first) {
            let pieces = [(link.clone(), ticket.clone())].into();
            let warm_up = GetSession::new(pieces, vec![], false, None);
            let warm_up = drive(Box::new(warm_up), usize::MAX);
            self.within(&piece.address, "warming up", warm_up).await?;
        }
        let stop = self.identity.reference.then(|| self.spec.trial.clone());
        let session = GetSession::new(pieces, self.trial_headers(), self.has_checksum(), stop);
        Ok(Box::new(session.slowed(self.handicap.clone())))
    }

    async fn open_put(
        &self,
        stream: usize,
        plan: &Plan,
        links: &mut Links,
    ) -> Result<Box<dyn Session>> {
        let source = self
            .source
            .as_ref()
            .ok_or_else(|| Error::new(Kind::Internal, "a put without data"))?;
        let server = self.server_of(stream);
        let link = self.linked(&server.address, stream, links).await?;
        let ack = self.options.ack;
        if plan.discards {
            let warm_up = PutSession::new(
                link.clone(),
                vec![],
                plan.descriptor(stream),
                self.encoder(source)?,
                source.cursor(Some(self.spec.rows_per_batch as u64)),
                false,
                ack,
            );
            let warm_up = drive(Box::new(warm_up), usize::MAX);
            self.within(&server.address, "warming up", warm_up).await?;
        }
        let session = PutSession::new(
            link,
            self.trial_headers(),
            plan.descriptor(stream),
            self.encoder(source)?,
            source.cursor(self.spec.rows_per_stream),
            self.has_checksum(),
            ack,
        );
        let session = session.slowed(self.handicap.clone());
        Ok(Box::new(match self.spec.rate {
            None => session.gathering(),
            Some(_) => session,
        }))
    }

    /// The connection to a place, which streams of the trial use.
    async fn linked(&self, address: &Address, stream: usize, links: &mut Links) -> Result<Link> {
        if let Some((link, streams)) = links.get_mut(address) {
            streams.insert(stream);
            return Ok(link.clone());
        }
        let link = self.link_to(address, self.server_of(stream)).await?;
        if self.options.connections == Connections::Shared {
            // How many streams it takes: one too many is an error before the trial begins.
            self.within(address, "its SETTINGS", link.settled()).await?;
        }
        link.watch(&self.sockets);
        links.insert(address.clone(), (link.clone(), [stream].into()));
        Ok(link)
    }
}

/// A stream of one of several servers: its errors say which.
struct Placed {
    session: Box<dyn Session>,
    place: String,
}

impl Placed {
    fn at<T>(&self, polled: Poll<Result<T>>) -> Poll<Result<T>> {
        polled.map_err(|error| named(error, &self.place))
    }
}

impl Session for Placed {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let polled = self.session.poll_batch(cx, clock);
        self.at(polled)
    }

    fn is_spent(&self) -> bool {
        self.session.is_spent()
    }

    fn idle(&mut self) {
        self.session.idle();
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        let polled = self.session.poll_finish(cx, clock);
        self.at(polled)
    }

    fn progress(&self) -> u64 {
        self.session.progress()
    }

    fn tally(&self) -> Tally {
        self.session.tally()
    }
}
