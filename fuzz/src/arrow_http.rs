//! A whole server of Arrow over HTTP on loopback, told any bytes in two pieces: it answers in HTTP or hangs
//! up, and neither dies nor hangs.

use std::sync::OnceLock;

use venturi_core::server::http::Server;

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let spec = r#"{"server": "http", "host": "127.0.0.1", "port": 0, "memory_bytes": 16777216,
            "max_message_size": 1048576}"#;
        Server::start(spec).expect("a server")
    })
}

/// The first two bytes say where the rest is cut.
pub fn run(input: &[u8]) {
    super::asked::run(server().address(), input);
}
