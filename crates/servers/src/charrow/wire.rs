//! A connection's blocking side: reads that end in time, writes that notice who does not read.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ServerConnection, StreamOwned};
use socket2::Socket;

use crate::admission::{Activity, Slot};
use venturi_base::codec::chunk::Chunk;
use venturi_base::meter::clock::{Stage, StageClock};
use venturi_base::meter::sockets::{Metered, Sockets};
use venturi_base::net::descriptor;

/// How often a blocked thread looks up.
pub const LOOK_UP: Duration = Duration::from_millis(100);

/// Pieces of a system call (IOV_MAX is 1024).
const AT_ONCE: usize = 256;

pub enum Wire {
    Plain(Metered<Socket>),
    Tls(Box<StreamOwned<ServerConnection, Timed>>),
}

/// The socket below TLS, which reads on until it has a record, and until hands are shaken: a peer
/// with a byte now and then would keep the thread.
pub struct Timed {
    socket: Metered<Socket>,
    /// When whoever reads looks up.
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match Instant::now() < self.until {
            true => (&*self.socket).read(buffer),
            false => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.socket).write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self.socket).write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.socket).flush()
    }
}

impl Wire {
    pub fn tls(session: ServerConnection, socket: Socket) -> Self {
        let (socket, until) = (Metered::new(socket), Instant::now());
        Wire::Tls(Box::new(StreamOwned::new(session, Timed { socket, until })))
    }

    pub fn socket(&self) -> &Metered<Socket> {
        match self {
            Wire::Plain(socket) => socket,
            Wire::Tls(session) => &session.get_ref().socket,
        }
    }

    /// The connection's socket is one of the trial's.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        match self {
            Wire::Plain(socket) => socket.watch(sockets),
            Wire::Tls(session) => session.get_mut().socket.watch(sockets),
        }
    }

    /// `None`: a Unix socket's.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket().peer_addr().ok()?.as_socket()
    }

    /// Looks without waiting: `Some(true)`: there is something to read, `Some(false)`: nothing,
    /// `None`: the peer has gone.
    pub fn look(&self) -> Option<bool> {
        if let Wire::Tls(session) = self {
            // What has been decrypted already is not in the socket any more.
            if session.conn.wants_read() {
                return look(self.socket());
            }
            return Some(true);
        }
        look(self.socket())
    }

    /// Writes all of it. Whoever takes nothing for `stall` is given up: `TimedOut`; who has not
    /// finished the handshake of TLS is told nothing.
    pub fn send(
        &mut self,
        pieces: &[Chunk],
        stall: Duration,
        closing: &AtomicBool,
        clock: &mut StageClock,
    ) -> io::Result<()> {
        if matches!(self, Wire::Tls(session) if session.conn.is_handshaking()) {
            // rustls would read on first, and who has not said its part by now does not listen.
            return Err(ErrorKind::NotConnected.into());
        }
        let mut slices: Vec<_> = pieces
            .iter()
            .map(|piece| IoSlice::new(piece.as_slice()))
            .filter(|slice| !slice.is_empty())
            .collect();
        let mut left = &mut slices[..];
        while !left.is_empty() {
            let now = left.len().min(AT_ONCE);
            let written = match self {
                Wire::Plain(socket) => {
                    socket.send_vectored_with_flags(&left[..now], WITHOUT_WAITING)
                }
                Wire::Tls(session) => session.write_vectored(&left[..now]),
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => IoSlice::advance_slices(&mut left, bytes),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_late(&error) => {
                    clock.mark(Stage::Send);
                    self.until_writable(stall, closing)?;
                    clock.mark(Stage::AwaitOutput);
                }
                Err(error) => return Err(error),
            }
        }
        while let Wire::Tls(session) = self {
            match session.flush() {
                Ok(()) => break,
                Err(error) if is_late(&error) => self.until_writable(stall, closing)?,
                Err(error) => return Err(error),
            }
        }
        clock.mark(Stage::Send);
        Ok(())
    }

    /// Whether it is a Unix socket.
    pub fn is_unix(&self) -> bool {
        let address = self.socket().local_addr();
        address.is_ok_and(|address| address.is_unix())
    }

    /// Begins to send over a Unix socket, and a descriptor with it. Gives how many bytes are sent.
    pub fn send_with(&self, bytes: &[u8], file: BorrowedFd<'_>) -> io::Result<usize> {
        descriptor::send(self.socket().as_fd(), bytes, file)
    }

    /// Waits until there is something to read, or the peer is gone; no longer than `LOOK_UP`.
    pub fn until_readable(&self) {
        self.poll(libc::POLLIN);
    }

    /// Whether it is so within `LOOK_UP`.
    fn poll(&self, events: libc::c_short) -> bool {
        let mut polled = libc::pollfd {
            fd: self.socket().as_raw_fd(),
            events,
            revents: 0,
        };
        // SAFETY: one descriptor, which lives as long as its socket.
        unsafe { libc::poll(&mut polled, 1, LOOK_UP.as_millis() as i32) > 0 }
    }

    fn until_writable(&self, stall: Duration, closing: &AtomicBool) -> io::Result<()> {
        let until = Instant::now() + stall;
        loop {
            match self.poll(libc::POLLOUT) {
                true => return Ok(()),
                _ if closing.load(Ordering::Relaxed) => {
                    return Err(ErrorKind::ConnectionAborted.into())
                }
                _ if Instant::now() >= until => return Err(ErrorKind::TimedOut.into()),
                _ => {}
            }
        }
    }
}

const WITHOUT_WAITING: i32 = libc::MSG_DONTWAIT | NO_SIGNAL;
#[cfg(target_os = "linux")]
const NO_SIGNAL: i32 = libc::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: i32 = 0;

fn look(socket: &Socket) -> Option<bool> {
    let mut byte = [MaybeUninit::uninit()];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    match socket.recv_with_flags(&mut byte, flags) {
        Ok(0) => None,
        Ok(_) => Some(true),
        Err(error) if is_late(&error) || error.kind() == ErrorKind::Interrupted => Some(false),
        Err(_) => None,
    }
}

pub fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads of a message that has to be there in time. The socket's own read timeout is `LOOK_UP`.
pub struct Patient<'a> {
    pub wire: &'a mut Wire,
    pub patience: Duration,
    /// When it must be over; `None`: nothing of it has come yet, and there is no hurry.
    pub until: Option<Instant>,
    /// Of a connection that may have to make room.
    pub slot: Option<&'a Slot>,
    pub closing: &'a AtomicBool,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self.wire {
                Wire::Plain(socket) => (&**socket).read(buffer),
                Wire::Tls(session) => {
                    session.get_mut().until = Instant::now() + LOOK_UP;
                    session.read(buffer)
                }
            };
            let late = self.until.is_some_and(|until| Instant::now() >= until);
            let evicted = self.slot.is_some_and(Slot::is_evicted);
            match read {
                Err(error) if is_late(&error) => {
                    if evicted || self.closing.load(Ordering::Relaxed) {
                        return Err(ErrorKind::ConnectionAborted.into());
                    }
                    if late {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Ok(bytes) if bytes > 0 && late => return Err(ErrorKind::TimedOut.into()),
                Ok(_) if evicted && self.until.is_some() => {
                    return Err(ErrorKind::ConnectionAborted.into())
                }
                Ok(bytes) => {
                    if self.until.is_none() {
                        self.until = Some(Instant::now() + self.patience);
                        if let Some(slot) = self.slot {
                            slot.set_activity(Activity::Incomplete);
                        }
                    }
                    return Ok(bytes);
                }
                // A client that hangs up without saying so in TLS has hung up all the same.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && self.until.is_none() => {
                    return Ok(0)
                }
                Err(error) => return Err(error),
            }
        }
    }
}
