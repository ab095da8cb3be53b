mod client;
mod counting;
mod damage;
mod logs;
mod protocols;
mod segments;
mod serving;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{json, Value};

use super::Server;

use venturi_testkit::with;
pub use venturi_testkit::{parse_json, Directory as Folder};

/// A server of one thread.
pub fn start_one(folder: &Folder) -> Server {
    start(folder, json!({"threads": 1}))
}

pub fn spec(folder: &Folder, more: Value) -> Value {
    let spec = json!({
        "server": "timeseries", "data": folder.0, "resp": 0, "opentsdb": 0, "influx": 0,
        "http": 0, "udp": 0, "threads": 2,
    });
    with(spec, more)
}

pub fn start(folder: &Folder, more: Value) -> Server {
    Server::start(&spec(folder, more).to_string()).unwrap()
}

pub fn statistics(server: &Server) -> Value {
    parse_json(&server.statistics())
}

pub fn connect(server: &Server, protocol: &str) -> TcpStream {
    venturi_testkit::connect(server.address_of(protocol).unwrap())
}

/// Sends, says that this was all, and reads the answer to its end.
pub fn ask(server: &Server, protocol: &str, text: &[u8]) -> String {
    let mut socket = connect(server, protocol);
    socket.write_all(text).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

pub fn get(server: &Server, request: &str) -> (u16, String) {
    let text = format!("{request}\r\nConnection: close\r\n\r\n");
    split(&ask(server, "http", text.as_bytes()))
}

pub fn post(server: &Server, path: &str, more: &str, body: &[u8]) -> (u16, String) {
    let more = format!("Connection: close\r\nContent-Length: {}{more}", body.len());
    let head = format!("POST {path} HTTP/1.1\r\n{more}\r\n\r\n");
    split(&ask(server, "http", &[head.as_bytes(), body].concat()))
}

fn split(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Sends this, and waits until all that has been sent is kept: so many points.
pub fn flushed(socket: &mut TcpStream, text: &str, points: usize) {
    let text = format!("{text}+FLUSH\r\n");
    socket.write_all(text.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    assert_eq!(line, format!("+OK {points}\r\n"));
}

pub fn packed(plain: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(plain).unwrap();
    packed.finish().unwrap()
}

/// Rows of two columns for so many hosts and steps, as RESP.
pub fn rows(hosts: usize, steps: std::ops::Range<usize>) -> String {
    let mut text = String::new();
    for step in steps {
        for host in 0..hosts {
            let value = 10.0 + (step * 7 + host) as f64 / 1000.0;
            let (time, values) = (1_000_000_000 * step, format!("+{value}\r\n+{host}"));
            text += &format!("+cpu.user|cpu.sys host=h{host}\r\n:{time}\r\n*2\r\n{values}\r\n");
        }
    }
    text
}
