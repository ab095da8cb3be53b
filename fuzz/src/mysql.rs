//! Where it is cut, and what a MySQL server sends: the cuts make no difference, and no packet panics.

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

pub fn run(input: &[u8]) {
    let (cut, bytes) = super::first(input);
    let whole = messages(bytes, usize::MAX);
    assert_eq!(whole, messages(bytes, usize::from(cut) + 1));
    for message in &whole.0 {
        let _ = Greeting::parse(message);
        let _ = Answer::parse(message);
        let _ = prepared(message);
        let _ = row(message, 9);
    }
}
