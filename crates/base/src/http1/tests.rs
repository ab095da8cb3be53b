use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;
use crate::error::Kind;
use venturi_testkit::assert_contains;

/// A server that reads one request's head and `body` bytes, says `answer` in pieces of `cut`
/// bytes, and closes.
fn server(answer: Vec<u8>, cut: usize, body: usize) -> (Web, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nodelay(true).unwrap();
        let mut asked = Vec::new();
        let whole = |asked: &Vec<u8>| {
            let end = asked.windows(4).position(|four| four == b"\r\n\r\n");
            end.is_some_and(|end| asked.len() >= end + 4 + body)
        };
        while !whole(&asked) {
            let mut some = [0; 4096];
            let got = socket.read(&mut some).unwrap();
            asked.extend(&some[..got]);
        }
        for piece in answer.chunks(cut) {
            if socket.write_all(piece).is_err() {
                break; // the client has heard enough
            }
        }
        asked
    });
    let web = Web {
        host: "127.0.0.1".into(),
        port,
        authority: format!("127.0.0.1:{port}"),
        tls: None,
    };
    (web, thread)
}

fn run<T>(work: impl std::future::Future<Output = T>) -> T {
    crate::net::runtime::block_on(work).unwrap()
}

fn asked(answer: &[u8], cut: usize) -> Result<Response> {
    let (web, thread) = server(answer.to_vec(), cut, 2);
    let got = run(ask(&web, "POST", "/x", b"ab", 1 << 20));
    assert!(thread.join().unwrap().ends_with(b"\r\n\r\nab"));
    got
}

#[test]
fn answers_of_every_framing() {
    for cut in [1, 3, 1000] {
        let chunked = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n";
        assert_eq!(asked(chunked, cut).unwrap().body, b"abcde");
        let known = b"HTTP/1.0 500 Wrong\r\nContent-Length: 5\r\n\r\nabcde";
        let answer = asked(known, cut).unwrap();
        assert_eq!((answer.status, answer.body), (500, b"abcde".to_vec()));
        let closed = b"HTTP/1.1 200 OK\r\n\r\nabcde";
        assert_eq!(asked(closed, cut).unwrap().body, b"abcde");
        assert_eq!(asked(b"HTTP/1.1 204 None\r\n\r\n", cut).unwrap().body, b"");
    }
}

#[test]
fn answers_that_lie_or_end_too_soon() {
    use Kind::{Lost, Protocol};
    let ok = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}").into_bytes();
    let chunked = |rest: &str| ok(&format!("Transfer-Encoding: chunked\r\n\r\n{rest}"));
    for (answer, kind, said) in [
        (b"SSH-2.0-x\r\n".to_vec(), Protocol, "no status line"),
        (ok("Content-Length: x\r\n\r\n"), Protocol, "no number"),
        (ok("Content-Length: 9\r\n\r\nabc"), Lost, "closed"),
        (chunked("zz\r\n"), Protocol, "size"),
        (chunked("9\r\nabc"), Lost, "closed"),
        (vec![], Lost, "closed"),
    ] {
        let error = asked(&answer, 7).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(said), "{error}");
    }
    let long = [&b"HTTP/1.1 200 OK\r\nX: "[..], &vec![b'x'; 1 << 17]].concat();
    assert_contains(&asked(&long, 1 << 16).unwrap_err().message, "64 KiB");
    let large = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![b'x'; 2 << 20]].concat();
    assert_contains(
        &asked(&large, 1 << 16).unwrap_err().message,
        "1048576 bytes",
    );
}

#[test]
fn a_refusal_in_the_middle_of_a_request_is_read() {
    let refusal = b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno";
    let (web, thread) = server(refusal.to_vec(), 100, 0);
    let body = vec![0; 64 << 20];
    // What the server has not read may make the kernel throw its answer away.
    match run(ask(&web, "POST", "/", &body, 100)) {
        Ok(answer) => assert_eq!(answer.status, 413),
        Err(error) => assert_eq!(error.kind, Kind::Lost),
    }
    thread.join().unwrap();
}
