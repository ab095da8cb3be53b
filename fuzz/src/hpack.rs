//! Two header blocks, one after the other: the second one finds the first one's table.

use venturi_core::codec::hpack::{encode, Decoder};

const LIMIT: usize = 64 << 10;

pub fn run(input: &[u8]) {
    let mut decoder = Decoder::default();
    let (first, second) = super::two(input);
    for block in [first, second] {
        let Ok(headers) = decoder.decode(block, LIMIT) else {
            return;
        };
        // What was understood can be said again, and means the same.
        let mut again = Vec::new();
        for header in &headers {
            encode(&header.name, header.value.as_bytes(), &mut again);
        }
        let decoded = Decoder::default().decode(&again, LIMIT);
        assert_eq!(decoded.as_ref(), Ok(&headers));
    }
}
