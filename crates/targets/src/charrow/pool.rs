//! The decoders: exactly so many for the whole trial, fed by all its streams.
//!
//! Each has a thread of its own. To hand a block over to it costs a thread's wake-up, and mostly the
//! caches of another core; where decoding costs less than that, a stream lends an idle decoder
//! its own thread for a block. Never are more at work than there are decoders, and whatever one
//! does is the pool's time, wherever it ran.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Moved, Pool as PoolRecord};
use venturi_base::codec::charrow::receive::Block;
use venturi_base::codec::ipc::Decoder;
use venturi_base::data::{digest, payload_bytes};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::{Stage, StageClock, StageTotals, Workers};
use venturi_base::meter::handicap::Handicap;

/// The name of the pool in records.
pub const NAME: &str = "decoders";

struct Job {
    block: Block,
    /// The stream, and its schema's IPC message.
    stream: usize,
    schema: Arc<[u8]>,
    inbox: Arc<Inbox>,
}

/// The threads end with it.
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    /// How many decoders there are.
    decoders: usize,
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
    /// Decoders that have a block in hand, on whatever thread.
    working: usize,
    /// Threads that wait for one.
    idle: usize,
    closed: bool,
}

/// A decoder that works on a stream's thread.
pub struct Lent<'a>(&'a Shared);

impl Lent<'_> {
    pub fn unpack(self, unpacker: &mut Unpacker, block: Block) -> Result<Decoded> {
        let mut clock = StageClock::start();
        let decoded = unpacker.unpack(block, &mut clock);
        self.0.account(&clock);
        decoded
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut jobs = self.0.jobs();
        jobs.working -= 1;
        if !jobs.waiting.is_empty() && jobs.idle > 0 {
            drop(jobs);
            self.0.more.notify_one();
        }
    }
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
            decoders: threads,
            jobs: Mutex::default(),
            more: Condvar::new(),
            rules,
            decode_ns: AtomicU64::new(0),
            verify_ns: AtomicU64::new(0),
            window: Mutex::default(),
        });
        let pool = Self { shared };
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
        self.shared.decoders
    }

    pub fn rules(&self) -> &Rules {
        &self.shared.rules
    }

    /// A decoder that has nothing to do, for a block on the caller's thread.
    pub fn lend(&self) -> Option<Lent<'_>> {
        let mut jobs = self.shared.jobs();
        if !jobs.waiting.is_empty() || jobs.working >= self.threads() {
            return None;
        }
        jobs.working += 1;
        Some(Lent(&self.shared))
    }

    pub fn submit(&self, block: Block, stream: usize, schema: &Arc<[u8]>, inbox: &Arc<Inbox>) {
        let mut jobs = self.shared.jobs();
        jobs.waiting.push_back(Job {
            block,
            stream,
            schema: schema.clone(),
            inbox: inbox.clone(),
        });
        if jobs.idle > 0 && jobs.working < self.threads() {
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
        let time_ns = time.as_nanos() as u64 * self.threads() as u64;
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
                workers: self.threads() as u64,
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
        self.jobs.lock()
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock()
    }

    /// A decoder's life on its own thread.
    fn work(&self) {
        let mut unpackers: HashMap<usize, Unpacker> = HashMap::new();
        let mut worked = false;
        while let Some(job) = self.next(worked) {
            worked = true;
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
                .unwrap_or_else(|panic| Err(Error::panicked(&*panic).context("a decoder")));
            self.account(&clock);
            inbox.put(decoded);
        }
    }

    fn account(&self, clock: &StageClock) {
        let spent = clock.totals();
        let add = |to: &AtomicU64, stage: Stage| {
            to.fetch_add(spent.0[stage as usize], Ordering::Relaxed);
        };
        add(&self.decode_ns, Stage::Decode);
        add(&self.verify_ns, Stage::Verify);
    }

    /// The next block to decode. `worked`: the one before it is done.
    fn next(&self, worked: bool) -> Option<Job> {
        let mut jobs = self.jobs();
        jobs.working -= usize::from(worked);
        loop {
            if jobs.working < self.decoders {
                if let Some(job) = jobs.waiting.pop_front() {
                    jobs.working += 1;
                    return Some(job);
                }
            }
            if jobs.closed {
                return None;
            }
            jobs.idle += 1;
            self.more.wait(&mut jobs);
            jobs.idle -= 1;
        }
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
        self.0.lock()
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
    /// What it took.
    pub spent: Duration,
}

/// Makes batches of one stream's blocks.
pub struct Unpacker {
    decoder: Decoder,
    rules: Rules,
}

impl Unpacker {
    /// `schema`: the IPC message that the stream began with.
    pub fn new(schema: &[u8], rules: &Rules) -> Result<Self> {
        let mut decoder = Decoder::limited(rules.largest).exact();
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
        let begun = clock.last();
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
        let mut found = 0;
        if self.rules.digests {
            found = digest(&batch)?;
            // The batch dies hot in cache, and its memory is used again.
            drop(batch);
            self.rules.handicap.burn(Stage::Verify);
            clock.mark(Stage::Verify);
        }
        Ok(Decoded {
            moved,
            digest: found,
            spent: clock.last().saturating_duration_since(begun),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use venturi_base::codec::charrow::messages;
    use venturi_base::codec::charrow::receive::{ipc_header, Event, Receiver};
    use venturi_base::codec::ipc::{schema_to_bytes, Compression, Encoder};
    use venturi_base::meter::handicap::Handicap;
    use venturi_testkit::arrow::numbers;
    use venturi_testkit::charrow::Client;
    use venturi_testkit::until;

    fn pool(decoders: usize) -> Pool {
        let rules = Rules {
            digests: true,
            handicap: Handicap::default(),
            largest: 1 << 20,
        };
        Pool::start(decoders, rules).unwrap()
    }

    fn schema_and_block() -> (Arc<[u8]>, Block) {
        let batch = numbers(0..100);
        let mut encoder = Encoder::new(&batch.schema(), Compression::None).unwrap();
        let mut encoded = Vec::new();
        encoder.encode(&batch, &mut encoded).unwrap();
        let wrapped = messages::block(encoded.pop().unwrap(), true);
        let pieces = wrapped.pieces.iter().map(|piece| piece.as_slice());
        let socket = Cursor::new(pieces.collect::<Vec<_>>().concat());
        let mut client = Client::over(socket, Receiver::new(1 << 20));
        let Event::Block(block) = client.event().unwrap() else {
            panic!("no block")
        };
        let schema = schema_to_bytes(&batch.schema()).unwrap();
        (ipc_header(&schema).unwrap().into(), block)
    }

    #[test]
    fn a_lent_decoder_is_one_of_so_many() {
        let pool = pool(1);
        until("the decoder waits", || pool.shared.jobs().idle == 1);
        let inbox = Arc::new(Inbox::default());
        let lent = pool.lend().unwrap();
        assert!(pool.lend().is_none());
        let (schema, block) = schema_and_block();
        pool.submit(block, 0, &schema, &inbox);
        // Whoever looks for a block now finds none; of a pool that is closed, it does not wait for one.
        pool.shared.jobs().closed = true;
        assert!(pool.shared.next(false).is_none(), "two at work");
        pool.shared.jobs().closed = false;
        // Where blocks wait, nobody overtakes them.
        assert!(pool.lend().is_none());
        let (schema, block) = schema_and_block();
        let mut unpacker = Unpacker::new(&schema, pool.rules()).unwrap();
        let here = lent.unpack(&mut unpacker, block).unwrap();
        let mut there = None;
        until("the other block", || {
            there = there.take().or_else(|| inbox.take());
            there.is_some()
        });
        let there = there.unwrap().unwrap();
        assert_eq!((here.moved.rows, here.digest), (100, there.digest));
        until("it is free again", || pool.lend().is_some());
    }
}
