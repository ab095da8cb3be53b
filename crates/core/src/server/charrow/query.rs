//! One query and its partitions: each block goes to whichever of them takes it first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::codec::charrow::messages::Wrapped;
use crate::codec::ipc::Compression;
use crate::error::{Error, Kind, Result};

/// A block that is encoded and not dealt yet.
pub struct Block {
    pub wrapped: Wrapped,
    pub rows: u64,
    pub payload: u64,
    pub digest: u64,
}

/// What a partition is told when it asks for more.
pub enum Deal {
    Block(Block),
    /// All blocks have been dealt.
    End,
    Failed(Error),
    /// Nothing for now: look whether the client still lives, and ask again.
    Nothing,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Dealt {
    pub blocks: u64,
    pub rows: u64,
    pub bytes: u64,
}

impl Dealt {
    fn add(&mut self, block: &Block) {
        self.blocks += 1;
        self.rows += block.rows;
        self.bytes += block.payload;
    }
}

/// One partition's place in a query.
#[derive(Debug)]
pub struct Seat {
    /// For messages: the client's own number, or the order in which they came.
    pub name: String,
    pub index: u64,
    pub dealt: Dealt,
}

/// What two partitions must agree on to share blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub compression: Compression,
    pub checksum: bool,
}

pub struct Query {
    pub id: String,
    pub text: String,
    /// How its blocks are made: all partitions get the same ones.
    pub shape: Shape,
    /// The trial that it belongs to.
    pub trial: Option<String>,
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
    /// Partitions that wait for a block, encoders that wait for room.
    hungry: usize,
    blocked: usize,
    /// Encoders that still work; `None`: they have not been started.
    encoders: Option<usize>,
    error: Option<Error>,
    /// Partitions that came, and those that are here.
    came: u64,
    here: u64,
    /// Of 1.2: how many will come.
    expected: Option<u64>,
    /// Partitions that have had their end.
    served: u64,
    dealt: Dealt,
    /// When there was nothing left to do.
    over: Option<Instant>,
}

impl Query {
    pub fn new(id: String, text: String, shape: Shape, trial: Option<String>, memory: u64) -> Self {
        Self {
            id,
            text,
            shape,
            trial,
            memory,
            shared: Mutex::default(),
            ready: Condvar::new(),
            room: Condvar::new(),
            stopping: AtomicBool::new(false),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A partition comes.
    pub fn join(&self, index: Option<u64>, partitions: Option<u64>, address: &str) -> Seat {
        let mut shared = self.shared();
        let index = index.unwrap_or(shared.came);
        shared.came += 1;
        shared.here += 1;
        shared.expected = shared.expected.max(partitions);
        Seat {
            name: format!("partition {index} ({address})"),
            index,
            dealt: Dealt::default(),
        }
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
            shared = wait(&self.ready, shared, left);
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
        let mut limit = self.memory;
        loop {
            if self.is_over() || shared.error.is_some() {
                return false;
            }
            let taken = shared.waiting_bytes + shared.claimed;
            if taken == 0 || taken + bytes <= limit {
                break;
            }
            // Who had to wait goes on when half of it is gone: a wake-up for many blocks.
            limit = self.memory / 2;
            shared.blocked += 1;
            shared = wait(&self.room, shared, Duration::from_secs(1));
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
            if let Some(block) = shared.waiting.pop_front() {
                shared.waiting_bytes -= block.wrapped.length as u64;
                seat.dealt.add(&block);
                shared.dealt.add(&block);
                let taken = shared.waiting_bytes + shared.claimed;
                if shared.blocked > 0 && taken <= self.memory / 2 {
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
            shared = wait(&self.ready, shared, patience);
            shared.hungry -= 1;
            waited = true;
        }
    }

    /// A partition has had its end, or leaves before it. An error: its blocks may be lost, so
    /// the query has failed for all.
    pub fn leave(&self, seat: &Seat, served: bool) -> Option<Error> {
        let mut shared = self.shared();
        shared.here = shared.here.saturating_sub(1);
        shared.served += u64::from(served);
        let lost = !served && seat.dealt.blocks > 0 && shared.error.is_none();
        if lost {
            let error = Error::new(
                Kind::Lost,
                format!(
                    "query {:?} failed: {} went away after {} blocks; they may be lost, so the query has to be run again",
                    self.id, seat.name, seat.dealt.blocks
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
            // Nobody is left who could take the rest.
            shared.over.get_or_insert_with(Instant::now);
            self.drop_rest(&mut shared);
        }
        None
    }

    /// Since when there is nothing left to do.
    pub fn over_since(&self) -> Option<Instant> {
        self.shared().over
    }

    /// Nobody will ask for it again: all partitions that were announced have had their end, or
    /// all have left without a block.
    pub fn may_be_forgotten(&self) -> bool {
        let shared = self.shared();
        let nothing = shared.dealt.blocks == 0 && shared.served == 0 && shared.error.is_none();
        shared.here == 0
            && (shared.expected.is_some_and(|all| shared.served >= all)
                || (shared.over.is_some() && nothing))
    }

    /// What the partition and the query have had so far, as 1.2 tells it.
    pub fn statistics(&self, seat: &Seat) -> String {
        let shared = self.shared();
        let dealt = |dealt: &Dealt| (dealt.blocks, dealt.rows, dealt.bytes);
        let (mine, all) = (dealt(&seat.dealt), dealt(&shared.dealt));
        json!({
            "partition": {"index": seat.index, "blocks": mine.0, "rows": mine.1, "bytes": mine.2},
            "query": {"blocks": all.0, "rows": all.1, "bytes": all.2, "partitions": shared.came},
        })
        .to_string()
    }

    /// Bytes of blocks that wait or are being made.
    #[cfg(test)]
    pub fn waiting_bytes(&self) -> u64 {
        let shared = self.shared();
        shared.waiting_bytes + shared.claimed
    }
}

fn wait<'a>(
    on: &Condvar,
    shared: MutexGuard<'a, Shared>,
    patience: Duration,
) -> MutexGuard<'a, Shared> {
    on.wait_timeout(shared, patience)
        .map_or_else(|poisoned| poisoned.into_inner().0, |(shared, _)| shared)
}
