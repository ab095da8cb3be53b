//! `venturi serve flight`: the reference server. `docs/targets/flight.md`.
//!
//! A thread a connection: bulk flows keep a core busy each, so the kernel's scheduler
//! serves them best, and a thread's CPU time is a stream's CPU time.

mod calls;
mod config;
mod get;
mod ledger;
mod put;
mod store;
mod worker;

use std::future::{poll_fn, Future};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use socket2::Socket;
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::access::Token;
use crate::account::{Accounts, Counted};
use crate::listening::{Accepting, Listener, Threads};
use crate::machine::{Address, TcpProbe};
use crate::shell::TableSpec;
pub use config::ServerSpec;
use store::{Store, Table};
use venturi_base::codec::budget::Budget;
use venturi_base::data::{file, payload_bytes};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http2::{Config, Connection, Role};
use venturi_base::meter::handicap::Handicap;
use venturi_base::net::socket::prepare;
use venturi_base::net::wire::Wire;
use worker::Worker;

/// How long a stopping server lets its streams finish.
const GRACE: Duration = Duration::from_secs(2);
/// How long a client that broke the protocol may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Totals {
    connections: AtomicU64,
    gets: AtomicU64,
    puts: AtomicU64,
    rows_sent: AtomicU64,
    rows_received: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
}

impl Totals {
    fn count_sent(&self, counted: &Counted) {
        self.rows_sent.fetch_add(counted.rows, Ordering::Relaxed);
        self.bytes_sent
            .fetch_add(counted.payload, Ordering::Relaxed);
    }

    fn count_received(&self, counted: &Counted) {
        self.rows_received
            .fetch_add(counted.rows, Ordering::Relaxed);
        self.bytes_received
            .fetch_add(counted.payload, Ordering::Relaxed);
    }
}

/// What all connections share.
pub(crate) struct State {
    started: Instant,
    store: Store,
    accounts: Accounts,
    totals: Totals,
    token: Option<Token>,
    environment: serde_json::Value,
    tcp: TcpProbe,
    max_message: usize,
    send_buffer: Option<usize>,
    window: u32,
    handicap: Handicap,
    /// How long a client may take until it has said what it wants.
    patience: Duration,
    /// Bounds the messages that are coming in, over all connections.
    incoming: Budget,
    open: AtomicUsize,
}

impl State {
    fn bearer(&self) -> Option<String> {
        self.token
            .as_ref()
            .map(|token| format!("Bearer {}", token.0))
    }
}

/// A running server; stops when dropped.
pub struct Server {
    address: Address,
    state: Arc<State>,
    stop: watch::Sender<bool>,
    threads: Threads,
}

impl Server {
    /// Binds and starts to serve.
    pub fn start(spec: &str) -> Result<Self> {
        let spec = ServerSpec::parse(spec)?;
        let (window, handicap) = (spec.window(), spec.handicap()?);
        let shell = spec.shell;
        let acceptor = shell.tls(&[b"h2"])?.map(TlsAcceptor::from);
        let token = shell.token()?;
        let store = Store::new(spec.memory_bytes);
        for table in &shell.tables {
            load(&store, table)?;
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
            max_message: spec.max_message_size,
            patience: shell.patience(),
            send_buffer: shell.send_buffer,
            window,
            handicap,
            incoming: Budget::new(spec.memory_bytes.max(spec.max_message_size as u64)),
            open: AtomicUsize::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let shared = state.clone();
        let threads = Threads::default();
        let most = shell.max_connections;
        threads
            .spawn("accept", move || {
                accept(listener, shared, acceptor, most, stopped);
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
        while self.state.open.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
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

fn load(store: &Store, spec: &TableSpec) -> Result<()> {
    let (schema, batches) = file::read(&spec.name, &spec.ipc)?;
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let claim = store.claim(batches.iter().map(payload_bytes).sum())?;
    let table = Table {
        schema,
        batches: Arc::new(batches),
        rows,
        claims: vec![Arc::new(claim)],
        trial: None,
    };
    store.keep(spec.name.clone(), table)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn accept(
    listener: Listener,
    state: Arc<State>,
    acceptor: Option<TlsAcceptor>,
    max_connections: usize,
    stopped: watch::Receiver<bool>,
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
                Ok(socket) => {
                    if state.open.load(Ordering::Relaxed) >= max_connections {
                        continue; // dropped: the client is told by the closed connection
                    }
                    start_connection(socket, state.clone(), acceptor.clone(), stopped.clone());
                }
                // Out of file descriptors, for one: it may pass.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
}

fn start_connection(
    socket: Socket,
    state: Arc<State>,
    acceptor: Option<TlsAcceptor>,
    stopped: watch::Receiver<bool>,
) {
    state.open.fetch_add(1, Ordering::Relaxed);
    state.totals.connections.fetch_add(1, Ordering::Relaxed);
    let counted = state.clone();
    let thread = std::thread::Builder::new()
        .name("connection".into())
        .stack_size(1 << 20)
        .spawn(move || {
            let _open = Open(state.clone());
            if let Ok(runtime) = runtime() {
                runtime.block_on(serve(socket, state, acceptor, stopped));
            }
        });
    if thread.is_err() {
        counted.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open connection; counted off however its thread ends.
struct Open(Arc<State>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve(
    socket: Socket,
    state: Arc<State>,
    acceptor: Option<TlsAcceptor>,
    mut stopped: watch::Receiver<bool>,
) {
    prepare((&socket).into(), state.send_buffer);
    let tls = acceptor.is_some();
    let Ok(plain) = Wire::accepted(socket) else {
        return;
    };
    let wire = match (plain, acceptor) {
        (Wire::Tcp(socket), Some(acceptor)) => {
            match tokio::time::timeout(state.patience, acceptor.accept(socket)).await {
                Ok(Ok(session)) => Wire::Tls(Box::new(TlsStream::Server(session))),
                _ => return,
            }
        }
        (plain, _) => plain,
    };
    let config = Config {
        max_message: state.max_message,
        window: state.window,
        ..Config::new(Role::Server)
    };
    let connection = Connection::new(wire, config).within(state.incoming.clone());
    let mut worker = Worker::new(connection, state, tls);
    let patience = worker.patience();
    let mut awaited_request = None;
    let mut timer = std::pin::pin!(tokio::time::sleep(patience));
    let working = poll_fn(|cx| {
        let polled = worker.poll(cx);
        if polled.is_pending() {
            // Who says nothing, or one byte now and then, must not hold a thread for ever.
            let now = worker.awaited_request();
            if now != awaited_request {
                awaited_request = now;
                timer.as_mut().reset(tokio::time::Instant::now() + patience);
            }
            if awaited_request.is_some() && timer.as_mut().poll(cx).is_ready() {
                let late = Error::new(Kind::Timeout, "the client did not say what it wants");
                return Poll::Ready(Err(late));
            }
        }
        polled
    });
    let outcome = tokio::select! {
        outcome = working => outcome,
        _ = stopped.changed() => Ok(()),
    };
    if outcome.is_ok() {
        let finishing = poll_fn(|cx| match worker.poll(cx) {
            Poll::Pending if worker.is_idle() => Poll::Ready(Ok(())),
            other => other,
        });
        let _ = tokio::time::timeout(GRACE, finishing).await;
        worker.say_goodbye();
        let last = poll_fn(|cx| worker.poll(cx));
        let _ = tokio::time::timeout(Duration::from_millis(20), last).await;
    }
    worker.close();
    if outcome.is_err_and(|error| error.kind == Kind::Protocol) {
        let _ = tokio::time::timeout(FAREWELL, poll_fn(|cx| worker.poll_close(cx))).await;
    }
}
