//! A target in memory whose streams follow a script.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::conductor::unix_ns;
use venturi_base::error::{Error, Fate, Kind, Result};
use venturi_base::meter::align::Clock;
use venturi_base::meter::clock::{Stage, StageClock, StageTotals, Workers};
use venturi_base::meter::sampler::monotonic_at;
use venturi_base::meter::series::Series;
use venturi_base::spec::Verify;
use venturi_targets::{
    Identity, LocalFuture, Moved, Observed, ServerReport, Session, Tally, Target, Verification,
    Watched,
};

pub const ROWS: u64 = 10;
pub const BYTES: u64 = 320;

/// What a stream does after its batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Then {
    End,
    Fail,
    /// Never again a word.
    Stall,
    Panic,
}

/// One stream's script.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    pub batches: u64,
    pub then: Then,
    /// Every batch waits for the runtime's timer.
    pub waits: bool,
    pub finish_stalls: bool,
    /// Every n-th batch fails so.
    pub fails: Option<(u64, Fate)>,
}

impl Script {
    pub const ENDLESS: Script = Script {
        batches: u64::MAX,
        then: Then::End,
        waits: true,
        finish_stalls: false,
        fails: None,
    };

    pub fn of(batches: u64) -> Script {
        Script {
            batches,
            waits: false,
            ..Script::ENDLESS
        }
    }

    pub fn then(self, then: Then) -> Script {
        Script { then, ..self }
    }
}

/// A step of the set-up.
#[derive(Clone, Default)]
pub struct Step {
    pub never_ends: bool,
    /// When it was taken last, by the clock of the day; 0: not yet.
    pub taken_unix_ns: Arc<AtomicU64>,
}

impl Step {
    async fn take(&self) {
        self.taken_unix_ns.store(unix_ns(), Ordering::SeqCst);
        if self.never_ends {
            std::future::pending().await
        }
    }

    pub fn taken(&self) -> u64 {
        self.taken_unix_ns.load(Ordering::SeqCst)
    }
}

#[derive(Default)]
pub struct Peer {
    pub scripts: Vec<Script>,
    pub plan: Step,
    pub plan_panics: bool,
    pub open: Step,
    pub grouped: bool,
    /// Sessions per stream, where there is more than one.
    pub in_flight: usize,
    pub verify_fails: Option<Kind>,
    pub mismatch: Option<&'static str>,
    pub report: Option<Kind>,
    /// The server samples, by a clock that is so far ahead of ours.
    pub ahead_ns: Option<i64>,
    pub plan_fails: Option<Kind>,
    pub clean: Option<Kind>,
    pub cleaned: Arc<AtomicBool>,
}

impl Peer {
    pub fn new(scripts: Vec<Script>) -> Self {
        Self {
            scripts,
            ..Self::default()
        }
    }

    pub fn all(streams: usize, script: Script) -> Self {
        Self::new(vec![script; streams])
    }
}

impl Target for Peer {
    fn plan<'a>(&'a mut self) -> LocalFuture<'a, Result<Identity>> {
        assert!(!self.plan_panics, "planned to panic");
        Box::pin(async {
            self.plan.take().await;
            fail(self.plan_fails, "cannot plan")?;
            Ok(Identity {
                address: "127.0.0.1:1".into(),
                protocol: "test".into(),
                pid: Some(std::process::id()),
                ..Identity::default()
            })
        })
    }

    fn planned_rows(&self) -> Option<u64> {
        None
    }

    fn groups(&self, streams: usize) -> Vec<Vec<usize>> {
        match self.grouped {
            true => vec![(0..streams).collect()],
            false => (0..streams).map(|stream| vec![stream]).collect(),
        }
    }

    fn open<'a>(&'a self, group: &'a [usize]) -> LocalFuture<'a, Result<Vec<Box<dyn Session>>>> {
        Box::pin(async move {
            self.open.take().await;
            let mut sessions: Vec<Box<dyn Session>> = Vec::new();
            for &stream in group {
                let next = Rc::new(Cell::new(0));
                for _ in 0..self.in_flight.max(1) {
                    sessions.push(Box::new(Stream {
                        script: self.scripts[stream],
                        next: next.clone(),
                        number: None,
                        tally: Tally::default(),
                        sleep: None,
                    }));
                }
            }
            Ok(sessions)
        })
    }

    fn verify<'a>(&'a self, tallies: &'a [Tally]) -> LocalFuture<'a, Result<Verification>> {
        Box::pin(async move {
            fail(self.verify_fails, "cannot verify")?;
            let rows = tallies.iter().map(|tally| tally.rows).sum();
            let mut verified = Verification::of(Verify::Checksum, rows);
            verified.achieved = "count";
            verified.mismatch = self.mismatch.map(str::to_owned);
            Ok(verified)
        })
    }

    fn observed(&self) -> Option<&dyn Observed> {
        Some(self)
    }

    fn clean<'a>(&'a self) -> LocalFuture<'a, Result<()>> {
        Box::pin(async {
            self.cleaned.store(true, Ordering::SeqCst);
            fail(self.clean, "it sticks")
        })
    }
}

impl Observed for Peer {
    fn server_report<'a>(&'a self) -> LocalFuture<'a, Result<Option<ServerReport>>> {
        Box::pin(async {
            fail(self.report, "no report today")?;
            let mut stages = StageTotals::default();
            stages.0[Stage::Encode as usize] = 5;
            let (workers, time_ns) = (1, 5);
            Ok(Some(ServerReport {
                pools: Default::default(),
                stages,
                workers: Some(Workers { workers, time_ns }),
                user_ns: 7,
                system_ns: 8,
            }))
        })
    }

    fn watch<'a>(&'a self, _: Duration) -> LocalFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn watched<'a>(&'a self) -> LocalFuture<'a, Result<Option<Watched>>> {
        Box::pin(async {
            Ok(self.ahead_ns.map(|offset_ns| {
                let mut series = Series::default();
                series.begin_row(monotonic_at(Instant::now()) + offset_ns);
                series.end_row(0);
                let clock = Clock {
                    offset_ns,
                    uncertainty_ns: 0,
                };
                Watched { series, clock }
            }))
        })
    }
}

fn fail(kind: Option<Kind>, message: &str) -> Result<()> {
    kind.map_or(Ok(()), |kind| Err(Error::new(kind, message)))
}

struct Stream {
    script: Script,
    /// Of the stream's batches, the first that none of its sessions has begun.
    next: Rc<Cell<u64>>,
    /// The batch that is in flight.
    number: Option<u64>,
    tally: Tally,
    sleep: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl Stream {
    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let wait = Duration::from_millis(1);
        let start = || Box::pin(tokio::time::sleep(wait));
        let sleep = self.sleep.get_or_insert_with(start);
        let slept = std::future::Future::poll(sleep.as_mut(), cx);
        if slept.is_ready() {
            self.sleep = None;
        }
        slept
    }

    fn begin(&mut self) -> Option<u64> {
        if self.number.is_none() && self.next.get() < self.script.batches {
            self.number = Some(self.next.get());
            self.next.set(self.next.get() + 1);
        }
        self.number
    }
}

impl Session for Stream {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        let Some(number) = self.begin() else {
            return match self.script.then {
                Then::End => Poll::Ready(Ok(None)),
                Then::Fail => Poll::Ready(Err(Error::new(Kind::Server, "no more today"))),
                Then::Stall => Poll::Pending,
                Then::Panic => panic!("scripted"),
            };
        };
        if self.script.waits && self.poll_sleep(cx).is_pending() {
            clock.wait(Stage::AwaitInput);
            return Poll::Pending;
        }
        self.number = None;
        clock.mark(Stage::Receive);
        if let Some((every, fate)) = self.script.fails {
            if (number + 1).is_multiple_of(every) {
                if !matches!(fate, Fate::Refused { .. }) {
                    self.tally.doubt.batches += 1;
                    self.tally.doubt.rows += ROWS;
                }
                let error = Error::new(Kind::Server, format!("batch {number}: no"));
                return Poll::Ready(Err(error.with_code(1213).with_fate(fate)));
            }
        }
        self.tally.rows += ROWS;
        self.tally.wire_bytes += BYTES + 1;
        let (rows, bytes) = (ROWS, BYTES);
        Poll::Ready(Ok(Some(Moved { rows, bytes })))
    }

    fn is_spent(&self) -> bool {
        self.number.is_none()
            && matches!(self.script.then, Then::End)
            && self.next.get() >= self.script.batches
    }

    fn poll_finish(&mut self, _: &mut Context<'_>, clock: &mut StageClock) -> Poll<Result<()>> {
        if self.script.finish_stalls {
            clock.wait(Stage::AwaitReply);
            return Poll::Pending;
        }
        clock.mark(Stage::Send);
        Poll::Ready(Ok(()))
    }

    fn tally(&self) -> Tally {
        self.tally
    }
}
