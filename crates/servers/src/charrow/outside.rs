//! An engine outside of Rust: queries are handed out, whole Arrow IPC streams come back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::SchemaRef;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::engine::{Engine, Raw, Run, Wanted};
use super::wire::LOOK_UP;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::clock::Stage;

/// Queries that wait for somebody to take them.
#[derive(Default)]
pub struct WaitingQueries {
    waiting: Mutex<VecDeque<Arc<Feed>>>,
    arrived: Condvar,
}

impl WaitingQueries {
    /// The next query, where one comes in time.
    pub fn take(&self, patience: Duration) -> Option<Query> {
        let until = Instant::now() + patience;
        let mut waiting = self.waiting.lock();
        loop {
            while let Some(feed) = waiting.pop_front() {
                // Whoever asked may have gone meanwhile.
                if !feed.state().closed {
                    return Some(Query(feed));
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.arrived.wait_for(&mut waiting, left);
        }
    }
}

pub struct Outside {
    pub waiting_queries: Arc<WaitingQueries>,
    /// Bytes of streams of one query that wait for an encoder.
    pub memory: u64,
}

impl Engine for Outside {
    fn start(&self, id: &str, query: &str, _: &Wanted) -> Result<Box<dyn Run>> {
        let feed = Arc::new(Feed {
            id: id.to_owned(),
            text: query.to_owned(),
            memory: self.memory,
            state: Mutex::default(),
            more: Condvar::new(),
            room: Condvar::new(),
        });
        let mut waiting = self.waiting_queries.waiting.lock();
        waiting.push_back(feed.clone());
        drop(waiting);
        self.waiting_queries.arrived.notify_one();
        Ok(Box::new(EngineStream { feed, schema: None }))
    }

    fn name(&self) -> String {
        "outside".into()
    }
}

struct Feed {
    id: String,
    text: String,
    memory: u64,
    state: Mutex<FeedState>,
    more: Condvar,
    room: Condvar,
}

#[derive(Default)]
struct FeedState {
    streams: VecDeque<Vec<u8>>,
    bytes: u64,
    /// The engine has ended, well or with an error.
    finished: Option<std::result::Result<(), String>>,
    /// Nobody wants more.
    closed: bool,
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock()
    }
}

/// A query to be run by whoever took it.
pub struct Query(Arc<Feed>);

impl Query {
    pub fn id(&self) -> &str {
        &self.0.id
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Hands over one Arrow IPC stream; waits while enough of them are waiting. False: nobody
    /// wants more.
    pub fn push(&self, stream: Vec<u8>) -> bool {
        let length = stream.len() as u64;
        let mut state = self.0.state();
        while !state.closed && state.bytes > 0 && state.bytes + length > self.0.memory {
            self.0.room.wait_for(&mut state, LOOK_UP);
        }
        if state.closed || state.finished.is_some() {
            return false;
        }
        state.bytes += length;
        state.streams.push_back(stream);
        drop(state);
        self.0.more.notify_one();
        true
    }

    /// There is no more, or an error was met. The first word counts.
    pub fn finish(&self, error: Option<String>) {
        self.0
            .state()
            .finished
            .get_or_insert(error.map_or(Ok(()), Err));
        self.0.more.notify_all();
    }
}

impl Drop for Query {
    fn drop(&mut self) {
        self.finish(Some("the engine gave the query up".into()));
    }
}

/// The encoders' end of it.
struct EngineStream {
    feed: Arc<Feed>,
    schema: Option<SchemaRef>,
}

impl Drop for EngineStream {
    fn drop(&mut self) {
        let mut state = self.feed.state();
        state.closed = true;
        state.streams.clear();
        state.bytes = 0;
        drop(state);
        self.feed.room.notify_all();
    }
}

impl EngineStream {
    /// Waits a moment for something to do or the end.
    fn look(&self) -> MutexGuard<'_, FeedState> {
        let mut state = self.feed.state();
        if state.streams.is_empty() && state.finished.is_none() {
            self.feed.more.wait_for(&mut state, LOOK_UP);
        }
        state
    }
}

impl Run for EngineStream {
    fn schema(&mut self) -> Result<Option<SchemaRef>> {
        if self.schema.is_none() {
            let state = self.look();
            let found = match (state.streams.front(), &state.finished) {
                (Some(stream), _) => schema_of(stream)?,
                (None, Some(Err(error))) => return Err(Error::new(Kind::Server, error.clone())),
                (None, Some(Ok(()))) => {
                    return Err(Error::new(
                        Kind::Server,
                        "the engine ended without a result, not even an empty one",
                    ))
                }
                (None, None) => return Ok(None),
            };
            drop(state);
            self.schema = Some(found);
        }
        Ok(self.schema.clone())
    }

    fn next(&mut self) -> Result<Raw> {
        let mut state = self.look();
        let Some(stream) = state.streams.pop_front() else {
            return match &state.finished {
                None => Ok(Raw::NotYet),
                Some(Ok(())) => Ok(Raw::End),
                Some(Err(error)) => Err(Error::new(Kind::Server, error.clone())),
            };
        };
        state.bytes -= stream.len() as u64;
        drop(state);
        self.feed.room.notify_one();
        let Some(schema) = self.schema.clone() else {
            return Err(Error::new(Kind::Internal, "rows without a schema"));
        };
        Ok(Raw::Batches(Box::new(Batches {
            decoder: StreamDecoder::new(),
            bytes: Buffer::from_vec(stream),
            schema,
        })))
    }

    fn stage(&self) -> Stage {
        Stage::AwaitInput
    }
}

fn schema_of(stream: &[u8]) -> Result<SchemaRef> {
    let wrong = |error: &dyn std::fmt::Display| {
        Error::new(
            Kind::Server,
            format!("the engine gave something else than an Arrow IPC stream: {error}"),
        )
    };
    let reader = arrow_ipc::reader::StreamReader::try_new(stream, None);
    Ok(reader.map_err(|error| wrong(&error))?.schema())
}

/// The batches of one stream, which refer to its bytes.
struct Batches {
    decoder: StreamDecoder,
    bytes: Buffer,
    schema: SchemaRef,
}

impl Batches {
    /// Has the stream's end mark been read? A stream that was cut between two messages lacks nothing
    /// else. `finish` takes it for whole; but before the mark the decoder takes one more byte, and
    /// behind it none.
    fn is_complete(&mut self) -> bool {
        self.decoder.finish().is_ok() && self.decoder.decode(&mut Buffer::from(&[0])).is_err()
    }

    fn broken(&mut self, why: &dyn std::fmt::Display) -> Error {
        self.bytes = Buffer::from(&[]);
        Error::new(
            Kind::Server,
            format!("the engine's Arrow IPC stream: {why}"),
        )
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.decoder.decode(&mut self.bytes) {
            Ok(Some(batch)) => batch,
            Ok(None) if self.is_complete() => return None,
            Ok(None) => {
                return Some(Err(self.broken(
                    &"it ends before its end mark, so rows of it may be missing",
                )))
            }
            Err(error) => return Some(Err(self.broken(&error))),
        };
        // Names and types must be those of the first stream; metadata may differ.
        let same = batch.schema_ref().fields().len() == self.schema.fields().len()
            && batch
                .schema_ref()
                .fields()
                .iter()
                .zip(self.schema.fields())
                .all(|(one, other)| one.data_type() == other.data_type());
        if !same {
            return Some(Err(Error::new(
                Kind::Server,
                "the engine's streams have different schemas",
            )));
        }
        Some(Ok(batch))
    }
}
