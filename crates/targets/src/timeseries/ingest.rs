//! One stream: over TCP, or in datagrams, which are never answered.
//!
//! Over TCP batches go out, and whatever comes back is looked at while they do. These protocols say nothing to success. So a connection that has died would look like a fast
//! one, were it not read all the time: a line from the server, or its end of the connection
//! closed, ends the stream.

use std::future::poll_fn;
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use socket2::SockRef;
use tokio::net::{TcpStream, UdpSocket};

use super::supply::{Batch, Maker};
use crate::{Moved, Session, Tally};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::sockets::{Metered, Sockets};

/// Bytes of what a server says that are kept.
const MOST_SAID: usize = 4096;

/// Bytes of a datagram at most: Akumuli reads no longer ones.
const DATAGRAM: usize = 16_000;

/// How the server is asked whether it has everything.
#[derive(Debug, Clone, Copy)]
pub enum Goodbye {
    /// By this request; its answer begins with this, and the number of points follows.
    Flush(&'static str, &'static str),
    /// By closing this end: the server has read all when it closes its own.
    Close,
}

pub struct Stream {
    socket: Metered<TcpStream>,
    place: Arc<str>,
    maker: Maker,
    batch: Batch,
    /// Bytes of the batch, or of the goodbye, that the kernel has taken.
    sent: usize,
    goodbye: Goodbye,
    /// It has been begun.
    leaving: bool,
    said: Vec<u8>,
    tally: Tally,
}

impl Stream {
    pub fn new(
        socket: TcpStream,
        sockets: &Arc<Sockets>,
        place: Arc<str>,
        maker: Maker,
        goodbye: Goodbye,
    ) -> Self {
        let mut socket = Metered::new(socket);
        socket.watch(sockets);
        Self {
            socket,
            place,
            maker,
            batch: Batch::default(),
            sent: 0,
            goodbye,
            leaving: false,
            said: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Sends what must come first, before the clock starts.
    pub async fn introduce(&mut self, preamble: &[u8]) -> Result<()> {
        let mut bytes = 0;
        let (socket, tally) = (&self.socket, &mut Tally::default());
        let sent = poll_fn(|cx| Self::poll_send(socket, preamble, &mut bytes, tally, cx)).await;
        sent.map_err(|error| self.broken(&error))
    }

    /// Where, and how much had been sent; the engine says by which stream.
    fn whereabouts(&self) -> String {
        let within = match self.leaving {
            true => 0,
            false => self.batch.text.points_within(self.sent),
        };
        format!(
            "{}: after {} points had been sent (sent, not stored)",
            self.place,
            self.tally.rows + within
        )
    }

    fn lost(&self, why: &str) -> Error {
        let place = self.whereabouts();
        Error::new(
            Kind::Lost,
            format!("{place}, the connection was lost: {why}"),
        )
    }

    fn refused(&self) -> Error {
        let text = String::from_utf8_lossy(&self.said);
        let text = text.trim_end();
        let place = self.whereabouts();
        let code = text.split([' ', ':']).next().unwrap_or_default();
        Error::new(Kind::Server, format!("{place}, the server said: {text}")).with_code(code)
    }

    /// Reads what is there, without waiting. True: the server has closed its end.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            if let Err(error) = ready!(self.socket.poll_read_ready(cx)) {
                return Poll::Ready(Err(self.lost(&error.to_string())));
            }
            let mut room = [0; 1024];
            match self.socket.try_read(&mut room) {
                Ok(0) => return Poll::Ready(Ok(true)),
                Ok(more) => {
                    self.tally.wire_bytes += more as u64;
                    let kept = more.min(MOST_SAID - self.said.len());
                    self.said.extend_from_slice(&room[..kept]);
                    if self.said.contains(&b'\n') || self.said.len() == MOST_SAID {
                        return Poll::Ready(Ok(false));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(self.lost(&error.to_string()))),
            }
        }
    }

    /// Nothing may come while batches are sent: what does is an error.
    fn listen(&mut self, cx: &mut Context<'_>) -> Result<()> {
        match self.poll_reply(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(_)) if !self.said.is_empty() => Err(self.refused()),
            Poll::Ready(Ok(_)) => Err(self.lost("the server closed it, and did not say why")),
        }
    }

    /// Hands `bytes` to the kernel, from `sent` on.
    fn poll_send(
        socket: &TcpStream,
        bytes: &[u8],
        sent: &mut usize,
        tally: &mut Tally,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        while *sent < bytes.len() {
            match socket.try_write(&bytes[*sent..]) {
                Ok(written) => {
                    *sent += written;
                    tally.wire_bytes += written as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready!(socket.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// A write failed: the reason may be there to be read. The event loop does not know that
    /// yet, so the socket itself is asked.
    fn broken(&mut self, error: &std::io::Error) -> Error {
        let mut room = [0; MOST_SAID];
        if let Ok(more) = (&*SockRef::from(&*self.socket)).read(&mut room) {
            let kept = more.min(MOST_SAID - self.said.len());
            self.said.extend_from_slice(&room[..kept]);
        }
        match self.said.is_empty() {
            true => self.lost(&error.to_string()),
            false => self.refused(),
        }
    }

    fn poll_goodbye(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        let Goodbye::Flush(ask, answer) = self.goodbye else {
            if !self.leaving {
                self.leaving = true;
                if let Err(error) = SockRef::from(&*self.socket).shutdown(Shutdown::Write) {
                    return Poll::Ready(Err(self.broken(&error)));
                }
                clock.mark(Stage::Send);
            }
            let closed = ready!(self.poll_reply(cx))?;
            return Poll::Ready(match closed && self.said.is_empty() {
                true => Ok(()),
                false => Err(self.refused()),
            });
        };
        if !self.leaving {
            self.leaving = true;
            self.sent = 0;
        }
        let asked = Self::poll_send(
            &self.socket,
            ask.as_bytes(),
            &mut self.sent,
            &mut self.tally,
            cx,
        );
        if let Poll::Ready(Err(error)) = asked {
            return Poll::Ready(Err(self.broken(&error)));
        }
        let closed = ready!(self.poll_reply(cx))?;
        if self.said.is_empty() {
            let why = "the server closed it in place of an answer to a flush";
            return Poll::Ready(Err(self.lost(why)));
        }
        let text = String::from_utf8_lossy(&self.said);
        let points = text.trim_end().strip_prefix(answer);
        let points: Option<u64> = points.and_then(|points| points.parse().ok());
        Poll::Ready(match points.filter(|_| !closed) {
            None => Err(self.refused()),
            Some(points) if points == self.tally.rows => Ok(()),
            Some(points) => Err(Error::new(
                Kind::Verification,
                format!(
                    "{}: the server acknowledged {points} points, {} were sent",
                    self.place, self.tally.rows
                ),
            )),
        })
    }
}

impl Session for Stream {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if let Err(error) = self.listen(cx) {
            return Poll::Ready(Err(error));
        }
        if self.sent == self.batch.text.bytes().len() {
            self.batch.text.clear();
            self.sent = 0;
            if !ready!(self.maker.poll_next(&mut self.batch, cx, clock))? {
                return Poll::Ready(Ok(None));
            }
        }
        let sent = Self::poll_send(
            &self.socket,
            self.batch.text.bytes(),
            &mut self.sent,
            &mut self.tally,
            cx,
        );
        clock.mark(Stage::Send);
        match sent {
            Poll::Pending => {
                clock.wait(Stage::AwaitOutput);
                Poll::Pending
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.broken(&error))),
            Poll::Ready(Ok(())) => {
                self.sent = 0;
                Poll::Ready(Ok(Some(self.batch.done(&mut self.tally))))
            }
        }
    }

    fn is_spent(&self) -> bool {
        self.maker.is_spent()
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        // Only a stop on failure comes here with a batch in flight: what was not sent whole
        // cannot be acknowledged.
        if self.sent < self.batch.text.bytes().len() && !self.leaving {
            return Poll::Ready(Ok(()));
        }
        let left = self.poll_goodbye(cx, clock);
        clock.mark(Stage::Receive);
        if left.is_pending() {
            clock.wait(Stage::AwaitReply);
        }
        left
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}

/// A stream over UDP: whole messages in each datagram.
pub struct Datagrams {
    socket: UdpSocket,
    place: Arc<str>,
    maker: Maker,
    batch: Batch,
    sent: usize,
    tally: Tally,
}

impl Datagrams {
    pub fn new(socket: UdpSocket, place: Arc<str>, maker: Maker) -> Self {
        Self {
            socket,
            place,
            maker,
            batch: Batch::default(),
            sent: 0,
            tally: Tally::default(),
        }
    }

    fn place(&self) -> String {
        let points = self.tally.rows + self.batch.text.points_within(self.sent);
        format!("{}: after {points} points had been sent", self.place)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let bytes = self.batch.text.bytes();
        while self.sent < bytes.len() {
            let Some(end) = self.batch.text.cut(self.sent, DATAGRAM) else {
                return Poll::Ready(Err(Error::usage(format!(
                    "{}: a message of more than {DATAGRAM} bytes does not fit a datagram: fewer values, or format = \"values\"",
                    self.place()
                ))));
            };
            match self.socket.try_send(&bytes[self.sent..end]) {
                Ok(_) => {
                    self.tally.wire_bytes += (end - self.sent) as u64;
                    self.sent = end;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if let Err(error) = ready!(self.socket.poll_send_ready(cx)) {
                        return Poll::Ready(Err(self.lost(&error)));
                    }
                }
                Err(error) => return Poll::Ready(Err(self.lost(&error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn lost(&self, error: &std::io::Error) -> Error {
        let place = self.place();
        match error.kind() {
            ErrorKind::ConnectionRefused => Error::new(
                Kind::Unreachable,
                format!("{place}, nothing listens there: {error}"),
            ),
            _ => Error::new(Kind::Lost, format!("{place}: {error}")),
        }
    }
}

impl Session for Datagrams {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if self.sent == self.batch.text.bytes().len() {
            self.sent = 0;
            self.batch.text.clear();
            if !ready!(self.maker.poll_next(&mut self.batch, cx, clock))? {
                return Poll::Ready(Ok(None));
            }
        }
        let sent = self.poll_send(cx);
        clock.mark(Stage::Send);
        if sent.is_pending() {
            clock.wait(Stage::AwaitOutput);
        }
        ready!(sent)?;
        self.sent = 0;
        Poll::Ready(Ok(Some(self.batch.done(&mut self.tally))))
    }

    fn is_spent(&self) -> bool {
        self.maker.is_spent()
    }

    fn progress(&self) -> u64 {
        self.tally.wire_bytes
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
