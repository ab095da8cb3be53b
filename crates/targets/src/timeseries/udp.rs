//! One stream over UDP: whole messages in each datagram, and never an answer.

use std::io::ErrorKind;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use tokio::net::UdpSocket;

use super::making::{Batch, Maker};
use crate::{Moved, Session, Tally};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};

/// Bytes of a datagram at most: Akumuli reads no longer ones.
const DATAGRAM: usize = 16_000;

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
