//! Against small servers that do what each test tells them.

mod counters;
mod ends;
mod stores;
mod ways;

use std::io::{Read, Write};
use std::net::TcpStream;

use venturi_base::spec::TrialSpec;
use venturi_engine::{run, Control, Record};
use venturi_testkit::{closed_port, Peer};

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

/// A server of HTTP that answers a request's first line with a whole response.
pub fn web(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> u16 {
    server(move |mut socket| {
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") {
            match socket.read(&mut byte) {
                Ok(1) => request.push(byte[0]),
                _ => return,
            }
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        drain(
            &mut socket,
            length.map_or(0, |length| length.parse().unwrap()),
        );
        let _ = socket.write_all(answer(text.lines().next().unwrap()).as_bytes());
    })
}

pub fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub fn ingest(scheme: &str, port: u16, http_port: u16, more: &str) -> Record {
    let spec = TrialSpec::parse(&format!(
        r#"{{"trial": "t", "target": "{scheme}://127.0.0.1:{port}", "operation": "ingest",
            "data": {{"source": "metrics", "hosts": 7}}, "rows_per_batch": 1000,
            "generate": "inline", "streams": 2, "threads": 2,
            "options": {{"http_port": {http_port}}}, {more}}}"#
    ));
    run(spec.unwrap(), &Control::new())
}
