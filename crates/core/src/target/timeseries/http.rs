//! As much HTTP/1.1 as a time-series database needs: one request at a time on a connection, every
//! size bounded.

use std::io::ErrorKind;

use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::error::{Error, Kind, Result};

/// Bytes of a response's head at most.
const MOST_HEAD: usize = 64 << 10;
/// Bytes that are read in one go.
const READ: usize = 64 << 10;

/// Where a server speaks HTTP.
#[derive(Debug, Clone)]
pub struct Web {
    pub host: String,
    pub port: u16,
    pub authority: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
}

/// A line that says that nobody was reached, and what to look at.
pub fn unreachable(place: &str, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::ConnectionRefused => {
            ": nothing listens there; is the server running, and is the port right?"
        }
        _ => "",
    };
    Error::new(Kind::Unreachable, format!("{place}: {error}{advice}"))
}

/// One request on a connection of its own. An answer of more than `most` bytes is an error.
pub async fn ask(
    web: &Web,
    method: &str,
    path: &str,
    body: &[u8],
    most: usize,
) -> Result<Response> {
    let mut client = Client::connect(web).await?;
    client
        .call(method, path, &[("Connection", "close")], body, most)
        .await
}

/// A connection.
pub struct Client {
    authority: String,
    socket: TcpStream,
    /// What was read and not yet understood, from `at` on.
    read: Vec<u8>,
    at: usize,
    /// Bytes carried, both ways.
    pub carried: u64,
}

impl Client {
    pub async fn connect(web: &Web) -> Result<Self> {
        let socket = TcpStream::connect((web.host.as_str(), web.port))
            .await
            .map_err(|error| unreachable(&web.authority, &error))?;
        crate::socket::prepare((&socket).into(), None);
        Ok(Self {
            authority: web.authority.clone(),
            socket,
            read: Vec::new(),
            at: 0,
            carried: 0,
        })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn wrong(&self, what: &str) -> Error {
        Error::protocol(format!("{}: HTTP: {what}", self.authority))
    }

    fn lost(&self, error: &std::io::Error) -> Error {
        Error::new(Kind::Lost, format!("{}: HTTP: {error}", self.authority))
    }

    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        most: usize,
    ) -> Result<Response> {
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
            let response = self.receive(most).await?;
            if response.status >= 200 {
                return Ok(response);
            }
        }
    }

    /// False: the server answers before it has read all.
    async fn send(&mut self, mut bytes: &[u8]) -> Result<bool> {
        while !bytes.is_empty() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let ready = self
                .socket
                .ready(interest)
                .await
                .map_err(|e| self.lost(&e))?;
            if ready.is_readable() && self.try_read()? {
                return Ok(false);
            }
            match self.socket.try_write(bytes) {
                Ok(written) => {
                    self.carried += written as u64;
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It may have said why.
                Err(error) => match self.try_read() {
                    Ok(true) => return Ok(false),
                    _ => return Err(self.lost(&error)),
                },
            }
        }
        Ok(true)
    }

    /// True: there is something new.
    fn try_read(&mut self) -> Result<bool> {
        let old = self.read.len();
        self.read.resize(old + READ, 0);
        let got = self.socket.try_read(&mut self.read[old..]);
        self.read.truncate(old + got.as_ref().map_or(0, |got| *got));
        match got {
            Ok(0) => {
                let closed = std::io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the connection was closed by the server",
                );
                Err(self.lost(&closed))
            }
            Ok(got) => {
                self.carried += got as u64;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.lost(&error)),
        }
    }

    async fn more(&mut self) -> Result<()> {
        loop {
            self.socket
                .readable()
                .await
                .map_err(|error| self.lost(&error))?;
            if self.try_read()? {
                return Ok(());
            }
        }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<String> {
        loop {
            let unread = &self.read[self.at..];
            if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&unread[..end])
                    .trim_end()
                    .to_owned();
                self.at += end + 1;
                return Ok(line);
            }
            if unread.len() > MOST_HEAD {
                return Err(self.wrong("a line of more than 64 KiB"));
            }
            self.more().await?;
        }
    }

    /// Moves so many bytes of the body over.
    async fn take(&mut self, length: usize, most: usize, body: &mut Vec<u8>) -> Result<()> {
        if length > most.saturating_sub(body.len()) {
            return Err(self.wrong(&format!("an answer of more than {most} bytes")));
        }
        let mut left = length;
        loop {
            let take = left.min(self.read.len() - self.at);
            body.extend_from_slice(&self.read[self.at..self.at + take]);
            self.at += take;
            left -= take;
            if self.at == self.read.len() {
                self.read.clear();
                self.at = 0;
            }
            if left == 0 {
                return Ok(());
            }
            self.more().await?;
        }
    }

    async fn receive(&mut self, most: usize) -> Result<Response> {
        self.read.drain(..self.at);
        self.at = 0;
        let status = self.line().await?;
        let mut words = status.split(' ');
        let version = words.next().unwrap_or_default();
        let code = words.next().and_then(|code| code.parse::<u16>().ok());
        let Some(status) = code.filter(|_| version.starts_with("HTTP/1.")) else {
            let said: String = status.chars().take(80).collect();
            return Err(self.wrong(&format!("no status line, but {said:?}")));
        };
        let (mut length, mut chunked) = (None, false);
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            if self.at > MOST_HEAD {
                return Err(self.wrong("headers of more than 64 KiB"));
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    let parsed = value.parse::<usize>();
                    length =
                        Some(parsed.map_err(|_| self.wrong("a content-length that is no number"))?);
                }
                "transfer-encoding" => chunked = value.to_ascii_lowercase().ends_with("chunked"),
                _ => {}
            }
        }
        let mut body = Vec::new();
        if status < 200 || status == 204 || status == 304 {
        } else if chunked {
            loop {
                let line = self.line().await?;
                let size = line.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16)
                    .map_err(|_| self.wrong("a chunk without its size"))?;
                if size == 0 {
                    break;
                }
                self.take(size, most, &mut body).await?;
                self.line().await?;
            }
            while !self.line().await?.is_empty() {}
        } else if let Some(length) = length {
            self.take(length, most, &mut body).await?;
        } else {
            self.rest(most, &mut body).await?;
        }
        Ok(Response { status, body })
    }

    /// A body that ends with the connection.
    async fn rest(&mut self, most: usize, body: &mut Vec<u8>) -> Result<()> {
        loop {
            let unread = self.read.len() - self.at;
            self.take(unread, most, body).await?;
            match self.more().await {
                Ok(()) => {}
                Err(error) if error.kind == Kind::Lost => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
