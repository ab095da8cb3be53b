//! Requests and answers of CQL's protocol 4, as far as batches need them. A request is made
//! whole before the clock starts; only its number is written when it is sent.

use std::borrow::Cow;

use bytes::Bytes;
pub use scylla::frame::Compression;
use scylla::statement::batch::BatchType;
use scylla::statement::Consistency;
use scylla_cql::frame::protocol_features::ProtocolFeatures;
use scylla_cql::frame::response::Error as Refusal;
use scylla_cql::frame::{compress_append, decompress, parse_response_body_extensions};

use super::errors::line;
use venturi_base::error::{Error, Kind, Result};

pub const VERSION: u8 = 4;
const ANSWER: u8 = 0x80 | VERSION;
/// Bytes of what stands before every body.
pub const HEAD: usize = 9;
/// No answer to an upsert comes near this.
pub const LONGEST: usize = 16 << 20;

pub mod opcode {
    pub const ERROR: u8 = 0x00;
    pub const STARTUP: u8 = 0x01;
    pub const READY: u8 = 0x02;
    pub const AUTHENTICATE: u8 = 0x03;
    pub const QUERY: u8 = 0x07;
    pub const RESULT: u8 = 0x08;
    pub const PREPARE: u8 = 0x09;
    pub const EXECUTE: u8 = 0x0a;
    pub const BATCH: u8 = 0x0d;
    pub const AUTH_RESPONSE: u8 = 0x0f;
    pub const AUTH_SUCCESS: u8 = 0x10;
}

mod flag {
    pub const COMPRESSED: u8 = 0x01;
    pub const WARNING: u8 = 0x08;
}

/// A request but for its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    opcode: u8,
    flags: u8,
    pub body: Vec<u8>,
}

impl Request {
    pub fn new(opcode: u8, body: Vec<u8>) -> Self {
        Self {
            opcode,
            flags: 0,
            body,
        }
    }

    /// What stands before the body; answers carry the number that `stream` is.
    #[inline]
    pub fn head(&self, stream: i16) -> [u8; HEAD] {
        let [s0, s1] = stream.to_be_bytes();
        let [l0, l1, l2, l3] = (self.body.len() as u32).to_be_bytes();
        [VERSION, self.flags, s0, s1, self.opcode, l0, l1, l2, l3]
    }

    pub fn compressed(self, by: Option<Compression>) -> Result<Self> {
        let Some(by) = by else { return Ok(self) };
        let mut body = Vec::new();
        compress_append(&self.body, by, &mut body)
            .map_err(|error| Error::usage(format!("the batch cannot be sent: {}", line(error))))?;
        Ok(Self {
            flags: flag::COMPRESSED,
            body,
            ..self
        })
    }

    /// A statement as text.
    pub fn query(text: &str, consistency: Consistency) -> Self {
        let mut body = Vec::with_capacity(text.len() + 7);
        put_text(&mut body, text);
        put_consistency(&mut body, consistency);
        body.push(0);
        Self::new(opcode::QUERY, body)
    }

    pub fn prepare(text: &str) -> Self {
        let mut body = Vec::with_capacity(text.len() + 4);
        put_text(&mut body, text);
        Self::new(opcode::PREPARE, body)
    }

    /// A prepared statement; `values` appends so many of them.
    pub fn execute(
        id: &[u8],
        consistency: Consistency,
        count: usize,
        values: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<Self> {
        const VALUES: u8 = 0x01;
        let mut body = Vec::with_capacity(32 + count * 14);
        put_short_bytes(&mut body, id);
        put_consistency(&mut body, consistency);
        body.push(VALUES);
        body.extend_from_slice(&(count as u16).to_be_bytes());
        values(&mut body)?;
        body.shrink_to_fit();
        Ok(Self::new(opcode::EXECUTE, body))
    }

    /// A page of a prepared statement's rows, of those whose tokens lie between two, both included.
    pub fn page(
        id: &[u8],
        consistency: Consistency,
        tokens: Option<(i64, i64)>,
        rows: i32,
        state: Option<&[u8]>,
    ) -> Self {
        const VALUES: u8 = 0x01;
        const PAGE_SIZE: u8 = 0x04;
        const STATE: u8 = 0x08;
        let mut body = Vec::with_capacity(64 + state.map_or(0, <[u8]>::len));
        put_short_bytes(&mut body, id);
        put_consistency(&mut body, consistency);
        let values = tokens.map_or(0, |_| VALUES);
        body.push(PAGE_SIZE | values | state.map_or(0, |_| STATE));
        if let Some((from, to)) = tokens {
            body.extend_from_slice(&2u16.to_be_bytes());
            for token in [from, to] {
                body.extend_from_slice(&8u32.to_be_bytes());
                body.extend_from_slice(&token.to_be_bytes());
            }
        }
        body.extend_from_slice(&rows.to_be_bytes());
        if let Some(state) = state {
            body.extend_from_slice(&(state.len() as u32).to_be_bytes());
            body.extend_from_slice(state);
        }
        Self::new(opcode::EXECUTE, body)
    }

    /// A BATCH of `rows` statements, each of which `statement` appends.
    pub fn batch(
        kind: BatchType,
        consistency: Consistency,
        rows: usize,
        mut statement: impl FnMut(usize, &mut Vec<u8>) -> Result<()>,
    ) -> Result<Self> {
        let mut body = Vec::with_capacity(8 + rows * 128);
        body.push(kind as u8);
        body.extend_from_slice(&(rows as u16).to_be_bytes());
        for row in 0..rows {
            statement(row, &mut body)?;
        }
        put_consistency(&mut body, consistency);
        body.push(0);
        body.shrink_to_fit();
        Ok(Self::new(opcode::BATCH, body))
    }
}

impl Request {
    /// A BATCH of the first `rows` statements of one, at another consistency. `None`: it is none,
    /// or has not so many.
    pub fn first_of_batch(
        &self,
        rows: usize,
        consistency: Consistency,
        compression: Option<Compression>,
    ) -> Option<Self> {
        let body = self.plain(compression)?;
        let (&kind, rest) = body.split_first()?;
        let (_, mut rest) = take_short(rest)?;
        let statements = rest;
        for _ in 0..rows {
            let (&form, after) = rest.split_first()?;
            rest = match form {
                0 => skip_value(after)?,
                _ => {
                    let (length, after) = take_short(after)?;
                    after.get(length..)?
                }
            };
            let (values, mut after) = take_short(rest)?;
            for _ in 0..values {
                after = skip_value(after)?;
            }
            rest = after;
        }
        let statements = &statements[..statements.len() - rest.len()];
        let mut body = vec![kind];
        body.extend_from_slice(&(rows as u16).to_be_bytes());
        body.extend_from_slice(statements);
        put_consistency(&mut body, consistency);
        body.push(0);
        (self.opcode == opcode::BATCH).then(|| Self::new(opcode::BATCH, body))
    }

    /// A BATCH of the first `rows` rows of a prepared statement of many rows, each of `width`
    /// values, which `id` takes.
    pub fn first_of_statement(
        &self,
        (kind, id, width): (BatchType, &[u8], usize),
        rows: usize,
        consistency: Consistency,
        compression: Option<Compression>,
    ) -> Option<Self> {
        if self.opcode != opcode::EXECUTE {
            return None;
        }
        let body = self.plain(compression)?;
        let (length, rest) = take_short(&body)?;
        // Consistency, flags, the number of values.
        let mut rest = rest.get(length + 5..)?;
        let row = |_, body: &mut Vec<u8>| {
            let mut after = rest;
            for _ in 0..width {
                let broken = || Error::new(Kind::Internal, "fewer values than rows");
                after = skip_value(after).ok_or_else(broken)?;
            }
            put_prepared(body, id, width);
            body.extend_from_slice(&rest[..rest.len() - after.len()]);
            rest = after;
            Ok(())
        };
        Self::batch(kind, consistency, rows, row).ok()
    }

    fn plain(&self, compression: Option<Compression>) -> Option<Cow<'_, [u8]>> {
        match self.flags & flag::COMPRESSED {
            0 => Some(Cow::Borrowed(&self.body)),
            _ => Some(Cow::Owned(decompress(&self.body, compression?).ok()?)),
        }
    }
}

fn take_short(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*number).into(), rest))
}

/// What is behind `[int] length, bytes`; a length below 0 is a null's.
fn skip_value(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.get(usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0)..)
}

/// Of a BATCH: a prepared statement, whose values follow.
pub fn put_prepared(body: &mut Vec<u8>, id: &[u8], values: usize) {
    body.push(1);
    put_short_bytes(body, id);
    body.extend_from_slice(&(values as u16).to_be_bytes());
}

/// Of a BATCH: a text.
pub fn put_unprepared(body: &mut Vec<u8>, text: &str) {
    body.push(0);
    put_text(body, text);
    body.extend_from_slice(&[0, 0]);
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(&(text.len() as u32).to_be_bytes());
    body.extend_from_slice(text.as_bytes());
}

fn put_short_bytes(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    body.extend_from_slice(bytes);
}

fn put_consistency(body: &mut Vec<u8>, consistency: Consistency) {
    body.extend_from_slice(&(consistency as u16).to_be_bytes());
}

/// The string map of a STARTUP.
pub fn startup(compression: Option<Compression>) -> Request {
    let mut all = vec![("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "Venturi")];
    all.extend(compression.map(|by| ("COMPRESSION", by.as_str())));
    let mut body = (all.len() as u16).to_be_bytes().to_vec();
    for (key, value) in all {
        put_short_bytes(&mut body, key.as_bytes());
        put_short_bytes(&mut body, value.as_bytes());
    }
    Request::new(opcode::STARTUP, body)
}

/// SASL's PLAIN, which `PasswordAuthenticator` wants.
pub fn log_in(user: &str, password: &str) -> Request {
    let token = ["", user, password].join("\0");
    let mut body = Vec::with_capacity(4 + token.len());
    put_text(&mut body, &token);
    Request::new(opcode::AUTH_RESPONSE, body)
}

/// What stands before the body of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub stream: i16,
    pub opcode: u8,
    flags: u8,
    pub length: usize,
}

impl Head {
    /// `None`: not all of it is there.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        Self::within(bytes, LONGEST)
    }

    /// The same of an answer that may be so long.
    pub fn within(bytes: &[u8], longest: usize) -> Result<Option<Self>> {
        let Some(&[version, flags, s0, s1, opcode, l0, l1, l2, l3]) = bytes.first_chunk::<HEAD>()
        else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if version != ANSWER {
            return Err(Error::protocol("not an answer in CQL's protocol 4"));
        }
        if length > longest {
            return Err(too_long(length as u64, longest));
        }
        Ok(Some(Self {
            stream: i16::from_be_bytes([s0, s1]),
            opcode,
            flags,
            length,
        }))
    }

    /// Whether the body is just what the opcode says, as it lies there.
    pub fn is_plain(&self) -> bool {
        self.flags == 0
    }

    /// Done, and nothing else to say; a warning is of interest where `warnings` says so.
    #[inline]
    pub fn is_done(&self, warnings: bool) -> bool {
        self.opcode == opcode::RESULT && !(warnings && self.flags & flag::WARNING != 0)
    }
}

/// An answer that says more than that all went well.
#[derive(Debug)]
pub struct Answer {
    pub opcode: u8,
    pub warnings: Vec<String>,
    /// Where it is an error.
    pub refusal: Option<Refusal>,
    /// Decompressed, behind the warnings.
    pub body: Bytes,
}

impl Answer {
    /// Decompressed it may be `longest` bytes.
    pub fn parse(
        head: &Head,
        body: &[u8],
        compression: Option<Compression>,
        longest: usize,
    ) -> Result<Self> {
        let broken = |error: &dyn std::fmt::Display| {
            Error::new(Kind::Protocol, format!("a broken answer: {}", line(error)))
        };
        if let Some(bytes) = declared(head.flags, body, compression) {
            // Memory for all of it is taken before the first byte of it is seen; neither format
            // makes more than 255 bytes of one.
            if bytes > 64 + 255 * body.len() as u64 {
                return Err(broken(&format!(
                    "{} compressed bytes claim to be {bytes}",
                    body.len()
                )));
            }
            if bytes > longest as u64 {
                return Err(too_long(bytes, longest));
            }
        }
        let parsed = parse_response_body_extensions(head.flags, compression, body.to_vec().into());
        let parsed = parsed.map_err(|error| broken(&error))?;
        let refusal = match head.opcode {
            opcode::ERROR => {
                let features = ProtocolFeatures::default();
                let refusal = Refusal::deserialize(&features, &mut &*parsed.body);
                Some(refusal.map_err(|error| broken(&error))?)
            }
            _ => None,
        };
        Ok(Self {
            opcode: head.opcode,
            warnings: parsed.warnings,
            refusal,
            body: parsed.body,
        })
    }
}

fn too_long(bytes: u64, longest: usize) -> Error {
    let message = format!("an answer of {bytes} bytes, of which {longest} are taken at most");
    Error::new(Kind::Memory, message)
}

/// How long a compressed body says that it is.
fn declared(flags: u8, body: &[u8], compression: Option<Compression>) -> Option<u64> {
    if flags & flag::COMPRESSED == 0 {
        return None;
    }
    match compression? {
        Compression::Lz4 => body.first_chunk().map(|it| u32::from_be_bytes(*it).into()),
        // Seven bits a byte, the lowest first.
        Compression::Snappy => {
            let mut bytes = 0;
            for (at, &byte) in body.iter().take(5).enumerate() {
                bytes |= u64::from(byte & 0x7f) << (7 * at);
                if byte & 0x80 == 0 {
                    return Some(bytes);
                }
            }
            None
        }
    }
}
