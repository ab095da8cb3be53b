//! Writes the seeds: `cargo run --example seeds` in `fuzz/`, into `fuzz/corpus/`.
//!
//! libfuzzer hands over tuples of byte strings with the lengths behind them; seeds without
//! these are only split elsewhere, so each target gets its plain bytes.

use std::path::Path;

use prost::Message;
use venturi_core::codec::charrow::handshake::{Handshake, Parameters, Request};
use venturi_core::codec::charrow::messages;
use venturi_core::codec::chunk::SendQueue;
use venturi_core::codec::clickhouse::{native, rowbinary, state_rows};
use venturi_core::codec::flight::{queue_flight_data, Parts};
use venturi_core::codec::frame::{flag, kind, write, write_headers, write_settings};
use venturi_core::codec::hpack::encode;
use venturi_core::codec::ipc::{schema_to_bytes, Compression, Encoded, Encoder};
use venturi_core::codec::mysql::frame;
use venturi_core::codec::perf::{Perf, Token};
use venturi_core::codec::proto::FlightDescriptor;
use venturi_core::data::records;
use venturi_core::spec::Values;

fn save(target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), bytes)
}

fn flat(encoded: &Encoded) -> Vec<u8> {
    encoded.body.iter().flat_map(|chunk| chunk.as_slice().to_vec()).collect()
}

/// Both sides of a conversation in charrow 1.2.
fn charrow() -> Result<(), Box<dyn std::error::Error>> {
    let batch = records::batch(2, 40, Values::Random, 1)?;
    for (name, compression, checksum) in [
        ("plain", Compression::None, false),
        ("lz4", Compression::Lz4, true),
    ] {
        let mut encoder = Encoder::new(&batch.schema(), compression)?;
        let mut encoded = Vec::new();
        encoder.encode(&batch, &mut encoded)?;
        let mut said = messages::hello("version=1.2\npid=1");
        said.extend(messages::schema(&schema_to_bytes(&batch.schema())?));
        for message in encoded {
            let wrapped = messages::block(message, checksum);
            said.extend(wrapped.pieces.iter().flat_map(|piece| piece.as_slice().to_vec()));
        }
        said.extend(messages::statistics("{}"));
        said.extend(messages::end());
        said.extend(messages::error("no"));
        save("charrow_client", name, &said)?;
        let parameters = Parameters {
            compression,
            checksum,
            trial: Some("t".into()),
            ..Parameters::default()
        };
        let mut told = Handshake {
            minor: if checksum { 2 } else { 1 },
            client: parameters.name("x"),
            database: String::new(),
            user: "default".into(),
            password: String::new(),
            encoders: 2,
        }
        .write();
        for text in [
            "SELECT a, b FROM records(rows = 10, block_rows = 4) LIMIT 7",
            "SELECT * FROM state_rows(rows = 3, block_rows = 2)",
        ] {
            let (id, text) = (name.to_owned() + text, text.to_owned());
            told.extend(Request::Query { id, text }.write());
        }
        if checksum {
            for name in ["clock", "account", "watch", "stop"] {
                let (name, payload) = (name.to_owned(), "t".to_owned());
                told.extend(Request::Ask { name, payload }.write());
            }
        }
        save("charrow_server", name, &told)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    charrow()?;
    let mut block = vec![0x82, 0x86, 0x41, 0x03, b'a', b':', b'1', 0x3f, 0x21];
    encode("grpc-status", b"0", &mut block);
    save("hpack", "plain", &block)?;
    // RFC 7541, C.4.1: Huffman.
    let huffman = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    save("hpack", "huffman", huffman)?;

    let mut rows = rowbinary::header(&state_rows::columns());
    save("clickhouse", "header", &rows)?;
    rows = state_rows::bytes(1, 0, 3)?;
    save("clickhouse", "rows", &rows)?;
    native::encode(&state_rows::columns(), &state_rows::batch(1, 0, 5)?, &mut rows)?;
    save("clickhouse", "block", &rows[state_rows::bytes(1, 0, 3)?.len()..])?;

    let mut packets = Vec::new();
    let greeting = b"\x0a10.11.19-MariaDB\0\x07\0\0\0abcdefgh\0\xfe\xf7\x2d\x02\0\xff\x81\x15\
        \0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
    let said: [&[u8]; 5] = [
        greeting,
        &[0, 1, 0, 2, 0, 0, 0],
        b"\xff\xbd\x04#40001Deadlock found",
        b"\x03abc\xfb\x0212",
        &[0, 5, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0],
    ];
    for (number, message) in said.iter().enumerate() {
        frame(message, number as u8, &mut packets);
    }
    save("mysql", "answers", &packets)?;

    let points: [(&str, &[u8]); 3] = [
        ("resp", b"*2\r\n+d t=1\r\n:1\r\n:1\r\n:5\r\n+0x1p3\r\n+a|b t=1\r\n+20170101T000000.5\r\n*2\r\n+10.012345678901234\r\n:7\r\n+FLUSH\r\n"),
        ("opentsdb", b"put cpu.user 1483228801 1.5 host=a dc=x\nput cpu.user 1483228802 2.5 host=a dc=x\nflush\n"),
        ("influx", b"cpu,host=a user=1.5,sys=2i 10\ncpu,host=a user=2.5,sys=3i 11\n#flush\n"),
    ];
    for (name, text) in points {
        save("points", name, text)?;
    }
    save("decimal", "long", b"10.012345678901234")?;
    save("decimal", "exponent", b"-2.4703282292062327e-324")?;

    let batch = records::batch(2, 5, Values::Sequential, 0)?;
    let mut frames = Vec::new();
    for (name, compression) in [
        ("plain", Compression::None),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd(3)),
    ] {
        let mut encoder = Encoder::new(&batch.schema(), compression)?;
        let mut messages = vec![encoder.schema_message()];
        encoder.encode(&batch, &mut messages)?;
        let mut ipc = Vec::new();
        let mut grpc = vec![1];
        for message in &messages {
            let body = flat(message);
            ipc.extend_from_slice(&(message.header.len() as u16).to_be_bytes());
            ipc.extend_from_slice(&(body.len() as u16).to_be_bytes());
            ipc.extend_from_slice(&message.header);
            ipc.extend_from_slice(&body);
            let mut queue = SendQueue::default();
            let parts = Parts { header: &message.header, ..Parts::default() };
            let body = message.body.iter().cloned();
            queue_flight_data(parts, body, message.body_length, &mut queue)?;
            while let Some(chunk) = queue.pop(usize::MAX) {
                grpc.extend_from_slice(chunk.as_slice());
            }
        }
        save("ipc", name, &ipc)?;
        save("assembler", name, &grpc)?;
        frames = grpc[1..].to_vec();
    }
    save("ipc", "schema", &schema_to_bytes(&batch.schema())?)?;

    let perf = Perf {
        schema: vec![1, 2],
        stream_count: 2,
        records_per_stream: 1000,
        records_per_batch: 10,
    };
    let command = FlightDescriptor::command(perf.encode_to_vec());
    let token = Token { definition: Some(perf), start: 0, end: 1000 };
    save("proto", "descriptor", &command.encode_to_vec())?;
    save("proto", "token", &token.encode_to_vec())?;

    for (name, url) in [
        ("path", "flight://[::1]:31337/a%20b/{stream}"),
        ("command", "flight+tls://host:1?command=select%201"),
        ("ticket", "flight://h?ticket=base64:AAE="),
    ] {
        save("url", name, url.as_bytes())?;
        let options = r#"{"window": 65535, "connections": "shared", "ack": "batch"}"#;
        save("url", &format!("{name}-options"), format!("{url}{options}").as_bytes())?;
    }

    for client in [false, true] {
        let mut bytes = vec![u8::from(client)];
        write_settings(&[(4, 1000), (5, 20_000)], &mut bytes);
        let mut block = Vec::new();
        encode(":path", b"/arrow.flight.protocol.FlightService/DoPut", &mut block);
        encode("content-type", b"application/grpc", &mut block);
        write_headers(1, false, &block, 16_384, &mut bytes);
        write(kind::DATA, 0, 1, &frames, &mut bytes);
        write(kind::DATA, flag::PADDED, 1, &[1, 0, 0], &mut bytes);
        write(kind::PING, 0, 0, &[0; 8], &mut bytes);
        write(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0], &mut bytes);
        write(kind::DATA, flag::END_STREAM, 1, &[], &mut bytes);
        write(kind::RST_STREAM, 0, 3, &[0, 0, 0, 8], &mut bytes);
        write(kind::GOAWAY, 0, 0, &[0; 8], &mut bytes);
        save("connection", if client { "client" } else { "server" }, &bytes)?;
    }
    Ok(())
}
