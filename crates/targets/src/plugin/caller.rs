//! Calls into somebody's code, each stream's on a thread of its own; and those that nobody waits for any more.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{mpsc as blocking, Arc};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::{Condvar, Mutex};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use super::session::{only_empty, MOST_EMPTY};
use super::{Consumer, Plugin, Producer, Taken};
use crate::read::{Checks, Counted};
use venturi_base::data::payload_bytes;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::Operation;

/// So many calls may run at a time.
pub struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Turns {
    pub fn new(calls: usize) -> Self {
        Self {
            free: Mutex::new(calls.max(1)),
            freed: Condvar::new(),
        }
    }

    fn take(&self) -> Turn<'_> {
        let mut free = self.free.lock();
        while *free == 0 {
            self.freed.wait(&mut free);
        }
        *free -= 1;
        Turn(self)
    }
}

struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const ABANDONED: u8 = 2;

/// Whether a call runs, and whether somebody waits for it. Counted as stuck while it does and nobody does.
struct Watch {
    state: AtomicU8,
    stuck: Arc<AtomicUsize>,
}

impl Watch {
    fn new(stuck: Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(IDLE),
            stuck,
        })
    }

    fn begin(&self) {
        self.state.store(RUNNING, Ordering::Release);
    }

    fn done(&self) {
        if self.state.swap(IDLE, Ordering::AcqRel) == ABANDONED {
            self.stuck.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn is_abandoned(&self) -> bool {
        self.state.load(Ordering::Acquire) == ABANDONED
    }

    fn abandon(&self) {
        // Counted first: whoever ends it counts it off.
        self.stuck.fetch_add(1, Ordering::AcqRel);
        let (now, then) = (Ordering::AcqRel, Ordering::Acquire);
        let runs = self
            .state
            .compare_exchange(RUNNING, ABANDONED, now, then)
            .is_ok();
        if !runs {
            self.stuck.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Abandons a call when it is dropped.
struct Waiting(Arc<Watch>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn start(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name)
        .spawn(work)
        .map(drop)
        .map_err(|error| Error::new(Kind::Io, format!("a thread to call the code from: {error}")))
}

fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Error::panicked(&*panic)))
}

fn gone() -> Error {
    Error::new(Kind::Internal, "the thread that called the code has ended")
}

/// One call that belongs to no stream.
pub async fn once<T: Send + 'static>(
    stuck: Arc<AtomicUsize>,
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let watch = Watch::new(stuck);
    let (tell, told) = oneshot::channel();
    watch.begin();
    let waiting = Waiting(watch.clone());
    start("plugin".into(), move || {
        let answer = guarded(call);
        watch.done();
        // Who has given up wants no answer.
        let _ = tell.send(answer);
    })
    .inspect_err(|_| waiting.0.done())?;
    let answer = told.await;
    answer.unwrap_or_else(|_| Err(gone()))
}

/// What a stream's code is asked for.
pub enum Ask {
    Next,
    /// Batches as they come, which are counted and checked, until they have so many rows together.
    Count(usize, Checks),
    Write(RecordBatch),
    /// No more follows: of a put its count, of a get nothing.
    Finish,
}

pub enum Answer {
    Opened(Option<SchemaRef>),
    Batch(RecordBatch),
    /// And how long the checks took. `None`: there are no more.
    Counted(Option<Counted>, Duration),
    Written,
    Finished(Option<Taken>),
    /// A get has no more.
    Ended,
}

pub struct Finished {
    pub answer: Result<Answer>,
    pub began: Instant,
}

enum End {
    Producer(Box<dyn Producer>),
    Consumer(Box<dyn Consumer>),
}

impl End {
    fn open(code: &dyn Plugin, operation: Operation, stream: usize) -> Result<Self> {
        Ok(match operation {
            Operation::Get => Self::Producer(code.produce(stream)?),
            _ => Self::Consumer(code.consume(stream)?),
        })
    }

    fn answer(&mut self, ask: Ask) -> Result<Answer> {
        Ok(match (self, ask) {
            (Self::Producer(it), Ask::Next) => it.next()?.map_or(Answer::Ended, Answer::Batch),
            (Self::Producer(it), Ask::Count(rows, checks)) => {
                let (counted, checked) = count(&mut **it, rows, &checks)?;
                Answer::Counted(counted, checked)
            }
            (Self::Consumer(it), Ask::Write(batch)) => {
                it.write(&batch)?;
                Answer::Written
            }
            (Self::Consumer(it), Ask::Finish) => Answer::Finished(Some(it.finish()?)),
            (Self::Producer(_), _) => Answer::Finished(None),
            (Self::Consumer(_), Ask::Next | Ask::Count(..)) => return Err(gone()),
        })
    }
}

fn count(
    producer: &mut dyn Producer,
    rows: usize,
    checks: &Checks,
) -> Result<(Option<Counted>, Duration)> {
    let (mut counted, mut checked, mut empty) = (Counted::default(), Duration::ZERO, 0);
    while counted.moved.rows < rows as u64 {
        let Some(batch) = producer.next()? else { break };
        // No number of them makes up the rows that are wanted.
        if batch.num_rows() == 0 {
            empty += 1;
            if empty > MOST_EMPTY {
                return Err(Error::new(Kind::Plugin, only_empty()));
            }
            continue;
        }
        empty = 0;
        let bytes = payload_bytes(&batch);
        producer.admit(bytes)?;
        counted.add(batch.num_rows(), bytes);
        if !checks.are_none() {
            let began = Instant::now();
            checks.add(&batch, &mut counted)?;
            checked += began.elapsed();
        }
    }
    let came = counted.moved.rows > 0;
    Ok((came.then_some(counted), checked))
}

/// Whose code it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callee {
    /// In errors.
    pub name: &'static str,
    /// Of its calls' time.
    pub stage: Stage,
}

/// One stream's calls. Dropped while one runs, it is not waited for: its thread ends when the call returns.
pub struct Caller {
    ask: blocking::Sender<Ask>,
    told: UnboundedReceiver<Finished>,
    watch: Waiting,
    callee: Callee,
    /// The call that runs, and when it was asked for.
    running: Option<(&'static str, Instant)>,
}

impl Caller {
    /// Makes the stream's end; with its schema, where it is a producer.
    pub async fn open(
        (callee, code): (Callee, Arc<dyn Plugin>),
        operation: Operation,
        stream: usize,
        turns: Arc<Turns>,
        stuck: Arc<AtomicUsize>,
    ) -> Result<(Self, Option<SchemaRef>)> {
        let (ask, asked) = blocking::channel();
        let (tell, told) = mpsc::unbounded_channel();
        let watch = Watch::new(stuck);
        watch.begin();
        let caller = Self {
            ask,
            told,
            watch: Waiting(watch.clone()),
            callee,
            running: None,
        };
        start(format!("plugin-{stream}"), move || {
            let called = code.clone();
            code.within(&mut move || {
                serve(&*called, (operation, stream), &turns, &watch, &asked, &tell);
            });
        })
        .inspect_err(|_| caller.watch.0.done())?;
        let mut caller = caller;
        match caller.told.recv().await.ok_or_else(gone)?.answer? {
            Answer::Opened(schema) => Ok((caller, schema)),
            _ => Err(gone()),
        }
    }

    /// Begins a call, which is `called` so where it never ends.
    pub fn ask(&mut self, called: &'static str, what: Ask, clock: &StageClock) -> Result<()> {
        self.running = Some((called, clock.last()));
        self.watch.0.begin();
        self.ask.send(what).map_err(|_| {
            self.watch.0.done();
            gone()
        })
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The answer of the call that runs, with its time on the clock.
    pub fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        clock: &mut StageClock,
    ) -> Poll<Result<Answer>> {
        let stage = self.callee.stage;
        let Poll::Ready(told) = self.told.poll_recv(cx) else {
            clock.mark(stage);
            clock.wait(stage);
            return Poll::Pending;
        };
        clock.mark(stage);
        let told = told.ok_or_else(gone)?;
        if let Some((_, asked)) = self.running.take() {
            // Until its thread had come to it, and other streams' calls had left it their turn.
            let queued = told.began.saturating_duration_since(asked);
            clock.move_time(stage, Stage::AwaitThread, queued);
        }
        Poll::Ready(told.answer)
    }

    pub fn waits_for(&self) -> Option<String> {
        let name = self.callee.name;
        self.running
            .map(|(called, _)| format!("{name} has not returned from a call ({called})"))
    }
}

/// The thread of a stream: makes its end, answers, and drops the end, all of it here.
fn serve(
    code: &dyn Plugin,
    (operation, stream): (Operation, usize),
    turns: &Turns,
    watch: &Watch,
    asked: &blocking::Receiver<Ask>,
    tell: &UnboundedSender<Finished>,
) {
    let began = Instant::now();
    let opened = guarded(|| {
        let end = End::open(code, operation, stream)?;
        let schema = match &end {
            End::Producer(producer) => Some(producer.schema()),
            End::Consumer(_) => None,
        };
        Ok((end, schema))
    });
    watch.done();
    let (mut end, opened) = match opened {
        Ok((end, schema)) => (Some(end), Ok(Answer::Opened(schema))),
        Err(error) => (None, Err(error)),
    };
    let told = Finished {
        answer: opened,
        began,
    };
    if tell.send(told).is_err() {
        return;
    }
    while let (Some(held), Ok(ask)) = (&mut end, asked.recv()) {
        let turn = turns.take();
        if watch.is_abandoned() {
            // Its trial has gone, and has closed what the call would go to.
            watch.done();
            return;
        }
        let began = Instant::now();
        let last = matches!(ask, Ask::Finish);
        let answer = guarded(|| held.answer(ask));
        if last || answer.is_err() {
            // What it holds is given back within the call: that may take its time as well.
            end = None;
        }
        drop(turn);
        watch.done();
        if tell.send(Finished { answer, began }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array};

    /// Batches of so many rows.
    struct Gives<I>(I);

    impl<I: Iterator<Item = usize>> Producer for Gives<I> {
        fn schema(&self) -> SchemaRef {
            batch(0).schema()
        }

        fn next(&mut self) -> Result<Option<RecordBatch>> {
            Ok(self.0.next().map(batch))
        }
    }

    fn batch(rows: usize) -> RecordBatch {
        let column = Arc::new(Int64Array::from(vec![1; rows])) as ArrayRef;
        RecordBatch::try_from_iter([("a", column)]).unwrap()
    }

    #[test]
    fn batches_without_rows_are_left_out_and_bounded() {
        let mut gives = Gives([0, 2, 0, 3, 4].into_iter());
        let none = Checks::default();
        let mut next = || {
            let (found, _) = count(&mut gives, 5, &none).unwrap();
            found.map(|found| (found.moved.rows, found.moved.bytes))
        };
        assert_eq!(next(), Some((5, 40)));
        assert_eq!(next(), Some((4, 32)));
        assert_eq!(next(), None);
        let error = count(&mut Gives(std::iter::repeat(0)), 5, &none).unwrap_err();
        assert_eq!(error.kind, Kind::Plugin);
    }
}
