//! Raw TCP: what the sockets of two hosts can carry with messages of a given size,
//! without any protocol on them. No transfer over the same path should be faster; so
//! whatever makes sockets faster, and a transfer could do, this does.
//!
//! N connections, a blocking thread each at the peer, and as many at this end as are asked
//! for. The connections are made first; after a barrier the client writes a 32-byte header
//! on each: a magic number (or what the peer gave to those that it let in), the direction and
//! the CPU to stay on, the size of a message, how long. Then
//! - get: the peer writes until the client hangs up; the client counts what it has read when
//!   the time is over;
//! - put: the client writes until the time is over and half-closes; the peer answers
//!   with the number of bytes that it has read, which is what counts, and the interval
//!   ends when the last answer is there.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Kind, Result};
use crate::os::pin::{allowed, interrupt_nobody, pin};
use crate::spec::Operation;

/// What a client's header begins with.
pub type Ticket = [u8; 8];

/// Of a peer that serves everybody.
pub const OPEN: Ticket = *b"VENTURI1";
const HEADER: usize = 32;
/// Where in the second word of a header it stands how to wait: direction, CPU, wait.
const WAIT: u32 = 56;

/// Bounds of what a client may ask a peer for.
const LARGEST_MESSAGE: usize = 256 << 20;
pub const LONGEST: Duration = Duration::from_secs(3600);
/// Each takes `READ` bytes of memory at most.
const MOST_CONNECTIONS: usize = 1024;

/// A peer that nobody asks for and nobody is connected to does not listen any longer.
const UNASKED: Duration = Duration::from_secs(60);

/// A connection on which nothing moves for so long is given up.
const IDLE: Duration = Duration::from_secs(10);
/// How often a blocked thread looks up.
const LOOK_UP: Duration = Duration::from_millis(100);

/// A writer sends this piece again and again, so many times with a call, and a reader takes
/// so much at most: what is copied, with what the socket holds, stays in a core's cache, and
/// the ends take turns seldom. The size of messages is therefore of no account: a good
/// sender gathers small ones and cuts large ones, as ours does. Measured on two cores with
/// 1 MiB of cache each, one and two connections, both ends of each on one CPU, `ForMuch`:
/// 5.1 and 9.9 GB/s. Where any byte wakes 3.4 and 6.0, and 1.5 and 2.9 where a reader then
/// takes 512 KiB at a time.
const PIECE: usize = 32 << 10;
const PIECES: usize = 8;
const READ: usize = 64 << 10;
/// Arrived bytes that end a sleep `ForMuch`: half of what a sender's socket holds.
const MUCH: libc::c_int = 256 << 10;

/// What moves.
#[derive(Debug, Clone, Copy)]
pub struct Flow<'a> {
    pub operation: Operation,
    /// Connections.
    pub streams: usize,
    /// This end's threads, where it is left to the scheduler or pinned.
    pub threads: usize,
    /// Of the trial; see `PIECE`.
    pub message_bytes: usize,
    pub duration: Duration,
    /// The CPUs of this end's threads, in turn; as `pin` of a trial.
    pub pin: Option<&'a [usize]>,
}

/// Where the two ends of a connection run. On one machine it makes all the difference
/// whether a byte has to cross from one core's cache to another's, and the scheduler
/// decides now this way, now that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// As the scheduler likes.
    Free,
    /// Both ends of a connection on one CPU, connections spread over all.
    OneCpu,
    /// The ends of a connection on two CPUs.
    Apart,
}

/// How the ends of a connection wait for each other. To be woken costs more than to copy
/// what there is, above all from another CPU, whose sleep has to be ended first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Asleep, until there is anything.
    Asleep,
    /// Asleep until there is much, and without interrupting who works on the CPU by then.
    /// Two connections, both ends of each on one CPU: 9.9 GB/s, always; 6.0 where any byte
    /// wakes.
    ForMuch,
    /// Not: each end has a CPU. One connection: 3.9 GB/s, and 2.9 asleep.
    Awake,
}

impl Wait {
    const ALL: [Wait; 3] = [Wait::Asleep, Wait::ForMuch, Wait::Awake];

    /// Of a socket by which payload arrives, or leaves, and the thread that serves it, which
    /// may be bound to a CPU. A refusal costs speed, not more.
    fn apply(self, socket: &TcpStream, arrives: bool, bound: bool) -> io::Result<()> {
        match self {
            Wait::Asleep => {}
            Wait::ForMuch => {
                if arrives {
                    wake_at(socket, MUCH);
                }
                if bound {
                    let _ = interrupt_nobody();
                }
            }
            Wait::Awake => socket.set_nonblocking(true)?,
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn wake_at(socket: &TcpStream, bytes: libc::c_int) {
    // SAFETY: one number, alive during the call, of the size given.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

#[cfg(not(target_os = "linux"))]
fn wake_at(_socket: &TcpStream, _bytes: libc::c_int) {}

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
    pub addr: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    terms: Terms,
    stop: AtomicBool,
    open: AtomicUsize,
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
            let mut buffer = vec![0; READ];
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

fn header(ticket: Ticket, flow: &Flow<'_>, cpu: Option<usize>, wait: Wait) -> [u8; HEADER] {
    let direction: u64 = match flow.operation {
        Operation::Get => 0,
        Operation::Put | Operation::Upsert | Operation::Ingest => 1,
    };
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&ticket);
    let place = cpu.map_or(0, |cpu| cpu as u64 + 1);
    let ends = direction | place << 8 | (wait as u64) << WAIT;
    header[8..16].copy_from_slice(&ends.to_le_bytes());
    header[16..24].copy_from_slice(&(flow.message_bytes as u64).to_le_bytes());
    header[24..].copy_from_slice(&(flow.duration.as_nanos() as u64).to_le_bytes());
    header
}

fn parse(
    header: &[u8; HEADER],
    ticket: Ticket,
) -> io::Result<(Operation, Option<usize>, Wait, Duration)> {
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let place = (number(8) & ((1 << WAIT) - 1)) >> 8;
    let cpu = place.checked_sub(1).map(|cpu| cpu as usize);
    let wait = Wait::ALL.get((number(8) >> WAIT) as usize);
    let operation = match number(8) & 0xff {
        0 => Operation::Get,
        1 => Operation::Put,
        _ => return Err(ErrorKind::InvalidData.into()),
    };
    let (message, duration) = (number(16), Duration::from_nanos(number(24)));
    let good = header[..8] == ticket
        && (1..=LARGEST_MESSAGE as u64).contains(&message)
        && duration <= LONGEST;
    match wait {
        Some(wait) if good => Ok((operation, cpu, *wait, duration)),
        _ => Err(ErrorKind::InvalidData.into()),
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

/// Writes the piece again and again with one call, or the begin of that.
fn write_pieces(socket: &mut TcpStream, piece: &[u8], stop: &dyn Fn() -> bool) -> io::Result<()> {
    let pieces = [IoSlice::new(piece); PIECES];
    match patiently(stop, || socket.write_vectored(&pieces))? {
        0 => Err(ErrorKind::WriteZero.into()),
        _ => Ok(()),
    }
}

fn patiently(
    stop: &dyn Fn() -> bool,
    mut step: impl FnMut() -> io::Result<usize>,
) -> io::Result<usize> {
    let mut since: Option<Instant> = None;
    loop {
        match step() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if blocked(&error) => {
                let since = *since.get_or_insert_with(Instant::now);
                if stop() {
                    return Err(ErrorKind::ConnectionAborted.into());
                }
                if since.elapsed() >= IDLE {
                    return Err(ErrorKind::TimedOut.into());
                }
                std::hint::spin_loop(); // of an end that stays awake
            }
            done => return done,
        }
    }
}

/// Which threads this end has, and on which CPU each end of a connection stays.
struct Ends<'a> {
    placement: Placement,
    threads: usize,
    pin: Option<&'a [usize]>,
    /// Those that this process may use; none where nothing is bound.
    cpus: Vec<usize>,
    wait: Wait,
}

impl<'a> Ends<'a> {
    fn of(flow: &Flow<'a>, placement: Placement, loopback: bool) -> Result<Self> {
        // Where the probe is free to choose: the more threads, the more CPUs are busy.
        let pin = flow.pin.filter(|cpus| !cpus.is_empty());
        let bound = placement != Placement::Free && pin.is_none();
        let threads = if bound { flow.streams } else { flow.threads };
        let cpus = match placement {
            Placement::Free => vec![],
            Placement::OneCpu | Placement::Apart => allowed()?,
        };
        Ok(Self {
            placement,
            threads: threads.min(flow.streams),
            pin,
            wait: match placement {
                Placement::Free if !loopback => Wait::Asleep,
                Placement::Apart if apart(flow.streams, pin, &cpus) => Wait::Awake,
                Placement::Free | Placement::OneCpu | Placement::Apart => Wait::ForMuch,
            },
            cpus,
        })
    }

    /// Of a thread of this end.
    fn here(&self, thread: usize) -> Option<usize> {
        let at = |cpus: &[usize], turn: usize| cpus.get(turn % cpus.len().max(1)).copied();
        match (self.pin, self.placement) {
            (Some(pin), _) => at(pin, thread),
            // By twos, the other for the peer; from the second go on they change places.
            (None, Placement::Apart) => {
                let turn = 2 * thread;
                at(&self.cpus, turn + turn / self.cpus.len().max(1))
            }
            (None, _) => at(&self.cpus, thread),
        }
    }

    /// Of the peer's end of a connection.
    fn peer(&self, stream: usize) -> Option<usize> {
        let here = self.here(stream % self.threads)?;
        match self.placement {
            Placement::Free => None,
            Placement::OneCpu => Some(here),
            Placement::Apart => {
                let after = self.cpus.iter().find(|&&cpu| cpu > here);
                after.or(self.cpus.first()).copied()
            }
        }
    }
}

/// Whether each end of each connection has a CPU to itself.
fn apart(streams: usize, pin: Option<&[usize]>, cpus: &[usize]) -> bool {
    2 * streams <= cpus.len() && (pin.is_none() || streams == 1)
}

/// A connection, and what is said on it first.
struct Line {
    socket: TcpStream,
    header: [u8; HEADER],
}

/// Where a peer listens, and what it wants to see.
#[derive(Debug, Clone, Copy)]
pub struct Far {
    pub addr: SocketAddr,
    pub ticket: Ticket,
}

/// Moves messages to or from the `far` peer. `cancelled` is asked now and then.
pub fn probe(
    far: Far,
    flow: Flow<'_>,
    placement: Placement,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
    check(&flow)?;
    let Far { addr, ticket } = far;
    let failed = |error: io::Error| failure(addr, &error, cancelled);
    let ends = Ends::of(&flow, placement, addr.ip().is_loopback())?;
    let mut lots: Vec<Vec<Line>> = (0..ends.threads).map(|_| vec![]).collect();
    for stream in 0..flow.streams {
        let socket = TcpStream::connect_timeout(&addr, IDLE)
            .map_err(|error| Error::new(Kind::Unreachable, format!("raw TCP, {addr}: {error}")))?;
        prepare(&socket).map_err(failed)?;
        let header = header(ticket, &flow, ends.peer(stream), ends.wait);
        lots[stream % ends.threads].push(Line { socket, header });
    }
    let work = |thread: usize, mut lines: Vec<Line>| {
        let cpu = ends.here(thread);
        let mut buffer = vec![0x5a; READ];
        move |start: Instant| {
            stay_on(cpu);
            let end = start + flow.duration;
            for line in &mut lines {
                write(&mut line.socket, &line.header, cancelled)?;
                let arrives = flow.operation == Operation::Get;
                ends.wait.apply(&line.socket, arrives, cpu.is_some())?;
            }
            match flow.operation {
                Operation::Get => receive(&mut lines, &mut buffer, end, cancelled),
                Operation::Put | Operation::Upsert | Operation::Ingest => {
                    send(&mut lines, &buffer[..PIECE], end, cancelled)
                }
            }
        }
    };
    let ended = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(lots.len());
        for (thread, lines) in lots.into_iter().enumerate() {
            // The barrier: a thread that cannot be had ends those that wait already.
            let (go, start) = mpsc::channel::<Instant>();
            let mut work = work(thread, lines);
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

fn check(flow: &Flow<'_>) -> Result<()> {
    let usage = |what: String| Err(Error::usage(format!("raw TCP: {what}")));
    if !(1..=MOST_CONNECTIONS).contains(&flow.streams) {
        return usage(format!("streams must be 1..{MOST_CONNECTIONS}"));
    }
    if flow.threads == 0 {
        return usage("threads must be 1 at least".into());
    }
    if !(1..=LARGEST_MESSAGE).contains(&flow.message_bytes) {
        return usage(format!("message_bytes must be 1..{LARGEST_MESSAGE}"));
    }
    if flow.duration.is_zero() || flow.duration > LONGEST {
        return usage("the duration must be above 0, an hour at most".into());
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
            ": it was stopped, or serves no more connections",
        ),
        _ => (Kind::Io, ""),
    };
    Error::new(kind, format!("raw TCP, {addr}: {error}{advice}"))
}

/// Reads from each connection in turn: the peer fills all of them meanwhile.
fn receive(
    lines: &mut [Line],
    buffer: &mut [u8],
    end: Instant,
    cancelled: &dyn Fn() -> bool,
) -> io::Result<u64> {
    let mut bytes = 0;
    while Instant::now() < end && !cancelled() {
        for line in &mut *lines {
            match read(&mut line.socket, buffer, cancelled)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                more => bytes += more as u64,
            }
        }
    }
    Ok(bytes)
}

fn send(
    lines: &mut [Line],
    piece: &[u8],
    end: Instant,
    cancelled: &dyn Fn() -> bool,
) -> io::Result<u64> {
    while Instant::now() < end && !cancelled() {
        for line in &mut *lines {
            write_pieces(&mut line.socket, piece, cancelled)?;
        }
    }
    for line in &*lines {
        line.socket.shutdown(Shutdown::Write)?;
    }
    let mut bytes = 0;
    for line in lines {
        let mut count = [0; 8];
        let mut have = 0;
        while have < count.len() {
            match read(&mut line.socket, &mut count[have..], cancelled)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                more => have += more,
            }
        }
        bytes += u64::from_le_bytes(count);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
