//! Which process of this host listens on an address: a foreign server's number.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// A host may run thousands of processes; nobody shall wait for all their descriptors.
const PATIENCE: Duration = Duration::from_millis(500);

/// TCP_LISTEN in the kernel's state column.
const LISTEN: &str = "0A";

/// The process with the least number that holds a socket listening there: of a server that
/// forked, the parent. `None`: none is seen, or it may not be looked at.
pub fn pid_of(address: SocketAddr) -> Option<u32> {
    let mut inodes = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        if let Ok(text) = std::fs::read_to_string(table) {
            inodes.extend(parse(&text, address));
        }
    }
    let wanted: Vec<String> = inodes
        .iter()
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let until = Instant::now() + PATIENCE;
    let mut pids: Vec<u32> = std::fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.into_iter()
        .take_while(|_| Instant::now() < until)
        .find(|pid| holds(*pid, &wanted))
}

fn holds(pid: u32, wanted: &[String]) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let link = std::fs::read_link(entry.path());
        link.is_ok_and(|link| wanted.iter().any(|name| link.as_os_str() == name.as_str()))
    })
}

/// Inodes of the sockets of /proc/net/tcp or tcp6 that listen on the address, or on all.
fn parse(table: &str, address: SocketAddr) -> Vec<u64> {
    let ip = address.ip().to_canonical();
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
            let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
            let (host, port) = local.split_once(':')?;
            let listens = *state == LISTEN && u16::from_str_radix(port, 16) == Ok(address.port());
            let host = parse_ip(host)?.to_canonical();
            (listens && (host == ip || host.is_unspecified())).then(|| inode.parse().ok())?
        })
        .collect()
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
        assert_eq!(parse(&table, at("127.0.0.1:31337")), [11, 13]);
        assert_eq!(parse(&table, at("10.0.0.2:31337")), [13, 14]);
        let six = head.to_owned()
            + &line("00000000000000000000000000000000:7A69", "0A", 21)
            + &line("00000000000000000000000001000000:7A69", "0A", 22)
            + &line("0000000000000000FFFF00000100007F:7A69", "0A", 23);
        assert_eq!(parse(&six, at("[::1]:31337")), [21, 22]);
        assert_eq!(parse(&six, at("127.0.0.1:31337")), [21, 23]);
        assert!(parse("", at("127.0.0.1:1")).is_empty());
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
