//! This end: how much moves.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use super::line::{
    header, prepare, read, read_buffer, stay_on, write, write_pieces, Ticket, Wait, HEADER, IDLE,
    LONGEST, MOST_CONNECTIONS, PIECE,
};
use crate::error::{Error, Kind, Result};
use crate::os::pin::allowed;
use crate::spec::Operation;

/// What moves.
#[derive(Debug, Clone, Copy)]
pub struct Flow<'a> {
    pub operation: Operation,
    /// Connections.
    pub streams: usize,
    /// This end's threads, where it is left to the scheduler or pinned.
    pub threads: usize,
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
/// Which threads this end has, and on which CPU each end of a connection stays.
pub struct Ends<'a> {
    pub(super) placement: Placement,
    pub(super) threads: usize,
    pub(super) pin: Option<&'a [usize]>,
    /// Those that this process may use; none where nothing is bound.
    pub(super) cpus: Vec<usize>,
    pub(super) wait: Wait,
}

impl<'a> Ends<'a> {
    pub fn of(flow: &Flow<'a>, placement: Placement, loopback: bool) -> Result<Self> {
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

    /// Of this end.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Of a thread of this end.
    pub fn own_cpu(&self, thread: usize) -> Option<usize> {
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
    pub fn peer(&self, stream: usize) -> Option<usize> {
        let here = self.own_cpu(stream % self.threads)?;
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
pub(super) fn apart(streams: usize, pin: Option<&[usize]>, cpus: &[usize]) -> bool {
    2 * streams <= cpus.len() && (pin.is_none() || streams == 1)
}

/// A connection, and what is said on it first.
struct Line {
    socket: Socket,
    header: [u8; HEADER],
}

/// Where a peer listens, and what it wants to see.
#[derive(Debug, Clone)]
pub struct RemoteEnd {
    pub addr: SockAddr,
    pub ticket: Ticket,
}

impl RemoteEnd {
    /// Whether both ends are on this machine.
    pub fn is_near(&self) -> bool {
        let ip = self.addr.as_socket().map(|address| address.ip());
        ip.is_none_or(|ip| ip.is_loopback())
    }

    /// What the limit is called.
    fn name(&self) -> &'static str {
        match self.addr.is_unix() {
            true => "raw Unix socket",
            false => "raw TCP",
        }
    }

    fn connect(&self) -> Result<Socket> {
        let domain = Domain::from(i32::from(self.addr.family()));
        let connected = Socket::new(domain, Type::STREAM, None).and_then(|socket| {
            match self.addr.is_unix() {
                true => {
                    // This bounds a connect to a Unix socket whose queue is full, too; `prepare` sets
                    // it anew for what is written.
                    socket.set_write_timeout(Some(IDLE))?;
                    socket.connect(&self.addr)?;
                }
                false => socket.connect_timeout(&self.addr, IDLE)?,
            }
            Ok(socket)
        });
        connected.map_err(|error| Error::new(Kind::Unreachable, format!("{self}: {error}")))
    }
}

impl fmt::Display for RemoteEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.addr.as_socket(), self.addr.as_pathname()) {
            (Some(address), _) => write!(f, "{}, {address}", self.name()),
            (_, path) => write!(
                f,
                "{}, {}",
                self.name(),
                path.unwrap_or(Path::new("?")).display()
            ),
        }
    }
}

/// Moves bytes to or from the `far` peer. `cancelled` is asked now and then.
pub fn probe(
    far: &RemoteEnd,
    flow: Flow<'_>,
    placement: Placement,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Probe> {
    check(&flow)?;
    let failed = |error: io::Error| failure(far, &error, cancelled);
    let ends = Ends::of(&flow, placement, far.is_near())?;
    let mut lots: Vec<Vec<Line>> = (0..ends.threads).map(|_| vec![]).collect();
    for stream in 0..flow.streams {
        let socket = far.connect()?;
        prepare(&socket).map_err(failed)?;
        let header = header(
            far.ticket,
            flow.operation,
            flow.duration,
            ends.peer(stream),
            ends.wait,
        );
        lots[stream % ends.threads].push(Line { socket, header });
    }
    let work = |thread: usize, mut lines: Vec<Line>| {
        let cpu = ends.own_cpu(thread);
        let mut buffer = read_buffer(far.addr.is_unix());
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
    let usage = |what: String| Err(Error::usage(format!("raw sockets: {what}")));
    if !(1..=MOST_CONNECTIONS).contains(&flow.streams) {
        return usage(format!("streams must be 1..{MOST_CONNECTIONS}"));
    }
    if flow.threads == 0 {
        return usage("threads must be 1 at least".into());
    }
    if flow.duration.is_zero() || flow.duration > LONGEST {
        return usage("the duration must be above 0, an hour at most".into());
    }
    Ok(())
}

fn failure(far: &RemoteEnd, error: &io::Error, cancelled: &dyn Fn() -> bool) -> Error {
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
    Error::new(kind, format!("{far}: {error}{advice}"))
}

/// Reads from each connection in turn, once at least: the peer fills all of them meanwhile.
fn receive(
    lines: &mut [Line],
    buffer: &mut [u8],
    end: Instant,
    cancelled: &dyn Fn() -> bool,
) -> io::Result<u64> {
    let mut bytes = 0;
    loop {
        for line in &mut *lines {
            match read(&mut line.socket, buffer, cancelled)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                more => bytes += more as u64,
            }
        }
        if Instant::now() >= end || cancelled() {
            return Ok(bytes);
        }
    }
}

/// Writes to each connection in turn, once at least.
fn send(
    lines: &mut [Line],
    piece: &[u8],
    end: Instant,
    cancelled: &dyn Fn() -> bool,
) -> io::Result<u64> {
    loop {
        for line in &mut *lines {
            write_pieces(&mut line.socket, piece, cancelled)?;
        }
        if Instant::now() >= end || cancelled() {
            break;
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
