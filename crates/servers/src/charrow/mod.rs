//! `venturi serve charrow`: the reference server. `docs/targets/charrow.md`.
//!
//! A thread a connection that only moves bytes, and as many encoder threads a query as its
//! first partition asked for. Between them stands the query: blocks that are encoded and
//! not dealt yet, within bounds.

mod builtin;
mod config;
mod connection;
mod encode;
mod engine;
mod outside;
mod query;
mod questions;
mod ring;
mod seat;
mod sessions;
mod wire;

#[cfg(test)]
mod tests;

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ServerConnection;
use serde_json::json;
use socket2::Socket;

use crate::access::Token;
use crate::account::{Accounts, Counted};
use crate::admission::{Admission, Slot};
use crate::listening::{on_a_thread, Threads};
use crate::machine::{Address, TcpProbe};
use builtin::Builtin;
pub use config::{EngineKind, ServerSpec, StreamSpec};
use connection::Connection;
use engine::Engine;
pub use outside::Query;
use outside::{Outside, WaitingQueries};
use ring::Rings;
use sessions::Sessions;
use venturi_base::error::{Error, Result};
use venturi_base::meter::handicap::Handicap;
use venturi_base::meter::sockets::Metered;
use venturi_base::net::listener::Listener;
use venturi_base::net::socket::prepare;
use venturi_base::os::machine::Place;
use wire::{Wire, LOOK_UP};

/// How long a stopping server lets its queries finish.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Totals {
    connections: AtomicU64,
    queries: AtomicU64,
    /// Queries that failed because a partition went away.
    lost: AtomicU64,
    blocks: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
}

/// What all connections share.
struct State {
    started: Instant,
    engine: Box<dyn Engine>,
    sessions: Sessions,
    accounts: Arc<Accounts>,
    totals: Totals,
    token: Option<Token>,
    environment: serde_json::Value,
    tcp: TcpProbe,
    query_memory: u64,
    rings: Rings,
    send_buffer: Option<usize>,
    handicap: Handicap,
    patience: Duration,
    stall: Duration,
    admission: Arc<Admission>,
    /// Nothing new is begun...
    leaving: AtomicBool,
    /// ... and what is in flight ends too.
    closing: AtomicBool,
}

impl State {
    /// A number for a query that has none.
    fn unnamed(&self) -> u64 {
        self.totals.queries.load(Ordering::Relaxed)
    }

    fn count_sent(&self, counted: &Counted) {
        let totals = &self.totals;
        totals.blocks.fetch_add(counted.batches, Ordering::Relaxed);
        totals.rows.fetch_add(counted.rows, Ordering::Relaxed);
        totals.bytes.fetch_add(counted.payload, Ordering::Relaxed);
    }

    /// Who answers: lines of `key=value`.
    fn hello(&self) -> String {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let place = Place::here();
        let lines = [
            ("version", "1.2".to_owned()),
            (
                "software",
                concat!("venturi ", env!("CARGO_PKG_VERSION")).to_owned(),
            ),
            ("engine", self.engine.name()),
            ("pid", std::process::id().to_string()),
            ("boot_id", place.boot_id.unwrap_or_default()),
            ("pid_namespace", place.pid_namespace),
            ("time_namespace", place.time_namespace),
            ("cpus", cpus.to_string()),
            ("asks", questions::NAMES.join(",")),
            ("handicap", self.handicap.text()),
        ];
        let lines = lines.map(|(key, value)| format!("{key}={value}"));
        lines.join("\n")
    }

    fn statistics(&self) -> serde_json::Value {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let totals = &self.totals;
        json!({
            "uptime_ns": self.started.elapsed().as_nanos() as u64,
            "connections": count(&totals.connections),
            "connections_open": self.admission.open(),
            "queries": count(&totals.queries),
            "queries_lost": count(&totals.lost),
            "queries_running": self.sessions.running(),
            "blocks_sent": count(&totals.blocks),
            "rows_sent": count(&totals.rows),
            "payload_bytes_sent": count(&totals.bytes),
        })
    }
}

/// A running server; stops when dropped.
pub struct Server {
    address: Address,
    state: Arc<State>,
    /// Queries for an engine outside.
    waiting_queries: Arc<WaitingQueries>,
    threads: Threads,
}

impl Server {
    /// Binds and starts to serve.
    pub fn start(spec: &str) -> Result<Self> {
        let spec = ServerSpec::parse(spec)?;
        let (handicap, stall) = (spec.handicap()?, spec.stall_timeout());
        let shell = spec.shell;
        let tls = shell.tls(&[])?;
        let token = shell.token()?;
        let waiting_queries = Arc::new(WaitingQueries::default());
        let engine: Box<dyn Engine> = match spec.engine {
            EngineKind::Builtin => Box::new(Builtin::new(
                &shell.tables,
                &spec.streams,
                spec.query_memory_bytes,
            )?),
            EngineKind::Outside if !(shell.tables.is_empty() && spec.streams.is_empty()) => {
                return Err(Error::usage(
                    "tables and streams are for the built-in engine; another one has its own",
                ))
            }
            EngineKind::Outside => Box::new(Outside {
                waiting_queries: waiting_queries.clone(),
                memory: spec.query_memory_bytes,
            }),
        };
        let io = |error: std::io::Error| shell.failed(&error);
        let (listener, address) = shell.listen()?;
        let tcp = TcpProbe::new(address.clone());
        let tcp = tcp.guarded(token.is_some()).map_err(io)?;
        let state = Arc::new(State {
            started: Instant::now(),
            engine,
            sessions: Sessions::new(spec.max_queries),
            accounts: Arc::new(match spec.engine {
                EngineKind::Builtin => Accounts::default(),
                EngineKind::Outside => Accounts::with_engine(),
            }),
            totals: Totals::default(),
            token,
            environment: shell.environment.clone(),
            tcp,
            query_memory: spec.query_memory_bytes,
            rings: Rings::new(spec.ring_memory_bytes),
            send_buffer: shell.send_buffer,
            handicap,
            patience: shell.patience(),
            stall,
            admission: Admission::new(shell.max_connections, shell.patience()),
            leaving: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        });
        let shared = state.clone();
        let threads = Threads::default();
        threads
            .spawn("accept", move || accept(&listener, &shared, tls.as_ref()))
            .map_err(io)?;
        Ok(Self {
            address,
            state,
            waiting_queries,
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

    /// Takes no more connections, lets queries finish for two seconds, and ends.
    pub fn stop(&self) {
        let state = &self.state;
        state.leaving.store(true, Ordering::Relaxed);
        state.accounts.watch.close();
        self.threads.join();
        let none_left = |limit: Duration| {
            let until = Instant::now() + limit;
            while !state.admission.is_empty() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        none_left(GRACE);
        state.closing.store(true, Ordering::Relaxed);
        state.sessions.close();
        none_left(GRACE / 4);
    }

    /// The next query for whoever is the engine, where one comes in time.
    pub fn next_query(&self, patience: Duration) -> Option<Query> {
        self.waiting_queries.take(patience)
    }

    /// Counts since the start, as JSON.
    pub fn statistics(&self) -> String {
        self.state.statistics().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(listener: &Listener, state: &Arc<State>, tls: Option<&Arc<rustls::ServerConfig>>) {
    while !state.leaving.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok(socket) => start(socket, state, tls.cloned()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let mut polled = libc::pollfd {
                    fd: listener.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                };
                // SAFETY: one descriptor, which lives as long as the listener.
                unsafe { libc::poll(&mut polled, 1, LOOK_UP.as_millis() as i32) };
            }
            // Out of file descriptors, for one: it may pass.
            Err(error) => {
                state.admission.accept_failed(&error);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Serves or refuses a connection on its own thread.
fn start(socket: Socket, state: &Arc<State>, tls: Option<Arc<rustls::ServerConfig>>) {
    let Some(slot) = state.admission.admit() else {
        return;
    };
    let own = state.clone();
    let serve = move |(socket, slot): (Socket, Slot)| {
        if slot.refusal.is_none() {
            own.totals.connections.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(wire) = wire(socket, &own, tls) {
            Connection::new(wire, own, slot).serve();
        }
    };
    on_a_thread(&state.admission, (socket, slot), serve);
}

fn wire(socket: Socket, state: &State, tls: Option<Arc<rustls::ServerConfig>>) -> Option<Wire> {
    // A listener's flag may be inherited.
    socket.set_nonblocking(false).ok()?;
    prepare((&socket).into(), state.send_buffer);
    socket.set_read_timeout(Some(LOOK_UP)).ok()?;
    socket.set_write_timeout(Some(LOOK_UP)).ok()?;
    Some(match tls {
        None => Wire::Plain(Metered::new(socket)),
        Some(config) => Wire::tls(ServerConnection::new(config).ok()?, socket),
    })
}
