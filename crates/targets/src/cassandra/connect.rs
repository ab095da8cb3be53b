//! From a URL to a cluster that answers: first contact, the driver's sessions, who the server is.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session as Driver;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::PoolSize;
use scylla::deserialize::row::DeserializeRow;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::value::CqlTimeuuid;
use scylla_cql::frame::response::Supported;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::errors::{self, Written};
use super::options::Options;
use super::Cluster;
use crate::upsert::{Host, Login, Place};
use crate::Identity;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::limit::{self, Elapsed};
use venturi_base::meter::readers::listener::pid_of;
use venturi_base::meter::readers::network::is_own;
use venturi_base::meter::sockets::carried;
use venturi_base::net::dial;
use venturi_base::net::route::Route;
use venturi_base::net::tls::{provider, roots, tls_advice};

/// OPTIONS of protocol 4: the one request that needs no log-in, answered by itself.
const OPTIONS: [u8; 9] = [0x04, 0, 0, 0, 0x05, 0, 0, 0, 0];
const SUPPORTED: u8 = 0x06;
/// What a sane server says of itself fits into this.
const LONGEST: usize = 64 << 10;
/// The shortest of so many round trips is the way there and back.
const TRIPS: usize = 8;
/// Whether the nodes agree on a new table is asked this often.
const AGREEMENT: Duration = Duration::from_millis(20);
/// The cluster is not asked for its state again within a trial; it tells of changes by itself.
const REFRESH: Duration = Duration::from_secs(24 * 3600);
/// Seconds before the first probe of an idle connection: of stream 0; each stream has its own number.
const KEEPALIVE: u64 = 10_000;
/// The kernel takes no more than 32,767 s.
const KEEPALIVES: usize = 20_000;
/// From the start of the Gregorian calendar, where version 1 UUIDs begin, to 1970, in ns.
const GREGORIAN_NS: i128 = 12_219_292_800_000_000_000;

/// A cluster that answers.
pub struct Reached {
    pub driver: Driver,
    /// Tokens are 64-bit numbers, so that a table can be read in ranges of them.
    pub murmur: bool,
    pub identity: Identity,
    /// What is odd about it.
    pub note: Option<String>,
}

impl<P> Cluster<P> {
    pub(super) async fn reach(&self) -> Result<Reached> {
        let (place, options, spec) = (&self.place, &self.options, &self.spec);
        let tls = self.tls()?;
        let name = options.login.tls_server_name.as_deref();
        let hello = hello(place, tls.as_ref(), name, self.timeout()).await?;
        check_compression(&place.address(), options, &hello)?;
        let driver = self.session(None).await?;
        let (software, murmur) = software(&driver).await?;
        let skew = skew(&driver).await?;
        let here = is_own(hello.route.peer.ip());
        let identity = Identity {
            address: place.address(),
            software: Some(software),
            protocol: "cql".to_owned(),
            pid: match (here, spec.include_setup) {
                (false, _) => None,
                (true, true) => self.listening,
                (true, false) => pid_of(hello.route.peer),
            },
            round_trip_ns: Some(hello.round_trip.as_nanos() as u64),
            same_machine: here.then_some(true),
            route: Some(hello.route),
            ..Identity::default()
        };
        Ok(Reached {
            driver,
            murmur,
            identity,
            note: skew.and_then(skew_note),
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_nanos(self.spec.timeout_ns)
    }

    /// A session of the driver: of a stream, or of what is not timed.
    pub(super) async fn session(&self, stream: Option<usize>) -> Result<Driver> {
        let mut builder = self.builder()?;
        if let Some(stream) = stream {
            builder = builder.tcp_keepalive_interval(keepalive(stream));
        }
        let built = builder.build().await;
        let session =
            built.map_err(|error| errors::session_error(&self.place.address(), &error))?;
        // Connections are looked at, unless the clock runs while they are made.
        if let (Some(stream), false) = (stream, self.spec.include_setup) {
            let mut sockets = sockets_of(stream);
            sockets.sort_by_key(|socket| carried(socket.as_fd()));
            // The most had the one by which the driver learnt what the cluster is: no request goes there.
            sockets.pop();
            for socket in sockets {
                self.sockets.keep(socket.as_fd());
            }
        }
        Ok(session)
    }

    /// The driver's own policies decide where a request goes (token aware, shard aware); what would
    /// hide a failure or send a batch twice is off.
    fn builder(&self) -> Result<SessionBuilder> {
        let (place, options, timeout) = (&self.place, &self.options, self.timeout());
        let policy = DefaultPolicy::builder()
            .token_aware(options.token_aware)
            .build();
        let profile = ExecutionProfile::builder()
            .consistency(options.consistency())
            .serial_consistency(None)
            .request_timeout(Some(timeout))
            .load_balancing_policy(policy)
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .speculative_execution_policy(None)
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(place.hosts.iter().map(Host::authority))
            .default_execution_profile_handle(profile.into_handle())
            .pool_size(PoolSize::PerShard(NonZeroUsize::MIN))
            .tcp_nodelay(true)
            .connection_timeout(timeout)
            .compression(options.compression()?)
            .keyspaces_to_fetch([&place.space])
            .fetch_full_schema_metadata(false)
            .schema_agreement_interval(AGREEMENT)
            .schema_agreement_timeout(timeout)
            .cluster_metadata_refresh_interval(REFRESH);
        if let Some((user, password)) = options.login(place)? {
            builder = builder.user(user, password);
        }
        Ok(builder.tls_context(self.tls()?))
    }

    /// One for all sessions.
    fn tls(&self) -> Result<Option<Arc<ClientConfig>>> {
        if let Some(made) = self.tls.get() {
            return Ok(made.clone());
        }
        let made = tls(&self.place, &self.options.login)?;
        Ok(self.tls.get_or_init(|| made).clone())
    }
}

pub fn keepalive(stream: usize) -> Duration {
    Duration::from_secs(KEEPALIVE + (stream % KEEPALIVES) as u64)
}

/// The sockets of a stream's connections. The driver keeps them to itself; they are known by their
/// keepalive time.
pub fn sockets_of(stream: usize) -> Vec<OwnedFd> {
    let Ok(all) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let wanted = keepalive(stream);
    let is_of_stream = |socket: BorrowedFd<'_>| {
        let socket = SockRef::from(&socket);
        let time = socket.tcp_keepalive_time();
        time.is_ok_and(|time| time == wanted) && socket.keepalive().is_ok_and(|on| on)
    };
    let duplicate = |name: &str| {
        // SAFETY: it is asked and duplicated, nothing else; whatever it is by then, the duplicate is ours.
        let shared = unsafe { BorrowedFd::borrow_raw(name.parse().ok()?) };
        is_of_stream(shared)
            .then(|| shared.try_clone_to_owned().ok())
            .flatten()
    };
    all.flatten()
        .filter_map(|entry| duplicate(entry.file_name().to_str()?))
        .filter(|socket| is_of_stream(socket.as_fd()))
        .collect()
}

/// TLS as the options want it; `None`: without.
fn tls(place: &Place, login: &Login) -> Result<Option<Arc<ClientConfig>>> {
    let Some(mut config) = login.tls(place)? else {
        return Ok(None);
    };
    if let (Some(name), false) = (&login.tls_server_name, login.tls_insecure) {
        let name = dial::server_name(name)?;
        let roots = roots(login.tls_ca.as_deref())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| Error::usage(format!("TLS: {error}")))?;
        config
            .dangerous()
            .set_certificate_verifier(Arc::new(Named { verifier, name }));
    }
    Ok(Some(Arc::new(config)))
}

/// Verifies as always, but for the name that was given: the driver asks for a node's address,
/// which few certificates hold.
#[derive(Debug)]
struct Named {
    verifier: Arc<WebPkiServerVerifier>,
    name: ServerName<'static>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let name = &self.name;
        self.verifier
            .verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// What a server says before the log-in.
struct Hello {
    route: Route,
    round_trip: Duration,
    supported: HashMap<String, Vec<String>>,
}

/// Asks the first contact point that answers.
async fn hello(
    place: &Place,
    tls: Option<&Arc<ClientConfig>>,
    server_name: Option<&str>,
    timeout: Duration,
) -> Result<Hello> {
    let each = timeout / place.hosts.len().max(1) as u32;
    let mut first = None;
    for host in &place.hosts {
        let name = host.authority();
        let asked = limit::within(each, ask(host, &name, tls, server_name));
        let late = |over: Elapsed| {
            Error::new(
                Kind::Unreachable,
                format!(
                    "{name}: no answer within {over}: is a firewall in the way, or the address wrong, or does the server want TLS (cassandra+tls://)?",
                ),
            )
        };
        match asked.await.unwrap_or_else(|over| Err(late(over))) {
            Ok(hello) => return Ok(hello),
            Err(error) => first.get_or_insert(error),
        };
    }
    Err(first.unwrap_or_else(|| Error::usage("there is no host to connect to")))
}

async fn ask(
    host: &Host,
    name: &str,
    tls: Option<&Arc<ClientConfig>>,
    server_name: Option<&str>,
) -> Result<Hello> {
    let socket = dial::tcp((host.name.as_str(), host.port), None, None).await;
    let socket = socket.map_err(|error| error.context(name))?;
    let unreachable = |error| dial::unreachable(&error).context(name);
    let route = Route {
        local: socket.local_addr().map_err(unreachable)?,
        peer: socket.peer_addr().map_err(unreachable)?,
    };
    let (round_trip, body) = match tls {
        None => trips(socket, name).await?,
        Some(config) => {
            // As the driver does: nodes are known by their addresses.
            let whom = match server_name {
                Some(server_name) => dial::server_name(server_name)?,
                None => ServerName::from(route.peer.ip()),
            };
            let advice = |text: &str| tls_advice(text, "cassandra", false);
            let session = dial::tls(socket, config.clone(), whom, None, advice).await;
            trips(session.map_err(|error| error.context(name))?, name).await?
        }
    };
    let supported = Supported::deserialize(&mut &body[..]).map_err(|_| {
        Error::protocol(format!(
            "{name}: the server's list of what it supports is broken"
        ))
    })?;
    Ok(Hello {
        route,
        round_trip,
        supported: supported.options,
    })
}

async fn trips(
    mut wire: impl AsyncRead + AsyncWrite + Unpin,
    name: &str,
) -> Result<(Duration, Vec<u8>)> {
    let mut least = Duration::MAX;
    let mut body = Vec::new();
    for _ in 0..TRIPS {
        let begun = Instant::now();
        let asked = async {
            wire.write_all(&OPTIONS).await?;
            wire.flush().await?;
            let mut head = [0; 9];
            wire.read_exact(&mut head).await?;
            Ok::<_, std::io::Error>(head)
        };
        let strange = |what: &str| {
            Error::protocol(format!(
                "{name}: {what}: is it a Cassandra or ScyllaDB server, and does it want TLS (cassandra+tls://)?"
            ))
        };
        let head = asked
            .await
            .map_err(|error| strange(&format!("no answer in CQL ({error})")))?;
        let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) as usize;
        if head[0] & 0x80 == 0 || head[4] != SUPPORTED || length > LONGEST {
            return Err(strange("not an answer in CQL's protocol 4"));
        }
        body.resize(length, 0);
        wire.read_exact(&mut body)
            .await
            .map_err(|error| strange(&format!("half an answer in CQL ({error})")))?;
        least = least.min(begun.elapsed());
    }
    Ok((least, body))
}

fn check_compression(place: &str, options: &Options, hello: &Hello) -> Result<()> {
    let Some(wanted) = options.compression()? else {
        return Ok(());
    };
    let offered = hello.supported.get("COMPRESSION");
    match offered.is_some_and(|all| all.iter().any(|name| name == wanted.as_str())) {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{place}: the server does not know compression = {}; it offers: {}",
            wanted.as_str(),
            offered.map_or_else(|| "none".to_owned(), |all| all.join(", "))
        ))),
    }
}

/// Who the server is, as "Cassandra 5.0.9", and whether its tokens are numbers.
async fn software(session: &Driver) -> Result<(String, bool)> {
    let local = "SELECT release_version, partitioner FROM system.local";
    let (release, partitioner) = query_one::<(String, String)>(session, local, &[])
        .await?
        .ok_or_else(|| Error::protocol("system.local is empty"))?;
    let state = session.get_cluster_state();
    let mut nodes = state.get_nodes_info().iter();
    let name = match nodes.any(|node| node.sharder().is_some()) {
        false => format!("Cassandra {release}"),
        true => {
            let own = "SELECT version FROM system.versions";
            let version = query_one::<(String,)>(session, own, &[])
                .await
                .ok()
                .flatten();
            format!("ScyllaDB {}", version.map_or(release, |(version,)| version))
        }
    };
    Ok((name, partitioner.ends_with("Murmur3Partitioner")))
}

/// By how much the server's clock is ahead of ours, in ns, to half a round trip.
async fn skew(session: &Driver) -> Result<Option<i128>> {
    let before = SystemTime::now();
    let now = query_one::<(CqlTimeuuid,)>(session, "SELECT now() FROM system.local", &[]).await?;
    let after = SystemTime::now();
    let Some((now,)) = now else { return Ok(None) };
    let (low, mid, high, _) = now.as_fields();
    let ticks = (u64::from(high & 0x0fff) << 48) | (u64::from(mid) << 32) | u64::from(low);
    let theirs = i128::from(ticks) * 100 - GREGORIAN_NS;
    let ours = before + after.duration_since(before).unwrap_or_default() / 2;
    let ours = ours
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    Ok(Some(theirs - ours.as_nanos() as i128))
}

/// What to say of a difference of the clocks, in ns; `None`: it is none to speak of.
pub fn skew_note(ahead: i128) -> Option<String> {
    const WORTH_IT: i128 = 1_000_000_000;
    let seconds = ahead.unsigned_abs() as f64 / 1e9;
    (ahead.abs() > WORTH_IT).then(|| match ahead > 0 {
        true => format!(
            "the server's clock is {seconds:.1} s ahead of this machine's: Venturi leaves the time of a write to the \
             server, so nothing is lost here, but where a driver stamps its writes itself (most do), newer ones \
             silently lose against what is there; set the clocks (NTP)"
        ),
        false => format!(
            "the server's clock is {seconds:.1} s behind this machine's: Venturi leaves the time of a write to the \
             server, so nothing is lost here, but where a driver stamps its writes itself (most do), later ones of \
             machines with a right clock silently lose against them; set the clocks (NTP)"
        ),
    })
}

/// All rows of a small table.
pub async fn query_rows<R>(session: &Driver, cql: &str, bound: &[&str]) -> Result<Vec<R>>
where
    R: for<'f, 'm> DeserializeRow<'f, 'm>,
{
    let answer = session.query_unpaged(cql, bound).await;
    let answer =
        answer.map_err(|error| errors::execution_error(cql, &error, Written::default()))?;
    let broken = |error: &dyn std::fmt::Display| {
        Error::new(
            Kind::Protocol,
            format!("{cql}: {}", errors::one_line(error)),
        )
    };
    let rows = answer.into_rows_result().map_err(|error| broken(&error))?;
    let rows = rows.rows::<R>().map_err(|error| broken(&error))?;
    rows.map(|row| row.map_err(|error| broken(&error)))
        .collect()
}

pub async fn query_one<R>(session: &Driver, cql: &str, bound: &[&str]) -> Result<Option<R>>
where
    R: for<'f, 'm> DeserializeRow<'f, 'm>,
{
    Ok(query_rows(session, cql, bound).await?.into_iter().next())
}

pub async fn execute(session: &Driver, place: &str, cql: &str) -> Result<()> {
    let done = session.query_unpaged(cql, ()).await;
    done.map(|_| ())
        .map_err(|error| errors::execution_error(place, &error, Written::default()))
}
