//! The HTTP of a whole store of time series over loopback, told any bytes in two pieces: it
//! answers in HTTP or hangs up, and neither dies nor hangs.

use std::path::PathBuf;
use std::sync::OnceLock;

use venturi_core::server::timeseries::Server;

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        // Among what is built if `cargo test` runs it.
        let folder =
            option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let name = format!("venturi-fuzz-store-{}", std::process::id());
        let spec = serde_json::json!({
            "server": "timeseries", "data": folder.join(name), "http": 0,
            "threads": 1, "durable": "none", "memory": 64 << 20, "max_series": 10_000,
        });
        Server::start(&spec.to_string()).expect("a server")
    })
}

/// The first two bytes say where the rest is cut.
pub fn run(input: &[u8]) {
    super::asked::run(server().address(), input);
}
