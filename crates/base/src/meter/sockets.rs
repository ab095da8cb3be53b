//! What the kernel tells of a trial's connections: TCP_INFO, queues and buffers (Linux).
//!
//! Sources: tcp(7), `struct tcp_info` of linux/tcp.h (fields are only ever added at its end,
//! and the kernel says how much of it it filled in), `tcp_get_info` in net/ipv4/tcp.c.

use std::ops::{Deref, RangeInclusive};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::series::Series;

/// Connections of one trial that are read. A peer may open and close them for as long as it
/// likes, and each has its columns.
const MOST: usize = 4096;

/// The connections of one trial at one end, in the order in which they came.
#[derive(Debug, Default)]
pub struct Sockets(Mutex<Vec<Held>>);

#[derive(Debug)]
struct Held {
    /// The connection's own descriptor, for as long as its `Watch` lives: one more for each
    /// would take them from connections still to come.
    socket: Option<RawFd>,
    /// The same connection by a descriptor of ours, where its owner keeps it to himself.
    kept: Option<OwnedFd>,
    /// When it came, and last.
    first: Reading,
    last: Reading,
}

/// While it lives its connection is read.
#[derive(Debug)]
struct Watch {
    sockets: Arc<Sockets>,
    at: usize,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(held) = self.sockets.held().get_mut(self.at) {
            if let Some(socket) = held.socket.take() {
                // SAFETY: it is open for as long as this watch lives: `Metered` owns both.
                let socket = unsafe { BorrowedFd::borrow_raw(socket) };
                held.last = read(socket).unwrap_or(held.last);
            }
        }
    }
}

/// A connection, and what reads its socket. Nothing outside of this crate gets the connection to
/// change, as it could then be exchanged for another one while its socket is read.
#[derive(Debug)]
pub struct Metered<S> {
    // Before the connection: fields are dropped in this order.
    watch: Option<Watch>,
    pub(crate) connection: S,
}

// A borrowed socket could be closed while a forgotten watch reads on.
impl<S: AsFd + 'static> Metered<S> {
    pub fn new(connection: S) -> Self {
        Self {
            watch: None,
            connection,
        }
    }

    /// The socket is one of this trial's from here on, and of no other's.
    pub fn watch(&mut self, sockets: &Arc<Sockets>) {
        let is_of = |watch: &Watch| Arc::ptr_eq(&watch.sockets, sockets);
        if !self.watch.as_ref().is_some_and(is_of) {
            self.watch = sockets.watch(self.connection.as_fd());
        }
    }

    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }
}

impl<S> Deref for Metered<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.connection
    }
}

impl Sockets {
    /// From here on this connection is read too. `None`: there are too many already.
    fn watch(self: &Arc<Self>, socket: BorrowedFd<'_>) -> Option<Watch> {
        let mut all = self.held();
        if all.len() >= MOST {
            return None;
        }
        let first = read(socket).unwrap_or_default();
        all.push(Held {
            socket: Some(socket.as_raw_fd()),
            kept: None,
            first,
            last: first,
        });
        Some(Watch {
            sockets: self.clone(),
            at: all.len() - 1,
        })
    }

    /// From here on this connection is read too, by a descriptor of ours: whoever gets it now does
    /// not hand it out again, as a driver does. It stays open until `release`.
    pub fn keep(&self, socket: BorrowedFd<'_>) {
        let mut all = self.held();
        let Ok(socket) = socket.try_clone_to_owned() else {
            return; // out of descriptors: it goes unread
        };
        if all.len() < MOST {
            let first = read(socket.as_fd()).unwrap_or_default();
            all.push(Held {
                socket: Some(socket.as_raw_fd()),
                kept: Some(socket),
                first,
                last: first,
            });
        }
    }

    /// What the kept connections have carried until now, at their log-in, is not the trial's.
    pub fn begin(&self) {
        for held in self.held().iter_mut() {
            if let Some(socket) = &held.kept {
                held.last = read(socket.as_fd()).unwrap_or(held.last);
                held.first = held.last;
            }
        }
    }

    /// What the kept connections have carried since `begin`, both ways; they are let go.
    pub fn release(&self) -> Option<u64> {
        let mut carried = None;
        for held in self.held().iter_mut() {
            let Some(socket) = held.kept.take() else {
                continue;
            };
            held.socket = None;
            held.last = read(socket.as_fd()).unwrap_or(held.last);
            if let (Some(now), Some(before)) = (held.last.carried, held.first.carried) {
                *carried.get_or_insert(0) += now.saturating_sub(before);
            }
        }
        carried
    }

    /// Puts every connection into the row that has begun. One that is closed stays as it was
    /// at its end; one that comes late counts from what it had when it came.
    pub fn sample(&self, series: &mut Series) {
        for (at, held) in self.held().iter_mut().enumerate() {
            if let Some(socket) = held.socket {
                // SAFETY: its watch lives, for that takes it away under this lock.
                let socket = unsafe { BorrowedFd::borrow_raw(socket) };
                held.last = read(socket).unwrap_or(held.last);
            }
            held.last.put(at, &held.first, series);
        }
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.lock()
    }
}

/// Bytes that a connection has carried since it was opened, both ways.
pub fn carried(socket: BorrowedFd<'_>) -> Option<u64> {
    read(socket)?.carried
}

/// Medians over samples and connections, of one connection; retransmits: the sum, in segments.
/// `END.sockets` of docs/format.md.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SocketSummary {
    pub count: usize,
    pub rtt_ns: Option<u64>,
    pub min_rtt_ns: Option<u64>,
    pub retransmits: Option<u64>,
    pub delivery_rate: Option<u64>,
    pub cwnd_bytes: Option<u64>,
    pub in_flight_bytes: Option<u64>,
    pub send_queue_bytes: Option<u64>,
    pub receive_queue_bytes: Option<u64>,
    pub send_buffer_bytes: Option<u64>,
    pub receive_buffer_bytes: Option<u64>,
    pub busy_share: Option<f64>,
    pub receive_window_limited_share: Option<f64>,
    pub send_buffer_limited_share: Option<f64>,
}

impl SocketSummary {
    /// Over these rows, `window_ns` long. `None` where no connection was read.
    pub fn of(series: &Series, rows: RangeInclusive<usize>, window_ns: u64) -> Option<Self> {
        let connections = |name: &str| {
            let list = series.lists.get(name).map_or(&[][..], Vec::as_slice);
            list.iter()
                .filter_map(|column| column.get(rows.clone()))
                .filter(|column| !column.is_empty())
        };
        let middle = |name| median(connections(name).flatten().copied());
        let last = |name| {
            median(
                connections(name)
                    .filter_map(|column| column.last())
                    .copied(),
            )
        };
        let grown = |name| {
            connections(name).map(|column| column[column.len() - 1].saturating_sub(column[0]))
        };
        let share = |name| {
            let grown = median(grown(name))? as f64;
            Some((grown / window_ns.max(1) as f64).min(1.0))
        };
        let count = connections("socket_cwnd_bytes").count();
        (count > 0).then(|| Self {
            count,
            rtt_ns: middle("socket_rtt_ns"),
            min_rtt_ns: last("socket_min_rtt_ns"),
            retransmits: grown("socket_retransmits")
                .reduce(i64::saturating_add)
                .and_then(|sum| u64::try_from(sum).ok()),
            delivery_rate: middle("socket_delivery_rate"),
            cwnd_bytes: middle("socket_cwnd_bytes"),
            in_flight_bytes: middle("socket_in_flight_bytes"),
            send_queue_bytes: middle("socket_send_queue_bytes"),
            receive_queue_bytes: middle("socket_receive_queue_bytes"),
            send_buffer_bytes: last("socket_send_buffer_bytes"),
            receive_buffer_bytes: last("socket_receive_buffer_bytes"),
            busy_share: share("socket_busy_ns"),
            receive_window_limited_share: share("socket_receive_window_limited_ns"),
            send_buffer_limited_share: share("socket_send_buffer_limited_ns"),
        })
    }
}

fn median(values: impl Iterator<Item = i64>) -> Option<u64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    u64::try_from(lower + (upper - lower) / 2).ok()
}

/// One connection at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reading {
    rtt_ns: Option<u64>,
    min_rtt_ns: Option<u64>,
    /// Segments sent again, all in all.
    retransmits: Option<u64>,
    /// Bytes a second that arrived lately.
    delivery_rate: Option<u64>,
    cwnd_bytes: Option<u64>,
    /// Sent, not acknowledged: segments x their size.
    in_flight_bytes: Option<u64>,
    /// Not acknowledged, sent or not.
    send_queue_bytes: Option<u64>,
    /// Arrived, not read.
    receive_queue_bytes: Option<u64>,
    send_buffer_bytes: Option<u64>,
    receive_buffer_bytes: Option<u64>,
    /// Had something to send; of that, was kept by the peer's window or by its own buffer.
    busy_ns: Option<u64>,
    receive_window_limited_ns: Option<u64>,
    send_buffer_limited_ns: Option<u64>,
    /// Bytes acknowledged and received since it was opened; not a column.
    carried: Option<u64>,
}

impl Reading {
    /// `first`: as it was before the connection had a row.
    fn put(&self, at: usize, first: &Reading, series: &mut Series) {
        for ((name, value), (_, before)) in self.named().into_iter().zip(first.named()) {
            if let Some(value) = value {
                let before = before.and_then(|before| i64::try_from(before).ok());
                series.put_item(name, at, value, before);
            }
        }
    }

    /// By the columns of docs/format.md.
    fn named(&self) -> [(&'static str, Option<u64>); 13] {
        [
            ("socket_rtt_ns", self.rtt_ns),
            ("socket_min_rtt_ns", self.min_rtt_ns),
            ("socket_retransmits", self.retransmits),
            ("socket_delivery_rate", self.delivery_rate),
            ("socket_cwnd_bytes", self.cwnd_bytes),
            ("socket_in_flight_bytes", self.in_flight_bytes),
            ("socket_send_queue_bytes", self.send_queue_bytes),
            ("socket_receive_queue_bytes", self.receive_queue_bytes),
            ("socket_send_buffer_bytes", self.send_buffer_bytes),
            ("socket_receive_buffer_bytes", self.receive_buffer_bytes),
            ("socket_busy_ns", self.busy_ns),
            (
                "socket_receive_window_limited_ns",
                self.receive_window_limited_ns,
            ),
            ("socket_send_buffer_limited_ns", self.send_buffer_limited_ns),
        ]
    }
}

#[cfg(not(target_os = "linux"))]
fn read(_: BorrowedFd<'_>) -> Option<Reading> {
    None
}

#[cfg(target_os = "linux")]
fn read(socket: BorrowedFd<'_>) -> Option<Reading> {
    let fd = socket.as_raw_fd();
    let mut bytes = [0u8; 512];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes, and says how many they were.
    let failed = unsafe {
        let place = bytes.as_mut_ptr().cast();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &mut length) != 0
    };
    if failed {
        return None;
    }
    let known = &bytes[..(length as usize).min(bytes.len())];
    let word = |at: usize| {
        let bytes = known.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_ne_bytes(bytes)))
    };
    let long = |at: usize| Some(u64::from_ne_bytes(known.get(at..at + 8)?.try_into().ok()?));
    let micros = |value: Option<u64>| Some(value?.saturating_mul(1000));
    let segment = word(16)?;
    let queue = |request| {
        let mut count: libc::c_int = 0;
        // SAFETY: both requests store one int.
        let failed = unsafe { libc::ioctl(fd, request, &mut count) != 0 };
        (!failed).then_some(count.max(0) as u64)
    };
    let reference = socket2::SockRef::from(&socket);
    Some(Reading {
        rtt_ns: micros(word(68)),
        // The kernel's "never measured".
        min_rtt_ns: micros(word(148).filter(|us| *us < u64::from(u32::MAX))),
        retransmits: word(100),
        delivery_rate: long(160),
        cwnd_bytes: Some(word(80)? * segment),
        in_flight_bytes: Some(word(24)? * segment),
        send_queue_bytes: queue(libc::TIOCOUTQ),
        receive_queue_bytes: queue(libc::FIONREAD),
        send_buffer_bytes: reference.send_buffer_size().ok().map(|size| size as u64),
        receive_buffer_bytes: reference.recv_buffer_size().ok().map(|size| size as u64),
        busy_ns: micros(long(168)),
        receive_window_limited_ns: micros(long(176)),
        send_buffer_limited_ns: micros(long(184)),
        carried: long(120)
            .zip(long(128))
            .map(|(sent, got)| sent.saturating_add(got)),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use venturi_testkit::until;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn watch<S: AsFd + 'static>(sockets: &Arc<Sockets>, socket: S) -> Metered<S> {
        let mut metered = Metered::new(socket);
        metered.watch(sockets);
        metered
    }

    /// How many descriptors of this process are this socket.
    fn descriptors(socket: &TcpStream) -> usize {
        let link = |fd: &str| std::fs::read_link(format!("/proc/self/fd/{fd}"));
        let wanted = link(&socket.as_raw_fd().to_string()).unwrap();
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|entry| {
            let one = entry.file_name().to_str().map(link);
            one.is_some_and(|one| one.is_ok_and(|one| one == wanted))
        })
        .count()
    }

    #[test]
    fn watching_takes_no_descriptor_and_has_a_bound() {
        let (client, _server) = pair();
        let client = Arc::new(client);
        let sockets = Arc::new(Sockets::default());
        let watches: Vec<_> = (0..MOST).map(|_| watch(&sockets, client.clone())).collect();
        assert_eq!(descriptors(&client), 1);
        assert!(!watch(&sockets, client.clone()).is_watched());
        drop(watches);
        assert_eq!(sockets.held().len(), MOST);
    }

    fn sample(sockets: &Sockets, series: &mut Series) {
        series.begin_row(0);
        sockets.sample(series);
        series.end_row(0);
    }

    #[test]
    fn a_reader_that_does_not_read_shows() {
        let (client, server) = pair();
        let (client, server) = (Arc::new(client), Arc::new(server));
        let (sending, receiving) = (Arc::new(Sockets::default()), Arc::new(Sockets::default()));
        let _sender = watch(&sending, client.clone());
        let _receiver = watch(&receiving, server.clone());
        let (mut sent, mut received) = (Series::default(), Series::default());
        sample(&sending, &mut sent);
        client.set_nonblocking(true).unwrap();
        // Until the kernel has counted some time for which the reader's window was full.
        let mut last = 0;
        let mut summary = None;
        until("a full window", || {
            while (&*client).write(&[7; 65536]).is_ok() {}
            sample(&sending, &mut sent);
            last += 1;
            summary = SocketSummary::of(&sent, 0..=last, 1);
            let of = summary.as_ref().unwrap();
            of.receive_window_limited_share.unwrap() > 0.0
        });
        sample(&receiving, &mut received);
        let summary = summary.unwrap();
        assert_eq!(summary.count, 1);
        assert!(summary.rtt_ns.unwrap() > 0 && summary.min_rtt_ns.unwrap() > 0);
        assert!(summary.busy_share.unwrap() > 0.0, "{summary:?}");
        assert!(sent.lists["socket_send_queue_bytes"][0][last] > 65536);
        assert!(received.lists["socket_receive_queue_bytes"][0][0] > 65536);
        let received = SocketSummary::of(&received, 0..=0, 1).unwrap();
        assert!(received.receive_buffer_bytes.unwrap() > 0);
        let mut rest = vec![];
        let _ = (&*server).take(1 << 16).read_to_end(&mut rest);
        assert_eq!(rest.len(), 1 << 16);
    }

    #[test]
    fn a_connection_closes_with_its_owner_and_keeps_its_figures() {
        let (client, mut server) = pair();
        let sockets = Arc::new(Sockets::default());
        let mut client = watch(&sockets, client);
        client.watch(&sockets); // which it is already
        let mut series = Series::default();
        sample(&sockets, &mut series);
        drop(client);
        // The other end sees the end at once: no descriptor of ours keeps it open.
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
        let (late, _peer) = pair();
        let _late = watch(&sockets, late);
        sample(&sockets, &mut series);
        let rtt = &series.lists["socket_rtt_ns"];
        assert_eq!((rtt.len(), rtt[0].len(), rtt[1].len()), (2, 2, 2));
        assert_eq!(SocketSummary::of(&series, 0..=1, 1000).unwrap().count, 2);
        assert_eq!(SocketSummary::of(&Series::default(), 0..=0, 1), None);
    }

    #[test]
    fn kept_connections_tell_what_they_carried_and_are_let_go() {
        let (mut client, mut server) = pair();
        let sockets = Sockets::default();
        sockets.keep(client.as_fd());
        client.write_all(&[0; 100]).unwrap();
        server.read_exact(&mut [0; 100]).unwrap();
        sockets.begin();
        client.write_all(&[1; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        server.write_all(&[2; 500]).unwrap();
        client.read_exact(&mut [0; 500]).unwrap();
        let mut series = Series::default();
        sample(&sockets, &mut series);
        assert_eq!(series.lists["socket_rtt_ns"].len(), 1);
        assert_eq!(sockets.release(), Some(1500));
        assert_eq!(sockets.release(), None);
        drop(client);
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn medians() {
        assert_eq!(median([3, 1, 2].into_iter()), Some(2));
        assert_eq!(median([1, 4].into_iter()), Some(2));
        assert_eq!(median(std::iter::empty()), None);
    }
}
