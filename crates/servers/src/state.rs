//! What the reference servers of rows (`flight`, `http`) share: tables and counts.

use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use socket2::Socket;
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::account::{Accounts, Counted};
use crate::admission::Slot;
use crate::shell::{runtime, Endpoint, Service, Serving, Shell};
use crate::store::Store;
use venturi_base::codec::budget::Budget;
use venturi_base::error::Result;
use venturi_base::meter::clock::Stage;
use venturi_base::net::wire::Wire;

/// Those that may be handicapped.
const STAGES: [Stage; 5] = [
    Stage::Generate,
    Stage::Encode,
    Stage::Decode,
    Stage::Verify,
    Stage::Apply,
];

#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub gets: AtomicU64,
    pub puts: AtomicU64,
    rows_sent: AtomicU64,
    rows_received: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
}

impl Totals {
    pub fn count_sent(&self, counted: &Counted) {
        self.rows_sent.fetch_add(counted.rows, Ordering::Relaxed);
        self.bytes_sent
            .fetch_add(counted.payload, Ordering::Relaxed);
    }

    pub fn count_received(&self, counted: &Counted) {
        self.rows_received
            .fetch_add(counted.rows, Ordering::Relaxed);
        self.bytes_received
            .fetch_add(counted.payload, Ordering::Relaxed);
    }
}

/// What all connections share.
pub(crate) struct State {
    endpoint: Endpoint,
    pub store: Store,
    pub totals: Totals,
    pub max_message: usize,
    /// Bounds the messages that are coming in, over all connections.
    pub incoming: Budget,
}

impl State {
    /// A Unix socket, TCP, or TLS over that. `None`: it did not come about.
    pub async fn wire(
        &self,
        socket: Socket,
        acceptor: Option<TlsAcceptor>,
        slot: &Slot,
    ) -> Option<Wire> {
        self.prepare(&socket);
        match (Wire::accepted(socket).ok()?, acceptor) {
            (Wire::Tcp(socket), Some(acceptor)) => {
                let shaken = tokio::time::timeout(self.patience, acceptor.accept(socket));
                let session = tokio::select! {
                    biased;
                    shaken = shaken => shaken.ok()?.ok()?,
                    () = slot.evicted() => return None,
                };
                Some(Wire::Tls(Box::new(TlsStream::Server(session))))
            }
            (plain, _) => Some(plain),
        }
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
            "gets": count(&totals.gets),
            "puts": count(&totals.puts),
            "rows_sent": count(&totals.rows_sent),
            "rows_received": count(&totals.rows_received),
            "payload_bytes_sent": count(&totals.bytes_sent),
            "payload_bytes_received": count(&totals.bytes_received),
            "tables": self.store.tables().len(),
            "memory_used_bytes": self.store.used(),
            "memory_limit_bytes": self.store.limit(),
        })
    }
}

/// What a server is set up by beside its shell.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Bounds {
    /// Of all tables together, in bytes.
    #[serde(rename = "memory_bytes")]
    memory: u64,
    /// Of a batch that a put sends, in bytes.
    #[serde(rename = "max_message_size", default = "largest_message")]
    max_message: usize,
}

fn largest_message() -> usize {
    256 << 20
}

/// Binds and starts to serve each connection by `serve`, on the thread that calls it.
pub(crate) fn start<F: Future<Output = ()>>(
    shell: &Shell,
    bounds: &Bounds,
    protocols: &[&[u8]],
    serve: impl Fn(Socket, Arc<State>, Option<TlsAcceptor>, watch::Receiver<bool>, Slot) -> F
        + Clone
        + Send
        + 'static,
) -> Result<Serving> {
    shell.check()?;
    let handicap = shell.handicap(&STAGES)?;
    let acceptor = shell.tls(protocols)?.map(TlsAcceptor::from);
    let store = Store::new(bounds.memory);
    for table in &shell.tables {
        store.load(table)?;
    }
    let (endpoint, place) = shell.bind(handicap, Accounts::default())?;
    let state = Arc::new(State {
        endpoint,
        store,
        totals: Totals::default(),
        max_message: bounds.max_message,
        incoming: Budget::new(bounds.memory.max(bounds.max_message as u64)),
    });
    let own = state.clone();
    Serving::start(shell, place, state, move |socket, stopped, slot| {
        if let Ok(runtime) = own.admission.with_room(runtime) {
            runtime.block_on(serve(socket, own.clone(), acceptor.clone(), stopped, slot));
        }
    })
}
