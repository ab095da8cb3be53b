//! The TCP connections that this process has opened: of a driver that keeps its sockets to
//! itself, found by their numbers.

use std::collections::HashSet;
use std::os::fd::OwnedFd;

use crate::target::Route;

/// A process may hold many descriptors; of them, so many connections are looked at.
const MOST: usize = 4096;

/// A connection, by a descriptor of our own: as long as it is kept the connection is not closed.
#[derive(Debug)]
pub struct Connection {
    pub inode: u64,
    pub socket: OwnedFd,
    pub route: Route,
}

/// The sockets that are open now, by their inodes.
pub fn open() -> HashSet<u64> {
    sockets().map(|(_, inode)| inode).collect()
}

/// TCP connections with a peer that are open now and were not among `before`.
#[cfg(target_os = "linux")]
pub fn opened_since(before: &HashSet<u64>) -> Vec<Connection> {
    use std::os::fd::BorrowedFd;

    let mut seen = HashSet::new();
    sockets()
        .filter(|(_, inode)| !before.contains(inode) && seen.insert(*inode))
        .filter_map(|(fd, inode)| {
            // SAFETY: used for one dup only; if the descriptor was closed meanwhile, that fails
            // or gives another socket, which is then known by its own addresses.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            let socket = borrowed.try_clone_to_owned().ok()?;
            let reference = socket2::SockRef::from(&socket);
            let stream = reference.r#type().ok()? == socket2::Type::STREAM;
            let route = Route {
                local: reference.local_addr().ok()?.as_socket()?,
                peer: reference.peer_addr().ok()?.as_socket()?,
            };
            stream.then_some(Connection {
                inode,
                socket,
                route,
            })
        })
        .take(MOST)
        .collect()
}

#[cfg(not(target_os = "linux"))]
pub fn opened_since(_: &HashSet<u64>) -> Vec<Connection> {
    Vec::new()
}

/// Descriptors that are sockets, with their inodes.
fn sockets() -> impl Iterator<Item = (i32, u64)> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    entries.flatten().filter_map(|entry| {
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let link = std::fs::read_link(entry.path()).ok()?;
        let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some((fd, inode.parse().ok()?))
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_that_somebody_else_opened_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let before = open();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let local = client.local_addr().unwrap();
        let find = |before| {
            let found = opened_since(before);
            // Other tests of this process open connections too.
            found
                .into_iter()
                .find(|connection| connection.route.local == local)
        };
        let found = find(&before).unwrap();
        assert_eq!(found.route.peer, listener.local_addr().unwrap());
        assert!(find(&open()).is_none());
        assert!(open().contains(&found.inode));
    }
}
