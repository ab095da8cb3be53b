//! Servers that are broken, silent or mean: the trial is a failed record with the right
//! kind in good time, never a hang or a panic.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use venturi_core::codec::frame::{code, flag, kind};
use venturi_core::codec::ipc::Compression;
use venturi_core::engine::{run, Control, Outcome, Record};
use venturi_core::error::Kind;
use venturi_core::spec::TrialSpec;

use super::wire::*;

/// A server that follows a script; it is given each connection and its number.
struct Fake {
    address: String,
    over: Arc<AtomicBool>,
}

impl Fake {
    fn start(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let over = Arc::new(AtomicBool::new(false));
        let (script, ended) = (Arc::new(script), over.clone());
        std::thread::spawn(move || {
            for (number, socket) in listener.incoming().flatten().enumerate() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let script = script.clone();
                std::thread::spawn(move || script(socket, number));
            }
        });
        Self { address, over }
    }

    /// Answers the planning as a foreign server does; `then` is what the stream gets.
    fn planned(then: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::start(move |mut socket, number| {
            if number % 2 == 1 {
                return then(socket);
            }
            await_call(&mut socket, b"DoAction");
            let settings = frame(kind::SETTINGS, 0, 0, &[]);
            let unknown = [settings, accepted(1), trailers(1, "12")].concat();
            let _ = socket.write_all(&unknown);
            linger(socket);
        })
    }

    /// The stream gets these bytes, and the connection stays open.
    fn answers(bytes: Vec<u8>) -> Self {
        Self::planned(move |mut socket| {
            await_call(&mut socket, b"Do");
            let _ = socket.write_all(&bytes);
            linger(socket);
        })
    }

    /// ... and these ones for ever.
    fn floods(first: Vec<u8>, again: Vec<u8>) -> Self {
        let many = again.repeat(1 + 60_000 / again.len());
        Self::planned(move |mut socket| {
            await_call(&mut socket, b"Do");
            let _ = socket.write_all(&first);
            let mut reader = socket.try_clone().unwrap();
            std::thread::spawn(move || while reader.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {});
            while socket.write_all(&many).is_ok() {}
        })
    }

    fn spec(&self, operation: &str, more: &str) -> TrialSpec {
        let (what, data) = match operation {
            "get" => ("?ticket=t", r#"{"source": "remote"}"#),
            _ => ("/table", r#"{"source": "records"}"#),
        };
        let rows = if operation == "get" {
            ""
        } else {
            r#""rows_per_stream": 2000000, "#
        };
        TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "flight://{}{what}", "operation": "{operation}", "data": {data},
                "rows_per_batch": 1000, {rows}"streams": 1, "threads": 1, "timeout_ns": 1000000000,
                "sample_interval_ns": 0{more}}}"#,
            self.address
        ))
        .unwrap()
    }

    fn run(&self, operation: &str, more: &str) -> Record {
        let begun = Instant::now();
        let record = run(self.spec(operation, more), &Control::new());
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
        record
    }

    fn fails(&self, what: &str, operation: &str, kind: Kind, words: &str) {
        let record = self.run(operation, "");
        assert_eq!(record.outcome, Outcome::Failed, "{what}");
        let error = record.error.unwrap();
        assert_eq!(error.kind, kind, "{what}: {}", error.message);
        assert!(error.message.contains(words), "{what}: {}", error.message);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

/// Reads until the client has called.
fn await_call(socket: &mut TcpStream, method: &[u8]) {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while !seen.windows(method.len()).any(|window| window == method) {
        match socket.read(&mut piece) {
            Ok(count) if count > 0 => seen.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
}

/// Reads on until the client hangs up.
fn linger(mut socket: TcpStream) {
    let _ = socket.set_read_timeout(Some(Duration::from_secs(3)));
    while socket.read(&mut [0; 1 << 16]).is_ok_and(|count| count > 0) {}
}

fn begun() -> Vec<u8> {
    [frame(kind::SETTINGS, 0, 0, &[]), accepted(1)].concat()
}

#[test]
fn the_script_is_understood() {
    let record = Fake::answers(whole_get(1, 10)).run("get", "");
    assert_eq!(record.error, None);
    assert_eq!(record.counts.rows, 10);
    // Padded frames are as good as others.
    let (schema, batch) = schema_and_batch(&rows(10), Compression::None);
    let padded = |bytes: Vec<u8>| {
        let payload = [&[7][..], &bytes, &[0; 7]].concat();
        frame(kind::DATA, flag::PADDED, 1, &payload)
    };
    let schema = padded(flight_data(None, schema));
    let batch = padded(flight_data(None, batch));
    let bytes = [begun(), schema, batch, trailers(1, "0")].concat();
    let record = Fake::answers(bytes).run("get", "");
    assert_eq!((record.error, record.counts.rows), (None, 10));
}

/// The conversation ends after every one of its bytes.
#[test]
fn cut_short_at_every_byte() {
    let whole = whole_get(1, 3);
    let length = whole.len();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let whole = whole.clone();
            scope.spawn(move || {
                let cut = Arc::new(std::sync::atomic::AtomicUsize::new(0));
                let at = cut.clone();
                let fake = Fake::planned(move |mut socket| {
                    await_call(&mut socket, b"DoGet");
                    let _ = socket.write_all(&whole[..at.load(Ordering::Relaxed)]);
                    let _ = socket.shutdown(Shutdown::Write);
                    linger(socket);
                });
                for at in (half..length).step_by(2) {
                    cut.store(at, Ordering::Relaxed);
                    // A busy machine may be late to answer the plan; that is not what is looked at.
                    let late = |record: &Record| matches!(&record.error, Some(e) if e.kind == Kind::Timeout);
                    let mut tries = (0..5).map(|_| run(fake.spec("get", ""), &Control::new()));
                    let record = tries.find(|record| !late(record)).expect("late five times");
                    assert_eq!(record.outcome, Outcome::Failed, "cut at {at} of {length}");
                    let error = record.error.unwrap();
                    assert_eq!(error.kind, Kind::Lost, "cut at {at}: {}", error.message);
                }
            });
        }
    });
}

#[test]
fn servers_of_another_kind() {
    let silent = Fake::start(|socket, _| linger(socket));
    silent.fails("silent", "get", Kind::Timeout, "no answer");
    let http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let fake = Fake::start(move |mut socket, _| {
        await_call(&mut socket, b"PRI");
        let _ = socket.write_all(http);
        linger(socket);
    });
    fake.fails("HTTP/1", "get", Kind::Protocol, "gRPC");
    let fake = Fake::start(|socket, _| drop(socket));
    fake.fails("hangs up", "get", Kind::Protocol, "gRPC");
    let plain = headers(
        1,
        true,
        &[(":status", "404"), ("content-type", "text/html")],
    );
    let fake = Fake::answers([frame(kind::SETTINGS, 0, 0, &[]), plain].concat());
    fake.fails("a web server", "get", Kind::Protocol, "HTTP status 404");
}

#[test]
fn ends_that_say_why() {
    let reset = frame(kind::RST_STREAM, 0, 1, &code::INTERNAL_ERROR.to_be_bytes());
    let calm = [
        &[0; 4][..],
        &code::ENHANCE_YOUR_CALM.to_be_bytes(),
        b"too much",
    ]
    .concat();
    let away = frame(kind::GOAWAY, 0, 0, &calm);
    let trailers_only = |list| [frame(kind::SETTINGS, 0, 0, &[]), headers(1, true, list)].concat();
    let full = [("grpc-status", "8"), ("grpc-message", "no%20room")];
    let refused = [(":status", "200"), ("grpc-status", "16")];
    let cases = [
        (
            "reset",
            Kind::Server,
            "INTERNAL_ERROR",
            [begun(), reset].concat(),
        ),
        (
            "farewell",
            Kind::Lost,
            "ENHANCE_YOUR_CALM too much",
            [begun(), away].concat(),
        ),
        (
            "trailers only",
            Kind::Auth,
            "UNAUTHENTICATED",
            trailers_only(&refused),
        ),
        (
            "an error",
            Kind::Server,
            "no room",
            [begun(), headers(1, true, &full)].concat(),
        ),
        (
            "no status",
            Kind::Protocol,
            "without a gRPC status",
            [begun(), data(1, true, b"")].concat(),
        ),
    ];
    for (what, kind, words, bytes) in cases {
        let fake = Fake::answers(bytes);
        for operation in ["get", "put"] {
            fake.fails(what, operation, kind, words);
        }
    }
}

#[test]
fn messages_that_lie() {
    let (schema, batch) = schema_and_batch(&rows(10), Compression::None);
    let mut short = batch.clone();
    short.body.truncate(0);
    short.body_length = 0;
    let schema = data(1, false, &flight_data(None, schema));
    let short = data(1, false, &flight_data(None, short));
    let batch = data(1, false, &flight_data(None, batch));
    let part = |bytes: &[u8]| [begun(), data(1, false, bytes)].concat();
    let cases = [
        (
            "over the limit",
            "max_message_size",
            part(&[0, 0xff, 0xff, 0xff, 0xff]),
        ),
        ("compressed", "compresses", part(&[1, 0, 0, 0, 1, 0])),
        (
            "not FlightData",
            "do not add up",
            part(&message(&[0x12, 0xff, 0x7f, 0])),
        ),
        ("not Arrow", "Arrow", part(&message(&[0x12, 4, 9, 9, 9, 9]))),
        ("no schema", "schema", [begun(), batch].concat()),
        (
            "buffers outside of the body",
            "outside",
            [begun(), schema.clone(), short].concat(),
        ),
        (
            "ends in a message",
            "middle of a message",
            [part(&[0, 0]), trailers(1, "0")].concat(),
        ),
    ];
    for (what, words, bytes) in cases {
        Fake::answers(bytes).fails(what, "get", Kind::Protocol, words);
    }
}

#[test]
fn frames_that_break_the_rules() {
    let settings = |payload: &[u8]| frame(kind::SETTINGS, 0, 0, payload);
    let begun_and = |more: Vec<u8>| [begun(), more].concat();
    let most = 0x7fff_ffffu32.to_be_bytes();
    let huge = [&[0, 5][..], &1u32.to_be_bytes()].concat();
    let ends = |list: &[(&str, &str)]| headers(1, true, list);
    let response = |list: &[(&str, &str)]| [settings(&[]), headers(1, false, list)].concat();
    let cases = [
        (
            "window over",
            begun_and(frame(kind::WINDOW_UPDATE, 0, 0, &most)),
        ),
        (
            "window over",
            [
                begun(),
                settings(&[0, 4, 0x7f, 0xff, 0xff, 0xff]),
                frame(kind::WINDOW_UPDATE, 0, 1, &most),
            ]
            .concat(),
        ),
        (
            "of 0 bytes",
            begun_and(frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4])),
        ),
        ("frame size", settings(&huge)),
        ("first frame", frame(kind::PING, 0, 0, &[0; 8])),
        ("wrong length", begun_and(frame(kind::PING, 0, 0, &[0; 7]))),
        ("wrong stream", begun_and(frame(kind::PING, 0, 1, &[0; 8]))),
        (
            "nobody opened",
            begun_and(frame(kind::RST_STREAM, 0, 9, &[0; 4])),
        ),
        (
            "malformed DATA",
            begun_and(frame(kind::DATA, flag::PADDED, 1, &[9])),
        ),
        ("before headers", data(1, false, &message(b""))),
        ("nobody opened", begun_and(data(7, false, b"x"))),
        ("of no request", begun_and(accepted(9))),
        (
            "a push",
            begun_and(frame(kind::PUSH_PROMISE, 4, 1, &[0; 8])),
        ),
        (
            "headers:",
            [settings(&[]), frame(kind::HEADERS, 4, 1, &[0xff; 9])].concat(),
        ),
        ("lower case", begun_and(ends(&[("Grpc-Status", "0")]))),
        (
            "belong",
            begun_and(ends(&[(":status", "200"), ("grpc-status", "0")])),
        ),
        (
            "must have",
            response(&[("content-type", "application/grpc")]),
        ),
        (
            "HTTP/1",
            response(&[(":status", "200"), ("connection", "close")]),
        ),
        (
            "come twice",
            begun_and(headers(1, false, &[("grpc-status", "0")])),
        ),
        (
            "more data",
            [
                response(&[
                    (":status", "200"),
                    ("content-type", "application/grpc"),
                    ("content-length", "2"),
                ]),
                data(1, false, &[0; 5]),
            ]
            .concat(),
        ),
        (
            "gRPC status",
            [begun(), data(1, true, b""), data(1, true, b"")].concat(),
        ),
    ];
    for (words, bytes) in cases {
        Fake::answers(bytes).fails(words, "get", Kind::Protocol, words);
    }
}

#[test]
fn floods() {
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    let cases = [
        ("pings", ping.clone()),
        ("settings", frame(kind::SETTINGS, 0, 0, &[])),
        ("empty frames", data(1, false, b"")),
        ("priorities", frame(kind::PRIORITY, 0, 1, &[0; 5])),
    ];
    for (what, again) in cases {
        Fake::floods(begun(), again).fails(what, "get", Kind::Protocol, "without any data");
    }
    let endless = frame(kind::CONTINUATION, 0, 1, &[0; 1000]);
    let fake = Fake::floods(frame(kind::HEADERS, 0, 1, &[]), endless.clone());
    fake.fails("continuations first", "get", Kind::Protocol, "first frame");
    let started = [
        frame(kind::SETTINGS, 0, 0, &[]),
        frame(kind::HEADERS, 0, 1, &[]),
    ];
    let fake = Fake::floods(started.concat(), endless);
    fake.fails("continuations", "get", Kind::Protocol, "over the limit");
    let fake = Fake::floods(begun(), ping);
    fake.fails("pings to a put", "put", Kind::Protocol, "without any data");
}

/// Signs of life are not progress.
#[test]
fn pings_for_ever_are_a_timeout() {
    for operation in ["get", "put"] {
        let fake = Fake::planned(|mut socket| {
            await_call(&mut socket, b"Do");
            // A put may not send a byte.
            let closed = frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
            let _ = socket.write_all(&closed);
            while socket.write_all(&frame(kind::PING, 0, 0, &[0; 8])).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        fake.fails(operation, operation, Kind::Timeout, "no data for 1 s");
    }
}

/// A message without a batch is progress, but must not keep a cancel from being heard.
#[test]
fn a_flood_of_messages_can_be_cancelled() {
    let fake = Fake::floods(begun(), data(1, false, &message(&[0x1a, 1, 0])));
    let control = Control::new();
    let begun = Instant::now();
    let record = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(150));
            control.cancel();
        });
        run(fake.spec("get", ""), &control)
    });
    assert_eq!(record.outcome, Outcome::Interrupted);
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_put_that_nobody_acknowledges() {
    let fake = Fake::answers(begun());
    let record = fake.run("put", r#", "options": {"ack": "batch"}"#);
    assert_eq!(record.error.unwrap().kind, Kind::Timeout);
}

#[test]
fn an_answer_without_end_has_a_bound() {
    let fake = Fake::start(|mut socket, _| {
        await_call(&mut socket, b"DoAction");
        let piece = data(1, false, &message(&[7; 1 << 20]));
        let mut reader = socket.try_clone().unwrap();
        std::thread::spawn(move || while reader.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {});
        let _ = socket.write_all(&[frame(kind::SETTINGS, 0, 0, &[]), accepted(1)].concat());
        while socket.write_all(&piece).is_ok() {}
    });
    let mut spec = fake.spec("get", "");
    spec.timeout_ns = 60_000_000_000; // it is not the time that ends it
    let error = run(spec, &Control::new()).error.unwrap();
    assert_eq!(error.kind, Kind::Protocol, "{}", error.message);
    assert!(error.message.contains("no end"), "{}", error.message);
}
