//! HPACK (RFC 7541): header compression of HTTP/2.
//!
//! The decoder is complete (static and dynamic table, Huffman), because a peer may
//! use all of it. The encoder writes literals without indexing: a gRPC call has a
//! dozen short headers, and a stateless encoder cannot fall out of step.

use std::collections::VecDeque;
use std::sync::OnceLock;

/// A header as it came: names are lower case on the wire, values are any bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub name: String,
    pub value: String,
}

/// What a header block may not be: the connection cannot go on, its table is out of step.
#[derive(Debug, PartialEq, Eq)]
pub struct HpackError(pub &'static str);

type Result<T> = std::result::Result<T, HpackError>;

/// RFC 7541 section 4.1: an entry's size counts 32 bytes over its text.
const ENTRY_OVERHEAD: usize = 32;
/// SETTINGS_HEADER_TABLE_SIZE that we leave at its default (RFC 9113, 6.5.2).
pub const TABLE_LIMIT: usize = 4096;
/// Before a block's first header: its encoder uses no table (section 6.3).
pub const NO_TABLE: u8 = 0x20;

#[derive(Debug, Default)]
pub struct Decoder {
    dynamic: VecDeque<Header>,
    size: usize,
    capacity: Option<usize>,
}

impl Decoder {
    /// Decodes one whole header block; its headers together may have `limit` bytes.
    pub fn decode(&mut self, block: &[u8], limit: usize) -> Result<Vec<Header>> {
        let mut input = Input(block);
        let mut headers = Vec::new();
        let mut total = 0;
        while let Some(first) = input.peek() {
            let header = if first & 0x80 != 0 {
                let index = input.integer(7)?;
                self.entry(index)?
            } else if first & 0x40 != 0 {
                let header = self.literal(&mut input, 6)?;
                self.insert(header.clone());
                header
            } else if first & 0x20 != 0 {
                if !headers.is_empty() {
                    return Err(HpackError("table size within a block"));
                }
                let capacity = input.integer(5)?;
                if capacity > TABLE_LIMIT {
                    return Err(HpackError("table size above the limit"));
                }
                self.capacity = Some(capacity);
                self.evict();
                continue;
            } else {
                self.literal(&mut input, 4)?
            };
            total += header.name.len() + header.value.len() + ENTRY_OVERHEAD;
            if total > limit {
                return Err(HpackError("header list too large"));
            }
            headers.push(header);
        }
        Ok(headers)
    }

    fn literal(&self, input: &mut Input<'_>, prefix: u32) -> Result<Header> {
        let index = input.integer(prefix)?;
        let name = if index == 0 {
            input.string()?
        } else {
            self.entry(index)?.name
        };
        let value = input.string()?;
        Ok(Header { name, value })
    }

    fn entry(&self, index: usize) -> Result<Header> {
        match index {
            0 => Err(HpackError("index 0")),
            1..=61 => {
                let (name, value) = STATIC_TABLE[index - 1];
                Ok(Header {
                    name: name.into(),
                    value: value.into(),
                })
            }
            _ => self
                .dynamic
                .get(index - 62)
                .cloned()
                .ok_or(HpackError("index beyond the table")),
        }
    }

    fn insert(&mut self, header: Header) {
        self.size += header.name.len() + header.value.len() + ENTRY_OVERHEAD;
        self.dynamic.push_front(header);
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.capacity.unwrap_or(TABLE_LIMIT) {
            match self.dynamic.pop_back() {
                Some(old) => self.size -= old.name.len() + old.value.len() + ENTRY_OVERHEAD,
                None => break,
            }
        }
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn byte(&mut self) -> Result<u8> {
        let (&first, rest) = self.0.split_first().ok_or(HpackError("cut short"))?;
        self.0 = rest;
        Ok(first)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        if length > self.0.len() {
            return Err(HpackError("cut short"));
        }
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    /// RFC 7541 section 5.1, bounded to what a sane block can hold.
    fn integer(&mut self, prefix: u32) -> Result<usize> {
        let mask = (1usize << prefix) - 1;
        let mut value = self.byte()? as usize & mask;
        if value < mask {
            return Ok(value);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()? as usize;
            value += (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(HpackError("integer too large"))
    }

    fn string(&mut self) -> Result<String> {
        let huffman = self.peek().is_some_and(|byte| byte & 0x80 != 0);
        let length = self.integer(7)?;
        let bytes = self.take(length)?;
        let bytes = if huffman {
            huffman_decode(bytes)?
        } else {
            bytes.to_vec()
        };
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

/// A binary tree in an array: node -> [child 0, child 1]; children >= `LEAF` are symbols.
const LEAF: u16 = 0x8000;

fn huffman_tree() -> &'static Vec<[u16; 2]> {
    static TREE: OnceLock<Vec<[u16; 2]>> = OnceLock::new();
    TREE.get_or_init(|| {
        // The code is canonical: consecutive codes in the order of (length, symbol).
        let mut symbols: Vec<usize> = (0..256).collect();
        symbols.sort_by_key(|&symbol| (HUFFMAN_LENGTHS[symbol], symbol));
        let mut tree = vec![[0u16; 2]];
        let mut code = 0u32;
        let mut length = HUFFMAN_LENGTHS[symbols[0]];
        for (k, &symbol) in symbols.iter().enumerate() {
            if k > 0 {
                code = (code + 1) << (HUFFMAN_LENGTHS[symbol] - length);
                length = HUFFMAN_LENGTHS[symbol];
            }
            let mut node = 0;
            for bit in (0..length).rev() {
                let side = (code >> bit) as usize & 1;
                if bit == 0 {
                    tree[node][side] = LEAF | symbol as u16;
                } else {
                    if tree[node][side] == 0 {
                        tree.push([0; 2]);
                        tree[node][side] = (tree.len() - 1) as u16;
                    }
                    node = tree[node][side] as usize;
                }
            }
        }
        tree
    })
}

fn huffman_decode(bytes: &[u8]) -> Result<Vec<u8>> {
    let tree = huffman_tree();
    let mut text = Vec::with_capacity(bytes.len() * 8 / 5);
    let mut node = 0;
    let mut depth = 0;
    let mut padding = true;
    for &byte in bytes {
        for bit in (0..8).rev() {
            let side = (byte >> bit) as usize & 1;
            depth += 1;
            padding &= side == 1;
            match tree[node][side] {
                0 => return Err(HpackError("not a Huffman code")),
                leaf if leaf & LEAF != 0 => {
                    text.push((leaf & !LEAF) as u8);
                    (node, depth, padding) = (0, 0, true);
                }
                next => node = next as usize,
            }
        }
    }
    // Section 5.2: at most 7 bits of padding, all ones.
    if depth > 7 || !padding {
        return Err(HpackError("wrong Huffman padding"));
    }
    Ok(text)
}

/// Appends one header as a literal without indexing (section 6.2.2).
pub fn encode(name: &str, value: &[u8], block: &mut Vec<u8>) {
    block.push(0);
    encode_integer(name.len(), block);
    block.extend_from_slice(name.as_bytes());
    encode_integer(value.len(), block);
    block.extend_from_slice(value);
}

/// A length with a 7-bit prefix and no Huffman bit.
fn encode_integer(mut value: usize, block: &mut Vec<u8>) {
    if value < 127 {
        block.push(value as u8);
        return;
    }
    block.push(127);
    value -= 127;
    while value >= 128 {
        block.push(value as u8 | 0x80);
        value >>= 7;
    }
    block.push(value as u8);
}

/// RFC 7541 appendix B: code lengths by symbol (the codes follow from them).
#[rustfmt::skip]
const HUFFMAN_LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// RFC 7541 appendix A.
#[rustfmt::skip]
const STATIC_TABLE: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""),
    ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(name: &str, value: &str) -> Header {
        Header {
            name: name.into(),
            value: value.into(),
        }
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split_whitespace().collect();
        (0..digits.len())
            .step_by(2)
            .map(|k| u8::from_str_radix(&digits[k..k + 2], 16).unwrap())
            .collect()
    }

    /// RFC 7541 appendix C.4 and C.6: requests and responses with Huffman, one table each.
    #[test]
    fn decodes_the_rfc_examples() {
        let mut decoder = Decoder::default();
        let first = bytes("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff");
        assert_eq!(
            decoder.decode(&first, 4096).unwrap(),
            [
                header(":method", "GET"),
                header(":scheme", "http"),
                header(":path", "/"),
                header(":authority", "www.example.com"),
            ]
        );
        let second = bytes("8286 84be 5886 a8eb 1064 9cbf");
        assert_eq!(
            decoder.decode(&second, 4096).unwrap()[3..],
            [
                header(":authority", "www.example.com"),
                header("cache-control", "no-cache"),
            ]
        );
        let third = bytes("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
        assert_eq!(
            decoder.decode(&third, 4096).unwrap()[4],
            header("custom-key", "custom-value")
        );
    }

    #[test]
    fn evicts_the_oldest() {
        let mut decoder = Decoder::default();
        decoder.decode(&[0x3f, 0xe1, 0x00], 4096).unwrap(); // capacity 128
        for k in 0..10 {
            let mut block = vec![0x40, 1, b'k', 1];
            block.push(b'0' + k);
            decoder.decode(&block, 4096).unwrap();
        }
        assert_eq!(decoder.dynamic.len(), 128 / (2 + ENTRY_OVERHEAD));
        assert_eq!(decoder.dynamic[0].value, "9");
    }

    #[test]
    fn bounds_the_header_list() {
        let mut decoder = Decoder::default();
        let block = [0x82u8; 1000];
        assert!(decoder.decode(&block, 10_000).is_err());
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(pairs in prop::collection::vec(("[a-z-]{1,200}", "[ -~]{0,300}"), 0..20)) {
            let mut block = Vec::new();
            for (name, value) in &pairs {
                encode(name, value.as_bytes(), &mut block);
            }
            let decoded = Decoder::default().decode(&block, 1 << 20).unwrap();
            let expected: Vec<_> = pairs.iter().map(|(n, v)| header(n, v)).collect();
            prop_assert_eq!(decoded, expected);
        }

        #[test]
        fn garbage_is_refused_not_followed(block in prop::collection::vec(any::<u8>(), 0..512)) {
            let mut decoder = Decoder::default();
            let _ = decoder.decode(&block, 4096);
            prop_assert!(decoder.size <= TABLE_LIMIT);
        }
    }
}
