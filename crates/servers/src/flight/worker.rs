//! One connection: its requests, its gets and puts, on one thread.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use prost::Message as _;

use super::calls::{status, Caller, Status};
use super::get::{Ending, Get};
use super::ledger::Ledger;
use super::put::Put;
use crate::account::{Counted, Spent, ThreadCpu, Trial};
use crate::admission::Activity;
use crate::state::State;
use venturi_base::codec::flight::{queue_message, Message};
use venturi_base::codec::flight::{COMPRESSION_HEADER, SAMPLE_HEADER, TRIAL_HEADER, VERIFY_HEADER};
use venturi_base::codec::frame::code;
use venturi_base::codec::hpack::Header;
use venturi_base::codec::proto::Bytes;
use venturi_base::error::Result;
use venturi_base::http2::{Blocked, Connection, Event};
use venturi_base::meter::clock::Stage;

/// The gets of a connection are encoded ahead of the socket by no more than this together, and a batch each.
const HIGH_WATER: usize = 256 << 10;
/// Nor for longer: a batch that takes its time may be small. What is ready leaves then, and the runtime looks
/// whether the client has said something: it may have had enough.
const AT_A_TIME: Duration = Duration::from_millis(1);

type Outcome = std::result::Result<(), Status>;
type Answering = Pin<Box<dyn Future<Output = std::result::Result<Vec<Vec<u8>>, Status>>>>;

enum Call {
    /// A request whose message is coming in.
    Request(Box<Request>),
    Answering(Answering),
    Get(Box<Get>),
    Put(Box<Put>),
}

struct Request {
    method: String,
    caller: Caller,
    trial: Option<Trial>,
    /// Of a table that it gets.
    compression: String,
    message: Vec<u8>,
}

pub(super) struct Worker {
    connection: Connection,
    state: Arc<State>,
    tls: bool,
    /// What each call is told where the server is full, and whether one was.
    full: Option<String>,
    turned_away: bool,
    /// It has named one.
    has_trial: bool,
    /// A request has come to its end since somebody looked.
    pub has_asked: bool,
    calls: BTreeMap<u32, Call>,
    ledger: Ledger,
    /// CPU that has been accounted for already.
    settled: ThreadCpu,
    /// Gets and puts in flight; gets alone.
    active: usize,
    gets: usize,
}

impl Worker {
    pub fn new(connection: Connection, state: Arc<State>, tls: bool, full: Option<String>) -> Self {
        Self {
            connection,
            state,
            tls,
            full,
            turned_away: false,
            has_trial: false,
            has_asked: false,
            calls: BTreeMap::new(),
            ledger: Ledger::new(),
            settled: ThreadCpu::default(),
            active: 0,
            gets: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// What the client has begun to send and not sent to its end: the same for as long as it is the same
    /// thing.
    pub fn awaited_request(&self) -> Option<(u32, u64)> {
        let request = self
            .calls
            .iter()
            .find(|(_, call)| matches!(call, Call::Request(_)));
        let request = request.map(|(stream, _)| (*stream, 0));
        request.or_else(|| self.connection.unfinished())
    }

    pub fn activity(&self) -> Activity {
        let goes_on = |call: &Call| match call {
            Call::Request(_) => false,
            Call::Put(put) => put.has_begun(),
            Call::Answering(_) | Call::Get(_) => true,
        };
        if self.has_trial || self.calls.values().any(goes_on) {
            Activity::Protected
        } else if self.is_idle() && self.connection.unfinished().is_none() {
            Activity::Idle
        } else {
            Activity::Incomplete
        }
    }

    pub fn patience(&self) -> Duration {
        self.state.patience
    }

    pub fn has_turned_away(&self) -> bool {
        self.turned_away
    }

    pub fn say_goodbye(&mut self, why: &str) {
        self.connection.go_away(code::NO_ERROR, why);
    }

    /// Works until the client goes away (or, with an error, breaks the protocol).
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.ledger.wake();
        let until = Instant::now() + AT_A_TIME;
        loop {
            self.produce(cx, until);
            // Writes what the gets have queued, then reads.
            let event = self.connection.poll_event(cx);
            self.book(&event);
            self.end_drained();
            match event {
                Poll::Ready(Ok(event)) => self.handle(event),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if self.has_room() => {
                    if Instant::now() >= until {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Books a look at the connection, and notes what every stream waits for now.
    fn book(&mut self, event: &Poll<Result<Event>>) {
        let of = match event {
            Poll::Ready(Ok(Event::Message { stream, .. })) => Some(*stream),
            _ => None,
        };
        let served = of.filter(|stream| matches!(self.calls.get(stream), Some(Call::Put(_))));
        if let Some(stream) = served {
            self.ledger.turn_to(stream).mark(Stage::Receive);
        } else if self.gets > 0 {
            let sender = self.connection.last_sender();
            let stream = match self.calls.get(&sender) {
                Some(Call::Get(_)) => sender,
                _ => self.ledger.current(),
            };
            self.ledger.turn_to(stream).mark(Stage::Send);
        } else if self.active > 0 {
            let stream = self.ledger.current();
            self.ledger.turn_to(stream).mark(Stage::Receive);
        }
        // While its messages come one after the other, a single stream does not wait.
        if self.active == 0 || (served.is_some() && self.active == 1) {
            return;
        }
        for (&stream, call) in &self.calls {
            let reason = match (call, self.connection.blocked(stream)) {
                (Call::Get(_), Some(Blocked::Window)) => Stage::AwaitWindow,
                (Call::Get(_), Some(Blocked::Output)) => Stage::AwaitOutput,
                (Call::Get(_), None) => Stage::AwaitThread,
                // Acknowledgements that the client does not take keep us from reading on.
                (Call::Put(_), Some(_)) if self.connection.is_congested() => Stage::AwaitOutput,
                (Call::Put(_), _) => Stage::AwaitInput,
                _ => continue,
            };
            self.ledger.wait(stream, reason);
        }
    }

    /// A get is over when its last byte is written, not when it is queued.
    fn end_drained(&mut self) {
        if self.gets == 0 {
            return;
        }
        let mut over = Vec::new();
        for (&stream, call) in &mut self.calls {
            let Call::Get(get) = call else { continue };
            if get.ending == Some(Ending::Queued) {
                let cut = self.connection.end_of(stream).map(Ending::Cut);
                get.ending = cut.or(get.ending);
            }
            if matches!(get.ending, Some(Ending::Cut(end)) if end <= self.connection.sent_bytes()) {
                over.push(stream);
            }
        }
        for stream in over {
            let _ = self.close_call(stream, Ok(()));
        }
    }

    fn ahead(&self) -> usize {
        HIGH_WATER / self.gets.max(1)
    }

    /// A get could encode its next batch at once.
    fn has_room(&self) -> bool {
        self.calls.iter().any(|(stream, call)| {
            matches!(call, Call::Get(get) if get.ending.is_none())
                && self.connection.unsent(*stream) < self.ahead()
        })
    }

    /// Answers and gets go on as far as the socket has room.
    fn produce(&mut self, cx: &mut Context<'_>, until: Instant) {
        let (mut ended, mut sent) = (Vec::new(), Vec::new());
        let ahead = self.ahead();
        for (&stream, call) in &mut self.calls {
            match call {
                Call::Answering(answering) => {
                    if let Poll::Ready(answer) = answering.as_mut().poll(cx) {
                        ended.push((stream, answer));
                    }
                }
                Call::Get(get) if get.ending.is_none() => {
                    while self.connection.unsent(stream) < ahead {
                        let more = match self.connection.send_queue(stream) {
                            Some(queue) => {
                                let clock = self.ledger.turn_to(stream);
                                get.next(queue, &self.state.handicap, clock)
                            }
                            None => Ok(None),
                        };
                        match more {
                            Ok(Some(now)) if now < until => {}
                            Ok(Some(_)) => break,
                            Ok(None) => {
                                get.ending = Some(Ending::Queued);
                                sent.push(stream);
                                break;
                            }
                            Err(error) => {
                                ended.push((stream, Err(error.into())));
                                break;
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        for stream in sent {
            self.respond(stream, Ok(()));
        }
        for (stream, answer) in ended {
            let outcome = answer.map(|messages| self.queue(stream, &messages));
            self.finish(stream, outcome);
        }
    }

    fn queue(&mut self, stream: u32, messages: &[Vec<u8>]) {
        if let Some(queue) = self.connection.send_queue(stream) {
            for message in messages {
                queue_message(message, queue);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Headers {
                stream,
                headers,
                end,
            } => {
                self.begin(stream, &headers);
                if end {
                    self.request_ended(stream);
                }
            }
            Event::Message { stream, message } => {
                if let Err(status) = self.message(stream, message) {
                    self.finish(stream, Err(status));
                }
            }
            Event::End { stream } => self.request_ended(stream),
            Event::Reset { stream, .. } => {
                let _ = self.close_call(stream, Err(Status::new(status::CANCELLED, "cancelled")));
            }
        }
    }

    fn request_ended(&mut self, stream: u32) {
        self.has_asked = true;
        match self.calls.get(&stream) {
            Some(Call::Request(_)) => self.request(stream),
            Some(Call::Put(_)) => self.finish(stream, Ok(())),
            _ => {}
        }
    }

    fn begin(&mut self, stream: u32, headers: &[Header]) {
        let find = |name: &str| {
            headers
                .iter()
                .find(|header| header.name == name)
                .map(|header| header.value.as_str())
        };
        let path = find(":path").unwrap_or_default();
        let method = path
            .strip_prefix("/arrow.flight.protocol.FlightService/")
            .map(str::to_owned);
        let authorization = find("authorization");
        let token = self.state.token.as_ref();
        let allowed = token.is_none_or(|token| token.admits(authorization));
        let mut reply = vec![
            (":status".to_owned(), b"200".to_vec()),
            ("content-type".to_owned(), b"application/grpc".to_vec()),
        ];
        if let (Some("Handshake"), true, Some(token)) = (method.as_deref(), allowed, token) {
            let bearer = format!("Bearer {}", token.0);
            reply.push(("authorization".to_owned(), bearer.into_bytes()));
        }
        self.connection.send_headers(stream, &reply);
        if let Some(why) = &self.full {
            let answer = Status::new(status::RESOURCE_EXHAUSTED, why);
            self.turned_away = true;
            return self.respond(stream, Err(answer));
        }
        let Some(method) = method else {
            let text = format!(
                "{path:?} is not a method of Arrow Flight, which is all that this server speaks"
            );
            return self.respond(stream, Err(Status::new(status::UNIMPLEMENTED, text)));
        };
        if !allowed {
            let text = match authorization {
                None => "this server wants a token",
                Some(_) => "the token is wrong or has expired",
            };
            return self.respond(stream, Err(Status::new(status::UNAUTHENTICATED, text)));
        }
        let caller = Caller {
            authority: find(":authority").unwrap_or_default().to_owned(),
            tls: self.tls,
            near: self.connection.neighbour().is_some(),
            route: self.connection.route(),
        };
        let moves_data = matches!(method.as_str(), "DoGet" | "DoPut");
        let sampled = find(SAMPLE_HEADER).and_then(|interval| interval.parse().ok());
        if let (Some(id), Some(interval), true) = (find(TRIAL_HEADER), sampled, moves_data) {
            let watch = &self.state.accounts.watch;
            watch.open(id, interval, self.connection.route());
        }
        let trial = find(TRIAL_HEADER).filter(|_| moves_data).map(|id| Trial {
            id: id.to_owned(),
            checksum: find(VERIFY_HEADER) == Some("checksum"),
            stop: self.state.accounts.begin(id),
        });
        if let Some(trial) = &trial {
            self.has_trial = true;
            if let Some(sockets) = self.state.accounts.watch.sockets(&trial.id) {
                self.connection.watch(&sockets);
            }
        }
        let call = if method == "DoPut" {
            self.activate(stream);
            self.state.totals.puts.fetch_add(1, Ordering::Relaxed);
            Call::Put(Box::new(Put::new(trial, &self.state.store)))
        } else {
            Call::Request(Box::new(Request {
                method,
                caller,
                trial,
                compression: find(COMPRESSION_HEADER).unwrap_or_default().to_owned(),
                message: vec![],
            }))
        };
        self.calls.insert(stream, call);
    }

    fn message(&mut self, stream: u32, message: Message) -> Outcome {
        match (self.calls.get_mut(&stream), message) {
            (Some(Call::Request(request)), Message::Other(bytes)) => request.message = bytes,
            (Some(Call::Put(put)), Message::Flight(message)) => {
                let metadata = put.message(message, &self.state, self.ledger.turn_to(stream))?;
                if !metadata.is_empty() {
                    let acknowledgement = Bytes { bytes: metadata };
                    self.queue(stream, &[acknowledgement.encode_to_vec()]);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A request is whole: a get begins, or a small call is answered.
    fn request(&mut self, stream: u32) {
        let Some(Call::Request(mut request)) = self.calls.remove(&stream) else {
            return;
        };
        match request.method.as_str() {
            "DoGet" => {
                self.activate(stream);
                self.gets += 1;
                self.state.totals.gets.fetch_add(1, Ordering::Relaxed);
                let Some(queue) = self.connection.send_queue(stream) else {
                    return self.settle(stream, request.trial, Counted::default(), true);
                };
                match Get::open(
                    &self.state,
                    &mut request.trial,
                    &request.message,
                    &request.compression,
                    queue,
                ) {
                    Ok(get) => {
                        self.calls.insert(stream, Call::Get(Box::new(get)));
                    }
                    Err(status) => {
                        self.settle(stream, request.trial, Counted::default(), true);
                        self.respond(stream, Err(status));
                    }
                }
            }
            // Who got here has been let in; the token is in the headers.
            "Handshake" => self.respond(stream, Ok(())),
            _ => {
                let state = self.state.clone();
                let Request {
                    method,
                    caller,
                    message,
                    ..
                } = *request;
                let answering = async move { state.call(&method, &message, &caller).await };
                self.calls
                    .insert(stream, Call::Answering(Box::pin(answering)));
            }
        }
    }

    /// Ends a call of any kind, and tells the client how.
    fn finish(&mut self, stream: u32, outcome: Outcome) {
        let outcome = self.close_call(stream, outcome);
        self.respond(stream, outcome);
    }

    /// Ends a call on this side only; a put's table may still fail to be kept.
    fn close_call(&mut self, stream: u32, outcome: Outcome) -> Outcome {
        let totals = &self.state.totals;
        match self.calls.remove(&stream) {
            Some(Call::Get(get)) => {
                let counted = get.rows.counted;
                totals.count_sent(&counted);
                self.settle(stream, get.rows.trial, counted, true);
                outcome
            }
            Some(Call::Put(put)) => {
                let (trial, counted) = (put.trial().cloned(), put.counted());
                totals.count_received(&counted);
                let outcome = put.end(&self.state.store, outcome);
                self.settle(stream, trial, counted, false);
                outcome
            }
            Some(Call::Request(request)) => {
                if let Some(trial) = request.trial {
                    let nothing = (Counted::default(), Spent::default());
                    self.state.accounts.end(&trial.id, nothing.0, nothing.1);
                }
                outcome
            }
            Some(Call::Answering(_)) | None => outcome,
        }
    }

    /// A get or put begins: what came before is not its own.
    fn activate(&mut self, stream: u32) {
        if self.active == 0 {
            self.settled = ThreadCpu::now();
        }
        self.ledger.begin(stream);
        self.active += 1;
    }

    /// Accounts for a stream that ends: its counts and stages, and this thread's CPU time
    /// since the last one.
    fn settle(&mut self, stream: u32, trial: Option<Trial>, counted: Counted, get: bool) {
        self.active = self.active.saturating_sub(1);
        self.gets = self.gets.saturating_sub(usize::from(get));
        let last = if get { Stage::Send } else { Stage::Apply };
        let (stages, workers) = self.ledger.end(stream, last);
        let Some(trial) = trial else { return };
        let now = ThreadCpu::now();
        let cpu = now.since(self.settled);
        self.settled = now;
        let spent = Spent {
            stages,
            workers,
            cpu,
        };
        self.state.accounts.end(&trial.id, counted, spent);
    }

    fn respond(&mut self, stream: u32, outcome: Outcome) {
        let mut trailers = Vec::new();
        match outcome {
            Ok(()) => trailers.push(("grpc-status".to_owned(), b"0".to_vec())),
            Err(status) => {
                let code = status.code.to_string().into_bytes();
                trailers.push(("grpc-status".to_owned(), code));
                trailers.push(("grpc-message".to_owned(), percent_encode(&status.message)));
            }
        }
        self.connection.end_with(stream, &trailers);
    }

    /// Lets the client read why its connection ends.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.connection.poll_close(cx)
    }

    /// The connection is gone, and all its calls with it.
    pub fn close(&mut self) {
        while let Some((&stream, _)) = self.calls.first_key_value() {
            let _ = self.close_call(stream, Err(Status::new(status::CANCELLED, "cancelled")));
        }
    }
}

/// gRPC over HTTP/2: grpc-message is percent-encoded UTF-8.
fn percent_encode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}
