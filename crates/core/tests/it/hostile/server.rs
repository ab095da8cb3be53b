//! Clients that break the rules of HTTP/2: the connection ends with the reason, and the
//! server goes on.

use venturi_core::codec::frame::{code, flag, kind, write_headers, Frame};
use venturi_core::server::flight::Server;
use venturi_testkit::http2::*;

pub fn serve(more: &str) -> Server {
    let spec = format!(r#"{{"host": "127.0.0.1", "port": 0, "memory_bytes": 16000000{more}}}"#);
    Server::start(&spec).unwrap()
}

/// Someone else is served at once.
pub fn assert_well(server: &Server) {
    let mut other = Raw::greeted(&server.address());
    assert!(other.send(&action(1, "ping", b"")));
    let (status, answer) = other.answer(1);
    assert_eq!(status, "0");
    assert!(answer.ends_with(b"ok"));
}

/// Sends this after the greeting; how the server ends the connection.
fn farewell(server: &Server, bytes: &[u8]) -> Option<u32> {
    let mut client = Raw::greeted(&server.address());
    client.send(bytes);
    let code = client.farewell();
    assert_well(server);
    code
}

#[test]
fn frames_where_they_may_not_be() {
    let server = serve("");
    let put = || call(1, false, "DoPut");
    let behind_put = |more: Vec<u8>| [put(), more].concat();
    let ended = [put(), data(1, true, b"")].concat();
    let cancel = frame(kind::RST_STREAM, 0, 1, &code::CANCEL.to_be_bytes());
    let unfinished = [frame(kind::HEADERS, 0, 3, &[]), data(1, false, b"x")].concat();
    let wrong = [
        data(1, false, b"x"), // before headers
        data(0, false, b"x"),
        call(2, false, "DoGet"),
        call(0, false, "DoGet"),
        [call(5, false, "DoPut"), call(3, false, "DoPut")].concat(), // the number goes back
        cancel.clone(),                                              // of nothing
        frame(kind::RST_STREAM, 0, 0, &[0; 4]),
        frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), // of nobody's stream
        frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]),       // of nothing
        frame(kind::PING, 0, 3, &[0; 8]),
        frame(kind::PRIORITY, 0, 7, &[0, 0, 0, 7, 0]), // depends on itself
        frame(kind::SETTINGS, 0, 1, &[]),
        frame(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]), // a push setting of 2
        frame(kind::GOAWAY, 0, 1, &[0; 8]),
        frame(kind::PUSH_PROMISE, 4, 1, &[0; 8]),
        frame(kind::CONTINUATION, 4, 1, &[]),
        behind_put(frame(kind::DATA, flag::PADDED, 1, &[9, 0])),
        behind_put(unfinished),             // data inside of a header block
        behind_put(data(1, true, &[0, 0])), // half a message
    ];
    let closed = [
        [&ended[..], &put()].concat(),
        [&ended[..], &data(1, false, b"x")].concat(),
        behind_put([&cancel[..], &data(1, false, b"x")].concat()),
    ];
    let sizes = [
        frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]),
        frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
        behind_put(vec![0x80, 0, 1, kind::DATA, 0, 0, 0, 0, 1]), // over the limit
        frame(kind::PING, 0, 0, &[0; 7]),
        frame(kind::SETTINGS, 0, 0, &[0; 5]),
    ];
    let overflows = [
        frame(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
        frame(kind::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
    ];
    for (expected, all) in [
        (code::PROTOCOL_ERROR, &wrong[..]),
        (code::STREAM_CLOSED, &closed),
        (code::FRAME_SIZE_ERROR, &sizes),
        (code::FLOW_CONTROL_ERROR, &overflows),
    ] {
        for (at, bytes) in all.iter().enumerate() {
            assert_eq!(farewell(&server, bytes), Some(expected), "{at}: {bytes:?}");
        }
    }
    let mut client = Raw::connect(&server.address());
    client.send(&hello()[..24]);
    client.send(&frame(kind::PING, 0, 0, &[0; 8]));
    assert_eq!(client.farewell(), Some(code::PROTOCOL_ERROR), "no settings");
}

/// What is wrong with one call ends that call; another one on the same connection goes on.
#[test]
fn calls_that_are_malformed() {
    let server = serve("");
    let behind_put = |more: Vec<u8>| [call(1, false, "DoPut"), more].concat();
    type Fields = Vec<(&'static str, &'static str)>;
    let list = |change: &dyn Fn(&mut Fields)| {
        let mut list = vec![
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/arrow.flight.protocol.FlightService/DoPut"),
            ("content-type", "application/grpc"),
        ];
        change(&mut list);
        headers(1, false, &list)
    };
    let sized = |end, data_: &[u8]| {
        let list = list(&|list| list.push(("content-length", "3")));
        [list, data(1, end, data_)].concat()
    };
    let window = |bytes: u32| frame(kind::WINDOW_UPDATE, 0, 1, &bytes.to_be_bytes());
    let wrong = [
        behind_put(call(1, false, "DoPut")),
        behind_put(headers(1, true, &[(":method", "POST")])),
        list(&|list| list.push(("X-Sum", "1"))),
        list(&|list| _ = list.remove(0)),             // no method
        list(&|list| list.insert(0, (":path", "/"))), // a second one
        list(&|list| list.insert(0, (":sum", "1"))),
        list(&|list| list.push(("connection", "keep-alive"))),
        sized(false, &[0; 4]),
        sized(true, &[0; 2]),
        behind_put(window(0)),
    ];
    let wrong = wrong.into_iter().map(|bytes| (code::PROTOCOL_ERROR, bytes));
    let overflow = behind_put(window(0x7fff_ffff));
    for (expected, bytes) in wrong.chain([(code::FLOW_CONTROL_ERROR, overflow)]) {
        let mut client = Raw::greeted(&server.address());
        assert!(client.send(&bytes));
        let given_up = ("reset".to_owned(), expected.to_be_bytes().to_vec());
        assert_eq!(client.answer(1), given_up, "{bytes:?}");
        // What was in flight is passed over.
        assert!(client.send(&data(1, true, b"late")), "{bytes:?}");
        assert!(client.send(&action(3, "ping", b"")), "{bytes:?}");
        assert_eq!(client.answer(3).0, "0", "{bytes:?}");
    }
    assert_well(&server);
}

#[test]
fn header_bombs() {
    let server = serve("");
    let block = |bytes: &[u8]| frame(kind::HEADERS, flag::END_HEADERS, 1, bytes);
    // One entry of 4000 bytes, then a byte for each further copy of it.
    let mut bomb = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
    bomb.resize(bomb.len() + 127 + 0x21 + (0x1e << 7), b'y');
    bomb.resize(bomb.len() + 40_000, 0x80 | 62);
    // An index without end; a change of the table's size behind a header (RFC 7541, 4.2).
    for bytes in [&bomb[..], &[0xff; 6], &[0x82, 0x20]] {
        let code = farewell(&server, &block(bytes));
        assert_eq!(code, Some(code::COMPRESSION_ERROR));
    }
}

#[test]
fn too_many_streams_are_refused_one_by_one() {
    let server = serve("");
    let mut client = Raw::greeted(&server.address());
    let open = (0..300).flat_map(|k| call(2 * k + 1, false, "DoGet"));
    let open: Vec<u8> = open.chain(frame(kind::PING, 0, 0, &[1; 8])).collect();
    assert!(client.send(&open));
    let mut resets = Vec::new();
    while let Some((Frame { kind, .. }, payload)) =
        client.frame().filter(|it| it.0.kind != kind::PING)
    {
        if kind == kind::RST_STREAM {
            resets.push(payload);
        }
    }
    assert_eq!(resets, [code::REFUSED_STREAM.to_be_bytes(); 44]);
    assert_well(&server);
}

#[test]
fn a_request_may_end_with_its_headers_and_have_trailers() {
    let server = serve("");
    for method in ["ListFlights", "DoPut", "DoGet"] {
        let mut client = Raw::greeted(&server.address());
        assert!(client.send(&call(1, true, method)));
        let (status, _) = client.answer(1);
        assert!(["0", "3"].contains(&status.as_str()), "{method}: {status}");
    }
    let mut client = Raw::greeted(&server.address());
    assert!(client.send(&call(1, false, "ListActions")));
    assert!(client.send(&data(1, false, &message(b""))));
    assert!(client.send(&headers(1, true, &[("x-sum", "1")])));
    assert_eq!(client.answer(1).0, "0");
}

#[test]
fn an_early_answer_ends_the_stream() {
    let server = serve("");
    let mut client = Raw::greeted(&server.address());
    let post = [(":method", "POST"), (":scheme", "http")];
    let elsewhere = [&post[..], &[(":path", "/another.Service/Call")]].concat();
    assert!(client.send(&headers(1, false, &elsewhere)));
    assert_eq!(client.answer(1).0, "12");
    let (reset, payload) = client.frame().unwrap();
    assert_eq!((reset.kind, reset.stream), (kind::RST_STREAM, 1));
    assert_eq!(payload, code::NO_ERROR.to_be_bytes());
    // What was in flight is passed over.
    assert!(client.send(&data(1, true, &message(b"late"))));
    assert!(client.send(&action(3, "ping", b"")));
    assert_eq!(client.answer(3).0, "0");
}

/// A call may have more headers than fit a frame, and not more than the bound that was announced.
#[test]
fn long_headers() {
    let server = serve("");
    for (length, fits) in [(10, true), (30_000, true), (60_000, true), (100_000, false)] {
        let long = "y".repeat(length);
        let list = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/arrow.flight.protocol.FlightService/ListActions"),
            ("content-type", "application/grpc"),
            ("x-long", &long),
        ];
        let mut said = Vec::new();
        write_headers(1, false, &block(&list), 16_384, &mut said);
        said.extend(data(1, true, &message(b"")));
        let mut client = Raw::greeted(&server.address());
        client.send(&said);
        assert_eq!(client.answer(1).0 == "0", fits, "{length}");
        assert_well(&server);
    }
}
