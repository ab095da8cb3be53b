//! What a 1.2 client asks beside its queries.

use serde::Deserialize;
use socket2::Socket;

use super::State;
use venturi_base::codec::charrow::handshake::LEAVE;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::meter::end::monotonic_ns;
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

#[derive(Deserialize)]
struct Asked {
    trial: String,
    interval_ns: u64,
}

/// The answer to whoever asks through this socket.
pub fn answer(state: &State, socket: &Socket, name: &str, payload: &str) -> Result<Vec<u8>> {
    let internal = |error: serde_json::Error| Error::new(Kind::Internal, error.to_string());
    match name {
        "account" => {
            let account = block_on(state.accounts.settle(payload))?.ok_or_else(|| {
                Error::usage(format!(
                    "no trial {payload:?}, or its account was handed over already"
                ))
            })?;
            serde_json::to_vec(&account).map_err(internal)
        }
        "watch" => {
            let asked: Asked = serde_json::from_str(payload)
                .map_err(|error| Error::usage(format!("watch: {error}")))?;
            let open = open_watch(state, socket, &asked.trial, asked.interval_ns);
            Ok(open.to_string().into_bytes())
        }
        "samples" => {
            let series = block_on(state.accounts.watch.take(payload))?.ok_or_else(|| {
                Error::usage(format!("nothing was sampled for trial {payload:?}"))
            })?;
            serde_json::to_vec(&series.pack()).map_err(internal)
        }
        "clock" => Ok(monotonic_ns().to_string().into_bytes()),
        "environment" => Ok(state.environment.to_string().into_bytes()),
        "prepare" => {
            state.engine.prepare(payload)?;
            Ok(vec![])
        }
        "stop" => {
            state.accounts.stop(payload);
            state.sessions.stop(payload);
            Ok(vec![])
        }
        "tcp" => Ok(state.tcp.told()?.into_bytes()),
        "statistics" => Ok(state.statistics().to_string().into_bytes()),
        other => Err(Error::usage(format!(
            "there is nothing called {:?} to ask for; there are {}",
            other.chars().take(40).collect::<String>(),
            NAMES.join(", ")
        ))),
    }
}

/// Samples from now on for a trial, which one of its connections asks for. False: it does not.
pub fn open_watch(state: &State, socket: &Socket, trial: &str, interval_ns: u64) -> bool {
    let route = socket
        .local_addr()
        .ok()
        .and_then(|local| Some((local.as_socket()?, socket.peer_addr().ok()?.as_socket()?)))
        .map(|(local, peer)| Route { local, peer });
    state.accounts.watch.open(trial, interval_ns, route)
}
