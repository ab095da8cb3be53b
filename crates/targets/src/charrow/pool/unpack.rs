//! A block becomes a batch.

use std::time::Duration;

use crate::Moved;
use venturi_base::codec::charrow::receive::Block;
use venturi_base::codec::ipc::Decoder;
use venturi_base::data::{digest, payload_bytes};
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::handicap::Handicap;

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
