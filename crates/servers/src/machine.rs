//! What any reference server tells of its machine, and the probe that runs beside it.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;

use parking_lot::Mutex;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::tcp::{Peer, Terms, OPEN};
use venturi_base::net::unix::raw_of;

/// Where a server listens.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The raw probe's other end, over what the server itself listens on; it starts when it is first asked for.
#[derive(Debug)]
pub(crate) struct TcpProbe {
    place: Address,
    terms: Terms,
    peer: Mutex<Option<Peer>>,
}

impl TcpProbe {
    pub fn new(place: Address) -> Self {
        Self {
            place,
            terms: Terms::default(),
            peer: Mutex::new(None),
        }
    }

    /// One that serves only who was told its ticket, where it is `guarded`: a server that wants a
    /// token must not have a port that does not.
    pub fn guarded(mut self, guarded: bool) -> std::io::Result<Self> {
        if guarded {
            std::fs::File::open("/dev/urandom")?.read_exact(&mut self.terms.ticket)?;
        }
        Ok(self)
    }

    /// What a client has to know: `PORT`, or `PORT TICKET` with the ticket in hexadecimal. 0 is the Unix
    /// socket beside the server's own.
    pub fn contact(&self) -> Result<String> {
        let port = self.port()?;
        Ok(match self.terms.ticket {
            OPEN => port.to_string(),
            ticket => format!("{port} {:016x}", u64::from_be_bytes(ticket)),
        })
    }

    fn port(&self) -> Result<u16> {
        let broken = |error: &dyn std::fmt::Display| {
            Error::new(Kind::Internal, format!("the raw probe: {error}"))
        };
        let mut peer = self.peer.lock();
        if !peer.as_ref().is_some_and(Peer::ask) {
            // An old one may still be about to remove its file.
            *peer = None;
            let started = match &self.place {
                Address::Tcp(address) => Peer::start(address.ip(), self.terms),
                Address::Unix(path) => Peer::start_unix(&raw_of(path), self.terms),
            };
            *peer = Some(started.map_err(|error| broken(&error))?);
        }
        let address = peer.as_ref().and_then(|peer| peer.addr.as_socket());
        Ok(address.map_or(0, |address| address.port()))
    }
}
