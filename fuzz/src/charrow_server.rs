//! A whole charrow server over loopback, told any bytes: it answers or hangs up, and neither
//! dies nor hangs. What was parsed is written and parsed to the same.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use venturi_core::codec::charrow::handshake::{Handshake, Parameters, Request};
use venturi_core::server::charrow::Server;

/// More of an answer is not read: a query may have no end.
const MOST: usize = 1 << 20;

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let spec = r#"{"host": "127.0.0.1", "port": 0, "query_memory_bytes": 1000000,
            "patience_ns": 1000000000, "stall_timeout_ns": 1000000000}"#;
        Server::start(spec).expect("a server")
    })
}

fn parsed(bytes: &[u8]) {
    let mut rest = bytes;
    let Ok(hello) = Handshake::read(&mut rest) else {
        return;
    };
    let again = Handshake::read(&mut &hello.write()[..]);
    assert_eq!(again.ok().as_ref(), Some(&hello));
    let _ = Parameters::parse(&hello.client);
    while let Ok(Some(request)) = Request::read(&mut rest, true) {
        let again = Request::read(&mut &request.write()[..], true);
        assert_eq!(again.ok().flatten(), Some(request));
    }
}

pub fn run(bytes: &[u8]) {
    parsed(bytes);
    let mut socket = TcpStream::connect(server().address()).expect("it lives");
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).expect("a socket");
    if socket.write_all(bytes).is_err() || socket.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let (mut buffer, mut read) = (vec![0; 64 << 10], 0);
    while read < MOST {
        match socket.read(&mut buffer) {
            Ok(0) => return,
            Ok(more) => read += more,
            Err(error) => {
                let late = error.kind() == std::io::ErrorKind::WouldBlock;
                assert!(!late, "it must not hang");
                return;
            }
        }
    }
}
