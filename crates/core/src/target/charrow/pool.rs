//! The decoders: exactly so many threads for the whole trial, fed by all its streams.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use crate::codec::charrow::receive::Block;
use crate::codec::ipc::Decoder;
use crate::data::{digest, payload_bytes};
use crate::engine::panicked_as;
use crate::error::{Error, Kind, Result};
use crate::meter::clock::{Stage, StageClock, StageTotals, Workers};
use crate::meter::handicap::Handicap;
use crate::target::{Moved, Pool as PoolRecord};

/// The name of the pool in records.
pub const NAME: &str = "decoders";

/// What is done with a block.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The values are digested, to be compared with what the server sent.
    pub digests: bool,
    pub handicap: Handicap,
    /// No decompressed batch is larger.
    pub largest: u64,
}

/// A block that has been decoded.
#[derive(Debug, Clone, Copy)]
pub struct Decoded {
    pub moved: Moved,
    pub digest: u64,
}

/// Makes batches of one stream's blocks.
pub struct Unpacker {
    decoder: Decoder,
    rules: Rules,
}

impl Unpacker {
    /// `schema`: the IPC message that the stream began with.
    pub fn new(schema: &[u8], rules: &Rules) -> Result<Self> {
        let mut decoder = Decoder::limited(rules.largest);
        if decoder.message(schema, None)?.is_some() || decoder.schema().is_none() {
            return Err(Error::protocol(
                "the schema that the server sent is another kind of Arrow message",
            ));
        }
        Ok(Self {
            decoder,
            rules: rules.clone(),
        })
    }

    pub fn unpack(&mut self, block: Block, clock: &mut StageClock) -> Result<Decoded> {
        block.check()?;
        let batch = self.decoder.message(&block.header, block.body)?;
        let batch = batch.ok_or_else(|| {
            Error::protocol("the server sent a block that is no Arrow record batch")
        })?;
        let moved = Moved {
            rows: batch.num_rows() as u64,
            bytes: payload_bytes(&batch),
        };
        self.rules.handicap.burn(Stage::Decode);
        clock.mark(Stage::Decode);
        let mut decoded = Decoded { moved, digest: 0 };
        if self.rules.digests {
            decoded.digest = digest(&batch)?;
            // The batch dies hot in cache, and its memory is used again.
            drop(batch);
            self.rules.handicap.burn(Stage::Verify);
            clock.mark(Stage::Verify);
        }
        Ok(decoded)
    }
}

/// Where a stream finds its decoded blocks.
#[derive(Default)]
pub struct Inbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    decoded: VecDeque<Result<Decoded>>,
    waker: Option<Waker>,
}

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, decoded: Result<Decoded>) {
        let mut waiting = self.waiting();
        waiting.decoded.push_back(decoded);
        let waker = waiting.waker.take();
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn take(&self) -> Option<Result<Decoded>> {
        self.waiting().decoded.pop_front()
    }

    /// Whoever puts the next one calls back. False: there is one already.
    pub fn wait(&self, cx: &Context<'_>) -> bool {
        let mut waiting = self.waiting();
        if !waiting.decoded.is_empty() {
            return false;
        }
        match &mut waiting.waker {
            Some(known) => known.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        true
    }
}

struct Job {
    block: Block,
    /// The stream, and its schema's IPC message.
    stream: usize,
    schema: Arc<[u8]>,
    inbox: Arc<Inbox>,
}

/// Cheap to clone; the threads end with the last clone that is not one of theirs.
pub struct Pool {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    jobs: Mutex<Jobs>,
    more: Condvar,
    rules: Rules,
    decode_ns: AtomicU64,
    verify_ns: AtomicU64,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    idle: usize,
    closed: bool,
}

/// The time that is accounted for, and what had been done by its end.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    begun: Option<Instant>,
    ended: Option<Instant>,
    decode_ns: u64,
    verify_ns: u64,
}

impl Pool {
    pub fn start(threads: usize, rules: Rules) -> Result<Self> {
        let shared = Arc::new(Shared {
            jobs: Mutex::default(),
            more: Condvar::new(),
            rules,
            decode_ns: AtomicU64::new(0),
            verify_ns: AtomicU64::new(0),
            window: Mutex::default(),
        });
        let pool = Self { shared, threads };
        for number in 0..threads {
            let shared = pool.shared.clone();
            std::thread::Builder::new()
                .name(format!("decoder-{number}"))
                .stack_size(2 << 20)
                .spawn(move || shared.work())
                .map_err(|error| {
                    Error::new(Kind::Io, format!("decoder {number} of {threads}: {error}"))
                })?;
        }
        Ok(pool)
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    pub fn submit(&self, block: Block, stream: usize, schema: &Arc<[u8]>, inbox: &Arc<Inbox>) {
        let mut jobs = self.shared.jobs();
        jobs.waiting.push_back(Job {
            block,
            stream,
            schema: schema.clone(),
            inbox: inbox.clone(),
        });
        if jobs.idle > 0 {
            drop(jobs);
            self.shared.more.notify_one();
        }
    }

    /// A stream begins: from the first one on time is accounted for ...
    pub fn begin(&self) {
        self.shared.window().begun.get_or_insert_with(Instant::now);
    }

    /// ... until the last one has moved what counts.
    pub fn end(&self) {
        let mut window = self.shared.window();
        window.ended = Some(Instant::now());
        window.decode_ns = self.shared.decode_ns.load(Ordering::Relaxed);
        window.verify_ns = self.shared.verify_ns.load(Ordering::Relaxed);
    }

    pub fn record(&self) -> Option<PoolRecord> {
        let window = *self.shared.window();
        let time = window.ended?.saturating_duration_since(window.begun?);
        let time_ns = time.as_nanos() as u64 * self.threads as u64;
        let mut stages = StageTotals::default();
        let verify_ns = window.verify_ns.min(time_ns);
        let decode_ns = window.decode_ns.min(time_ns - verify_ns);
        stages.0[Stage::Decode as usize] = decode_ns;
        stages.0[Stage::Verify as usize] = verify_ns;
        stages.0[Stage::AwaitInput as usize] = time_ns - verify_ns - decode_ns;
        Some(PoolRecord {
            name: NAME,
            stages,
            workers: Workers {
                workers: self.threads as u64,
                time_ns,
            },
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.jobs().closed = true;
        self.shared.more.notify_all();
    }
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A decoder's life.
    fn work(&self) {
        let mut unpackers: HashMap<usize, Unpacker> = HashMap::new();
        while let Some(job) = self.next() {
            let mut clock = StageClock::start();
            let (inbox, stream) = (job.inbox.clone(), job.stream);
            let working = std::panic::AssertUnwindSafe(|| {
                let unpacker = match unpackers.entry(stream) {
                    std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::hash_map::Entry::Vacant(new) => {
                        new.insert(Unpacker::new(&job.schema, &self.rules)?)
                    }
                };
                unpacker.unpack(job.block, &mut clock)
            });
            let decoded = std::panic::catch_unwind(working)
                .unwrap_or_else(|panic| Err(panicked_as("a decoder", &*panic)));
            let spent = clock.totals();
            let add = |to: &AtomicU64, stage: Stage| {
                to.fetch_add(spent.0[stage as usize], Ordering::Relaxed);
            };
            add(&self.decode_ns, Stage::Decode);
            add(&self.verify_ns, Stage::Verify);
            inbox.put(decoded);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Some(job);
            }
            if jobs.closed {
                return None;
            }
            jobs.idle += 1;
            jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }
}
