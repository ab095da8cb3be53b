//! What is stored, counted beside the readers.
//!
//! Points that are not sealed are hashed one by one for that, which takes long where there are
//! many. So a head is held for some of them at a time, and those that follow are counted while
//! it takes more; all heads are held at once only for what has come meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::head::{Frozen, Head};
use super::registry::NEVER;
use super::store::{Catalog, Store};
use super::totals::Totals;
use venturi_base::data::points::series_hash;

/// Points that are counted at a time: a fraction of a millisecond.
pub(super) const STEP: usize = 64 << 10;
/// After a step, so that whoever waits for the head has it: locks here are not fair.
const BREATH: Duration = Duration::from_micros(100);
/// The second time there is what has come during the first.
const PASSES: usize = 2;
/// Names that are looked at before a new series has a turn to be registered.
const NAMES: u32 = 64 << 10;

/// Where sums go to.
pub trait Tally: Default {
    fn add(&mut self, series: u32, more: &Totals);
    fn merge(&mut self, other: Self);
}

impl Tally for Totals {
    fn add(&mut self, _: u32, more: &Totals) {
        Totals::add(self, more);
    }

    fn merge(&mut self, other: Self) {
        Totals::add(self, &other);
    }
}

/// By the series' number.
impl Tally for HashMap<u32, Totals> {
    fn add(&mut self, series: u32, more: &Totals) {
        self.entry(series).or_default().add(more);
    }

    fn merge(&mut self, other: Self) {
        for (series, totals) in other {
            Tally::add(self, series, &totals);
        }
    }
}

/// Numbers of series, a bit each.
pub struct Wanted(Vec<u64>);

impl Wanted {
    pub fn new(series: &[u32]) -> Self {
        let most = series.last().map_or(0, |&last| last as usize / 64 + 1);
        let mut bits = vec![0; most];
        for &series in series {
            if let Some(word) = bits.get_mut(series as usize / 64) {
                *word |= 1 << (series % 64);
            }
        }
        Self(bits)
    }

    fn has(&self, series: u32) -> bool {
        let word = self.0.get(series as usize / 64);
        word.is_some_and(|word| word & 1 << (series % 64) != 0)
    }
}

/// Points that are in memory, as they came: rows are only ever added.
pub trait Rows {
    /// The series, the stamps and the values, row by row, of one part after the other.
    fn part(&self, at: usize) -> Option<(&[u32], &[i64], &[f64])>;
}

/// What of a head has been counted, also once it is frozen.
#[derive(Default)]
struct Counted<T> {
    /// Of each part.
    rows: Vec<usize>,
    tally: T,
}

struct Count<'a, T> {
    store: &'a Store,
    wanted: Option<&'a Wanted>,
    between: &'a mut dyn FnMut(),
    /// By the heads' numbers.
    counted: HashMap<u64, Counted<T>>,
}

/// Sums up all points of the series that are wanted, or of all. `sealed` adds what the catalog
/// has, at the same moment.
pub fn count<T: Tally>(
    store: &Store,
    heads: &[Arc<Mutex<Head>>],
    wanted: Option<&Wanted>,
    sealed: impl FnOnce(&Catalog, &mut T),
) -> T {
    let mut breathe = || std::thread::sleep(BREATH);
    count_in_steps(store, heads, wanted, sealed, &mut breathe)
}

/// The same; calls `between` after each step, when no head is held.
pub(super) fn count_in_steps<T: Tally>(
    store: &Store,
    heads: &[Arc<Mutex<Head>>],
    wanted: Option<&Wanted>,
    sealed: impl FnOnce(&Catalog, &mut T),
    between: &mut dyn FnMut(),
) -> T {
    let mut count = Count {
        store,
        wanted,
        between,
        counted: HashMap::new(),
    };
    for _ in 0..PASSES {
        heads.iter().for_each(|head| count.ahead(head));
    }
    let sealing = store.catalog.lock().sealing.clone();
    for frozen in &sealing {
        count.rest(frozen.id, &**frozen);
    }
    // All heads are held at once, so that no point is on its way from one to the other.
    let held: Vec<_> = heads.iter().map(|head| head.lock()).collect();
    let catalog = store.catalog.lock();
    let mut all = T::default();
    for frozen in &catalog.sealing {
        count.rest(frozen.id, &**frozen);
        all.merge(count.take(frozen.id));
    }
    for head in &held {
        if let Some(id) = head.id() {
            count.rest(id, &**head);
            all.merge(count.take(id));
        }
    }
    drop(held);
    // What was counted of a head that has been sealed meanwhile is in the catalog.
    sealed(&catalog, &mut all);
    all
}

impl<T: Tally> Count<'_, T> {
    /// Counts what a head has, some of it at a time.
    fn ahead(&mut self, head: &Mutex<Head>) {
        let (mut number, mut at) = (None, 0);
        loop {
            let head = head.lock();
            let Some(id) = head.id() else { return };
            if number.replace(id).is_some_and(|before| before != id) {
                at = 0;
            }
            let more = self.step(id, &*head, &mut at, STEP);
            drop(head);
            if !more {
                return;
            }
            (self.between)();
        }
    }

    fn rest(&mut self, id: u64, rows: &impl Rows) {
        self.step(id, rows, &mut 0, usize::MAX);
    }

    /// Counts so many points at most, from a part on. False: it has seen the last part.
    fn step(&mut self, id: u64, rows: &impl Rows, at: &mut usize, most: usize) -> bool {
        let counted = self.counted.entry(id).or_insert_with(|| Counted {
            rows: Vec::new(),
            tally: T::default(),
        });
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
                    if self.wanted.is_none_or(|wanted| wanted.has(series)) {
                        let values = values[from * width..].iter().skip(column).step_by(width);
                        let points = stamps[from..to].iter().copied().zip(values.copied());
                        let totals = Totals::of(series_hash(names.get(series)), points);
                        counted.tally.add(series, &totals);
                    }
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

    fn take(&mut self, id: u64) -> T {
        let counted = self.counted.remove(&id);
        counted.map_or_else(T::default, |it| it.tally)
    }
}

impl Rows for Frozen {
    fn part(&self, at: usize) -> Option<(&[u32], &[i64], &[f64])> {
        let part = self.parts.get(at)?;
        Some((&part.series, &part.stamps, &part.values))
    }
}

/// The series of a metric that have points, by number.
pub fn series_of(store: &Store, metric: &[u8]) -> Vec<u32> {
    let (mut found, mut from) = (Vec::new(), 0);
    loop {
        let names = store.registry.names();
        let to = (names.len() as u32).min(from + NAMES);
        let is_wanted = |&series: &u32| {
            super::segment::metric(names.get(series)) == metric
                && store
                    .registry
                    .last(series)
                    .load(std::sync::atomic::Ordering::Relaxed)
                    != NEVER
        };
        found.extend((from..to).filter(is_wanted));
        if to == names.len() as u32 {
            return found;
        }
        from = to;
    }
}
