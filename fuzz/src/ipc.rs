//! Arrow IPC messages of a hostile peer: an error or a batch whose values can be read.
//! A message is `header length u16, body length u16, header, body`.

use arrow_buffer::Buffer;
use venturi_core::codec::ipc::{schema_from_bytes, Decoder};
use venturi_core::data::{digest, payload_bytes};

fn take<'a>(input: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    taken
}

fn length(input: &mut &[u8]) -> usize {
    take(input, 2)
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

pub fn run(input: &[u8]) {
    let _ = schema_from_bytes(input);
    let mut rest = input;
    let mut decoder = Decoder::limited(1 << 24);
    while !rest.is_empty() {
        let (header, body) = (length(&mut rest), length(&mut rest));
        let (header, body) = (take(&mut rest, header), take(&mut rest, body));
        let body = Buffer::from(body);
        // Twice: the second time it may go the short way.
        for _ in 0..2 {
            if let Ok(Some(batch)) = decoder.message(header, Some(body.clone())) {
                payload_bytes(&batch);
                let _ = digest(&batch);
            }
        }
    }
}
