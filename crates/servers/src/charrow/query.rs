//! One query and its partitions: each block goes to whichever of them takes it first.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_128;

use venturi_base::codec::charrow::messages::Wrapped;
use venturi_base::codec::charrow::statistics::{self, Dealt, Statistics};
use venturi_base::codec::ipc::Compression;
use venturi_base::error::{Error, Kind, Result};

/// How long a query without a partition waits for one, when the last has left it the rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many blocks each encoder and each partition may have waiting: more of them gain nothing, and
/// leave the processor's caches before they are sent ...
const AHEAD: u64 = 3;
/// ... but so many bytes may always wait, however small the blocks are.
const LEAST_AHEAD: u64 = 4 << 20;

/// What two partitions must agree on to share blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub compression: Compression,
    pub checksum: bool,
}

pub struct Query {
    pub id: String,
    /// A digest of its text, which is not kept as long as the query is remembered.
    text: u128,
    /// How its blocks are made: all partitions get the same ones.
    pub shape: Shape,
    /// The trial that it belongs to.
    pub trial: Option<String>,
    /// The client that began it; `None`: one of this host, by a Unix socket.
    pub client: Option<IpAddr>,
    /// That client ran no other one when it began.
    pub is_only: bool,
    /// Encoded blocks that wait are bounded by this, in bytes.
    memory: u64,
    shared: Mutex<Shared>,
    /// A partition may find a block, or the end.
    ready: Condvar,
    /// An encoder may find room.
    room: Condvar,
    /// Somebody has asked for an early end.
    stopping: AtomicBool,
}

#[derive(Default)]
struct Shared {
    schema: Option<Arc<[u8]>>,
    waiting: VecDeque<Block>,
    waiting_bytes: u64,
    /// Of blocks that are being made.
    claimed: u64,
    /// So many of both are enough for now.
    enough: u64,
    /// Partitions that wait for a block, encoders that wait for room.
    hungry: usize,
    blocked: usize,
    /// Encoders that still work; `None`: they have not been started.
    encoders: Option<usize>,
    error: Option<Error>,
    /// Partitions that came, and those that are here.
    came: u64,
    here: u64,
    /// Partitions that have had their end.
    served: u64,
    /// Of 1.2: how many will come.
    expected: u64,
    /// Numbers of partitions that have had blocks, and cannot have the same ones again.
    had: BTreeSet<u64>,
    /// Since when nobody is here, though there is more to deal.
    alone: Option<Instant>,
    dealt: Dealt,
    /// When there was nothing left to do.
    over: Option<Instant>,
}

impl Query {
    pub fn new(
        id: String,
        text: &str,
        shape: Shape,
        trial: Option<String>,
        client: Option<IpAddr>,
        memory: u64,
    ) -> Self {
        Self {
            id,
            text: xxh3_128(text.as_bytes()),
            shape,
            trial,
            client,
            is_only: false,
            memory,
            shared: Mutex::default(),
            ready: Condvar::new(),
            room: Condvar::new(),
            stopping: AtomicBool::new(false),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    pub fn asks(&self, text: &str) -> bool {
        self.text == xxh3_128(text.as_bytes())
    }

    /// A partition comes. An error: the one of this number has been here before, so its blocks are
    /// dealt; who asks in its place, as a scheduler that runs a task again, must not take the
    /// rest for the whole.
    pub fn join(&self, index: Option<u64>, partitions: Option<u64>, address: &str) -> Result<Seat> {
        let mut shared = self.shared();
        if let Some(index) = index.filter(|index| shared.had.contains(index)) {
            return Err(self.had(index));
        }
        if let Some(count) = partitions.filter(|count| ![0, *count].contains(&shared.expected)) {
            return Err(Error::usage(format!(
                "query {} has {} partitions, and this one says that there are {count}: all of a query have to say the same",
                named(&self.id), shared.expected
            )));
        }
        let numbered = index.is_some();
        let index = index.unwrap_or(shared.came);
        shared.came += 1;
        shared.here += 1;
        shared.alone = None;
        shared.expected = partitions.unwrap_or(shared.expected);
        Ok(Seat {
            name: format!("partition {index} ({address})"),
            index,
            numbered,
            dealt: Dealt::default(),
        })
    }

    fn had(&self, index: u64) -> Error {
        Error::usage(format!(
            "partition {index} of query {} has had its share already: a query id names one run; run the query again under another one",
            named(&self.id)
        ))
    }

    /// Encoders are about to be started.
    pub fn begin(&self, encoders: usize) {
        self.shared().encoders = Some(encoders);
    }

    pub fn publish(&self, schema: Vec<u8>) {
        self.shared().schema = Some(schema.into());
        self.ready.notify_all();
    }

    pub fn has_schema(&self) -> bool {
        self.shared().schema.is_some()
    }

    /// The schema message, where it is known within `patience`.
    pub fn schema(&self, patience: Duration) -> Result<Option<Arc<[u8]>>> {
        let mut shared = self.shared();
        let until = Instant::now() + patience;
        loop {
            if let Some(error) = &shared.error {
                return Err(error.clone());
            }
            if shared.schema.is_some() {
                return Ok(shared.schema.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.ready.wait_for(&mut shared, left);
        }
    }

    /// Encoders shall end: nobody wants more.
    pub fn is_over(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// An encoder is about to make a block of about so many bytes; it waits while there are
    /// enough of them. False: nobody wants more. What is claimed here `put` takes.
    pub fn claim(&self, bytes: u64) -> bool {
        let mut shared = self.shared();
        loop {
            self.expire(&mut shared);
            if self.is_over() || shared.error.is_some() {
                return false;
            }
            let hands = shared.here + shared.encoders.unwrap_or(1) as u64;
            let ahead = bytes.saturating_mul(AHEAD * hands).max(LEAST_AHEAD);
            shared.enough = ahead.min(self.memory);
            let taken = shared.waiting_bytes + shared.claimed;
            if taken == 0 || taken + bytes <= shared.enough {
                break;
            }
            // Woken when half of it is gone: once for many blocks. Encoders that had to wait were
            // faster than the partitions, so that half lasts them for a block of each.
            shared.blocked += 1;
            self.room.wait_for(&mut shared, Duration::from_secs(1));
            shared.blocked -= 1;
        }
        shared.claimed += bytes;
        true
    }

    /// The block for which so much was claimed. False: nobody wants more.
    pub fn put(&self, block: Block, claimed: u64) -> bool {
        let mut shared = self.shared();
        shared.claimed = shared.claimed.saturating_sub(claimed);
        if self.is_over() || shared.error.is_some() {
            return false;
        }
        shared.waiting_bytes += block.wrapped.length as u64;
        shared.waiting.push_back(block);
        if shared.hungry > 0 {
            drop(shared);
            self.ready.notify_one();
        }
        true
    }

    /// An encoder ends.
    pub fn encoder_ends(&self) {
        let mut shared = self.shared();
        if let Some(left) = &mut shared.encoders {
            *left = left.saturating_sub(1);
            if *left == 0 {
                drop(shared);
                self.ready.notify_all();
            }
        }
    }

    /// The query has failed, for all. The first reason stands.
    pub fn fail(&self, error: Error) {
        let mut shared = self.shared();
        shared.error.get_or_insert(error);
        shared.over.get_or_insert_with(Instant::now);
        self.drop_rest(&mut shared);
    }

    /// It ends early, and well.
    pub fn stop(&self) {
        self.drop_rest(&mut self.shared());
    }

    fn drop_rest(&self, shared: &mut Shared) {
        self.stopping.store(true, Ordering::Relaxed);
        shared.waiting.clear();
        shared.waiting_bytes = 0;
        self.ready.notify_all();
        self.room.notify_all();
    }

    /// What a partition gets next; it waits for `patience` at most.
    pub fn deal(&self, seat: &mut Seat, patience: Duration) -> Deal {
        let mut shared = self.shared();
        let mut waited = false;
        loop {
            if let Some(error) = &shared.error {
                return Deal::Failed(error.clone());
            }
            // Two came as the same partition, and the other one has begun to have its share.
            let first = seat.numbered && seat.dealt.blocks == 0;
            if first && shared.had.contains(&seat.index) {
                return Deal::Failed(self.had(seat.index));
            }
            if let Some(block) = shared.waiting.pop_front() {
                shared.waiting_bytes -= block.wrapped.length as u64;
                if first {
                    shared.had.insert(seat.index);
                }
                seat.dealt.add(block.rows, block.payload);
                shared.dealt.add(block.rows, block.payload);
                let taken = shared.waiting_bytes + shared.claimed;
                if shared.blocked > 0 && taken <= shared.enough / 2 {
                    drop(shared);
                    self.room.notify_all();
                }
                return Deal::Block(block);
            }
            // An early end does not wait for encoders that are busy with what nobody wants.
            if shared.encoders == Some(0) || self.is_over() {
                return Deal::End;
            }
            if waited {
                return Deal::Nothing;
            }
            shared.hungry += 1;
            self.ready.wait_for(&mut shared, patience);
            shared.hungry -= 1;
            waited = true;
        }
    }

    /// A partition has had its end, or leaves before it. An error: its blocks may be lost, so
    /// the query has failed for all.
    pub fn leave(&self, seat: &Seat, leaving: Leaving) -> Option<Error> {
        let served = leaving == Leaving::Served;
        let mut shared = self.shared();
        shared.here = shared.here.saturating_sub(1);
        shared.served += u64::from(served);
        let lost = leaving == Leaving::Lost && seat.dealt.blocks > 0 && shared.error.is_none();
        if lost {
            let error = Error::new(
                Kind::Lost,
                format!(
                    "query {} failed: {} went away after {} blocks; they may be lost, so the query has to be run again",
                    named(&self.id), seat.name, seat.dealt.blocks
                ),
            );
            shared.error = Some(error.clone());
            shared.over = Some(Instant::now());
            self.drop_rest(&mut shared);
            return Some(error);
        }
        let all_dealt = shared.encoders == Some(0) && shared.waiting.is_empty();
        if served || all_dealt {
            shared.over.get_or_insert_with(Instant::now);
        }
        if shared.here == 0 && !all_dealt {
            if leaving == Leaving::Satisfied && shared.came < shared.expected {
                // It has had enough, and leaves the rest to those that are still to come.
                shared.alone = Some(Instant::now());
            } else {
                shared.over.get_or_insert_with(Instant::now);
                self.drop_rest(&mut shared);
            }
        }
        None
    }

    /// Since when there is nothing left to do.
    pub fn over_since(&self) -> Option<Instant> {
        let mut shared = self.shared();
        self.expire(&mut shared);
        shared.over
    }

    /// Nobody has come for what one has left to the others.
    fn expire(&self, shared: &mut Shared) {
        if shared
            .alone
            .is_some_and(|since| since.elapsed() >= PATIENCE)
        {
            shared.over.get_or_insert_with(Instant::now);
            self.drop_rest(shared);
        }
    }

    /// All have left without a block, so it may begin anew.
    pub fn may_be_forgotten(&self) -> bool {
        let shared = self.shared();
        let nothing = shared.dealt.blocks == 0 && shared.served == 0 && shared.error.is_none();
        shared.here == 0 && shared.over.is_some() && nothing
    }

    /// Its partitions have numbers: whoever comes as one of them once more has to be told.
    pub fn is_numbered(&self) -> bool {
        !self.shared().had.is_empty()
    }

    /// What the partition and the query have had, as 1.2 tells it.
    pub fn statistics(&self, seat: &Seat) -> String {
        let shared = self.shared();
        let told = Statistics {
            partition: statistics::Partition {
                index: seat.index,
                dealt: seat.dealt,
            },
            query: statistics::Query {
                dealt: shared.dealt,
                partitions: shared.came,
            },
        };
        told.write()
    }

    #[cfg(test)]
    pub fn came(&self) -> u64 {
        self.shared().came
    }

    /// Bytes of blocks that wait or are being made.
    #[cfg(test)]
    pub fn waiting_bytes(&self) -> u64 {
        let shared = self.shared();
        shared.waiting_bytes + shared.claimed
    }
}

/// An id in a message: it may be long.
pub fn named(id: &str) -> String {
    format!("{:?}", id.chars().take(80).collect::<String>())
}

/// A block that is encoded and not dealt yet.
pub struct Block {
    pub wrapped: Wrapped,
    pub rows: u64,
    pub payload: u64,
    pub digest: u64,
}

/// The answer to a partition that wants more.
pub enum Deal {
    Block(Block),
    /// All blocks have been dealt.
    End,
    Failed(Error),
    /// No block yet: check that the client still lives, then ask again.
    Nothing,
}

/// One partition's place in a query.
#[derive(Debug)]
pub struct Seat {
    /// For messages: the client's own number, or the order in which they came.
    pub name: String,
    pub index: u64,
    /// The client said which one it is.
    pub numbered: bool,
    pub dealt: Dealt,
}

/// How a partition ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// It has had its end.
    Served,
    /// It wants no more, and has said so: what it has not read it drops on purpose.
    Satisfied,
    /// It is gone.
    Lost,
}
