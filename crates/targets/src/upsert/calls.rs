//! A lane of an upsert: one batch in flight at a time, by a driver's own future.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::work::{Builder, Prepared, Share, Work};
use crate::{add, Moved, Session, Tally};
use venturi_base::error::{Error, Fate, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};

/// A call in flight; gives its connection back with the answer.
pub type Executing<E> = Pin<Box<dyn Future<Output = (E, Result<()>)>>>;

/// A connection, or its handle where several calls share one, that executes statements.
pub trait Executor: Sized + 'static {
    type Statement: Send + Sync + 'static;

    /// What the client's time in a call is: `Send` over a socket, `Apply` in an engine that
    /// runs in this process.
    const WORK: Stage;

    /// Executes one statement of `rows` rows. An error whose fate is `Refused` or `InDoubt`
    /// leaves the connection usable.
    fn execute(self, call: Arc<Prepared<Self::Statement>>) -> Executing<Self>;

    /// Where it tells how long a call kept the thread while it waited for the answer.
    fn waits(&self) -> Option<Waits> {
        None
    }
}

/// Since when and until when a call kept the thread, that is, did not let other work have it,
/// while there was no answer. To be taken after every poll of the call.
pub type Waits = Rc<Cell<Option<(Instant, Instant)>>>;

/// Before a refused batch is tried again, doubled with each attempt.
const PAUSE: Duration = Duration::from_millis(1);

enum State<E: Executor> {
    Idle(E),
    Busy {
        call: Executing<E>,
        index: u64,
        prepared: Arc<Prepared<E::Statement>>,
        /// Attempts made before this one.
        attempts: u32,
    },
    /// The connection is lost.
    Gone,
}

pub struct Calls<B: Builder, E: Executor<Statement = B::Statement>> {
    work: Arc<Work<B>>,
    share: Share,
    state: State<E>,
    waits: Option<Waits>,
    retries: u32,
    /// Nothing is tried again from now on.
    over: bool,
    done: u64,
    tally: Tally,
}

impl<B: Builder, E: Executor<Statement = B::Statement>> Calls<B, E> {
    pub fn new(work: Arc<Work<B>>, share: Share, executor: E, retries: u32) -> Self {
        Self {
            work,
            share,
            waits: executor.waits(),
            state: State::Idle(executor),
            retries,
            over: false,
            done: 0,
            tally: Tally::default(),
        }
    }

    /// Begins the next batch; false: there is none.
    fn begin(&mut self, clock: &mut StageClock) -> Result<bool> {
        if !matches!(self.state, State::Idle(_)) {
            return Ok(!matches!(self.state, State::Gone));
        }
        let Some(index) = self.share.take() else {
            return Ok(false);
        };
        let prepared = self.work.statement(index, clock)?;
        let State::Idle(executor) = std::mem::replace(&mut self.state, State::Gone) else {
            return Ok(false);
        };
        self.state = State::Busy {
            call: executor.execute(prepared.clone()),
            index,
            prepared,
            attempts: 0,
        };
        Ok(true)
    }

    fn acknowledge(&mut self, index: u64, prepared: &Prepared<E::Statement>) -> Moved {
        self.work.acknowledged(index);
        self.tally.rows += prepared.rows;
        add(&mut self.tally.sums, &prepared.least);
        add(&mut self.tally.sums, &prepared.most);
        Moved {
            rows: prepared.rows,
            bytes: prepared.bytes,
        }
    }

    fn doubt(work: &Work<B>, tally: &mut Tally, index: u64, prepared: &Prepared<E::Statement>) {
        work.in_doubt(index);
        tally.doubt.batches += 1;
        tally.doubt.rows += prepared.rows;
        add(&mut tally.doubt.least, &prepared.least);
        add(&mut tally.doubt.most, &prepared.most);
    }
}

impl<B: Builder, E: Executor<Statement = B::Statement>> Session for Calls<B, E> {
    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Option<Moved>>> {
        if !self.begin(clock)? {
            return Poll::Ready(Ok(None));
        }
        loop {
            let State::Busy {
                call,
                index,
                prepared,
                attempts,
            } = &mut self.state
            else {
                let gone = Error::new(Kind::Internal, "no call is in flight");
                return Poll::Ready(Err(gone));
            };
            let answer = call.as_mut().poll(cx);
            if let Some((from, to)) = self.waits.as_ref().and_then(|waits| waits.take()) {
                clock.mark_at(E::WORK, from);
                clock.mark_at(Stage::AwaitReply, to);
                clock.count_reads(2);
            }
            clock.mark(E::WORK);
            let Poll::Ready((executor, answer)) = answer else {
                clock.wait(Stage::AwaitReply);
                return Poll::Pending;
            };
            self.done += 1;
            let (index, prepared, attempts) = (*index, prepared.clone(), *attempts);
            let error = match answer {
                Ok(()) => {
                    self.state = State::Idle(executor);
                    return Poll::Ready(Ok(Some(self.acknowledge(index, &prepared))));
                }
                Err(error) => error,
            };
            let refused = matches!(error.fate, Fate::Refused { .. });
            if refused && attempts < self.retries && !self.over {
                self.tally.retries += 1;
                let pause = PAUSE * 2u32.saturating_pow(attempts.min(10));
                let again = prepared.clone();
                self.state = State::Busy {
                    call: Box::pin(async move {
                        tokio::time::sleep(pause).await;
                        executor.execute(again).await
                    }),
                    index,
                    prepared,
                    attempts: attempts + 1,
                };
                continue;
            }
            if !refused {
                Self::doubt(&self.work, &mut self.tally, index, &prepared);
            }
            self.state = match error.fate {
                Fate::Fatal => State::Gone,
                _ => State::Idle(executor),
            };
            let left = refused && attempts < self.retries;
            if left && self.tally.rows > 0 {
                // The time is over, else it were tried again: no failure of a stream that gets on.
                return Poll::Ready(Ok(None));
            }
            return Poll::Ready(Err(match (left, refused && attempts > 0) {
                (true, _) => error.context(format!(
                    "refused until the trial's time was over (retries: {attempts})"
                )),
                (false, true) => error.context(format!("refused after {attempts} retries")),
                _ => error,
            }));
        }
    }

    fn is_spent(&self) -> bool {
        matches!(self.state, State::Idle(_)) && self.share.is_spent()
    }

    fn end_retries(&mut self) {
        self.over = true;
    }

    fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy { .. })
    }

    fn progress(&self) -> u64 {
        self.done
    }

    fn tally(&self) -> Tally {
        let mut tally = self.tally;
        if let State::Busy {
            index, prepared, ..
        } = &self.state
        {
            Self::doubt(&self.work, &mut tally, *index, prepared);
        }
        tally
    }
}
