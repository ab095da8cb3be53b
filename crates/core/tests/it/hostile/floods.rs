//! Clients that send without end what moves nothing: their connection ends with the reason,
//! and a client beside them is served all the while.

use std::sync::atomic::{AtomicBool, Ordering};

use venturi_core::codec::frame::{code, flag, kind};
use venturi_core::server::flight::Server;

use super::server::{assert_well, serve};
use venturi_testkit::http2::*;

/// Calls, one after the other, and what is done to each of them.
fn calls(first: u32, each: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let streams = (0..3_000).map(|k| first + 2 * k);
    let calls = streams.flat_map(|stream| [call(stream, false, "DoGet"), each(stream)].concat());
    calls.collect()
}

fn reset(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code::CANCEL.to_be_bytes())
}

/// A byte of a message that never ends: it counts as progress.
fn byte() -> Vec<u8> {
    data(1, false, b"x")
}

fn endless_message() -> Vec<u8> {
    let announced = [&[0][..], &1_000_000u32.to_be_bytes()].concat();
    [call(1, false, "DoAction"), data(1, false, &announced)].concat()
}

/// How the server ends a connection on which this is sent until it does.
fn flooded(server: &Server, first: &[u8], again: &[u8]) -> Option<u32> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_well(server);
            }
        });
        let mut client = Raw::greeted(&server.address());
        client.send(first);
        let code = client.flood(again);
        over.store(true, Ordering::Relaxed);
        code
    })
}

#[test]
fn floods_end_with_the_reason() {
    let server = serve("");
    let open = call(1, false, "DoPut");
    let closed = [&open[..], &reset(1)].concat();
    let none: &[u8] = &[];
    let settings = |count: usize| frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0].repeat(count));
    let begun = frame(kind::HEADERS, 0, 1, &[]);
    let more = |length: usize| frame(kind::CONTINUATION, 0, 1, &vec![0; length]);
    let update = |stream| frame(kind::WINDOW_UPDATE, 0, stream, &[0, 0, 0, 0]);
    let ping = |flags| frame(kind::PING, flags, 0, &[0; 8]);
    let padding = frame(kind::DATA, flag::PADDED, 1, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let some_data = endless_message();
    let reset_by_us = calls(3, |stream| [reset(stream), byte()].concat());
    let reset_by_server = calls(3, |stream| [update(stream), byte()].concat());
    // Headers without a single one: each call is malformed.
    let empty = (0..3_000).flat_map(|k| headers(2 * k + 1, true, &[]));
    let floods: [(&str, &[u8], Vec<u8>); 15] = [
        ("empty headers", none, empty.collect()),
        ("pings", none, ping(0)),
        ("answers to no ping", none, ping(flag::ACK)),
        ("settings", none, settings(0)),
        ("settings that change the windows", &open, settings(32)),
        ("settings without end", &open, settings(10_000)),
        ("resets of one stream", &closed, reset(1)),
        ("rapid resets", none, calls(1, reset)),
        ("rapid resets with some data", &some_data, reset_by_us),
        ("resets that the server sends", &some_data, reset_by_server),
        ("empty data", &open, data(1, false, b"")),
        ("padding alone", &open, padding),
        ("empty continuations", &begun, more(0)),
        ("full continuations", &begun, more(16_000)),
        ("priorities", none, frame(kind::PRIORITY, 0, 1, &[0; 5])),
    ];
    for (what, first, again) in floods {
        let code = flooded(&server, first, &again);
        assert_eq!(code, Some(code::ENHANCE_YOUR_CALM), "{what}");
    }
    assert_well(&server);
}

/// More pings than a flood has, with data between them, and not quite as many resets.
#[test]
fn what_good_clients_do_often() {
    let server = serve("");
    let mut client = Raw::greeted(&server.address());
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    for stream in (1..1_200).step_by(2) {
        assert!(client.send(&[&ping.repeat(20)[..], &action(stream, "ping", b"")].concat()));
        assert_eq!(client.answer(stream).0, "0");
    }
    for stream in (1_201..3_000).step_by(2) {
        assert!(client.send(&[call(stream, false, "DoGet"), reset(stream)].concat()));
    }
    assert!(client.send(&action(3_001, "ping", b"")));
    assert_eq!(client.answer(3_001).0, "0");
}
