//! What a connection runs over: TCP, TLS over it, or a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

use super::descriptor;
use super::route::{Neighbour, Route};
use crate::meter::sockets::Metered;

#[derive(Debug)]
pub enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Of either socket: what it takes is no trait's.
macro_rules! read {
    ($socket:expr, $cx:expr, $places:expr) => {
        // A read of less than there was room for has emptied the socket, and the runtime
        // knows: the next one waits without asking the kernel first.
        if let [place] = &mut *$places {
            let mut buffer = ReadBuf::new(place);
            ready!(Pin::new($socket).poll_read($cx, &mut buffer))?;
            Poll::Ready(Ok(buffer.filled().len()))
        } else {
            loop {
                ready!($socket.poll_read_ready($cx))?;
                match $socket.try_read_vectored($places) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    result => return Poll::Ready(result),
                }
            }
        }
    };
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket()
    }
}

impl Metered<Wire> {
    #[inline]
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        places: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.poll_read(cx, places)
    }

    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        place: &mut [u8],
    ) -> Poll<io::Result<(usize, Option<OwnedFd>)>> {
        self.connection.poll_receive(cx, place)
    }

    #[inline]
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.poll_write(cx, pieces)
    }

    #[inline]
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_flush(cx)
    }

    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.poll_shutdown(cx)
    }
}

impl Wire {
    /// Over a socket that was accepted, of either family.
    pub fn accepted(socket: socket2::Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        match socket.local_addr()?.is_unix() {
            true => UnixStream::from_std(socket.into()).map(Wire::Unix),
            false => TcpStream::from_std(socket.into()).map(Wire::Tcp),
        }
    }

    /// Reads into the first place, and what is over into the second one.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        places: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Wire::Tcp(socket) => read!(socket, cx, places),
            Wire::Unix(socket) => read!(socket, cx, places),
            // TLS decrypts out of its own buffer, so there is nothing to scatter.
            Wire::Tls(session) => {
                let Some(place) = places.iter_mut().find(|place| !place.is_empty()) else {
                    return Poll::Ready(Ok(0));
                };
                let mut buffer = ReadBuf::new(place);
                ready!(Pin::new(session).poll_read(cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
        }
    }

    /// Reads from a Unix socket, and a descriptor where one comes along.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        place: &mut [u8],
    ) -> Poll<io::Result<(usize, Option<OwnedFd>)>> {
        let Wire::Unix(socket) = self else {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        };
        loop {
            ready!(socket.poll_read_ready(cx))?;
            let read = || descriptor::receive(socket.as_fd(), place);
            match socket.try_io(Interest::READABLE, read) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }

    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Wire::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
            Wire::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
            Wire::Tls(session) => Pin::new(session).poll_write_vectored(cx, pieces),
        }
    }

    /// TLS may hold encrypted bytes back until it is told to send them.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Wire::Tcp(_) | Wire::Unix(_) => Poll::Ready(Ok(())),
            Wire::Tls(session) => Pin::new(session).poll_flush(cx),
        }
    }

    /// Ends our side.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Wire::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Wire::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
            Wire::Tls(session) => Pin::new(session).poll_shutdown(cx),
        }
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Tcp(socket) => socket.as_fd(),
            Wire::Unix(socket) => socket.as_fd(),
            Wire::Tls(session) => session.get_ref().0.as_fd(),
        }
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Wire::Tcp(socket) => Some(socket),
            Wire::Unix(_) => None,
            Wire::Tls(session) => Some(session.get_ref().0),
        }
    }

    /// The addresses of this end and of the other one, where they are a network's.
    pub fn route(&self) -> Option<Route> {
        let socket = self.tcp()?;
        Some(Route {
            local: socket.local_addr().ok()?,
            peer: socket.peer_addr().ok()?,
        })
    }

    /// Who is at the other end of a Unix socket.
    pub fn neighbour(&self) -> Option<Neighbour> {
        match self {
            Wire::Unix(socket) => Some(Neighbour::of(socket)),
            _ => None,
        }
    }

    pub fn peer(&self) -> String {
        match self {
            Wire::Unix(socket) => {
                let address = socket.peer_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                path.map(|path| path.display().to_string())
            }
            _ => self.route().map(|route| route.peer.to_string()),
        }
        .unwrap_or_else(|| "the peer".into())
    }
}
