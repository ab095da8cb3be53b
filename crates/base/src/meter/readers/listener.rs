//! Which process of this host listens on an address: a foreign server's number.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::super::end::thread_cpu_ns;
use super::server_namespace::ServerNamespace;

/// CPU time for a look at all processes: a host may run thousands, and nobody shall pay for all their
/// descriptors. That others hold the CPUs ends no look.
const MOST_CPU_NS: u64 = 500_000_000;

/// TCP_LISTEN and TCP_ESTABLISHED in the kernel's state column.
const LISTEN: u8 = 0x0A;
const ESTABLISHED: u8 = 0x01;

/// The process with the least number that holds a socket listening there: of a server that
/// forked, the parent. `None`: none is seen, or it may not be looked at.
pub fn pid_of(address: SocketAddr) -> Option<u32> {
    let inodes: Vec<u64> = rows().filter_map(|row| row.listens(address)).collect();
    let first = processes(&inodes).next();
    first.map(|(pid, _)| pid)
}

/// The same of a Unix socket's path. Of several at one path, whose files are gone but for one, any.
pub fn pid_at(path: &Path) -> Option<u32> {
    let table = std::fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let inodes: Vec<u64> = unix_listeners(&table, path).collect();
    let first = processes(&inodes).next();
    first.map(|(pid, _)| pid)
}

/// `ffff: 00000002 00000000 00010000 0001 01 12345 /run/socket`: of sockets that listen at the path.
fn unix_listeners<'a>(table: &'a str, path: &'a Path) -> impl Iterator<Item = u64> + 'a {
    const ACCEPTS: &str = "00010000";
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace();
        let accepts = fields.nth(3)? == ACCEPTS;
        let inode = fields.nth(2)?;
        let (_, name) = line.split_once(&format!(" {inode} "))?;
        (accepts && Path::new(name) == path).then(|| inode.parse().ok())?
    })
}

/// Who of this host is at the other end of a connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Peer {
    /// As `pid_of` has it.
    pub pid: u32,
    /// What it, or its child that took the connection, is connected to on its own account, with
    /// its name: it may be a proxy, and another process the server.
    pub onward: Option<(String, SocketAddr)>,
}

/// The process that listens where a connection from `local` to `peer` goes. `None` as `pid_of`.
pub fn peer_of(local: SocketAddr, peer: SocketAddr) -> Option<Peer> {
    let rows: Vec<Row> = rows().collect();
    let listeners: Vec<u64> = rows.iter().filter_map(|row| row.listens(peer)).collect();
    let (pid, _) = processes(&listeners).next()?;
    let taken = rows.iter().filter(|row| row.joins(peer, local));
    let ends: Vec<u64> = listeners
        .iter()
        .copied()
        .chain(taken.map(|row| row.inode))
        .collect();
    let onward = processes(&ends)
        // Of a server in this very process the connections that begin here are the client's.
        .filter(|(pid, _)| *pid != std::process::id())
        .find_map(|(pid, held)| onward(&rows, pid, held));
    Some(Peer { pid, onward })
}

/// What a process that listens on a Unix socket, or a child of it, is connected to on its own
/// account, as `Peer` has it: whose end of a connection is whose the kernel does not tell there.
pub fn onward_of(pid: u32) -> Option<(String, SocketAddr)> {
    let rows: Vec<Row> = rows().collect();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let children = children
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok());
    [pid]
        .into_iter()
        .chain(children)
        .filter(|pid| *pid != std::process::id())
        .find_map(|pid| onward(&rows, pid, sockets(pid)))
}

/// The name of a process, and where the first of these sockets of it goes that it has connected itself.
fn onward(rows: &[Row], pid: u32, held: Vec<u64>) -> Option<(String, SocketAddr)> {
    let served: HashSet<u16> = rows
        .iter()
        .filter(|row| row.state == LISTEN)
        .map(|row| row.local.port())
        .collect();
    // A connection from a port that nobody listens on was begun by who holds it.
    let begun = |inode: u64| {
        let own = |row: &&Row| row.inode == inode && row.state == ESTABLISHED;
        rows.iter()
            .find(own)
            .filter(|row| !served.contains(&row.local.port()))
    };
    let row = held.into_iter().find_map(begun)?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((name.trim().to_owned(), row.remote))
}

/// Processes that hold one of these sockets, with all sockets that they hold; by their numbers.
fn processes(wanted: &[u64]) -> impl Iterator<Item = (u32, Vec<u64>)> + '_ {
    let until = thread_cpu_ns() + MOST_CPU_NS;
    let mut pids: Vec<u32> = match wanted {
        [] => Vec::new(),
        _ => std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect(),
    };
    pids.sort_unstable();
    pids.into_iter()
        .take_while(move |_| thread_cpu_ns() < until)
        .map(|pid| (pid, sockets(pid)))
        .filter(|(_, held)| held.iter().any(|inode| wanted.contains(inode)))
}

/// Inodes of the sockets that a process has open, as far as one may look.
fn sockets(pid: u32) -> Vec<u64> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let link = std::fs::read_link(entry.ok()?.path()).ok()?;
            let inode = link.to_str()?.strip_prefix("socket:[")?;
            inode.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

/// A socket of /proc/net/tcp or tcp6.
#[derive(Debug)]
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    inode: u64,
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
        Some(Self {
            local: parse_address(fields.get(1)?)?,
            remote: parse_address(fields.get(2)?)?,
            state: u8::from_str_radix(fields.get(3)?, 16).ok()?,
            inode: fields.get(9)?.parse().ok()?,
        })
    }

    /// The inode of one that listens on the address, or on all.
    fn listens(&self, address: SocketAddr) -> Option<u64> {
        let ip = self.local.ip();
        let there = ip == address.ip().to_canonical() || ip.is_unspecified();
        let listens = self.state == LISTEN && self.local.port() == address.port();
        (listens && there).then_some(self.inode)
    }

    fn joins(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let same = |one: SocketAddr, other: SocketAddr| {
            one.port() == other.port() && one.ip() == other.ip().to_canonical()
        };
        same(self.local, local) && same(self.remote, remote)
    }
}

fn rows() -> impl Iterator<Item = Row> {
    let beside = ServerNamespace::from_environment().map(ServerNamespace::tables);
    let folders = [Some(Path::new("/proc/self/net")), beside];
    folders.into_iter().flatten().flat_map(|folder| {
        ["tcp", "tcp6"].into_iter().flat_map(move |table| {
            parse(&std::fs::read_to_string(folder.join(table)).unwrap_or_default())
        })
    })
}

fn parse(table: &str) -> Vec<Row> {
    table.lines().skip(1).filter_map(Row::parse).collect()
}

/// `0100007F:7A69`.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let ip = parse_ip(host)?.to_canonical();
    Some((ip, u16::from_str_radix(port, 16).ok()?).into())
}

/// Words of 32 bits, each in the byte order of this machine.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(hex.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[4 * at..4 * at + 4].copy_from_slice(&word(at)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn recorded_tables() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let line = |local: &str, state: &str, inode: u32| {
            format!("   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0\n")
        };
        let table = head.to_owned()
            + &line("0100007F:7A69", "0A", 11)
            + &line("0100007F:7A69", "01", 12)
            + &line("00000000:7A69", "0A", 13)
            + &line("0200000A:7A69", "0A", 14)
            + &line("0100007F:7A6A", "0A", 15);
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let listening = |table: &str, address: &str| -> Vec<u64> {
            let rows = parse(table).into_iter();
            rows.filter_map(|row| row.listens(at(address))).collect()
        };
        assert_eq!(listening(&table, "127.0.0.1:31337"), [11, 13]);
        assert_eq!(listening(&table, "10.0.0.2:31337"), [13, 14]);
        let six = head.to_owned()
            + &line("00000000000000000000000000000000:7A69", "0A", 21)
            + &line("00000000000000000000000001000000:7A69", "0A", 22)
            + &line("0000000000000000FFFF00000100007F:7A69", "0A", 23);
        assert_eq!(listening(&six, "[::1]:31337"), [21, 22]);
        assert_eq!(listening(&six, "127.0.0.1:31337"), [21, 23]);
        assert!(listening("", "127.0.0.1:1").is_empty());
    }

    #[test]
    fn recorded_unix_sockets() {
        let head = "Num       RefCount Protocol Flags    Type St Inode Path\n";
        let line = |flags: &str, inode: u32, path: &str| {
            format!("ffff0000: 00000002 00000000 {flags} 0001 01 {inode:5} {path}\n")
        };
        let table = head.to_owned()
            + &line("00010000", 11, "/run/a b")
            + &line("00000000", 12, "/run/a b")
            + &line("00010000", 13, "/run/a")
            + &line("00010000", 14, "");
        let at = |path: &str| unix_listeners(&table, Path::new(path)).collect::<Vec<_>>();
        assert_eq!(
            (at("/run/a b"), at("/run/a"), at("/run")),
            (vec![11], vec![13], vec![])
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_unix_socket_of_this_process() {
        let name = format!("venturi-listener-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(pid_at(&path), Some(std::process::id()));
        drop(listener);
        assert_eq!(pid_at(&path), None);
        std::fs::remove_file(&path).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_listening_socket_of_this_process() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(pid_of(address), Some(std::process::id()));
        drop(listener);
        assert_eq!(pid_of(address), None);
    }
}
