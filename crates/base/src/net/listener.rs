//! A socket that listens, whatever its connections come by.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, Socket, Type};

use super::unix::Listening;

/// It does not block.
#[derive(Debug)]
pub enum Listener {
    Tcp(Socket),
    Unix(Listening),
}

impl Listener {
    pub fn socket(&self) -> &Socket {
        match self {
            Self::Tcp(socket) => socket,
            Self::Unix(listening) => &listening.socket,
        }
    }

    pub fn accept(&self) -> io::Result<Socket> {
        self.socket().accept().map(|(socket, _)| socket)
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket().as_raw_fd()
    }
}

/// Listens there by TCP; so many connections wait to be accepted.
pub fn tcp(address: SocketAddr, backlog: i32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
