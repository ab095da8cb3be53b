//! Who asks what is stored holds nobody up for long, and is told of every point once.

use std::future::Future;
use std::pin::pin;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use serde_json::json;

use super::super::config::ServerSpec;
use super::super::counts::{count, count_in_steps, STEP};
use super::super::http::{unpacked, PACKED_SLICE};
use super::super::memtable::{Memtable, Turn};
use super::super::recover;
use super::super::series::Totals;
use super::super::store::Store;
use super::{packed, post, spec, start_one, statistics, Folder};
use venturi_base::codec::timeseries::parse::Sink;
use venturi_base::data::points::series_hash;

const NAMES: [&str; 3] = ["a x=1", "a x=2", "b x=1"];

fn open(folder: &Folder) -> (Arc<Store>, Arc<Mutex<Memtable>>) {
    let text = spec(folder, json!({"threads": 1, "durable": "none"})).to_string();
    let store = recover::open(ServerSpec::parse(&text).unwrap()).unwrap().0;
    let memtable = Memtable::new(store.clone(), 0);
    (store, Arc::new(Mutex::new(memtable)))
}

/// A row of all series at each of these times.
fn push(memtable: &mut Memtable, times: std::ops::Range<i64>) {
    let mut turn = Turn {
        memtable,
        language: 0,
        last: 0,
        points: 0,
    };
    let names: Vec<Vec<u8>> = NAMES.iter().map(|name| name.as_bytes().into()).collect();
    let group = turn.find(b"key");
    let group = group.unwrap_or_else(|| turn.define(b"key", &[], &names).unwrap());
    for time in times {
        let value = time as f64;
        let values = [value, value + 0.5, -value];
        turn.push(group, time, &values).unwrap();
    }
}

/// Of the rows up to a time.
fn expected(rows: i64) -> Totals {
    let mut all = Totals::default();
    let values: [fn(i64) -> f64; 3] = [|it| it as f64, |it| it as f64 + 0.5, |it| -(it as f64)];
    for (name, value) in NAMES.iter().zip(values) {
        let points = (0..rows).map(|time| (time, value(time)));
        all.add(&Totals::of(series_hash(name.as_bytes()), points));
    }
    all
}

#[test]
fn others_have_their_turn_while_points_are_counted() {
    let folder = Folder::new();
    let (store, memtable) = open(&folder);
    push(&mut memtable.lock(), 0..200_000);
    let (mut turns, mut rows) = (0, 200_000);
    let found = count_in_steps(&store, slice::from_ref(&memtable), &mut || {
        turns += 1;
        rows += 10;
        push(&mut memtable.try_lock().unwrap(), rows - 10..rows);
    });
    assert_eq!(turns, 200_000 * NAMES.len() / STEP);
    assert_eq!(found.checksum, expected(rows).checksum);
}

/// Rows come, memtables freeze and become segments while somebody counts: the answer is what was
/// there at one moment, as all points of a row come together.
#[test]
fn what_is_told_is_of_one_moment() {
    let folder = Folder::new();
    let (store, memtable) = open(&folder);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..12 {
                for part in 0..10 {
                    let from = round * 20_000 + part * 2_000;
                    push(&mut memtable.lock(), from..from + 2_000);
                }
                let mut held = memtable.lock();
                let frozen = store.announce(held.freeze().unwrap());
                drop(held);
                store.seal(&frozen, false).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut told = 0;
        while !done.load(Ordering::Relaxed) {
            let found = count(&store, slice::from_ref(&memtable));
            let rows = found.points as i64 / 3;
            assert_eq!((found.points % 3, rows % 2_000), (0, 0));
            assert_eq!(found.checksum, expected(rows).checksum, "{rows}");
            assert!(found.points >= told);
            told = found.points;
        }
    });
    let found = count(&store, slice::from_ref(&memtable));
    assert_eq!(found.points, 720_000);
    assert_eq!(found.checksum, expected(240_000).checksum);
}

#[test]
fn others_have_their_turn_while_a_body_is_unpacked() {
    let lines = (0..100_000).flat_map(|number| format!("{number} no point\n").into_bytes());
    let lines: Vec<u8> = lines.collect();
    let body = packed(&lines);
    let mut unpacking = pin!(unpacked(&body));
    let mut turns = 0;
    let found: Vec<u8> = loop {
        let cx = &mut Context::from_waker(Waker::noop());
        match unpacking.as_mut().poll(cx) {
            Poll::Ready(found) => break found.unwrap(),
            Poll::Pending => turns += 1,
        }
    };
    assert_eq!(
        (turns, found == lines),
        (body.len().div_ceil(PACKED_SLICE), true)
    );
}

#[test]
fn bodies_that_are_packed() {
    let folder = Folder::new();
    let server = start_one(&folder);
    let gzip = "\r\nContent-Encoding: gzip";
    let one = packed(b"a value=1 1\n");
    let two = packed(b"a value=1 2\na value=1 3\n");
    let several = [one.clone(), packed(b""), two].concat();
    assert_eq!(post(&server, "/write", gzip, &several).0, 204);
    for (body, status, said) in [
        (&one[..one.len() - 3], 400, "not gzip"),
        (&one[..5], 400, "not gzip"),
        (b"plain text", 400, "not gzip"),
        (b"", 400, "not gzip"),
        (&packed(&vec![b'x'; 65 << 20])[..], 413, "unpacked"),
    ] {
        let (found, text) = post(&server, "/write", gzip, body);
        assert_eq!(found, status, "{text}");
        assert!(text.contains(said), "{text}");
    }
    assert_eq!(statistics(&server)["points"], 3);
}
