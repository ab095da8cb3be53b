//! gRPC calls over one HTTP/2 connection, which several streams of a thread may share.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use prost::Message as _;

use super::reply::Reply;
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

/// Messages that wait for one stream of a shared connection before the others stop reading.
const INBOX: usize = 16;

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
    inboxes: BTreeMap<u32, Inbox>,
    failed: Option<Error>,
    /// Streams that share the connection and have not left it.
    users: u64,
    /// Bytes of those before the trial, and of streams that have left.
    told: u64,
    /// Inboxes that wait to send.
    senders: usize,
}

#[derive(Default)]
struct Inbox {
    events: VecDeque<Event>,
    waker: Option<Waker>,
    /// It waits to send: for what, and until no more than this is left to write.
    sending: Option<(Stage, usize)>,
}

impl Link {
    pub fn new(
        connection: Connection,
        authority: String,
        tls: bool,
        headers: Vec<(String, Vec<u8>)>,
    ) -> Self {
        Self(Rc::new(RefCell::new(Shared {
            connection,
            authority,
            scheme: if tls { "https" } else { "http" },
            headers,
            inboxes: BTreeMap::new(),
            failed: None,
            users: 1,
            told: 0,
            senders: 0,
        })))
    }

    /// The connection's socket is one of the trial's.
    pub fn watch(&self, sockets: &Arc<Sockets>) {
        self.0.borrow_mut().connection.watch(sockets);
    }

    /// Adds a header to all later calls.
    pub fn add_header(&self, name: &str, value: Vec<u8>) {
        self.0.borrow_mut().headers.push((name.to_owned(), value));
    }

    /// Begins a call of one of Flight's methods.
    pub fn call(&self, method: &str, extra: &[(String, Vec<u8>)], response: Expect) -> u32 {
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
        let stream = shared.connection.request(&headers, response);
        shared.inboxes.insert(stream, Inbox::default());
        stream
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
        self.0.borrow().awaits_input()
    }

    /// What a call waits for that could not send all: `room` bytes may be left to write.
    /// Where nothing is left to send, it is the answer.
    pub fn awaits_output(&self, stream: u32, room: usize) -> Stage {
        let shared = &mut *self.0.borrow_mut();
        let reason = shared.awaits_output(stream);
        if let Some(inbox) = shared.inboxes.get_mut(&stream) {
            if inbox.sending.replace((reason, room)).is_none() {
                shared.senders += 1;
            }
        }
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
        (shared.connection.wire_bytes() - shared.told) / shared.users
    }

    /// The same for the last time: the stream needs the connection no more.
    pub fn leave(&self) -> u64 {
        let share = self.wire_share();
        let mut shared = self.0.borrow_mut();
        shared.told += share;
        shared.users = (shared.users - 1).max(1);
        share
    }

    /// The addresses of both ends.
    pub fn route(&self) -> Option<Route> {
        self.0.borrow().connection.route()
    }

    pub fn neighbour(&self) -> Option<Neighbour> {
        self.0.borrow().connection.neighbour()
    }

    /// From here on so many streams of the trial share what this connection carries.
    pub fn share_among(&self, users: usize) {
        let mut shared = self.0.borrow_mut();
        shared.users = users.max(1) as u64;
        shared.told = shared.connection.wire_bytes();
    }

    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Gives a call up.
    pub fn cancel(&self, stream: u32) {
        let mut shared = self.0.borrow_mut();
        shared.connection.reset(stream, code::CANCEL);
        shared.forget(stream);
    }

    /// Writes what is queued as far as it goes, without reading.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.borrow_mut().connection.poll_flush(cx)
    }

    /// The next event of one call. Whoever polls reads for all calls of the connection.
    pub fn poll_event(&self, stream: u32, cx: &mut Context<'_>) -> Poll<Result<Event>> {
        let shared = &mut *self.0.borrow_mut();
        shared.sends_on(stream);
        loop {
            if let Some(event) = shared
                .inboxes
                .get_mut(&stream)
                .and_then(|inbox| inbox.events.pop_front())
            {
                if shared.inboxes.len() > 1 {
                    shared.pass_on(stream);
                }
                return Poll::Ready(Ok(event));
            }
            if let Some(error) = &shared.failed {
                return Poll::Ready(Err(error.clone()));
            }
            let full = shared.is_full();
            let polled = if full {
                Poll::Pending
            } else {
                shared.connection.poll_event(cx)
            };
            match polled {
                Poll::Ready(Ok(event)) => shared.deliver(event),
                Poll::Ready(Err(error)) => {
                    shared.failed = Some(error);
                    shared.wake_all();
                }
                Poll::Pending => {
                    if full {
                        shared.wake_all();
                    }
                    shared.wake_senders(stream);
                    shared.inboxes.entry(stream).or_default().waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
        }
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
                        Poll::Ready(Ok(event)) => shared.deliver(event),
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
        let stream = self.call(method, extra, Expect::Other);
        self.queue(stream, |queue| {
            queue_message(request, queue);
            Ok(())
        })?;
        self.end(stream);
        let mut reply = Reply::default();
        let mut messages = Vec::new();
        let mut all = Vec::new();
        let mut taken = 0usize;
        let outcome = loop {
            match poll_fn(|cx| self.poll_event(stream, cx)).await {
                Err(error) => break Err(error),
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
                        break Err(Error::protocol(format!(
                            "the answer to {method} has no end: over {most} bytes"
                        )));
                    }
                    messages.push(bytes);
                }
                Ok(event) => {
                    if let Event::Headers { headers, .. } = &event {
                        all.extend_from_slice(headers);
                    }
                    match reply.event(event) {
                        Ok(false) => {}
                        Ok(true) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                }
            }
        };
        self.forget(stream);
        outcome.map(|()| (messages, all))
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
        self.0.borrow_mut().forget(stream);
    }
}

impl Shared {
    fn deliver(&mut self, event: Event) {
        let stream = match &event {
            Event::Headers { stream, .. }
            | Event::Message { stream, .. }
            | Event::End { stream }
            | Event::Reset { stream, .. } => *stream,
        };
        // Of a call that was given up nobody wants to know.
        if let Some(inbox) = self.inboxes.get_mut(&stream) {
            inbox.events.push_back(event);
            if let Some(waker) = inbox.waker.take() {
                waker.wake();
            }
        }
    }

    /// A call whose messages nobody takes keeps all others from reading.
    fn is_full(&self) -> bool {
        let mut inboxes = self.inboxes.values();
        inboxes.any(|inbox| inbox.events.len() >= INBOX)
    }

    fn awaits_input(&self) -> Stage {
        match self.is_full() {
            true => Stage::AwaitThread,
            false => Stage::AwaitInput,
        }
    }

    fn awaits_output(&self, stream: u32) -> Stage {
        match self.connection.blocked(stream) {
            Some(Blocked::Output) => Stage::AwaitOutput,
            Some(Blocked::Window) => Stage::AwaitWindow,
            None if !self.connection.is_sent(stream) => Stage::AwaitThread,
            None => Stage::AwaitReply,
        }
    }

    /// It does not wait to send any more.
    fn sends_on(&mut self, stream: u32) {
        let inbox = self.inboxes.get_mut(&stream);
        let waited = inbox.and_then(|inbox| inbox.sending.take());
        self.senders -= usize::from(waited.is_some());
    }

    /// One call's poll writes for all of them. Those that have room now, or that wait for
    /// something else than they did, have to know.
    fn wake_senders(&mut self, but: u32) {
        if self.senders == 0 {
            return;
        }
        let mut changed = Vec::new();
        for (&stream, inbox) in self.inboxes.iter().filter(|(stream, _)| **stream != but) {
            let Some((reason, room)) = inbox.sending else {
                continue;
            };
            let unsent = self.connection.unsent(stream);
            if (unsent <= room && reason != Stage::AwaitReply)
                || self.awaits_output(stream) != reason
            {
                changed.push(stream);
            }
        }
        for stream in changed {
            self.sends_on(stream);
            let inbox = self.inboxes.get_mut(&stream);
            if let Some(waker) = inbox.and_then(|inbox| inbox.waker.take()) {
                waker.wake();
            }
        }
    }

    /// The socket wakes who polled last; when that one leaves, another has to listen.
    fn pass_on(&mut self, from: u32) {
        let after = self.inboxes.range_mut(from + 1..);
        if let Some(waker) = after
            .map(|(_, inbox)| inbox)
            .find_map(|inbox| inbox.waker.take())
        {
            waker.wake();
            return;
        }
        let before = self.inboxes.range_mut(..from);
        if let Some(waker) = before
            .map(|(_, inbox)| inbox)
            .find_map(|inbox| inbox.waker.take())
        {
            waker.wake();
        }
    }

    fn wake_all(&mut self) {
        for inbox in self.inboxes.values_mut() {
            if let Some(waker) = inbox.waker.take() {
                waker.wake();
            }
        }
    }

    fn forget(&mut self, stream: u32) {
        self.sends_on(stream);
        self.inboxes.remove(&stream);
        self.wake_all();
    }
}
