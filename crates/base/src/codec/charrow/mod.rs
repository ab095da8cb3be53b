//! The ClickHouse Arrow-over-TCP interface, 1.1 and 1.2: `docs/targets/charrow.md`.
//!
//! Every number is a signed 64-bit integer, big endian; a string or binary value is its
//! size and its bytes. No size is believed before it is held against a bound, and memory
//! grows with the bytes that have come, not with those that were announced.

pub mod handshake;
pub mod messages;
pub mod receive;
pub mod ring;
pub mod statistics;

#[cfg(all(test, target_os = "linux"))]
mod ring_tests;
#[cfg(test)]
mod tests;

pub const MAJOR: i64 = 1;
/// The minor versions: that of the interface, and that with our extensions.
pub const PLAIN: i64 = 1;
pub const EXTENDED: i64 = 2;

pub const DEFAULT_PORT: u16 = 9006;

/// What a message is.
pub mod flag {
    /// Client to server: the handshake, or a query.
    pub const HEADER: i64 = 0;
    /// Client to server, 1.2: a question beside the queries.
    pub const ASK: i64 = 1;
    /// Client to server, 1.2: so many bytes of the ring are free again.
    pub const FREED: i64 = 2;

    pub const ERROR: i64 = 8;
    pub const SCHEMA: i64 = 10;
    /// A block; of size 0: the end.
    pub const BLOCK: i64 = 11;
    /// 1.2: who the server is.
    pub const HELLO: i64 = 12;
    /// 1.2: a block with its checksum before it.
    pub const CHECKED_BLOCK: i64 = 13;
    /// 1.2: what was sent, before the end.
    pub const STATISTICS: i64 = 14;
    /// 1.2: the answer to a question.
    pub const ANSWER: i64 = 15;
    /// 1.2: so many more bytes of a block's body lie in the ring.
    pub const FILLED: i64 = 16;
}

/// Bytes of each string of the handshake, of a query's id and of a question's name.
pub const LONGEST_NAME: usize = 64 << 10;
/// Bytes of a query's text, and of a question's payload.
pub const LONGEST_QUERY: usize = 1 << 20;
pub const MOST_ENCODERS: usize = 1024;
/// Bytes of a server's errors, and of what it says of itself and of a query.
pub const LONGEST_TEXT: usize = 1 << 20;
/// Bytes of an Arrow message without its body: a schema, a block's header.
pub const LONGEST_HEADER: usize = 16 << 20;
/// Bytes of the answer to a question.
pub const LONGEST_ANSWER: usize = 64 << 20;
/// Bytes of a block, where a client sets no bound of its own.
pub const LARGEST_BLOCK: usize = 1 << 30;
