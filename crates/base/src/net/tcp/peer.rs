//! The far end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use socket2::{SockAddr, Socket};

use super::line::{
    parse, prepare, read, read_buffer, stay_on, write, write_pieces, Ticket, HEADER, IDLE, LOOK_UP,
    MOST_CONNECTIONS, OPEN, PIECE,
};
use crate::net::listener::{tcp, Listener};
use crate::net::unix::Listening;
use crate::spec::Operation;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A peer that nobody asks for and nobody is connected to does not listen any longer.
const UNASKED: Duration = Duration::from_secs(60);

/// Whom a peer serves, and within which bounds.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub ticket: Ticket,
    /// For how long it listens for nobody.
    pub unasked: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            ticket: OPEN,
            unasked: UNASKED,
        }
    }
}

/// The far end of a probe: sends or discards what clients ask for, on threads of its
/// own. Stops when dropped, and when nobody has asked for it for a while.
#[derive(Debug)]
pub struct Peer {
    pub addr: SockAddr,
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    terms: Terms,
    stop: AtomicBool,
    pub(super) open: AtomicUsize,
    /// When somebody asked for it last; `None`: it listens no longer.
    pub(super) asked: Mutex<Option<Instant>>,
}

impl Shared {
    /// A probe that has ended may go on with the next placement.
    fn is_used(&self) {
        let mut asked = self.asked.lock();
        *asked = asked.map(|_| Instant::now());
    }

    /// Whether it goes on listening.
    fn is_wanted(&self) -> bool {
        let mut asked = self.asked.lock();
        let unasked = asked.is_none_or(|asked| asked.elapsed() > self.terms.unasked);
        if self.stop.load(SeqCst) || (unasked && self.open.load(SeqCst) == 0) {
            *asked = None;
        }
        asked.is_some()
    }
}

impl Peer {
    /// Listens on a port of the system's choice.
    pub fn start(ip: IpAddr, terms: Terms) -> io::Result<Peer> {
        let socket = tcp(SocketAddr::new(ip, 0), BACKLOG)?;
        Self::serve(Listener::Tcp(socket), terms)
    }

    /// Listens on a Unix socket, whose file goes with it.
    pub fn start_unix(path: &Path, terms: Terms) -> io::Result<Peer> {
        Self::serve(Listener::Unix(Listening::bind(path, BACKLOG)?), terms)
    }

    fn serve(listener: Listener, terms: Terms) -> io::Result<Peer> {
        let addr = listener.socket().local_addr()?;
        let shared = Arc::new(Shared {
            terms,
            stop: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            asked: Mutex::new(Some(Instant::now())),
        });
        let seen = shared.clone();
        std::thread::Builder::new()
            .name("tcp-peer".into())
            .spawn(move || accept(listener.socket(), &seen))?;
        Ok(Peer { addr, shared })
    }

    /// Somebody will come. False: it listens no longer.
    pub fn ask(&self) -> bool {
        let asked = self.shared.asked.lock();
        let mut asked = asked;
        if let Some(asked) = &mut *asked {
            *asked = Instant::now();
        }
        asked.is_some()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
    }
}

fn accept(listener: &Socket, shared: &Arc<Shared>) {
    while shared.is_wanted() {
        if !arrives(listener) {
            continue;
        }
        let Ok((socket, _)) = listener.accept() else {
            std::thread::sleep(LOOK_UP); // out of descriptors: may pass
            continue;
        };
        if shared.open.load(SeqCst) >= MOST_CONNECTIONS || socket.set_nonblocking(false).is_err() {
            continue; // hangs up
        }
        shared.open.fetch_add(1, SeqCst);
        let serving = shared.clone();
        let served = std::thread::Builder::new()
            .name("tcp-peer".into())
            .spawn(move || {
                // A client that fails sees it; the peer has nobody to tell.
                let _ = serve(socket, &serving);
                serving.is_used();
                serving.open.fetch_sub(1, SeqCst);
            });
        if served.is_err() {
            shared.open.fetch_sub(1, SeqCst);
        }
    }
}

/// Waits a moment for somebody who connects.
fn arrives(listener: &Socket) -> bool {
    let mut wanted = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, alive during the call.
    unsafe { libc::poll(&mut wanted, 1, LOOK_UP.as_millis() as libc::c_int) > 0 }
}

fn serve(mut socket: Socket, shared: &Shared) -> io::Result<()> {
    prepare(&socket)?;
    let stopped = || shared.stop.load(SeqCst);
    let mut header = [0; HEADER];
    let mut have = 0;
    while have < HEADER {
        match read(&mut socket, &mut header[have..], &stopped)? {
            0 => return Ok(()),
            more => have += more,
        }
    }
    let (operation, cpu, wait, duration) = parse(&header, shared.terms.ticket)?;
    stay_on(cpu);
    wait.apply(&socket, operation != Operation::Get, cpu.is_some())?;
    match operation {
        Operation::Get => {
            let buffer = vec![0x5a; PIECE];
            let end = Instant::now() + duration + IDLE;
            while Instant::now() < end {
                write_pieces(&mut socket, &buffer, &stopped)?;
            }
        }
        Operation::Put | Operation::Upsert | Operation::Ingest => {
            let mut buffer = read_buffer(socket.local_addr()?.is_unix());
            let mut bytes = 0u64;
            let end = Instant::now() + duration + IDLE;
            while Instant::now() < end {
                match read(&mut socket, &mut buffer, &stopped)? {
                    0 => break,
                    more => bytes += more as u64,
                }
            }
            write(&mut socket, &bytes.to_le_bytes(), &stopped)?;
        }
    }
    Ok(())
}
