//! One stream of a get: `DoGet`, the batches of its tickets one after the other.

use std::collections::VecDeque;
use std::task::{ready, Context, Poll};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use prost::Message as _;

use super::call::Link;
use super::reply::Reply;
use crate::{LocalFuture, Moved, Session, Tally};
use venturi_base::codec::flight::{queue_message, Expect, Message};
use venturi_base::codec::frame::code;
use venturi_base::codec::ipc::Decoder;
use venturi_base::codec::proto::{Action, Ticket};
use venturi_base::data::digest::digest;
use venturi_base::data::payload::payload_bytes;
use venturi_base::error::Result;
use venturi_base::http2::Event;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

/// The batches of one ticket after another.
pub struct Reader {
    pub pieces: VecDeque<(Link, Vec<u8>)>,
    headers: Vec<(String, Vec<u8>)>,
    /// Bytes of a batch in memory, at most.
    limit: u64,
    pub current: Option<Call>,
    /// Of calls that have ended.
    wire_bytes: u64,
    schema: Option<SchemaRef>,
    /// In place of a connection on which the server takes no more calls.
    replacing: Option<LocalFuture<'static, Result<Link>>>,
    /// It was made for the present call.
    replaced: bool,
    /// It takes what is in flight, and begins nothing.
    pub ending: bool,
}

pub struct Call {
    pub link: Link,
    pub stream: u32,
    ticket: Vec<u8>,
    decoder: Decoder,
    reply: Reply,
}

impl Reader {
    pub fn new(
        pieces: VecDeque<(Link, Vec<u8>)>,
        headers: Vec<(String, Vec<u8>)>,
        limit: u64,
    ) -> Self {
        Self {
            pieces,
            headers,
            limit,
            current: None,
            wire_bytes: 0,
            schema: None,
            replacing: None,
            replaced: false,
            ending: false,
        }
    }

    fn begin(&mut self) -> Result<bool> {
        let Some((link, ticket)) = self.pieces.pop_front() else {
            return Ok(false);
        };
        if link.is_leaving() {
            self.wire_bytes += link.leave();
            self.replacing = Some(Box::pin(link.clone().replacement()));
            self.pieces.push_front((link, ticket));
            return Ok(true);
        }
        let stream = link.call("DoGet", &self.headers, Expect::Flight)?;
        let asked = Ticket { ticket };
        link.queue(stream, |queue| {
            queue_message(&asked.encode_to_vec(), queue);
            Ok(())
        })?;
        link.end(stream);
        self.current = Some(Call {
            link,
            stream,
            ticket: asked.ticket,
            decoder: Decoder::limited(self.limit),
            reply: Reply::default(),
        });
        Ok(true)
    }

    /// The next pieces come over the new connection.
    fn poll_replaced(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(replacing) = &mut self.replacing {
            let new = ready!(replacing.as_mut().poll(cx));
            self.replacing = None;
            self.replaced = true;
            let new = new?;
            if let Some(old) = self.pieces.front().map(|(link, _)| link.clone()) {
                let same = self.pieces.iter_mut().filter(|(link, _)| link.is(&old));
                same.for_each(|(link, _)| *link = new.clone());
            }
        }
        Poll::Ready(Ok(()))
    }

    fn close(&mut self) {
        self.replaced = false;
        if let Some(call) = self.current.take() {
            call.link.forget(call.stream);
            self.schema = call.decoder.schema().cloned();
            if !self.pieces.iter().any(|(link, _)| link.is(&call.link)) {
                self.wire_bytes += call.link.leave();
            }
        }
    }

    /// The next batch; whoever takes it marks its decoding on the clock.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<RecordBatch>>> {
        for _ in 0..IN_ONE_GO {
            let Some(call) = &mut self.current else {
                let Poll::Ready(replaced) = self.poll_replaced(cx) else {
                    clock.wait(Stage::AwaitInput);
                    return Poll::Pending;
                };
                replaced?;
                if self.begin()? {
                    continue;
                }
                return Poll::Ready(Ok(None));
            };
            let event = call.link.poll_event(call.stream, cx);
            clock.mark(Stage::Receive);
            let Poll::Ready(event) = event else {
                clock.wait(call.link.awaits_input());
                return Poll::Pending;
            };
            match event? {
                Event::Message {
                    message: Message::Flight(message),
                    ..
                } => {
                    if message.header.is_empty() {
                        continue; // metadata only
                    }
                    let batch = call.decoder.message(&message.header, message.body)?;
                    if batch.is_some() {
                        return Poll::Ready(Ok(batch));
                    }
                }
                // It was not begun: the server had ended the connection before it came. One that has
                // an answer is not asked again, as its rows would count twice.
                Event::Reset {
                    code: code::REFUSED_STREAM,
                    ..
                } if call.link.is_leaving() && !call.reply.begun && !self.replaced => {
                    if self.ending {
                        self.close();
                    } else if let Some(call) = self.current.take() {
                        call.link.forget(call.stream);
                        self.pieces.push_front((call.link, call.ticket));
                    }
                }
                event => {
                    if call.reply.event(event)? {
                        self.close();
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        clock.wait(Stage::AwaitThread);
        Poll::Pending
    }

    /// Gives up the call in flight, and the connection that is being made.
    pub fn cancel(&mut self, cx: &mut Context<'_>) {
        self.replacing = None;
        if let Some(call) = &self.current {
            call.link.cancel(call.stream);
            let _ = call.link.poll_flush(cx);
        }
        self.close();
    }

    /// It is not polled until further notice.
    pub fn idle(&self) {
        if let Some(call) = &self.current {
            call.link.idle(call.stream);
        }
    }

    /// Of the last call that has ended.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Grows with what its connection moves.
    pub fn progress(&self) -> u64 {
        match &self.current {
            Some(call) => call.link.data_bytes(),
            None => 0,
        }
    }

    /// Bytes on the wire, both ways.
    pub fn carried(&self) -> u64 {
        let share = self.current.as_ref().map(|call| call.link.wire_share());
        self.wire_bytes + share.unwrap_or(0)
    }
}

impl Drop for Reader {
    /// Those that share the connection go on without it.
    fn drop(&mut self) {
        if let Some(call) = &self.current {
            call.link.cancel(call.stream);
        }
    }
}

/// Messages without a batch (dictionaries, metadata, acknowledgements) that are taken in one
/// go: a peer that sends nothing else must not keep the thread.
pub const IN_ONE_GO: usize = 256;

pub struct GetSession {
    reader: Reader,
    checksum: bool,
    /// The trial's id, where the server understands `venturi.stop`.
    stop: Option<String>,
    handicap: Handicap,
    tally: Tally,
}

impl GetSession {
    pub fn new(
        pieces: VecDeque<(Link, Vec<u8>)>,
        headers: Vec<(String, Vec<u8>)>,
        checksum: bool,
        stop: Option<String>,
    ) -> Self {
        Self {
            reader: Reader::new(pieces, headers, u64::MAX),
            checksum,
            stop,
            handicap: Handicap::default(),
            tally: Tally::default(),
        }
    }

    /// With a handicap.
    pub fn slowed(mut self, handicap: Handicap) -> Self {
        self.handicap = handicap;
        self
    }
}

impl Session for GetSession {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let Some(batch) = ready!(self.reader.poll_next(cx, clock))? else {
            return Poll::Ready(Ok(None));
        };
        let moved = Moved {
            rows: batch.num_rows() as u64,
            bytes: payload_bytes(&batch),
        };
        self.handicap.burn(Stage::Decode);
        clock.mark(Stage::Decode);
        self.tally.rows += moved.rows;
        if self.checksum {
            self.tally.checksum = self.tally.checksum.wrapping_add(digest(&batch)?);
            // The batch dies hot in cache, and its memory is used again.
            drop(batch);
            self.handicap.burn(Stage::Verify);
            clock.mark(Stage::Verify);
        }
        Poll::Ready(Ok(Some(moved)))
    }

    fn idle(&mut self) {
        self.reader.idle();
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        // A get that ran to its end has nothing left to do.
        let Some(call) = &self.reader.current else {
            self.reader.cancel(cx);
            return Poll::Ready(Ok(()));
        };
        if !self.reader.ending {
            let Some(trial) = self.stop.take() else {
                self.reader.cancel(cx);
                return Poll::Ready(Ok(()));
            };
            // The server ends its streams, and what is in flight is taken, so that both
            // ends have counted the same.
            let action = Action {
                r#type: "venturi.stop".into(),
                body: trial.into_bytes(),
            };
            // Once a connection: each call counts against the server's limit of streams.
            if !call.link.stop() {
                let Ok(stream) = call.link.call("DoAction", &[], Expect::Other) else {
                    self.reader.cancel(cx);
                    return Poll::Ready(Ok(()));
                };
                call.link.queue(stream, |queue| {
                    queue_message(&action.encode_to_vec(), queue);
                    Ok(())
                })?;
                call.link.end(stream);
                call.link.forget(stream);
            }
            self.reader.pieces.clear();
            self.reader.ending = true;
        }
        while ready!(self.poll_batch(cx, clock))?.is_some() {}
        Poll::Ready(Ok(()))
    }

    fn progress(&self) -> u64 {
        self.reader.progress()
    }

    fn tally(&self) -> Tally {
        Tally {
            wire_bytes: self.reader.carried(),
            ..self.tally
        }
    }
}
