//! Calls that share a connection: who is woken by what. Nobody in vain, and nobody too little.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::{Destination, Link};
use crate::flight::get::GetSession;
use crate::flight::options::{parse_url, Options};
use crate::Session;
use venturi_base::codec::flight::{queue_message, Expect, Message};
use venturi_base::codec::frame::kind;
use venturi_base::http2::{Config, Connection, Event, Role};
use venturi_base::meter::clock::StageClock;
use venturi_base::net::wire::Wire;
use venturi_testkit::{assert_contains, closed_port, http2, linger, pair, run, Peer};

const LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A call as its stream polls it.
struct Call {
    stream: u32,
    wakes: Arc<Wakes>,
    /// Of its wakes, those that it has answered with a poll.
    seen: usize,
    taken: Vec<u8>,
}

impl Call {
    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }

    fn is_woken(&self) -> bool {
        self.wakes() > self.seen
    }

    fn poll(&mut self, link: &Link) -> Poll<Event> {
        self.seen = self.wakes();
        let waker = Waker::from(self.wakes.clone());
        let polled = link.poll_event(self.stream, &mut Context::from_waker(&waker));
        polled.map(|event| match event.unwrap() {
            Event::Message {
                message: Message::Other(bytes),
                stream,
            } => {
                assert_eq!(stream, self.stream);
                self.taken.extend_from_slice(&bytes);
                Event::End { stream }
            }
            event => event,
        })
    }

    fn took(&mut self, link: &Link) -> bool {
        self.poll(link).is_ready()
    }
}

fn destination(port: u16) -> Rc<Destination> {
    let (mut addresses, _) = parse_url(&format!("flight://127.0.0.1:{port}")).unwrap();
    Rc::new(Destination {
        address: addresses.remove(0),
        options: Options::default(),
        timeout: LIMIT,
        scheme: "flight",
    })
}

/// Both ends of a connection with so many calls, all of which wait. The last one listens.
struct Ends {
    link: Link,
    server: Connection,
    calls: Vec<Call>,
}

impl Ends {
    async fn with(calls: usize) -> Self {
        let (client, server) = pair().await;
        let connection = |socket, role| Connection::new(Wire::Tcp(socket), Config::new(role));
        let client = connection(client, Role::Client);
        let link = Link::new(client, destination(1), "test".into(), vec![]);
        let calls = (0..calls).map(|_| Call {
            stream: link.call("DoGet", &[], Expect::Other).unwrap(),
            wakes: Arc::default(),
            seen: 0,
            taken: Vec::new(),
        });
        let mut ends = Self {
            calls: calls.collect(),
            link,
            server: connection(server, Role::Server),
        };
        let mut begun = 0;
        while begun < ends.calls.len() {
            begun += usize::from(ends.calls.iter_mut().any(|call| call.took(&ends.link)));
            ends.serve().await;
        }
        ends.settle().await;
        for call in &mut ends.calls {
            assert!(!call.took(&ends.link));
        }
        ends
    }

    /// The server answers what has come, and writes.
    async fn serve(&mut self) {
        poll_fn(|cx| {
            while let Poll::Ready(event) = self.server.poll_event(cx) {
                if let Event::Headers { stream, .. } = event.unwrap() {
                    let answer = [(":status".to_owned(), b"200".to_vec())];
                    self.server.send_headers(stream, &answer);
                }
            }
            Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }

    async fn send(&mut self, call: usize, bytes: &[u8]) {
        let queue = self.server.send_queue(self.calls[call].stream).unwrap();
        bytes.iter().for_each(|byte| queue_message(&[*byte], queue));
        self.serve().await;
    }

    /// What the sockets have told by now: on one machine they have it at once, and the runtime
    /// looks at them at every 61st of its turns.
    async fn settle(&mut self) {
        for _ in 0..300 {
            self.serve().await;
        }
    }

    /// Waits until a call is woken.
    async fn woken(&mut self, call: usize) {
        let woken = async {
            while !self.calls[call].is_woken() {
                self.serve().await;
            }
        };
        tokio::time::timeout(LIMIT, woken).await.expect("no wake");
    }

    fn took(&mut self, call: usize) -> bool {
        self.calls[call].took(&self.link)
    }

    fn wakes(&self) -> Vec<usize> {
        self.calls.iter().map(Call::wakes).collect()
    }
}

#[test]
fn who_takes_an_event_wakes_nobody() {
    run(async {
        let mut ends = Ends::with(3).await;
        let before = ends.wakes();
        ends.send(0, &[7]).await;
        ends.woken(2).await; // it listens, and finds what is the first one's
        assert!(!ends.took(2));
        assert!(ends.took(0) && !ends.took(0));
        ends.settle().await;
        assert_eq!(ends.wakes(), [before[0] + 1, before[1], before[2] + 1]);
    });
}

#[test]
fn who_reads_for_others_and_does_not_go_on_is_replaced() {
    run(async {
        let mut ends = Ends::with(3).await;
        ends.send(2, &[7]).await;
        ends.woken(2).await;
        assert!(ends.took(2)); // as it has not found the end, the socket wakes nobody
        let before = ends.wakes();
        ends.link.idle(ends.calls[2].stream);
        assert_eq!(ends.wakes(), [before[0] + 1, before[1], before[2]]);
        assert!(!ends.took(0));
        ends.send(1, &[8]).await;
        ends.woken(0).await;
        assert!(!ends.took(0) && ends.took(1));
        // Whoever does not listen is not replaced.
        ends.link.idle(ends.calls[1].stream);
        assert_eq!(ends.wakes(), [before[0] + 2, before[1] + 1, before[2]]);
        // The one that does leaves: all see to it.
        ends.link.cancel(ends.calls[0].stream);
        ends.link.idle(ends.calls[2].stream);
        assert!(!ends.took(1));
        ends.send(1, &[9]).await;
        ends.woken(1).await;
        assert!(ends.took(1));
    });
}

#[test]
fn those_that_wait_for_a_full_one_do_not_wake_each_other() {
    run(async {
        let mut ends = Ends::with(3).await;
        let many: Vec<u8> = (0..40).collect();
        ends.send(0, &many).await;
        ends.send(1, &[1]).await;
        ends.woken(2).await;
        assert!(!ends.took(2) && !ends.took(1));
        let before = ends.wakes();
        for _ in 0..10 {
            assert!(!ends.took(2) && !ends.took(1));
            ends.settle().await;
        }
        assert_eq!(ends.wakes(), before);
        // It takes one, and no more for now: another one reads on until it is full again.
        assert!(ends.took(0));
        ends.link.idle(ends.calls[0].stream);
        assert_eq!(ends.wakes(), [before[0], before[1] + 1, before[2]]);
        assert!(!ends.took(1));
        // When it has taken all, those that waited for it wait for the socket now.
        while ends.took(0) {}
        while ends.calls[0].taken.len() < many.len() {
            ends.woken(0).await;
            while ends.took(0) {}
        }
        ends.woken(2).await;
        assert!(!ends.took(2));
        ends.woken(1).await;
        while !ends.took(1) {
            ends.woken(1).await;
        }
        assert_eq!(ends.calls[0].taken, many);
    });
}

/// Whatever comes for whom, and whoever stops asking for a while or for ever: with no polls but
/// those of who was woken, or goes on, all of it arrives.
#[test]
fn no_wake_is_lost() {
    for seed in 1..=8u64 {
        run(async move {
            let mut state = seed;
            let mut dice = move |sides: u64| {
                const FACTOR: u64 = 6_364_136_223_846_793_005;
                state = state.wrapping_mul(FACTOR).wrapping_add(seed);
                (state >> 33) % sides
            };
            let mut ends = Ends::with(5).await;
            let mut sent: BTreeMap<usize, Vec<u8>> = (0..5).map(|call| (call, vec![])).collect();
            let mut asks = [true; 5]; // it goes on without being woken
            let mut idle = [false; 5];
            let mut number = 0u8;
            for _ in 0..300 {
                let calls: Vec<usize> = sent.keys().copied().collect();
                let call = calls[dice(calls.len() as u64) as usize];
                match dice(20) {
                    0 if calls.len() > 2 => {
                        ends.link.cancel(ends.calls[call].stream);
                        sent.remove(&call);
                        continue;
                    }
                    1..=3 => (asks[call], idle[call]) = (true, false),
                    _ => {
                        let more: Vec<u8> = (0..=dice(24) as u8).map(|k| number + k).collect();
                        number = number.wrapping_add(31) & 127;
                        ends.send(call, &more).await;
                        sent.get_mut(&call).unwrap().extend(more);
                    }
                }
                for call in calls {
                    for _ in 0..dice(4) {
                        let goes_on = asks[call] || (!idle[call] && ends.calls[call].is_woken());
                        if !goes_on || !sent.contains_key(&call) {
                            continue;
                        }
                        asks[call] = ends.took(call);
                        if asks[call] && dice(4) == 0 {
                            (asks[call], idle[call]) = (false, true);
                            ends.link.idle(ends.calls[call].stream);
                        }
                    }
                }
            }
            let calls: Vec<usize> = sent.keys().copied().collect();
            calls.iter().for_each(|&call| asks[call] |= idle[call]);
            let arrived = async {
                let is_missing = |ends: &Ends, call: &usize| ends.calls[*call].taken != sent[call];
                while calls.iter().any(|call| is_missing(&ends, call)) {
                    ends.serve().await;
                    for &call in &calls {
                        if asks[call] || ends.calls[call].is_woken() {
                            asks[call] = ends.took(call);
                        }
                    }
                }
            };
            let arrived = tokio::time::timeout(LIMIT, arrived).await;
            assert!(arrived.is_ok(), "seed {seed}: somebody waits for ever");
        });
    }
}

/// What the server says on one connection, and on the next: the rows of two gets, or why the first failed.
#[test]
fn a_call_without_an_answer_goes_on_elsewhere() {
    let away = |why: &[u8]| http2::frame(kind::GOAWAY, 0, 0, &[&[0; 8], why].concat());
    let whole = http2::get_answer(1, 10);
    let begun = &whole[..whole.len() - http2::trailers(1, "0").len()];
    let [aged, stops] = [away(b"max_age"), away(b"it stops")].map(|it| [&whole[..9], &it].concat());
    let both = [&whole[..], &http2::get_answer(3, 10)].concat();
    let twice = [begun, &away(b"max_age")].concat();
    for (first, second, outcome) in [
        (aged.clone(), both.clone(), Ok(20)),
        (twice, both, Err("NO_ERROR max_age; let the server")),
        (stops.clone(), stops, Err("NO_ERROR it stops")),
        (aged, vec![], Err("refused")),
    ] {
        let peer = Peer::start(move |mut socket, number| {
            socket.write_all([&first, &second][number]).unwrap();
            linger(socket);
        });
        run(async {
            let to = destination(peer.port());
            let link = Link::connect(to, "test".into(), vec![]).await.unwrap();
            link.share_among(2).unwrap();
            if outcome == Err("refused") {
                link.0.borrow_mut().destination = destination(closed_port());
            }
            let (mut rows, mut bytes) = (0, 0);
            for _ in 0..2 {
                let pieces = [(link.clone(), vec![])].into();
                let mut get = GetSession::new(pieces, vec![], false, None);
                let mut clock = StageClock::start();
                while let Some(moved) = match poll_fn(|cx| get.poll_batch(cx, &mut clock)).await {
                    Err(error) => {
                        assert_contains(&error.message, outcome.unwrap_err());
                        assert_eq!(
                            error.message.contains("AGE"),
                            error.message.contains("max_age")
                        );
                        // No future that has ended is polled again.
                        let _ = get.poll_batch(&mut Context::from_waker(Waker::noop()), &mut clock);
                        return;
                    }
                    Ok(moved) => moved,
                } {
                    rows += moved.rows;
                }
                bytes += get.tally().wire_bytes;
            }
            let next = link.0.borrow().next.get().cloned().unwrap();
            let carried = [&link, &next].map(|link| link.0.borrow().connection.wire_bytes());
            assert_eq!((Ok(rows), bytes), (outcome, carried.iter().sum()));
        });
    }
}
