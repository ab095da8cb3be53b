//! gRPC calls over one HTTP/2 connection, which several streams of a thread may share.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::sync::OnceCell;

use super::connect::Destination;
use super::reply::{Inboxes, Reply};
use venturi_base::codec::chunk::SendQueue;
use venturi_base::codec::flight::{queue_message, Expect, Message};
use venturi_base::codec::frame::code;
use venturi_base::codec::hpack::Header;
use venturi_base::codec::proto::{Action, Bytes};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http2::{Blocked, Connection, Event};
use venturi_base::meter::clock::Stage;
use venturi_base::meter::sockets::Sockets;
use venturi_base::net::route::{Neighbour, Route};

/// Bytes of an answer beyond its first message, which has a bound of its own. Samples are longer
/// than anything else: eight million numbers at most, of ten digits or fewer as a rule.
const ANSWER: usize = 32 << 20;
const SAMPLES: usize = 256 << 20;

/// A server that does not answer a PING by then never will.
const PING_LIMIT: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Link(Rc<RefCell<Shared>>);

struct Shared {
    connection: Connection,
    authority: String,
    scheme: &'static str,
    headers: Vec<(String, Vec<u8>)>,
    inboxes: Inboxes,
    failed: Option<Error>,
    /// The server has been asked to end the trial's streams.
    stopped: bool,
    /// Streams that share the connection and have not left it.
    users: u64,
    /// Bytes of those before the trial, and of streams that have left.
    taken: u64,
    sockets: Option<Arc<Sockets>>,
    destination: Rc<Destination>,
    /// The connection that has taken this one's place, for all streams that share it.
    next: Rc<OnceCell<Link>>,
}

impl Link {
    fn new(
        connection: Connection,
        destination: Rc<Destination>,
        authority: String,
        headers: Vec<(String, Vec<u8>)>,
    ) -> Self {
        let tls = destination.address.tls;
        Self(Rc::new(RefCell::new(Shared {
            connection,
            authority,
            scheme: if tls { "https" } else { "http" },
            headers,
            inboxes: Inboxes::default(),
            failed: None,
            stopped: false,
            users: 1,
            taken: 0,
            sockets: None,
            destination,
            next: Rc::default(),
        })))
    }

    pub async fn connect(
        destination: Rc<Destination>,
        authority: String,
        headers: Vec<(String, Vec<u8>)>,
    ) -> Result<Self> {
        let connection = destination.dial().await?;
        Ok(Self::new(connection, destination, authority, headers))
    }

    /// The server takes no more calls on this connection.
    pub fn is_leaving(&self) -> bool {
        self.0.borrow().connection.is_leaving()
    }

    /// The connection that takes this one's place, made by the first stream that needs it.
    pub async fn replacement(self) -> Result<Self> {
        let next = self.0.borrow().next.clone();
        let connect = async || {
            let (destination, authority, headers, sockets) = {
                let shared = self.0.borrow();
                let (authority, headers) = (shared.authority.clone(), shared.headers.clone());
                let (destination, sockets) = (shared.destination.clone(), shared.sockets.clone());
                (destination, authority, headers, sockets)
            };
            let link = Self::connect(destination, authority, headers).await?;
            sockets.iter().for_each(|sockets| link.watch(sockets));
            link.0.borrow_mut().users = 0;
            Ok::<_, Error>(link)
        };
        let link = next.get_or_try_init(connect).await?;
        link.0.borrow_mut().users += 1;
        Ok(link.clone())
    }

    /// Reads until the server has said (SETTINGS) how many streams it takes.
    pub async fn settled(&self) -> Result<()> {
        poll_fn(|cx| {
            let shared = &mut *self.0.borrow_mut();
            loop {
                let polled = shared.connection.poll_event(cx);
                if shared.connection.is_greeted() {
                    return Poll::Ready(Ok(()));
                }
                match polled {
                    Poll::Ready(Ok(event)) => shared.inboxes.deliver(event),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// The connection's socket is one of the trial's.
    pub fn watch(&self, sockets: &Arc<Sockets>) {
        let mut shared = self.0.borrow_mut();
        shared.connection.watch(sockets);
        shared.sockets = Some(sockets.clone());
    }

    /// Notes that the server is asked to end the trial's streams; whether it had been asked before.
    pub fn stop(&self) -> bool {
        std::mem::replace(&mut self.0.borrow_mut().stopped, true)
    }

    /// Adds a header to all later calls.
    pub fn add_header(&self, name: &str, value: Vec<u8>) {
        self.0.borrow_mut().headers.push((name.to_owned(), value));
    }

    /// Begins a call of one of Flight's methods.
    pub fn call(&self, method: &str, extra: &[(String, Vec<u8>)], response: Expect) -> Result<u32> {
        let mut shared = self.0.borrow_mut();
        let mut headers = vec![
            (":method".to_owned(), b"POST".to_vec()),
            (":scheme".to_owned(), shared.scheme.as_bytes().to_vec()),
            (
                ":path".to_owned(),
                format!("/arrow.flight.protocol.FlightService/{method}").into_bytes(),
            ),
            (
                ":authority".to_owned(),
                shared.authority.clone().into_bytes(),
            ),
            ("te".to_owned(), b"trailers".to_vec()),
            ("content-type".to_owned(), b"application/grpc".to_vec()),
            (
                "user-agent".to_owned(),
                concat!("venturi/", env!("CARGO_PKG_VERSION"))
                    .as_bytes()
                    .to_vec(),
            ),
        ];
        headers.extend_from_slice(&shared.headers);
        headers.extend_from_slice(extra);
        let stream = shared.connection.request(&headers, response)?;
        shared.inboxes.open(stream);
        Ok(stream)
    }

    /// Queues onto a call; an error when the server has ended it.
    pub fn queue<T>(
        &self,
        stream: u32,
        put: impl FnOnce(&mut SendQueue) -> Result<T>,
    ) -> Result<T> {
        match self.0.borrow_mut().connection.send_queue(stream) {
            Some(queue) => put(queue),
            None => Err(Error::new(
                Kind::Lost,
                "the server ended the stream before all was sent",
            )),
        }
    }

    pub fn end(&self, stream: u32) {
        self.0.borrow_mut().connection.end(stream);
    }

    pub fn unsent(&self, stream: u32) -> usize {
        self.0.borrow().connection.unsent(stream)
    }

    /// What a call waits for that has nothing to read.
    pub fn awaits_input(&self) -> Stage {
        match self.0.borrow().inboxes.is_full() {
            true => Stage::AwaitThread,
            false => Stage::AwaitInput,
        }
    }

    /// What a call waits for that could not send all: `room` bytes may be left to write.
    /// Where nothing is left to send, it is the answer.
    pub fn awaits_output(&self, stream: u32, room: usize) -> Stage {
        let shared = &mut *self.0.borrow_mut();
        let reason = awaits_output(&shared.connection, stream);
        shared.inboxes.sends(stream, reason, room);
        reason
    }

    /// Bytes of messages that the connection has moved, both ways.
    pub fn data_bytes(&self) -> u64 {
        self.0.borrow().connection.data_bytes()
    }

    /// False once the server has ended the call: nothing can be queued onto it.
    pub fn is_open(&self, stream: u32) -> bool {
        let shared = &mut *self.0.borrow_mut();
        shared.connection.send_queue(stream).is_some()
    }

    /// One stream's share of what the connection has carried, both ways. Streams that share a
    /// connection cannot tell theirs apart; what one does not take when it leaves is left to
    /// those that stay, so that the sum is right.
    pub fn wire_share(&self) -> u64 {
        let shared = self.0.borrow();
        (shared.connection.wire_bytes() - shared.taken) / shared.users.max(1)
    }

    /// The same for the last time: the stream needs the connection no more.
    pub fn leave(&self) -> u64 {
        let share = self.wire_share();
        let mut shared = self.0.borrow_mut();
        shared.taken += share;
        shared.users = shared.users.saturating_sub(1);
        share
    }

    /// The addresses of both ends.
    pub fn route(&self) -> Option<Route> {
        self.0.borrow().connection.route()
    }

    pub fn neighbour(&self) -> Option<Neighbour> {
        self.0.borrow().connection.neighbour()
    }

    /// From here on so many streams of the trial share what this connection carries; an error where
    /// the server does not take as many.
    pub fn share_among(&self, users: usize) -> Result<()> {
        let mut shared = self.0.borrow_mut();
        shared.connection.takes(users)?;
        shared.users = users as u64;
        shared.taken = shared.connection.wire_bytes();
        Ok(())
    }

    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Gives a call up.
    pub fn cancel(&self, stream: u32) {
        let mut shared = self.0.borrow_mut();
        shared.connection.reset(stream, code::CANCEL);
        shared.inboxes.close(stream);
    }

    /// Writes what is queued as far as it goes, without reading.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.borrow_mut().connection.poll_flush(cx)
    }

    /// The next event of one call. Whoever polls reads for all calls of the connection: having
    /// taken an event it goes on polling, or says with `idle` or `forget` that it does not.
    pub fn poll_event(&self, stream: u32, cx: &mut Context<'_>) -> Poll<Result<Event>> {
        let shared = &mut *self.0.borrow_mut();
        loop {
            if let Some(event) = shared.inboxes.take(stream) {
                return Poll::Ready(Ok(event));
            }
            if let Some(error) = &shared.failed {
                return Poll::Ready(Err(error.clone()));
            }
            let polled = if shared.inboxes.is_full() {
                Poll::Pending
            } else {
                shared.inboxes.forget_listener();
                shared.connection.poll_event(cx)
            };
            match polled {
                Poll::Ready(Ok(event)) => shared.inboxes.deliver(event),
                Poll::Ready(Err(error)) => {
                    shared.failed = Some(error);
                    shared.inboxes.wake_all();
                }
                Poll::Pending => {
                    shared.inboxes.wait(stream, cx.waker());
                    let connection = &shared.connection;
                    shared.inboxes.wake_senders(stream, |stream, reason, room| {
                        let fits = connection.unsent(stream) <= room;
                        (fits && reason != Stage::AwaitReply)
                            || awaits_output(connection, stream) != reason
                    });
                    return Poll::Pending;
                }
            }
        }
    }

    /// A call is not polled until further notice, though it is not over.
    pub fn idle(&self, stream: u32) {
        self.0.borrow_mut().inboxes.idle(stream);
    }

    /// The time to the other end and back, which TCP does not know where a proxy stands
    /// between: the lesser of two PINGs (RFC 9113, 6.7; more in a row count as an attack on some
    /// servers). `None`: it does not answer. For a connection without a call in flight.
    pub async fn round_trip(&self, timeout: Duration) -> Option<Duration> {
        let limit = PING_LIMIT.min(timeout / 4); // a server that is silent here may serve all the same
        let mut least = None;
        for number in 1..=2 {
            let begun = Instant::now();
            self.0.borrow_mut().connection.ping(number);
            let answered = poll_fn(|cx| {
                let shared = &mut *self.0.borrow_mut();
                if let Poll::Ready(Err(error)) = shared.connection.poll_flush(cx) {
                    return Poll::Ready(Err(error));
                }
                loop {
                    // What answers is read before the poll that finds nothing more.
                    let polled = shared.connection.poll_event(cx);
                    if shared.connection.pong() == Some(number) {
                        return Poll::Ready(Ok(()));
                    }
                    match polled {
                        Poll::Ready(Ok(event)) => shared.inboxes.deliver(event),
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            });
            match tokio::time::timeout(limit, answered).await {
                Ok(Ok(())) => {}
                // Whatever broke breaks the next call too, which says it better.
                Ok(Err(_)) | Err(_) => break,
            }
            let took = begun.elapsed();
            least = Some(least.map_or(took, |before: Duration| before.min(took)));
        }
        least
    }

    /// One request, all its responses.
    pub async fn unary(
        &self,
        method: &str,
        extra: &[(String, Vec<u8>)],
        request: &[u8],
    ) -> Result<Vec<Vec<u8>>> {
        self.exchange(method, extra, request, ANSWER)
            .await
            .map(|(messages, _)| messages)
    }

    /// A login: what the headers and trailers of the answer say.
    pub async fn login(&self, header: &(String, Vec<u8>), request: &[u8]) -> Result<Vec<Header>> {
        let extra = std::slice::from_ref(header);
        let (_, headers) = self.exchange("Handshake", extra, request, ANSWER).await?;
        Ok(headers)
    }

    /// The responses' headers and trailers as well. `most`: bytes taken beyond the first one.
    async fn exchange(
        &self,
        method: &str,
        extra: &[(String, Vec<u8>)],
        request: &[u8],
        most: usize,
    ) -> Result<(Vec<Vec<u8>>, Vec<Header>)> {
        let stream = self.call(method, extra, Expect::Other)?;
        let _forgets = ForgetOnDrop { link: self, stream };
        self.queue(stream, |queue| {
            queue_message(request, queue);
            Ok(())
        })?;
        self.end(stream);
        let mut reply = Reply::default();
        let mut messages = Vec::new();
        let mut all = Vec::new();
        let mut taken = 0usize;
        loop {
            match poll_fn(|cx| self.poll_event(stream, cx)).await {
                Err(error) => return Err(error),
                Ok(Event::Message {
                    message: Message::Other(bytes),
                    ..
                }) => {
                    // An empty one takes room as well.
                    if !messages.is_empty() {
                        taken = taken.saturating_add(bytes.len() + 32);
                    }
                    if taken > most {
                        self.cancel(stream);
                        return Err(Error::protocol(format!(
                            "the answer to {method} has no end: over {most} bytes"
                        )));
                    }
                    messages.push(bytes);
                }
                Ok(event) => {
                    if let Event::Headers { headers, .. } = &event {
                        all.extend_from_slice(headers);
                    }
                    if reply.event(event)? {
                        return Ok((messages, all));
                    }
                }
            }
        }
    }

    /// An action's first result.
    pub async fn action(&self, name: &str, body: &[u8]) -> Result<Vec<u8>> {
        let results = self.results(name, body, ANSWER).await?;
        Ok(results.into_iter().next().unwrap_or_default())
    }

    /// All results of an action that hands samples over.
    pub async fn samples(&self, name: &str, body: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.results(name, body, SAMPLES).await
    }

    async fn results(&self, name: &str, body: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
        let action = Action {
            r#type: name.to_owned(),
            body: body.to_vec(),
        };
        let request = action.encode_to_vec();
        let (results, _) = self.exchange("DoAction", &[], &request, most).await?;
        results
            .iter()
            .map(|result| {
                Bytes::decode(&result[..])
                    .map(|result| result.bytes)
                    .map_err(|error| Error::protocol(format!("action {name}: {error}")))
            })
            .collect()
    }

    pub fn forget(&self, stream: u32) {
        self.0.borrow_mut().inboxes.close(stream);
    }
}

/// A call that is forgotten with whoever waits for it.
struct ForgetOnDrop<'a> {
    link: &'a Link,
    stream: u32,
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.link.forget(self.stream);
    }
}

/// Why a call that could not send all of it waits.
fn awaits_output(connection: &Connection, stream: u32) -> Stage {
    match connection.blocked(stream) {
        Some(Blocked::Output) => Stage::AwaitOutput,
        Some(Blocked::Window) => Stage::AwaitWindow,
        None if !connection.is_sent(stream) => Stage::AwaitThread,
        None => Stage::AwaitReply,
    }
}

#[cfg(test)]
mod tests;
