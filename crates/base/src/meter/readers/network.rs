//! The network interface that carries a connection, and its counters (/proc/net/dev).

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::server_namespace::ServerNamespace;
use super::Reread;

/// An interface of this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    pub name: String,
    pub loopback: bool,
    pub speed_bits_per_second: Option<u64>,
}

/// Counts since the interface came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_drops: u64,
    pub tx_drops: u64,
}

impl Interface {
    /// The interface whose address is the connection's local one. Between two addresses of
    /// one host the bytes go through the loopback, whatever interface they belong to.
    pub fn of(local: IpAddr, peer: IpAddr) -> Option<Self> {
        let all = addresses();
        let (local, peer) = (local.to_canonical(), peer.to_canonical());
        let stays = all.iter().any(|one| one.ip == peer) || peer.is_loopback();
        let one = match stays {
            true => all.iter().find(|one| one.loopback)?,
            false => all.iter().find(|one| one.ip == local)?,
        };
        Some(Self {
            name: one.name.clone(),
            loopback: one.loopback,
            speed_bits_per_second: speed(&one.name),
        })
    }
}

#[derive(Debug)]
pub struct Network {
    pub interface: Interface,
    counters: Option<Reread>,
}

impl Network {
    pub fn of(local: SocketAddr, peer: SocketAddr) -> Option<Self> {
        Some(Self {
            interface: Interface::of(local.ip(), peer.ip())?,
            counters: Reread::open("/proc/self/net/dev"),
        })
    }

    pub fn read(&mut self) -> Option<Moved> {
        parse(self.counters.as_mut()?.read()?, &self.interface.name)
    }
}

/// Whether this host has the address itself, in our network namespace or in that of a server beside us.
pub fn is_own(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback()
        || addresses().iter().any(|one| one.ip == ip)
        || ServerNamespace::from_environment().is_some_and(|beside| beside.has(ip))
}

struct Address {
    name: String,
    ip: IpAddr,
    loopback: bool,
}

fn addresses() -> Vec<Address> {
    let mut found = Vec::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs makes a list that is valid until freeifaddrs; each entry's name is
    // a C string, and its address, where there is one, is of the family that it says.
    unsafe {
        if libc::getifaddrs(&mut first) != 0 {
            return found;
        }
        let mut entry = first;
        while let Some(one) = entry.as_ref() {
            entry = one.ifa_next;
            let Some(address) = one.ifa_addr.as_ref() else {
                continue;
            };
            let ip = match i32::from(address.sa_family) {
                libc::AF_INET => {
                    let address = &*one.ifa_addr.cast::<libc::sockaddr_in>();
                    IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)))
                }
                libc::AF_INET6 => {
                    let address = &*one.ifa_addr.cast::<libc::sockaddr_in6>();
                    IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr))
                }
                _ => continue,
            };
            found.push(Address {
                name: CStr::from_ptr(one.ifa_name).to_string_lossy().into_owned(),
                ip,
                loopback: one.ifa_flags & libc::IFF_LOOPBACK as libc::c_uint != 0,
            });
        }
        libc::freeifaddrs(first);
    }
    found
}

/// What the hardware says; a virtual interface's figure is made up, but for a bond's or a
/// VLAN's, which is that of what lies under it.
fn speed(name: &str) -> Option<u64> {
    let folder = std::path::Path::new("/sys/class/net").join(name);
    let text = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    let uevent = text("uevent");
    let real = folder.join("device").exists()
        || ["DEVTYPE=bond", "DEVTYPE=vlan"]
            .iter()
            .any(|kind| uevent.lines().any(|line| line == *kind));
    // In a network namespace /sys may still show another one's interface of this name.
    let index = std::ffi::CString::new(name).map_or(0, |name| {
        // SAFETY: the name is a C string that lives through the call.
        unsafe { libc::if_nametoindex(name.as_ptr()) }
    });
    let same = text("ifindex").trim().parse() == Ok(index);
    let megabits: u64 = text("speed").trim().parse().ok()?;
    (real && same && megabits > 0).then_some(megabits * 1_000_000)
}

fn parse(dev: &str, name: &str) -> Option<Moved> {
    let line = dev.lines().find_map(|line| {
        let (found, counts) = line.split_once(':')?;
        (found.trim() == name).then_some(counts)
    })?;
    // Receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes
    // packets errs drop ...
    let counts: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    let &[rx_bytes, rx_packets, _, rx_drops, _, _, _, _, tx_bytes, tx_packets, _, tx_drops, ..] =
        counts.as_slice()
    else {
        return None;
    };
    Some(Moved {
        rx_bytes,
        tx_bytes,
        rx_packets,
        tx_packets,
        rx_drops,
        tx_drops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_text() {
        let text = "Inter-|   Receive                            |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls\n    \
            lo: 6837517 154858 0 0 0 0 0 0 6837517 154858 0 0 0 0 0 0\n  \
            eth0: 2335 57 1 2 0 0 0 0 3199 36 0 4 0 0 0 0\n";
        let moved = parse(text, "eth0").unwrap();
        assert_eq!(
            (moved.rx_bytes, moved.rx_packets, moved.rx_drops),
            (2335, 57, 2)
        );
        assert_eq!(
            (moved.tx_bytes, moved.tx_packets, moved.tx_drops),
            (3199, 36, 4)
        );
        assert_eq!(parse(text, "lo").unwrap().tx_bytes, 6_837_517);
        assert_eq!(parse(text, "eth1"), None);
    }

    #[test]
    fn one_host_s_addresses_meet_on_the_loopback() {
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        let interface = Interface::of(local, local).unwrap();
        assert!(interface.loopback);
        assert_eq!(interface.speed_bits_per_second, None);
        for one in addresses().iter().filter(|one| !one.loopback) {
            assert!(Interface::of(one.ip, one.ip).unwrap().loopback);
            let far = Interface::of(one.ip, "192.0.2.1".parse().unwrap()).unwrap();
            assert!(!far.loopback);
        }
        assert!(is_own(local));
        assert!(is_own("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap())); // TEST-NET-1, nobody's
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_loopback_counts() {
        let here: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let mut network = Network::of(here, here).unwrap();
        let before = network.read().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .send_to(&[0; 1000], socket.local_addr().unwrap())
            .unwrap();
        assert!(network.read().unwrap().tx_bytes >= before.tx_bytes + 1000);
    }
}
