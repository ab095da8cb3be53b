//! What any reference server tells of its machine, and the probe that runs beside it.

use std::io::Read;
use std::net::IpAddr;

use parking_lot::Mutex;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::net::tcp::{Peer, Terms, OPEN};

/// The raw TCP probe's other end; it starts when it is first asked for.
#[derive(Debug)]
pub(crate) struct TcpProbe {
    ip: IpAddr,
    terms: Terms,
    peer: Mutex<Option<Peer>>,
}

impl TcpProbe {
    pub fn new(ip: IpAddr) -> Self {
        Self {
            ip,
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

    /// What a client has to know: `PORT`, or `PORT TICKET` with the ticket in hexadecimal.
    pub fn told(&self) -> Result<String> {
        let port = self.port()?;
        Ok(match self.terms.ticket {
            OPEN => port.to_string(),
            ticket => format!("{port} {:016x}", u64::from_be_bytes(ticket)),
        })
    }

    fn port(&self) -> Result<u16> {
        let broken = |error: &dyn std::fmt::Display| {
            Error::new(Kind::Internal, format!("the TCP probe: {error}"))
        };
        let mut peer = self.peer.lock();
        if !peer.as_ref().is_some_and(Peer::ask) {
            *peer = Some(Peer::start(self.ip, self.terms).map_err(|error| broken(&error))?);
        }
        peer.as_ref()
            .map(|peer| peer.addr.port())
            .ok_or_else(|| broken(&"it did not start"))
    }
}
