mod hostile;
mod trials;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use super::Server;

fn serve(more: &str) -> Server {
    let place = r#""server": "http", "host": "127.0.0.1", "port": 0"#;
    let spec = format!(r#"{{{place}, "memory_bytes": 67108864{more}}}"#);
    Server::start(&spec).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    venturi_testkit::connect(server.address())
}

/// All that is answered to these bytes, after which nothing more is said.
fn told(server: &Server, bytes: &[u8]) -> String {
    let mut socket = connect(server);
    // It may have heard enough.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let read = socket.read_to_end(&mut answer);
    assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    let code = answer
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    code.unwrap_or_else(|| panic!("{answer:?}"))
        .parse()
        .unwrap()
}
