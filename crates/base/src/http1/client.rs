//! Requests and answers on one connection.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

use tokio_rustls::TlsStream;

use super::Web;
use crate::error::{Error, Kind, Result};
use crate::meter::sockets::{Sockets, Watch};
use crate::net::dial;
use crate::net::route::Route;
use crate::net::wire::Wire;

/// Bytes of an answer's head at most.
const MOST_HEAD: usize = 64 << 10;
/// Bytes that are read ahead.
const READ: usize = 64 << 10;
/// A body's bytes go past the buffer where so many are wanted at once.
const DIRECT: usize = 4 << 10;

/// An answer without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
}

impl Head {
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What is left of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Nothing,
    Bytes(u64),
    /// So many of this chunk, its end of line and more chunks.
    Chunk(u64),
    NextChunk,
    /// Lines until an empty one.
    Trailer,
    UntilClosed,
}

/// TCP, or TLS over it.
async fn connect(web: &Web) -> Result<Wire> {
    let socket = dial::tcp((web.host.as_str(), web.port), None, None).await;
    let socket = socket.map_err(|error| error.context(&web.authority))?;
    let Some(tls) = &web.tls else {
        return Ok(Wire::Tcp(socket));
    };
    let name = dial::server_name(tls.server_name.as_ref().unwrap_or(&web.host))?;
    let advice = |text: &str| (tls.advice)(text, tls.authority);
    let session = dial::tls(socket, tls.config.clone(), name, None, advice).await;
    let session = session.map_err(|error| error.context(&web.authority))?;
    Ok(Wire::Tls(Box::new(TlsStream::Client(session))))
}

/// A connection.
pub struct Client {
    authority: String,
    /// Before the wire: it must go first, wherever the client goes.
    watched: Option<Watch>,
    wire: Wire,
    /// What was read and not yet understood: `from..to`.
    read: Vec<u8>,
    from: usize,
    to: usize,
    rest: Rest,
    /// Bytes of HTTP carried, both ways.
    pub carried: u64,
}

impl Client {
    pub async fn connect(web: &Web) -> Result<Self> {
        Ok(Self {
            authority: web.authority.clone(),
            watched: None,
            wire: connect(web).await?,
            read: vec![0; READ],
            from: 0,
            to: 0,
            rest: Rest::Nothing,
            carried: 0,
        })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.wire.socket()
    }

    pub fn route(&self) -> Option<Route> {
        self.wire.route()
    }

    /// The connection's socket is one of the trial's.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        // SAFETY: a client keeps its wire to its end, and drops the watch before it.
        self.watched = unsafe { sockets.watch(self.wire.socket()) };
    }

    fn wrong(&self, what: &str) -> Error {
        Error::protocol(format!("{}: HTTP: {what}", self.authority))
    }

    fn lost(&self, error: &std::io::Error) -> Error {
        Error::new(Kind::Lost, format!("{}: HTTP: {error}", self.authority))
    }

    fn closed(&self) -> Error {
        let closed = "the connection was closed by the server";
        self.lost(&std::io::Error::new(ErrorKind::UnexpectedEof, closed))
    }

    /// A request and its whole answer, of at most `most` bytes.
    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        most: usize,
    ) -> Result<(Head, Vec<u8>)> {
        let head = self.begin(method, path, headers, body).await?;
        let body = self.whole(most).await?;
        Ok((head, body))
    }

    /// A request; its answer's body is to be read by `poll_body` or `whole`.
    pub async fn begin(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Head> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: venturi/{}\r\n",
            self.authority,
            env!("CARGO_PKG_VERSION")
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        if self.send(head.as_bytes()).await? {
            self.send(body).await?;
        }
        loop {
            let head = self.head().await?;
            if head.status >= 200 {
                return Ok(head);
            }
        }
    }

    /// The rest of the body; more than `most` bytes are an error.
    pub async fn whole(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let old = body.len();
            body.resize(old + READ, 0);
            let got = poll_fn(|cx| self.poll_body(cx, &mut body[old..])).await?;
            body.truncate(old + got);
            if got == 0 {
                return Ok(body);
            }
            if body.len() > most {
                return Err(self.wrong(&format!("an answer of more than {most} bytes")));
            }
        }
    }

    /// False: the server answers before it has read all.
    async fn send(&mut self, bytes: &[u8]) -> Result<bool> {
        let mut sent = 0;
        poll_fn(|cx| self.poll_send(cx, bytes, &mut sent)).await
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
    ) -> Poll<Result<bool>> {
        while *sent < bytes.len() {
            let error = match self.wire.poll_write(cx, &[IoSlice::new(&bytes[*sent..])]) {
                Poll::Ready(Ok(written)) if written > 0 => {
                    self.carried += written as u64;
                    *sent += written;
                    continue;
                }
                Poll::Ready(Ok(_)) => Some(std::io::Error::from(ErrorKind::WriteZero)),
                Poll::Ready(Err(error)) => Some(error),
                Poll::Pending => None,
            };
            // It may have said why it takes no more.
            return match (self.poll_fill(cx), error) {
                (Poll::Ready(Ok(())), _) => Poll::Ready(Ok(false)),
                (_, Some(error)) => Poll::Ready(Err(self.lost(&error))),
                (Poll::Ready(Err(error)), None) => Poll::Ready(Err(error)),
                (Poll::Pending, None) => Poll::Pending,
            };
        }
        let flushed = ready!(self.wire.poll_flush(cx));
        Poll::Ready(match flushed {
            Ok(()) => Ok(true),
            Err(error) => Err(self.lost(&error)),
        })
    }

    /// Reads something, in any case.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
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
        match ready!(self
            .wire
            .poll_read(cx, &mut [IoSliceMut::new(&mut self.read[self.to..])]))
        {
            Ok(0) => Poll::Ready(Err(self.closed())),
            Ok(got) => {
                self.to += got;
                self.carried += got as u64;
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(self.lost(&error))),
        }
    }

    /// The next line, without its end.
    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Result<String>> {
        loop {
            let unread = &self.read[self.from..self.to];
            if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&unread[..end]);
                let line = line.trim_end().to_owned();
                self.from += end + 1;
                return Poll::Ready(Ok(line));
            }
            ready!(self.poll_fill(cx))?;
        }
    }

    async fn head(&mut self) -> Result<Head> {
        let status = poll_fn(|cx| self.poll_line(cx)).await?;
        let mut words = status.split(' ');
        let version = words.next().unwrap_or_default();
        let code = words.next().and_then(|code| code.parse::<u16>().ok());
        let Some(status) = code.filter(|_| version.starts_with("HTTP/1.")) else {
            let said: String = status.chars().take(80).collect();
            return Err(self.wrong(&format!(
                "no status line, but {said:?}: is it an HTTP server?"
            )));
        };
        let (mut headers, mut bytes) = (Vec::new(), 0);
        loop {
            let line = poll_fn(|cx| self.poll_line(cx)).await?;
            if line.is_empty() {
                break;
            }
            bytes += line.len();
            if bytes > MOST_HEAD {
                return Err(self.wrong("headers of more than 64 KiB"));
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let head = Head { status, headers };
        let chunked = head
            .get("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().ends_with("chunked"));
        self.rest = match head.get("content-length") {
            _ if status < 200 || status == 204 || status == 304 => Rest::Nothing,
            _ if chunked => Rest::NextChunk,
            Some(length) => {
                let length = length.parse::<u64>();
                let wrong = |_| self.wrong("a content-length that is no number");
                Rest::Bytes(length.map_err(wrong)?)
            }
            None => Rest::UntilClosed,
        };
        Ok(head)
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
                    ready!(self.poll_line(cx))?;
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
                    self.rest = match u64::from_str_radix(size, 16) {
                        Ok(0) => Rest::Trailer,
                        Ok(size) => Rest::Chunk(size),
                        Err(_) => {
                            return Poll::Ready(Err(self.wrong("a chunk without its size")));
                        }
                    };
                }
                Rest::Trailer => {
                    if ready!(self.poll_line(cx))?.is_empty() {
                        self.rest = Rest::Nothing;
                    }
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
