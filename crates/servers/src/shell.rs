//! What the servers of bulk data have in common: where they listen, who may talk to them, how
//! long they wait, and the threads of their connections.
//!
//! A thread a connection: bulk flows keep a core busy each, so the kernel's scheduler
//! serves them best, and a thread's CPU time is a stream's CPU time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use socket2::Socket;
use tokio::sync::watch;

use super::access::{tls_config, Token};
use super::account::Accounts;
use super::admission::{Admission, Slot};
use super::listening::{
    cannot_bind, cannot_listen, listen, on_a_thread, Accepting, Threads, BACKLOG,
};
use super::machine::{Address, TcpProbe};
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::meter::handicap::Handicap;
use venturi_base::net::listener::Listener;
use venturi_base::net::socket::prepare;
use venturi_base::net::unix;

/// How long a stopping server lets its streams finish.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A part of the server's spec (docs/format.md).
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Shell {
    #[serde(rename = "server", default)]
    _server: Option<String>,
    #[serde(default)]
    pub host: String,
    #[serde(default)]
    pub port: u16,
    /// The path of a Unix socket to listen on instead.
    #[serde(default)]
    pub unix: Option<PathBuf>,
    #[serde(default = "thousand")]
    pub max_connections: usize,
    /// How long a client may take to say what it has begun to say.
    #[serde(default = "ten_seconds")]
    patience_ns: u64,
    /// Bytes of the sockets' send buffers; absent: `socket::prepare` decides.
    #[serde(default)]
    pub send_buffer: Option<usize>,
    /// Nanoseconds to burn for every block, by stage.
    #[serde(default)]
    handicap: BTreeMap<String, u64>,
    #[serde(default)]
    pub(super) tls_certificate: Option<String>,
    #[serde(default)]
    pub(super) tls_key: Option<String>,
    /// Clients must show a certificate of this CA.
    #[serde(default)]
    pub(super) tls_client_ca: Option<String>,
    /// The environment variable that holds the token, or the password, that clients must give.
    #[serde(default)]
    token_env: Option<String>,
    /// The machine and software that this server runs on, for whoever measures it.
    #[serde(default)]
    pub environment: serde_json::Value,
    /// Files that are held in memory, and served as tables.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    pub name: String,
    /// An Arrow IPC file.
    pub ipc: String,
}

impl Shell {
    pub fn check(&self) -> Result<()> {
        if self.max_connections == 0 {
            return Err(Error::usage("max_connections must be at least 1"));
        }
        if self.patience_ns == 0 {
            return Err(Error::usage("patience_ns must be longer than nothing"));
        }
        Ok(())
    }

    pub fn handicap(&self, stages: &[Stage]) -> Result<Handicap> {
        Handicap::parse(&self.handicap, stages, "the server")
    }

    pub(crate) fn bind(&self, handicap: Handicap, accounts: Accounts) -> Result<(Endpoint, Place)> {
        let token = Token::of(self.token_env.as_deref())?;
        let (listener, address) = self.listen()?;
        let tcp = TcpProbe::new(address.clone()).guarded(token.is_some());
        let patience = Duration::from_nanos(self.patience_ns);
        let endpoint = Endpoint {
            started: Instant::now(),
            accounts: Arc::new(accounts),
            token,
            environment: self.environment.clone(),
            tcp: tcp.map_err(|error| self.failed(&error))?,
            send_buffer: self.send_buffer,
            handicap,
            patience,
            admission: Admission::new(self.max_connections, patience),
            connections: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
        };
        Ok((endpoint, (listener, address)))
    }

    /// `None`: without TLS. `protocols`: those of ALPN, in order.
    pub fn tls(&self, protocols: &[&[u8]]) -> Result<Option<Arc<rustls::ServerConfig>>> {
        Ok(tls_config(self, protocols)?.map(Arc::new))
    }

    fn listen(&self) -> Result<(Listener, Address)> {
        if let Some(path) = &self.unix {
            return self.listen_at(path);
        }
        let bound = listen(&self.host, self.port)
            .and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| self.failed(&error))?;
        Ok((Listener::Tcp(listener.into()), Address::Tcp(address)))
    }

    fn listen_at(&self, path: &Path) -> Result<(Listener, Address)> {
        if self.tls_certificate.is_some() {
            return Err(Error::usage(
                "a Unix socket is of this host alone, and has no TLS: leave its certificate out",
            ));
        }
        // Relative ones are the server's own, and mean nothing to its clients.
        let path = std::path::absolute(path).map_err(|error| cannot_bind(path, &error))?;
        unix::address(&unix::raw_of(&path))?;
        let bound = unix::Listening::bind(&path, BACKLOG);
        let listening = bound.map_err(|error| cannot_bind(&path, &error))?;
        Ok((Listener::Unix(listening), Address::Unix(path)))
    }

    fn failed(&self, error: &io::Error) -> Error {
        match &self.unix {
            Some(path) => cannot_bind(path, error),
            None => cannot_listen(&self.host, self.port, None, error),
        }
    }
}

/// Where a server listens, before it serves.
pub(crate) type Place = (Listener, Address);

/// What the connections of any server share.
pub(crate) struct Endpoint {
    pub started: Instant,
    pub accounts: Arc<Accounts>,
    pub token: Option<Token>,
    pub environment: serde_json::Value,
    pub tcp: TcpProbe,
    send_buffer: Option<usize>,
    pub handicap: Handicap,
    /// How long a client may take until it has said what it wants.
    pub patience: Duration,
    pub admission: Arc<Admission>,
    /// Since the start.
    pub connections: AtomicU64,
    /// Nothing new is begun.
    pub leaving: AtomicBool,
}

impl Endpoint {
    pub fn prepare(&self, socket: &Socket) {
        prepare(socket.into(), self.send_buffer);
    }
}

/// What a server does beside its connections.
pub(crate) trait Service: Send + Sync + 'static {
    fn endpoint(&self) -> &Endpoint;
    /// Counts since the start.
    fn statistics(&self) -> serde_json::Value;
    /// What is in flight ends now.
    fn close(&self) {}
}

/// A running server; stops when dropped.
pub struct Serving {
    address: Address,
    service: Arc<dyn Service>,
    stop: watch::Sender<bool>,
    threads: Threads,
}

impl Serving {
    /// Calls `serve` for each connection, each on its own thread.
    pub(crate) fn start(
        shell: &Shell,
        (listener, address): Place,
        service: Arc<dyn Service>,
        serve: impl Fn(Socket, watch::Receiver<bool>, Slot) + Clone + Send + 'static,
    ) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (threads, shared) = (Threads::default(), service.clone());
        let accepting = || {
            let runtime = runtime()?;
            let inside = runtime.enter();
            let listener = Accepting::new(listener)?;
            drop(inside);
            threads.spawn("accept", move || {
                runtime.block_on(accept(listener, shared, stopped, serve));
            })
        };
        accepting().map_err(|error| shell.failed(&error))?;
        Ok(Self {
            address,
            service,
            stop,
            threads,
        })
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Waits until the server has stopped, but no longer than this. True: it has.
    pub fn wait(&self, limit: Duration) -> bool {
        self.threads.wait(limit)
    }

    /// Takes no more connections, lets what is open finish for two seconds, and ends.
    pub fn stop(&self) {
        let endpoint = self.service.endpoint();
        endpoint.leaving.store(true, Ordering::Relaxed);
        let _ = self.stop.send(true);
        endpoint.accounts.watch.close();
        self.threads.join();
        let none_left = |limit: Duration| {
            let until = Instant::now() + limit;
            while !endpoint.admission.is_empty() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        none_left(GRACE);
        self.service.close();
        none_left(GRACE / 4);
    }

    /// Counts since the start, as JSON.
    pub fn statistics(&self) -> String {
        self.service.statistics().to_string()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The event loop of one thread.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

async fn accept(
    listener: Accepting,
    service: Arc<dyn Service>,
    stopped: watch::Receiver<bool>,
    serve: impl Fn(Socket, watch::Receiver<bool>, Slot) + Clone + Send + 'static,
) {
    let admission = &service.endpoint().admission;
    let mut stop = stopped.clone();
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        match socket {
            Ok(socket) => {
                let Some(slot) = admission.admit() else {
                    continue;
                };
                let (serve, stopped, service) = (serve.clone(), stopped.clone(), service.clone());
                on_a_thread(admission, (socket, slot), move |(socket, slot)| {
                    if slot.refusal.is_none() {
                        let connections = &service.endpoint().connections;
                        connections.fetch_add(1, Ordering::Relaxed);
                    }
                    serve(socket, stopped, slot);
                });
            }
            // Out of file descriptors, for one: it may pass.
            Err(error) => {
                admission.accept_failed(&error);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

fn thousand() -> usize {
    1024
}
fn ten_seconds() -> u64 {
    10_000_000_000
}
