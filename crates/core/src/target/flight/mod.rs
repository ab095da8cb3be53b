//! `flight://`: Arrow Flight, gets and puts. `docs/targets/flight.md`.
//!
//! Three kinds of server: Arrow's perf server (and any that speaks its protocol), any
//! Flight server (by path, command or ticket), and Venturi's reference server, which
//! speaks both and also accounts for its side of a trial.

mod call;
mod dial;
mod options;
mod plan;
mod reply;
mod session;
mod watch;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message as _;
use serde_json::Value;

use crate::codec::ipc::Encoder;
use crate::codec::proto::Handshake;
use crate::data::Source;
use crate::error::{Error, Kind, Result};
use crate::meter::align::Trip;
use crate::meter::clock::{Stage, StageClock, StageTotals};
use crate::meter::handicap::Handicap;
use crate::meter::sockets::Sockets;
use crate::server::account::Account;
use crate::spec::{Data, Operation, TrialSpec, Verify};
use crate::target::{
    Identity, LocalFuture, ServerReport, Session, Tally, Target, Verification, Watched,
};

use call::Link;
pub(crate) use dial::{client_config, provider, read_certificates, read_key, tls_advice, wire};
pub(crate) use options::unescape;
pub use options::{secret, Address, Options};
use options::{Connections, Subject};
pub(crate) use plan::listening;
use plan::Plan;
use reply::is_unknown;
use session::{GetSession, PutSession};

/// Headers that a reference server understands; all others ignore them.
pub const TRIAL_HEADER: &str = "venturi-trial";
pub const VERIFY_HEADER: &str = "venturi-verify";
/// The server shall sample itself at this interval, in ns.
pub const SAMPLE_HEADER: &str = "venturi-sample";
/// How the rows of a table shall be sent; what is made on demand is asked for with its plan.
pub const COMPRESSION_HEADER: &str = "venturi-compression";

pub struct Flight {
    spec: Arc<TrialSpec>,
    address: Address,
    subject: Subject,
    options: Options,
    headers: Vec<(String, Vec<u8>)>,
    handicap: Handicap,
    sockets: Arc<Sockets>,
    /// The process of this host that listens there, where it had to be looked for early.
    listening: Option<u32>,
    /// What a put sends, or a reference server is given to serve.
    source: Option<Source>,
    plan: Option<Plan>,
    identity: Identity,
    account: Mutex<Option<Account>>,
    /// Comparisons of the clocks before the start.
    trips: Mutex<Vec<Trip>>,
}

impl Flight {
    pub fn new(spec: Arc<TrialSpec>) -> Result<Self> {
        let (address, subject) = options::parse_url(&spec.target)?;
        let options = Options::parse(&spec.options)?;
        let headers = options.headers()?;
        plan::check(&spec, &subject, &options)?;
        let handicap = options.handicap(spec.operation, spec.verify)?;
        // The plan is a part of what is measured; going through all processes shall not be.
        let listening = spec
            .include_setup
            .then(|| plan::listening(&address))
            .flatten();
        Ok(Self {
            spec,
            address,
            subject,
            options,
            headers,
            handicap,
            sockets: Arc::default(),
            listening,
            source: None,
            plan: None,
            identity: Identity::default(),
            account: Mutex::new(None),
            trips: Mutex::default(),
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    async fn link(&self, address: &Address) -> Result<Link> {
        let connection = dial::dial(address, &self.options, self.timeout()).await?;
        let headers = self.headers.clone();
        Ok(Link::new(
            connection,
            address.authority(),
            address.tls,
            headers,
        ))
    }

    /// A connection that streams of the trial use.
    async fn stream_link(&self, address: &Address) -> Result<Link> {
        let link = self.link(address).await?;
        link.watch(&self.sockets);
        Ok(link)
    }

    /// Bounds a call outside of the clock.
    async fn within<T>(
        &self,
        what: &str,
        call: impl std::future::Future<Output = Result<T>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.timeout(), call).await {
            Ok(result) => result.map_err(|error| first_contact(error.context(what), self.address.tls)),
            Err(_) => Err(Error::new(
                Kind::Timeout,
                format!(
                    "{}: {what}: no answer within {} s; is it a gRPC server, and does it want TLS (flight+tls://)?",
                    self.address.authority(),
                    self.timeout().as_secs_f64()
                ),
            )),
        }
    }

    fn planned(&self) -> Result<&Plan> {
        self.plan.as_ref().ok_or_else(|| {
            Error::new(
                Kind::Internal,
                "a stream was opened before the plan was made",
            )
        })
    }

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
    fn has_checksum(&self) -> bool {
        self.spec.verify == Verify::Checksum && self.identity.reference
    }

    /// A schema may be beyond Flight, and a batch beyond a gRPC message: said before any
    /// connection is made.
    fn encoder(&self, source: &Source) -> Result<Encoder> {
        Encoder::new(&source.schema(), self.options.compression()?)
    }

    async fn open_stream(
        &self,
        stream: usize,
        links: &mut BTreeMap<Address, Link>,
    ) -> Result<Box<dyn Session>> {
        let plan = self.planned()?;
        let shared = self.options.connections == Connections::Shared;
        if !shared {
            links.clear();
        }
        let headers = self.trial_headers();
        match self.spec.operation {
            Operation::Get => {
                let mut pieces = std::collections::VecDeque::new();
                for piece in &plan.pieces[stream] {
                    if !links.contains_key(&piece.address) {
                        links.insert(
                            piece.address.clone(),
                            self.stream_link(&piece.address).await?,
                        );
                    }
                    pieces.push_back((links[&piece.address].clone(), piece.ticket.clone()));
                }
                if let (Some(ticket), Some((link, _))) = (&plan.warm_up, pieces.front()) {
                    let pieces = [(link.clone(), ticket.clone())].into();
                    let warm_up = GetSession::new(pieces, vec![], false, None);
                    self.within("warming up", drive(Box::new(warm_up), usize::MAX))
                        .await?;
                }
                let stop = self.identity.reference.then(|| self.spec.trial.clone());
                let checksum = self.has_checksum();
                let session = GetSession::new(pieces, headers, checksum, stop);
                Ok(Box::new(session.slowed(self.handicap.clone())))
            }
            Operation::Put | Operation::Upsert | Operation::Ingest => {
                let source = self
                    .source
                    .as_ref()
                    .ok_or_else(|| Error::new(Kind::Internal, "a put without data"))?;
                if !links.contains_key(&self.address) {
                    links.insert(self.address.clone(), self.stream_link(&self.address).await?);
                }
                let link = links[&self.address].clone();
                let ack = self.options.ack;
                if plan.discards {
                    let encoder = self.encoder(source)?;
                    let warm_up = PutSession::new(
                        link.clone(),
                        vec![],
                        plan.descriptor(stream),
                        encoder,
                        source.cursor(Some(self.spec.rows_per_batch as u64)),
                        false,
                        ack,
                    );
                    self.within("warming up", drive(Box::new(warm_up), usize::MAX))
                        .await?;
                }
                let cursor = source.cursor(self.spec.rows_per_stream);
                let session = PutSession::new(
                    link,
                    headers,
                    plan.descriptor(stream),
                    self.encoder(source)?,
                    cursor,
                    self.has_checksum(),
                    ack,
                );
                Ok(Box::new(session.slowed(self.handicap.clone())))
            }
        }
    }

    /// A reference server's account of this trial; asked for once.
    async fn account(&self) -> Result<Option<Account>> {
        if !self.identity.reference {
            return Ok(None);
        }
        if let Some(account) = self.account.lock().ok().and_then(|kept| kept.clone()) {
            return Ok(Some(account));
        }
        let link = self.link(&self.address).await?;
        let asking = link.action("venturi.account", self.spec.trial.as_bytes());
        let bytes = self
            .within("asking the server for its account of the trial", asking)
            .await?;
        let account: Account = serde_json::from_slice(&bytes).map_err(|error| {
            Error::protocol(format!("the server's account of the trial: {error}"))
        })?;
        if let Ok(mut kept) = self.account.lock() {
            *kept = Some(account.clone());
        }
        Ok(Some(account))
    }
}

/// The first exchange with a server that is something else fails in odd ways.
fn first_contact(mut error: Error, tls: bool) -> Error {
    // A peer that said why it went has said enough.
    if error.kind == Kind::Lost && !error.message.contains("ended the connection") {
        // TLS 1.3 refuses a client after the handshake has ended well for it.
        let (kind, question) = match tls {
            true => (Kind::Tls, "does the server want a client certificate (tls_certificate, tls_key), and does it speak gRPC?"),
            false => (Kind::Protocol, "is it a gRPC server, and does it want TLS (flight+tls://)?"),
        };
        error.kind = kind;
        error.message = format!("{}: {question}", error.message);
    }
    error
}

/// Runs a session outside of the clock: a warm-up, an upload.
async fn drive(mut session: Box<dyn Session>, batches: usize) -> Result<Tally> {
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
            let link = self.link(&self.address).await?;
            let login = self.within("logging in", authenticate(&link, &self.options));
            if let Some(header) = login.await? {
                self.headers.push(header);
            }
            self.identity = self.within("first contact", self.identify(&link)).await?;
            // Where the clock runs already, it would be a part of what is measured.
            if !self.spec.include_setup {
                let round_trip = link.round_trip(self.timeout()).await;
                self.identity.round_trip_ns = round_trip.map(|took| took.as_nanos() as u64);
            }
            let plan = self.within("planning", self.make_plan(&link)).await?;
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
            for link in links.values() {
                link.set_users(group.len());
            }
            Ok(sessions)
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(self.compare(tallies))
    }

    fn server_report<'a>(&'a self) -> LocalFuture<'a, Result<Option<ServerReport>>> {
        Box::pin(async move {
            let Some(account) = self.account().await? else {
                return Ok(None);
            };
            let mut stages = StageTotals::default();
            for stage in Stage::ALL {
                stages.0[stage as usize] = account.stages.get(stage.name()).copied().unwrap_or(0);
            }
            Ok(Some(ServerReport {
                stages,
                workers: account.workers,
                pools: account.pools,
                user_ns: account.user_ns,
                system_ns: account.system_ns,
            }))
        })
    }

    fn watch<'a>(&'a self, interval: Duration) -> LocalFuture<'a, Result<()>> {
        Box::pin(self.begin_watch(interval))
    }

    fn watched<'a>(&'a self) -> LocalFuture<'a, Result<Option<Watched>>> {
        Box::pin(self.end_watch())
    }

    fn sockets(&self) -> Option<Arc<Sockets>> {
        Some(self.sockets.clone())
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(table) = self.plan.as_ref().and_then(|plan| plan.uploaded.as_ref()) else {
                return Ok(());
            };
            let link = self.link(&self.address).await?;
            let dropping = link.action("venturi.drop", table.as_bytes());
            self.within("removing the trial's table", dropping).await?;
            Ok(())
        })
    }
}

/// What a reference server says of the machine and software it runs on: JSON. `None`: the
/// server is another one, or knows nothing.
pub async fn environment(url: &str, options: &BTreeMap<String, Value>) -> Result<Option<String>> {
    let (_, answer) = ask(url, options, "venturi.environment").await?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    Ok(Some(text).filter(|text| !text.is_empty() && text != "null"))
}

/// Where a reference server's raw TCP probe listens; it starts on demand.
pub async fn tcp_port(url: &str, options: &BTreeMap<String, Value>) -> Result<SocketAddr> {
    let (address, answer) = ask(url, options, "venturi.tcp").await?;
    let port: u16 = String::from_utf8_lossy(&answer)
        .parse()
        .map_err(|_| Error::protocol("the server's answer to venturi.tcp is not a port"))?;
    tokio::net::lookup_host((address.host.as_str(), port))
        .await
        .ok()
        .and_then(|mut all| all.next())
        .ok_or_else(|| {
            Error::new(
                Kind::Unreachable,
                format!("{} has no address", address.host),
            )
        })
}

/// One action outside of any trial.
async fn ask(
    url: &str,
    options: &BTreeMap<String, Value>,
    action: &str,
) -> Result<(Address, Vec<u8>)> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let (address, _) = options::parse_url(url)?;
    let options = Options::parse(options)?;
    let asking = async {
        let connection = dial::dial(&address, &options, PATIENCE).await?;
        let headers = options.headers()?;
        let link = Link::new(connection, address.authority(), address.tls, headers);
        authenticate(&link, &options).await?;
        link.action(action, b"").await
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer.map(|bytes| (address, bytes)),
        Err(_) => Err(Error::new(
            Kind::Timeout,
            format!("{}: no answer to {action}", address.authority()),
        )),
    }
}

/// Basic authentication: Handshake for a bearer token, or the header on every call. The
/// header is set on the link, and returned for further ones.
async fn authenticate(link: &Link, options: &Options) -> Result<Option<(String, Vec<u8>)>> {
    let Some(basic) = options.basic()? else {
        return Ok(None);
    };
    let header = ("authorization".to_owned(), basic);
    let request = Handshake::default().encode_to_vec();
    let header = match link.login(&header, &request).await {
        Ok(headers) => headers
            .into_iter()
            .find(|header| header.name == "authorization")
            .map_or(header, |found| (found.name, found.value.into_bytes())),
        Err(error) if is_unknown(&error) => header,
        Err(error) => return Err(error),
    };
    link.add_header(&header.0, header.1.clone());
    Ok(Some(header))
}
