//! HTTP/1.1, as little as statistics and Influx's writes need; every size is bounded.

use std::io::Write;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::answers::{answer, Answer};
use super::reader::Reader;
use super::writes;
use crate::admission::{Activity, Slot};
use venturi_base::codec::budget::{Budget, Claim};
use venturi_base::codec::coding::Coding;
use venturi_base::http1::server::{self, Length, Refusal, Request as Asked};

const HEAD: usize = 64 << 10;
/// A body as it comes, and unpacked.
const BODY: usize = 32 << 20;
const UNPACKED: usize = 64 << 20;
pub const BUSY: &str = "too many bytes of requests are in flight at once; try again";
/// Other connections have a turn after so many packed bytes, which are a thousand times as
/// many at most.
pub(super) const SLICE: usize = 4 << 10;
/// A request has to be there whole, an answer taken, within this.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request, its body unpacked.
#[derive(Debug, Default)]
pub struct Request {
    pub asked: Asked,
    pub body: Vec<u8>,
    length: usize,
    gzip: bool,
    /// Room for the body, given back with it.
    claim: Option<Claim>,
}

pub async fn serve(
    mut socket: TcpStream,
    reader: &Reader,
    slot: &Slot,
    mut stopped: watch::Receiver<bool>,
) {
    let mut held = Vec::new();
    loop {
        let exchange = tokio::time::timeout(
            PATIENCE,
            receive(&mut socket, &mut held, &reader.shared.bodies),
        );
        let request = tokio::select! {
            biased;
            request = exchange => request,
            () = slot.evicted() => Ok(Err(Answer::error(503, slot.why()))),
            _ = stopped.changed() => return,
        };
        let (answer, closes) = match request {
            Err(_) | Ok(Ok(None)) => return,
            Ok(Err(refused)) => (refused, true),
            Ok(Ok(Some(request))) => {
                slot.set_activity(Activity::Protected);
                let (asked, closes) = (&request.asked, request.asked.closes);
                let answer = if asked.method == "POST" && writes::is_write(&asked.path) {
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
    let length = answer.body.len().to_string();
    let mut headers = Vec::new();
    if answer.status != 204 {
        headers.extend([("Content-Type", answer.kind), ("Content-Length", &length)]);
    }
    if closes {
        headers.push(("Connection", "close"));
    }
    server::head(answer.status, &headers)
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
    if request.asked.expects && held.len() < request.length {
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

pub(super) async fn unpacked(body: &[u8]) -> Result<Vec<u8>, Answer> {
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
    let refused = |refusal: Refusal| Answer::error(refusal.status, refusal.why);
    let asked = Asked::parse(bytes).map_err(refused)?;
    let coding = asked.fields.get("content-encoding").unwrap_or_default();
    let gzip = match Coding::of_name(coding) {
        Some(Coding::Identity) => false,
        Some(Coding::Gzip) => true,
        _ => return Err(Answer::error(400, "Content-Encoding: gzip or none".into())),
    };
    let length = match asked.length {
        Length::Nothing => 0,
        Length::Bytes(length) => usize::try_from(length).unwrap_or(usize::MAX),
        Length::Chunked => {
            return Err(Answer::error(411, "a Content-Length is needed".into()));
        }
    };
    if length > BODY {
        return Err(Answer::error(
            413,
            format!("a body is longer than {BODY} bytes"),
        ));
    }
    Ok(Request {
        asked,
        length,
        gzip,
        ..Request::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        for (text, status) in [
            ("GET / HTTP/2", 400),
            ("POST / HTTP/1.1\r\nContent-Length: 99999999999", 413),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked", 411),
            ("POST / HTTP/1.1\r\nContent-Encoding: br", 400),
        ] {
            assert_eq!(head(text.as_bytes()).unwrap_err().status, status, "{text}");
        }
        let zipped = head(b"POST / HTTP/1.1\r\nContent-Encoding: GZIP\r\nContent-Length: 3");
        assert!(zipped.is_ok_and(|request| request.gzip && request.length == 3));
    }
}
