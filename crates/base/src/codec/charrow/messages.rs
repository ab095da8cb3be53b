//! What a server says.

use super::flag;
use super::handshake::{pair, put_bytes, put_number};
use crate::codec::chunk::Chunk;
use crate::codec::ipc::Encoded;
use xxhash_rust::xxh3::Xxh3;

/// Before an encapsulated IPC message's length.
const CONTINUATION: [u8; 4] = [0xff; 4];

fn tagged(flag: i64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + payload.len());
    put_number(&mut out, flag);
    put_bytes(&mut out, payload);
    out
}

pub fn error(text: &str) -> Vec<u8> {
    tagged(flag::ERROR, text.as_bytes())
}

/// `encapsulated`: as `ipc::schema_to_bytes` makes it.
pub fn schema(encapsulated: &[u8]) -> Vec<u8> {
    tagged(flag::SCHEMA, encapsulated)
}

pub fn end() -> Vec<u8> {
    tagged(flag::BLOCK, &[])
}

pub fn hello(lines: &str) -> Vec<u8> {
    tagged(flag::HELLO, lines.as_bytes())
}

pub fn statistics(json: &str) -> Vec<u8> {
    tagged(flag::STATISTICS, json.as_bytes())
}

pub fn answer(payload: &[u8]) -> Vec<u8> {
    tagged(flag::ANSWER, payload)
}

/// So many more bytes of the block that has begun lie in the ring.
pub fn filled(bytes: usize) -> [u8; 16] {
    pair(flag::FILLED, bytes as i64)
}

/// A block on its way out: the pieces of its message, none of a body copied.
#[derive(Debug)]
pub struct Wrapped {
    pub pieces: Vec<Chunk>,
    /// Bytes on the wire.
    pub length: usize,
}

/// The message of an encoded batch, with its checksum where asked for.
pub fn block(encoded: Encoded, checksum: bool) -> Wrapped {
    let header = &encoded.header;
    let payload = 8 + header.len() + encoded.body_length;
    let mut head = Vec::with_capacity(32 + header.len());
    match checksum {
        false => put_number(&mut head, flag::BLOCK),
        true => {
            put_number(&mut head, flag::CHECKED_BLOCK);
            put_number(&mut head, 0);
        }
    }
    put_number(&mut head, payload as i64);
    let begin = head.len();
    head.extend_from_slice(&CONTINUATION);
    head.extend_from_slice(&(header.len() as u32).to_le_bytes());
    head.extend_from_slice(header);
    if checksum {
        let mut hash = Xxh3::new();
        hash.update(&head[begin..]);
        for piece in &encoded.body {
            hash.update(piece.as_slice());
        }
        head[8..16].copy_from_slice(&hash.digest().to_be_bytes());
    }
    let length = head.len() + encoded.body_length;
    let mut pieces = Vec::with_capacity(1 + encoded.body.len());
    pieces.push(Chunk::Small(head));
    pieces.extend(encoded.body);
    Wrapped { pieces, length }
}
