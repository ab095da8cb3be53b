use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use socket2::SockAddr;

use venturi_testkit::{assert_error, until};

use super::line::{header, parse, Wait, HEADER};
use super::probe::{self as probing, Ends};
use super::*;
use crate::error::{Kind, Result};
use crate::os::pin::allowed;
use crate::spec::Operation;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const SHORT: Duration = Duration::from_millis(20);

fn never() -> bool {
    false
}

fn start() -> Peer {
    Peer::start(LOOPBACK, Terms::default()).unwrap()
}

fn start_unix(name: &str) -> Peer {
    let name = format!("venturi-raw-{name}-{}", std::process::id());
    Peer::start_unix(&std::env::temp_dir().join(name), Terms::default()).unwrap()
}

fn port(peer: &Peer) -> SocketAddr {
    peer.addr.as_socket().unwrap()
}

fn remote_end(addr: &SockAddr) -> RemoteEnd {
    let addr = addr.clone();
    RemoteEnd { addr, ticket: OPEN }
}

fn flow(operation: Operation, streams: usize) -> Flow<'static> {
    Flow {
        operation,
        streams,
        threads: streams.max(1),
        duration: SHORT,
        pin: None,
    }
}

fn free(far: &RemoteEnd, flow: Flow<'_>) -> Result<Probe> {
    probe(far, flow, Placement::Free, &never)
}

#[test]
fn bytes_move_in_both_directions_and_every_placement() {
    let last = allowed().unwrap().last().copied();
    let peers = [start(), start_unix("ways")];
    let ways = [Operation::Get, Operation::Put]
        .map(|operation| peers.each_ref().map(|peer| (peer, operation)));
    let flows = [(1, 1, None), (3, 2, None), (3, 2, last)];
    for (way, (peer, operation)) in ways.concat().into_iter().enumerate() {
        let placements = [Placement::Free, Placement::OneCpu, Placement::Apart];
        for (at, placement) in placements.into_iter().enumerate() {
            // Each with another one at each way.
            let (streams, threads, pin) = flows[(way + at) % 3];
            let mut wanted = flow(operation, streams);
            (wanted.threads, wanted.pin) = (threads, pin.as_slice().into());
            // Also if its time is over before its first turn.
            wanted.duration = [SHORT, Duration::from_nanos(1)][(way + at) % 2];
            let probe = probe(&remote_end(&peer.addr), wanted, placement, &never).unwrap();
            assert!(probe.bytes > 0, "{wanted:?}, {placement:?}: {probe:?}");
            assert!(u128::from(probe.interval_ns) >= wanted.duration.as_nanos());
        }
    }
}

#[test]
fn the_ends_run_where_the_placement_says() {
    let ends = |placement, threads, pin, cpus: &[usize]| {
        let ends = Ends {
            placement,
            threads,
            pin,
            cpus: cpus.to_vec(),
            wait: Wait::Asleep,
        };
        let of = |stream| (ends.own_cpu(stream % threads), ends.peer(stream));
        [of(0), of(1), of(2)]
    };
    let (none, at) = ((None, None), |here, there| (Some(here), Some(there)));
    assert_eq!(ends(Placement::Free, 2, None, &[]), [none; 3]);
    let [two, three] = [&[0, 2][..], &[0, 2, 5][..]];
    let (one, apart) = (Placement::OneCpu, Placement::Apart);
    assert_eq!(ends(one, 3, None, two), [at(0, 0), at(2, 2), at(0, 0)]);
    assert_eq!(ends(apart, 3, None, three), [at(0, 2), at(5, 0), at(5, 0)]);
    assert_eq!(ends(apart, 3, None, two), [at(0, 2), at(2, 0), at(0, 2)]);
    let four = &[0, 1, 2, 3][..];
    assert_eq!(ends(apart, 3, None, four), [at(0, 1), at(2, 3), at(1, 2)]);
    assert!(probing::apart(2, None, four) && !probing::apart(3, None, four));
    assert!(probing::apart(1, Some(two), four) && !probing::apart(2, Some(two), four));
    // Two pinned threads for three connections.
    let pinned = Some(&[2][..]);
    assert_eq!(ends(Placement::Free, 2, pinned, &[]), [(Some(2), None); 3]);
    assert_eq!(ends(one, 2, pinned, two), [at(2, 2); 3]);
    assert_eq!(ends(apart, 2, pinned, two), [at(2, 0); 3]);
}

#[test]
fn the_scheduler_places_a_free_probe() {
    let flow = flow(Operation::Get, 2);
    let cpus = |placement| Ends::of(&flow, placement, true).unwrap().cpus;
    assert!(cpus(Placement::Free).is_empty());
    assert!(!cpus(Placement::OneCpu).is_empty() && !cpus(Placement::Apart).is_empty());
}

#[test]
fn a_cancel_ends_it() {
    let peer = start();
    // While it moves, for it asks again and again.
    let asked = AtomicU32::new(0);
    let later = || asked.fetch_add(1, Ordering::Relaxed) > 100;
    let mut long = flow(Operation::Get, 2);
    long.duration = Duration::from_secs(3600);
    let error = probe(&remote_end(&peer.addr), long, Placement::Free, &later).unwrap_err();
    assert_eq!(error.kind, Kind::Cancelled);
}

#[test]
fn what_the_peer_will_not_do() {
    let peer = start();
    let ask = |streams, seconds| {
        let mut wanted = flow(Operation::Put, streams);
        wanted.duration = Duration::from_secs(seconds);
        free(&remote_end(&peer.addr), wanted).unwrap_err().kind
    };
    assert_eq!(ask(0, 1), Kind::Usage);
    assert_eq!(ask(1, 1 << 20), Kind::Usage);
    let mut none = flow(Operation::Put, 1);
    none.threads = 0;
    assert_eq!(
        free(&remote_end(&peer.addr), none).unwrap_err().kind,
        Kind::Usage
    );
    // Nonsense on the wire: it hangs up.
    let mut socket = TcpStream::connect(port(&peer)).unwrap();
    socket.write_all(&[7; HEADER]).unwrap();
    assert_eq!(socket.read(&mut [0; 8]).unwrap_or(0), 0);
}

#[test]
fn the_header_reads_back() {
    for cpu in [None, Some(0), Some(127)] {
        for wait in Wait::ALL {
            let made = header(OPEN, Operation::Put, SHORT, cpu, wait);
            let read = parse(&made, OPEN).unwrap();
            assert_eq!(read, (Operation::Put, cpu, wait, SHORT));
        }
    }
    let mut other = header(OPEN, Operation::Put, SHORT, None, Wait::Asleep);
    other[0] = 0;
    assert!(parse(&other, OPEN).is_err());
}

#[test]
fn only_who_was_let_in_is_served() {
    let ticket = *b"a secret";
    let terms = Terms {
        ticket,
        ..Terms::default()
    };
    let peer = Peer::start(LOOPBACK, terms).unwrap();
    let ask = |ticket| {
        let addr = peer.addr.clone();
        free(&RemoteEnd { addr, ticket }, flow(Operation::Get, 5))
    };
    assert!(ask(ticket).unwrap().bytes > 0);
    assert_error!(ask(OPEN).unwrap_err(), Kind::Lost, "it was stopped");
}

#[test]
fn a_peer_that_nobody_asks_for_does_not_listen() {
    let terms = Terms {
        unasked: Duration::from_secs(10),
        ..Terms::default()
    };
    let peer = Peer::start(LOOPBACK, terms).unwrap();
    let connect = || TcpStream::connect(port(&peer));
    let now_open = || peer.shared.open.load(Ordering::SeqCst);
    let open = |count| until("connections", || now_open() == count);
    let long_ago = || *peer.shared.asked.lock() = Instant::now().checked_sub(2 * terms.unasked);
    let first = connect().unwrap();
    open(1);
    // While somebody is connected it goes on: before it accepts another one it has looked.
    long_ago();
    let second = connect().unwrap();
    open(2);
    assert!(peer.ask());
    drop((first, second));
    open(0);
    assert!(peer.ask());
    long_ago();
    until("it gives up", || peer.shared.asked.lock().is_none());
    until("nobody listens", || connect().is_err());
    assert!(!peer.ask());
}

#[test]
fn a_peer_that_was_dropped_does_not_listen_and_its_file_is_gone() {
    for (peer, said) in [(start(), ""), (start_unix("goes"), "raw Unix socket, /")] {
        let addr = peer.addr.clone();
        let path = addr.as_pathname();
        assert!(path.is_none_or(Path::exists));
        drop(peer);
        until("nobody listens", || {
            let asked = free(&remote_end(&addr), flow(Operation::Get, 1));
            asked.is_err_and(|it| it.kind == Kind::Unreachable && it.message.starts_with(said))
        });
        until("the file goes", || !path.is_some_and(Path::exists));
    }
}
