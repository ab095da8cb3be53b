//! Bytes of HTTP/2, gRPC and Flight, and a client that sends them without any manners.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use arrow_array::RecordBatch;
use prost::Message;
use venturi_base::codec::chunk::SendQueue;
use venturi_base::codec::flight::{queue_flight_data, Parts};
use venturi_base::codec::frame::{self, flag, kind, Frame};
use venturi_base::codec::hpack;
use venturi_base::codec::ipc::{Compression, Encoded, Encoder};
use venturi_base::codec::proto::{Action, FlightDescriptor};
use venturi_base::data::records;
use venturi_base::spec::Values;

use crate::connect;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(kind, flags, stream, payload, &mut out);
    out
}

pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        hpack::encode(name, value.as_bytes(), &mut block);
    }
    block
}

pub fn headers(stream: u32, end: bool, headers: &[(&str, &str)]) -> Vec<u8> {
    let end = if end { flag::END_STREAM } else { 0 };
    let flags = flag::END_HEADERS | end;
    frame(kind::HEADERS, flags, stream, &block(headers))
}

pub fn data(stream: u32, end: bool, bytes: &[u8]) -> Vec<u8> {
    let flags = if end { flag::END_STREAM } else { 0 };
    frame(kind::DATA, flags, stream, bytes)
}

/// A gRPC message.
pub fn message(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
    out
}

/// What a client says first; it takes the server's settings as read.
pub fn hello() -> Vec<u8> {
    let settings = frame(kind::SETTINGS, 0, 0, &[]);
    let read = frame(kind::SETTINGS, flag::ACK, 0, &[]);
    [frame::PREFACE, &settings, &read].concat()
}

/// The headers of a call of Flight.
pub fn call(stream: u32, end: bool, method: &str) -> Vec<u8> {
    let path = format!("/arrow.flight.protocol.FlightService/{method}");
    let list = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", &path),
        (":authority", "test"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ];
    headers(stream, end, &list)
}

pub fn action(stream: u32, name: &str, body: &[u8]) -> Vec<u8> {
    let action = Action {
        r#type: name.into(),
        body: body.to_vec(),
    };
    let action = message(&action.encode_to_vec());
    [call(stream, false, "DoAction"), data(stream, true, &action)].concat()
}

/// The start of an answer.
pub fn accepted(stream: u32) -> Vec<u8> {
    let list = [(":status", "200"), ("content-type", "application/grpc")];
    headers(stream, false, &list)
}

pub fn trailers(stream: u32, status: &str) -> Vec<u8> {
    headers(stream, true, &[("grpc-status", status)])
}

/// A `FlightData` as a gRPC message.
pub fn flight_data(descriptor: Option<&FlightDescriptor>, encoded: Encoded) -> Vec<u8> {
    let descriptor = descriptor.map(FlightDescriptor::encode_to_vec);
    let parts = Parts {
        descriptor: descriptor.as_deref(),
        header: &encoded.header,
        metadata: &[],
    };
    let mut queue = SendQueue::default();
    queue_flight_data(
        parts,
        encoded.body.into_iter(),
        encoded.body_length,
        &mut queue,
    )
    .unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = queue.pop(usize::MAX) {
        bytes.extend_from_slice(chunk.as_slice());
    }
    bytes
}

pub fn rows(count: usize) -> RecordBatch {
    records::batch(1, count, Values::Sequential, 0).unwrap()
}

/// The messages of a stream: its schema, and one batch.
pub fn schema_and_batch(batch: &RecordBatch, compression: Compression) -> (Encoded, Encoded) {
    let mut encoder = Encoder::new(&batch.schema(), compression).unwrap();
    let mut encoded = Vec::new();
    encoder.encode(batch, &mut encoded).unwrap();
    (encoder.schema_message(), encoded.pop().unwrap())
}

/// Everything that a server sends for a get of one batch of `count` rows.
pub fn get_answer(stream: u32, count: usize) -> Vec<u8> {
    let (schema, batch) = schema_and_batch(&rows(count), Compression::None);
    let (schema, batch) = (flight_data(None, schema), flight_data(None, batch));
    [
        frame(kind::SETTINGS, 0, 0, &[]),
        accepted(stream),
        data(stream, false, &schema),
        data(stream, false, &batch),
        trailers(stream, "0"),
    ]
    .concat()
}

/// A client of raw bytes.
pub struct Raw {
    socket: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    pub fn connect(address: &str) -> Self {
        Self {
            socket: connect(address),
            buffer: Vec::new(),
        }
    }

    pub fn greeted(address: &str) -> Self {
        let mut raw = Self::connect(address);
        assert!(raw.send(&hello()));
        raw
    }

    /// False: the peer has hung up.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// Sends byte by byte until the peer ends the connection, and how it does. It must, before
    /// nothing is left.
    pub fn drip(&mut self, bytes: &[u8]) -> Option<u32> {
        let mut writer = self.socket.try_clone().unwrap();
        std::thread::scope(|scope| {
            let dripping = scope.spawn(move || {
                bytes.iter().all(|byte| {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    writer.write_all(&[*byte]).is_ok()
                })
            });
            let code = self.farewell();
            let _ = self.socket.shutdown(Shutdown::Both);
            assert!(!dripping.join().unwrap(), "it went on to the end");
            code
        })
    }

    /// Writes once, without waiting; how many bytes the socket took.
    pub fn send_some(&mut self, bytes: &[u8]) -> usize {
        self.socket.set_nonblocking(true).unwrap();
        let sent = self.socket.write(bytes).unwrap_or(0);
        self.socket.set_nonblocking(false).unwrap();
        sent
    }

    /// The next frame but SETTINGS and WINDOW_UPDATE; `None`: the peer has hung up.
    pub fn frame(&mut self) -> Option<(Frame, Vec<u8>)> {
        loop {
            if let Some(head) = self.buffer.first_chunk::<{ frame::HEADER }>() {
                let found = Frame::parse(head);
                let whole = frame::HEADER + found.length;
                if self.buffer.len() >= whole {
                    let payload = self.buffer[frame::HEADER..whole].to_vec();
                    self.buffer.drain(..whole);
                    if [kind::SETTINGS, kind::WINDOW_UPDATE].contains(&found.kind) {
                        continue;
                    }
                    return Some((found, payload));
                }
            }
            let mut piece = vec![0; 1 << 16];
            match self.socket.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
                Err(_) => return None,
            }
        }
    }

    /// The code of the GOAWAY with which the peer ends the connection; `None`: it just went.
    pub fn farewell(&mut self) -> Option<u32> {
        while let Some((found, payload)) = self.frame() {
            if found.kind == kind::GOAWAY {
                return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
        None
    }

    /// Sends this again and again until the peer says goodbye; how it did.
    pub fn flood(&mut self, again: &[u8]) -> Option<u32> {
        let many = again.repeat(1 + (1 << 16) / again.len());
        let mut writer = self.socket.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || while writer.write_all(&many).is_ok() {});
            let code = self.farewell();
            let _ = self.socket.shutdown(Shutdown::Both);
            code
        })
    }

    /// The status of a call, and the bytes of its messages.
    pub fn answer(&mut self, stream: u32) -> (String, Vec<u8>) {
        let mut decoder = hpack::Decoder::default();
        let mut bytes = Vec::new();
        while let Some((found, payload)) = self.frame() {
            if found.kind == kind::GOAWAY {
                return ("goaway".into(), payload);
            }
            if found.kind == kind::HEADERS {
                let headers = decoder.decode(&payload, 1 << 20).unwrap();
                let status = headers.into_iter().find(|h| h.name == "grpc-status");
                if let (Some(status), true) = (status, found.stream == stream) {
                    return (status.value, bytes);
                }
            } else if found.stream == stream && found.kind == kind::RST_STREAM {
                return ("reset".into(), payload);
            } else if found.stream == stream && found.kind == kind::DATA {
                bytes.extend_from_slice(&payload);
            }
        }
        ("closed".into(), bytes)
    }
}
