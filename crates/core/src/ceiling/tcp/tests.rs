use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SHORT: Duration = Duration::from_millis(150);

fn never() -> bool {
    false
}

#[test]
fn bytes_move_in_both_directions() {
    let peer = Peer::start(LOOPBACK).unwrap();
    for operation in [Operation::Get, Operation::Put] {
        for streams in [1, 3] {
            let placement = match streams {
                1 => Placement::Free,
                _ => Placement::OneCpu,
            };
            let probe = probe(
                peer.addr, operation, streams, 65_536, SHORT, placement, &never,
            )
            .unwrap();
            assert!(probe.bytes > 1_000_000, "{operation:?}: {probe:?}");
            assert!(probe.interval_ns >= SHORT.as_nanos() as u64);
            assert!(probe.interval_ns < 5_000_000_000);
        }
    }
}

#[test]
fn a_cancel_ends_it() {
    let peer = Peer::start(LOOPBACK).unwrap();
    let begun = Instant::now();
    let soon = || begun.elapsed() > SHORT;
    let long = Duration::from_secs(60);
    let error = probe(
        peer.addr,
        Operation::Get,
        2,
        1000,
        long,
        Placement::Free,
        &soon,
    )
    .unwrap_err();
    assert_eq!(error.kind, Kind::Cancelled);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn what_the_peer_will_not_do() {
    let peer = Peer::start(LOOPBACK).unwrap();
    let ask = |streams, message, seconds| {
        let duration = Duration::from_secs(seconds);
        probe(
            peer.addr,
            Operation::Put,
            streams,
            message,
            duration,
            Placement::Free,
            &never,
        )
        .unwrap_err()
        .kind
    };
    assert_eq!(ask(0, 1, 1), Kind::Usage);
    assert_eq!(ask(1, 0, 1), Kind::Usage);
    assert_eq!(ask(1, 1 << 40, 1), Kind::Usage);
    assert_eq!(ask(1, 1, 1 << 20), Kind::Usage);
    // Nonsense on the wire: it hangs up.
    let mut socket = TcpStream::connect(peer.addr).unwrap();
    socket.write_all(&[7; HEADER]).unwrap();
    assert_eq!(socket.read(&mut [0; 8]).unwrap_or(0), 0);
}

#[test]
fn a_peer_that_was_dropped_does_not_listen() {
    let peer = Peer::start(LOOPBACK).unwrap();
    let addr = peer.addr;
    drop(peer);
    let begun = Instant::now();
    while TcpStream::connect_timeout(&addr, LOOK_UP).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        std::thread::sleep(LOOK_UP);
    }
    let error = probe(
        addr,
        Operation::Get,
        1,
        1000,
        SHORT,
        Placement::Free,
        &never,
    )
    .unwrap_err();
    assert_eq!(error.kind, Kind::Unreachable);
}

#[test]
fn the_header_reads_back() {
    for cpu in [None, Some(0), Some(127)] {
        let made = header(Operation::Put, cpu, 4096, SHORT);
        assert_eq!(parse(&made).unwrap(), (Operation::Put, cpu, 4096, SHORT));
    }
    let made = header(Operation::Put, None, 4096, SHORT);
    let mut other = made;
    other[0] = 0;
    assert!(parse(&other).is_err());
}
