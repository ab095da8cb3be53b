//! Watches over the client threads: opens the barrier, passes a cancel on, takes the samples.
//!
//! Where other processes run streams of the trial too, the barrier opens at an instant that
//! somebody else gives, on this host's clock, once all streams here are ready.

use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, watch};

use super::control::Phase;
use super::observe::Observer;
use super::record::{Failure, Record};
use super::stop::{RUNNING_TICK, TICK};
use super::worker::{Event, Gate, Shared};
use venturi_base::error::{Error, Kind};
use venturi_base::meter::cpu::{self, CpuTime};

/// The start instant lies this far ahead when it is set, so that every thread is awake.
pub const HEAD_START: Duration = Duration::from_millis(1);

/// So long before a start that was given the threads hear of it: what is read of processes and
/// sockets just before takes a millisecond or two.
const NOTICE: Duration = Duration::from_millis(5);

/// The start of a share.
#[derive(Debug, Clone, Copy)]
struct Start {
    start: Instant,
    unix_ns: u64,
    /// How long ago it was when it was heard of.
    late_ns: u64,
}

pub struct Conductor<'a> {
    pub shared: &'a Shared<'a>,
    pub threads: usize,
    /// Processes of this host that serve.
    pub servers: Vec<u32>,
    pub began: Instant,
    pub start: Option<Instant>,
    pub setup_ns: Option<u64>,
    /// Of this process and of the server.
    pub cpu_before: (CpuTime, Option<CpuTime>),
    pub cpu_after: (CpuTime, Option<CpuTime>),
    pub observer: &'a mut Observer,
    pub ready: usize,
    pub ended: usize,
    /// Until when a share's start is waited for.
    until: Option<Instant>,
    given: Option<Start>,
}

impl<'a> Conductor<'a> {
    pub fn new(
        shared: &'a Shared<'a>,
        threads: usize,
        began: Instant,
        observer: &'a mut Observer,
    ) -> Self {
        Self {
            shared,
            threads,
            servers: Vec::new(),
            began,
            start: None,
            setup_ns: None,
            cpu_before: Default::default(),
            cpu_after: Default::default(),
            observer,
            ready: 0,
            ended: 0,
            until: None,
            given: None,
        }
    }

    /// Returns when all threads are gone.
    pub async fn conduct(
        &mut self,
        gate: watch::Sender<Gate>,
        mut events: mpsc::UnboundedReceiver<Event>,
        record: &mut Record,
    ) {
        loop {
            let event = tokio::select! {
                biased;
                event = events.recv() => Ok(event),
                () = self.shared.control.changed() => Err(()),
                () = tokio::time::sleep(self.next_look()) => Err(()),
            };
            match event {
                Ok(None) => return,
                Ok(Some(Event::Ready)) => self.one_is_ready(&gate, record),
                Ok(Some(Event::Ended)) => {
                    self.cpu_after = self.cpu();
                    self.one_has_ended(&gate);
                }
                Err(()) => {}
            }
            if self.shared.control.cancelled() {
                self.shared.stop.set(Failure::new(Error::cancelled(), None));
            }
            self.approach(&gate, record);
            if self.shared.stop.is_set() && matches!(*gate.borrow(), Gate::Closed) {
                gate.send_replace(Gate::Off);
            }
        }
    }

    fn next_look(&self) -> Duration {
        match (self.start, self.given) {
            (Some(_), _) => RUNNING_TICK,
            (None, Some(given)) => {
                let left = given.start.saturating_duration_since(Instant::now());
                TICK.min(left.saturating_sub(NOTICE))
            }
            (None, None) => TICK,
        }
    }

    fn one_is_ready(&mut self, gate: &watch::Sender<Gate>, record: &mut Record) {
        self.ready += 1;
        if self.ready < self.threads {
            return;
        }
        self.setup_ns = Some(self.began.elapsed().as_nanos() as u64);
        self.shared.control.enter(Phase::Ready);
        if self.start.is_some() || self.shared.stop.is_set() {
            return;
        }
        if let Some(sockets) = self.shared.target.sockets() {
            sockets.begin();
        }
        if self.shared.spec.share.is_some() {
            self.until = Some(Instant::now() + self.shared.timeout());
            return;
        }
        self.observer.take();
        let unix_ns = unix_ns() + HEAD_START.as_nanos() as u64;
        self.open(gate, record, Instant::now() + HEAD_START, unix_ns);
    }

    /// A share that is ready waits for its start, and for the moment itself.
    fn approach(&mut self, gate: &watch::Sender<Gate>, record: &mut Record) {
        let Some(until) = self.until else { return };
        if self.start.is_some() || self.shared.stop.is_set() {
            return;
        }
        if self.given.is_none() {
            let heard = self.shared.control.agreed_start();
            let fails = match heard.map(|unix_ns| self.take(unix_ns)) {
                Some(Ok(given)) => {
                    self.given = Some(given);
                    None
                }
                Some(Err(error)) => Some(error),
                None if Instant::now() >= until => Some(Error::new(
                    Kind::Timeout,
                    format!(
                        "nobody gave the start for {} s: the streams of this process are ready, \
                         but those of the others are not, or who lines them up is gone",
                        self.shared.timeout().as_secs_f64()
                    ),
                )),
                None => None,
            };
            if let Some(error) = fails {
                self.shared.stop.set(Failure::new(error, None));
            }
        }
        let Some(given) = self.given else { return };
        if given.start.saturating_duration_since(Instant::now()) <= NOTICE {
            self.observer.take();
            record.times.start_skew_ns = given.late_ns;
            self.open(gate, record, given.start, given.unix_ns + given.late_ns);
        }
    }

    /// A moment of this host's clock, as the trial goes by it; one that is past is now.
    fn take(&self, unix_ns: u64) -> Result<Start, Error> {
        let before = Instant::now();
        let wall = self::unix_ns();
        let now = before + before.elapsed() / 2;
        let ahead = Duration::from_nanos(unix_ns.saturating_sub(wall));
        let timeout = self.shared.timeout();
        if ahead > timeout {
            return Err(Error::usage(format!(
                "the start lies {:.1} s ahead of this host's clock, more than the time-out of {} s: \
                 is the clock right?",
                ahead.as_secs_f64(),
                timeout.as_secs_f64()
            )));
        }
        Ok(Start {
            start: now + ahead,
            unix_ns,
            late_ns: wall.saturating_sub(unix_ns),
        })
    }

    fn open(
        &mut self,
        gate: &watch::Sender<Gate>,
        record: &mut Record,
        start: Instant,
        unix_ns: u64,
    ) {
        record.times.started_unix_ns = unix_ns;
        self.start = Some(start);
        self.note_start(record);
        gate.send_replace(Gate::Open(start));
        self.shared
            .control
            .start(start, self.shared.counters.clone());
    }

    fn one_has_ended(&mut self, gate: &watch::Sender<Gate>) {
        self.ended += 1;
        if self.ended == self.threads {
            self.observer.stop();
            gate.send_replace(Gate::Leave);
        }
    }

    pub fn note_start(&mut self, record: &mut Record) {
        let Some(start) = self.start else { return };
        self.cpu_before = self.cpu();
        self.cpu_after = self.cpu_before;
        self.observer.begin(start, record);
    }

    fn cpu(&self) -> (CpuTime, Option<CpuTime>) {
        (
            cpu::own(),
            cpu::together(self.servers.iter().map(|pid| cpu::of_process(*pid))),
        )
    }
}

pub fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}
