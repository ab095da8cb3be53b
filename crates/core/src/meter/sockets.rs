//! What the kernel tells of a trial's connections: TCP_INFO, queues and buffers (Linux).
//!
//! Sources: tcp(7), `struct tcp_info` of linux/tcp.h (fields are only ever added at its end,
//! and the kernel says how much of it it filled in), `tcp_get_info` in net/ipv4/tcp.c.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// The connections of one trial at one end, in the order in which they came.
#[derive(Debug, Default)]
pub struct Sockets(Mutex<Vec<Held>>);

#[derive(Debug)]
struct Held {
    /// A descriptor of our own: whatever closes meanwhile, it is never another's.
    socket: Option<OwnedFd>,
    last: Reading,
}

/// While it lives its connection is read. Whoever owns the connection owns this too: our
/// descriptor alone would keep the connection open.
#[derive(Debug)]
pub struct Watch {
    sockets: Arc<Sockets>,
    at: usize,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(held) = self.sockets.held().get_mut(self.at) {
            if let Some(socket) = held.socket.take() {
                held.last = read(&socket).unwrap_or(held.last);
            }
        }
    }
}

impl Sockets {
    /// From here on this connection is read too. `None`: the system has no descriptor left.
    pub fn watch(self: &Arc<Self>, socket: BorrowedFd<'_>) -> Option<Watch> {
        let socket = socket.try_clone_to_owned().ok()?;
        let mut all = self.held();
        all.push(Held {
            last: read(&socket).unwrap_or_default(),
            socket: Some(socket),
        });
        Some(Watch {
            sockets: self.clone(),
            at: all.len() - 1,
        })
    }

    /// Adds one sample of every connection. One that is closed stays as it was at its end; one
    /// that came late has nulls before.
    pub fn sample(&self, columns: &mut SocketColumns) {
        let mut all = self.held();
        for (at, held) in all.iter_mut().enumerate() {
            if let Some(now) = held.socket.as_ref().and_then(read) {
                held.last = now;
            }
            columns.push(at, &held.last);
        }
        columns.samples += 1;
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Column = Vec<Vec<Option<u64>>>;

/// The socket columns of docs/format.md: a list a connection, a value a sample.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SocketColumns {
    pub socket_rtt_ns: Column,
    pub socket_retransmits: Column,
    pub socket_delivery_rate: Column,
    pub socket_cwnd_bytes: Column,
    pub socket_in_flight_bytes: Column,
    pub socket_send_queue_bytes: Column,
    pub socket_receive_queue_bytes: Column,
    pub socket_busy_ns: Column,
    pub socket_receive_window_limited_ns: Column,
    pub socket_send_buffer_limited_ns: Column,
    /// The last reading of each connection: what has no column of its own.
    #[serde(skip)]
    last: Vec<Reading>,
    #[serde(skip)]
    samples: usize,
}

impl SocketColumns {
    /// Nothing was read: no connection, or a system that does not tell.
    pub fn is_empty(&self) -> bool {
        self.last.iter().all(|last| *last == Reading::default())
    }

    fn push(&mut self, at: usize, now: &Reading) {
        for (column, value) in [
            (&mut self.socket_rtt_ns, now.rtt_ns),
            (&mut self.socket_retransmits, now.retransmits),
            (&mut self.socket_delivery_rate, now.delivery_rate),
            (&mut self.socket_cwnd_bytes, now.cwnd_bytes),
            (&mut self.socket_in_flight_bytes, now.in_flight_bytes),
            (&mut self.socket_send_queue_bytes, now.send_queue_bytes),
            (
                &mut self.socket_receive_queue_bytes,
                now.receive_queue_bytes,
            ),
            (&mut self.socket_busy_ns, now.busy_ns),
            (
                &mut self.socket_receive_window_limited_ns,
                now.receive_window_limited_ns,
            ),
            (
                &mut self.socket_send_buffer_limited_ns,
                now.send_buffer_limited_ns,
            ),
        ] {
            if column.len() == at {
                column.push(vec![None; self.samples]);
            }
            column[at].push(value);
        }
        self.last.resize(self.last.len().max(at + 1), *now);
        self.last[at] = *now;
    }

    /// `END.sockets` of docs/format.md. `window_ns`: from the first sample to the last. `None`
    /// where nothing was read.
    pub fn summary(&self, window_ns: u64) -> Option<SocketSummary> {
        if self.is_empty() {
            return None;
        }
        let of_last =
            |field: fn(&Reading) -> Option<u64>| median(self.last.iter().filter_map(field));
        let share = |column: &Column| {
            let grown = column.iter().filter_map(|socket| grown(socket));
            Some(median(grown)? as f64 / window_ns.max(1) as f64).map(|share| share.min(1.0))
        };
        let retransmits = self
            .socket_retransmits
            .iter()
            .filter_map(|socket| grown(socket));
        Some(SocketSummary {
            count: self.last.len() as u64,
            rtt_ns: middle(&self.socket_rtt_ns),
            min_rtt_ns: of_last(|last| last.min_rtt_ns),
            retransmits: retransmits.reduce(|all, one| all + one),
            delivery_rate: middle(&self.socket_delivery_rate),
            cwnd_bytes: middle(&self.socket_cwnd_bytes),
            in_flight_bytes: middle(&self.socket_in_flight_bytes),
            send_queue_bytes: middle(&self.socket_send_queue_bytes),
            receive_queue_bytes: middle(&self.socket_receive_queue_bytes),
            send_buffer_bytes: of_last(|last| last.send_buffer_bytes),
            receive_buffer_bytes: of_last(|last| last.receive_buffer_bytes),
            busy_share: share(&self.socket_busy_ns),
            receive_window_limited_share: share(&self.socket_receive_window_limited_ns),
            send_buffer_limited_share: share(&self.socket_send_buffer_limited_ns),
        })
    }
}

/// What a counter has grown by since its first value.
fn grown(socket: &[Option<u64>]) -> Option<u64> {
    let mut values = socket.iter().flatten();
    let first = values.next()?;
    Some(values.next_back().unwrap_or(first).saturating_sub(*first))
}

/// The median over all samples of all connections.
fn middle(column: &Column) -> Option<u64> {
    median(column.iter().flatten().flatten().copied())
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(lower + (upper - lower) / 2)
}

/// Medians over samples and connections, of one connection; retransmits: the sum, in segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, serde::Deserialize)]
pub struct SocketSummary {
    pub count: u64,
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
}

#[cfg(not(target_os = "linux"))]
fn read(_: &OwnedFd) -> Option<Reading> {
    None
}

#[cfg(target_os = "linux")]
fn read(socket: &OwnedFd) -> Option<Reading> {
    use std::os::fd::AsRawFd;
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
    let reference = socket2::SockRef::from(socket);
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
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_reader_that_does_not_read_shows() {
        let (mut client, server) = pair();
        let (sending, receiving) = (Arc::new(Sockets::default()), Arc::new(Sockets::default()));
        let _sender = sending.watch(client.as_fd()).unwrap();
        let _receiver = receiving.watch(server.as_fd()).unwrap();
        let (mut sent, mut received) = (SocketColumns::default(), SocketColumns::default());
        sending.sample(&mut sent);
        let begun = Instant::now();
        client.set_nonblocking(true).unwrap();
        while client.write(&[7; 65536]).is_ok() {}
        std::thread::sleep(Duration::from_millis(50));
        sending.sample(&mut sent);
        receiving.sample(&mut received);
        let summary = sent.summary(begun.elapsed().as_nanos() as u64).unwrap();
        assert_eq!(summary.count, 1);
        assert!(summary.rtt_ns.unwrap() > 0 && summary.min_rtt_ns.unwrap() > 0);
        assert!(summary.busy_share.unwrap() > 0.5, "{summary:?}");
        assert!(
            summary.receive_window_limited_share.unwrap() > 0.3,
            "{summary:?}"
        );
        assert!(sent.socket_send_queue_bytes[0][1].unwrap() > 65536);
        assert!(received.socket_receive_queue_bytes[0][0].unwrap() > 65536);
        assert!(received.summary(1).unwrap().receive_buffer_bytes.unwrap() > 0);
        let _ = server.set_read_timeout(Some(Duration::from_millis(200)));
        let mut rest = vec![];
        let _ = (&server).take(1 << 16).read_to_end(&mut rest);
        assert_eq!(rest.len(), 1 << 16);
    }

    #[test]
    fn a_connection_closes_with_its_owner_and_keeps_its_figures() {
        let (client, mut server) = pair();
        let sockets = Arc::new(Sockets::default());
        let watch = sockets.watch(client.as_fd()).unwrap();
        let mut columns = SocketColumns::default();
        sockets.sample(&mut columns);
        drop((client, watch));
        // The other end sees the end at once: no descriptor of ours keeps it open.
        let _ = server.set_read_timeout(Some(Duration::from_secs(5)));
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
        let (late, _peer) = pair();
        let _late = sockets.watch(late.as_fd()).unwrap();
        sockets.sample(&mut columns);
        assert_eq!(columns.socket_rtt_ns[0].len(), 2);
        assert_eq!(columns.socket_rtt_ns[1][0], None);
        assert!(columns.socket_rtt_ns[1][1].is_some());
        assert_eq!(columns.summary(1000).unwrap().count, 2);
        assert_eq!(SocketColumns::default().summary(1), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median([3, 1, 2].into_iter()), Some(2));
        assert_eq!(median([1, 4].into_iter()), Some(2));
        assert_eq!(median(std::iter::empty()), None);
        assert_eq!(grown(&[None, Some(5), Some(9)]), Some(4));
        assert_eq!(grown(&[None]), None);
    }
}
