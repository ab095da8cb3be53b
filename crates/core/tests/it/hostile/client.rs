//! Servers that are broken, silent or mean: the trial is a failed record with the right
//! kind in good time, never a hang or a panic.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use serde_json::{json, Value};
use venturi_core::codec::flight::Expect;
use venturi_core::codec::frame::{code, flag, kind};
use venturi_core::codec::ipc::Compression;
use venturi_core::engine::{run, Control, Outcome, Record};
use venturi_core::error::Kind;
use venturi_core::http2::{Config, Connection, Event, Role};
use venturi_core::net::wire::Wire;
use venturi_core::spec::TrialSpec;
use venturi_testkit::http2::*;
use venturi_testkit::{linger, parse, until, with, Peer};

/// A server that follows a script.
struct Fake(Peer);

impl Fake {
    fn start(script: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        Self(Peer::start(script))
    }

    /// Answers the planning as a foreign server does; `then` is what the stream gets.
    fn planned(then: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::start(move |mut socket, number| {
            if number % 2 == 1 {
                return then(socket);
            }
            await_call(&mut socket, b"DoAction");
            let unknown = [begun(), trailers(1, "12")].concat();
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
            let reader = socket.try_clone().unwrap();
            std::thread::spawn(move || linger(reader));
            while socket.write_all(&many).is_ok() {}
        })
    }

    /// The spec of a trial. Its time-out is too long to matter, unless `more` sets one.
    fn spec(&self, operation: &str, more: Value) -> TrialSpec {
        let (what, data) = match operation {
            "get" => ("?ticket=t", json!({"source": "remote"})),
            _ => ("/table", json!({"source": "records"})),
        };
        let mut fields = json!({
            "target": format!("flight://{}{what}", self.0.address), "operation": operation, "data": data,
            "rows_per_batch": 1000, "threads": 1, "timeout_ns": 600_000_000_000u64, "sample_interval_ns": 0,
        });
        if operation == "put" {
            fields["rows_per_stream"] = json!(2_000_000);
        }
        parse(with(fields, more))
    }

    fn run(&self, operation: &str, more: Value) -> Record {
        run(self.spec(operation, more), &Control::new())
    }

    fn fails(&self, what: &str, operation: &str, kind: Kind, words: &str) {
        failed(what, self.run(operation, json!({})), kind, words);
    }

    /// It is given up because nothing comes for so long, which the first answers may take, too.
    fn stalls(&self, what: &str, operation: &str, more: Value, words: &str) {
        let limited = with(json!({"timeout_ns": 2_000_000_000}), more);
        failed(what, self.run(operation, limited), Kind::Timeout, words);
    }
}

/// All at once: after a failure a trial waits a second for whoever answered its planning, who says nothing more.
fn at_once<Case: Send>(
    cases: impl IntoIterator<Item = Case>,
    check: impl Fn(Case) + Copy + Send + Sync,
) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || check(case));
        }
    });
}

/// To these answers, a get or a put fails so.
fn all_fail(cases: Vec<(&'static str, &'static str, Kind, Vec<u8>)>) {
    at_once(cases, |(words, operation, kind, bytes)| {
        Fake::answers(bytes).fails(words, operation, kind, words);
    });
}

/// To these answers, a get fails because they break the protocol.
fn get_fails(cases: Vec<(&'static str, Vec<u8>)>) {
    let cases = cases.into_iter();
    all_fail(
        cases
            .map(|(words, bytes)| (words, "get", Kind::Protocol, bytes))
            .collect(),
    );
}

fn failed(what: &str, record: Record, kind: Kind, words: &str) {
    assert_eq!(record.outcome, Outcome::Failed, "{what}");
    let error = record.error.unwrap();
    assert_eq!(error.kind, kind, "{what}: {}", error.message);
    assert!(error.message.contains(words), "{what}: {}", error.message);
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

fn begun() -> Vec<u8> {
    [frame(kind::SETTINGS, 0, 0, &[]), accepted(1)].concat()
}

fn behind(more: Vec<u8>) -> Vec<u8> {
    [begun(), more].concat()
}

#[test]
fn the_script_is_understood() {
    let record = Fake::answers(get_answer(1, 10)).run("get", json!({}));
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
    let record = Fake::answers(bytes).run("get", json!({}));
    assert_eq!((record.error, record.counts.rows), (None, 10));
}

/// Our end of a connection whose peer says this and hangs up: whether the answer had an end, and
/// how the connection ended.
fn cut(bytes: &[u8]) -> (bool, Kind) {
    venturi_core::net::runtime::block_on(async {
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.write_all(bytes).unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        let near = tokio::net::UnixStream::from_std(near).unwrap();
        let mut connection = Connection::new(Wire::Unix(near), Config::new(Role::Client));
        let stream = connection.request(&[(":path".into(), b"/".to_vec())], Expect::Flight);
        let stream = stream.unwrap();
        connection.end(stream);
        let mut ended = false;
        loop {
            match std::future::poll_fn(|cx| connection.poll_event(cx)).await {
                Ok(event) => {
                    let trailers = matches!(&event, Event::Headers { end: true, .. });
                    ended |= trailers || matches!(event, Event::End { .. });
                }
                Err(error) => return (ended, error.kind),
            }
        }
    })
    .unwrap()
}

#[test]
fn cut_short_at_every_byte() {
    let whole = get_answer(1, 3);
    let length = whole.len();
    for at in 0..length {
        assert_eq!(cut(&whole[..at]), (false, Kind::Lost), "{at} of {length}");
    }
    assert_eq!(cut(&whole), (true, Kind::Lost));
    // A whole trial, at some of them.
    std::thread::scope(|scope| {
        for at in (0..length).step_by(length / 9).chain([length - 1]) {
            let part = whole[..at].to_vec();
            scope.spawn(move || {
                let fake = Fake::planned(move |mut socket| {
                    await_call(&mut socket, b"DoGet");
                    let _ = socket.write_all(&part);
                    let _ = socket.shutdown(Shutdown::Write);
                    linger(socket);
                });
                fake.fails(&format!("cut at {at}"), "get", Kind::Lost, "");
            });
        }
    });
}

#[test]
fn servers_of_another_kind() {
    let silent = Fake::start(|socket, _| linger(socket));
    silent.stalls("silent", "get", json!({}), "no answer");
    let http = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    let fake = Fake::start(move |mut socket, _| {
        await_call(&mut socket, b"PRI");
        let _ = socket.write_all(http);
        linger(socket);
    });
    fake.fails("HTTP/1", "get", Kind::Protocol, "gRPC");
    let fake = Fake::start(|socket, _| drop(socket));
    fake.fails("hangs up", "get", Kind::Protocol, "gRPC");
    let list = [(":status", "404"), ("content-type", "text/html")];
    let plain = headers(1, true, &list);
    let fake = Fake::answers([frame(kind::SETTINGS, 0, 0, &[]), plain].concat());
    fake.fails("a web server", "get", Kind::Protocol, "HTTP status 404");
}

#[test]
fn ends_that_say_why() {
    let reset = frame(kind::RST_STREAM, 0, 1, &code::INTERNAL_ERROR.to_be_bytes());
    let why = code::ENHANCE_YOUR_CALM.to_be_bytes();
    let away = [&[0; 4][..], &why, b"too much"].concat();
    let away = behind(frame(kind::GOAWAY, 0, 0, &away));
    let stops = [&[0; 8][..], b"it stops"].concat();
    let stops = behind(frame(kind::GOAWAY, 0, 0, &stops));
    let refused = headers(1, true, &[(":status", "200"), ("grpc-status", "16")]);
    let refused = [frame(kind::SETTINGS, 0, 0, &[]), refused].concat();
    let full = [("grpc-status", "8"), ("grpc-message", "no%20room")];
    let full = behind(headers(1, true, &full));
    let silent = behind(data(1, true, b""));
    use Kind::{Auth, Lost, Protocol, Server};
    let cases = ["get", "put"].map(|operation| {
        [
            ("INTERNAL_ERROR", operation, Server, behind(reset.clone())),
            ("CALM too much", operation, Lost, away.clone()),
            ("ERROR it stops", operation, Lost, stops.clone()),
            ("UNAUTHENTICATED", operation, Auth, refused.clone()),
            ("no room", operation, Server, full.clone()),
            ("without a gRPC status", operation, Protocol, silent.clone()),
        ]
    });
    all_fail(cases.concat());
}

#[test]
fn messages_that_lie() {
    let (schema, batch) = schema_and_batch(&rows(10), Compression::None);
    let mut short = batch.clone();
    short.body.truncate(0);
    short.body_length = 0;
    let [schema, short, batch] =
        [schema, short, batch].map(|it| data(1, false, &flight_data(None, it)));
    let part = |bytes: &[u8]| behind(data(1, false, bytes));
    let cut_off = [part(&[0, 0]), trailers(1, "0")].concat();
    get_fails(vec![
        ("max_message_size", part(&[0, 0xff, 0xff, 0xff, 0xff])),
        ("compresses", part(&[1, 0, 0, 0, 1, 0])),
        ("do not add up", part(&message(&[0x12, 0xff, 0x7f, 0]))),
        ("Arrow", part(&message(&[0x12, 4, 9, 9, 9, 9]))),
        ("schema", behind(batch)),
        ("outside", [begun(), schema, short].concat()),
        ("middle of a message", cut_off),
    ]);
}

#[test]
fn frames_that_break_the_rules() {
    let settings = |payload: &[u8]| frame(kind::SETTINGS, 0, 0, payload);
    let answer = |list: &[(&str, &str)]| [settings(&[]), headers(1, false, list)].concat();
    let end = |list: &[(&str, &str)]| behind(headers(1, true, list));
    let update = |stream, more: &[u8]| frame(kind::WINDOW_UPDATE, 0, stream, more);
    let most = 0x7fff_ffffu32.to_be_bytes();
    let wide = [settings(&[0, 4, 0x7f, 0xff, 0xff, 0xff]), update(1, &most)].concat();
    let (ok, grpc) = ((":status", "200"), ("content-type", "application/grpc"));
    let short = answer(&[ok, grpc, ("content-length", "2")]);
    let padded = frame(kind::DATA, flag::PADDED, 1, &[9]);
    let reset = frame(kind::RST_STREAM, 0, 9, &[0; 4]);
    let block = frame(kind::HEADERS, 4, 1, &[0xff; 9]);
    let twice = headers(1, false, &[("grpc-status", "0")]);
    get_fails(vec![
        ("window over", behind(update(0, &most))),
        ("window over", behind(wide)),
        ("of 0 bytes", behind(update(1, &[0; 4]))),
        ("frame size", settings(&[0, 5, 0, 0, 0, 1])),
        ("first frame", frame(kind::PING, 0, 0, &[0; 8])),
        ("wrong length", behind(frame(kind::PING, 0, 0, &[0; 7]))),
        ("wrong stream", behind(frame(kind::PING, 0, 1, &[0; 8]))),
        ("nobody opened", behind(reset)),
        ("malformed DATA", behind(padded)),
        ("before headers", data(1, false, &message(b""))),
        ("nobody opened", behind(data(7, false, b"x"))),
        ("of no request", behind(accepted(9))),
        ("a push", behind(frame(kind::PUSH_PROMISE, 4, 1, &[0; 8]))),
        ("headers:", [settings(&[]), block].concat()),
        ("lower case", end(&[("Grpc-Status", "0")])),
        ("belong", end(&[ok, ("grpc-status", "0")])),
        ("must have", answer(&[grpc])),
        ("HTTP/1", answer(&[ok, ("connection", "close")])),
        ("come twice", behind(twice)),
        ("more data", [short, data(1, false, &[0; 5])].concat()),
        ("gRPC status", behind(data(1, true, b"").repeat(2))),
    ]);
}

#[test]
fn floods() {
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    let endless = frame(kind::CONTINUATION, 0, 1, &[0; 1000]);
    let block = frame(kind::HEADERS, 0, 1, &[]);
    let settings = frame(kind::SETTINGS, 0, 0, &[]);
    let started = [settings.clone(), block.clone()].concat();
    let priority = frame(kind::PRIORITY, 0, 1, &[0; 5]);
    let (again, first) = (endless.clone(), "first frame");
    let idle = "without any data";
    let cases = [
        ("pings", "get", begun(), ping.clone(), idle),
        ("settings", "get", begun(), settings, idle),
        ("empty frames", "get", begun(), data(1, false, b""), idle),
        ("priorities", "get", begun(), priority, idle),
        ("continuations first", "get", block, again, first),
        ("continuations", "get", started, endless, "over the limit"),
        ("pings to a put", "put", begun(), ping, idle),
    ];
    at_once(cases, |(what, operation, first, again, words)| {
        Fake::floods(first, again).fails(what, operation, Kind::Protocol, words);
    });
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
            // Slowly: more of them would be a flood.
            while socket.write_all(&frame(kind::PING, 0, 0, &[0; 8])).is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        fake.stalls(operation, operation, json!({}), "no data for 2 s");
    }
}

/// A message without a batch is progress, but must not keep a cancel from being heard.
#[test]
fn a_flood_of_messages_can_be_cancelled() {
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let fake = Fake::planned(move |mut socket| {
        await_call(&mut socket, b"Do");
        let _ = socket.write_all(&begun());
        let many = data(1, false, &message(&[0x1a, 1, 0])).repeat(4_000);
        while socket.write_all(&many).is_ok() {
            count.fetch_add(many.len(), Ordering::Relaxed);
        }
    });
    let control = Control::new();
    let record = std::thread::scope(|scope| {
        scope.spawn(|| {
            // More than the buffers of a connection hold: the client is reading.
            until("the flood", || written.load(Ordering::Relaxed) > 40 << 20);
            control.cancel();
        });
        run(fake.spec("get", json!({})), &control)
    });
    assert_eq!(record.outcome, Outcome::Interrupted);
}

#[test]
fn a_put_that_nobody_acknowledges() {
    let ack = json!({"options": {"ack": "batch"}});
    Fake::answers(begun()).stalls("no acknowledgement", "put", ack, "");
}

#[test]
fn an_answer_without_end_has_a_bound() {
    let fake = Fake::start(|mut socket, _| {
        await_call(&mut socket, b"DoAction");
        let piece = data(1, false, &message(&[7; 1 << 20]));
        let reader = socket.try_clone().unwrap();
        std::thread::spawn(move || linger(reader));
        let _ = socket.write_all(&begun());
        while socket.write_all(&piece).is_ok() {}
    });
    fake.fails("no end", "get", Kind::Protocol, "no end");
}
