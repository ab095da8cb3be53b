//! Clients that break the rules: an error in band and a closed connection, in good time.

use std::net::Shutdown;

use super::super::query::{Query, Shape};
use super::super::sessions::Sessions;
use super::*;
use proptest::prelude::*;
use venturi_base::codec::ipc::Compression;
use venturi_testkit::{assert_contains, until};

/// Sends this, and says nothing more; what the server answers before it hangs up.
fn answer(server: &Server, bytes: &[u8]) -> String {
    let mut client = Client::raw(server.address());
    client.say(bytes);
    let told = loop {
        match client.event() {
            Ok(Event::Error(text)) => break text,
            Ok(_) => {}
            Err(error) => return error,
        }
    };
    assert_eq!(client.event().unwrap_err(), "closed");
    assert_eq!(whole(server, "SELECT * FROM records(rows = 3)").rows, 3);
    told
}

fn query(id: &str, text: &str) -> Vec<u8> {
    let (id, text) = (id.to_owned(), text.to_owned());
    Request::Query { id, text }.write()
}

fn numbers(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

#[test]
fn handshakes_that_lie() {
    let server = serve("");
    assert!(answer(&server, b"GET / HTTP/1.1\r\n\r\n").contains("flag"));
    for minor in [-1, 0, 3, 1 << 40] {
        let said = format!("version 1.{minor}; this server speaks 1.1 and 1.2");
        assert_contains(&answer(&server, &numbers(&[0, 1, minor])), &said);
    }
    for (parameters, said) in [
        ("partition=4\npartitions=4", "they are numbered from 0 to 3"),
        ("partitions=0", "partitions=0: there is at least 1"),
        ("partition=-1", "partition=\"-1\" is not a number"),
        ("compression=zstd:23", "a level of 1 to 22"),
    ] {
        let mut hello = extended(1, &Parameters::default());
        hello.client = format!("c\n{parameters}");
        assert_contains(&answer(&server, &hello.write()), said);
    }
    for (request, said) in [
        (&[0, 1 << 40][..], "query id has a size"),
        (&[0, 0, 1 << 40], "query has a size"),
        (&[1, 0, 0], "flag 1"),
    ] {
        let request = [plain(1).write(), numbers(request)].concat();
        assert_contains(&answer(&server, &request), said);
    }
    for text in [
        "DROP TABLE t",
        "SELECT * FROM t",
        "SELECT * FROM records(rows = 5, block_rows = 100000000)",
        "SELECT z FROM records(rows = 5)",
        "SELECT * FROM records(rows = 5, color = red)",
    ] {
        assert!(!answer(&server, &[plain(1).write(), query("", text)].concat()).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn what_was_changed_on_the_way_harms_nobody(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        end in any::<proptest::sample::Index>(),
        text in "SELECT (\\*|a, b) FROM (records|state_rows)\\((rows = [0-9]{1,4}|[a-z ,=0-9]{0,9})\\)( LIMIT [0-9]{1,3})?",
    ) {
        static SERVER: std::sync::OnceLock<Server> = std::sync::OnceLock::new();
        let server = SERVER.get_or_init(|| serve(r#", "query_memory_bytes": 1000000"#));
        let mut said = [plain(2).write(), query("", &text).repeat(2)].concat();
        for (at, byte) in changes {
            let at = at.index(said.len());
            said[at] = byte;
        }
        said.truncate(end.index(said.len()) + said.len() / 2);
        let mut client = Client::raw(server.address());
        client.say(&said);
        let _ = client.socket.shutdown(Shutdown::Write);
        let mut events = 0;
        while client.event().is_ok_and(|_| events < 1000) {
            events += 1;
        }
    }
}

/// Whoever says half of something has to go, however often it says a byte more of it.
#[test]
fn what_does_not_come_to_its_end_is_given_up() {
    let server = serve(r#", "patience_ns": 300000000"#);
    let silent = plain(1).write()[..50].to_vec();
    let name = numbers(&[0, 1, 1, 60_000]);
    let query_id = [plain(1).write(), numbers(&[0, 60_000])].concat();
    for (said, drips) in [(silent, false), (name, true), (query_id, true)] {
        let mut client = Client::raw(server.address());
        client.say(&said);
        client.socket.set_nonblocking(drips).unwrap();
        let told = loop {
            match client.event() {
                Ok(Event::Error(text)) => break text,
                Err(late) if late == "WouldBlock" => {}
                other => panic!("{other:?}"),
            }
            let _ = client.socket.write(b"q");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_contains(&told, "within 0.3 s");
    }
}

#[test]
fn half_a_message_and_no_more() {
    let server = serve("");
    let half = |bytes: &[u8]| {
        let mut client = Client::raw(server.address());
        client.say(bytes);
        client.socket.shutdown(Shutdown::Write).unwrap();
        match client.event() {
            Ok(Event::Error(text)) => assert_eq!(client.event().unwrap_err(), "closed", "{text}"),
            Ok(other) => panic!("{other:?}"),
            Err(error) => return error,
        }
        "told".into()
    };
    let hello = plain(1).write();
    for end in 1..hello.len() {
        assert_eq!(half(&hello[..end]), "told", "{end} bytes of a handshake");
    }
    // It has asked for nothing, and hears nothing.
    assert_eq!(half(&hello), "closed");
    let query = query("id", "SELECT * FROM records(rows = 1)");
    for end in 8..query.len() {
        let said = [&hello, &query[..end]].concat();
        assert_eq!(half(&said), "told", "{end} bytes of a query");
    }
}

#[test]
fn what_an_error_quotes_is_cut() {
    let server = serve("");
    let name = "\u{1f980}".repeat(200_000);
    let query = query("", &format!("SELECT * FROM \"{name}\""));
    let told = answer(&server, &[plain(1).write(), query].concat());
    assert!(told.starts_with("there is no table"));
    assert!((60_000..=64 << 10).contains(&told.len()), "{}", told.len());
}

fn until_open(server: &Server, count: usize) {
    until("connections", || server.state.admission.open() == count);
}

#[test]
fn passwords() {
    // A variable that every process has.
    let server = serve(r#", "token_env": "PATH""#);
    let Ok(Event::Error(text)) = client(&server).event() else {
        panic!()
    };
    assert!(text.starts_with("authentication failed"), "{text}");
    let mut client = Client::raw(server.address());
    let mut right = plain(1);
    right.password = std::env::var("PATH").unwrap();
    client.say(&right.write());
    let given = client.outcome("SELECT * FROM records(rows = 3)");
    assert_eq!(given.unwrap().rows, 3);
}

#[test]
fn only_so_many_queries_at_a_time_and_a_few_of_clients_without_one() {
    let sessions = Sessions::new(15);
    let begins = |client: &str, name: u32| {
        let (id, client) = (format!("{client}-{name}"), client.parse().ok());
        let shape = Shape {
            compression: Compression::None,
            checksum: false,
        };
        let begin = || Query::new(id.clone(), "", shape, None, client, 1);
        let sit = |query: &Query| query.join(None, None, "a client");
        let joined = sessions.join(&id, "", shape, client, sit, begin);
        joined
            .map(|(query, ..)| query.most_encoders(64))
            .map_err(|error| error.message)
    };
    let refused = |client, name| begins(client, name).unwrap_err();
    for name in 0..15 {
        let kept = if name == 0 { 512 } else { 0 };
        assert_eq!(begins("fd00::1", name), Ok(4096 + kept));
    }
    // Another address of its network.
    let said = refused("fd00::2", 15);
    assert_contains(&said, "15 queries run already");
    assert_contains(&said, "--max-queries");
    // A partition of the first is no query of its own.
    begins("fd00::1", 0).unwrap();
    assert_eq!(begins("127.0.0.2", 0), Ok(4608));
    assert_contains(&refused("127.0.0.2", 1), "16 queries run already");
    begins("fd00:0:0:1::1", 0).unwrap();
    assert_contains(&refused("127.0.0.4", 0), "17 queries run already");
}

#[test]
fn questions() {
    let server = serve(r#", "environment": {"a": 1}"#);
    let mut client = Client::extended(server.address(), 1, &Parameters::default());
    let said = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(said(client.ask("environment", "")), r#"{"a":1}"#);
    assert!(said(client.ask("clock", "")).parse::<i64>().unwrap() > 0);
    assert!(said(client.ask("tcp", "")).parse::<u16>().unwrap() > 0);
    assert!(said(client.ask("statistics", "")).contains("uptime_ns"));
    client.asks("nonsense", "");
    assert!(client.drain().unwrap_err().contains("nonsense"));
}

#[test]
fn one_connection_too_many_is_told_so() {
    let server = serve(r#", "max_connections": 12, "patience_ns": 3600000000000"#);
    let all = [(); 12].map(|()| client(&server));
    until_open(&server, 12);
    // Also one with a query behind its handshake, and one that says nothing.
    let query = query("", "SELECT * FROM records(rows = 1)");
    let hello = plain(1).write();
    for said in [hello.clone(), [hello, query].concat(), vec![]] {
        let mut late = Client::raw(server.address());
        late.say(&said);
        match late.event() {
            Ok(Event::Error(text)) => {
                assert_contains(&text, "12 connections are open");
                assert_contains(&text, "--max-connections");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(late.event().unwrap_err(), "closed");
    }
    drop(all);
    until_open(&server, 0);
    assert_eq!(whole(&server, "SELECT * FROM records(rows = 3)").rows, 3);
}

#[test]
fn who_asks_nothing_makes_room() {
    let server = serve(r#", "max_connections": 1, "patience_ns": 200000000"#);
    let mut idle = client(&server);
    let asked = [
        plain(1).write(),
        query("", "SELECT * FROM records(rows = 1)"),
    ]
    .concat();
    until("there is room", || {
        let mut good = Client::raw(server.address());
        good.socket.write_all(&asked).is_ok() && matches!(good.event(), Ok(Event::Schema(_)))
    });
    let told = idle.drain().unwrap_err();
    assert_contains(&told, "1 connection is open");
}

#[test]
fn all_questions_that_hello_lists_are_answered() {
    let server = serve("");
    let mut client = Client::raw(server.address());
    client.say(&extended(1, &Parameters::default()).write());
    let Ok(Event::Hello(text)) = client.event() else {
        panic!("no hello")
    };
    let mut lines = text.lines();
    let asks = lines.find_map(|line| line.strip_prefix("asks=")).unwrap();
    let asks = asks.split(',').filter(|name| *name != "leave");
    for name in asks.chain(["future"]) {
        let mut client = Client::extended(server.address(), 1, &Parameters::default());
        client.asks(name, "");
        let unknown = match client.event().unwrap() {
            Event::Answer(_) => false,
            // Or it is known, but there is no such trial.
            Event::Error(text) => text.contains(&format!("nothing called \"{name}\"")),
            other => panic!("{other:?}"),
        };
        assert_eq!(unknown, name == "future", "{name}");
    }
}
