//! One connection: what is written, and what is heard.

use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use super::options::Options;
use crate::flight::{self, Address};
use venturi_base::codec::charrow::handshake::{Handshake, Request};
use venturi_base::codec::charrow::receive::{Event, Receiver};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::sockets::{Sockets, Watch};
use venturi_base::net::route::{Neighbour, Route};
use venturi_base::net::wire::Wire;

pub struct Channel {
    // Before the wire, which has to outlive it.
    watched: Option<Watch>,
    wire: Wire,
    receiver: Receiver,
    /// What is still to be written.
    out: Vec<u8>,
    written: usize,
    wire_bytes: u64,
}

impl Channel {
    /// Connects, and says the handshake without waiting for an answer.
    pub async fn open(
        address: &Address,
        options: &Options,
        handshake: &Handshake,
        timeout: Duration,
    ) -> Result<Self> {
        let wire = flight::wire(address, &options.dialling(), timeout, "charrow").await?;
        let mut channel = Self {
            watched: None,
            wire,
            receiver: Receiver::new(options.largest_block()),
            out: handshake.write(),
            written: 0,
            wire_bytes: 0,
        };
        std::future::poll_fn(|cx| channel.poll_flush(cx)).await?;
        Ok(channel)
    }

    /// The connection's socket is one of the trial's.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        // SAFETY: a channel keeps its wire to its end, and drops the watch before it.
        self.watched = unsafe { sockets.watch(self.wire.socket()) };
    }

    pub fn route(&self) -> Option<Route> {
        self.wire.route()
    }

    pub fn neighbour(&self) -> Option<Neighbour> {
        self.wire.neighbour()
    }

    /// Bytes that the socket has carried, both ways.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    pub fn say(&mut self, request: &Request) {
        self.out.extend(request.write());
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while self.written < self.out.len() {
            let pieces = [std::io::IoSlice::new(&self.out[self.written..])];
            let written = ready!(self.wire.poll_write(cx, &pieces));
            match written.map_err(|error| self.gone(&error))? {
                0 => return Poll::Ready(Err(self.gone(&"it takes no more bytes"))),
                bytes => {
                    self.written += bytes;
                    self.wire_bytes += bytes as u64;
                }
            }
        }
        self.out.clear();
        self.written = 0;
        self.wire.poll_flush(cx).map_err(|error| self.gone(&error))
    }

    fn gone(&self, why: &dyn std::fmt::Display) -> Error {
        Error::new(
            Kind::Lost,
            format!("{} closed the connection: {why}", self.wire.peer()),
        )
    }

    /// The next message; what is to be written is written on the way.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event>> {
        if !self.out.is_empty() {
            // What the server has to say may be why it takes nothing.
            if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                return match self.receiver.next() {
                    Ok(Some(event)) => Poll::Ready(Ok(event)),
                    _ => Poll::Ready(Err(error)),
                };
            }
        }
        loop {
            if let Some(event) = self.receiver.next()? {
                return Poll::Ready(Ok(event));
            }
            let wire = &mut self.wire;
            let read = ready!(self.receiver.fill(|places| wire.poll_read(cx, places)));
            let bytes = read.map_err(|error| self.gone(&error))?;
            if bytes == 0 {
                return Poll::Ready(Err(match self.receiver.is_half_way() {
                    true => self.gone(&"in the middle of a message"),
                    false => self.gone(&"before the end of the query"),
                }));
            }
            self.receiver.filled(bytes);
            self.wire_bytes += bytes as u64;
        }
    }

    /// The same, outside of the clock.
    pub async fn event(&mut self) -> Result<Event> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }
}

/// An error that the server has told.
pub fn told(text: &str) -> Error {
    let text = text.trim();
    let short: String = text.chars().take(2000).collect();
    match text.starts_with("authentication failed") {
        true => Error::new(
            Kind::Auth,
            format!("the server answered: {short}; give the password's environment variable as password_env"),
        ),
        false => Error::new(Kind::Server, format!("the server answered: {short}")),
    }
}
