//! One query, many partitions: each block exactly once, or an error for all.

use super::*;
use venturi_testkit::arrow::numbers;
use venturi_testkit::{assert_contains, parse_json, until};

const RECORDS: &str =
    "SELECT * FROM records(rows = 100_000, values = sequential, block_rows = 777)";

#[test]
fn each_block_goes_to_exactly_one_partition() {
    let server = serve("");
    let expected = whole(&server, RECORDS);
    assert_eq!(expected.rows, 100_000);
    for (partitions, encoders) in [(1, 1), (2, 3), (7, 1), (64, 1), (64, 8)] {
        let id = format!("q{partitions}-{encoders}");
        let given: Vec<Received> = std::thread::scope(|scope| {
            let read = || {
                let mut client = Client::plain(server.address(), encoders);
                client.query(&id, RECORDS);
                client.drain().unwrap()
            };
            let threads: Vec<_> = (0..partitions).map(|_| scope.spawn(read)).collect();
            threads.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let rows: usize = given.iter().map(|one| one.rows).sum();
        assert_eq!(rows, 100_000, "{id}");
        let all = given.into_iter().flat_map(|one| one.digests).collect();
        assert_eq!(sorted(all), sorted(expected.digests.clone()), "{id}");
    }
}

#[test]
fn a_partition_that_comes_late_gets_the_rest_and_then_the_end() {
    let server = serve(r#", "query_memory_bytes": 100000"#);
    // More than the buffers of sockets hold of the first one's, however late the second one runs.
    let much = RECORDS.replace("100_000", "2_000_000");
    let mut first = Client::plain(server.address(), 2);
    first.begin("late", &much);
    let mut second = querying(&server, "late", &much);
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| second.drain().unwrap());
        // The schema has been read already.
        let mut rows = 0;
        while let Event::Block(block) = first.event().unwrap() {
            rows += block.length();
        }
        (rows, other.join().unwrap())
    });
    assert!(one > 0 && two.rows > 0);
    let mut third = querying(&server, "late", &much);
    let given = third.drain().unwrap();
    assert_eq!(given.rows, 0, "all was dealt before it came");
    third.query("late", "SELECT * FROM records(rows = 1)");
    assert!(third.drain().unwrap_err().contains("another query"));
}

#[test]
fn a_partition_that_dies_fails_the_query_for_all() {
    let server = serve(r#", "query_memory_bytes": 100000"#);
    let endless = "SELECT * FROM records(block_rows = 2000)";
    let mut first = client(&server);
    first.begin("dying", endless);
    assert!(matches!(first.event(), Ok(Event::Block(_))));
    let mut second = client(&server);
    second.begin("dying", endless);
    drop(first);
    let error = second.drain().unwrap_err();
    assert_contains(&error, "query \"dying\" failed: partition 0 (127.0.0.1");
    assert_contains(&error, "went away after");
    // Whoever comes later hears the same.
    let error = querying(&server, "dying", endless).drain().unwrap_err();
    assert_contains(&error, "went away after");
    assert_eq!(running(&server), 0);
}

#[test]
fn one_that_leaves_without_a_block_harms_nobody() {
    // Nobody has a block for a while.
    let slow = serve(r#", "handicap": {"generate": 300000000}"#);
    let text = "SELECT * FROM records(rows = 10, block_rows = 5)";
    let mut first = querying(&slow, "leaving", text);
    let mut second = querying(&slow, "leaving", text);
    assert!(matches!(first.event(), Ok(Event::Schema(_))));
    assert!(matches!(second.event(), Ok(Event::Schema(_))));
    drop(first);
    let mut rows = 0;
    while let Event::Block(_) = second.event().unwrap() {
        rows += 5;
    }
    assert_eq!(rows, 10);
    // All leave: the query is nobody's, and its id is free.
    let endless = "SELECT * FROM records(block_rows = 5)";
    client(&slow).begin("free", endless);
    until("the query is nobody's", || running(&slow) == 0);
    let mut fourth = querying(&slow, "free", "SELECT * FROM records(rows = 5)");
    assert_eq!(fourth.drain().unwrap().rows, 5);
}

fn running(server: &Server) -> u64 {
    parse_json(&server.statistics())["queries_running"]
        .as_u64()
        .unwrap()
}

/// A client that has asked.
fn querying(server: &Server, id: &str, text: &str) -> Client {
    let mut client = client(server);
    client.query(id, text);
    client
}

#[test]
fn a_client_that_stops_reading_is_bounded_and_given_up() {
    let server = serve(r#", "query_memory_bytes": 1000000, "stall_timeout_ns": 1000000000"#);
    let endless = "SELECT * FROM records(block_rows = 10000)";
    let mut client = Client::plain(server.address(), 4);
    client.begin("stalled", endless);
    // The second one reads on all the while, and hears of it.
    let mut second = querying(&server, "stalled", endless);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| second.drain().unwrap_err());
        until("the end", || {
            let all = server.state.sessions.all();
            assert!(all.iter().all(|query| query.waiting_bytes() <= 1_000_000));
            reading.is_finished()
        });
        let error = reading.join().unwrap();
        assert_contains(&error, "went away after");
    });
    assert_eq!(running(&server), 0);
}

#[test]
fn statistics_and_checksums_of_1_2() {
    let server = serve("");
    for (compression, checksum) in [("none", true), ("lz4", false), ("zstd", true)] {
        let parameters = Parameters {
            compression: venturi_base::codec::ipc::Compression::of_name(compression).unwrap(),
            checksum,
            ..counted(5, 6)
        };
        let mut client = Client::extended(server.address(), 2, &parameters);
        // One query after the other on one connection.
        for run in 0..2 {
            client.query(&format!("{compression} {run}"), RECORDS);
            let given = client.drain().unwrap();
            assert_eq!(given.rows, 100_000);
            let told = parse_json(&given.statistics.unwrap());
            assert_eq!(told["partition"]["index"], 5);
            assert_eq!(told["query"]["rows"], 100_000);
            assert_eq!(told["query"]["bytes"], 3_200_000);
        }
        client.begin(compression, RECORDS);
        let mut other = querying(&server, compression, RECORDS);
        assert!(other.drain().unwrap_err().contains("another compression"));
        assert!(matches!(client.event(), Ok(Event::Block(_))));
    }
}

fn counted(partition: u64, partitions: u64) -> Parameters {
    Parameters {
        partition: Some(partition),
        partitions: Some(partitions),
        ..Parameters::default()
    }
}

fn numbered(server: &Server, partition: u64) -> Client {
    Client::extended(server.address(), 1, &counted(partition, 2))
}

/// A scheduler that runs a task again would take the rest, or nothing, for the task's share.
#[test]
fn a_partition_that_comes_again_is_told() {
    let server = serve(r#", "query_memory_bytes": 100000"#);
    // More than the sockets hold: there is a share left for the second.
    let text = "SELECT * FROM records(rows = 2_000_000, block_rows = 2000)";
    let mut first = numbered(&server, 0);
    first.begin("again", text);
    assert!(matches!(first.event(), Ok(Event::Block(_))));
    let mut twice = numbered(&server, 0);
    twice.query("again", text);
    let said = "partition 0 of query \"again\" has had its share already";
    assert_contains(&twice.drain().unwrap_err(), said);
    // That harms nobody else, and the end of the query does not make it forget.
    let mut second = numbered(&server, 1);
    second.query("again", text);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.drain().unwrap().rows);
        while let Event::Block(_) = first.event().unwrap() {}
        assert!(other.join().unwrap() > 0);
    });
    for partition in [0, 1] {
        let mut late = numbered(&server, partition);
        late.query("again", text);
        assert!(late.drain().unwrap_err().contains("has had its share"));
    }
}

#[test]
fn who_says_that_it_wants_no_more_may_leave() {
    let server = serve(r#", "query_memory_bytes": 100000"#);
    let text = "SELECT * FROM records(rows = 3_000_000, block_rows = 2000)";
    let mut first = numbered(&server, 0);
    first.begin("content", text);
    assert!(matches!(first.event(), Ok(Event::Block(_))));
    first.asks("leave", "");
    // What was in flight comes, and then the server hangs up.
    let mut blocks = 1;
    while let Ok(Event::Block(_)) = first.event() {
        blocks += 1;
    }
    // All else is there for whoever comes, though nobody was left.
    let mut second = numbered(&server, 1);
    second.query("content", text);
    assert_eq!(second.drain().unwrap().rows, 3_000_000 - 2000 * blocks);
}

/// Both would hand in a part for the whole share, and the scheduler keeps one of them.
#[test]
fn of_two_that_are_the_same_partition_one_is_served() {
    let server = serve(r#", "engine": "outside""#);
    let mut twins = [numbered(&server, 1), numbered(&server, 1)];
    for twin in &mut twins {
        twin.query("twins", "any");
    }
    let engine = server.next_query(LONG).unwrap();
    until("both are there", || {
        let all = server.state.sessions.all();
        all.iter().any(|query| query.came() == 2)
    });
    for at in 0..20 {
        engine.push(engines::ipc(numbers(at * 10..at * 10 + 10)));
    }
    engine.finish(None);
    let given = std::thread::scope(|scope| {
        let all = twins.each_mut().map(|twin| scope.spawn(|| twin.drain()));
        all.map(|one| one.join().unwrap())
    });
    let refused = given.iter().position(Result::is_err).unwrap();
    let said = "partition 1 of query \"twins\" has had its share already";
    assert_contains(given[refused].as_ref().unwrap_err(), said);
    assert_eq!(given[1 - refused].as_ref().unwrap().rows, 200);
}

#[test]
fn partitions_of_a_query_agree_on_how_many_they_are() {
    let server = serve(r#", "query_memory_bytes": 100000"#);
    let mut first = numbered(&server, 0);
    first.begin("unlike", RECORDS);
    let mut other = Client::extended(server.address(), 1, &counted(1, 3));
    other.query("unlike", RECORDS);
    let said = "query \"unlike\" has 2 partitions, and this one says that there are 3";
    assert_contains(&other.drain().unwrap_err(), said);
    // One that does not count takes part, and nothing was lost.
    let mut plain = querying(&server, "unlike", RECORDS);
    std::thread::scope(|scope| {
        let rest = scope.spawn(|| plain.drain().unwrap().rows);
        assert_eq!(first.drain().unwrap().rows + rest.join().unwrap(), 100_000);
    });
}
