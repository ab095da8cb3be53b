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
mod sessions;
mod wire;

#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConnection;
use serde_json::json;
use socket2::Socket;

use crate::account::{Accounts, Counted};
use crate::shell::{Endpoint, Service, Serving};
use builtin::Builtin;
pub use config::{EngineKind, ServerSpec, StreamSpec};
use connection::Connection;
use engine::Engine;
pub use outside::Query;
use outside::{Outside, WaitingQueries};
use ring::Rings;
use sessions::Sessions;
use venturi_base::error::{Error, Result};
use venturi_base::meter::sockets::Metered;
use venturi_base::os::machine::Place;
use wire::{Wire, LOOK_UP};

#[derive(Debug, Default)]
struct Totals {
    queries: AtomicU64,
    /// Queries that failed because a partition went away.
    lost: AtomicU64,
    blocks: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
}

/// What all connections share.
struct State {
    endpoint: Endpoint,
    engine: Box<dyn Engine>,
    sessions: Sessions,
    totals: Totals,
    query_memory: u64,
    rings: Rings,
    stall: Duration,
    /// What is in flight ends too.
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
        let place = Place::current();
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
}

impl Deref for State {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Service for State {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn statistics(&self) -> serde_json::Value {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let totals = &self.totals;
        json!({
            "uptime_ns": self.started.elapsed().as_nanos() as u64,
            "connections": count(&self.connections),
            "connections_open": self.admission.open(),
            "queries": count(&totals.queries),
            "queries_lost": count(&totals.lost),
            "queries_running": self.sessions.running(),
            "blocks_sent": count(&totals.blocks),
            "rows_sent": count(&totals.rows),
            "payload_bytes_sent": count(&totals.bytes),
        })
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.sessions.close();
    }
}

/// A running server; stops when dropped.
pub struct Server {
    serving: Serving,
    #[cfg(test)]
    state: Arc<State>,
    /// Queries for an engine outside.
    waiting_queries: Arc<WaitingQueries>,
}

impl Server {
    /// Binds and starts to serve.
    pub fn start(spec: &str) -> Result<Self> {
        let spec = ServerSpec::parse(spec)?;
        let (handicap, stall) = (spec.handicap()?, spec.stall_timeout());
        let shell = spec.shell;
        let tls = shell.tls(&[])?;
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
        let accounts = match spec.engine {
            EngineKind::Builtin => Accounts::default(),
            EngineKind::Outside => Accounts::with_engine(),
        };
        let (endpoint, place) = shell.bind(handicap, accounts)?;
        let state = Arc::new(State {
            endpoint,
            engine,
            sessions: Sessions::new(spec.max_queries),
            totals: Totals::default(),
            query_memory: spec.query_memory_bytes,
            rings: Rings::new(spec.ring_memory_bytes),
            stall,
            closing: AtomicBool::new(false),
        });
        let own = state.clone();
        let serve = move |socket, _, slot| {
            if let Some(wire) = wire(socket, &own, tls.clone()) {
                Connection::new(wire, own.clone(), slot).serve();
            }
        };
        Ok(Self {
            serving: Serving::start(&shell, place, state.clone(), serve)?,
            #[cfg(test)]
            state,
            waiting_queries,
        })
    }

    /// The next query for whoever is the engine, where one comes in time.
    pub fn next_query(&self, patience: Duration) -> Option<Query> {
        self.waiting_queries.take(patience)
    }
}

impl Deref for Server {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.serving
    }
}

fn wire(socket: Socket, state: &State, tls: Option<Arc<rustls::ServerConfig>>) -> Option<Wire> {
    // A listener's flag may be inherited.
    socket.set_nonblocking(false).ok()?;
    state.prepare(&socket);
    socket.set_read_timeout(Some(LOOK_UP)).ok()?;
    socket.set_write_timeout(Some(LOOK_UP)).ok()?;
    Some(match tls {
        None => Wire::Plain(Metered::new(socket)),
        Some(config) => Wire::tls(ServerConnection::new(config).ok()?, socket),
    })
}
