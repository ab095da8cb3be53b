//! Blocks through shared memory, between a whole server and clients of any kind.

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
        let server = Server::start(&format!(
            r#"{{"server": "charrow", "unix": "{path}"{more}}}"#
        ));
        let server = server.unwrap();
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

    fn refusal(&self, parameters: &Parameters) -> String {
        self.greet(parameters).1.err().expect("an error")
    }

    fn client(&self, parameters: &Parameters) -> Sharing {
        let (socket, greeted) = self.greet(parameters);
        let (mut receiver, ring) = greeted.unwrap();
        let (reader, file) = ring.expect("a ring");
        receiver.attach(reader);
        let (client, memory) = (Client::over(socket, receiver), file.into());
        Sharing { client, memory }
    }

    /// Bytes of rings that are in use.
    fn taken(&self) -> u64 {
        self.server.state.rings.taken()
    }

    fn until(&self, what: &str, there: impl Fn(&Self) -> bool) {
        venturi_testkit::until(what, || there(self));
    }
}

type Greeted = (Receiver, Option<(Reader, OwnedFd)>);

fn ring(bytes: u64) -> Parameters {
    Parameters {
        ring: Some(bytes),
        ..Parameters::default()
    }
}

/// A client that reads from a ring.
struct Sharing {
    client: Client<UnixStream>,
    memory: std::fs::File,
}

impl std::ops::Deref for Sharing {
    type Target = Client<UnixStream>;

    fn deref(&self) -> &Self::Target {
        &self.client
    }
}

impl std::ops::DerefMut for Sharing {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.client
    }
}

impl Sharing {
    /// Copies a ring of so many bytes out without a word of it: the server then waits for room.
    fn copy_out(&mut self, ring: u64) {
        while self.receiver.copied() < ring {
            if self.receiver.next().unwrap().is_none() && self.receiver.freed().is_none() {
                self.fill().unwrap();
            }
        }
    }

    /// Bytes of memory that the ring takes.
    fn pages(&self) -> u64 {
        512 * self.memory.metadata().unwrap().blocks()
    }
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
                    client.query("", text);
                    assert_eq!(sorted(client.drain().unwrap().digests), expected);
                }
            }
        }
    }
    place.until("rings are given back", |place| place.taken() == 0);
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
    for bytes in [0, SMALLEST - 1, (64 << 20) + 1, u64::MAX] {
        let said = place.refusal(&ring(bytes));
        assert_contains(&said, "a ring has 65536 to 67108864 bytes");
    }
    let all: Vec<_> = (0..3).map(|_| place.client(&ring(SMALLEST))).collect();
    let said = place.refusal(&ring(SMALLEST));
    assert_contains(&said, "over 200000 (--ring-memory)");
    drop(all);
    place.until("rings are given back", |place| place.taken() == 0);
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
        let said = client.drain().unwrap_err();
        assert_contains(&said, "of a ring that has 0 in use");
    }
    // More than is in use, in the middle of a block.
    let mut client = place.client(&ring(SMALLEST));
    client.query("", ENDLESS);
    client.say(&Request::Freed(SMALLEST as i64 + 1).write());
    let said = client.drain().unwrap_err();
    assert_contains(&said, "frees 65537 bytes");
    drop(client);
    let tcp = serve("");
    let mut without = Client::extended(tcp.address(), 1, &Parameters::default());
    without.say(&Request::Freed(1).write());
    let said = without.drain().unwrap_err();
    assert_contains(&said, "this connection has none");
    place.until("rings are given back", |place| place.taken() == 0);
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
    dies.query("dies", ENDLESS);
    dies.copy_out(SMALLEST);
    drop((silent, dies));
    place.until("both are gone", |place| {
        place.taken() == 0 && place.server.state.open.load(Ordering::Relaxed) == 0
    });
    assert_eq!(place.server.state.totals.lost.load(Ordering::Relaxed), 2);
}

/// Whoever holds on to a ring would take more memory than the account says.
#[test]
fn a_ring_is_given_back_whoever_holds_on_to_it() {
    let place = Place::new("held", "");
    let mut idle = place.client(&ring(SMALLEST));
    let mut busy = place.client(&ring(SMALLEST));
    busy.query("", ENDLESS);
    busy.copy_out(SMALLEST);
    let mut wrong = place.client(&ring(SMALLEST));
    wrong.say(&Request::Freed(1).write());
    wrong.drain().unwrap_err();
    for held in [&mut idle, &mut busy, &mut wrong] {
        assert_eq!(held.pages(), SMALLEST);
        held.socket.shutdown(std::net::Shutdown::Both).unwrap();
    }
    place.until("rings are given back", |place| place.taken() == 0);
    assert_eq!([&idle, &busy, &wrong].map(Sharing::pages), [0; 3]);
}

#[test]
fn a_server_that_stops_leaves_a_client_what_it_has_to_copy() {
    let place = Place::new("stops", "");
    let mut client = place.client(&ring(SMALLEST));
    client.query("", "SELECT * FROM records(rows = 10)");
    client.drain().unwrap();
    place.server.stop();
    assert_eq!((place.taken(), client.pages()), (0, SMALLEST));
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
    client.query(
        "first",
        "SELECT * FROM records(rows = 600000, block_rows = 100000)",
    );
    let ask = |name: &str| Request::Ask {
        name: name.into(),
        payload: String::new(),
    };
    client.query("second", "SELECT * FROM records(rows = 5)");
    for _ in 0..3 {
        client.say(&ask("clock").write());
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
    client.query("third", ENDLESS);
    client.query("fourth", ENDLESS);
    client.query("fifth", ENDLESS);
    let said = client.drain().unwrap_err();
    assert_contains(&said, "two queries wait");
    // Or the server waits for it to copy what came before the error.
    drop(client);
    // Who has enough leaves in the middle of a block.
    let mut leaves = place.client(&ring(SMALLEST));
    leaves.query("left", ENDLESS);
    leaves.say(&ask("leave").write());
    // What the server has not read by then is a reset connection.
    let said = leaves.drain().unwrap_err();
    assert!(["closed", "ConnectionReset"].contains(&&*said), "{said}");
    place.until("rings are given back", |place| place.taken() == 0);
}
