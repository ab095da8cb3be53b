//! The working set as statements, shared by all lanes of a trial; and each stream's share.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{types, Array, RecordBatch};
use arrow_schema::DataType;
use parking_lot::Mutex;

use crate::{Applied, Runs, Sums, MAX_SUMS};
use venturi_base::data::payload_bytes;
use venturi_base::data::upsert::{Batches, Table};
use venturi_base::error::{Error, Kind, Result};
use venturi_base::halt::{self, Halt};
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::spec::{Generate, TrialSpec};

/// Makes statements of rows; no sockets, no clocks.
pub trait Builder: Send + Sync + 'static {
    type Statement: Send + Sync + 'static;

    fn build(&self, table: &Table, rows: &RecordBatch) -> Result<Self::Statement>;

    /// Payload bytes (METHOD) of what is sent of the rows.
    fn payload(&self, _table: &Table, rows: &RecordBatch) -> Result<u64> {
        Ok(payload_bytes(rows))
    }

    /// Bytes of memory that a statement holds, about.
    fn size(statement: &Self::Statement) -> usize;
}

/// A statement and what it carries.
#[derive(Debug)]
pub struct Prepared<S> {
    pub statement: S,
    pub rows: u64,
    /// Payload bytes (METHOD).
    pub bytes: u64,
    /// Sums over the added columns' values below zero, and above.
    pub least: Sums,
    pub most: Sums,
}

/// The seed's statements are built before the clock starts; so many bytes of them at most.
const MOST_AHEAD: u64 = 8 << 30;

const ACKNOWLEDGED: u8 = 1;
const IN_DOUBT: u8 = 2;

pub struct Work<B: Builder> {
    pub table: Table,
    pub batches: Batches,
    builder: B,
    ready: Option<Vec<Arc<Prepared<B::Statement>>>>,
    /// Of the whole trial.
    streams: usize,
    /// What became of each batch, over all its turns.
    seen: Box<[AtomicU8]>,
}

impl<B: Builder> Work<B> {
    /// Builds the statements where the spec wants them ahead, on all processors.
    pub fn new(spec: &TrialSpec, table: Table, batches: Batches, builder: B) -> Result<Self> {
        let seen = (0..batches.count()).map(|_| AtomicU8::new(0)).collect();
        let mut work = Self {
            table,
            batches,
            builder,
            ready: None,
            streams: spec.streams,
            seen,
        };
        if spec.generate == Generate::Ahead {
            work.ready = Some(work.build_all(&work.taken_by(spec))?);
        }
        Ok(work)
    }

    /// For each batch whether a stream of this process takes it.
    fn taken_by(&self, spec: &TrialSpec) -> Vec<bool> {
        let mut taken = vec![false; self.seen.len()];
        if spec.share.is_none() {
            taken.fill(true);
        }
        for stream in spec.own().filter(|_| spec.share.is_some()) {
            self.of(stream).for_each(|index| taken[index] = true);
        }
        taken
    }

    /// The batches that a stream takes, as `Share` deals them.
    fn of(&self, stream: usize) -> impl Iterator<Item = usize> {
        let count = self.seen.len();
        (stream % count.max(1)..count).step_by(self.streams)
    }

    pub fn builder(&self) -> &B {
        &self.builder
    }

    /// The statements of the batches that are `taken`, each at its own place.
    fn build_all(&self, taken: &[bool]) -> Result<Vec<Arc<Prepared<B::Statement>>>> {
        let count = self.batches.count();
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let held = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        let halt = halt::current();
        let build = |from: u64, to: u64| {
            let _entered = halt.as_ref().map(Halt::enter);
            let mut built = Vec::with_capacity((to - from) as usize);
            for index in (from..to).filter(|index| taken[*index as usize]) {
                if stop.load(Relaxed) {
                    break;
                }
                let made = halt::check().and_then(|()| self.build(index, None));
                let made = made.and_then(|made| {
                    let size = B::size(&made.statement) as u64;
                    match held.fetch_add(size, Relaxed) + size > MOST_AHEAD {
                        true => Err(too_much(index, count)),
                        false => Ok(made),
                    }
                });
                match made {
                    Ok(made) => built.push((index as usize, Arc::new(made))),
                    Err(error) => {
                        stop.store(true, Relaxed);
                        let mut failed = failed.lock();
                        failed.get_or_insert(error);
                    }
                }
            }
            built
        };
        let parts = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|part| {
                    let build = &build;
                    let (from, to) = (count * part / threads, count * (part + 1) / threads);
                    scope.spawn(move || build(from, to))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join())
                .collect::<Vec<_>>()
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let mut built = Vec::with_capacity(count as usize);
        for part in parts {
            let panicked = |_| Error::new(Kind::Internal, "building statements panicked");
            built.extend(part.map_err(panicked)?);
        }
        // Another process's places hold any statement: no stream of this one asks for them, and none
        // has to look whether there is one.
        let mut all = match built.first() {
            Some((_, made)) => vec![made.clone(); count as usize],
            None => Vec::new(),
        };
        for (index, made) in built {
            all[index] = made;
        }
        Ok(all)
    }

    /// A statement, built now or before. Marks what it took, if anything.
    pub fn statement(
        &self,
        index: u64,
        clock: &mut StageClock,
    ) -> Result<Arc<Prepared<B::Statement>>> {
        match &self.ready {
            Some(ready) => Ok(ready[index as usize].clone()),
            None => Ok(Arc::new(self.build(index, Some(clock))?)),
        }
    }

    fn build(
        &self,
        index: u64,
        mut clock: Option<&mut StageClock>,
    ) -> Result<Prepared<B::Statement>> {
        let rows = self.batches.get(index)?;
        if let Some(clock) = &mut clock {
            clock.mark(Stage::Generate);
        }
        let (least, most) = sums(&self.table, &rows)?;
        let made = Prepared {
            statement: self.builder.build(&self.table, &rows)?,
            rows: rows.num_rows() as u64,
            bytes: self.builder.payload(&self.table, &rows)?,
            least,
            most,
        };
        if let Some(clock) = &mut clock {
            clock.mark(Stage::Encode);
        }
        Ok(made)
    }

    pub fn acknowledged(&self, index: u64) {
        self.note(index, ACKNOWLEDGED);
    }

    pub fn in_doubt(&self, index: u64) {
        self.note(index, IN_DOUBT);
    }

    fn note(&self, index: u64, what: u8) {
        let seen = &self.seen[index as usize];
        if seen.load(Relaxed) & what == 0 {
            seen.fetch_or(what, Relaxed);
        }
    }

    /// The batches that were acknowledged at least once; those that are only in doubt.
    pub fn seen(&self) -> (Vec<u64>, Vec<u64>) {
        let all = || (0u64..).zip(self.seen.iter().map(|seen| seen.load(Relaxed)));
        let with = |holds: fn(u8) -> bool| {
            all()
                .filter(|(_, seen)| holds(*seen))
                .map(|(at, _)| at)
                .collect()
        };
        (
            with(|seen| seen & ACKNOWLEDGED != 0),
            with(|seen| seen == IN_DOUBT),
        )
    }
}

impl<B: Builder> Applied for Work<B> {
    fn of_stream(&self, stream: usize) -> Runs {
        let mut runs = Runs::new();
        for index in self.of(stream) {
            let state = self.seen[index].load(Relaxed);
            match runs.last_mut() {
                Some((known, times)) if *known == state => *times += 1,
                _ => runs.push((state, 1)),
            }
        }
        runs
    }

    fn learn(&self, stream: usize, runs: &Runs) -> Result<()> {
        let all = runs.iter().map(|(_, times)| *times);
        let told = all.fold(0u64, u64::saturating_add);
        if told != self.of(stream).count() as u64 {
            return Err(Error::usage(format!(
                "the tallies: stream {stream} tells of {told} batches, of {} it has {}",
                self.seen.len(),
                self.of(stream).count()
            )));
        }
        let states = runs
            .iter()
            .flat_map(|(state, times)| (0..*times).map(move |_| *state));
        for (index, state) in self.of(stream).zip(states) {
            self.seen[index].fetch_or(state & (ACKNOWLEDGED | IN_DOUBT), Relaxed);
        }
        Ok(())
    }
}

fn too_much(index: u64, count: u64) -> Error {
    let share = 100 * index / count.max(1);
    Error::new(
        Kind::Memory,
        format!(
            "statements built ahead take more than {} GiB after {share} % of the working set: \
             take a smaller --working-set, or --generate inline",
            MOST_AHEAD >> 30
        ),
    )
}

/// Sums over the added columns' values below zero, and above; a null adds nothing.
pub(super) fn sums(table: &Table, rows: &RecordBatch) -> Result<(Sums, Sums)> {
    macro_rules! values {
        ($column:expr, $kind:ty) => {
            $column.as_primitive::<$kind>().iter().flatten()
        };
    }
    macro_rules! unsigned {
        ($column:expr, $kind:ty) => {
            (0, values!($column, $kind).map(i128::from).sum())
        };
    }
    macro_rules! signed {
        ($column:expr, $kind:ty) => {
            values!($column, $kind).fold((0, 0), |(least, most), value| {
                let (below, above) = (value.min(0), value.max(0));
                (least + i128::from(below), most + i128::from(above))
            })
        };
    }
    let (mut least, mut most) = ([0; MAX_SUMS], [0; MAX_SUMS]);
    for (sum, &at) in least.iter_mut().zip(&mut most).zip(&table.add) {
        let column = rows.column(at);
        let (below, above): (i128, i128) = match column.data_type() {
            DataType::Int8 => signed!(column, types::Int8Type),
            DataType::Int16 => signed!(column, types::Int16Type),
            DataType::Int32 => signed!(column, types::Int32Type),
            DataType::Int64 => signed!(column, types::Int64Type),
            DataType::UInt8 => unsigned!(column, types::UInt8Type),
            DataType::UInt16 => unsigned!(column, types::UInt16Type),
            DataType::UInt32 => unsigned!(column, types::UInt32Type),
            DataType::UInt64 => unsigned!(column, types::UInt64Type),
            other => {
                return Err(Error::usage(format!(
                    "a {other} column cannot be summed up"
                )));
            }
        };
        (*sum.0, *sum.1) = (below, above);
    }
    Ok((least, most))
}

/// What is one stream's: every `streams`-th batch from its own number on, over and over;
/// its lanes take the next one in turn. All of them run on one thread.
#[derive(Debug, Clone)]
pub struct Share(Rc<Turns>);

#[derive(Debug)]
struct Turns {
    next: Cell<u64>,
    stride: u64,
    count: u64,
    /// Fixed work: batches still to be handed out.
    left: Cell<Option<u64>>,
}

impl Share {
    /// Of `count` batches. Fixed work is rounded up to whole batches.
    pub fn new(spec: &TrialSpec, stream: usize, count: u64) -> Self {
        let batches = |rows: u64| rows.div_ceil(spec.rows_per_batch as u64);
        Self(Rc::new(Turns {
            next: Cell::new(stream as u64 % count.max(1)),
            stride: spec.streams as u64,
            count,
            left: Cell::new(spec.rows_per_stream.map(batches)),
        }))
    }

    pub fn is_spent(&self) -> bool {
        self.0.left.get() == Some(0)
    }

    /// The next batch; `None`: the work is done.
    pub fn take(&self) -> Option<u64> {
        let turns = &*self.0;
        if let Some(left) = turns.left.get() {
            turns.left.set(Some(left.checked_sub(1)?));
        }
        let index = turns.next.get();
        let next = index + turns.stride;
        // Back to its own place: a stream keeps to its own batches, as far as there are enough.
        turns.next.set(match next < turns.count {
            true => next,
            false => next % turns.stride % turns.count,
        });
        Some(index)
    }
}
