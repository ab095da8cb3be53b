//! What the reference servers of rows (`flight`, `http`) share: tables, accounts, counts, and the threads
//! of their connections.
//!
//! A thread a connection: bulk flows keep a core busy each, so the kernel's scheduler
//! serves them best, and a thread's CPU time is a stream's CPU time.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use socket2::Socket;
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::access::Token;
use crate::account::{Accounts, Counted};
use crate::admission::{Admission, Slot};
use crate::listening::{on_a_thread, Accepting, Threads};
use crate::machine::{Address, TcpProbe};
use crate::shell::Shell;
use crate::store::Store;
use venturi_base::codec::budget::Budget;
use venturi_base::error::Result;
use venturi_base::meter::clock::Stage;
use venturi_base::meter::handicap::Handicap;
use venturi_base::net::listener::Listener;
use venturi_base::net::socket::prepare;
use venturi_base::net::wire::Wire;

/// Those that may be handicapped.
const STAGES: [Stage; 5] = [
    Stage::Generate,
    Stage::Encode,
    Stage::Decode,
    Stage::Verify,
    Stage::Apply,
];

/// How long a stopping server lets its streams finish.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Totals {
    connections: AtomicU64,
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
    started: Instant,
    pub store: Store,
    pub accounts: Accounts,
    pub totals: Totals,
    pub token: Option<Token>,
    pub environment: serde_json::Value,
    pub tcp: TcpProbe,
    pub max_message: usize,
    send_buffer: Option<usize>,
    pub handicap: Handicap,
    /// How long a client may take until it has said what it wants.
    pub patience: Duration,
    /// Bounds the messages that are coming in, over all connections.
    pub incoming: Budget,
    admission: Arc<Admission>,
}

impl State {
    pub fn statistics(&self) -> serde_json::Value {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let totals = &self.totals;
        json!({
            "uptime_ns": self.started.elapsed().as_nanos() as u64,
            "connections": count(&totals.connections),
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

    /// A Unix socket, TCP, or TLS over that. `None`: it did not come about.
    pub async fn wire(
        &self,
        socket: Socket,
        acceptor: Option<TlsAcceptor>,
        slot: &Slot,
    ) -> Option<Wire> {
        prepare((&socket).into(), self.send_buffer);
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

/// A running server; stops when dropped.
pub struct Serving {
    address: Address,
    state: Arc<State>,
    stop: watch::Sender<bool>,
    threads: Threads,
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

impl Serving {
    /// Binds and starts to serve each connection by `serve`.
    pub(crate) fn start<F: Future<Output = ()>>(
        shell: &Shell,
        bounds: &Bounds,
        protocols: &[&[u8]],
        serve: impl Fn(Socket, Arc<State>, Option<TlsAcceptor>, watch::Receiver<bool>, Slot) -> F
            + Send
            + Sync
            + 'static,
    ) -> Result<Self> {
        shell.check()?;
        let handicap = shell.handicap(&STAGES)?;
        let acceptor = shell.tls(protocols)?.map(TlsAcceptor::from);
        let token = shell.token()?;
        let store = Store::new(bounds.memory);
        for table in &shell.tables {
            store.load(table)?;
        }
        let io = |error: std::io::Error| shell.failed(&error);
        let (listener, address) = shell.listen()?;
        let tcp = TcpProbe::new(address.clone());
        let tcp = tcp.guarded(token.is_some()).map_err(io)?;
        let state = Arc::new(State {
            started: Instant::now(),
            store,
            accounts: Accounts::default(),
            totals: Totals::default(),
            token,
            environment: shell.environment.clone(),
            tcp,
            max_message: bounds.max_message,
            patience: shell.patience(),
            send_buffer: shell.send_buffer,
            handicap,
            incoming: Budget::new(bounds.memory.max(bounds.max_message as u64)),
            admission: Admission::new(shell.max_connections, shell.patience()),
        });
        let (stop, stopped) = watch::channel(false);
        let shared = state.clone();
        let serve = Arc::new(move |socket, state, stopped, slot| {
            serve(socket, state, acceptor.clone(), stopped, slot)
        });
        let threads = Threads::default();
        threads
            .spawn("accept", move || {
                accept(listener, shared, stopped, serve);
            })
            .map_err(io)?;
        Ok(Self {
            address,
            state,
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

    /// Takes no more connections, lets open streams finish for two seconds, and ends.
    pub fn stop(&self) {
        let _ = self.stop.send(true);
        self.state.accounts.watch.close();
        self.threads.join();
        let until = Instant::now() + GRACE + Duration::from_millis(500);
        while !self.state.admission.is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Counts since the start, as JSON.
    pub fn statistics(&self) -> String {
        self.state.statistics().to_string()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Of one connection, on the thread that calls it.
trait Serve<F>:
    Fn(Socket, Arc<State>, watch::Receiver<bool>, Slot) -> F + Send + Sync + 'static
{
}

impl<F, S> Serve<F> for S where
    S: Fn(Socket, Arc<State>, watch::Receiver<bool>, Slot) -> F + Send + Sync + 'static
{
}

fn accept<F: Future<Output = ()>>(
    listener: Listener,
    state: Arc<State>,
    stopped: watch::Receiver<bool>,
    serve: Arc<impl Serve<F>>,
) {
    let Ok(runtime) = runtime() else { return };
    runtime.block_on(async move {
        let Ok(listener) = Accepting::new(listener) else {
            return;
        };
        let mut stop = stopped.clone();
        loop {
            let socket = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return,
            };
            match socket {
                Ok(socket) => start_connection(socket, &state, &stopped, &serve),
                // Out of file descriptors, for one: it may pass.
                Err(error) => {
                    state.admission.accept_failed(&error);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    });
}

fn start_connection<F: Future<Output = ()>>(
    socket: Socket,
    state: &Arc<State>,
    stopped: &watch::Receiver<bool>,
    serve: &Arc<impl Serve<F>>,
) {
    let Some(slot) = state.admission.admit() else {
        return;
    };
    let (own, stopped, serve) = (state.clone(), stopped.clone(), serve.clone());
    on_a_thread(&state.admission, (socket, slot), move |(socket, slot)| {
        let Ok(runtime) = own.admission.with_room(runtime) else {
            return;
        };
        if slot.refusal.is_none() {
            own.totals.connections.fetch_add(1, Ordering::Relaxed);
        }
        runtime.block_on(serve(socket, own, stopped, slot));
    });
}
