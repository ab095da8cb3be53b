//! `state_rows`: rows as a database keeps its states, which the encoders turn into columns.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use parking_lot::Mutex;

use super::parse::{Argument, Statement};
use super::{check, find, kept, projected};
use crate::charrow::engine::{Raw, Rows, Run};
use venturi_base::codec::clickhouse::state_rows::{bytes, columns, ROW_BYTES};
use venturi_base::codec::clickhouse::types::{schema, Column};
use venturi_base::error::{Error, Kind, Result};

/// Rows of a block, where the query does not say: about 1 MB.
pub const BLOCK_ROWS: u64 = 8192;

/// Bytes of blocks that are made ahead and then handed out again and again.
const RING: usize = 64 << 20;

/// The blocks of the last query's shape: making them takes longer than moving them.
#[derive(Default)]
pub struct States(Mutex<Option<(String, Ring)>>);

type Ring = Arc<Vec<Arc<Vec<u8>>>>;

impl States {
    pub fn start(&self, arguments: &[Argument], statement: &Statement) -> Result<Box<dyn Run>> {
        check(arguments, "state_rows", &["rows", "seed", "block_rows"])?;
        let number = |key: &str| find(arguments, key).map(Argument::number).transpose();
        let seed = number("seed")?.unwrap_or(0);
        let block_rows = number("block_rows")?.unwrap_or(BLOCK_ROWS);
        let most = (RING / 2 / ROW_BYTES) as u64;
        if block_rows == 0 || block_rows > most {
            return Err(Error::new(
                Kind::Usage,
                format!("state_rows: block_rows must be 1..{most}"),
            ));
        }
        let rows = match (number("rows")?, statement.limit) {
            (Some(rows), Some(limit)) => Some(rows.min(limit)),
            (rows, limit) => rows.or(limit),
        };
        let columns = Arc::new(columns());
        let whole = schema(&columns);
        let kept = kept(&whole, statement.columns.as_deref())?;
        let blocks = rows.map_or(u64::MAX, |rows| rows.div_ceil(block_rows).max(1));
        let ring = self.ring(seed, block_rows as usize, blocks)?;
        Ok(Box::new(Making {
            schema: projected(&whole, kept.as_deref())?,
            columns,
            kept,
            ring,
            block_rows,
            left: rows.unwrap_or(u64::MAX),
            at: 0,
        }))
    }

    /// At most so many different blocks, and no more than fit.
    fn ring(&self, seed: u64, block_rows: usize, blocks: u64) -> Result<Ring> {
        let fit = (RING / (block_rows * ROW_BYTES)).max(1) as u64;
        let blocks = blocks.min(fit);
        let key = format!("{seed} {block_rows}");
        let mut known = self.0.lock();
        if let Some((made, ring)) = known.as_ref() {
            if *made == key && ring.len() as u64 >= blocks {
                return Ok(ring.clone());
            }
        }
        let made = (0..blocks).map(|index| bytes(seed, index, block_rows).map(Arc::new));
        let ring = Arc::new(made.collect::<Result<Vec<_>>>()?);
        *known = Some((key, ring.clone()));
        Ok(ring)
    }
}

struct Making {
    schema: SchemaRef,
    columns: Arc<Vec<Column>>,
    kept: Option<Vec<usize>>,
    ring: Ring,
    block_rows: u64,
    left: u64,
    at: usize,
}

impl Run for Making {
    fn schema(&mut self) -> Result<Option<SchemaRef>> {
        Ok(Some(self.schema.clone()))
    }

    fn next(&mut self) -> Result<Raw> {
        let rows = self.left.min(self.block_rows);
        if rows == 0 {
            return Ok(Raw::End);
        }
        self.left -= rows;
        let bytes = self.ring[self.at % self.ring.len()].clone();
        self.at += 1;
        Ok(Raw::Rows(Rows {
            bytes,
            rows: rows as usize,
            columns: self.columns.clone(),
            kept: self.kept.clone(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Builtin;
    use super::*;
    use crate::charrow::engine::{Engine, Wanted};

    #[test]
    fn what_is_prepared_is_not_made_again() {
        let engine = Builtin::new(&[], &[], 64 << 20).unwrap();
        let query = "SELECT * FROM state_rows(rows = 20000, block_rows = 1000)";
        let ring = || engine.states.0.lock().as_ref().unwrap().1.clone();
        engine.prepare(query).unwrap();
        let prepared = ring();
        assert_eq!(prepared.len(), 20);
        let wanted = Wanted {
            digests: false,
            block_bytes: 1 << 20,
        };
        engine.start("q", query, &wanted).unwrap();
        assert!(Arc::ptr_eq(&prepared, &ring()));
        assert!(engine.prepare("SELECT * FROM nothing").is_err());
    }
}
