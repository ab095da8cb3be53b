//! Arrow's own Flight performance protocol (`arrow.flight.perf`), two protobuf messages.

use prost::Message;

/// What a trial moves. C++ leaves `schema` empty; Venturi's own server honours it.
#[derive(Clone, PartialEq, Message)]
pub struct Perf {
    #[prost(bytes = "vec", tag = "1")]
    pub schema: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub stream_count: i32,
    #[prost(int64, tag = "3")]
    pub records_per_stream: i64,
    #[prost(int32, tag = "4")]
    pub records_per_batch: i32,
}

/// A ticket: one stream's share, rows `start..end`.
#[derive(Clone, PartialEq, Message)]
pub struct Token {
    #[prost(message, optional, tag = "1")]
    pub definition: Option<Perf>,
    #[prost(int64, tag = "2")]
    pub start: i64,
    #[prost(int64, tag = "3")]
    pub end: i64,
}

/// The schema that the protocol is about: a, b, c, d, all int64.
pub const COLUMNS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes as Arrow C++ encodes them.
    #[test]
    fn perf_is_bit_compatible() {
        let perf = Perf {
            schema: vec![],
            stream_count: 4,
            records_per_stream: 10_000_000,
            records_per_batch: 4096,
        };
        assert_eq!(
            perf.encode_to_vec(),
            [0x10, 0x04, 0x18, 0x80, 0xad, 0xe2, 0x04, 0x20, 0x80, 0x20]
        );
        let token = Token {
            definition: Some(perf.clone()),
            start: 0,
            end: 10_000_000,
        };
        let bytes = token.encode_to_vec();
        assert_eq!(bytes[..2], [0x0a, 10]);
        assert_eq!(bytes[12..], [0x18, 0x80, 0xad, 0xe2, 0x04]);
        assert_eq!(Token::decode(&bytes[..]).unwrap(), token);
    }
}
