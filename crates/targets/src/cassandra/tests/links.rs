//! A connection shared by lanes, against a server that answers as it is told to.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use scylla::statement::Consistency;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::super::frame::{Request, HEAD};
use super::super::limits::Limits;
use super::super::link::{Call, Link, Reply};
use venturi_base::net::wire::Wire;
use venturi_testkit::{pair, run};

/// A link with so many lanes, and the server's end of it.
async fn link(lanes: usize, timeout: Duration) -> (Rc<Link>, TcpStream) {
    let (here, there) = pair().await;
    let limits = Arc::new(Limits::default());
    let link = Link::new(Wire::Tcp(here), lanes, None, limits, timeout);
    (Rc::new(link), there)
}

/// What becomes of a request, of which a task takes care.
fn asked(link: &Rc<Link>, lane: usize) -> JoinHandle<Reply> {
    let asking = link.ask(lane, query("x"));
    tokio::task::spawn_local(asking)
}

/// Answers so many requests: done.
async fn answer(server: &mut TcpStream, count: usize) {
    for number in numbers(server, count).await {
        server.write_all(&done(number)).await.unwrap();
    }
}

fn query(text: &str) -> Call {
    Call::Other(Arc::new(Request::query(text, Consistency::One)))
}

/// The numbers of the next requests, in the order in which they come.
async fn numbers(server: &mut TcpStream, count: usize) -> Vec<i16> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        let mut head = [0; HEAD];
        server.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut body = vec![0; length as usize];
        server.read_exact(&mut body).await.unwrap();
        numbers.push(i16::from_be_bytes([head[2], head[3]]));
    }
    numbers
}

/// An answer to the request of this number: done.
fn done(number: i16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    vec![0x84, 0, high, low, 8, 0, 0, 0, 4, 0, 0, 0, 1]
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn answers_find_their_lanes_in_any_order() {
    run(async {
        let (link, mut server) = link(8, LONG).await;
        let lanes = [0, 1, 2, 3, 4, 5, 6, 7].map(|lane| {
            let link = link.clone();
            tokio::task::spawn_local(async move {
                for _ in 0..50 {
                    let reply = link.ask(lane, query("x")).await;
                    assert!(matches!(reply, Reply::Done), "{reply:?}");
                }
            })
        });
        for round in 0..50 {
            let mut all = numbers(&mut server, 8).await;
            all.reverse();
            let answers: Vec<u8> = all.into_iter().flat_map(done).collect();
            // In two pieces, cut anywhere.
            let (one, two) = answers.split_at(1 + 2 * round);
            server.write_all(one).await.unwrap();
            tokio::task::yield_now().await;
            server.write_all(two).await.unwrap();
        }
        for lane in lanes {
            lane.await.unwrap();
        }
    });
}

#[test]
fn a_late_answer_is_not_taken_for_the_next_one() {
    run(async {
        let (link, mut server) = link(1, Duration::from_millis(1)).await;
        let reply = link.ask(0, query("slow")).await;
        assert!(matches!(reply, Reply::Late(_)), "{reply:?}");
        // The next one has as long as it takes.
        link.set_timeout(LONG);
        let next = asked(&link, 0);
        let [first, second] = numbers(&mut server, 2).await[..] else {
            panic!()
        };
        assert_ne!(first, second);
        let late = [0x84, 0, 0, first as u8, 0, 0, 0, 0, 7];
        server.write_all(&late).await.unwrap();
        server.write_all(b"\0\0\x22\0\0\x01w").await.unwrap();
        server.write_all(&done(second)).await.unwrap();
        let reply = next.await.unwrap();
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    });
}

#[test]
fn a_lane_that_gives_up_leaves_the_others_their_answers() {
    run(async {
        let (link, mut server) = link(2, LONG).await;
        let (gone, other) = (asked(&link, 0), asked(&link, 1));
        let both = numbers(&mut server, 2).await;
        gone.abort();
        assert!(gone.await.is_err());
        for number in both {
            server.write_all(&done(number)).await.unwrap();
        }
        let reply = other.await.unwrap();
        assert!(matches!(reply, Reply::Done), "{reply:?}");
        let again = link.ask(0, query("back"));
        let (reply, ()) = tokio::join!(again, answer(&mut server, 1));
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    });
}

#[test]
fn a_broken_connection_tells_all_who_wait() {
    run(async {
        let (link, mut server) = link(3, LONG).await;
        let lanes = [0, 1, 2].map(|lane| asked(&link, lane));
        numbers(&mut server, 3).await;
        drop(server);
        for lane in lanes {
            let reply = lane.await.unwrap();
            assert!(matches!(reply, Reply::Lost(_)), "{reply:?}");
        }
        assert!(link.is_lost());
        assert!(matches!(link.ask(0, query("x")).await, Reply::Lost(_)));
    });
}

#[test]
fn a_request_larger_than_the_sockets_buffers() {
    run(async {
        let (link, mut server) = link(2, LONG).await;
        let large = "x".repeat(8 << 20);
        let (one, two) = (link.ask(0, query(&large)), link.ask(1, query("small")));
        let (one, two, ()) = tokio::join!(one, two, answer(&mut server, 2));
        assert!(matches!((one, two), (Reply::Done, Reply::Done)));
    });
}

#[test]
fn what_is_no_answer_ends_it() {
    run(async {
        let (link, mut server) = link(1, LONG).await;
        let (reply, _) = tokio::join!(link.ask(0, query("x")), async {
            numbers(&mut server, 1).await;
            server.write_all(b"HTTP/1.1 400").await.unwrap();
        });
        match reply {
            Reply::Lost(why) => assert!(why.contains("protocol 4"), "{why}"),
            other => panic!("{other:?}"),
        }
    });
}
