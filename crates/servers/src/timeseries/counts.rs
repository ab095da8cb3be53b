//! What is stored, counted beside the readers.
//!
//! Points that are not sealed are hashed one by one for that, which takes long where there are
//! many. So a memtable is held for some of them at a time, and those that follow are counted while
//! it takes more; all memtables are held at once only for what has come meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::memtable::Memtable;
use super::series::Totals;
use super::store::{Frozen, Store};
use venturi_base::data::points::series_hash;

/// Points that are counted at a time: a fraction of a millisecond.
pub(super) const STEP: usize = 64 << 10;
/// After a step, so that whoever waits for the memtable has it: locks here are not fair.
const BREATH: Duration = Duration::from_micros(100);
/// The second time there is what has come during the first.
const PASSES: usize = 2;

/// Points that are in memory, as they came: rows are only ever added.
pub trait Rows {
    /// The series, the stamps and the values, row by row, of one part after the other.
    fn part(&self, at: usize) -> Option<(&[u32], &[i64], &[f64])>;
}

/// What of a memtable has been counted, also once it is frozen.
#[derive(Default)]
struct Counted {
    /// Of each part.
    rows: Vec<usize>,
    totals: Totals,
}

struct Count<'a> {
    store: &'a Store,
    between: &'a mut dyn FnMut(),
    /// By the memtables' numbers.
    counted: HashMap<u64, Counted>,
}

/// Sums up all points, sealed or not, as they were at one moment.
pub fn count(store: &Store, memtables: &[Arc<Mutex<Memtable>>]) -> Totals {
    count_in_steps(store, memtables, &mut || std::thread::sleep(BREATH))
}

/// The same; calls `between` after each step, when no memtable is held.
pub(super) fn count_in_steps(
    store: &Store,
    memtables: &[Arc<Mutex<Memtable>>],
    between: &mut dyn FnMut(),
) -> Totals {
    let mut count = Count {
        store,
        between,
        counted: HashMap::new(),
    };
    for _ in 0..PASSES {
        memtables.iter().for_each(|memtable| count.ahead(memtable));
    }
    let sealing = store.catalog.lock().sealing.clone();
    for frozen in &sealing {
        count.rest(frozen.id, &**frozen);
    }
    // All memtables are held at once, so that no point is on its way from one to the other.
    let held: Vec<_> = memtables.iter().map(|memtable| memtable.lock()).collect();
    let catalog = store.catalog.lock();
    // What was counted of a memtable that has been sealed meanwhile is in the catalog.
    let mut all = catalog.totals;
    for frozen in &catalog.sealing {
        all.add(&count.rest(frozen.id, &**frozen));
    }
    for memtable in &held {
        if let Some(id) = memtable.id() {
            all.add(&count.rest(id, &**memtable));
        }
    }
    all
}

impl Count<'_> {
    /// Counts what a memtable has, some of it at a time.
    fn ahead(&mut self, memtable: &Mutex<Memtable>) {
        let (mut number, mut at) = (None, 0);
        loop {
            let memtable = memtable.lock();
            let Some(id) = memtable.id() else { return };
            if number.replace(id).is_some_and(|before| before != id) {
                at = 0;
            }
            let more = self.step(id, &*memtable, &mut at, STEP);
            drop(memtable);
            if !more {
                return;
            }
            (self.between)();
        }
    }

    /// Counts what is left of a memtable, and returns all of it.
    fn rest(&mut self, id: u64, rows: &impl Rows) -> Totals {
        self.step(id, rows, &mut 0, usize::MAX);
        self.counted
            .get(&id)
            .map_or_else(Totals::default, |it| it.totals)
    }

    /// Counts so many points at most, from a part on. False: it has seen the last part.
    fn step(&mut self, id: u64, rows: &impl Rows, at: &mut usize, most: usize) -> bool {
        let counted = self.counted.entry(id).or_default();
        let mut left = most;
        while let Some((series, stamps, values)) = rows.part(*at) {
            if left == 0 {
                return true;
            }
            if counted.rows.len() <= *at {
                counted.rows.resize(*at + 1, 0);
            }
            let (from, width) = (counted.rows[*at], series.len());
            let more = (left / width).saturating_add(1);
            let to = stamps.len().min(from.saturating_add(more));
            if from < to {
                let names = self.store.registry.names();
                for (column, &series) in series.iter().enumerate() {
                    let values = values[from * width..].iter().skip(column).step_by(width);
                    let points = stamps[from..to].iter().copied().zip(values.copied());
                    let totals = Totals::of(series_hash(names.get(series)), points);
                    counted.totals.add(&totals);
                }
            }
            counted.rows[*at] = to;
            // A part with nothing new costs a look.
            left = left.saturating_sub((to - from) * width + 1);
            if to == stamps.len() {
                *at += 1;
            }
        }
        false
    }
}

impl Rows for Frozen {
    fn part(&self, at: usize) -> Option<(&[u32], &[i64], &[f64])> {
        let part = self.parts.get(at)?;
        Some((&part.series, &part.stamps, &part.values))
    }
}

impl Rows for Memtable {
    fn part(&self, at: usize) -> Option<(&[u32], &[i64], &[f64])> {
        self.rows(at)
    }
}
