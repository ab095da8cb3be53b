//! What runs a query: the seam between whoever has the rows and the encoders.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use venturi_base::codec::clickhouse::types::Column;
use venturi_base::error::Result;
use venturi_base::meter::clock::Stage;

/// What a query is run by. Shared by all connections.
pub trait Engine: Send + Sync {
    /// Begins a query; an error is the client's to read.
    fn start(&self, id: &str, query: &str, wanted: &Wanted) -> Result<Box<dyn Run>>;

    /// Makes ahead of a query what it will hand out again and again, and keeps it.
    fn prepare(&self, _query: &str) -> Result<()> {
        Ok(())
    }

    /// Who it is, for logs and hellos.
    fn name(&self) -> String;
}

/// How the client would have the blocks.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Their digests are asked for; ready-made data remembers them.
    pub digests: bool,
    /// What a block should hold about, in bytes of payload.
    pub block_bytes: u64,
}

/// A query in flight. One encoder at a time asks it for more.
pub trait Run: Send {
    /// Asked for before anything else. `None`: it is not known yet.
    fn schema(&mut self) -> Result<Option<SchemaRef>>;

    /// The next piece of work for an encoder.
    fn next(&mut self) -> Result<Raw>;

    /// What an encoder does while it is in `next`.
    fn stage(&self) -> Stage {
        Stage::Generate
    }
}

/// What an encoder makes blocks of.
pub enum Raw {
    /// One block, ready-made.
    Ready(Ready),
    /// Rows as a database keeps them, to be turned into columns.
    Rows(Rows),
    /// Whatever comes of it; to be cut into blocks.
    Batches(Box<dyn Iterator<Item = Result<RecordBatch>> + Send>),
    /// Nothing for now: look whether anybody still wants it, and ask again.
    NotYet,
    /// There is no more.
    End,
}

/// RowBinary bytes; all of a run have the same columns.
pub struct Rows {
    pub bytes: Arc<Vec<u8>>,
    /// How many of its rows, from the first one.
    pub rows: usize,
    pub columns: Arc<Vec<Column>>,
    /// Those that are wanted; `None`: all.
    pub kept: Option<Vec<usize>>,
}

#[derive(Debug, Clone)]
pub struct Ready {
    pub batch: RecordBatch,
    /// Payload bytes (METHOD).
    pub payload: u64,
    /// Where it was asked for and is known.
    pub digest: Option<u64>,
}
