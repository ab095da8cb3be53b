//! What a MySQL server sends: where packets are cut makes no difference, and none of them panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use venturi_core::codec::mysql::{prepared, row, Answer, Assembler, Greeting};

fn messages(bytes: &[u8], cut: usize) -> (Vec<Vec<u8>>, bool) {
    let mut assembler = Assembler::default();
    let mut found = Vec::new();
    let mut rest = bytes;
    loop {
        loop {
            match assembler.next() {
                Ok(Some((_, message))) => found.push(message.to_vec()),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
        if rest.is_empty() {
            return (found, false);
        }
        let room = assembler.room();
        let count = rest.len().min(cut).min(room.len());
        room[..count].copy_from_slice(&rest[..count]);
        assembler.filled(count);
        rest = &rest[count..];
    }
}

fuzz_target!(|input: (&[u8], u8)| {
    let (bytes, cut) = input;
    let whole = messages(bytes, usize::MAX);
    assert_eq!(whole, messages(bytes, usize::from(cut) + 1));
    for message in &whole.0 {
        let _ = Greeting::parse(message);
        let _ = Answer::parse(message);
        let _ = prepared(message);
        let _ = row(message, 9);
    }
});
