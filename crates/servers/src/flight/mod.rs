//! `venturi serve flight`: the reference server. `docs/targets/flight.md`.

mod calls;
mod get;
mod ledger;
mod put;
mod worker;

use std::future::{poll_fn, Future};
use std::ops::Deref;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::Deserialize;
use socket2::Socket;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use worker::Worker;

use crate::admission::{Activity, Slot};
use crate::shell::{Serving, Shell, GRACE};
use crate::state::{start, Bounds, State};
use venturi_base::codec::frame;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http2::{Config, Connection, Role};
use venturi_base::option_reader::OptionReader;

/// How long a client that broke the protocol may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// A running server; stops when dropped.
pub struct Server(Serving);

impl Server {
    /// Binds and starts to serve.
    pub fn start(spec: &str) -> Result<Self> {
        let spec = ServerSpec::parse(spec)?;
        let window = spec.window();
        let serve = move |socket, state, acceptor, stopped, slot| {
            serve(socket, state, acceptor, window, stopped, slot)
        };
        start(&spec.shell, &spec.bounds, &[b"h2"], serve).map(Self)
    }
}

impl Deref for Server {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.0
    }
}

async fn serve(
    socket: Socket,
    state: Arc<State>,
    acceptor: Option<TlsAcceptor>,
    window: u32,
    mut stopped: watch::Receiver<bool>,
    slot: Slot,
) {
    let is_full = slot.refusal.is_some();
    let tls = acceptor.is_some();
    let Some(wire) = state.wire(socket, acceptor, &slot).await else {
        return;
    };
    let config = Config {
        max_message: state.max_message,
        window,
        ..Config::new(Role::Server)
    };
    let connection = Connection::new(wire, config).within(state.incoming.clone());
    let mut worker = Worker::new(connection, state, tls, slot.refusal.clone());
    let patience = worker.patience();
    let mut awaited_request = None;
    let mut timer = std::pin::pin!(tokio::time::sleep(patience));
    let mut evicted = std::pin::pin!(slot.evicted());
    let working = poll_fn(|cx| {
        let polled = worker.poll(cx);
        if polled.is_pending() {
            // A small call begins and ends within one look.
            if std::mem::take(&mut worker.has_asked) {
                slot.set_activity(Activity::Protected);
            }
            slot.set_activity(worker.activity());
            if evicted.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            // Who says nothing, or one byte now and then, must not hold a thread for ever.
            let now = match is_full {
                true => Some((0, 0)),
                false => worker.awaited_request(),
            };
            if now != awaited_request {
                awaited_request = now;
                timer.as_mut().reset(tokio::time::Instant::now() + patience);
            }
            if awaited_request.is_some() && timer.as_mut().poll(cx).is_ready() {
                let late = Error::new(Kind::Timeout, "the client did not say what it wants");
                return Poll::Ready(Err(late));
            }
            if worker.has_turned_away() {
                return Poll::Ready(Ok(()));
            }
        }
        polled
    });
    let outcome = tokio::select! {
        outcome = working => outcome,
        _ = stopped.changed() => Ok(()),
    };
    if outcome.is_ok() {
        if slot.is_evicted() {
            worker.say_goodbye(&slot.why());
        } else {
            let finishing = poll_fn(|cx| match worker.poll(cx) {
                Poll::Pending if worker.is_idle() => Poll::Ready(Ok(())),
                other => other,
            });
            let _ = tokio::time::timeout(GRACE, finishing).await;
            worker.say_goodbye(slot.refusal.as_deref().unwrap_or("the server stops"));
        }
        let last = poll_fn(|cx| worker.poll(cx));
        let _ = tokio::time::timeout(Duration::from_millis(20), last).await;
    }
    worker.close();
    if is_full || outcome.is_err_and(|error| error.kind == Kind::Protocol) {
        let _ = tokio::time::timeout(FAREWELL, poll_fn(|cx| worker.poll_close(cx))).await;
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct ServerSpec {
    #[serde(skip)]
    pub shell: Shell,
    #[serde(skip)]
    pub bounds: Bounds,
    /// The HTTP/2 window granted to clients, in bytes; absent: all that there can be.
    #[serde(default)]
    window: Option<u32>,
}

impl ServerSpec {
    pub fn parse(json: &str) -> Result<Self> {
        let mut given = OptionReader::server(json)?;
        let spec = Self {
            shell: given.take()?,
            bounds: given.take()?,
            ..given.rest()?
        };
        match spec.window {
            Some(window) if window == 0 || window > frame::MAX_WINDOW => {
                Err(Error::usage("window must be 1..2147483647 bytes"))
            }
            _ => Ok(spec),
        }
    }

    pub fn window(&self) -> u32 {
        self.window.unwrap_or(frame::MAX_WINDOW)
    }
}
