//! What a 1.2 client asks beside its queries.

use socket2::Socket;

use super::State;
use crate::shell::Service;
use venturi_base::codec::charrow::handshake::LEAVE;
use venturi_base::error::{Error, Result};
use venturi_base::net::route::Route;
use venturi_base::net::runtime::block_on;

/// All that is answered, as Hello lists it.
pub const NAMES: [&str; 10] = [
    "account",
    "clock",
    "environment",
    LEAVE,
    "prepare",
    "samples",
    "statistics",
    "stop",
    "tcp",
    "watch",
];

/// The answer to whoever asks through this socket.
pub fn answer(state: &State, socket: &Socket, name: &str, payload: &str) -> Result<Vec<u8>> {
    match name {
        "prepare" => {
            state.engine.prepare(payload)?;
            Ok(vec![])
        }
        "stop" => {
            state.accounts.stop(payload);
            state.sessions.stop(payload);
            Ok(vec![])
        }
        "statistics" => Ok(state.statistics().to_string().into_bytes()),
        other => {
            let answering = state.answer(other, payload, route(socket));
            block_on(answering)??.ok_or_else(|| {
                Error::usage(format!(
                    "there is nothing called {:?} to ask for; there are {}",
                    other.chars().take(40).collect::<String>(),
                    NAMES.join(", ")
                ))
            })
        }
    }
}

/// Samples from now on for a trial, which one of its connections asks for. False: it does not.
pub fn open_watch(state: &State, socket: &Socket, trial: &str, interval_ns: u64) -> bool {
    let watch = &state.accounts.watch;
    watch.open(trial, interval_ns, route(socket))
}

fn route(socket: &Socket) -> Option<Route> {
    let (local, peer) = (socket.local_addr().ok()?, socket.peer_addr().ok()?);
    Some(Route {
        local: local.as_socket()?,
        peer: peer.as_socket()?,
    })
}
