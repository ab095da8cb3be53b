//! What both ends of a raw connection do: the header, how to wait, reading and writing.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use socket2::Socket;

use crate::net::socket;
use crate::os::pin::{interrupt_nobody, pin};
use crate::spec::Operation;

/// What a client's header begins with.
pub type Ticket = [u8; 8];

/// Of a peer that serves everybody.
pub const OPEN: Ticket = *b"VENTURI2";
pub(super) const HEADER: usize = 24;
/// Where in the second word of a header it stands how to wait: direction, CPU, wait.
const WAIT: u32 = 56;

/// A client may ask a peer for.
pub const LONGEST: Duration = Duration::from_secs(3600);
/// Each takes `READ_UNIX` bytes of memory at most.
pub(super) const MOST_CONNECTIONS: usize = 1024;

/// A connection on which nothing moves for so long is given up.
pub(super) const IDLE: Duration = Duration::from_secs(10);
/// How often a blocked thread looks up.
pub(super) const LOOK_UP: Duration = Duration::from_millis(100);

/// A writer sends this piece again and again, so many times with a call, and a reader takes
/// so much at most: what is copied, with what the socket holds, stays in a core's cache, and
/// the ends take turns seldom. The size of messages is therefore of no account: a good
/// sender gathers small ones and cuts large ones, as ours does. Measured on two cores with
/// 1 MiB of cache each, one and two connections, both ends of each on one CPU, `ForMuch`:
/// 5.1 and 9.9 GB/s. Where any byte wakes 3.4 and 6.0, and 1.5 and 2.9 where a reader then
/// takes 512 KiB at a time.
pub(super) const PIECE: usize = 32 << 10;
const PIECES: usize = 8;
const READ: usize = 64 << 10;
/// Of a Unix socket, whose pieces need not be acknowledged: 3 % less CPU time than with `READ`.
const READ_UNIX: usize = 256 << 10;
/// Arrived bytes that end a sleep `ForMuch`: half of what a sender's socket holds.
const MUCH: libc::c_int = 256 << 10;

/// How the ends of a connection wait for each other. To be woken costs more than to copy
/// what there is, above all from another CPU, whose sleep has to be ended first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
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
    pub(super) const ALL: [Wait; 3] = [Wait::Asleep, Wait::ForMuch, Wait::Awake];

    /// Of a socket by which payload arrives, or leaves, and the thread that serves it, which
    /// may be bound to a CPU. A refusal costs speed, not more.
    pub(super) fn apply(self, socket: &Socket, arrives: bool, bound: bool) -> io::Result<()> {
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

/// Into which a reader takes what has come.
pub(super) fn read_buffer(is_unix: bool) -> Vec<u8> {
    vec![0x5a; if is_unix { READ_UNIX } else { READ }]
}

#[cfg(target_os = "linux")]
fn wake_at(socket: &Socket, bytes: libc::c_int) {
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
fn wake_at(_socket: &Socket, _bytes: libc::c_int) {}

/// Binds the thread, where that is wished and can be had.
pub fn stay_on(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let _ = pin(cpu);
    }
}
pub(super) fn header(
    ticket: Ticket,
    operation: Operation,
    duration: Duration,
    cpu: Option<usize>,
    wait: Wait,
) -> [u8; HEADER] {
    let direction: u64 = match operation {
        Operation::Get => 0,
        Operation::Put | Operation::Upsert | Operation::Ingest => 1,
    };
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&ticket);
    let place = cpu.map_or(0, |cpu| cpu as u64 + 1);
    let ends = direction | place << 8 | (wait as u64) << WAIT;
    header[8..16].copy_from_slice(&ends.to_le_bytes());
    header[16..].copy_from_slice(&(duration.as_nanos() as u64).to_le_bytes());
    header
}

pub(super) fn parse(
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
    let duration = Duration::from_nanos(number(16));
    let good = header[..8] == ticket && duration <= LONGEST;
    match wait {
        Some(wait) if good => Ok((operation, cpu, *wait, duration)),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}
pub(super) fn prepare(socket: &Socket) -> io::Result<()> {
    socket::prepare(socket.into(), None);
    socket.set_read_timeout(Some(LOOK_UP))?;
    socket.set_write_timeout(Some(LOOK_UP))
}

fn blocked(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// One read; waits until there is something, the end, a stop or `IDLE` has passed.
pub(super) fn read(
    socket: &mut Socket,
    buffer: &mut [u8],
    stop: &dyn Fn() -> bool,
) -> io::Result<usize> {
    patiently(stop, || socket.read(buffer))
}

/// Writes all of it.
pub(super) fn write(
    socket: &mut Socket,
    mut all: &[u8],
    stop: &dyn Fn() -> bool,
) -> io::Result<()> {
    while !all.is_empty() {
        match patiently(stop, || socket.write(all))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            more => all = &all[more..],
        }
    }
    Ok(())
}

/// Writes the piece again and again with one call, or the begin of that.
pub(super) fn write_pieces(
    socket: &mut Socket,
    piece: &[u8],
    stop: &dyn Fn() -> bool,
) -> io::Result<()> {
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
