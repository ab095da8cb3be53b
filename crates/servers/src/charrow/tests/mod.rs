mod engines;
mod hostile;
#[cfg(target_os = "linux")]
mod ring;
mod sharing;
mod trials;

use std::io::{Read, Write};
use std::time::Duration;

use super::Server;
use venturi_base::codec::charrow::handshake::{Parameters, Request};
use venturi_base::codec::charrow::receive::{Event, Receiver};
use venturi_base::data::digest;
use venturi_testkit::charrow::{extended, plain, Client, Received};

/// Only what hangs takes that long.
const LONG: Duration = Duration::from_secs(300);

fn serve(more: &str) -> Server {
    let spec = format!(r#"{{"server": "charrow", "host": "127.0.0.1", "port": 0{more}}}"#);
    Server::start(&spec).unwrap()
}

/// The error of a query.
fn refused(server: &Server, text: &str) -> String {
    Client::plain(server.address(), 1)
        .outcome(text)
        .unwrap_err()
}

fn client(server: &Server) -> Client {
    Client::plain(server.address(), 1)
}

/// All of it through one connection: what any number of them must be given together.
fn whole(server: &Server, text: &str) -> Received {
    Client::plain(server.address(), 1).outcome(text).unwrap()
}

fn sorted(mut digests: Vec<u64>) -> Vec<u64> {
    digests.sort_unstable();
    digests
}
