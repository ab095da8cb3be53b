//! A lane: one stream on its way from its start to its end. The hot loop is here.

use std::task::{ready, Context, Poll};
use std::time::{Duration, Instant};

use super::errors::Ledger;
use super::marks::Marks;
use super::pace::{Pace, Slots};
use super::stop::Stop;
use venturi_base::error::{Error, Fate, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock, StageTotals};
use venturi_base::meter::counters::{Counters, Counts};
use venturi_base::meter::histogram::Recorder;
use venturi_base::spec::Operation;
use venturi_targets::{Session, Tally};

/// What all lanes of a trial go by.
#[derive(Debug)]
pub struct Rules<'a> {
    pub operation: Operation,
    pub start: Instant,
    /// Fixed time: no new batch from here on.
    pub deadline: Option<Instant>,
    pub stop: &'a Stop,
    pub counters: &'a [Counters],
    pub errors: &'a Ledger,
    /// No progress for so long is a failure.
    pub timeout: Duration,
    /// How long one lane may keep the thread while its batches are ready at once.
    pub burst: Duration,
}

/// A thread's latencies.
#[derive(Debug, Clone)]
pub struct Latencies {
    pub service: Recorder,
    pub response: Option<Recorder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Moving,
    Finishing,
    Done,
}

/// Since when a lane could have gone on, as far as its thread can know.
#[derive(Debug, Clone, Copy)]
pub struct Readiness {
    /// When its waker was called.
    pub woken: Instant,
    /// The thread's last round of turns, where it looked at the sockets straight after it,
    /// without sleeping: what was found then may have been there since the round's start.
    pub round: Option<(Instant, Instant)>,
}

impl Readiness {
    /// How much of the wait from `since` to `now` the thread spent on other lanes while this
    /// one was, or may have been, ready.
    fn thread_time(&self, since: Instant, now: Instant) -> Duration {
        let queued = now.saturating_duration_since(self.woken.max(since));
        match self.round {
            Some((from, to)) if self.woken >= to => {
                queued + to.saturating_duration_since(from.max(since))
            }
            _ => queued,
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is more to do at once.
    Again,
    /// Its waker will tell.
    Pending,
    Done,
}

/// What a lane measured.
#[derive(Debug)]
pub struct Outcome {
    pub stream: usize,
    pub connect_ns: u64,
    pub started: Instant,
    /// From when on its stages are accounted for.
    pub since: Instant,
    pub first: Option<Instant>,
    /// When the last batch was decoded (get) or all acknowledged (put).
    pub end: Instant,
    pub marks: Marks,
    pub slots: Option<Slots>,
    pub late: u64,
    pub max_lag_ns: u64,
    pub stages: StageTotals,
    pub clock_reads: u64,
    pub tally: Tally,
}

pub struct Lane {
    pub stream: usize,
    /// Of the trial's counters, those of its stream: they are this process's only.
    pub counter: usize,
    connect_ns: u64,
    session: Box<dyn Session>,
    clock: StageClock,
    state: State,
    /// A batch was asked for and has not come.
    in_flight: bool,
    /// Waiting for the schedule, not for the peer.
    idle: bool,
    /// When the batch in hand was begun: the end of the one before, or (open loop) when
    /// it was sent.
    begun: Instant,
    /// Open loop: when the batch in hand should have been sent.
    due: Option<Instant>,
    pace: Option<Pace>,
    marks: Marks,
    started: Instant,
    begun_at: Instant,
    first: Option<Instant>,
    last: Instant,
    end: Instant,
    /// The stages up to the last batch of a get: what follows is not measured.
    stages: Option<StageTotals>,
    tally: Tally,
    /// What had been moved when it was last looked at, and since when it has been so.
    seen: (u64, u64),
    since: Instant,
    /// Of this lane; its stream may have others.
    batches: u64,
}

impl Lane {
    /// The lane counts time from the start instant. It reads no clock: its caller passes the time,
    /// and its session marks the stages.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        stream: usize,
        counter: usize,
        lanes: usize,
        session: Box<dyn Session>,
        connect_ns: u64,
        pace: Option<Pace>,
        start: Instant,
        now: Instant,
    ) -> Self {
        let clock = StageClock::since(start.min(now));
        let clock_start = clock.last();
        Self {
            stream,
            counter,
            connect_ns,
            session,
            clock,
            state: State::Moving,
            in_flight: false,
            idle: false,
            begun: now,
            due: None,
            pace,
            marks: Marks::new(lanes),
            started: now,
            begun_at: clock_start,
            first: None,
            last: now,
            end: now,
            stages: None,
            tally: Tally::default(),
            seen: (0, 0),
            since: now,
            batches: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Drops the session and hands over what was measured.
    pub fn outcome(self) -> Outcome {
        let pace = self.pace.as_ref();
        Outcome {
            stream: self.stream,
            connect_ns: self.connect_ns,
            started: self.started,
            since: self.begun_at,
            first: self.first,
            end: self.end,
            slots: pace.map(|pace| pace.slots),
            late: pace.map_or(0, |pace| pace.late),
            max_lag_ns: pace.map_or(0, |pace| pace.max_lag_ns),
            stages: self.stages.unwrap_or_else(|| self.clock.totals()),
            clock_reads: self.clock.reads(),
            tally: self.tally,
            marks: self.marks,
        }
    }

    /// Goes on at `now` for a burst, or until it must wait. After an error, `close` it.
    pub fn turn(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        rules: &Rules<'_>,
        latencies: &mut Latencies,
        readiness: &Readiness,
    ) -> Result<Turn> {
        if self.state == State::Done {
            return Ok(Turn::Done);
        }
        // While it waits for the schedule, the pace keeps the time.
        if !self.idle {
            let thread = readiness.thread_time(self.clock.last(), now);
            self.clock.resume(now, thread);
            self.clock.count_reads(2); // this one, and its waker's
        }
        let mut until = (!self.idle).then(|| self.clock.last() + rules.burst);
        while self.state == State::Moving {
            match self.step(cx, now, rules, latencies) {
                Poll::Pending => return Ok(Turn::Pending),
                Poll::Ready(more) => match more? {
                    true => {
                        let now = self.clock.last();
                        if now >= *until.get_or_insert(now + rules.burst) {
                            self.keep_stages();
                            self.clock.wait(Stage::AwaitThread);
                            return Ok(Turn::Again);
                        }
                    }
                    false => {
                        self.keep_stages();
                        self.state = State::Finishing;
                    }
                },
            }
        }
        match self.session.poll_finish(cx, &mut self.clock) {
            Poll::Pending => return Ok(Turn::Pending),
            Poll::Ready(finished) => finished?,
        }
        self.close(rules.operation);
        Ok(Turn::Done)
    }

    /// Moves one batch; false: there are no more.
    #[inline]
    fn step(
        &mut self,
        cx: &mut Context<'_>,
        turn: Instant,
        rules: &Rules<'_>,
        latencies: &mut Latencies,
    ) -> Poll<Result<bool>> {
        if !self.in_flight {
            if rules.stop.is_set() || rules.deadline.is_some_and(|at| self.clock.last() >= at) {
                if std::mem::take(&mut self.idle) {
                    self.clock.mark(Stage::AwaitSchedule);
                }
                return Poll::Ready(Ok(false));
            }
            if self.pace.is_some() {
                self.keep_stages();
                if self.session.is_spent() || !ready!(self.poll_slot(cx, turn, rules)) {
                    return Poll::Ready(Ok(false));
                }
            }
            self.in_flight = true;
        } else if rules.deadline.is_some_and(|at| turn >= at) {
            self.session.end_retries();
        }
        let moved = match self.session.poll_batch(cx, &mut self.clock) {
            Poll::Ready(Ok(moved)) => moved,
            Poll::Ready(Err(error)) => {
                self.in_flight = false;
                let now = self.clock.last();
                self.begun = now;
                self.due = None;
                let goes_on = error.fate != Fate::Fatal;
                let at = ns(now, rules.start);
                return Poll::Ready(
                    match rules.errors.note(&error, self.stream, at) && goes_on {
                        true => Ok(true),
                        false => Err(error),
                    },
                );
            }
            Poll::Pending => {
                self.keep_stages();
                return Poll::Pending;
            }
        };
        self.in_flight = false;
        let Some(moved) = moved else {
            self.keep_stages();
            return Poll::Ready(Ok(false));
        };
        // The session has marked the end of the batch: no clock is read here.
        let now = self.clock.last();
        latencies.service.record(ns(now, self.begun));
        if let (Some(response), Some(due)) = (&mut latencies.response, self.due.take()) {
            response.record(ns(now, due));
        }
        if self.first.is_none() {
            self.first = Some(now);
        }
        self.begun = now;
        self.last = now;
        self.stages = None;
        self.marks
            .add(ns(now, rules.start), moved.rows, moved.bytes);
        self.batches += 1;
        rules.counters[self.counter].add(moved.rows, moved.bytes);
        Poll::Ready(Ok(true))
    }

    /// The stages as they were at the last batch, in case it was a get's last one. To be kept
    /// at the first look after it and before any wait, not with every batch; what that look took
    /// is left out.
    fn keep_stages(&mut self) {
        if self.stages.is_some() {
            return;
        }
        let mut stages = self.clock.totals();
        let measured = match self.first {
            Some(_) => ns(self.last, self.begun_at),
            None => 0,
        };
        let mut after = stages.total().saturating_sub(measured);
        for stage in [
            Stage::Receive,
            Stage::AwaitInput,
            Stage::Apply,
            Stage::Unpack,
            Stage::Decode,
            Stage::Plugin,
            Stage::Driver,
        ] {
            let spent = &mut stages.0[stage as usize];
            let part = after.min(*spent);
            *spent -= part;
            after -= part;
        }
        self.stages = Some(stages);
    }

    /// Waits for the next slot of the schedule; false: no more before the end.
    fn poll_slot(&mut self, cx: &mut Context<'_>, turn: Instant, rules: &Rules<'_>) -> Poll<bool> {
        let Some(pace) = &mut self.pace else {
            return Poll::Ready(true);
        };
        let slot = pace.slot();
        let due = rules.start + Duration::from_nanos(pace.slots.due(slot));
        if rules.deadline.is_some_and(|end| due >= end) {
            return Poll::Ready(false);
        }
        // Not the turn's first batch: the one before it has ended just now.
        let now = turn.max(self.clock.last());
        let waits = pace.poll_until(due, now, cx).is_pending();
        let waited = std::mem::replace(&mut self.idle, waits);
        if waits {
            if !waited {
                self.session.idle();
            }
            return Poll::Pending;
        }
        // Waited for until it was due; what came after is the thread's.
        self.clock.mark_at(Stage::AwaitSchedule, due);
        self.clock.mark_at(Stage::AwaitThread, now);
        if rules.deadline.is_some_and(|end| now >= end) {
            return Poll::Ready(false);
        }
        pace.take(ns(now, due));
        self.begun = now;
        self.due = Some(due);
        Poll::Ready(true)
    }

    /// Why this lane must be given up, if it must: no progress for too long. Progress is a
    /// batch, or a byte of one; a peer that merely shows signs of life stalls all the same.
    /// To be called now and then.
    pub fn stalled(&mut self, now: Instant, rules: &Rules<'_>, moved: Counts) -> Option<Error> {
        let (timeout, operation) = (rules.timeout, rules.operation);
        let seen = (self.batches, self.session.progress());
        if self.state == State::Done || self.idle || seen != self.seen {
            (self.seen, self.since) = (seen, now);
            return None;
        }
        if now.saturating_duration_since(self.since) < timeout {
            return None;
        }
        let rows = moved.rows;
        let what = match (self.state, operation) {
            (State::Finishing, _) => "no acknowledgement",
            (_, Operation::Upsert) => "no answer",
            (_, Operation::Ingest) => "the peer takes nothing",
            _ => "no data",
        };
        let what = self.session.waits_for().unwrap_or_else(|| what.into());
        let unit = match operation {
            Operation::Ingest => "points",
            _ => "rows",
        };
        let seconds = timeout.as_secs_f64();
        Some(Error::new(
            Kind::Timeout,
            format!("{what} for {seconds} s ({unit} so far: {rows})"),
        ))
    }

    /// The end, good or bad; takes the session's tally. The session itself lives on:
    /// closing its connection must not disturb the lanes that still run.
    pub fn close(&mut self, operation: Operation) {
        self.state = State::Done;
        self.end = match operation {
            Operation::Get => self.last,
            Operation::Put | Operation::Upsert | Operation::Ingest => self.clock.last(),
        };
        match operation {
            Operation::Get => self.keep_stages(),
            Operation::Put | Operation::Upsert | Operation::Ingest => self.stages = None,
        }
        self.session.idle();
        self.tally = self.session.tally();
    }
}

#[inline]
fn ns(now: Instant, earlier: Instant) -> u64 {
    now.saturating_duration_since(earlier).as_nanos() as u64
}

#[cfg(test)]
mod tests;
