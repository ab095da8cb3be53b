//! Progress marks: how far a stream was at which time, for the steady window.
//!
//! Each stream keeps a bounded number of marks. It starts with one a batch; when the
//! room is full, every second mark goes and from then on half as many are made. Between
//! marks progress is taken as even. So a figure at any moment is off by less than one
//! batch for a stream with fewer batches than marks, else by less than 2 / marks of the
//! stream (0.05 % with 4096).

/// So many marks for all streams together (24 bytes each)...
const ALL: usize = 1 << 20;
/// ... and no more, and no fewer, for one.
const MOST: usize = 4096;
const FEWEST: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark {
    ns: u64,
    rows: u64,
    bytes: u64,
}

#[derive(Debug)]
pub struct Marks {
    marks: Vec<Mark>,
    room: usize,
    /// One mark every so many batches.
    stride: u64,
    /// Batches until the next one.
    left: u64,
    last: Mark,
}

impl Marks {
    pub fn new(streams: usize) -> Self {
        Self {
            marks: Vec::new(),
            room: (ALL / streams.max(1)).clamp(FEWEST, MOST),
            stride: 1,
            left: 1,
            last: Mark {
                ns: 0,
                rows: 0,
                bytes: 0,
            },
        }
    }

    /// A batch was done at `ns` since the start instant.
    #[inline]
    pub fn add(&mut self, ns: u64, rows: u64, bytes: u64) {
        self.last = Mark {
            ns,
            rows: self.last.rows + rows,
            bytes: self.last.bytes + bytes,
        };
        self.left -= 1;
        if self.left == 0 {
            self.keep();
        }
    }

    #[inline(never)]
    fn keep(&mut self) {
        if self.marks.len() == self.room {
            let mut odd = false;
            self.marks.retain(|_| {
                odd = !odd;
                !odd
            });
            self.stride *= 2;
        }
        self.marks.push(self.last);
        self.left = self.stride;
    }

    /// Rows and payload bytes done by `ns`.
    pub fn at(&self, ns: u64) -> (f64, f64) {
        let next = self.marks.partition_point(|mark| mark.ns <= ns);
        let before = match next {
            0 => Mark {
                ns: 0,
                rows: 0,
                bytes: 0,
            },
            at => self.marks[at - 1],
        };
        let after = self.marks.get(next).copied().unwrap_or(self.last);
        if after.ns <= ns || after.ns <= before.ns {
            return (after.rows as f64, after.bytes as f64);
        }
        let part = (ns.saturating_sub(before.ns)) as f64 / (after.ns - before.ns) as f64;
        let between = |a: u64, b: u64| a as f64 + part * b.saturating_sub(a) as f64;
        (
            between(before.rows, after.rows),
            between(before.bytes, after.bytes),
        )
    }
}

/// What moved while every stream was moving.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steady {
    pub ns: u64,
    pub rows: u64,
    pub bytes: u64,
}

/// The steady window of streams given as (first batch, end, marks). Nothing where some
/// stream moved no batch or ended before another had begun.
pub fn steady<'a>(streams: impl Iterator<Item = (Option<u64>, u64, &'a Marks)> + Clone) -> Steady {
    let mut from = 0;
    let mut to = u64::MAX;
    for (first, end, _) in streams.clone() {
        let Some(first) = first else {
            return Steady::default();
        };
        from = from.max(first);
        to = to.min(end);
    }
    if to <= from || to == u64::MAX {
        return Steady::default();
    }
    let (mut rows, mut bytes) = (0.0, 0.0);
    for (_, _, marks) in streams {
        let (start, end) = (marks.at(from), marks.at(to));
        rows += end.0 - start.0;
        bytes += end.1 - start.1;
    }
    Steady {
        ns: to - from,
        rows: rows.round() as u64,
        bytes: bytes.round() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn even(batches: u64, every: u64) -> Marks {
        let mut marks = Marks::new(1);
        (1..=batches).for_each(|n| marks.add(n * every, 10, 80));
        marks
    }

    #[test]
    fn the_window_is_from_the_last_first_to_the_first_last() {
        // One stream at 10 rows per 100 ns from the start, one twice as fast from 1000 on.
        let slow = even(100, 100);
        let mut fast = Marks::new(2);
        (1..=50).for_each(|n| fast.add(1000 + n * 50, 10, 80));
        let streams = [(Some(100), 10_000, &slow), (Some(1050), 3500, &fast)];
        let window = steady(streams.into_iter());
        assert_eq!(window.ns, 2450);
        assert_eq!(window.rows, 245 + 490);
        assert_eq!(window.bytes, window.rows * 8);
    }

    #[test]
    fn no_window_without_a_batch_or_without_an_overlap() {
        let marks = even(3, 10);
        assert_eq!(steady([(None, 30, &marks)].into_iter()), Steady::default());
        let apart = [(Some(10), 30, &marks), (Some(40), 70, &marks)];
        assert_eq!(steady(apart.into_iter()), Steady::default());
        assert_eq!(steady(std::iter::empty()), Steady::default());
    }

    proptest! {
        #[test]
        fn marks_are_off_by_less_than_promised(batches in 1u64..60_000, at in 0.0f64..1.2) {
            let marks = even(batches, 7);
            prop_assert!(marks.marks.len() <= MOST);
            let ns = (at * (batches * 7) as f64) as u64;
            let right = (ns / 7).min(batches) as f64 * 10.0;
            let allowed = 10.0 * (batches as f64 * 2.0 / MOST as f64).max(1.0);
            prop_assert!((marks.at(ns).0 - right).abs() <= allowed);
        }
    }
}
