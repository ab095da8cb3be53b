//! Against small servers that do what each test tells them.

mod counters;
mod ends;
mod stores;
mod ways;

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{json, Value};

use venturi_engine::{run, Control, Record};
use venturi_testkit::{closed_port, parse, request, with, Peer};

/// A server: each connection is given to `serve`, on a thread that nobody waits for.
pub fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let peer = Peer::start(move |socket, _| serve(socket));
    let port = peer.port();
    std::mem::forget(peer); // as long as the process
    port
}

/// Reads so many bytes at most, or to the end; true: the end came.
pub fn drain(socket: &mut TcpStream, most: usize) -> bool {
    let mut room = vec![0; 64 << 10];
    let mut left = most;
    while left > 0 {
        let until = left.min(room.len());
        match socket.read(&mut room[..until]) {
            Ok(0) | Err(_) => return true,
            Ok(more) => left -= more,
        }
    }
    false
}

/// A server that reads all, and says nothing.
pub fn sink() -> u16 {
    server(|mut socket| {
        drain(&mut socket, usize::MAX);
    })
}

/// A server of HTTP that answers requests, by their first lines, with whole responses.
pub fn web(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> u16 {
    server(move |mut socket| {
        while let Some(head) = request(&mut socket) {
            let _ = socket.write_all(answer(head.lines().next().unwrap()).as_bytes());
        }
    })
}

pub fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")
}

pub fn ok(body: &str) -> String {
    response("200 OK", body)
}

/// A trial of points of seven hosts, by two streams, with these fields.
pub fn ingest(scheme: &str, port: u16, http_port: u16, more: Value) -> Record {
    let spec = json!({
        "target": format!("{scheme}://127.0.0.1:{port}"), "operation": "ingest",
        "data": {"source": "metrics", "hosts": 7}, "rows_per_batch": 1000, "streams": 2,
        "generate": "inline", "options": {"http_port": http_port},
    });
    run(parse(with(spec, more)), &Control::new())
}

/// So many points of each stream.
pub fn points(count: u64) -> Value {
    json!({"rows_per_stream": count})
}
