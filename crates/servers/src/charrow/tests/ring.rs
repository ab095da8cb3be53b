//! Blocks through shared memory, between a whole server and clients of any kind.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::*;
use venturi_base::codec::charrow::handshake::pairs;
use venturi_base::codec::charrow::ring::{Reader, SMALLEST};
use venturi_base::codec::ipc::Compression;
use venturi_base::net::descriptor;
use venturi_testkit::assert_contains;

struct Place {
    server: Server,
    socket: PathBuf,
}

impl Place {
    fn new(name: &str, more: &str) -> Self {
        let name = format!("venturi-ring-{name}-{}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let path = socket.display();
        let spec = format!(r#"{{"server": "charrow", "unix": "{path}"{more}}}"#);
        let server = Server::start(&spec).unwrap();
        Self { server, socket }
    }

    /// The connection that wants this of the server, and what it hears first.
    fn greet(&self, parameters: &Parameters) -> (UnixStream, Result<Greeted, String>) {
        let mut socket = UnixStream::connect(&self.socket).unwrap();
        venturi_testkit::watch();
        socket.write_all(&extended(2, parameters).write()).unwrap();
        let mut receiver = Receiver::new(1 << 30);
        let mut file = None;
        loop {
            match receiver.next().unwrap() {
                Some(Event::Hello(text)) => {
                    let length = pairs(&text).find(|(key, _)| *key == "ring");
                    let length = length.map(|(_, text)| text.parse().unwrap());
                    assert_eq!(length.is_some(), file.is_some());
                    let ring = file.map(|file| {
                        let reader = Reader::of(&file, length.unwrap()).unwrap();
                        (reader, file)
                    });
                    return (socket, Ok((receiver, ring)));
                }
                Some(Event::Error(text)) => return (socket, Err(text)),
                Some(other) => panic!("{other:?}"),
                None => {
                    let (read, came) = receiver.fill(|places| {
                        descriptor::receive(socket.as_fd(), &mut places[0]).unwrap()
                    });
                    assert!(read > 0, "closed");
                    file = came.or(file);
                    receiver.filled(read);
                }
            }
        }
    }

    /// A client that reads from a ring, and the ring's memory.
    fn sharing(&self, parameters: &Parameters) -> (Client<UnixStream>, File) {
        let (socket, greeted) = self.greet(parameters);
        let (mut receiver, ring) = greeted.unwrap();
        let (reader, file) = ring.expect("a ring");
        receiver.attach(reader);
        (Client::over(socket, receiver), file.into())
    }

    fn client(&self, parameters: &Parameters) -> Client<UnixStream> {
        self.sharing(parameters).0
    }

    /// Bytes of rings that are in use.
    fn taken(&self) -> u64 {
        self.server.state.rings.taken()
    }

    fn assert_given_back(&self) {
        venturi_testkit::until("rings are given back", || self.taken() == 0);
    }
}

type Greeted = (Receiver, Option<(Reader, OwnedFd)>);

fn ring(bytes: u64) -> Parameters {
    Parameters {
        ring: Some(bytes),
        ..Parameters::default()
    }
}

/// Asks for rows without end, and copies a ring out without a word of it: the server then waits
/// for room.
fn copy_out(client: &mut Client<UnixStream>) {
    client.query("", ENDLESS);
    while client.receiver.copied() < SMALLEST {
        if client.receiver.next().unwrap().is_none() && client.receiver.freed().is_none() {
            client.fill().unwrap();
        }
    }
}

/// Bytes of memory that a ring takes.
fn pages(memory: &File) -> u64 {
    512 * memory.metadata().unwrap().blocks()
}

const ENDLESS: &str = "SELECT * FROM records(block_rows = 30000)";

#[test]
fn the_same_blocks_as_over_a_socket() {
    let (place, other) = (Place::new("same", ""), serve(""));
    for text in [
        "SELECT * FROM records(rows = 200000, block_rows = 30000)",
        "SELECT * FROM records(rows = 5000, block_rows = 7)",
        "SELECT * FROM records(rows = 0)",
        "SELECT * FROM state_rows(rows = 30000, block_rows = 5000)",
    ] {
        let expected = sorted(whole(&other, text).digests);
        for bytes in [SMALLEST, 100_003, 4 << 20] {
            for (compression, checksum) in [
                (Compression::None, false),
                (Compression::None, true),
                (Compression::Lz4, true),
                (Compression::Zstd(3), false),
            ] {
                let mut client = place.client(&Parameters {
                    compression,
                    checksum,
                    ..ring(bytes)
                });
                // Its ring goes on where it was.
                for _ in 0..2 {
                    let given = client.outcome(text).unwrap();
                    assert_eq!(sorted(given.digests), expected);
                }
            }
        }
    }
    place.assert_given_back();
}

#[test]
fn partitions_with_rings_and_without_share_a_query() {
    let place = Place::new("share", "");
    let text = "SELECT * FROM records(rows = 900000, block_rows = 3000)";
    let rows: Vec<usize> = std::thread::scope(|scope| {
        let read = |bytes: u64| {
            let mut client = place.client(&ring(bytes));
            scope.spawn(move || {
                client.query("shared", text);
                client.drain().unwrap().rows
            })
        };
        let all = [SMALLEST, 1 << 20, SMALLEST].map(read);
        all.map(|one| one.join().unwrap()).into()
    });
    assert_eq!(rows.iter().sum::<usize>(), 900_000);
}

#[test]
fn what_a_client_cannot_have_it_is_told() {
    let place = Place::new("refused", r#", "ring_memory_bytes": 200000"#);
    let refuses = |bytes, said| {
        let (_, greeted) = place.greet(&ring(bytes));
        assert_contains(&greeted.err().unwrap(), said);
    };
    for bytes in [0, SMALLEST - 1, (64 << 20) + 1, u64::MAX] {
        refuses(bytes, "a ring has 65536 to 67108864 bytes");
    }
    let all = [(); 3].map(|()| place.client(&ring(SMALLEST)));
    refuses(SMALLEST, "over 200000 (--ring-memory)");
    drop(all);
    place.assert_given_back();
    drop(place.client(&ring(SMALLEST)));

    let none = Place::new("none", r#", "ring_memory_bytes": 0"#);
    let (_, greeted) = none.greet(&ring(SMALLEST));
    assert!(greeted.unwrap().1.is_none());
    let tcp = serve("");
    let mut client = Client::raw(tcp.address());
    client.say(&extended(1, &ring(SMALLEST)).write());
    match client.event() {
        Ok(Event::Error(text)) => assert!(text.contains("over a Unix socket alone"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_lies_about_the_ring_is_hung_up_on() {
    let place = Place::new("lies", "");
    for lie in [0, -1, 5, i64::MAX, i64::MIN] {
        let mut client = place.client(&ring(SMALLEST));
        client.say(&Request::Freed(lie).write());
        assert_contains(&client.drain().unwrap_err(), "of a ring that has 0 in use");
    }
    // More than is in use, in the middle of a block.
    let mut client = place.client(&ring(SMALLEST));
    client.query("", ENDLESS);
    client.say(&Request::Freed(SMALLEST as i64 + 1).write());
    assert_contains(&client.drain().unwrap_err(), "frees 65537 bytes");
    drop(client);
    let tcp = serve("");
    let mut without = Client::extended(tcp.address(), 1, &Parameters::default());
    without.say(&Request::Freed(1).write());
    assert_contains(&without.drain().unwrap_err(), "this connection has none");
    place.assert_given_back();
}

#[test]
fn a_client_that_takes_nothing_or_dies_is_given_up() {
    let place = Place::new("stalls", r#", "stall_timeout_ns": 300000000"#);
    // It reads all messages, and frees nothing.
    let mut silent = place.client(&ring(SMALLEST));
    silent.query("silent", ENDLESS);
    let mut bytes = [0; 4096];
    while silent.socket.read(&mut bytes).unwrap() > 0 {}
    // It dies while the server waits for it.
    let mut dies = place.client(&ring(SMALLEST));
    copy_out(&mut dies);
    drop((silent, dies));
    place.assert_given_back();
    let state = &place.server.state;
    venturi_testkit::until("both are gone", || state.admission.is_empty());
    assert_eq!(state.totals.lost.load(Ordering::Relaxed), 2);
}

/// Whoever holds on to a ring would take more memory than the account says.
#[test]
fn a_ring_is_given_back_whoever_holds_on_to_it() {
    let place = Place::new("held", "");
    let [mut idle, mut busy, mut wrong] = [(); 3].map(|()| place.sharing(&ring(SMALLEST)));
    copy_out(&mut busy.0);
    wrong.0.say(&Request::Freed(1).write());
    wrong.0.drain().unwrap_err();
    for (client, memory) in [&mut idle, &mut busy, &mut wrong] {
        assert_eq!(pages(memory), SMALLEST);
        client.socket.shutdown(std::net::Shutdown::Both).unwrap();
    }
    place.assert_given_back();
    assert_eq!([idle, busy, wrong].map(|held| pages(&held.1)), [0; 3]);
}

#[test]
fn a_server_that_stops_leaves_a_client_what_it_has_to_copy() {
    let place = Place::new("stops", "");
    let (mut client, memory) = place.sharing(&ring(SMALLEST));
    client.outcome("SELECT * FROM records(rows = 10)").unwrap();
    place.server.stop();
    assert_eq!((place.taken(), pages(&memory)), (0, SMALLEST));
}

/// It would be counted until it is seen to be too large.
#[test]
fn one_that_is_refused_takes_no_room_from_another() {
    let rings = crate::charrow::ring::Rings::new(SMALLEST);
    std::thread::scope(|scope| {
        let large = scope.spawn(|| {
            for _ in 0..100_000 {
                rings.make(2 * SMALLEST).unwrap_err();
            }
        });
        while !large.is_finished() {
            assert!(rings.make(SMALLEST).unwrap().is_some());
        }
    });
}

#[test]
fn questions_and_a_query_may_come_in_the_middle_of_a_block() {
    let place = Place::new("asks", "");
    let mut client = place.client(&ring(SMALLEST));
    let text = "SELECT * FROM records(rows = 600000, block_rows = 100000)";
    client.query("first", text);
    client.query("second", "SELECT * FROM records(rows = 5)");
    for _ in 0..3 {
        client.asks("clock", "");
    }
    let (mut answers, mut ends, mut blocks) = (0, 0, 0);
    while ends < 2 {
        match client.event().unwrap() {
            Event::Answer(_) => answers += 1,
            Event::Block(_) => blocks += 1,
            Event::End => ends += 1,
            _ => {}
        }
    }
    assert_eq!((answers, blocks), (3, 7));
    // One may wait, not more.
    ["third", "fourth", "fifth"]
        .iter()
        .for_each(|id| client.query(id, ENDLESS));
    assert_contains(&client.drain().unwrap_err(), "two queries wait");
    // Or the server waits for it to copy what came before the error.
    drop(client);
    // Who has enough leaves in the middle of a block.
    let mut leaves = place.client(&ring(SMALLEST));
    leaves.query("left", ENDLESS);
    leaves.asks("leave", "");
    // What the server has not read by then is a reset connection.
    let said = leaves.drain().unwrap_err();
    assert!(["closed", "ConnectionReset"].contains(&&*said), "{said}");
    place.assert_given_back();
}
