//! What a stream has moved so far, readable by others while it runs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One stream's counters. Only the stream's own thread writes, so a load and a store
/// do, without a locked instruction; two cache lines apart, because the processor
/// fetches lines in pairs. A reader sees each counter whole, but not all three from
/// the same instant.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    rows: AtomicU64,
    bytes: AtomicU64,
    batches: AtomicU64,
}

/// Counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub rows: u64,
    /// Payload bytes.
    pub bytes: u64,
    pub batches: u64,
}

impl Counters {
    /// A row of counters, one a stream.
    pub fn row(streams: usize) -> std::sync::Arc<[Counters]> {
        (0..streams).map(|_| Counters::default()).collect()
    }

    /// One more batch. To be called by one thread only.
    #[inline]
    pub fn add(&self, rows: u64, bytes: u64) {
        self.rows.store(self.rows.load(Relaxed) + rows, Relaxed);
        self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
        self.batches.store(self.batches.load(Relaxed) + 1, Relaxed);
    }

    pub fn read(&self) -> Counts {
        Counts {
            rows: self.rows.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            batches: self.batches.load(Relaxed),
        }
    }

    /// The sum over streams.
    pub fn sum(all: &[Counters]) -> Counts {
        all.iter()
            .map(Counters::read)
            .fold(Counts::default(), |a, b| Counts {
                rows: a.rows + b.rows,
                bytes: a.bytes + b.bytes,
                batches: a.batches + b.batches,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_do_not_share_lines() {
        let row = Counters::row(2);
        row[0].add(10, 320);
        row[0].add(10, 320);
        row[1].add(1, 32);
        assert_eq!(
            row[0].read(),
            Counts {
                rows: 20,
                bytes: 640,
                batches: 2
            }
        );
        assert_eq!(
            Counters::sum(&row),
            Counts {
                rows: 21,
                bytes: 672,
                batches: 3
            }
        );
        assert_eq!(size_of::<Counters>(), 128);
    }
}
