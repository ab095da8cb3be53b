//! HTTP/1.1, as little as statistics and Influx's writes need; every size is bounded.

use std::io::Write;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::answers::{answer, Answer};
use super::reader::Reader;
use super::writes;
use venturi_base::codec::budget::{Budget, Claim};

const HEAD: usize = 64 << 10;
/// A body as it comes, and unpacked.
const BODY: usize = 32 << 20;
const UNPACKED: usize = 64 << 20;
pub const BUSY: &str = "too many bytes of requests are in flight at once; try again";
/// Other connections have a turn after so many packed bytes, which are a thousand times as
/// many at most.
const SLICE: usize = 4 << 10;
/// A request has to be there whole, an answer taken, within this.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request, its body unpacked.
#[derive(Debug, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    pub body: Vec<u8>,
    length: usize,
    gzip: bool,
    expects: bool,
    closes: bool,
    /// Room for the body, given back with it.
    claim: Option<Claim>,
}

impl Request {
    /// A parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&');
        let mut pairs = pairs.filter_map(|pair| pair.split_once('=').or(Some((pair, ""))));
        pairs
            .find(|(known, _)| *known == name)
            .map(|(_, value)| decoded(value))
    }
}

/// `%41` -> `A`, `+` -> blank.
fn decoded(text: &str) -> String {
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

pub async fn serve(mut socket: TcpStream, reader: &Reader, mut stopped: watch::Receiver<bool>) {
    let mut held = Vec::new();
    loop {
        let exchange = tokio::time::timeout(
            PATIENCE,
            receive(&mut socket, &mut held, &reader.shared.bodies),
        );
        let request = tokio::select! {
            request = exchange => request,
            _ = stopped.changed() => return,
        };
        let (answer, closes) = match request {
            Err(_) | Ok(Ok(None)) => return,
            Ok(Err(refused)) => (refused, true),
            Ok(Ok(Some(request))) => {
                let closes = request.closes;
                let answer = if request.method == "POST" && writes::is_write(&request.path) {
                    writes::write(&request, reader).await
                } else {
                    answer(request, &reader.shared).await
                };
                (answer, closes)
            }
        };
        let sent = tokio::time::timeout(PATIENCE, send(&mut socket, &answer, closes)).await;
        if closes || !matches!(sent, Ok(Ok(()))) {
            let _ = socket.shutdown().await;
            return;
        }
    }
}

async fn send(socket: &mut TcpStream, answer: &Answer, closes: bool) -> std::io::Result<()> {
    let mut bytes = head_of(answer, closes);
    if answer.body.len() <= HEAD {
        // One packet instead of two.
        bytes.extend_from_slice(&answer.body);
        return socket.write_all(&bytes).await;
    }
    socket.write_all(&bytes).await?;
    socket.write_all(&answer.body).await
}

fn head_of(answer: &Answer, closes: bool) -> Vec<u8> {
    let reason = match answer.status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", answer.status);
    if answer.status != 204 {
        head += &format!(
            "Content-Type: {}\r\nContent-Length: {}\r\n",
            answer.kind,
            answer.body.len()
        );
    }
    if closes {
        head += "Connection: close\r\n";
    }
    head += "\r\n";
    head.into_bytes()
}

/// The next request; None: the peer has closed. `held` keeps what came behind it.
async fn receive(
    socket: &mut TcpStream,
    held: &mut Vec<u8>,
    bodies: &Budget,
) -> Result<Option<Request>, Answer> {
    let mut seen = 0;
    let end = loop {
        // A byte at a time must not cost a look at all that came before each time.
        let fresh = held.get(seen..).unwrap_or_default();
        if let Some(end) = fresh.windows(4).position(|four| four == b"\r\n\r\n") {
            break seen + end;
        }
        seen = held.len().saturating_sub(3);
        if held.len() > HEAD {
            return Err(Answer::error(
                431,
                format!("a request's head is longer than {HEAD} bytes"),
            ));
        }
        if !more(socket, held).await {
            return Ok(None);
        }
    };
    let mut request = head(&held[..end])?;
    held.drain(..end + 4);
    let room = if request.gzip { UNPACKED } else { 0 };
    let claim = bodies.claim(request.length + room);
    request.claim = claim.map_err(|_| Answer::error(503, BUSY.into()))?;
    if request.expects && held.len() < request.length {
        let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
        if socket.write_all(go_on).await.is_err() {
            return Ok(None);
        }
    }
    while held.len() < request.length {
        if !more(socket, held).await {
            return Ok(None);
        }
    }
    let rest = held.split_off(request.length);
    request.body = std::mem::replace(held, rest);
    if request.gzip {
        request.body = unpacked(&request.body).await?;
    }
    Ok(Some(request))
}

async fn unpacked(body: &[u8]) -> Result<Vec<u8>, Answer> {
    let wrong = |error| Answer::error(400, format!("the body is not gzip: {error}"));
    let mut decoder = flate2::write::MultiGzDecoder::new(Vec::new());
    for slice in body.chunks(SLICE) {
        decoder.write_all(slice).map_err(wrong)?;
        if decoder.get_ref().len() > UNPACKED {
            let text = format!("more than {UNPACKED} bytes unpacked");
            return Err(Answer::error(413, text));
        }
        tokio::task::yield_now().await;
    }
    decoder.finish().map_err(wrong)
}

async fn more(socket: &mut TcpStream, held: &mut Vec<u8>) -> bool {
    held.reserve(16 << 10);
    matches!(socket.read_buf(held).await, Ok(count) if count > 0)
}

fn head(bytes: &[u8]) -> Result<Request, Answer> {
    let wrong = |why: &str| Answer::error(400, why.to_owned());
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("the head is not text"))?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or("").split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err(wrong("not HTTP/1.1"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(wrong("not HTTP/1.1"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        closes: version == "HTTP/1.0",
        ..Request::default()
    };
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| wrong("a header has no colon"))?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                request.length = value.parse().map_err(|_| wrong("not a length"))?;
            }
            "transfer-encoding" => {
                return Err(Answer::error(411, "a Content-Length is needed".into()));
            }
            "content-encoding" => match value.to_ascii_lowercase().as_str() {
                "gzip" => request.gzip = true,
                "identity" | "" => {}
                _ => return Err(wrong("Content-Encoding: gzip or none")),
            },
            "expect" => request.expects = value.eq_ignore_ascii_case("100-continue"),
            "connection" => request.closes |= value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    if request.length > BODY {
        return Err(Answer::error(
            413,
            format!("a body is longer than {BODY} bytes"),
        ));
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let text =
            b"POST /write?db=a%20b&precision=s HTTP/1.1\r\nContent-length: 5\r\nConnection: close";
        let request = head(text).unwrap();
        assert_eq!((request.length, request.closes), (5, true));
        assert_eq!(request.parameter("db").as_deref(), Some("a b"));
        assert_eq!(request.parameter("precision").as_deref(), Some("s"));
        assert_eq!(request.parameter("none"), None);
        for (text, status) in [
            ("GET / HTTP/2", 400),
            ("GET /", 400),
            ("GET / HTTP/1.1\r\nnonsense", 400),
            ("POST / HTTP/1.1\r\nContent-Length: -1", 400),
            ("POST / HTTP/1.1\r\nContent-Length: 99999999999", 413),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked", 411),
        ] {
            assert_eq!(head(text.as_bytes()).unwrap_err().status, status, "{text}");
        }
    }
}
