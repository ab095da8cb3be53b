//! `venturi serve timeseries`: the reference store. `docs/timeseries-store.md`.
//!
//! N reader threads parse what their connections bring into a memtable each, with a log; full
//! memtables become Parquet segments on a sealing thread each.

mod config;
mod connection;
mod counts;
pub mod files;
mod http;
mod log;
mod memtable;
mod points;
mod reader;
mod recover;
mod segment;
mod series;
mod store;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{watch, Semaphore};
use tokio::task::LocalSet;

use crate::listening::{cannot_listen, listen, Threads};
use crate::shell::runtime;
pub use config::ServerSpec;
use memtable::Memtable;
use reader::{Accepted, Language, Reader, Shared};
use store::{Frozen, Store};
use venturi_base::codec::budget::Budget;
use venturi_base::codec::timeseries::parse::Wrong;
use venturi_base::error::{Error, Kind, Result};

/// How long a stopping reader lets answers go out.
const GRACE: Duration = Duration::from_millis(500);

/// A running store; stops when dropped.
pub struct Server {
    shared: Arc<Shared>,
    /// Of each protocol that is served.
    addresses: Vec<(&'static str, SocketAddr)>,
    stop: watch::Sender<bool>,
    threads: Threads,
}

/// What listens, before threads serve it.
struct Listeners {
    tcp: Vec<(std::net::TcpListener, Language)>,
    udp: Option<std::net::UdpSocket>,
    addresses: Vec<(&'static str, SocketAddr)>,
}

impl Listeners {
    fn bind(spec: &ServerSpec) -> Result<Self> {
        let mut listeners = Self {
            tcp: Vec::new(),
            udp: None,
            addresses: Vec::new(),
        };
        let wanted = [
            ("resp", spec.resp, Language::Resp),
            ("opentsdb", spec.opentsdb, Language::Opentsdb),
            ("influx", spec.influx, Language::Influx),
            ("http", spec.http, Language::Http),
        ];
        for (name, port, language) in wanted {
            let Some(port) = port else { continue };
            let failed = |error| cannot_listen(&spec.host, port, Some(name), &error);
            let listener = listen(&spec.host, port).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            listeners.addresses.push((name, address));
            listeners.tcp.push((listener, language));
        }
        if let Some(port) = spec.udp {
            let failed = |error| cannot_listen(&spec.host, port, Some("udp"), &error);
            let socket = std::net::UdpSocket::bind((spec.host.as_str(), port)).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            // Nothing holds a sender of datagrams back, so there has to be room.
            let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(8 << 20);
            let address = socket.local_addr().map_err(failed)?;
            listeners.addresses.push(("udp", address));
            listeners.udp = Some(socket);
        }
        Ok(listeners)
    }
}

impl Server {
    /// Opens the directory, binds and starts to serve.
    pub fn start(spec: &str) -> Result<Self> {
        let spec = ServerSpec::parse(spec)?;
        let listeners = Listeners::bind(&spec)?;
        allow_files(spec.max_connections);
        let (store, recovered) = recover::open(spec)?;
        let memtables = (0..store.spec.threads)
            .map(|place| Arc::new(Mutex::new(Memtable::new(store.clone(), place))))
            .collect();
        let http = listeners.addresses.iter().find(|(name, _)| *name == "http");
        let shared = Arc::new(Shared {
            room: Arc::new(AtomicUsize::new(store.spec.max_series)),
            asked: watch::channel(0).0,
            answered: (0..store.spec.threads).map(|_| AtomicU64::new(0)).collect(),
            bodies: Budget::new(store.spec.memory / 4),
            counting: Semaphore::new(1),
            http_port: http.map_or(0, |(_, address)| address.port()),
            memtables,
            recovered,
            store,
        });
        let (stop, _) = watch::channel(false);
        let server = Self {
            shared,
            addresses: listeners.addresses.clone(),
            stop,
            threads: Threads::default(),
        };
        // On an error the server is dropped, which stops what has been started.
        server.spawn_all(listeners).map_err(|error| {
            Error::new(
                Kind::Io,
                format!("cannot start the server's threads: {error}"),
            )
        })?;
        Ok(server)
    }

    fn spawn_all(&self, listeners: Listeners) -> std::io::Result<()> {
        let mut udp = listeners.udp;
        let mut readers = Vec::new();
        for place in 0..self.shared.memtables.len() {
            let (sockets, incoming) = tokio::sync::mpsc::unbounded_channel();
            let (sealer, frozen) = mpsc::channel();
            let permits = Arc::new(Semaphore::new(reader::PERMITS));
            readers.push(sockets);
            let (store, given) = (self.shared.store.clone(), permits.clone());
            self.threads
                .spawn("seal", move || store::run_sealer(&store, &frozen, &given))?;
            let (shared, stopped, udp) = (self.shared.clone(), self.stop.subscribe(), udp.take());
            self.threads.spawn("read", move || {
                run_reader(shared, place, incoming, stopped, permits, sealer, udp);
            })?;
        }
        let store = &self.shared.store;
        let (store, bell) = (Arc::downgrade(store), store.bell());
        if self.shared.store.spec.durable == config::Durable::Fsync {
            self.threads
                .spawn("sync", move || store::run_sync(&store, &bell))?;
        }
        let (store, stopped) = (self.shared.store.clone(), self.stop.subscribe());
        let runtime = runtime()?;
        let inside = runtime.enter();
        let tcp = (listeners.tcp.into_iter())
            .map(|(listener, language)| Ok((TcpListener::from_std(listener)?, language)))
            .collect::<std::io::Result<Vec<_>>>()?;
        drop(inside);
        self.threads.spawn("accept", move || {
            runtime.block_on(accept(tcp, store, readers, stopped));
        })
    }

    fn address_of(&self, wanted: &str) -> Option<String> {
        let found = self.addresses.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, address)| address.to_string())
    }

    /// RESP's address, or the first of those served.
    pub fn address(&self) -> String {
        let first = || {
            self.addresses
                .first()
                .map(|(_, address)| address.to_string())
        };
        self.address_of("resp").or_else(first).unwrap_or_default()
    }

    /// Waits until the server has stopped, but no longer than this. True: it has.
    pub fn wait(&self, limit: Duration) -> bool {
        self.threads.wait(limit)
    }

    /// Closes all connections, seals what is in memory, and ends.
    pub fn stop(&self) {
        let _ = self.stop.send(true);
        self.shared.store.close();
        self.threads.join();
    }

    /// What is stored, as /api/stats has it, and where the server listens; as JSON.
    pub fn statistics(&self) -> String {
        let mut told = self.shared.statistics();
        let names = ["resp", "opentsdb", "influx", "http", "udp"];
        let addresses = names.map(|name| (name.to_owned(), json!(self.address_of(name))));
        told["addresses"] = addresses
            .into_iter()
            .collect::<serde_json::Map<_, _>>()
            .into();
        told.to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A connection is a file; the soft limit of many systems is 1024.
fn allow_files(connections: usize) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let wanted = connections as libc::rlim_t + 256;
    // SAFETY: the calls read and write the struct they are given, nothing else.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < wanted {
            limit.rlim_cur = wanted.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Deals connections to the readers, round robin.
async fn accept(
    listeners: Vec<(TcpListener, Language)>,
    store: Arc<Store>,
    readers: Vec<UnboundedSender<Accepted>>,
    mut stopped: watch::Receiver<bool>,
) {
    let next = Arc::new(AtomicUsize::new(0));
    for (listener, language) in listeners {
        let (store, readers, next) = (store.clone(), readers.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => {
                        let place = next.fetch_add(1, Ordering::Relaxed) % readers.len();
                        deal(socket, language, &store, &readers[place]);
                    }
                    // Out of file descriptors, for one: it may pass.
                    Err(error) => {
                        store.admission.accept_failed(&error);
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        });
    }
    let _ = stopped.changed().await;
}

fn deal(socket: TcpStream, language: Language, store: &Store, reader: &UnboundedSender<Accepted>) {
    let Some(slot) = store.admission.admit() else {
        return;
    };
    if let Some(why) = &slot.refusal {
        // A fresh socket takes a line at once.
        let line = connection::line(language, &Wrong::Store(why.clone()));
        let _ = socket.try_write(line.as_bytes());
        return;
    }
    let _ = socket.set_nodelay(true);
    if let Ok(socket) = socket.into_std() {
        let _ = reader.send((socket, language, slot));
    }
}

/// The body of a reader thread. When it is stopped, it seals its memtable.
fn run_reader(
    shared: Arc<Shared>,
    place: usize,
    mut sockets: UnboundedReceiver<Accepted>,
    mut stopped: watch::Receiver<bool>,
    permits: Arc<Semaphore>,
    sealer: mpsc::Sender<Arc<Frozen>>,
    udp: Option<std::net::UdpSocket>,
) {
    let Ok(runtime) = runtime() else {
        shared
            .store
            .fail("a reader thread cannot have its event loop".into());
        return;
    };
    let reader = Rc::new(Reader::new(shared, place, permits, sealer));
    let tasks = LocalSet::new();
    let stop = stopped.clone();
    runtime.block_on(tasks.run_until(async {
        let aging = reader.clone();
        let aging = tokio::task::spawn_local(async move {
            tokio::join!(aging.grow_old(), aging.seal_on_request());
        });
        if let Some(udp) = udp {
            let (reader, stop) = (reader.clone(), stop.clone());
            tokio::task::spawn_local(async move { connection::serve_udp(udp, reader, stop).await });
        }
        loop {
            let next = tokio::select! {
                next = sockets.recv() => next,
                _ = stopped.changed() => None,
            };
            let Some((socket, language, slot)) = next else {
                break;
            };
            let (reader, stop) = (reader.clone(), stop.clone());
            tokio::task::spawn_local(async move {
                let Ok(socket) = TcpStream::from_std(socket) else {
                    return;
                };
                match language {
                    Language::Http => http::serve(socket, &reader, &slot, stop).await,
                    _ => connection::serve(socket, language, &reader, &slot, stop).await,
                }
            });
        }
        aging.abort();
    }));
    // Connections saw the stop too; what they still have to say is short.
    runtime.block_on(async { tokio::time::timeout(GRACE, tasks).await.is_ok() });
    reader.freeze(|_| true);
}
