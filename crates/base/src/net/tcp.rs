//! Raw TCP: what the sockets of two hosts can carry with messages of a given size,
//! without any protocol on them. No transfer over the same path should be faster.
//!
//! N connections, a blocking thread each, at both ends. The connections are made
//! first; after a barrier the client writes a 32-byte header on each: a magic number
//! (or what the peer gave to those that it let in), the direction and the CPU to stay on, the size of a message, how long. Then
//! - get: the peer writes message after message from one buffer until the client hangs
//!   up; the client counts what it has read when the time is over;
//! - put: the client writes until the time is over and half-closes; the peer answers
//!   with the number of bytes that it has read, which is what counts, and the interval
//!   ends when the last answer is there.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::codec::budget::Budget;
use crate::error::{Error, Kind, Result};
use crate::os::pin::{allowed, pin};
use crate::spec::Operation;

/// What a client's header begins with.
pub type Ticket = [u8; 8];

/// Of a peer that serves everybody.
pub const OPEN: Ticket = *b"VENTURI1";
const HEADER: usize = 32;

/// Bounds of what a client may ask a peer for.
const LARGEST_MESSAGE: usize = 256 << 20;
pub const LONGEST: Duration = Duration::from_secs(3600);
const MOST_CONNECTIONS: usize = 1024;

/// Bytes of messages that a peer holds at most, over all connections.
pub const MOST_BYTES: u64 = 2 << 30;
/// A peer that nobody asks for and nobody is connected to does not listen any longer.
const UNASKED: Duration = Duration::from_secs(60);

/// A connection on which nothing moves for so long is given up.
const IDLE: Duration = Duration::from_secs(10);
/// How often a blocked thread looks up.
const LOOK_UP: Duration = Duration::from_millis(100);

/// Reads ask for this much at least: fewer system calls, as a good receiver does.
const READ: usize = 256 << 10;

/// Where the two threads of a connection run. On one machine it makes all the difference
/// whether a byte has to cross from one core's cache to another's, and the scheduler
/// decides now this way, now that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// As the scheduler likes.
    Free,
    /// Both ends of a connection on one CPU, connections spread over all.
    OneCpu,
}

/// What a probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// As counted by the receivers.
    pub bytes: u64,
    pub interval_ns: u64,
}

impl Probe {
    /// Bytes per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.interval_ns.max(1) as f64
    }
}

/// Whom a peer serves, and within which bounds.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub ticket: Ticket,
    /// Bytes of messages, over all connections.
    pub memory: u64,
    /// For how long it listens for nobody.
    pub unasked: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            ticket: OPEN,
            memory: MOST_BYTES,
            unasked: UNASKED,
        }
    }
}

/// The far end of a probe: sends or discards what clients ask for, on threads of its
/// own. Stops when dropped, and when nobody has asked for it for a while.
#[derive(Debug)]
pub struct Peer {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    terms: Terms,
    stop: AtomicBool,
    open: AtomicUsize,
    messages: Budget,
    /// When somebody asked for it last; `None`: it listens no longer.
    asked: Mutex<Option<Instant>>,
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
        let listener = TcpListener::bind((ip, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            terms,
            stop: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            messages: Budget::new(terms.memory),
            asked: Mutex::new(Some(Instant::now())),
        });
        let seen = shared.clone();
        std::thread::Builder::new()
            .name("tcp-peer".into())
            .spawn(move || accept(&listener, &seen))?;
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

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
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
fn arrives(listener: &TcpListener) -> bool {
    let mut wanted = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, alive during the call.
    unsafe { libc::poll(&mut wanted, 1, LOOK_UP.as_millis() as libc::c_int) > 0 }
}

fn serve(mut socket: TcpStream, shared: &Shared) -> io::Result<()> {
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
    let (operation, cpu, message, duration) = parse(&header, shared.terms.ticket)?;
    // Before any of it is touched.
    let claimed = shared.messages.claim(message);
    let _claim = claimed.map_err(|_| ErrorKind::OutOfMemory)?;
    stay_on(cpu);
    match operation {
        Operation::Get => {
            let buffer = vec![0x5a; message];
            let end = Instant::now() + duration + IDLE;
            while Instant::now() < end {
                write(&mut socket, &buffer, &stopped)?;
            }
        }
        Operation::Put | Operation::Upsert | Operation::Ingest => {
            let mut buffer = vec![0; message.max(READ)];
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

/// Binds the thread, where that is wished and can be had.
fn stay_on(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let _ = pin(cpu);
    }
}

fn header(
    ticket: Ticket,
    operation: Operation,
    cpu: Option<usize>,
    message: usize,
    duration: Duration,
) -> [u8; HEADER] {
    let direction: u64 = match operation {
        Operation::Get => 0,
        Operation::Put | Operation::Upsert | Operation::Ingest => 1,
    };
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&ticket);
    let place = cpu.map_or(0, |cpu| cpu as u64 + 1);
    header[8..16].copy_from_slice(&(direction | place << 8).to_le_bytes());
    header[16..24].copy_from_slice(&(message as u64).to_le_bytes());
    header[24..].copy_from_slice(&(duration.as_nanos() as u64).to_le_bytes());
    header
}

fn parse(
    header: &[u8; HEADER],
    ticket: Ticket,
) -> io::Result<(Operation, Option<usize>, usize, Duration)> {
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let cpu = (number(8) >> 8).checked_sub(1).map(|cpu| cpu as usize);
    let operation = match number(8) & 0xff {
        0 => Operation::Get,
        1 => Operation::Put,
        _ => return Err(ErrorKind::InvalidData.into()),
    };
    let (message, duration) = (number(16), Duration::from_nanos(number(24)));
    let good = header[..8] == ticket
        && (1..=LARGEST_MESSAGE as u64).contains(&message)
        && duration <= LONGEST;
    match good {
        true => Ok((operation, cpu, message as usize, duration)),
        false => Err(ErrorKind::InvalidData.into()),
    }
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    super::socket::prepare(socket.into(), None);
    socket.set_read_timeout(Some(LOOK_UP))?;
    socket.set_write_timeout(Some(LOOK_UP))
}

fn blocked(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// One read; waits until there is something, the end, a stop or `IDLE` has passed.
fn read(socket: &mut TcpStream, buffer: &mut [u8], stop: &dyn Fn() -> bool) -> io::Result<usize> {
    patiently(stop, || socket.read(buffer))
}

/// Writes all of it.
fn write(socket: &mut TcpStream, mut all: &[u8], stop: &dyn Fn() -> bool) -> io::Result<()> {
    while !all.is_empty() {
        match patiently(stop, || socket.write(all))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            more => all = &all[more..],
        }
    }
    Ok(())
}

fn patiently(
    stop: &dyn Fn() -> bool,
    mut step: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut waited = Duration::ZERO;
    loop {
        match step() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if blocked(&error) => {
                waited += LOOK_UP;
                if stop() {
                    return Err(ErrorKind::ConnectionAborted.into());
                }
                if waited >= IDLE {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            done => return done,
        }
    }
}

/// Where a peer listens, and what it wants to see.
#[derive(Debug, Clone, Copy)]
pub struct Far {
    pub addr: SocketAddr,
    pub ticket: Ticket,
}

/// Moves messages of `message_bytes` over `streams` connections to or from the `far`
/// peer for `duration`. `cancelled` is asked now and then.
pub fn probe(
    far: Far,
    operation: Operation,
    streams: usize,
    message_bytes: usize,
    duration: Duration,
    placement: Placement,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
    check(streams, message_bytes, duration)?;
    let Far { addr, ticket } = far;
    let failed = |error: io::Error| failure(addr, &error, cancelled);
    let mut sockets = Vec::with_capacity(streams);
    for _ in 0..streams {
        let socket = TcpStream::connect_timeout(&addr, IDLE)
            .map_err(|error| Error::new(Kind::Unreachable, format!("raw TCP, {addr}: {error}")))?;
        prepare(&socket).map_err(failed)?;
        sockets.push(socket);
    }
    let cpus = match placement {
        Placement::Free => vec![],
        Placement::OneCpu => allowed()?,
    };
    let work = |stream: usize, socket: TcpStream| {
        let cpu = (!cpus.is_empty()).then(|| cpus[stream % cpus.len()]);
        let header = header(ticket, operation, cpu, message_bytes, duration);
        let mut buffer = vec![0x5a; message_bytes.max(READ)];
        move |start: Instant| {
            stay_on(cpu);
            let end = start + duration;
            match operation {
                Operation::Get => receive(socket, &header, &mut buffer, end, cancelled),
                Operation::Put | Operation::Upsert | Operation::Ingest => {
                    send(socket, &header, &buffer[..message_bytes], end, cancelled)
                }
            }
        }
    };
    let ended = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(streams);
        for (stream, socket) in sockets.into_iter().enumerate() {
            // The barrier: a thread that cannot be had ends those that wait already.
            let (go, start) = mpsc::channel::<Instant>();
            let work = work(stream, socket);
            let thread = std::thread::Builder::new()
                .name("tcp-probe".into())
                .spawn_scoped(scope, move || {
                    let start = start.recv().map_err(|_| ErrorKind::Interrupted)?;
                    Ok::<_, io::Error>((work(start)?, Instant::now()))
                })?;
            threads.push((thread, go));
        }
        let start = Instant::now();
        for (_, go) in &threads {
            let _ = go.send(start); // a thread that is gone tells why below
        }
        let (mut bytes, mut last) = (0, start);
        for (thread, _) in threads {
            let panicked = |_| io::Error::other("a thread panicked");
            let (more, end) = thread.join().map_err(panicked)??;
            bytes += more;
            last = last.max(end);
        }
        Ok::<_, io::Error>((bytes, last - start))
    });
    let (bytes, interval) = ended.map_err(failed)?;
    if cancelled() {
        return Err(Error::cancelled());
    }
    Ok(Probe {
        bytes,
        interval_ns: interval.as_nanos() as u64,
    })
}

fn check(streams: usize, message_bytes: usize, duration: Duration) -> Result<()> {
    if !(1..=MOST_CONNECTIONS).contains(&streams) {
        let message = format!("raw TCP: streams must be 1..{MOST_CONNECTIONS}");
        return Err(Error::usage(message));
    }
    if !(1..=LARGEST_MESSAGE).contains(&message_bytes) {
        let message = format!("raw TCP: message_bytes must be 1..{LARGEST_MESSAGE}");
        return Err(Error::usage(message));
    }
    if duration.is_zero() || duration > LONGEST {
        return Err(Error::usage(
            "raw TCP: the duration must be above 0, an hour at most",
        ));
    }
    Ok(())
}

fn failure(addr: SocketAddr, error: &io::Error, cancelled: &dyn Fn() -> bool) -> Error {
    if cancelled() {
        return Error::cancelled();
    }
    let (kind, advice) = match error.kind() {
        ErrorKind::TimedOut => (Kind::Timeout, ""),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => (
            Kind::Lost,
            ": it was stopped, or so many messages of this size are more than it may hold",
        ),
        _ => (Kind::Io, ""),
    };
    Error::new(kind, format!("raw TCP, {addr}: {error}{advice}"))
}

fn receive(
    mut socket: TcpStream,
    header: &[u8],
    buffer: &mut [u8],
    end: Instant,
    cancelled: &dyn Fn() -> bool,
) -> io::Result<u64> {
    write(&mut socket, header, cancelled)?;
    let mut bytes = 0;
    while Instant::now() < end && !cancelled() {
        match read(&mut socket, buffer, cancelled)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more => bytes += more as u64,
        }
    }
    Ok(bytes)
}

fn send(
    mut socket: TcpStream,
    header: &[u8],
    message: &[u8],
    end: Instant,
    cancelled: &dyn Fn() -> bool,
) -> io::Result<u64> {
    write(&mut socket, header, cancelled)?;
    while Instant::now() < end && !cancelled() {
        write(&mut socket, message, cancelled)?;
    }
    socket.shutdown(Shutdown::Write)?;
    let mut count = [0; 8];
    let mut have = 0;
    while have < count.len() {
        match read(&mut socket, &mut count[have..], cancelled)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more => have += more,
        }
    }
    Ok(u64::from_le_bytes(count))
}

#[cfg(test)]
mod tests;
