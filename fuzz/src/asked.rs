//! A server of HTTP that is told any bytes in two pieces: it answers in HTTP or hangs up.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// More of the answers is not read.
const MOST: usize = 1 << 20;

/// Tells the server, and what it answers up to its end.
fn answer(address: String, pieces: [&[u8]; 2]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("it lives");
    socket.set_nodelay(true).expect("a socket");
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).expect("a socket");
    let mut answer = Vec::new();
    for piece in pieces {
        if socket.write_all(piece).is_err() {
            return answer;
        }
    }
    if socket.shutdown(Shutdown::Write).is_err() {
        return answer;
    }
    let mut buffer = vec![0; 64 << 10];
    while answer.len() < MOST {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(more) => answer.extend_from_slice(&buffer[..more]),
            Err(error) => {
                let late = error.kind() == std::io::ErrorKind::WouldBlock;
                assert!(!late, "it must not hang");
                break;
            }
        }
    }
    answer
}

/// The first two bytes say where the rest is cut.
pub fn run(address: String, input: &[u8]) {
    let Some((cut, bytes)) = input.split_first_chunk() else {
        return;
    };
    let cut = bytes.len().min(usize::from(u16::from_be_bytes(*cut)));
    let answer = answer(address, bytes.split_at(cut).into());
    let head = &answer[..answer.len().min(9)];
    assert!(b"HTTP/1.1 ".starts_with(head), "{}", answer.escape_ascii());
}
