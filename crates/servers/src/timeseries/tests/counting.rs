//! Who asks what is stored holds nobody up for long, and is told of every point once.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{json, Value};

use super::super::config::ServerSpec;
use super::super::counts::{count, series_of, Wanted};
use super::super::head::{Head, Turn};
use super::super::recover;
use super::super::sealer::{announce, seal};
use super::super::store::Store;
use super::super::totals::Totals;
use super::{ask, connect, get, post, spec, start, Folder};
use venturi_base::codec::timeseries::parse::Sink;
use venturi_base::data::points::series_hash;

const NAMES: [&str; 3] = ["a x=1", "a x=2", "b x=1"];

fn open(folder: &Folder) -> (Arc<Store>, Arc<Mutex<Head>>) {
    let text = spec(folder, json!({"threads": 1, "durable": "none"})).to_string();
    let store = recover::open(ServerSpec::parse(&text).unwrap()).unwrap();
    let head = Head::new(store.clone(), 0);
    (store, Arc::new(Mutex::new(head)))
}

/// A row of all series at each of these times.
fn push(head: &mut Head, times: std::ops::Range<i64>) {
    let mut turn = Turn {
        head,
        language: 0,
        last: 0,
        points: 0,
    };
    let names: Vec<Vec<u8>> = NAMES.iter().map(|name| name.as_bytes().into()).collect();
    let group = turn.find(b"key");
    let group = group.unwrap_or_else(|| turn.define(b"key", &[], &names).unwrap());
    for time in times {
        let value = time as f64;
        turn.push(group, time, &[value, value + 0.5, -value])
            .unwrap();
    }
}

fn all(store: &Store, heads: &[Arc<Mutex<Head>>]) -> Totals {
    count(store, heads, None, |catalog, all: &mut Totals| {
        all.add(&catalog.all)
    })
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
    let (store, head) = open(&folder);
    push(&mut head.lock(), 0..1_000_000);
    let (done, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                drop(head.lock());
                turns.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        while turns.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let before = turns.load(Ordering::Relaxed);
        let told = all(&store, std::slice::from_ref(&head));
        let turns = turns.load(Ordering::Relaxed) - before;
        done.store(true, Ordering::Relaxed);
        assert_eq!(told.checksum, expected(1_000_000).checksum);
        // Fifty steps; whoever waits for the head has it in between.
        assert!(turns > 10, "{turns}");
    });
}

/// Rows come, heads freeze and become segments while somebody counts: the answer is what was
/// there at one moment, as all points of a row come together.
#[test]
fn what_is_told_is_of_one_moment() {
    let folder = Folder::new();
    let (store, head) = open(&folder);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..40 {
                for part in 0..10 {
                    let from = round * 20_000 + part * 2_000;
                    push(&mut head.lock(), from..from + 2_000);
                }
                let mut held = head.lock();
                let frozen = announce(&store, held.freeze().unwrap());
                drop(held);
                seal(&store, &frozen).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut told = 0;
        while !done.load(Ordering::Relaxed) {
            let found = all(&store, std::slice::from_ref(&head));
            let rows = found.points as i64 / 3;
            assert_eq!((found.points % 3, rows % 2_000), (0, 0));
            assert_eq!(found.checksum, expected(rows).checksum, "{rows}");
            assert!(found.points >= told);
            told = found.points;
        }
    });
    let found = all(&store, std::slice::from_ref(&head));
    assert_eq!(
        (found.points, found.checksum),
        (2_400_000, expected(800_000).checksum)
    );
}

#[test]
fn only_what_is_wanted() {
    let folder = Folder::new();
    let (store, head) = open(&folder);
    push(&mut head.lock(), 0..10);
    let series = series_of(&store, b"a");
    assert_eq!(series, [0, 1]);
    assert_eq!(
        (series_of(&store, b"x"), series_of(&store, b"")),
        (vec![], vec![])
    );
    let wanted = Wanted::new(&series);
    let found: Totals = count(&store, &[head], Some(&wanted), |_, _| {});
    assert_eq!((found.points, found.min, found.max), (20, 0.0, 9.5));
}

#[test]
fn series_that_do_not_fit_an_answer() {
    let folder = Folder::new();
    let server = start(&folder, json!({"threads": 1}));
    let series = 220_000;
    let mut text = String::new();
    for number in 0..series {
        text += &format!("+a t={number}\r\n:1\r\n+1\r\n");
    }
    text += "+b t=1\r\n:1\r\n+7\r\n+FLUSH\r\n";
    assert_eq!(ask(&server, "resp", text.as_bytes()), "+OK 220001\r\n");
    let (status, body) = get(&server, "GET /api/stored?metric=a HTTP/1.1");
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &told["points"], &told["series"]),
        (200, &json!(series), &json!(series))
    );
    let (status, body) = get(&server, "GET /api/stored?metric=a&series=1 HTTP/1.1");
    assert_eq!(status, 413);
    assert!(body.contains("without series=1"), "{body}");
    let counted = br#"{"aggregate": {"a": "count"}}"#;
    let (status, body) = post(&server, "/api/query", "", counted);
    assert_eq!(status, 413);
    assert!(
        body.contains("220000 series have lines of more than"),
        "{body}"
    );
    let (status, body) = get(&server, "GET /api/stored?metric=b&series=1 HTTP/1.1");
    assert_eq!((status, body.lines().count()), (200, 1));
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(plain).unwrap();
    packed.finish().unwrap()
}

/// The thread has one connection that brings a large body, and one that asks.
#[test]
fn others_have_their_turn_while_a_body_is_unpacked() {
    let folder = Folder::new();
    let server = start(&folder, json!({"threads": 1}));
    let lines: Vec<u8> = (0..3_000_000)
        .flat_map(|number: u32| format!("{number} no point\n").into_bytes())
        .collect();
    let body = packed(&lines);
    let head = format!(
        "POST /write HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut bringing = connect(&server, "http");
    bringing.write_all(head.as_bytes()).unwrap();
    bringing.write_all(&body[..body.len() - 1]).unwrap();
    let mut asking = connect(&server, "http");
    let mut ping = || {
        asking.write_all(b"GET /ping HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = [0; 27];
        asking.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 204 No Content\r\n\r\n");
    };
    ping();
    bringing.write_all(&body[body.len() - 1..]).unwrap();
    bringing.set_nonblocking(true).unwrap();
    let mut answered = 0;
    while bringing.peek(&mut [0]).is_err() {
        ping();
        answered += 1;
    }
    bringing.set_nonblocking(false).unwrap();
    let mut answer = [0; 12];
    bringing.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400");
    // It pauses a thousand times.
    assert!(answered > 10, "{answered}");
}

#[test]
fn bodies_that_are_packed() {
    let folder = Folder::new();
    let server = start(&folder, json!({"threads": 1}));
    let gzip = "\r\nContent-Encoding: gzip";
    let one = packed(b"a value=1 1\n");
    let several = [
        &one[..],
        &packed(b""),
        &packed(b"a value=1 2\na value=1 3\n"),
    ]
    .concat();
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
    let (_, body) = get(&server, "GET /api/stored?metric=a HTTP/1.1");
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["points"], 3);
}
