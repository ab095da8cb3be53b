//! What fuzzers start from: for each target something that it understands.

use prost::Message;
use venturi_core::codec::charrow::handshake::{Handshake, Parameters, Request};
use venturi_core::codec::charrow::messages;
use venturi_core::codec::chunk::SendQueue;
use venturi_core::codec::clickhouse::{native, rowbinary, state_rows};
use venturi_core::codec::coding::Coding;
use venturi_core::codec::flight::{queue_flight_data, Parts};
use venturi_core::codec::frame::{flag, kind, write, write_headers, write_settings};
use venturi_core::codec::hpack::encode;
use venturi_core::codec::ipc::{schema_to_bytes, Compression, Encoded, Encoder};
use venturi_core::codec::ipc_queue::Queue;
use venturi_core::codec::mysql::frame;
use venturi_core::codec::perf::{Perf, Token};
use venturi_core::codec::proto::FlightDescriptor;
use venturi_core::data::records;
use venturi_core::spec::Values;

/// A seed: its target, its name, and the input.
pub type Seed = (&'static str, String, Vec<u8>);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn saver(seeds: &mut Vec<Seed>) -> impl FnMut(&'static str, &str, &[u8]) + '_ {
    |target, name, input| seeds.push((target, name.to_owned(), input.to_vec()))
}

/// Behind a first byte, which says how the rest is fed.
fn fed(first: u8, rest: &[u8]) -> Vec<u8> {
    [&[first][..], rest].concat()
}

/// Two inputs in one.
fn two(first: &[u8], second: &[u8]) -> Vec<u8> {
    fed(first.len() as u8, &[first, second].concat())
}

fn flat(encoded: &Encoded) -> Vec<u8> {
    encoded
        .body
        .iter()
        .flat_map(|chunk| chunk.as_slice().to_vec())
        .collect()
}

/// Both sides of a conversation in charrow 1.2.
fn charrow(seeds: &mut Vec<Seed>) -> Result<()> {
    let mut save = saver(seeds);
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
            said.extend(
                wrapped
                    .pieces
                    .iter()
                    .flat_map(|piece| piece.as_slice().to_vec()),
            );
        }
        said.extend(messages::statistics("{}"));
        said.extend(messages::end());
        said.extend(messages::error("no"));
        save("charrow_client", name, &fed(40, &said));
        save(
            "charrow_ring",
            name,
            &fed(40, &ring(compression, checksum)?),
        );
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
        save("charrow_server", name, &told);
    }
    Ok(())
}

/// Bodies that lie in a ring, and what is said of them, the second one in two parts.
fn ring(compression: Compression, checksum: bool) -> Result<Vec<u8>> {
    let batch = records::batch(2, 5, Values::Sequential, 0)?;
    let mut encoder = Encoder::new(&batch.schema(), compression)?;
    let (mut body, mut encoded) = (Vec::new(), Vec::new());
    let mut said = messages::schema(&schema_to_bytes(&batch.schema())?);
    encoder.encode(&batch, &mut encoded)?;
    encoder.encode(&batch, &mut encoded)?;
    for (message, parts) in encoded.into_iter().zip([1, 2]) {
        let wrapped = messages::block(message, checksum);
        said.extend(wrapped.pieces[0].as_slice());
        body.clear();
        for piece in &wrapped.pieces[1..] {
            body.extend(piece.as_slice());
        }
        for part in body.chunks(body.len().div_ceil(parts)) {
            said.extend(messages::filled(part.len()));
        }
    }
    said.extend(messages::end());
    Ok(two(&body, &said))
}

/// What servers of other people's protocols answer.
fn answers(seeds: &mut Vec<Seed>) -> Result<()> {
    let mut save = saver(seeds);
    let http: [(&str, &[u8]); 3] = [
        ("chunked", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n"),
        ("known", b"HTTP/1.0 500 Wrong\r\nContent-Length: 5\r\n\r\nabcde"),
        ("closed", b"HTTP/1.1 200 OK\r\n\r\nabcde"),
    ];
    for (name, answer) in http {
        save("http1", name, &fed(6, answer));
    }
    for (name, compression) in [
        ("plain", parquet::basic::Compression::UNCOMPRESSED),
        ("lz4", parquet::basic::Compression::LZ4_RAW),
        ("snappy", parquet::basic::Compression::SNAPPY),
    ] {
        let batch = state_rows::batch(1, 0, 5)?;
        let properties = parquet::file::properties::WriterProperties::builder();
        let properties = properties.set_compression(compression).build();
        let mut file = Vec::new();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(&mut file, batch.schema(), Some(properties))?;
        writer.write(&batch)?;
        writer.close()?;
        save("parquet", name, &file);
    }
    Ok(())
}

/// Requests to a store of time series, cut behind their first 40 bytes.
fn store_http(seeds: &mut Vec<Seed>) {
    let mut save = saver(seeds);
    let lines =
        "cpu,host=a user=1.5,sys=2i 1577836800000000000\nmem,host=a free=7 1577836800000000000\n";
    // What `printf 'a v=1 5\n' | gzip -n` makes.
    let packed: &[u8] = &[
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b, 0x54, 0x28, 0xb3, 0x35, 0x54, 0x30, 0xe5, 2, 0,
        0xb7, 0x26, 0x2a, 0, 8, 0, 0, 0,
    ];
    let post = |path: &str, more: &str, body: &[u8]| {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{more}\r\n");
        [head.as_bytes(), body].concat()
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
    let stored = "/api/stored?metric=cpu%2Euser&series=1";
    let counted = br#"{"aggregate": {"cpu.user": "count"}}"#;
    for (name, bytes) in [
        (
            "write",
            post("/write?precision=ns&db=x", "", lines.as_bytes()),
        ),
        (
            "expects",
            post(
                "/api/v2/write",
                "Expect: 100-continue\r\n",
                lines.as_bytes(),
            ),
        ),
        ("gzip", post("/write", "Content-Encoding: gzip\r\n", packed)),
        ("query", post("/api/query", "", counted)),
        ("seal", post("/api/seal", "Connection: close\r\n", b"")),
        (
            "several",
            [get("/api/stats"), get("/ping"), get(stored)].concat(),
        ),
        ("none", get("/health")),
    ] {
        save("store_http", name, &[&[0, 40][..], &bytes].concat());
    }
}

/// Requests to a server of Arrow over HTTP, cut behind their first 40 bytes.
fn arrow_http(seeds: &mut Vec<Seed>) -> Result<()> {
    let mut save = saver(seeds);
    let batch = state_rows::batch(1, 0, 5)?;
    let mut stream = Queue::http(true, Coding::Identity)?;
    let mut encoder = Encoder::new(&batch.schema(), Compression::None)?;
    stream.push(encoder.schema_message())?;
    let mut encoded = Vec::new();
    encoder.encode(&batch, &mut encoded)?;
    for message in encoded {
        stream.push(message)?;
    }
    stream.end()?;
    let head = b"PUT /t HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    for (name, bytes) in [
        ("put", [&head[..], &stream.to_bytes()].concat()),
        (
            "get",
            b"GET /records?rows=9&rows_per_batch=4 HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n"
                .to_vec(),
        ),
        ("old", b"GET /records?rows=2 HTTP/1.0\r\n\r\n".to_vec()),
        (
            "ask",
            b"POST /.venturi/hello HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
        ),
        (
            "drop",
            b"DELETE /t HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_vec(),
        ),
    ] {
        save("arrow_http", name, &[&[0, 40][..], &bytes].concat());
    }
    Ok(())
}

pub fn all() -> Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    store_http(&mut seeds);
    arrow_http(&mut seeds)?;
    charrow(&mut seeds)?;
    answers(&mut seeds)?;
    rows(&mut seeds);
    flight(&mut seeds)?;
    Ok(seeds)
}

/// Rows of databases: two of an integer and a text, and one of each.
fn rows(seeds: &mut Vec<Seed>) {
    let mut save = saver(seeds);
    let mut copy = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    copy.extend(b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x07\0\0\0\x02ab");
    copy.extend(b"\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    save("postgres_copy", "plain", &fed(9, &two(&[3, 9], &copy)));
    let number = b"\0\x01\0\0\0\x0a\0\x01\0\x01\0\0\0\0\0\x01\xff\xff";
    let numbers = [&copy[..19], number].concat();
    save("postgres_copy", "numeric", &fed(30, &two(&[8], &numbers)));

    // Catalogue, names, 12 bytes behind them: the character set, the length, the type, flags, places.
    let column = |kind: u8, set: u8| {
        let mut message = b"\x03def\0\0\0\x01c\x01c\x0c".to_vec();
        message.extend([set, 0, 255, 0, 0, 0, kind, 0, 0, 2, 0, 0]);
        fed(message.len() as u8, &message)
    };
    let columns = [column(3, 63), column(253, 45), column(12, 63)].concat();
    let said = [
        &b"\x17\x0212\x02ab\x102026-01-01 10:00"[..],
        b"\x03\xfb\xfb\xfb",
    ];
    save("mysql_rows", "text", &two(&columns, &said.concat()));
    let binary = b"\x11\0\0\x0c\0\0\0\x02ab\x04\xea\x07\x01\x01\x02\0\x1c";
    save("mysql_rows", "binary", &two(&columns, binary));

    save("cql_rows", "decimal", b"\x01\0\0\0\x02\x01\x02");
    save(
        "cql_rows",
        "duration",
        b"\x05\x02\x03\xfc\x02\x03\x04\x05\x06\x07",
    );
}

fn flight(seeds: &mut Vec<Seed>) -> Result<()> {
    let mut save = saver(seeds);
    let mut block = vec![0x82, 0x86, 0x41, 0x03, b'a', b':', b'1', 0x3f, 0x21];
    encode("grpc-status", b"0", &mut block);
    save("hpack", "plain", &two(&block, &[0xbe]));
    // RFC 7541, C.4.1: Huffman.
    let huffman = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    save("hpack", "huffman", &two(huffman, b"\x82\x86\x84\xbe"));

    let mut rows = rowbinary::header(&state_rows::columns());
    let fed_rows = |bytes: &[u8]| fed(30, &two(&[1, 4, 13], bytes));
    save("clickhouse", "header", &fed_rows(&rows));
    rows = state_rows::bytes(1, 0, 3)?;
    save("clickhouse", "rows", &fed_rows(&rows));
    native::encode(
        &state_rows::columns(),
        &state_rows::batch(1, 0, 5)?,
        &mut rows,
    )?;
    let block = &rows[state_rows::bytes(1, 0, 3)?.len()..];
    save("clickhouse", "block", &fed_rows(block));

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
    save("mysql", "answers", &fed(5, &packets));

    let points: [(&str, &[u8]); 3] = [
        ("resp", b"*2\r\n+d t=1\r\n:1\r\n:1\r\n:5\r\n+0x1p3\r\n+a|b t=1\r\n+20170101T000000.5\r\n*2\r\n+10.012345678901234\r\n:7\r\n+FLUSH\r\n"),
        ("opentsdb", b"put cpu.user 1483228801 1.5 host=a dc=x\nput cpu.user 1483228802 2.5 host=a dc=x\nflush\n"),
        ("influx", b"cpu,host=a user=1.5,sys=2i 10\ncpu,host=a user=2.5,sys=3i 11\n#flush\n"),
    ];
    for (language, (name, text)) in points.into_iter().enumerate() {
        save("points", name, &fed(language as u8, &fed(9, text)));
    }
    save("decimal", "long", b"10.012345678901234");
    save("decimal", "exponent", b"-2.4703282292062327e-324");

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
        let mut grpc = Vec::new();
        let mut stream = Vec::new();
        for message in &messages {
            let body = flat(message);
            ipc.extend_from_slice(&(message.header.len() as u16).to_be_bytes());
            ipc.extend_from_slice(&(body.len() as u16).to_be_bytes());
            ipc.extend_from_slice(&message.header);
            ipc.extend_from_slice(&body);
            stream.extend_from_slice(&[0xff; 4]);
            stream.extend_from_slice(&(message.header.len() as u32).to_le_bytes());
            stream.extend_from_slice(&message.header);
            stream.extend_from_slice(&body);
            let mut queue = SendQueue::default();
            let parts = Parts {
                header: &message.header,
                ..Parts::default()
            };
            let body = message.body.iter().cloned();
            queue_flight_data(parts, body, message.body_length, &mut queue)?;
            while let Some(chunk) = queue.pop(usize::MAX) {
                grpc.extend_from_slice(chunk.as_slice());
            }
        }
        save("ipc", name, &ipc);
        stream.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        save("ipc_stream", name, &fed(60, &stream));
        save("assembler", name, &fed(1, &two(&[20, 3, 200], &grpc)));
        frames = grpc;
    }
    save("ipc", "schema", &schema_to_bytes(&batch.schema())?);

    let perf = Perf {
        schema: vec![1, 2],
        stream_count: 2,
        records_per_stream: 1000,
        records_per_batch: 10,
    };
    let command = FlightDescriptor::command(perf.encode_to_vec());
    let token = Token {
        definition: Some(perf),
        start: 0,
        end: 1000,
    };
    save("proto", "descriptor", &command.encode_to_vec());
    save("proto", "token", &token.encode_to_vec());

    for (name, url) in [
        ("path", "flight://[::1]:31337/a%20b/{stream}"),
        ("command", "flight+tls://host:1?command=select%201"),
        ("ticket", "flight://h?ticket=base64:AAE="),
    ] {
        save("url", name, url.as_bytes());
        let options = r#"{"window": 65535, "connections": "shared", "ack": "batch"}"#;
        save(
            "url",
            &format!("{name}-options"),
            format!("{url}\n{options}").as_bytes(),
        );
    }

    for client in [false, true] {
        let mut bytes = vec![u8::from(client)];
        write_settings(&[(4, 1000), (5, 20_000)], &mut bytes);
        let mut block = Vec::new();
        encode(":method", b"POST", &mut block);
        encode(":scheme", b"http", &mut block);
        encode(
            ":path",
            b"/arrow.flight.protocol.FlightService/DoPut",
            &mut block,
        );
        if client {
            block.clear();
            encode(":status", b"200", &mut block);
        }
        encode("content-type", b"application/grpc", &mut block);
        write_headers(1, false, &block, 16_384, &mut bytes);
        write(kind::DATA, 0, 1, &frames, &mut bytes);
        write(kind::DATA, flag::PADDED, 1, &[1, 0, 0], &mut bytes);
        write(kind::PING, 0, 0, &[0; 8], &mut bytes);
        write(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0], &mut bytes);
        write(kind::DATA, flag::END_STREAM, 1, &[], &mut bytes);
        write(kind::RST_STREAM, 0, 3, &[0, 0, 0, 8], &mut bytes);
        write(kind::GOAWAY, 0, 0, &[0; 8], &mut bytes);
        save(
            "connection",
            if client { "client" } else { "server" },
            &bytes,
        );
    }
    Ok(())
}
