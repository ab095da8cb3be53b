//! What a path is: round trip, rate and loss, found by datagrams between the namespaces at its ends.
//!
//! Datagrams fill their packets, and go at a rate of our choice: TCP would show what TCP makes of the path.
//! They are counted and timed as they arrived, by the kernel; a round trip by the process that waits for it.

use std::io::{self, ErrorKind};
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::frames::{answered, arrived, set, widen, Control, GIVE_OUT, TAKE_IN};
use super::namespace::inside;
use super::relay::be_punctual;

/// Headers of IP and UDP; what is left of a packet is a datagram's.
const HEADERS: u64 = 20 + 8;
/// A message to the kernel holds so much, and is cut into datagrams there.
const MOST_SENT: u64 = 65_507;
/// A path so much slower than asked for is told as slow, and not as one that loses what is still on its way.
const SLOWER: f64 = 1.25;
/// The first part of what arrives comes out of a full bucket, faster than the rate.
const SETTLING: f64 = 0.4;
/// After the last packet is due.
const LATE: Duration = Duration::from_millis(60);
/// Before a reader looks whether more can come.
const READ_FOR: Duration = Duration::from_millis(10);
const BUFFER: usize = 64 << 20;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Namespaces of the two ends, and their addresses.
    pub ends: [End; 2],
    /// Bytes of a packet, with IP's header, and what Ethernet adds to it.
    pub mtu: u64,
    pub overhead: u64,
    /// Whether each datagram is handed to the kernel by itself: those that it is to cut do not pass a packet socket
    /// of kernels before 6.2.
    pub singly: bool,
    pub pings: u32,
    /// Between two of them.
    pub ping_every_ns: u64,
    /// Of a packet there and back, so that nobody waits for less.
    pub round_trip_ns: u64,
    /// From the first end to the second, and back.
    pub ways: [Way; 2],
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub namespace: PathBuf,
    pub address: Ipv4Addr,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// Bits/s with all that Ethernet adds, at which what waits leaves the slowest place.
    pub rate: f64,
    /// Bytes that wait there, at most.
    pub buffer: u64,
    /// Bits/s that are sent to find the rate, and by how many packets; none: it is not looked for.
    pub offered: Option<f64>,
    pub rate_packets: u64,
    /// Packets by which loss is found, and the bits/s at which they are sent: nothing but chance loses any.
    pub packets: u64,
    pub packets_rate: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Found {
    pub round_trip: Trip,
    pub ways: [FoundWay; 2],
}

/// Of pings that came back; ns.
#[derive(Debug, Clone, Serialize)]
pub struct Trip {
    pub sent: u64,
    pub came_back: u64,
    pub least_ns: u64,
    pub median_ns: u64,
    pub most_ns: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct FoundWay {
    /// Bits/s with all that Ethernet adds.
    pub rate: Option<f64>,
    /// Bits/s that this host could send to find it: where that is less than was asked for, nothing is known of a
    /// higher rate.
    pub offered: Option<f64>,
    /// Of packets sent at a part of the rate.
    pub sent: u64,
    pub lost: u64,
}

/// Looks at the path. An error of what cannot be asked, and where no ping came back.
pub fn look(spec: &Spec) -> io::Result<Found> {
    let socket = |end: &End| inside(&end.namespace, || bound(end.address));
    let sockets = [socket(&spec.ends[0])?, socket(&spec.ends[1])?];
    for (one, other) in [(0, 1), (1, 0)] {
        sockets[one].connect(sockets[other].local_addr()?)?;
    }
    let trip = round_trip(&sockets, spec)?;
    let way = |from: usize, to: usize| {
        let way = &spec.ways[from];
        let path = Path {
            from: &sockets[from],
            to: &sockets[to],
            datagram: spec.mtu - HEADERS,
            overhead: spec.overhead,
            singly: spec.singly,
            patience: Duration::from_nanos(spec.round_trip_ns) + LATE,
            buffer: way.buffer,
            drains: way.rate,
        };
        let (rate, offered) = match way.offered {
            Some(offered) => {
                let (rate, offered) = path.rate(offered, way.rate_packets)?;
                (Some(rate), Some(offered))
            }
            None => (None, None),
        };
        let (sent, came) = path.counted(way.packets_rate, way.packets)?;
        Ok::<_, io::Error>(FoundWay {
            rate,
            offered,
            sent,
            lost: sent.saturating_sub(came),
        })
    };
    Ok(Found {
        ways: [way(0, 1)?, way(1, 0)?],
        round_trip: trip,
    })
}

fn bound(address: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(address, 0))?;
    widen(&socket, TAKE_IN, BUFFER)?;
    widen(&socket, GIVE_OUT, BUFFER)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)?;
    Ok(socket)
}

/// Small packets, one after the other without waiting, so that a long way is not waited for each time.
fn round_trip(sockets: &[UdpSocket; 2], spec: &Spec) -> io::Result<Trip> {
    let [near, far] = sockets;
    let every = Duration::from_nanos(spec.ping_every_ns);
    let patience = Duration::from_nanos(spec.round_trip_ns) + LATE;
    let began = Instant::now();
    let end = began + every * spec.pings + patience;
    let mut took: Vec<u64> = std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let mut text = [0; 8];
            while let Some(length) = read_until(far, &mut text, end)? {
                far.send(&text[..length])?;
            }
            Ok::<_, io::Error>(())
        });
        let listen = scope.spawn(|| {
            let (mut found, mut text) = (vec![], [0; 8]);
            while let Some(8) = read_until(near, &mut text, end)? {
                let sent = u64::from_le_bytes(text);
                found.push((began.elapsed().as_nanos() as u64).saturating_sub(sent));
                if found.len() == spec.pings as usize {
                    break;
                }
            }
            Ok::<_, io::Error>(found)
        });
        for number in 0..spec.pings {
            let due = began + every * number;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            near.send(&(began.elapsed().as_nanos() as u64).to_le_bytes())?;
        }
        let found = listen.join().unwrap_or_else(|_| Err(panicked()))?;
        // Nobody listens for more: the far end is let go by an empty one, or by its time.
        near.send(&[])?;
        echo.join().unwrap_or_else(|_| Err(panicked()))?;
        Ok::<_, io::Error>(found)
    })?;
    took.sort_unstable();
    match took[..] {
        [] => Err(io::Error::new(
            ErrorKind::TimedOut,
            format!("none of {} packets came back in {patience:?}", spec.pings),
        )),
        [least, ..] => Ok(Trip {
            sent: spec.pings.into(),
            came_back: took.len() as u64,
            least_ns: least,
            median_ns: took[took.len() / 2],
            most_ns: took[took.len() - 1],
        }),
    }
}

/// The next datagram's length; none when the time is over, or for an empty one.
fn read_until(socket: &UdpSocket, into: &mut [u8], end: Instant) -> io::Result<Option<usize>> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Ok(None);
    }
    socket.set_read_timeout(Some(left))?;
    match socket.recv(into) {
        Ok(0) => Ok(None),
        Ok(length) => Ok(Some(length)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What a datagram is for, which each of its bytes says: those of a flood may be late, and are none of those that
/// are counted afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Flood = 1,
    Counted = 2,
}

/// One direction.
struct Path<'a> {
    from: &'a UdpSocket,
    to: &'a UdpSocket,
    datagram: u64,
    overhead: u64,
    singly: bool,
    patience: Duration,
    buffer: u64,
    drains: f64,
}

impl Path<'_> {
    /// Bits of a packet on the wire.
    fn bits(&self) -> f64 {
        8.0 * (self.datagram + HEADERS + self.overhead) as f64
    }

    /// What arrives while more is sent than the path carries, and what was sent; bits/s.
    fn rate(&self, offered: f64, packets: u64) -> io::Result<(f64, f64)> {
        let (arrivals, took) = self.passed(offered, packets, Kind::Flood)?;
        let few = || {
            io::Error::new(
                ErrorKind::TimedOut,
                "too few packets arrived to tell a rate",
            )
        };
        let (&(first, _), &(last, _)) = arrivals.first().zip(arrivals.last()).ok_or_else(few)?;
        let from = first + ((last - first) as f64 * SETTLING) as u64;
        let mut settled = arrivals.iter().skip_while(|(at, _)| *at < from);
        let (begin, _) = settled.next().ok_or_else(few)?;
        let came: u64 = settled.map(|(_, packets)| packets).sum();
        if last == *begin {
            return Err(few());
        }
        let seconds = (last - begin) as f64 / 1e9;
        let offered = packets as f64 * self.bits() / took.as_secs_f64();
        Ok((came as f64 * self.bits() / seconds, offered))
    }

    /// Packets sent at such a rate, and those of them that arrived.
    fn counted(&self, rate: f64, packets: u64) -> io::Result<(u64, u64)> {
        // A burst that catches up after this thread did not run would not fit into the buffer.
        let (arrivals, _) = self.passed(rate, packets, Kind::Counted)?;
        Ok((packets, arrivals.iter().map(|(_, packets)| packets).sum()))
    }

    /// Sends so many packets at so many bits/s. What arrives: when (ns since 1970), and how many at once; and
    /// how long it took to send them.
    fn passed(
        &self,
        rate: f64,
        packets: u64,
        kind: Kind,
    ) -> io::Result<(Vec<(u64, u64)>, Duration)> {
        // 0: a message is a datagram.
        let datagram = if self.singly { 0 } else { self.datagram } as libc::c_int;
        set(self.from, libc::SOL_UDP, libc::UDP_SEGMENT, &datagram)?;
        set(self.to, libc::SOL_UDP, libc::UDP_GRO, &1)?;
        // No more can wait than was sent.
        let waits = self.buffer.min(packets * (self.datagram + HEADERS));
        let queue = Duration::from_secs_f64(waits as f64 * 8.0 * SLOWER / self.drains);
        // A busy host takes longer to send: when no more can come is known then.
        let end = OnceLock::new();
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| self.read(packets, kind, &end));
            // A sender that is late leaves the path idle, which then looks slower than it is.
            let sending = scope.spawn(|| {
                be_punctual();
                let began = Instant::now();
                self.send(rate, packets, kind).map(|()| began.elapsed())
            });
            let took = sending.join().unwrap_or_else(|_| Err(panicked()));
            let _ = end.set(Instant::now() + queue + self.patience);
            let arrivals = reading.join().unwrap_or_else(|_| Err(panicked()))?;
            took.map(|took| (arrivals, took))
        })
    }

    fn send(&self, rate: f64, packets: u64, kind: Kind) -> io::Result<()> {
        // What a millisecond carries, and never so much that the buffer has no room for it.
        let at_once = (rate / 1000.0 / self.bits()) as u64;
        let room = self.buffer / 4 / (self.datagram + HEADERS);
        let most = match self.singly {
            true => 1,
            false => at_once.min(room).min(MOST_SENT / self.datagram).max(1),
        };
        let message = vec![kind as u8; (most * self.datagram) as usize];
        let mut began = Instant::now();
        let mut sent = 0;
        while sent < packets {
            let now = most.min(packets - sent);
            let due = Duration::from_secs_f64(sent as f64 * self.bits() / rate);
            let passed = began.elapsed();
            std::thread::sleep(due.saturating_sub(passed));
            if kind == Kind::Counted {
                began += passed.saturating_sub(due);
            }
            match self.from.send(&message[..(now * self.datagram) as usize]) {
                Ok(_) => sent += now,
                // This host's own queue is full: these are as good as lost, and never were on the path.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => sent += now,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(
        &self,
        packets: u64,
        kind: Kind,
        end: &OnceLock<Instant>,
    ) -> io::Result<Vec<(u64, u64)>> {
        self.to.set_read_timeout(Some(READ_FOR))?;
        let mut bytes = vec![0; 1 << 17];
        let (mut found, mut came) = (vec![], 0);
        loop {
            if came >= packets {
                return Ok(found);
            }
            // After the end nothing is waited for; what lies in the socket by then is counted, however late.
            let over = end.get().is_some_and(|end| *end <= Instant::now());
            let flags = if over { libc::MSG_DONTWAIT } else { 0 };
            match received(self.to, &mut bytes, flags) {
                Ok((length, at)) => {
                    let datagrams = bytes[..length].chunks(self.datagram as usize);
                    let now = datagrams.filter(|one| one[0] == kind as u8).count() as u64;
                    came += now;
                    found.push((at, now));
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if over {
                        return Ok(found);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The length of what arrived, and when.
fn received(socket: &UdpSocket, into: &mut [u8], flags: libc::c_int) -> io::Result<(usize, u64)> {
    let mut control = Control::default();
    let mut vector = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: all zero is a valid header; it points to places of ours, with their lengths.
    unsafe {
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
        let length = answered(libc::recvmsg(socket.as_raw_fd(), &mut header, flags))?;
        Ok((length, arrived(&header)))
    }
}

fn panicked() -> io::Error {
    io::Error::other("a thread panicked")
}
