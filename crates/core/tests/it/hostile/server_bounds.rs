//! Clients that want the server's memory or its threads.

use prost::Message;
use venturi_core::codec::frame::{code, kind};
use venturi_core::codec::ipc::{Compression, Encoded};
use venturi_core::codec::perf::Perf;
use venturi_core::codec::proto::FlightDescriptor;
use venturi_core::server::flight::Server;
use venturi_testkit::{alone, parse_json, resident, until};

use super::server::{assert_well, serve};
use venturi_testkit::http2::*;

fn table() -> FlightDescriptor {
    FlightDescriptor::path(vec!["t".into()])
}

/// A client that has begun to put into the table.
fn putting(server: &Server, schema: Encoded) -> Raw {
    let mut client = Raw::greeted(&server.address());
    assert!(client.send(&call(1, false, "DoPut")));
    assert!(client.send(&data(1, false, &flight_data(Some(&table()), schema))));
    client
}

fn used(server: &Server) -> u64 {
    parse_json(&server.statistics())["memory_used_bytes"]
        .as_u64()
        .unwrap()
}

/// Whoever never comes to an end of what it says has to go, however often it says a byte more.
#[test]
fn one_byte_now_and_then() {
    let server = serve(r#", "patience_ns": 300000000"#);
    // Between requests a client may be silent for as long as it likes: here longer than all that follows.
    let mut silent = Raw::greeted(&server.address());
    assert!(silent.send(&action(1, "ping", b"")));
    assert_eq!(silent.answer(1).0, "0");
    // Frames of 15,996 bytes, which take two minutes.
    let begins = |kind, flags, stream| frame(kind, flags, stream, &[0; 15_996]);
    let header_block = [hello(), frame(kind::HEADERS, 0, 1, &[])].concat();
    let called = [hello(), call(1, false, "DoGet")].concat();
    let announced = message(&[0; 15_000]);
    let byte_by_byte = announced.iter().flat_map(|byte| data(1, false, &[*byte]));
    let preface = hello()[..24].to_vec();
    let continuation = begins(kind::CONTINUATION, 0, 1);
    let drips = [
        ("settings", preface, begins(kind::SETTINGS, 0, 0)),
        ("headers", hello(), begins(kind::HEADERS, 4, 1)),
        ("header block", header_block, continuation),
        ("request", called, byte_by_byte.collect()),
    ];
    std::thread::scope(|scope| {
        for (what, first, slowly) in &drips {
            let server = &server;
            scope.spawn(move || {
                let mut client = Raw::connect(&server.address());
                assert!(client.send(first));
                assert_eq!(client.drip(slowly), None, "{what}");
            });
        }
        assert_well(&server);
    });
    assert!(silent.send(&action(3, "ping", b"")));
    assert_eq!(silent.answer(3).0, "0");
}

#[cfg(target_os = "linux")]
#[test]
fn three_hundred_idle_connections() {
    alone(|| {
        let server = serve("");
        let before = resident();
        let mut idle: Vec<Raw> = (0..150).map(|_| Raw::connect(&server.address())).collect();
        idle.extend((0..150).map(|_| Raw::greeted(&server.address())));
        assert_well(&server);
        let each = resident().saturating_sub(before) / 300;
        assert!(each < 500_000, "{each} bytes a connection");
    });
}

#[test]
fn no_more_connections_than_allowed() {
    let server = serve(r#", "max_connections": 3, "patience_ns": 3600000000000"#);
    let mut idle: Vec<Raw> = (0..3).map(|_| Raw::greeted(&server.address())).collect();
    for client in &mut idle {
        assert!(client.send(&action(1, "ping", b"")));
        assert_eq!(client.answer(1).0, "0");
    }
    let mut late = Raw::greeted(&server.address());
    assert!(late.send(&action(1, "ping", b"")));
    assert_eq!(late.answer(1).0, "8");
    assert_eq!(late.farewell(), Some(code::NO_ERROR));
    drop(idle);
    until("a place is free again", || {
        let mut client = Raw::connect(&server.address());
        client.send(&[hello(), action(1, "ping", b"")].concat()) && client.answer(1).0 == "0"
    });
}

#[test]
fn a_put_that_never_begins_makes_room() {
    let server = serve(r#", "max_connections": 1, "patience_ns": 100000000"#);
    let mut half = Raw::greeted(&server.address());
    assert!(half.send(&call(1, false, "DoPut")));
    until("there is room", || {
        let mut client = Raw::greeted(&server.address());
        client.send(&action(1, "ping", b"")) && client.answer(1).0 == "0"
    });
    assert_eq!(half.farewell(), Some(code::NO_ERROR));
}

#[test]
fn a_put_without_end_meets_the_bound() {
    let server = serve("");
    let (schema, batch) = schema_and_batch(&rows(50_000), Compression::None);
    let batch = flight_data(None, batch);
    let mut client = putting(&server, schema);
    // 400 kB each, in frames of 16 kB: the bound of 16 MB is reached with the 40th.
    for _ in 0..50 {
        for piece in batch.chunks(16_384) {
            if !client.send(&data(1, false, piece)) {
                break;
            }
        }
    }
    assert_eq!(client.answer(1).0, "8");
    until("what was put is forgotten", || used(&server) == 0);
    assert_well(&server);
}

#[test]
fn small_and_empty_batches_weigh_too() {
    let server = serve("");
    for (count, expected) in [(0, "0"), (1, "8")] {
        let (schema, batch) = schema_and_batch(&rows(count), Compression::None);
        let batch = data(1, false, &flight_data(None, batch));
        let mut client = putting(&server, schema);
        client.send(&batch.repeat(5_000));
        client.send(&data(1, true, b""));
        assert_eq!(client.answer(1).0, expected, "{count} rows a batch");
    }
    // The table without rows, which was taken, is there, and weighs little.
    until("what was refused is forgotten", || used(&server) < 10_000);
}

#[test]
fn a_put_that_goes_away_is_forgotten() {
    let server = serve("");
    let (schema, batch) = schema_and_batch(&rows(1000), Compression::None);
    for how in 0..3 {
        let mut client = putting(&server, schema.clone());
        assert!(client.send(&data(1, false, &flight_data(None, batch.clone()))));
        until("it is being put", || used(&server) > 0);
        match how {
            0 => drop(client),
            1 => assert!(client.send(&frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]))),
            _ => assert!(client.send(&call(1, false, "DoPut"))),
        }
        until("what was put is forgotten", || used(&server) == 0);
    }
}

#[test]
fn a_decompression_bomb() {
    let server = serve("");
    let (schema, bomb) = schema_and_batch(&rows(10_000), Compression::Zstd(3));
    let mut bomb = flight_data(None, bomb);
    // The first buffer says how long it will become (BodyCompression): 80000 bytes, really.
    let length = 80_000u64.to_le_bytes();
    let at = bomb.windows(8).position(|eight| eight == length).unwrap();
    bomb[at..at + 8].copy_from_slice(&(3u64 << 30).to_le_bytes());
    let mut client = putting(&server, schema);
    for piece in bomb.chunks(16_384) {
        client.send(&data(1, false, piece));
    }
    assert_eq!(client.answer(1).0, "8");
    assert_well(&server);
}

#[test]
fn a_small_question_with_a_large_answer() {
    let server = serve("");
    let perf = Perf {
        schema: vec![0xff; 60_000],
        stream_count: 65_536,
        records_per_stream: 1,
        records_per_batch: 1,
    };
    let columns = Perf {
        schema: vec![],
        records_per_batch: i32::MAX,
        ..perf.clone()
    };
    for (perf, expected) in [(perf, "3"), (columns, "8")] {
        let request = FlightDescriptor::command(perf.encode_to_vec()).encode_to_vec();
        let mut client = Raw::greeted(&server.address());
        assert!(client.send(&call(1, false, "GetFlightInfo")));
        let request = message(&request);
        for piece in request.chunks(16_384) {
            assert!(client.send(&data(1, false, piece)));
        }
        assert!(client.send(&data(1, true, b"")));
        assert_eq!(client.answer(1).0, expected);
    }
    assert_well(&server);
}

#[test]
fn a_client_that_does_not_read() {
    let server = serve("");
    let mut client = Raw::connect(&server.address());
    // No window at all: the answers wait, and the server does not read on without end.
    let none = frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let preface = hello();
    assert!(client.send(&[&preface[..24], &none].concat()));
    let calls = (0..2_000).flat_map(|k| action(2 * k + 1, "statistics", b""));
    let pings = frame(kind::PING, 0, 0, &[0; 8]).repeat(100);
    let said: Vec<u8> = calls.chain(pings).collect();
    let mut sent = 0;
    // Until all is sent, or no more is taken while another client was served twenty times.
    let mut refused = 0;
    while sent < said.len() && refused < 20 {
        let more = client.send_some(&said[sent..]);
        refused = if more > 0 { 0 } else { refused + 1 };
        sent += more;
        assert_well(&server);
    }
}

/// Messages of which only the beginning comes: what they announce is counted.
#[test]
fn many_large_messages_at_once() {
    let server = serve(r#", "max_message_size": 8000000"#);
    let mut client = Raw::greeted(&server.address());
    let announced = [&[0][..], &7_000_000u32.to_be_bytes()].concat();
    for k in 0..3 {
        assert!(client.send(&call(2 * k + 1, false, "DoPut")));
        client.send(&data(2 * k + 1, false, &announced));
    }
    // Two fit into the 16 MB; the third ends the connection, and that frees them.
    assert_eq!(client.farewell(), Some(code::CANCEL));
    until("there is room again", || {
        let mut client = Raw::greeted(&server.address());
        let ping = frame(kind::PING, 0, 0, &[0; 8]);
        client.send(&[call(1, false, "DoPut"), data(1, false, &announced), ping].concat());
        std::iter::from_fn(|| client.frame()).any(|(found, _)| found.kind == kind::PING)
    });
    assert_well(&server);
}

#[test]
fn what_a_client_asks_with_comes_back_short() {
    let server = serve("");
    let long = "\u{7}".repeat(1 << 20);
    let watch = serde_json::json!({"trial": long, "interval_ns": 1_000_000}).to_string();
    let mut client = Raw::greeted(&server.address());
    for (stream, name, body, status) in [
        (1, "venturi.account", &long, "5"),
        (3, &long[..1 << 16], &long, "12"),
        (5, "venturi.watch", &watch, "0"),
    ] {
        assert!(client.send(&action(stream, name, body.as_bytes())));
        let (code, answer) = client.answer(stream);
        assert_eq!(code, status);
        assert!(answer.len() < 100);
    }
    assert_well(&server);
}
