//! Between whom a connection is.

use std::net::SocketAddr;

use tokio::net::UnixStream;

/// A connection's two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

/// The other end of a Unix socket, which is on this machine whoever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The process that listens there, or did when it began to; `None`: it is not seen from here.
    pub pid: Option<u32>,
}

impl Neighbour {
    pub fn of(socket: &UnixStream) -> Self {
        let pid = socket.peer_cred().ok().and_then(|cred| cred.pid());
        Self {
            pid: pid
                .and_then(|pid| u32::try_from(pid).ok())
                .filter(|pid| *pid > 0),
        }
    }
}
