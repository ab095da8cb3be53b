//! What runs a query: the seam between whoever has the rows and the encoders.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::Result;
use crate::meter::clock::Stage;

/// What a query is run by. Shared by all connections.
pub trait Engine: Send + Sync {
    /// Begins a query; an error is the client's to read.
    fn start(&self, query: &str, wanted: &Wanted) -> Result<Box<dyn Run>>;

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

/// A query under way. One encoder at a time asks it for more.
pub trait Run: Send {
    /// Asked for once, before anything else.
    fn schema(&mut self) -> Result<SchemaRef>;

    /// The next piece of work for an encoder; `None`: there is no more.
    fn next(&mut self) -> Result<Option<Raw>>;

    /// What an encoder does while it is in `next`.
    fn stage(&self) -> Stage {
        Stage::Generate
    }
}

/// What an encoder makes blocks of.
pub enum Raw {
    /// One block, ready-made.
    Ready(Ready),
    /// Whatever comes of it; to be cut into blocks.
    Batches(Box<dyn Iterator<Item = Result<RecordBatch>> + Send>),
}

#[derive(Debug, Clone)]
pub struct Ready {
    pub batch: RecordBatch,
    /// Payload bytes (METHOD).
    pub payload: u64,
    /// Where it was asked for and is known.
    pub digest: Option<u64>,
}
