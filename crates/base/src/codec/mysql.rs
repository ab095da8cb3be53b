//! MySQL's client/server protocol, as far as a client of upserts speaks it: packets, the
//! handshake, answers, rows as text, parameters of a prepared statement.
//!
//! Sources: the protocol's description in the servers' documentation (MySQL's "Client/Server
//! Protocol", MariaDB's "Clients & Utilities"). Ours instead of a driver's because a statement
//! that is built ahead goes from its buffer into the socket as it lies there, and one that is
//! prepared is not made of a value in memory for each of its parameters.

use crate::error::{Error, Result};

pub mod definition;
pub mod rows;

/// The most that one packet holds; a longer message goes on in the next one.
pub const MOST: usize = 0xff_ffff;
/// In front of every packet: three bytes of length, one of sequence.
pub const HEADER: usize = 4;
/// The longest message that is taken from a server unless rows are read: an upsert is answered by a few
/// bytes.
pub const LONGEST_REPLY: usize = 1 << 20;

pub mod command {
    pub const QUIT: u8 = 1;
    pub const QUERY: u8 = 3;
    pub const PING: u8 = 14;
    pub const PREPARE: u8 = 22;
    pub const EXECUTE: u8 = 23;
}

pub mod capability {
    pub const LONG_PASSWORD: u32 = 1;
    pub const LONG_FLAG: u32 = 4;
    pub const CONNECT_WITH_DB: u32 = 8;
    pub const PROTOCOL_41: u32 = 0x200;
    pub const SSL: u32 = 0x800;
    pub const TRANSACTIONS: u32 = 0x2000;
    pub const SECURE_CONNECTION: u32 = 0x8000;
    pub const PLUGIN_AUTH: u32 = 0x8_0000;
}

/// utf8mb4_general_ci, which every server of the family knows.
const UTF8MB4: u8 = 45;
/// "08S01", "HY000": behind a # in an error.
const STATE: usize = 5;

fn short(what: &str) -> Error {
    Error::protocol(format!(
        "{what} from the server is cut short; does it speak MySQL's protocol?"
    ))
}

/// Cuts a message into packets. The first one has this sequence number.
pub fn frame(message: &[u8], sequence: u8, out: &mut Vec<u8>) {
    let mut sequence = sequence;
    let mut rest = message;
    loop {
        let (packet, more) = rest.split_at(rest.len().min(MOST));
        out.extend_from_slice(&(packet.len() as u32).to_le_bytes()[..3]);
        out.push(sequence);
        out.extend_from_slice(packet);
        // One that is full is always followed by another, if need be an empty one.
        if packet.len() < MOST {
            return;
        }
        sequence = sequence.wrapping_add(1);
        rest = more;
    }
}

/// A command with its packets' headers, built in one buffer. `build` appends what follows the
/// command's byte.
pub fn command(code: u8, build: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<Vec<u8>> {
    let mut packets = vec![0, 0, 0, 0, code];
    build(&mut packets)?;
    let length = packets.len() - HEADER;
    if length < MOST {
        packets[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        return Ok(packets);
    }
    let mut cut = Vec::with_capacity(packets.len() + HEADER * (length / MOST + 1));
    frame(&packets[HEADER..], 0, &mut cut);
    Ok(cut)
}

/// Where the number of a prepared statement stands.
const NUMBER: std::ops::Range<usize> = HEADER + 1..HEADER + 5;

/// The packets of an EXECUTE, of a statement that has this number: their beginning, and the rest.
pub fn with_number(packets: &[u8], number: u32) -> ([u8; NUMBER.end], &[u8]) {
    let mut head = [0; NUMBER.end];
    let (begin, rest) = packets.split_at(packets.len().min(NUMBER.end));
    head[..begin.len()].copy_from_slice(begin);
    head[NUMBER].copy_from_slice(&number.to_le_bytes());
    (head, rest)
}

/// How long the message is that these packets carry.
pub fn message_length(packets: &[u8]) -> usize {
    let full = packets.len() / (MOST + HEADER);
    packets.len() - HEADER * (full + 1)
}

/// Puts packets together to messages. What is not read yet is bounded by the longest reply.
#[derive(Debug)]
pub struct Assembler {
    limit: usize,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Default for Assembler {
    fn default() -> Self {
        Self {
            limit: LONGEST_REPLY,
            buffer: Vec::new(),
            start: 0,
            end: 0,
        }
    }
}

impl Assembler {
    /// Rows are read: messages may fill a packet, and much is read at once.
    pub fn take_rows(&mut self) {
        /// Bytes that one read of the socket may bring.
        const READ: usize = 256 << 10;
        self.limit = MOST - 1;
        self.buffer.resize(self.buffer.len().max(READ), 0);
    }

    /// Room for more bytes from the socket; `filled` says how many came.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end < 4096 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let wanted = (self.end + 4096).next_multiple_of(16 << 10);
            self.buffer.resize(wanted.max(self.buffer.len()), 0);
        }
        &mut self.buffer[self.end..]
    }

    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Is a whole message there? Its sequence number and length.
    pub fn peek(&self) -> Result<Option<(u8, usize)>> {
        let held = &self.buffer[self.start..self.end];
        let Some(&[a, b, c, sequence]) = held.first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if length > self.limit {
            return Err(Error::protocol(match self.limit {
                LONGEST_REPLY => format!("the server announces a message of {length} bytes, over {LONGEST_REPLY}; does it speak MySQL's protocol?"),
                limit => format!("a row of more than {limit} bytes: leave its long values out, or cut them by LEFT(column, n) in a query"),
            }));
        }
        Ok((held.len() >= HEADER + length).then_some((sequence, length)))
    }

    /// The next whole message, with its sequence number; `None`: there is more to come.
    #[allow(clippy::should_implement_trait)] // an Iterator cannot lend its item
    pub fn next(&mut self) -> Result<Option<(u8, &[u8])>> {
        let Some((sequence, length)) = self.peek()? else {
            return Ok(None);
        };
        let from = self.start + HEADER;
        self.start = from + length;
        Ok(Some((sequence, &self.buffer[from..from + length])))
    }
}

/// Reads fields off the front of a message.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|taken| taken[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        let taken = self.bytes(2)?;
        Some(u16::from_le_bytes([taken[0], taken[1]]))
    }

    pub fn u32(&mut self) -> Option<u32> {
        let taken = self.bytes(4)?;
        Some(u32::from_le_bytes([taken[0], taken[1], taken[2], taken[3]]))
    }

    /// Up to a zero byte, which is taken too; without one, all that is left.
    pub fn text(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        let taken = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = &self.0[end.map_or(self.0.len(), |end| end + 1)..];
        taken
    }

    /// An integer that says itself how long it is. `Some(None)` is NULL.
    fn length(&mut self) -> Option<Option<u64>> {
        let count = match self.byte()? {
            0xfb => return Some(None),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            0xff => return None,
            small => return Some(Some(small.into())),
        };
        let mut number = [0; 8];
        number[..count].copy_from_slice(self.bytes(count)?);
        Some(Some(u64::from_le_bytes(number)))
    }

    pub fn integer(&mut self) -> Option<u64> {
        self.length()?
    }

    /// A string behind its length. `Some(None)` is NULL.
    pub fn string(&mut self) -> Option<Option<&'a [u8]>> {
        match self.length()? {
            None => Some(None),
            Some(length) => self.bytes(usize::try_from(length).ok()?).map(Some),
        }
    }
}

/// Writes an integer that says itself how long it is.
pub fn put_length(length: usize, out: &mut Vec<u8>) {
    let bytes = (length as u64).to_le_bytes();
    match length {
        0..=0xfa => out.push(length as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// What a server says of itself first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Greeting {
    pub version: String,
    pub capabilities: u32,
    /// By which a password is scrambled.
    pub nonce: Vec<u8>,
    pub plugin: String,
}

impl Greeting {
    pub fn parse(message: &[u8]) -> Result<Self> {
        Self::read(message).ok_or_else(|| {
            Error::protocol("the first message is not a MySQL server's greeting; does it speak MySQL's protocol?")
        })
    }

    fn read(message: &[u8]) -> Option<Self> {
        let mut reader = Reader(message);
        if reader.byte()? != 10 {
            return None;
        }
        let version = String::from_utf8_lossy(reader.text()).into_owned();
        reader.u32()?; // the connection's number
        let mut nonce = reader.bytes(8)?.to_vec();
        reader.byte()?;
        let low = reader.u16()?;
        reader.bytes(3)?; // character set, status
        let high = reader.u16()?;
        let capabilities = u32::from(low) | u32::from(high) << 16;
        let length = usize::from(reader.byte()?);
        reader.bytes(10)?;
        nonce.extend(reader.bytes(length.saturating_sub(8).max(13))?);
        // A zero byte ends it, which is not a part of it.
        nonce.truncate(20);
        let plugin = String::from_utf8_lossy(reader.text()).into_owned();
        Some(Self {
            version: version.trim_start_matches("5.5.5-").to_owned(),
            capabilities,
            nonce,
            plugin,
        })
    }
}

/// What a client says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login<'a> {
    pub user: &'a str,
    pub database: Option<&'a str>,
    pub plugin: &'a str,
    /// The scrambled password.
    pub response: &'a [u8],
    pub tls: bool,
}

impl Login<'_> {
    /// `None`: the server lacks what is needed.
    pub fn capabilities(&self, server: &Greeting) -> Option<u32> {
        use capability::*;
        let needed = PROTOCOL_41 | SECURE_CONNECTION | if self.tls { SSL } else { 0 };
        if server.capabilities & needed != needed {
            return None;
        }
        let database = match self.database {
            Some(_) => CONNECT_WITH_DB,
            None => 0,
        };
        let liked = LONG_PASSWORD | LONG_FLAG | TRANSACTIONS | PLUGIN_AUTH;
        Some(needed | database | liked & server.capabilities)
    }

    /// What asks for TLS, and begins the answer to the greeting.
    pub fn head(capabilities: u32) -> Vec<u8> {
        let mut message = capabilities.to_le_bytes().to_vec();
        message.extend_from_slice(&(1u32 << 24).to_le_bytes());
        message.push(UTF8MB4);
        message.resize(32, 0);
        message
    }

    pub fn message(&self, capabilities: u32) -> Vec<u8> {
        let mut message = Self::head(capabilities);
        message.extend_from_slice(self.user.as_bytes());
        message.push(0);
        // A scrambled password is at most 32 bytes.
        message.push(self.response.len() as u8);
        message.extend_from_slice(self.response);
        if let Some(database) = self.database {
            message.extend_from_slice(database.as_bytes());
            message.push(0);
        }
        if capabilities & capability::PLUGIN_AUTH != 0 {
            message.extend_from_slice(self.plugin.as_bytes());
            message.push(0);
        }
        message
    }
}

/// An error as the server sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: u16,
    pub state: String,
    pub message: String,
}

/// How an answer begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<'a> {
    Ok,
    Refused(Refusal),
    /// The end of a list of definitions or rows.
    End,
    Other(&'a [u8]),
}

impl<'a> Answer<'a> {
    pub fn parse(message: &'a [u8]) -> Result<Self> {
        match message.first() {
            None => Err(short("an answer")),
            Some(0) => Ok(Self::Ok),
            Some(0xff) => refusal(&message[1..])
                .map(Self::Refused)
                .ok_or_else(|| short("an error")),
            Some(0xfe) if message.len() < 9 => Ok(Self::End),
            Some(_) => Ok(Self::Other(message)),
        }
    }
}

fn refusal(message: &[u8]) -> Option<Refusal> {
    let mut reader = Reader(message);
    let code = reader.u16()?;
    let mut state = String::new();
    if reader.0.first() == Some(&b'#') {
        state = String::from_utf8_lossy(&reader.bytes(1 + STATE)?[1..]).into_owned();
    }
    Some(Refusal {
        code,
        state,
        message: String::from_utf8_lossy(reader.0).trim().to_owned(),
    })
}

/// A row of an answer as text; `None`: NULL.
pub fn row(message: &[u8], columns: usize) -> Result<Vec<Option<String>>> {
    let mut reader = Reader(message);
    (0..columns)
        .map(|_| {
            let value = reader.string().ok_or_else(|| short("a row"))?;
            Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
        })
        .collect()
}

/// A prepared statement's number, its parameters and its columns.
pub fn prepared(message: &[u8]) -> Result<(u32, u16, u16)> {
    let mut reader = Reader(message);
    let mut read = || {
        reader.byte()?;
        let number = reader.u32()?;
        let columns = reader.u16()?;
        Some((number, reader.u16()?, columns))
    };
    read().ok_or_else(|| short("the answer to PREPARE"))
}

#[cfg(test)]
mod tests;
