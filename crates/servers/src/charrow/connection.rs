//! One connection: its handshake, its queries one after the other, and what it asks beside.

use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::encode::{self, Making};
use super::engine::Wanted;
use super::query::{Deal, Leaving, Seat};
use super::query::{Query, Shape};
use super::questions;
use super::ring::Ring;
use super::wire::{is_late, Patient, Wire, LOOK_UP};
use super::State;
use crate::account::{Counted, Spent, ThreadCpu};
use crate::admission::{Activity, Slot};
use venturi_base::codec::charrow::handshake::{Fault, Handshake, Parameters, Request, LEAVE};
use venturi_base::codec::charrow::messages;
use venturi_base::codec::chunk::Chunk;
use venturi_base::error::{Error, Kind};
use venturi_base::meter::clock::{Stage, StageClock};

/// What a block holds about, where the client does not say.
const BLOCK_BYTES: u64 = 1 << 20;

/// While blocks are sent, a 1.2 client is listened to after so many bytes.
const LISTEN_AFTER: usize = 1 << 20;

/// Characters of an error that a client is told.
const LONGEST_ERROR: usize = 16 << 10;

/// How long one that is turned away may take for its handshake.
const UNTIL_TURNED_AWAY: Duration = Duration::from_secs(1);

/// What a client that was refused may still say, in reads, before it is hung up on.
const LAST_READS: usize = 64;

/// Why a connection ends.
pub(super) enum End {
    /// The client has hung up, or the server stops.
    Gone,
    /// The client is told this.
    Refused(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Refused(error)
    }
}

pub struct Connection {
    pub(super) wire: Wire,
    pub(super) state: Arc<State>,
    slot: Slot,
    /// Where the client wants the bodies of blocks.
    pub(super) ring: Option<Ring>,
    address: String,
    client: Option<IpAddr>,
    parameters: Parameters,
    extended: bool,
    encoders: usize,
    /// A query that came while another one was answered.
    next: Option<Request>,
    /// The client wants no more blocks of this one.
    content: bool,
    pub(super) clock: StageClock,
}

impl Connection {
    pub fn new(wire: Wire, state: Arc<State>, slot: Slot) -> Self {
        let peer = wire.peer();
        Self {
            address: peer.map_or_else(|| "the peer".into(), |peer| peer.to_string()),
            client: peer.map(|peer| peer.ip().to_canonical()),
            wire,
            state,
            slot,
            ring: None,
            parameters: Parameters::default(),
            extended: false,
            encoders: 1,
            next: None,
            content: false,
            clock: StageClock::start(),
        }
    }

    /// Serves until the client goes away or breaks the rules.
    pub fn serve(mut self) {
        if let Some(why) = self.slot.refusal.clone() {
            return self.turn_away(&Error::new(Kind::Memory, why));
        }
        let outcome = self.shake_hands().and_then(|()| loop {
            // A trial's connection stays from its handshake on.
            self.slot.set_activity(match self.parameters.trial {
                Some(_) => Activity::Protected,
                None => Activity::Idle,
            });
            let request = match self.next.take() {
                Some(request) => Some(request),
                None => self.listen(None)?,
            };
            match request {
                None => return Err(End::Gone),
                Some(request) => {
                    self.slot.set_activity(Activity::Protected);
                    self.answer(request)?;
                }
            }
        });
        let outcome: Result<(), End> = outcome;
        if let Err(End::Refused(error)) = outcome {
            self.refuse(&error);
        }
        // Where the server stops, a client may still copy out what it was told is there. Else it has hung up, or
        // had its time, and may hold on to the memory: it must not outlive its place in the account.
        if let Some(ring) = &self.ring {
            if !self.state.leaving.load(Ordering::Relaxed) {
                ring.take_back();
            }
        }
    }

    /// There is no place for it, which is the answer to its handshake.
    fn turn_away(mut self, why: &Error) {
        let until = Instant::now() + self.state.patience.min(UNTIL_TURNED_AWAY);
        if !matches!(
            self.patiently(Some(until), |input| Handshake::read(input)),
            Err(End::Gone)
        ) {
            self.refuse(why);
        }
    }

    /// The next request; `None`: there is none any more.
    fn listen(&mut self, until: Option<Instant>) -> Result<Option<Request>, End> {
        let extended = self.extended;
        self.patiently(until, |input| Request::read(input, extended))
    }

    fn patiently<T>(
        &mut self,
        until: Option<Instant>,
        read: impl FnOnce(&mut Patient<'_>) -> Result<T, Fault>,
    ) -> Result<T, End> {
        let mut input = Patient {
            wire: &mut self.wire,
            patience: self.state.patience,
            until,
            slot: self.parameters.trial.is_none().then_some(&self.slot),
            closing: &self.state.leaving,
        };
        read(&mut input).map_err(|fault| match fault {
            Fault::Io(_) if self.slot.is_evicted() => {
                End::Refused(Error::new(Kind::Memory, self.slot.why()))
            }
            Fault::Wrong(text) => End::Refused(Error::protocol(text)),
            Fault::Io(error) if error.kind() == ErrorKind::TimedOut => End::Refused(Error::new(
                Kind::Timeout,
                format!(
                    "the client did not say to its end what it wants within {} s",
                    self.state.patience.as_secs_f64()
                ),
            )),
            // Whoever says no more may still listen.
            Fault::Io(error) if error.kind() == ErrorKind::UnexpectedEof => End::Refused(
                Error::protocol("the client hung up before the end of what it had to say"),
            ),
            Fault::Io(_) => End::Gone,
        })
    }

    fn shake_hands(&mut self) -> Result<(), End> {
        let until = Instant::now() + self.state.patience;
        let hello = self.patiently(Some(until), |input| Handshake::read(input))?;
        if let Some(token) = &self.state.token {
            if !token.equals(hello.password.as_bytes()) {
                return Err(End::Refused(Error::new(
                    Kind::Auth,
                    "authentication failed: the password is not the one that this server wants",
                )));
            }
        }
        self.encoders = hello.encoders;
        self.extended = hello.is_extended();
        if self.extended {
            self.parameters = Parameters::parse(&hello.client).map_err(Error::protocol)?;
            let hello = self.state.hello();
            match self.parameters.ring {
                Some(bytes) => self.greet_with_ring(&hello, bytes)?,
                None => self.greet(&hello)?,
            }
        }
        Ok(())
    }

    pub(super) fn greet(&mut self, hello: &str) -> Result<(), End> {
        self.say(messages::hello(hello))
    }

    /// One small message.
    pub(super) fn say(&mut self, message: Vec<u8>) -> Result<(), End> {
        self.send(&[Chunk::Small(message)])
    }

    fn send(&mut self, pieces: &[Chunk]) -> Result<(), End> {
        let (state, clock) = (&self.state, &mut self.clock);
        let stall = match self.slot.is_evicted() {
            true => Duration::ZERO,
            false => state.stall,
        };
        self.wire
            .send(pieces, stall, &state.closing, clock)
            .map_err(|_| End::Gone)
    }

    /// Tells the client why, and hangs up so that it can be read.
    fn refuse(&mut self, error: &Error) {
        // It may quote what the client has said.
        let told: String = error.message.chars().take(LONGEST_ERROR).collect();
        if self.say(messages::error(&told)).is_err() {
            return;
        }
        // A socket that is closed with bytes unread throws away what it has sent.
        let _ = self.wire.socket().shutdown(Shutdown::Write);
        if self.slot.is_evicted() {
            return;
        }
        let mut last = [0; 4096];
        // Who has a ring may still have to copy out of it what comes before the error, until it hangs up.
        let patience = match self.ring {
            Some(_) => self.state.patience,
            None => LOOK_UP,
        };
        let mut input = Patient {
            wire: &mut self.wire,
            patience,
            until: Some(Instant::now() + patience),
            slot: None,
            closing: &self.state.leaving,
        };
        for _ in 0..LAST_READS {
            match std::io::Read::read(&mut input, &mut last) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if is_late(&error) => return,
                Err(_) => return,
            }
        }
    }

    fn answer(&mut self, request: Request) -> Result<(), End> {
        match request {
            Request::Query { id, text } => self.query(id, &text),
            Request::Ask { name, payload } => {
                let answer = questions::answer(&self.state, self.wire.socket(), &name, &payload)?;
                self.say(messages::answer(&answer))
            }
            Request::Freed(bytes) => self.freed(bytes),
        }
    }

    /// A partition of a query, from its first message to its end.
    fn query(&mut self, id: String, text: &str) -> Result<(), End> {
        let trial = self.parameters.trial.clone();
        if let (Some(trial), Some(interval)) = (&trial, self.parameters.sample) {
            // Before its clocks: sampling is told by itself.
            questions::open_watch(&self.state, self.wire.socket(), trial, interval);
        }
        let cpu = ThreadCpu::now();
        self.clock = StageClock::start();
        let begun = self.clock.last();
        let mut ends_at_once = false;
        if let Some(trial) = &trial {
            let accounts = &self.state.accounts;
            ends_at_once = accounts.begin(trial).load(Ordering::Relaxed);
            if !self.wire.socket().is_watched() {
                if let Some(sockets) = accounts.watch.sockets(trial) {
                    self.wire.watch(&sockets);
                }
            }
        }
        let mut counted = Counted::default();
        let outcome = self.partition(id, text, ends_at_once, &mut counted);
        self.state.count_sent(&counted);
        if let Some(trial) = &trial {
            let time = self.clock.last().saturating_duration_since(begun);
            let spent = Spent::of_worker(self.clock.totals(), time, cpu);
            self.state.accounts.end(trial, counted, spent);
        }
        outcome
    }

    fn partition(
        &mut self,
        id: String,
        text: &str,
        ends_at_once: bool,
        counted: &mut Counted,
    ) -> Result<(), End> {
        let state = self.state.clone();
        let parameters = &self.parameters;
        let shape = Shape {
            compression: parameters.compression,
            checksum: parameters.checksum,
        };
        // Without an id nobody can join it.
        let id = match id.is_empty() {
            true => format!("unnamed {} of {}", state.unnamed(), self.address),
            false => id,
        };
        let (query, mut seat, begun) = state.sessions.join(
            &id,
            text,
            shape,
            self.client,
            |query| query.join(parameters.partition, parameters.partitions, &self.address),
            || {
                Query::new(
                    id.clone(),
                    text,
                    shape,
                    parameters.trial.clone(),
                    self.client,
                    state.query_memory,
                )
            },
        )?;
        if begun {
            self.begin(&query, text);
        }
        if ends_at_once {
            query.stop();
        }
        self.content = false;
        let outcome = self.stream(&query, &mut seat, counted);
        let leaving = match (&outcome, self.content) {
            (Ok(()), _) => Leaving::Served,
            (Err(_), true) => Leaving::Satisfied,
            (Err(_), false) => Leaving::Lost,
        };
        if state.sessions.leave(&query, &seat, leaving).is_some() {
            state.totals.lost.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Runs the query: its first partition has come.
    fn begin(&self, query: &Arc<Query>, text: &str) {
        let state = &self.state;
        state.totals.queries.fetch_add(1, Ordering::Relaxed);
        let parameters = &self.parameters;
        let digests = parameters.verify.as_deref() == Some("checksum");
        let block_bytes = parameters.block_bytes.unwrap_or(BLOCK_BYTES);
        let wanted = Wanted {
            digests,
            block_bytes: block_bytes.clamp(1, state.query_memory),
        };
        match state.engine.start(&query.id, text, &wanted) {
            Err(error) => query.fail(error),
            Ok(run) => {
                let making = Making {
                    compression: query.shape.compression,
                    checksum: query.shape.checksum,
                    digests,
                    block_bytes: wanted.block_bytes,
                    handicap: state.handicap.clone(),
                };
                encode::start(query, run, self.encoders, making, &state.accounts);
            }
        }
    }

    fn stream(&mut self, query: &Query, seat: &mut Seat, counted: &mut Counted) -> Result<(), End> {
        let schema = loop {
            if let Some(schema) = query.schema(LOOK_UP)? {
                break schema;
            }
            self.look_up()?;
        };
        self.clock.mark(Stage::AwaitInput);
        self.say(schema.to_vec())?;
        let mut unheard = 0;
        loop {
            let deal = query.deal(seat, LOOK_UP);
            self.clock.mark(Stage::AwaitInput);
            match deal {
                Deal::Block(block) => {
                    counted.add(block.rows, block.payload, block.digest);
                    match &self.ring {
                        Some(_) => self.send_by_ring(&block.wrapped)?,
                        None => self.send(&block.wrapped.pieces)?,
                    }
                    unheard += block.wrapped.length;
                    if self.extended && unheard >= LISTEN_AFTER {
                        unheard = 0;
                        self.look_up()?;
                    }
                }
                Deal::Nothing => self.look_up()?,
                Deal::Failed(error) => return Err(End::Refused(error)),
                Deal::End => {
                    if self.extended {
                        let told = query.statistics(seat);
                        self.say(messages::statistics(&told))?;
                    }
                    return self.say(messages::end());
                }
            }
        }
    }

    /// Between two blocks: does the client live, and has it something to say?
    pub(super) fn look_up(&mut self) -> Result<(), End> {
        if self.state.closing.load(Ordering::Relaxed) {
            return Err(End::Gone);
        }
        match self.wire.look() {
            None => Err(End::Gone),
            // What is free in a ring is said behind a query that waits, too.
            Some(true) if self.extended && (self.next.is_none() || self.ring.is_some()) => {
                let until = Instant::now() + self.state.patience;
                match self.listen(Some(until))? {
                    None => Err(End::Gone),
                    Some(Request::Ask { name, .. }) if name == LEAVE => {
                        self.content = true;
                        Err(End::Gone)
                    }
                    Some(Request::Ask { name, payload }) => {
                        self.answer(Request::Ask { name, payload })
                    }
                    Some(Request::Freed(bytes)) => self.freed(bytes),
                    Some(Request::Query { .. }) if self.next.is_some() => {
                        Err(End::Refused(Error::usage(
                            "two queries wait for the end of one, on a connection with a ring: one may",
                        )))
                    }
                    query => {
                        self.next = query;
                        Ok(())
                    }
                }
            }
            Some(_) => Ok(()),
        }
    }
}
