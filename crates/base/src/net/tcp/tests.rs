use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const SHORT: Duration = Duration::from_millis(150);

fn never() -> bool {
    false
}

fn start() -> Peer {
    Peer::start(LOOPBACK, Terms::default()).unwrap()
}

fn far(addr: SocketAddr) -> Far {
    Far { addr, ticket: OPEN }
}

#[test]
fn bytes_move_in_both_directions() {
    let peer = start();
    for operation in [Operation::Get, Operation::Put] {
        for streams in [1, 3] {
            let placement = match streams {
                1 => Placement::Free,
                _ => Placement::OneCpu,
            };
            let probe = probe(
                far(peer.addr),
                operation,
                streams,
                65_536,
                SHORT,
                placement,
                &never,
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
    let peer = start();
    let begun = Instant::now();
    let soon = || begun.elapsed() > SHORT;
    let long = Duration::from_secs(60);
    let error = probe(
        far(peer.addr),
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
    let peer = start();
    let ask = |streams, message, seconds| {
        let duration = Duration::from_secs(seconds);
        probe(
            far(peer.addr),
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
    let peer = start();
    let addr = peer.addr;
    drop(peer);
    let begun = Instant::now();
    while TcpStream::connect_timeout(&addr, LOOK_UP).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        std::thread::sleep(LOOK_UP);
    }
    let error = probe(
        far(addr),
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
        let made = header(OPEN, Operation::Put, cpu, 4096, SHORT);
        assert_eq!(
            parse(&made, OPEN).unwrap(),
            (Operation::Put, cpu, 4096, SHORT)
        );
    }
    let made = header(OPEN, Operation::Put, None, 4096, SHORT);
    let mut other = made;
    other[0] = 0;
    assert!(parse(&other, OPEN).is_err());
}

#[test]
fn only_who_was_let_in_is_served_and_within_its_memory() {
    let terms = Terms {
        ticket: *b"a secret",
        memory: 5 << 20,
        ..Terms::default()
    };
    let peer = Peer::start(LOOPBACK, terms).unwrap();
    let ask = |ticket, streams, message| {
        let addr = peer.addr;
        let far = Far { addr, ticket };
        let (get, free) = (Operation::Get, Placement::Free);
        probe(far, get, streams, message, SHORT, free, &never)
    };
    assert!(ask(terms.ticket, 5, 1 << 20).unwrap().bytes > 0);
    assert_eq!(ask(OPEN, 1, 1000).unwrap_err().kind, Kind::Lost);
    let error = ask(terms.ticket, 6, 1 << 20).unwrap_err();
    assert_eq!(error.kind, Kind::Lost);
    assert!(error.message.contains("more than it may hold"), "{error}");
}

#[test]
fn a_peer_that_nobody_asks_for_does_not_listen() {
    let terms = Terms {
        unasked: SHORT,
        ..Terms::default()
    };
    let peer = Peer::start(LOOPBACK, terms).unwrap();
    // While somebody is connected it goes on.
    let long = 4 * SHORT;
    let (get, free) = (Operation::Get, Placement::Free);
    assert!(probe(far(peer.addr), get, 1, 1000, long, free, &never).is_ok());
    assert!(peer.ask());
    let begun = Instant::now();
    while TcpStream::connect_timeout(&peer.addr, LOOK_UP).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(2 * SHORT);
    }
    assert!(!peer.ask());
}
