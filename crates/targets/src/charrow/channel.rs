//! One connection: what is written, and what is heard.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use super::options::{Options, Place};
use super::SOFTWARE;
use crate::flight;
use venturi_base::codec::charrow::handshake::{pairs, Handshake, Parameters, Request, RING};
use venturi_base::codec::charrow::receive::{Event, Receiver};
use venturi_base::codec::charrow::{ring, EXTENDED};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::sockets::{Metered, Sockets};
use venturi_base::net::route::{Neighbour, Route};
use venturi_base::net::wire::Wire;
use venturi_base::secrets::beginning;

pub struct Channel {
    wire: Metered<Wire>,
    receiver: Receiver,
    /// What is still to be written.
    out: Vec<u8>,
    written: usize,
    wire_bytes: u64,
    wanted: Wanted,
}

/// A ring in shared memory for the bodies of blocks.
enum Wanted {
    Nothing,
    /// It comes with the server's first words.
    Ring {
        /// Of so many bytes.
        asked: u64,
        /// What has come so far.
        file: Option<OwnedFd>,
    },
}

impl Channel {
    /// Connects, and says a handshake of 1.`minor` without waiting for an answer.
    pub async fn open(
        place: &Place,
        options: &Options,
        minor: i64,
        parameters: &Parameters,
        encoders: usize,
        timeout: Duration,
    ) -> Result<Self> {
        let software = options.client_name.as_deref().unwrap_or(SOFTWARE);
        let database = options.database.as_ref().or(place.database.as_ref());
        let handshake = Handshake {
            minor,
            client: match minor {
                EXTENDED => parameters.name(software),
                _ => software.to_owned(),
            },
            database: database.cloned().unwrap_or_default(),
            user: options.user.clone().unwrap_or_default(),
            password: options.password()?,
            encoders,
        };
        let address = &place.address;
        let wire = flight::wire(address, &options.dialling(), timeout, "charrow").await?;
        let mut channel = Self {
            wire: Metered::new(wire),
            receiver: Receiver::new(options.largest_block()),
            out: handshake.write(),
            written: 0,
            wire_bytes: 0,
            wanted: match parameters.ring {
                Some(asked) => Wanted::Ring { asked, file: None },
                None => Wanted::Nothing,
            },
        };
        std::future::poll_fn(|cx| channel.poll_flush(cx)).await?;
        Ok(channel)
    }

    /// The connection's socket is one of the trial's.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        self.wire.watch(sockets);
    }

    pub fn route(&self) -> Option<Route> {
        self.wire.route()
    }

    pub fn neighbour(&self) -> Option<Neighbour> {
        self.wire.neighbour()
    }

    /// Bytes that the socket has carried, both ways, and those that came through shared memory.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes + self.receiver.copied()
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
            let event = self.receiver.next()?;
            let tells = self.receiver.freed();
            if let Some(bytes) = tells {
                self.say(&Request::Freed(bytes as i64));
                // Where it does not take that yet, the next call tells it; where it takes nothing any more, what
                // it has said last, or its end, tells why.
                if let Poll::Ready(Err(_)) = self.poll_flush(cx) {
                    self.out.clear();
                    self.written = 0;
                }
            }
            if let Some(event) = event {
                return Poll::Ready(self.map_ring(event));
            }
            if tells.is_some() {
                continue;
            }
            let (wire, wanted) = (&mut self.wire, &mut self.wanted);
            let read = self.receiver.fill(|places| match wanted {
                Wanted::Nothing => wire.poll_read(cx, places),
                Wanted::Ring { file, .. } => {
                    wire.poll_receive(cx, &mut places[0])
                        .map_ok(|(read, came)| {
                            *file = came.or(file.take());
                            read
                        })
                }
            });
            let bytes = ready!(read).map_err(|error| self.gone(&error))?;
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

    /// The server's first words bring the ring, where one is wanted.
    fn map_ring(&mut self, event: Event) -> Result<Event> {
        if let Wanted::Ring { asked, file } = &mut self.wanted {
            match &event {
                Event::Hello(text) => {
                    let ring = ring_of(text, *asked, file.take());
                    self.receiver
                        .attach(ring.map_err(|error| self.about(error))?);
                    self.wanted = Wanted::Nothing;
                }
                Event::Error(_) => {}
                _ => return Err(self.about(no_ring())),
            }
        }
        Ok(event)
    }

    fn about(&self, error: Error) -> Error {
        error.context(self.wire.peer())
    }

    /// The same, outside of the clock.
    pub async fn event(&mut self) -> Result<Event> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }
}

/// The ring that a server hands out with its Hello: of as many bytes as were asked for.
fn ring_of(hello: &str, asked: u64, file: Option<OwnedFd>) -> Result<ring::Reader> {
    let told = pairs(hello).find(|(key, _)| *key == RING);
    let Some((_, length)) = told else {
        return Err(no_ring());
    };
    if length.parse() != Ok(asked) {
        return Err(Error::protocol(format!(
            "the server's Hello says {RING}={length:?}, and a ring of {asked} bytes was asked for"
        )));
    }
    let file = file.ok_or_else(|| {
        Error::protocol("the server's Hello speaks of shared memory, and brings none")
    })?;
    ring::Reader::of(&file, asked)
}

/// What there is to do where a server has no shared memory.
pub fn no_ring() -> Error {
    Error::new(
        Kind::Unsupported,
        "the server offers no shared memory: it is older, not on Linux, or has been given none \
         (--ring-memory 0); write charrow+unix:// to go without",
    )
}

/// An error that the server has told.
pub fn server_error(text: &str) -> Error {
    let text = text.trim();
    let short = beginning(text, 2000);
    match text.starts_with("authentication failed") {
        true => Error::new(
            Kind::Auth,
            format!("the server answered: {short}; give the password's environment variable as password_env"),
        ),
        false => Error::new(Kind::Server, format!("the server answered: {short}")),
    }
}
