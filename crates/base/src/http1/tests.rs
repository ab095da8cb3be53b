use std::io::{Read, Write};

use super::*;
use crate::error::Kind;
use venturi_testkit::{assert_contains, assert_error, request, run, Peer};

fn web(peer: &Peer) -> Web {
    Web {
        host: "127.0.0.1".into(),
        port: peer.port(),
        authority: peer.address.to_string(),
        tls: None,
    }
}

/// What comes of an answer in pieces of `cut` bytes.
fn asked(answer: &[u8], cut: usize) -> Result<Response> {
    let answer = answer.to_vec();
    let peer = Peer::start(move |mut socket, _| {
        socket.set_nodelay(true).unwrap();
        let head = request(&mut socket).unwrap();
        assert!(head.starts_with("POST /x HTTP/1.1\r\n"), "{head}");
        // Or the client has heard enough.
        let _ = answer
            .chunks(cut)
            .try_for_each(|piece| socket.write_all(piece));
    });
    run(ask(&web(&peer), "POST", "/x", b"ab", 1 << 20))
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
        assert_error!(asked(&answer, 7).unwrap_err(), kind, said);
    }
    let long = [&b"HTTP/1.1 200 OK\r\nX: "[..], &vec![b'x'; 1 << 17]].concat();
    assert_contains(&asked(&long, 1 << 16).unwrap_err().message, "64 KiB");
    let large = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![b'x'; 2 << 20]].concat();
    let said = asked(&large, 1 << 16).unwrap_err().message;
    assert_contains(&said, "1048576 bytes");
}

#[test]
fn a_refusal_in_the_middle_of_a_request_is_read() {
    let peer = Peer::start(|mut socket, _| {
        socket.read_exact(&mut [0; 100]).unwrap();
        let _ = socket.write_all(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno");
    });
    let body = vec![0; 64 << 20];
    // What the server has not read may make the kernel throw its answer away.
    match run(ask(&web(&peer), "POST", "/", &body, 100)) {
        Ok(answer) => assert_eq!(answer.status, 413),
        Err(error) => assert_eq!(error.kind, Kind::Lost),
    }
}
