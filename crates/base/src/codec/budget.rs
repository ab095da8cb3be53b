//! A bound on the bytes of messages that are being received, over all connections: what is
//! only half there counts nowhere else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::error::{Error, Kind, Result};

/// Smaller messages are not counted: a connection's streams are few.
const SMALL: usize = 64 << 10;

/// Cheap to clone; clones share the bound.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: u64,
    claimed: AtomicU64,
}

/// Bytes of one message; given back when dropped.
#[derive(Debug)]
pub struct Claim {
    budget: Budget,
    bytes: u64,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        let claimed = AtomicU64::new(0);
        Self(Arc::new(Inner { limit, claimed }))
    }

    /// Claims room for a message that is about to come in.
    pub fn claim(&self, length: usize) -> Result<Option<Claim>> {
        if length <= SMALL {
            return Ok(None);
        }
        let bytes = length as u64;
        let claim = Claim {
            budget: self.clone(),
            bytes,
        };
        let before = self.0.claimed.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.0.limit {
            return Err(Error::new(
                Kind::Memory,
                format!(
                    "more than {} bytes of messages would be in flight to this server at once: use fewer rows per batch, or start it with a larger --memory",
                    self.0.limit
                ),
            ));
        }
        Ok(Some(claim))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.budget
            .0
            .claimed
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_bounded_and_given_back() {
        let budget = Budget::new(1 << 20);
        let first = budget.claim(1 << 19).unwrap();
        let second = budget.clone().claim(1 << 19).unwrap();
        assert_eq!(budget.claim(SMALL + 1).unwrap_err().kind, Kind::Memory);
        assert!(budget.claim(SMALL).unwrap().is_none());
        drop(first);
        assert!(budget.claim(SMALL + 1).unwrap().is_some());
        drop(second);
        assert!(budget.claim(1 << 20).unwrap().is_some());
    }
}
