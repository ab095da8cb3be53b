//! A server's side: requests that are read within bounds, and answers.

use std::future::poll_fn;

use super::connection::{Connection, Fields, Rest, MOST_HEAD};
use crate::codec::ipc_queue::Queue;
use crate::error::{Error, Kind, Result};

/// Why a request is not served, as its answer says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub why: String,
}

impl Refusal {
    pub fn new(status: u16, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.kind {
            Kind::Unsupported => 404,
            Kind::Auth => 401,
            Kind::Memory => 413,
            Kind::Internal => 500,
            _ => 400,
        };
        Self::new(status, error.message)
    }
}

/// How a request's body ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Length {
    #[default]
    Nothing,
    Bytes(u64),
    Chunked,
}

/// A request without its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    pub fields: Fields,
    pub length: Length,
    /// The client waits for leave to send its body.
    pub expects: bool,
    /// Nothing follows on this connection.
    pub closes: bool,
    /// HTTP/1.0, which knows no chunks.
    pub is_old: bool,
}

impl Request {
    /// A head without its empty line.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, Refusal> {
        let wrong = |why: &str| Refusal::new(400, why);
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("the head is not text"))?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or("").split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(wrong("not HTTP/1.1"));
        };
        if !version.starts_with("HTTP/1.") {
            return Err(wrong("not HTTP/1.1"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.into(),
            path: path.into(),
            query: query.into(),
            closes: version == "HTTP/1.0",
            is_old: version == "HTTP/1.0",
            ..Self::default()
        };
        for line in lines {
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| wrong("a header has no colon"))?;
            request.fields.push(name, value);
        }
        let is = |name: &str, wanted: &str| {
            let value = request.fields.get(name);
            value.is_some_and(|value| value.eq_ignore_ascii_case(wanted))
        };
        let (expects, closes) = (is("expect", "100-continue"), is("connection", "close"));
        request.length = length(&request.fields)?;
        request.expects = expects;
        request.closes |= closes;
        Ok(request)
    }

    /// A parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&');
        let mut pairs = pairs.filter_map(|pair| pair.split_once('=').or(Some((pair, ""))));
        pairs
            .find(|(known, _)| *known == name)
            .map(|(_, value)| decoded(value))
    }
}

/// Two that say where one body ends could disagree, and what lies between be another request.
fn length(fields: &Fields) -> std::result::Result<Length, Refusal> {
    let of = |name: &'static str| {
        let found = fields.0.iter().filter(move |(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    };
    let (mut lengths, mut codings) = (of("content-length"), of("transfer-encoding"));
    let found = match (lengths.next(), codings.next()) {
        (None, None) => Length::Nothing,
        (None, Some(coding)) if coding.eq_ignore_ascii_case("chunked") => Length::Chunked,
        (None, Some(_)) => {
            return Err(Refusal::new(
                501,
                "of transfer codings only chunked is known",
            ));
        }
        (Some(length), None) => {
            let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            let length = length.parse().ok().filter(|_| digits);
            Length::Bytes(length.ok_or_else(|| Refusal::new(400, "not a length"))?)
        }
        (Some(_), Some(_)) => {
            return Err(Refusal::new(400, "a length and a transfer coding"));
        }
    };
    match lengths.next().or(codings.next()) {
        None => Ok(found),
        Some(_) => Err(Refusal::new(400, "the body's length is there twice")),
    }
}

/// `%41` -> `A`, `+` -> blank.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, left)) = rest.split_first() {
        let hex = left.get(..2).filter(|_| first == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &left[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = left;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An answer's first line and headers, and the empty line.
pub fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        _ => "Service Unavailable",
    };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    head.into_bytes()
}

/// How a client's connection comes to its next request.
#[derive(Debug)]
pub enum Next {
    Request(Request),
    /// The client has closed, or is gone.
    Gone,
    Refused(Refusal),
}

impl Connection {
    /// Waits until the client says something; false: it has closed.
    pub async fn wait_for_request(&mut self) -> bool {
        if !self.unread().is_empty() {
            return true;
        }
        poll_fn(|cx| self.poll_fill(cx)).await.is_ok()
    }

    /// The next request's head, within bounds; its body is to be read by `poll_body`.
    pub async fn request(&mut self) -> Next {
        let mut seen = 0;
        loop {
            // A byte at a time must not cost a look at all that came before each time.
            let fresh = self.unread().get(seen..).unwrap_or_default();
            if let Some(end) = fresh.windows(4).position(|four| four == b"\r\n\r\n") {
                let parsed = Request::parse(&self.unread()[..seen + end]);
                self.skip(seen + end + 4);
                return match parsed {
                    Ok(request) => {
                        self.rest = match request.length {
                            Length::Nothing => Rest::Nothing,
                            Length::Bytes(length) => Rest::Bytes(length),
                            Length::Chunked => Rest::NextChunk,
                        };
                        Next::Request(request)
                    }
                    Err(refusal) => Next::Refused(refusal),
                };
            }
            seen = self.unread().len().saturating_sub(3);
            if self.unread().len() >= MOST_HEAD {
                let why = format!("a request's head is longer than {MOST_HEAD} bytes");
                return Next::Refused(Refusal::new(431, why));
            }
            if poll_fn(|cx| self.poll_fill(cx)).await.is_err() {
                return Next::Gone;
            }
        }
    }

    /// Lets the client send its body.
    pub async fn go_on(&mut self) -> Result<()> {
        self.say(b"HTTP/1.1 100 Continue\r\n\r\n").await
    }

    pub async fn say(&mut self, bytes: &[u8]) -> Result<()> {
        let mut sent = 0;
        poll_fn(|cx| self.poll_send(cx, bytes, &mut sent, false))
            .await
            .map(|_| ())
    }

    /// Sends what is queued.
    pub async fn flush(&mut self, queue: &mut Queue) -> Result<()> {
        poll_fn(|cx| self.poll_queue(cx, queue, false))
            .await
            .map(|_| ())
    }

    /// Throws away what has come; false: the client has closed.
    pub async fn dropped(&mut self) -> bool {
        self.skip(self.unread().len());
        poll_fn(|cx| self.poll_fill(cx)).await.is_ok()
    }

    /// The body, where it has at most so many bytes.
    pub async fn body(&mut self, most: usize) -> std::result::Result<Vec<u8>, Refusal> {
        let mut body = Vec::new();
        loop {
            let old = body.len();
            body.resize(old + (4 << 10), 0);
            let got = poll_fn(|cx| self.poll_body(cx, &mut body[old..])).await;
            let got = got.map_err(|error| Refusal::new(400, error.message))?;
            body.truncate(old + got);
            if got == 0 {
                return Ok(body);
            }
            if body.len() > most {
                let why = format!("a body is longer than {most} bytes");
                return Err(Refusal::new(413, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let text =
            b"POST /write?db=a%20b&precision=s HTTP/1.1\r\nContent-length: 5\r\nConnection: close";
        let request = Request::parse(text).unwrap();
        assert_eq!((request.length, request.closes), (Length::Bytes(5), true));
        assert_eq!(request.parameter("db").as_deref(), Some("a b"));
        assert_eq!(request.parameter("precision").as_deref(), Some("s"));
        assert_eq!(request.parameter("none"), None);
        let chunked = b"PUT /a HTTP/1.0\r\nTransfer-Encoding: Chunked\r\nExpect: 100-continue";
        let request = Request::parse(chunked).unwrap();
        assert_eq!(request.length, Length::Chunked);
        assert!(request.is_old && request.closes && request.expects);
        for (text, status) in [
            ("GET / HTTP/2", 400),
            ("GET /", 400),
            ("GET / a HTTP/1.1", 400),
            ("GET / HTTP/1.1\r\nnonsense", 400),
            ("POST / HTTP/1.1\r\nContent-Length: -1", 400),
            ("POST / HTTP/1.1\r\nContent-Length: +1", 400),
            (
                "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999",
                400,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
                400,
            ),
            (
                "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
                400,
            ),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked", 501),
        ] {
            let refused = Request::parse(text.as_bytes()).unwrap_err();
            assert_eq!(refused.status, status, "{text}");
        }
    }
}
