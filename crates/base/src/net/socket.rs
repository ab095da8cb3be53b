//! How a socket is set up: the same way by targets, reference servers and the TCP ceiling,
//! so that none has an advantage over the other.

use std::net::SocketAddr;

use socket2::SockRef;

/// The send buffer on loopback, in bytes (Linux doubles it for its bookkeeping).
///
/// Between hosts the kernel sizes the buffer by the path's bandwidth and delay, and knows
/// best. On loopback there is no delay to cover, yet it grows to megabytes: what is queued
/// then leaves the core's cache before the receiver copies it. Measured on two cores with
/// 2 MiB of cache each, one stream of gets, 4 MiB messages: 4.4 GB/s by the kernel's choice,
/// 4.6 with 256 KiB, 1.2 with 64 KiB (too many wake-ups); two streams: 5.3, 8.3-10. To try
/// it elsewhere: `venturi serve flight --send-buffer 1Mi`, and `venturi run --operation get
/// --rows-per-batch 131072 --streams 1,2 --target` on it.
pub const LOOPBACK_SEND_BUFFER: usize = 256 << 10;

/// The send buffer of a Unix socket, in bytes, doubled likewise: all that is in flight, for the
/// receiver has none. A writer that was refused is woken when three quarters of it are read.
/// Measured on two cores, CPU time a GB of raw sockets, 256 KiB a read: 108 ms by the kernel's
/// choice (208 KiB), 98 with 256 KiB, 95 with 512 KiB or 1 MiB, 99 with 2 MiB; of gets by Flight 149
/// with 256 KiB, 139 with 512 KiB. Where net.core.wmem_max is less, it is that.
pub const UNIX_SEND_BUFFER: usize = 512 << 10;

/// No waiting for company of small frames (Nagle), and a send buffer: the one that was
/// asked for, ours on loopback, the kernel's otherwise. A refusal costs speed, not more.
pub fn prepare(socket: SockRef<'_>, send_buffer: Option<usize>) {
    let is_unix = socket.local_addr().is_ok_and(|address| address.is_unix());
    if !is_unix {
        let _ = socket.set_tcp_nodelay(true);
    }
    let size = send_buffer.or_else(|| match is_unix {
        true => Some(UNIX_SEND_BUFFER),
        false => is_local(&socket).then_some(LOOPBACK_SEND_BUFFER),
    });
    if let Some(size) = size {
        let _ = socket.set_send_buffer_size(size);
    }
}

/// Both ends have one address: the bytes never leave this machine.
fn is_local(socket: &SockRef<'_>) -> bool {
    let address = |found: std::io::Result<socket2::SockAddr>| {
        found
            .ok()
            .and_then(|found| found.as_socket().as_ref().map(SocketAddr::ip))
    };
    match (address(socket.local_addr()), address(socket.peer_addr())) {
        (Some(here), Some(there)) => here == there || there.is_loopback(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn loopback_gets_a_bounded_buffer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        prepare(SockRef::from(&socket), None);
        assert!(socket.nodelay().unwrap());
        let size = SockRef::from(&socket).send_buffer_size().unwrap();
        assert!(
            (LOOPBACK_SEND_BUFFER..=2 * LOOPBACK_SEND_BUFFER).contains(&size),
            "{size}"
        );
        prepare(SockRef::from(&socket), Some(64 << 10));
        assert!(SockRef::from(&socket).send_buffer_size().unwrap() <= 128 << 10);
    }
}
