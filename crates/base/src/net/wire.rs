//! What a connection runs over: TCP, or TLS over it.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::route::Route;

#[derive(Debug)]
pub enum Wire {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Reads into the first place, and what is over into the second one.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        places: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            // A read of less than there was room for has emptied the socket, and the runtime
            // knows: the next one waits without asking the kernel first.
            Wire::Tcp(socket) if places.len() == 1 => {
                let mut buffer = ReadBuf::new(&mut places[0]);
                ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
            Wire::Tcp(socket) => loop {
                ready!(socket.poll_read_ready(cx))?;
                match socket.try_read_vectored(places) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    result => return Poll::Ready(result),
                }
            },
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

    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Wire::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, pieces),
            Wire::Tls(session) => Pin::new(session).poll_write_vectored(cx, pieces),
        }
    }

    /// TLS may hold encrypted bytes back until it is told to send them.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Wire::Tcp(_) => Poll::Ready(Ok(())),
            Wire::Tls(session) => Pin::new(session).poll_flush(cx),
        }
    }

    /// Ends our side.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Wire::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Wire::Tls(session) => Pin::new(session).poll_shutdown(cx),
        }
    }

    pub fn socket(&self) -> &TcpStream {
        match self {
            Wire::Tcp(socket) => socket,
            Wire::Tls(session) => session.get_ref().0,
        }
    }

    /// The addresses of this end and of the other one.
    pub fn route(&self) -> Option<Route> {
        let socket = self.socket();
        Some(Route {
            local: socket.local_addr().ok()?,
            peer: socket.peer_addr().ok()?,
        })
    }

    pub fn peer(&self) -> String {
        self.socket()
            .peer_addr()
            .map_or_else(|_| "the peer".into(), |address| address.to_string())
    }
}
