//! What both ends of a connection share: bytes that are read ahead, and bodies.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use crate::codec::ipc_queue::{Queue, MOST_PIECES};
use crate::error::{Error, Kind, Result};
use crate::meter::sockets::{Metered, Sockets};
use crate::net::wire::Wire;

/// Bytes of a head at most.
pub const MOST_HEAD: usize = 64 << 10;
/// Bytes that are read ahead.
pub const READ: usize = 64 << 10;
/// The same between two large pieces of a body: what stands there is short, and more would be copied.
const BETWEEN: usize = 1 << 10;
/// A body's bytes go past the buffer where so many are wanted at once.
const DIRECT: usize = 4 << 10;

/// What is left of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    Nothing,
    Bytes(u64),
    /// So many of this chunk, its end of line and more chunks.
    Chunk(u64),
    NextChunk,
    /// Lines until an empty one, which may have so many bytes.
    Trailer(usize),
    UntilClosed,
}

/// Headers, their names in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn push(&mut self, name: &str, value: &str) {
        let field = (name.to_ascii_lowercase(), value.trim().to_owned());
        self.0.push(field);
    }

    pub fn is_chunked(&self) -> bool {
        let coding = self.get("transfer-encoding");
        coding.is_some_and(|value| value.to_ascii_lowercase().ends_with("chunked"))
    }
}

pub struct Connection {
    /// The other end, for errors.
    name: String,
    wire: Metered<Wire>,
    /// What was read and not yet understood: `from..to`.
    read: Vec<u8>,
    from: usize,
    to: usize,
    /// Bytes of the next read into the buffer.
    ahead: usize,
    pub(super) rest: Rest,
    /// Bytes of HTTP carried, both ways.
    pub carried: u64,
}

impl Connection {
    pub fn new(name: String, wire: Wire) -> Self {
        Self {
            name,
            wire: Metered::new(wire),
            read: vec![0; READ],
            from: 0,
            to: 0,
            ahead: READ,
            rest: Rest::Nothing,
            carried: 0,
        }
    }

    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.wire.socket()
    }

    /// The connection's socket is one of the trial's.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        self.wire.watch(sockets);
    }

    pub(super) fn wrong(&self, what: &str) -> Error {
        Error::protocol(format!("{}: HTTP: {what}", self.name))
    }

    fn lost(&self, error: &std::io::Error) -> Error {
        Error::new(Kind::Lost, format!("{}: HTTP: {error}", self.name))
    }

    fn closed(&self) -> Error {
        let closed = "the connection was closed by the server";
        self.lost(&std::io::Error::new(ErrorKind::UnexpectedEof, closed))
    }

    /// What is read and not understood yet.
    pub(super) fn unread(&self) -> &[u8] {
        &self.read[self.from..self.to]
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        self.from += bytes;
    }

    /// Whether the body is all here.
    pub fn is_complete(&self) -> bool {
        matches!(self.rest, Rest::Nothing | Rest::Bytes(0))
    }

    /// Whether only the other end's closing says where the body ends.
    pub fn is_open_ended(&self) -> bool {
        self.rest == Rest::UntilClosed
    }

    /// Writes what is queued. False: the other end says something before it has read all, if that is
    /// `heeded`.
    pub fn poll_queue(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut Queue,
        heeded: bool,
    ) -> Poll<Result<bool>> {
        while !queue.is_empty() {
            let mut slices = [IoSlice::new(&[]); MOST_PIECES];
            let filled = queue.pieces(&mut slices);
            let written = self.wire.poll_write(cx, &slices[..filled]);
            match self.wrote(cx, written, heeded) {
                Poll::Ready(Ok(Some(written))) => queue.advance(written),
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(false)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.poll_flush(cx)
    }

    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
        heeded: bool,
    ) -> Poll<Result<bool>> {
        while *sent < bytes.len() {
            let written = self.wire.poll_write(cx, &[IoSlice::new(&bytes[*sent..])]);
            match ready!(self.wrote(cx, written, heeded))? {
                Some(written) => *sent += written,
                None => return Poll::Ready(Ok(false)),
            }
        }
        self.poll_flush(cx)
    }

    /// How many bytes were written; `None`: the other end has said something instead.
    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<std::io::Result<usize>>,
        heeded: bool,
    ) -> Poll<Result<Option<usize>>> {
        let error = match written {
            Poll::Ready(Ok(written)) if written > 0 => {
                self.carried += written as u64;
                return Poll::Ready(Ok(Some(written)));
            }
            Poll::Ready(Ok(_)) => Some(std::io::Error::from(ErrorKind::WriteZero)),
            Poll::Ready(Err(error)) => Some(error),
            Poll::Pending => None,
        };
        if !heeded {
            return match error {
                Some(error) => Poll::Ready(Err(self.lost(&error))),
                None => Poll::Pending,
            };
        }
        // It may have said why it takes no more.
        match (self.poll_fill(cx), error) {
            (Poll::Ready(Ok(())), _) => Poll::Ready(Ok(None)),
            (_, Some(error)) => Poll::Ready(Err(self.lost(&error))),
            (Poll::Ready(Err(error)), None) => Poll::Ready(Err(error)),
            (Poll::Pending, None) => Poll::Pending,
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        let flushed = ready!(self.wire.poll_flush(cx));
        Poll::Ready(match flushed {
            Ok(()) => Ok(true),
            Err(error) => Err(self.lost(&error)),
        })
    }

    /// Ends our side.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.wire.poll_shutdown(cx).map(|_| ())
    }

    /// Reads something, in any case.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
        if self.to == self.read.len() {
            self.read.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.to == self.read.len() {
            return Poll::Ready(Err(self.wrong("a line of more than 64 KiB")));
        }
        let end = self.read.len().min(self.to + self.ahead);
        match ready!(self
            .wire
            .poll_read(cx, &mut [IoSliceMut::new(&mut self.read[self.to..end])]))
        {
            Ok(0) => Poll::Ready(Err(self.closed())),
            Ok(got) => {
                self.ahead = READ;
                self.to += got;
                self.carried += got as u64;
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(self.lost(&error))),
        }
    }

    /// The next line, without its end.
    pub(super) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        loop {
            let unread = self.unread();
            if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&unread[..end]);
                let line = line.trim_end().to_owned();
                self.from += end + 1;
                return Poll::Ready(Ok(line));
            }
            ready!(self.poll_fill(cx))?;
        }
    }

    /// Moves the next bytes of the body into `out`; 0: that was all of it.
    pub fn poll_body(&mut self, cx: &mut Context<'_>, out: &mut [u8]) -> Poll<Result<usize>> {
        loop {
            match self.rest {
                Rest::Nothing => return Poll::Ready(Ok(0)),
                Rest::Bytes(0) => self.rest = Rest::Nothing,
                Rest::Bytes(left) => {
                    let got = ready!(self.poll_some(cx, left, out))?;
                    self.rest = Rest::Bytes(left - got as u64);
                    return Poll::Ready(Ok(got));
                }
                Rest::Chunk(0) => {
                    if !ready!(self.poll_line(cx))?.is_empty() {
                        return Poll::Ready(Err(self.wrong("a chunk longer than its size")));
                    }
                    self.rest = Rest::NextChunk;
                }
                Rest::Chunk(left) => {
                    let got = ready!(self.poll_some(cx, left, out))?;
                    self.rest = Rest::Chunk(left - got as u64);
                    return Poll::Ready(Ok(got));
                }
                Rest::NextChunk => {
                    let line = ready!(self.poll_line(cx))?;
                    let size = line.split(';').next().unwrap_or_default().trim();
                    let digits = size.bytes().all(|byte| byte.is_ascii_hexdigit());
                    let size = u64::from_str_radix(size, 16).ok().filter(|_| digits);
                    self.rest = match size {
                        Some(0) => Rest::Trailer(MOST_HEAD),
                        Some(size) => Rest::Chunk(size),
                        None => {
                            return Poll::Ready(Err(self.wrong("a chunk without its size")));
                        }
                    };
                }
                Rest::Trailer(left) => {
                    let line = ready!(self.poll_line(cx))?;
                    self.rest = match left.checked_sub(line.len() + 1) {
                        _ if line.is_empty() => Rest::Nothing,
                        Some(left) => Rest::Trailer(left),
                        None => {
                            return Poll::Ready(Err(self.wrong("a trailer of more than 64 KiB")));
                        }
                    };
                }
                Rest::UntilClosed => {
                    return match ready!(self.poll_some(cx, u64::MAX, out)) {
                        Err(error) if error.kind == Kind::Lost => {
                            self.rest = Rest::Nothing;
                            Poll::Ready(Ok(0))
                        }
                        got => Poll::Ready(got),
                    };
                }
            }
        }
    }

    /// At least one byte, and not more than `most`.
    fn poll_some(
        &mut self,
        cx: &mut Context<'_>,
        most: u64,
        out: &mut [u8],
    ) -> Poll<Result<usize>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(out.len());
        if self.from == self.to && most >= DIRECT {
            return Poll::Ready(
                match ready!(self
                    .wire
                    .poll_read(cx, &mut [IoSliceMut::new(&mut out[..most])]))
                {
                    Ok(0) => Err(self.closed()),
                    Ok(got) => {
                        if most >= READ {
                            self.ahead = BETWEEN;
                        }
                        self.carried += got as u64;
                        Ok(got)
                    }
                    Err(error) => Err(self.lost(&error)),
                },
            );
        }
        if self.from == self.to {
            ready!(self.poll_fill(cx))?;
        }
        let got = most.min(self.to - self.from);
        out[..got].copy_from_slice(&self.read[self.from..self.from + got]);
        self.from += got;
        Poll::Ready(Ok(got))
    }
}
