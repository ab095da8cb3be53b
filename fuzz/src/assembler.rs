//! gRPC messages in DATA frames cut anywhere: the cuts make no difference. The first byte says
//! which messages; then come the cuts.

use venturi_core::codec::flight::{Assembler, Expect, Message};
use venturi_core::codec::slab::Pool;

/// What came of the bytes: the messages as text, and whether it ended in an error.
fn assemble(expect: Expect, mut bytes: &[u8], cuts: &[u8]) -> (Vec<String>, bool) {
    let mut assembler = Assembler::new(expect, 1 << 20, Pool::default());
    let mut messages = Vec::new();
    let mut keep = |message: Message| {
        messages.push(match message {
            Message::Other(bytes) => format!("{bytes:?}"),
            Message::Flight(m) => format!(
                "{:?} {:?} {:?} {:?}",
                m.descriptor,
                m.header,
                m.metadata,
                m.body.map(|body| body.as_slice().to_vec())
            ),
        });
    };
    let mut turn = 0;
    while !bytes.is_empty() {
        let cut = match cuts.is_empty() {
            true => bytes.len(),
            false => 1 + cuts[turn % cuts.len()] as usize,
        };
        turn += 1;
        let piece = &bytes[..cut.min(bytes.len())];
        if let Some(place) = assembler.direct().filter(|_| turn % 2 == 0) {
            let count = piece.len().min(place.len());
            place[..count].copy_from_slice(&piece[..count]);
            assembler.advance(count).into_iter().for_each(&mut keep);
            bytes = &bytes[count..];
            continue;
        }
        match assembler.push(piece) {
            Ok((taken, message)) => {
                message.into_iter().for_each(&mut keep);
                bytes = &bytes[taken..];
            }
            Err(_) => return (messages, true),
        }
    }
    (messages, false)
}

pub fn run(input: &[u8]) {
    let (which, rest) = super::first(input);
    let (cuts, bytes) = super::two(rest);
    let expect = if which & 1 == 1 {
        Expect::Flight
    } else {
        Expect::Other
    };
    assert_eq!(assemble(expect, bytes, cuts), assemble(expect, bytes, &[]));
}
