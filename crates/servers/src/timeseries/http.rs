//! HTTP/1.1: statistics, sealing, and Influx's lines, whose request is answered when its points are as
//! durable as the mode says. Every size is bounded.

use std::future::poll_fn;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::memtable::Turn;
use super::reader::{Language, Reader, Shared};
use crate::admission::{Activity, Slot};
use venturi_base::codec::budget::{Budget, Claim};
use venturi_base::codec::coding::Coding;
use venturi_base::codec::timeseries::parse::{influx, Wrong};
use venturi_base::http1::server::{self, Length, Next, Refusal};
use venturi_base::http1::Connection;
use venturi_base::net::wire::Wire;

/// A body as it comes, and unpacked.
const BODY: usize = 32 << 20;
const UNPACKED: usize = 64 << 20;
const BUSY: &str = "too many bytes of requests are in flight at once; try again";
/// Other connections have a turn after so many packed bytes, which are a thousand times as
/// many at most.
pub(super) const PACKED_SLICE: usize = 4 << 10;
/// Other connections have a turn after so many bytes of a body.
const SLICE: usize = 256 << 10;
/// A request has to be there whole, an answer taken, within this.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request, its body unpacked.
#[derive(Debug)]
struct Request {
    head: server::Request,
    body: Vec<u8>,
    /// Room for the body, given back with it.
    _claim: Option<Claim>,
}

#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    body: Vec<u8>,
}

impl Answer {
    fn empty() -> Self {
        Self {
            status: 204,
            body: Vec::new(),
        }
    }

    fn json(status: u16, value: &Value) -> Self {
        Self {
            status,
            body: format!("{value}\n").into_bytes(),
        }
    }

    /// As Influx says it.
    fn error(status: u16, message: &str) -> Self {
        let code = if status < 500 {
            "invalid"
        } else {
            "unavailable"
        };
        let body = json!({"code": code, "error": message, "message": message});
        Self::json(status, &body)
    }

    /// The answer with its head.
    fn bytes(&self, closes: bool) -> Vec<u8> {
        let length = self.body.len().to_string();
        let mut headers = Vec::new();
        if self.status != 204 {
            headers.push(("Content-Type", "application/json"));
            headers.push(("Content-Length", &length));
        }
        if closes {
            headers.push(("Connection", "close"));
        }
        [&server::head(self.status, &headers), &self.body[..]].concat()
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::error(refusal.status, &refusal.why)
    }
}

pub async fn serve(
    socket: TcpStream,
    reader: &Reader,
    slot: &Slot,
    mut stopped: watch::Receiver<bool>,
) {
    let wire = Wire::Tcp(socket);
    let mut client = Connection::new(wire.peer(), wire);
    loop {
        let exchange = tokio::time::timeout(PATIENCE, receive(&mut client, &reader.shared.bodies));
        let request = tokio::select! {
            biased;
            request = exchange => request,
            () = slot.evicted() => Ok(Err(Answer::error(503, &slot.why()))),
            _ = stopped.changed() => return,
        };
        let (answer, closes) = match request {
            Err(_) | Ok(Ok(None)) => return,
            Ok(Err(refused)) => (refused, true),
            Ok(Ok(Some(request))) => {
                slot.set_activity(Activity::Protected);
                (answer(&request, reader).await, request.head.closes)
            }
        };
        let bytes = answer.bytes(closes);
        let sent = tokio::time::timeout(PATIENCE, client.say(&bytes)).await;
        if closes || !matches!(sent, Ok(Ok(()))) {
            poll_fn(|cx| client.poll_shutdown(cx)).await;
            return;
        }
    }
}

/// The next request; None: the peer has closed.
async fn receive(client: &mut Connection, bodies: &Budget) -> Result<Option<Request>, Answer> {
    let head = match client.request().await {
        Next::Gone => return Ok(None),
        Next::Refused(refusal) => return Err(refusal.into()),
        Next::Request(head) => head,
    };
    let (length, is_packed) = body_of(&head)?;
    let room = if is_packed { UNPACKED } else { 0 };
    let claim = bodies.claim(length + room);
    let claim = claim.map_err(|_| Answer::error(503, BUSY))?;
    if head.expects && client.go_on().await.is_err() {
        return Ok(None);
    }
    let mut body = vec![0; length];
    let mut read = 0;
    while read < length {
        match poll_fn(|cx| client.poll_body(cx, &mut body[read..])).await {
            Ok(more) if more > 0 => read += more,
            _ => return Ok(None),
        }
    }
    if is_packed {
        body = unpacked(&body).await?;
    }
    Ok(Some(Request {
        head,
        body,
        _claim: claim,
    }))
}

/// The length of a request's body, and whether it is packed.
fn body_of(head: &server::Request) -> Result<(usize, bool), Answer> {
    let coding = head.fields.get("content-encoding").unwrap_or_default();
    let is_packed = match Coding::of_name(coding) {
        Some(Coding::Identity) => false,
        Some(Coding::Gzip) => true,
        _ => return Err(Answer::error(400, "Content-Encoding: gzip or none")),
    };
    let length = match head.length {
        Length::Nothing => 0,
        Length::Bytes(length) => usize::try_from(length).unwrap_or(usize::MAX),
        Length::Chunked => return Err(Answer::error(411, "a Content-Length is needed")),
    };
    if length > BODY {
        let text = format!("a body is longer than {BODY} bytes");
        return Err(Answer::error(413, &text));
    }
    Ok((length, is_packed))
}

pub(super) async fn unpacked(body: &[u8]) -> Result<Vec<u8>, Answer> {
    let wrong = |error| Answer::error(400, &format!("the body is not gzip: {error}"));
    let mut decoder = flate2::write::MultiGzDecoder::new(Vec::new());
    for slice in body.chunks(PACKED_SLICE) {
        decoder.write_all(slice).map_err(wrong)?;
        if decoder.get_ref().len() > UNPACKED {
            let text = format!("more than {UNPACKED} bytes unpacked");
            return Err(Answer::error(413, &text));
        }
        tokio::task::yield_now().await;
    }
    decoder.finish().map_err(wrong)
}

async fn answer(request: &Request, reader: &Reader) -> Answer {
    let (method, path) = (request.head.method.as_str(), request.head.path.as_str());
    match (method, path) {
        ("POST", "/write" | "/api/v2/write") => write(request, reader).await,
        ("GET", "/api/stats") => statistics(&reader.shared).await,
        // Seals everything, so that stored bytes are those of all points.
        ("POST", "/api/seal") => match reader.shared.seal().await {
            Ok(()) => statistics(&reader.shared).await,
            Err(failure) => Answer::error(503, &failure),
        },
        // What Influx's clients ask before they write.
        ("GET" | "HEAD", "/ping") => Answer::empty(),
        ("GET", "/health") => Answer::json(200, &json!({"name": "venturi", "status": "pass"})),
        (_, "/write" | "/api/v2/write" | "/api/seal" | "/api/stats" | "/ping" | "/health") => {
            Answer::error(405, &format!("{path} does not take {method}"))
        }
        _ => Answer::error(
            404,
            &format!("no {path}: there are /api/stats, /api/seal, /write, /api/v2/write"),
        ),
    }
}

/// Counting takes as long as there are points, so it has a thread where no connection waits for it.
async fn statistics(shared: &Arc<Shared>) -> Answer {
    let _turn = shared.counting.acquire().await;
    let shared = shared.clone();
    let counting = tokio::task::spawn_blocking(move || shared.statistics());
    match counting.await {
        Ok(statistics) => Answer::json(200, &statistics),
        Err(_) => Answer::error(503, "the store is stopping"),
    }
}

/// Takes all lines of a body. After an error, those before the line in error are stored.
async fn write(request: &Request, reader: &Reader) -> Answer {
    let unit = match request.head.parameter("precision").as_deref() {
        None | Some("" | "ns" | "n") => 1,
        Some("us" | "u" | "µ") => 1_000,
        Some("ms") => 1_000_000,
        Some("s") => 1_000_000_000,
        Some(other) => {
            return Answer::error(400, &format!("precision {other}: ns, us, ms or s"));
        }
    };
    match write_lines(&request.body, unit, reader).await {
        Ok(()) => Answer::empty(),
        Err(Wrong::Parser { why, text }) => Answer::error(400, &format!("{why} - {text}")),
        Err(Wrong::Late { series }) => Answer::error(400, &format!("late write - {series}")),
        Err(Wrong::Store(why)) => Answer::error(503, &why),
    }
}

async fn write_lines(body: &[u8], unit: i64, reader: &Reader) -> Result<(), Wrong> {
    let mut last = u32::MAX;
    let mut rest = body;
    while !rest.is_empty() {
        reader.room().await?;
        // Whole lines, at least one; the last may have no end.
        let slice = rest.get(..SLICE).unwrap_or(rest);
        let end = slice.iter().rposition(|&byte| byte == b'\n');
        let end = end.or_else(|| rest.iter().position(|&byte| byte == b'\n'));
        let (slice, left) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        rest = left;
        if slice.ends_with(b"\n") {
            take(slice, unit, &mut last, reader)?;
        } else {
            take(&[slice, b"\n"].concat(), unit, &mut last, reader)?;
        }
        tokio::task::yield_now().await;
    }
    reader.durable().await.map_err(Wrong::Store)
}

fn take(lines: &[u8], unit: i64, last: &mut u32, reader: &Reader) -> Result<(), Wrong> {
    let mut scratch = reader.scratch.borrow_mut();
    let mut memtable = reader.memtable().lock();
    let mut turn = Turn {
        memtable: &mut memtable,
        language: Language::Influx as usize,
        last: *last,
        points: 0,
    };
    let mut rest = lines;
    let read = loop {
        match influx::read(rest, unit, &mut turn, &mut scratch) {
            // A flush among the lines is for connections of their own.
            Ok(progress) if progress.consumed > 0 => rest = &rest[progress.consumed..],
            other => break other.map(|_| ()),
        }
    };
    *last = turn.last;
    memtable.commit().and(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies() {
        let body = |text: &str| body_of(&server::Request::parse(text.as_bytes()).unwrap());
        for (text, status) in [
            ("POST / HTTP/1.1\r\nContent-Length: 99999999999", 413),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked", 411),
            ("POST / HTTP/1.1\r\nContent-Encoding: br", 400),
        ] {
            assert_eq!(body(text).unwrap_err().status, status, "{text}");
        }
        let zipped = body("POST / HTTP/1.1\r\nContent-Encoding: GZIP\r\nContent-Length: 3");
        assert_eq!(zipped.unwrap(), (3, true));
    }
}
