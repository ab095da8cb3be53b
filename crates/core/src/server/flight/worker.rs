//! One connection: its requests, its gets and puts, on one thread.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};

use prost::Message as _;

use super::account::{thread_cpu, Counted};
use super::calls::{status, Caller, Reading, Status};
use super::store::Table;
use super::State;
use crate::codec::flight::{queue_flight_data, queue_message, FlightMessage, Message, Parts};
use crate::codec::frame::code;
use crate::codec::hpack::Header;
use crate::codec::ipc::{Compression, Decoder, Encoded, Encoder};
use crate::codec::proto::{descriptor_type, Bytes, FlightDescriptor, Ticket};
use crate::data::digest::digest;
use crate::data::payload::payload_bytes;
use crate::error::Result;
use crate::http2::{Connection, Event};
use crate::meter::clock::{Stage, StageClock, StageTotals};
use crate::target::flight::{TRIAL_HEADER, VERIFY_HEADER};

/// A get is encoded ahead of the socket by no more than this.
const HIGH_WATER: usize = 256 << 10;
/// Bytes of a small call's request.
const REQUEST_LIMIT: usize = 16 << 20;

type Answering = Pin<Box<dyn Future<Output = std::result::Result<Vec<Vec<u8>>, Status>>>>;

enum Call {
    /// A request whose message is coming in.
    Request { method: String, caller: Caller, trial: Option<Trial>, message: Vec<u8> },
    Answering(Answering),
    Get(Get),
    Put(Put),
}

/// A trial's stream: it is accounted for.
struct Trial {
    id: String,
    checksum: bool,
    stop: Arc<AtomicBool>,
}

struct Get {
    encoder: Encoder,
    reading: Rows,
    trial: Option<Trial>,
    counted: Counted,
}

enum Rows {
    Source(crate::data::Cursor),
    Table(Table, usize),
}

struct Put {
    decoder: Decoder,
    /// Where the rows go; known from the first message.
    sink: Option<Sink>,
    trial: Option<Trial>,
    counted: Counted,
}

enum Sink {
    Discard,
    Keep { path: String, batches: Vec<arrow_array::RecordBatch>, bytes: u64 },
}

pub(super) struct Worker {
    connection: Connection,
    state: Arc<State>,
    tls: bool,
    calls: BTreeMap<u32, Call>,
    clock: StageClock,
    /// Stages and CPU that have been accounted for already.
    settled: (StageTotals, (u64, u64)),
    /// Gets and puts under way.
    active: usize,
    encoded: Vec<Encoded>,
}

impl Worker {
    pub fn new(connection: Connection, state: Arc<State>, tls: bool) -> Self {
        Self {
            connection,
            state,
            tls,
            calls: BTreeMap::new(),
            clock: StageClock::start(),
            settled: Default::default(),
            active: 0,
            encoded: Vec::new(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    pub fn say_goodbye(&mut self) {
        self.connection.go_away(code::NO_ERROR, "the server stops");
    }

    /// Works until the client goes away (or, with an error, breaks the protocol).
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.clock.mark(Stage::Wait);
        loop {
            let produced = self.produce(cx);
            let event = self.connection.poll_event(cx);
            self.clock.mark(if produced { Stage::Send } else { Stage::Receive });
            match event {
                Poll::Ready(Ok(event)) => self.handle(event),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if self.has_room() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// A get could encode its next batch at once.
    fn has_room(&self) -> bool {
        self.calls.iter().any(|(stream, call)| {
            matches!(call, Call::Get(_)) && self.connection.unsent(*stream) < HIGH_WATER
        })
    }

    /// Answers and gets go on as far as the socket has room. True: a get was served.
    fn produce(&mut self, cx: &mut Context<'_>) -> bool {
        let streams: Vec<u32> = self.calls.keys().copied().collect();
        let mut served = false;
        for stream in streams {
            if let Some(Call::Answering(answering)) = self.calls.get_mut(&stream) {
                if let Poll::Ready(answer) = answering.as_mut().poll(cx) {
                    self.answer(stream, answer);
                }
                continue;
            }
            while matches!(self.calls.get(&stream), Some(Call::Get(_))) && self.connection.unsent(stream) < HIGH_WATER {
                served = true;
                match self.next_batch(stream) {
                    Ok(true) => {}
                    Ok(false) => {
                        self.finish(stream, Ok(()));
                        break;
                    }
                    Err(error) => {
                        self.finish(stream, Err(error.into()));
                        break;
                    }
                }
            }
        }
        served
    }

    /// Encodes and queues a get's next batch; false: that was all.
    fn next_batch(&mut self, stream: u32) -> Result<bool> {
        let Some(Call::Get(get)) = self.calls.get_mut(&stream) else { return Ok(false) };
        let Some(queue) = self.connection.send_queue(stream) else { return Ok(false) };
        if get.trial.as_ref().is_some_and(|trial| trial.stop.load(Ordering::Relaxed)) {
            return Ok(false);
        }
        match &mut get.reading {
            Rows::Source(cursor) => {
                let Some(item) = cursor.next() else { return Ok(false) };
                self.clock.mark(Stage::Generate);
                get.counted.rows += item.rows;
                get.counted.payload += item.payload;
                if get.trial.as_ref().is_some_and(|trial| trial.checksum) {
                    get.counted.checksum = get.counted.checksum.wrapping_add(item.digest()?);
                }
                get.encoder.encode(item.batch(), &mut self.encoded)?;
            }
            Rows::Table(table, at) => {
                let Some(batch) = table.batches.get(*at) else { return Ok(false) };
                *at += 1;
                get.counted.rows += batch.num_rows() as u64;
                get.counted.payload += payload_bytes(batch);
                if get.trial.as_ref().is_some_and(|trial| trial.checksum) {
                    get.counted.checksum = get.counted.checksum.wrapping_add(digest(batch)?);
                }
                get.encoder.encode(batch, &mut self.encoded)?;
            }
        }
        get.counted.batches += 1;
        for encoded in self.encoded.drain(..) {
            let parts = Parts { header: &encoded.header, ..Parts::default() };
            queue_flight_data(parts, encoded.body.into_iter(), encoded.body_length, queue)?;
        }
        self.clock.mark(Stage::Encode);
        Ok(true)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Headers { stream, headers, .. } => self.begin(stream, &headers),
            Event::Message { stream, message } => {
                if let Err(status) = self.message(stream, message) {
                    self.finish(stream, Err(status));
                }
            }
            Event::End { stream } => match self.calls.get(&stream) {
                Some(Call::Request { .. }) => self.request(stream),
                Some(Call::Put(_)) => self.finish(stream, Ok(())),
                _ => {}
            },
            Event::Reset { stream, .. } => self.forget(stream),
        }
    }

    fn begin(&mut self, stream: u32, headers: &[Header]) {
        let find = |name: &str| headers.iter().find(|header| header.name == name).map(|header| header.value.as_str());
        let path = find(":path").unwrap_or_default();
        let method = path.strip_prefix("/arrow.flight.protocol.FlightService/").map(str::to_owned);
        self.calls.entry(stream).or_insert_with(|| Call::Answering(Box::pin(std::future::pending())));
        let authorization = find("authorization");
        let mut reply = vec![
            (":status".to_owned(), b"200".to_vec()),
            ("content-type".to_owned(), b"application/grpc".to_vec()),
        ];
        let allowed = self.state.token.as_ref().is_none_or(|token| token.admits(authorization));
        if let (Some("Handshake"), true, Some(bearer)) = (method.as_deref(), allowed, self.state.bearer()) {
            reply.push(("authorization".to_owned(), bearer.into_bytes()));
        }
        self.connection.send_headers(stream, &reply);
        let Some(method) = method else {
            let text = format!("{path:?} is not a method of Arrow Flight, which is all that this server speaks");
            return self.finish(stream, Err(Status::new(status::UNIMPLEMENTED, text)));
        };
        if !allowed {
            let text = match authorization {
                None => "this server wants a token",
                Some(_) => "the token is wrong or has expired",
            };
            return self.finish(stream, Err(Status::new(status::UNAUTHENTICATED, text)));
        }
        let caller = Caller { authority: find(":authority").unwrap_or_default().to_owned(), tls: self.tls };
        let is_data = matches!(method.as_str(), "DoGet" | "DoPut");
        let trial = find(TRIAL_HEADER).filter(|_| is_data).map(|id| Trial {
            id: id.to_owned(),
            checksum: find(VERIFY_HEADER) == Some("checksum"),
            stop: self.state.accounts.begin(id),
        });
        let call = if method == "DoPut" {
            self.activate();
            self.state.totals.puts.fetch_add(1, Ordering::Relaxed);
            Call::Put(Put { decoder: Decoder::default(), sink: None, trial, counted: Counted::default() })
        } else {
            Call::Request { method, caller, trial, message: vec![] }
        };
        self.calls.insert(stream, call);
    }

    /// A get or put begins: what came before is not its own.
    fn activate(&mut self) {
        if self.active == 0 {
            self.clock.mark(Stage::Wait);
            self.settled = (self.clock.totals(), thread_cpu());
        }
        self.active += 1;
    }

    fn message(&mut self, stream: u32, message: Message) -> std::result::Result<(), Status> {
        match (self.calls.get_mut(&stream), message) {
            (Some(Call::Request { message, .. }), Message::Other(bytes)) => {
                if bytes.len() > REQUEST_LIMIT {
                    return Err(Status::new(status::RESOURCE_EXHAUSTED, "the request is too large"));
                }
                *message = bytes;
                Ok(())
            }
            (Some(Call::Put(_)), Message::Flight(message)) => self.put_message(stream, message),
            _ => Ok(()),
        }
    }

    fn put_message(&mut self, stream: u32, message: FlightMessage) -> std::result::Result<(), Status> {
        self.clock.mark(Stage::Receive);
        let Some(Call::Put(put)) = self.calls.get_mut(&stream) else { return Ok(()) };
        let sink = put.sink.get_or_insert(match FlightDescriptor::decode(&message.descriptor[..]) {
            Ok(descriptor) if descriptor.r#type == descriptor_type::PATH => {
                Sink::Keep { path: descriptor.path.join("/"), batches: vec![], bytes: 0 }
            }
            // The perf protocol: a descriptor without a name, rows that nobody keeps.
            _ => Sink::Discard,
        });
        let body_bytes = message.body.as_ref().map_or(0, |body| body.len()) as u64;
        if !message.header.is_empty() {
            if let Some(batch) = put.decoder.message(&message.header, message.body)? {
                let bytes = payload_bytes(&batch);
                self.clock.mark(Stage::Decode);
                put.counted.rows += batch.num_rows() as u64;
                put.counted.batches += 1;
                put.counted.payload += bytes;
                if put.trial.as_ref().is_some_and(|trial| trial.checksum) {
                    put.counted.checksum = put.counted.checksum.wrapping_add(digest(&batch)?);
                    self.clock.mark(Stage::Verify);
                }
                if let Sink::Keep { batches, bytes: kept, .. } = sink {
                    let cost = body_bytes.max(bytes);
                    self.state.store.reserve(cost)?;
                    *kept += cost;
                    batches.push(batch);
                    self.clock.mark(Stage::Apply);
                }
            }
        }
        if !message.metadata.is_empty() {
            if let Some(queue) = self.connection.send_queue(stream) {
                queue_message(&Bytes { bytes: message.metadata }.encode_to_vec(), queue);
            }
        }
        Ok(())
    }

    /// A request is whole: a get begins, or a small call is answered.
    fn request(&mut self, stream: u32) {
        let Some(Call::Request { method, caller, trial, message }) = self.calls.remove(&stream) else { return };
        if method == "DoGet" {
            self.activate();
            self.state.totals.gets.fetch_add(1, Ordering::Relaxed);
            match self.open_get(stream, &message) {
                Ok((encoder, reading)) => {
                    let get = Get { encoder, reading, trial, counted: Counted::default() };
                    self.calls.insert(stream, Call::Get(get));
                }
                Err(status) => {
                    self.settle(trial, Counted::default());
                    self.respond(stream, Err(status));
                }
            }
            return;
        }
        if method == "Handshake" {
            // Who got here has been let in; the token is in the headers.
            return self.respond(stream, Ok(()));
        }
        let state = self.state.clone();
        let answering = async move { state.call(&method, &message, &caller).await };
        self.calls.insert(stream, Call::Answering(Box::pin(answering)));
    }

    fn open_get(&mut self, stream: u32, request: &[u8]) -> std::result::Result<(Encoder, Rows), Status> {
        let ticket = Ticket::decode(request)
            .map_err(|error| Status::new(status::INVALID_ARGUMENT, format!("not a ticket: {error}")))?;
        let (schema, compression, rows) = match self.state.reading(&ticket.ticket)? {
            Reading::Source(cursor, compression) => (cursor.source().schema(), compression, Rows::Source(cursor)),
            Reading::Table(table) => (table.schema.clone(), Compression::None, Rows::Table(table, 0)),
        };
        let encoder = Encoder::new(&schema, compression)?;
        let first = encoder.schema_message();
        if let Some(queue) = self.connection.send_queue(stream) {
            let parts = Parts { header: &first.header, ..Parts::default() };
            queue_flight_data(parts, first.body.into_iter(), first.body_length, queue)?;
        }
        Ok((encoder, rows))
    }

    fn answer(&mut self, stream: u32, answer: std::result::Result<Vec<Vec<u8>>, Status>) {
        let outcome = answer.map(|messages| {
            if let Some(queue) = self.connection.send_queue(stream) {
                for message in &messages {
                    queue_message(message, queue);
                }
            }
        });
        self.calls.remove(&stream);
        self.respond(stream, outcome);
    }

    /// Ends a call of any kind with its status.
    fn finish(&mut self, stream: u32, outcome: std::result::Result<(), Status>) {
        let outcome = match self.calls.remove(&stream) {
            Some(Call::Get(get)) => {
                self.state.totals.rows_sent.fetch_add(get.counted.rows, Ordering::Relaxed);
                self.state.totals.bytes_sent.fetch_add(get.counted.payload, Ordering::Relaxed);
                self.settle(get.trial, get.counted);
                outcome
            }
            Some(Call::Put(put)) => self.finish_put(put, outcome),
            Some(Call::Request { trial, .. }) => {
                if let Some(trial) = trial {
                    self.state.accounts.end(&trial.id, Counted::default(), StageTotals::default(), (0, 0));
                }
                outcome
            }
            _ => outcome,
        };
        self.respond(stream, outcome);
    }

    fn finish_put(&mut self, put: Put, outcome: std::result::Result<(), Status>) -> std::result::Result<(), Status> {
        self.state.totals.rows_received.fetch_add(put.counted.rows, Ordering::Relaxed);
        self.state.totals.bytes_received.fetch_add(put.counted.payload, Ordering::Relaxed);
        let trial = put.trial.as_ref().map(|trial| trial.id.clone());
        self.settle(put.trial, put.counted);
        let Some(Sink::Keep { path, batches, bytes }) = put.sink else { return outcome };
        let kept = outcome.and_then(|()| {
            let schema = put.decoder.schema().cloned();
            let schema = schema.ok_or_else(|| Status::new(status::INVALID_ARGUMENT, "a put without a schema"))?;
            let table = Table { schema, batches: Arc::new(batches), rows: put.counted.rows, bytes, trial };
            Ok(self.state.store.keep(path, table)?)
        });
        if kept.is_err() {
            self.state.store.release(bytes);
        }
        kept
    }

    /// Accounts for a stream that ends: its counts, and this thread's time since the last one.
    fn settle(&mut self, trial: Option<Trial>, counted: Counted) {
        self.active = self.active.saturating_sub(1);
        let Some(trial) = trial else { return };
        let (stages, cpu) = (self.clock.totals(), thread_cpu());
        let mut since = stages;
        for (now, before) in since.0.iter_mut().zip(self.settled.0 .0) {
            *now -= before;
        }
        let (user, system) = self.settled.1;
        let spent = (cpu.0.saturating_sub(user), cpu.1.saturating_sub(system));
        self.settled = (stages, cpu);
        self.state.accounts.end(&trial.id, counted, since, spent);
    }

    fn respond(&mut self, stream: u32, outcome: std::result::Result<(), Status>) {
        let mut trailers = Vec::new();
        match outcome {
            Ok(()) => trailers.push(("grpc-status".to_owned(), b"0".to_vec())),
            Err(status) => {
                trailers.push(("grpc-status".to_owned(), status.code.to_string().into_bytes()));
                trailers.push(("grpc-message".to_owned(), percent_encode(&status.message)));
            }
        }
        self.connection.end_with(stream, &trailers);
    }

    /// The client gave a call up.
    fn forget(&mut self, stream: u32) {
        let gone = || Err(Status::new(1, "cancelled"));
        match self.calls.remove(&stream) {
            Some(Call::Get(get)) => self.settle(get.trial, get.counted),
            Some(Call::Put(put)) => {
                let _ = self.finish_put(put, gone());
            }
            Some(Call::Request { trial: Some(trial), .. }) => {
                self.state.accounts.end(&trial.id, Counted::default(), StageTotals::default(), (0, 0));
            }
            _ => {}
        }
    }

    /// The connection is gone, and all its calls with it.
    pub fn close(&mut self) {
        for stream in self.calls.keys().copied().collect::<Vec<_>>() {
            self.forget(stream);
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
