//! What the parts of the hot path cost a thread alone, and beside others that use them at the same
//! time: `cargo run --release --example contended [rounds [threads ...]]`. A line of JSON each, for
//! `bench/cores`.
//!
//! Each thread has a CPU of its own. What it did is held against its own CPU time: a thread that
//! the kernel put aside is no contention; one that waits for a cache line is.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use venturi_base::codec::ipc::{Compression, Encoder};
use venturi_base::codec::slab::{Growing, Pool};
use venturi_base::data::Source;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::counters::Counters;
use venturi_base::meter::end::thread_cpu_ns;
use venturi_base::meter::histogram::Recorder;
use venturi_base::os::pin::{allowed, pin};
use venturi_base::spec::{Data, Values};

const ROWS: usize = 4096;
const COLUMNS: usize = 4;
/// Short: on a machine that others use, threads that both run without a break for long are rare.
const TURN: Duration = Duration::from_millis(2);
/// A turn in which a thread ran for less of the time is made again, some times.
const RUNNING: f64 = 0.95;
const TRIES: usize = 100;
/// Operations between two looks at the clock.
const OPERATIONS: u64 = 64;

type Operation<'a> = Box<dyn FnMut() + 'a>;
type Make = for<'a> fn(&'a Shared, usize) -> Operation<'a>;

/// What all threads see.
struct Shared {
    source: Source,
    counters: Vec<Counters>,
    counter: AtomicU64,
    stop: AtomicBool,
}

/// Every part by its name, and how a thread uses it.
const PARTS: [(&str, Make); 9] = [
    ("one counter for all", |shared, _| {
        Box::new(|| {
            shared.counter.fetch_add(1, Relaxed);
        })
    }),
    ("one batch for all, kept by each", |shared, _| {
        let mut cursor = shared.source.cursor(None);
        Box::new(move || {
            let item = cursor.next().expect("without end");
            drop(black_box(item.batch().clone()));
        })
    }),
    ("encoder", |shared, _| {
        let mut encoder =
            Encoder::new(&shared.source.schema(), Compression::None).expect("known types");
        let mut cursor = shared.source.cursor(None);
        let mut encoded = Vec::new();
        Box::new(move || {
            let item = cursor.next().expect("without end");
            encoder
                .encode(item.batch(), &mut encoded)
                .expect("known types");
            black_box(&encoded);
            encoded.clear();
        })
    }),
    ("source", |shared, _| {
        let mut cursor = shared.source.cursor(None);
        Box::new(move || {
            let item = cursor.next().expect("without end");
            black_box(item.digest().expect("a digest"));
        })
    }),
    ("counters of streams", |shared, thread| {
        Box::new(move || shared.counters[thread].add(ROWS as u64, 131_072))
    }),
    ("slabs", |_, _| {
        let mut growing = Growing::new(Pool::default());
        Box::new(move || {
            black_box(growing.add(65_536));
            drop(black_box(growing.finish()));
        })
    }),
    ("allocator", |_, _| {
        Box::new(|| {
            drop(black_box((
                Vec::<u8>::with_capacity(200),
                Vec::<u8>::with_capacity(4096),
            )))
        })
    }),
    ("stage clock and histogram", |_, _| {
        let mut clock = StageClock::since(Instant::now());
        let mut recorder = Recorder::new();
        let mut last = clock.last();
        Box::new(move || {
            let now = clock.mark(Stage::Decode);
            recorder.record((now - last).as_nanos() as u64);
            last = now;
        })
    }),
    ("stop flag", |shared, _| {
        Box::new(|| {
            black_box(shared.stop.load(Relaxed));
        })
    }),
];

/// What one turn of all threads has found.
struct Turn {
    /// Nanoseconds of CPU an operation, on the mean of the threads.
    ns: f64,
    /// Of the thread that was put aside the most: the share of the time that it ran. While one is aside,
    /// nobody stands beside the others.
    running: f64,
}

fn turn(shared: &Shared, make: Make, threads: usize) -> Turn {
    let (barrier, cpus) = (Barrier::new(threads), allowed().expect("CPUs"));
    assert!(threads <= cpus.len(), "{threads} threads need as many CPUs");
    let each: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let working: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, cpus) = (&barrier, &cpus);
                scope.spawn(move || {
                    pin(cpus[thread]).expect("a CPU for each thread");
                    let mut operation = make(shared, thread);
                    (0..OPERATIONS).for_each(|_| operation());
                    barrier.wait();
                    let (begun, before) = (Instant::now(), thread_cpu_ns());
                    let mut done = 0;
                    while done == 0 || begun.elapsed() < TURN {
                        (0..OPERATIONS).for_each(|_| operation());
                        done += OPERATIONS;
                    }
                    let used = (thread_cpu_ns() - before) as f64;
                    (used / done as f64, used / begun.elapsed().as_nanos() as f64)
                })
            })
            .collect();
        let ended = working.into_iter().map(|thread| thread.join());
        ended.map(|found| found.expect("no panic")).collect()
    });
    Turn {
        ns: each.iter().map(|(ns, _)| ns).sum::<f64>() / each.len() as f64,
        running: each.iter().map(|(_, running)| *running).fold(1.0, f64::min),
    }
}

fn main() {
    let given: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    let rounds = given.first().copied().unwrap_or(20);
    let threads = if given.len() > 1 {
        given[1..].to_vec()
    } else {
        vec![1, 2]
    };
    let most = threads.iter().copied().max().unwrap_or(1);
    let data = Data::Records {
        columns: COLUMNS,
        values: Values::Random,
        seed: 1,
    };
    let source = Source::make(&data, ROWS).expect("data");
    let shared = Shared {
        source,
        counters: (0..most).map(|_| Counters::default()).collect(),
        counter: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    for round in 0..rounds {
        for (part, make) in PARTS {
            for &count in &threads {
                let mut found = turn(&shared, make, count);
                for _ in 0..TRIES {
                    if found.running >= RUNNING {
                        break;
                    }
                    found = turn(&shared, make, count);
                }
                let Turn { ns, running } = found;
                let what = format!(r#""round": {round}, "part": "{part}", "threads": {count}"#);
                println!(r#"{{"kind": "part", {what}, "ns": {ns:.3}, "running": {running:.3}}}"#);
            }
        }
    }
}
