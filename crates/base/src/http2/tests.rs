//! Two of our connections face to face, and raw bytes against one of them.

use std::future::poll_fn;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Config, Connection, Event, Role};
use crate::codec::flight::{queue_message, Expect, Message};
use crate::codec::frame::{self, code, flag, kind, setting};
use crate::error::{Kind, Result};
use crate::net::wire::Wire;
use venturi_testkit::http2::{frame as bytes_of, headers as response};
use venturi_testkit::{assert_contains, assert_error, pair, run as block_on};

fn connection(socket: TcpStream, role: Role) -> Connection {
    Connection::new(Wire::Tcp(socket), Config::new(role))
}

fn headers(path: &str) -> Vec<(String, Vec<u8>)> {
    vec![
        (":method".into(), b"POST".to_vec()),
        (":scheme".into(), b"http".to_vec()),
        (":path".into(), path.as_bytes().to_vec()),
    ]
}

async fn next(connection: &mut Connection) -> Result<Event> {
    poll_fn(|cx| connection.poll_event(cx)).await
}

/// Echoes every message of every request, and ends each with trailers.
async fn echo(socket: TcpStream, config: Config) -> Result<()> {
    let mut connection = Connection::new(Wire::Tcp(socket), config);
    loop {
        match next(&mut connection).await? {
            Event::Headers { stream, .. } => {
                connection.send_headers(stream, &[(":status".into(), b"200".to_vec())])
            }
            Event::Message {
                stream,
                message: Message::Other(bytes),
            } => {
                if let Some(queue) = connection.send_queue(stream) {
                    queue_message(&bytes, queue);
                }
            }
            Event::End { stream } => {
                connection.end_with(stream, &[("grpc-status".into(), b"0".to_vec())])
            }
            _ => {}
        }
    }
}

fn exchange(window: u32, sizes: &[usize], streams: usize) {
    block_on(async {
        let (client, server) = pair().await;
        let config = |role| Config {
            window,
            ..Config::new(role)
        };
        let echoing = echo(server, config(Role::Server));
        let client = async {
            let mut connection = Connection::new(Wire::Tcp(client), config(Role::Client));
            let ids: Vec<u32> = (0..streams)
                .map(|_| {
                    connection
                        .request(&headers("/echo"), Expect::Other)
                        .unwrap()
                })
                .collect();
            for &id in &ids {
                for (k, &size) in sizes.iter().enumerate() {
                    queue_message(&vec![k as u8; size], connection.send_queue(id).unwrap());
                }
                connection.end(id);
            }
            let mut received = vec![0; streams];
            let mut trailers = 0;
            while trailers < streams {
                match next(&mut connection).await.unwrap() {
                    Event::Message {
                        stream,
                        message: Message::Other(bytes),
                    } => {
                        let at = ids.iter().position(|id| *id == stream).unwrap();
                        let k: usize = received[at];
                        assert_eq!(bytes, vec![k as u8; sizes[k]]);
                        received[at] += 1;
                    }
                    Event::Headers {
                        end: true, headers, ..
                    } => {
                        assert_eq!(headers[0].name, "grpc-status");
                        trailers += 1;
                    }
                    _ => {}
                }
            }
            assert_eq!(received, vec![sizes.len(); streams]);
        };
        tokio::select! { _ = echoing => panic!("the server ended"), () = client => {} }
    });
}

#[test]
fn messages_of_all_sizes_both_ways_by_any_window_and_number_of_streams() {
    exchange(frame::MAX_WINDOW, &[0, 1, 5, 16_384, 100_000, 3_000_000], 1);
    exchange(100, &[0, 1, 99, 100, 101, 5_000], 1);
    exchange(frame::DEFAULT_WINDOW, &[70_000, 200_000], 3);
    exchange(1 << 20, &[10_000; 5], 20);
}

/// What a client says first.
fn hello() -> Vec<u8> {
    let mut bytes = frame::PREFACE.to_vec();
    frame::write_settings(&[], &mut bytes);
    bytes
}

/// Sends raw bytes to a server and returns how it ended and what it answered.
fn raw(bytes: &[u8]) -> (crate::error::Error, Vec<u8>) {
    block_on(async {
        let (mut client, server) = pair().await;
        client.write_all(bytes).await.unwrap();
        client.shutdown().await.unwrap();
        let error = echo(server, Config::new(Role::Server)).await.unwrap_err();
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        (error, answer)
    })
}

#[test]
fn an_http_1_client_is_told() {
    let (error, answer) = raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_error!(error, Kind::Protocol, "not an HTTP/2 client");
    assert!(answer.windows(3).any(|w| w == b"not"));
}

/// A client's connection whose server has said this and is silent, and what it makes of it.
fn told(bytes: &[u8], streams: usize) -> Result<(Connection, Vec<Event>)> {
    block_on(async {
        let (client, mut server) = pair().await;
        let mut client = connection(client, Role::Client);
        for _ in 0..streams {
            client.request(&headers("/"), Expect::Other)?;
        }
        // What answers its PING has been read behind all else.
        client.ping(7);
        server.write_all(bytes).await.unwrap();
        server
            .write_all(&bytes_of(kind::PING, flag::ACK, 0, &7u64.to_be_bytes()))
            .await
            .unwrap();
        let mut events = Vec::new();
        while client.pong().is_none() {
            let event = poll_fn(|cx| match client.poll_event(cx) {
                Poll::Ready(event) => Poll::Ready(event.map(Some)),
                Poll::Pending if client.pong().is_some() => Poll::Ready(Ok(None)),
                Poll::Pending => Poll::Pending,
            });
            events.extend(event.await?);
        }
        Ok((client, events))
    })
}

#[test]
fn a_client_opens_no_stream_that_its_server_does_not_take() {
    let mut settings = Vec::new();
    frame::write_settings(&[(setting::MAX_CONCURRENT_STREAMS, 2)], &mut settings);
    let refused = |(mut client, _): (Connection, _)| {
        let opened = client.request(&headers("/"), Expect::Other);
        opened
            .map_err(|error| (error.kind, error.message))
            .unwrap_err()
    };
    let (kind, said) = refused(told(&settings, 2).unwrap());
    assert_eq!(kind, Kind::Unsupported);
    assert_contains(&said, "takes 2 streams per connection");
    let (mut client, _) = told(&settings, 1).unwrap();
    assert!(client.request(&headers("/"), Expect::Other).is_ok());
    client.reset(1, code::CANCEL);
    assert!(client.request(&headers("/"), Expect::Other).is_ok());

    // The stream that the farewell names goes on, a new one is not begun.
    let goodbye = [&[0, 0, 0, 1][..], &[0; 4], b"max_age"].concat();
    let leaving = [settings, bytes_of(kind::GOAWAY, 0, 0, &goodbye)].concat();
    let (kind, said) = refused(told(&leaving, 1).unwrap());
    assert_eq!(kind, Kind::Lost);
    assert_contains(
        &said,
        "ended the connection: NO_ERROR max_age; let the server keep",
    );
    // One beyond it was not begun; the other one still goes on.
    let behind = response(3, false, &[(":status", "200")]);
    let (mut client, events) = told(&[leaving, behind].concat(), 2).unwrap();
    let code = code::REFUSED_STREAM;
    assert!(matches!(events[..], [Event::Reset { stream: 3, code: found, .. }] if found == code));
    assert!(client.is_leaving() && client.send_queue(1).is_some());
}

#[test]
fn an_interim_response_is_none() {
    let settings = bytes_of(kind::SETTINGS, 0, 0, &[]);
    let early = response(1, false, &[(":status", "103"), ("link", "x")]);
    let bytes = [
        &settings[..],
        &early,
        &early,
        &response(1, false, &[(":status", "200")]),
    ]
    .concat();
    let (_, events) = told(&bytes, 1).unwrap();
    let [Event::Headers {
        headers,
        end: false,
        ..
    }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(headers[0].value, "200");
    let ended = [settings, response(1, true, &[(":status", "100")])].concat();
    let error = told(&ended, 1).map(|_| ()).unwrap_err();
    assert_error!(error, Kind::Protocol, "an interim response that ends");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]

    /// Whatever frames come, the server ends the connection or goes on; it never panics or hangs.
    #[test]
    fn garbage_frames(frames in proptest::collection::vec((0u8..12, 0u8..64, 0u32..6, proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)), 0..12)) {
        let mut bytes = hello();
        for (kind, flags, stream, payload) in &frames {
            frame::write(*kind, *flags, *stream, payload, &mut bytes);
        }
        raw(&bytes);
    }
}

#[test]
fn a_ping_is_answered_with_its_own_number() {
    block_on(async {
        let (client, server) = pair().await;
        let echoing = echo(server, Config::new(Role::Server));
        let asking = async {
            let mut connection = connection(client, Role::Client);
            assert_eq!(connection.pong(), None);
            for number in [1, u64::MAX] {
                connection.ping(number);
                poll_fn(|cx| {
                    // No event comes: the answer is all that is read.
                    assert!(connection.poll_event(cx).is_pending());
                    match connection.pong() == Some(number) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            }
        };
        tokio::select! { () = asking => {}, ended = echoing => panic!("{ended:?}") }
    });
}

fn pings(count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(kind::PING, 0, 0, &[0; 8], &mut bytes);
    bytes.repeat(count)
}

#[test]
fn ten_thousand_frames_that_move_nothing_are_enough() {
    // The settings are the first of them.
    for (count, kind, words) in [
        (9_999, Kind::Lost, ""),
        (10_000, Kind::Protocol, "without any data"),
    ] {
        assert_error!(raw(&[hello(), pings(count)].concat()).0, kind, words);
    }
}

/// The answers wait in memory, so no more is read; whatever data is between.
#[test]
fn a_peer_that_does_not_read_is_not_read() {
    block_on(async {
        let (client, server) = pair().await;
        let (mut reading, mut writing) = client.into_split();
        let sending = async move {
            let mut first = [hello(), request(false)].concat();
            // A message of which a byte comes now and then.
            frame::write(kind::DATA, 0, 1, &[0, 0, 0xf0, 0, 0], &mut first);
            writing.write_all(&first).await.unwrap();
            let mut again = pings(1_000);
            frame::write(kind::DATA, 0, 1, &[0], &mut again);
            while writing.write_all(&again).await.is_ok() {}
        };
        let mut connection = connection(server, Role::Server);
        // It stops with the socket full and its answers queued, however long the peer goes on.
        let waiting = poll_fn(|cx| loop {
            match connection.poll_event(cx) {
                Poll::Ready(event) => drop(event.unwrap()),
                Poll::Pending if connection.is_congested() => {
                    return Poll::Ready(connection.unsent(0))
                }
                Poll::Pending => return Poll::Pending,
            }
        });
        let unsent = tokio::select! {
            () = sending => panic!("the peer stopped"),
            unsent = waiting => unsent,
        };
        let most = 17 * (2 * 4_096 + (128 << 10) / 17);
        assert!(unsent <= most, "{unsent} bytes of answers");
        drop(connection);
        let mut rest = Vec::new();
        let _ = reading.read_to_end(&mut rest).await;
    });
}

/// The headers of a request to the echo, which may be all of it.
fn request(whole: bool) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers("/echo") {
        crate::codec::hpack::encode(&name, &value, &mut block);
    }
    let mut bytes = Vec::new();
    frame::write_headers(1, whole, &block, 16_384, &mut bytes);
    bytes
}

/// The frames of an answer, each as its kind and payload.
fn frames(mut answer: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let Some(head) = answer.first_chunk() {
        let (whole, rest) = answer.split_at(frame::HEADER + frame::Frame::parse(head).length);
        found.push((frame::Frame::parse(head).kind, &whole[frame::HEADER..]));
        answer = rest;
    }
    found
}

/// RFC 9113, 6.9: of a window update of 0 bytes it does not matter how far its stream is.
#[test]
fn a_window_update_of_nothing_is_refused_on_a_stream_that_is_over() {
    let mut bytes = [hello(), request(true)].concat();
    frame::write(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8], &mut bytes);
    frame::write_window_update(1, 0, &mut bytes);
    let (_, answer) = raw(&bytes);
    let refusal = (kind::RST_STREAM, &[0, 0, 0, 1][..]);
    assert!(frames(&answer).contains(&refusal), "{answer:?}");
}

/// RFC 9113, 7: an error code that nobody knows triggers nothing. Closed with its PING unread, the
/// connection was reset.
#[test]
fn a_clients_goaway_ends_nothing_whatever_its_code() {
    let mut bytes = hello();
    let code = [0, 0, 0, 0, 0, 0, 0, 0xff];
    frame::write(kind::GOAWAY, 0, 0, &code, &mut bytes);
    frame::write(kind::PING, 0, 0, b"are here", &mut bytes);
    let (_, answer) = raw(&bytes);
    let pong = (kind::PING, &b"are here"[..]);
    assert!(frames(&answer).contains(&pong), "{answer:?}");
}

/// RFC 9113, 5.1: behind its reset a peer has nothing in flight, though the stream was ended before.
#[test]
fn headers_behind_a_reset_are_refused_on_a_stream_that_we_ended() {
    let mut bytes = [hello(), request(false)].concat();
    frame::write_window_update(1, 0, &mut bytes);
    let passed_over = [&bytes[..], &request(false)].concat();
    assert_eq!(raw(&passed_over).0.kind, Kind::Lost);
    frame::write(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8], &mut bytes);
    let (error, _) = raw(&[bytes, request(false)].concat());
    assert_contains(&error.message, "behind a stream's end");
}

/// RFC 7541, 4.2: who is told that the table is smaller says so before the next header.
#[test]
fn a_smaller_header_table_is_acknowledged() {
    for (size, said) in [(4_096, false), (4_095, true), (0, true)] {
        let mut bytes = frame::PREFACE.to_vec();
        frame::write_settings(&[(setting::HEADER_TABLE_SIZE, size)], &mut bytes);
        bytes.extend(request(true));
        let (_, answer) = raw(&bytes);
        let mut answer = frames(&answer).into_iter();
        let block = answer.find(|(kind, _)| *kind == kind::HEADERS);
        assert_eq!(block.unwrap().1[0] == 0x20, said, "{size}");
    }
}

/// What a peer did not read before we closed is lost, unless we let it go first.
#[test]
fn a_fault_is_told_to_a_peer_that_is_still_sending() {
    block_on(async {
        let (mut client, server) = pair().await;
        let mut connection = connection(server, Role::Server);
        let wrong = [hello(), vec![0xff; 1_000]].concat();
        client.write_all(&wrong).await.unwrap();
        assert!(next(&mut connection).await.is_err());
        let client = async move {
            client.write_all(&[0; 500_000]).await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let (answer, ()) = tokio::join!(client, poll_fn(|cx| connection.poll_close(cx)));
        let reason = b"a frame over the limit";
        assert!(answer.windows(reason.len()).any(|bytes| bytes == reason));
    });
}
