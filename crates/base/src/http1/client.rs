//! A client's side: requests and answers on one connection.

use std::future::poll_fn;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_rustls::TlsStream;

use super::connection::{Connection, Fields, Rest, MOST_HEAD, READ};
use super::Web;
use crate::codec::ipc_queue::Queue;
use crate::error::Result;
use crate::meter::sockets::Sockets;
use crate::net::dial;
use crate::net::wire::Wire;

/// Interim answers before the one that counts.
const MOST_INTERIM: usize = 16;

/// An answer without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    headers: Fields,
}

impl Head {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }
}

/// How a request says where its body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// It has none.
    Nothing,
    Length(u64),
    Chunked,
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
    connection: Connection,
}

impl Client {
    pub async fn connect(web: &Web) -> Result<Self> {
        let authority = web.authority.clone();
        let wire = connect(web).await?;
        Ok(Self {
            connection: Connection::new(authority.clone(), wire),
            authority,
        })
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.connection.socket()
    }

    pub fn wire(&self) -> &Wire {
        self.connection.wire()
    }

    /// The connection's socket is one of the trial's.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        self.connection.watch(sockets);
    }

    /// Bytes of HTTP carried, both ways.
    pub fn carried(&self) -> u64 {
        self.connection.carried
    }

    /// Whether only the server's closing says where the body ends.
    pub fn is_open_ended(&self) -> bool {
        self.connection.is_open_ended()
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
        let body = self.read_rest(most).await?;
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
        let framing = match method {
            "POST" | "PUT" => Framing::Length(body.len() as u64),
            _ => Framing::Nothing,
        };
        if self.open(method, path, headers, framing).await? {
            self.send(body).await?;
        }
        self.answer().await
    }

    /// A request's head; its body is to be sent by `poll_queue`. False: the server answers already.
    pub async fn open(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        framing: Framing,
    ) -> Result<bool> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: venturi/{}\r\n",
            self.authority,
            env!("CARGO_PKG_VERSION")
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match framing {
            Framing::Nothing => {}
            Framing::Length(length) => head.push_str(&format!("Content-Length: {length}\r\n")),
            Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
        }
        head.push_str("\r\n");
        self.send(head.as_bytes()).await
    }

    /// The answer's head, when it comes.
    pub async fn answer(&mut self) -> Result<Head> {
        for _ in 0..=MOST_INTERIM {
            let head = self.head().await?;
            if head.status >= 200 {
                return Ok(head);
            }
        }
        Err(self.connection.wrong("interim answers without an end"))
    }

    /// The rest of the body; more than `most` bytes are an error.
    pub async fn read_rest(&mut self, most: usize) -> Result<Vec<u8>> {
        let body = self.start(most.saturating_add(1)).await?;
        match body.len() > most {
            true => {
                let what = format!("an answer of more than {most} bytes");
                Err(self.connection.wrong(&what))
            }
            false => Ok(body),
        }
    }

    /// The first bytes of the rest of the body, `most` of them and not many more.
    pub async fn start(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let old = body.len();
            body.resize(old + READ, 0);
            let got = poll_fn(|cx| self.poll_body(cx, &mut body[old..])).await?;
            body.truncate(old + got);
            if got == 0 || body.len() >= most {
                return Ok(body);
            }
        }
    }

    /// False: the server answers before it has read all.
    async fn send(&mut self, bytes: &[u8]) -> Result<bool> {
        let mut sent = 0;
        poll_fn(|cx| self.connection.poll_send(cx, bytes, &mut sent, true)).await
    }

    /// Writes what is queued of the body. False: the server answers before it has read all.
    pub fn poll_queue(&mut self, cx: &mut Context<'_>, queue: &mut Queue) -> Poll<Result<bool>> {
        self.connection.poll_queue(cx, queue, true)
    }

    async fn head(&mut self) -> Result<Head> {
        let status = poll_fn(|cx| self.connection.poll_line(cx)).await?;
        let mut words = status.split(' ');
        let version = words.next().unwrap_or_default();
        let code = words.next().and_then(|code| code.parse::<u16>().ok());
        let Some(status) = code.filter(|_| version.starts_with("HTTP/1.")) else {
            let said: String = status.chars().take(80).collect();
            return Err(self.connection.wrong(&format!(
                "no status line, but {said:?}: is it an HTTP server?"
            )));
        };
        let (mut headers, mut bytes) = (Fields::default(), 0);
        loop {
            let line = poll_fn(|cx| self.connection.poll_line(cx)).await?;
            if line.is_empty() {
                break;
            }
            bytes += line.len();
            if bytes > MOST_HEAD {
                return Err(self.connection.wrong("headers of more than 64 KiB"));
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push(name, value);
        }
        let head = Head { status, headers };
        self.connection.rest = match head.get("content-length") {
            _ if status < 200 || status == 204 || status == 304 => Rest::Nothing,
            _ if head.headers.is_chunked() => Rest::NextChunk,
            Some(length) => {
                let length = length.parse::<u64>();
                let wrong = |_| self.connection.wrong("a content-length that is no number");
                Rest::Bytes(length.map_err(wrong)?)
            }
            None => Rest::UntilClosed,
        };
        Ok(head)
    }

    /// Moves the next bytes of the body into `out`; 0: that was all of it.
    pub fn poll_body(&mut self, cx: &mut Context<'_>, out: &mut [u8]) -> Poll<Result<usize>> {
        self.connection.poll_body(cx, out)
    }
}
