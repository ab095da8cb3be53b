//! What a Cassandra sends: frames, compressed or not as the first byte says. Each is an error
//! or an answer, whose error can be printed.

use venturi_core::target::cassandra::frame::{Answer, Compression, Head, HEAD};

pub fn run(input: &[u8]) {
    let (which, mut rest) = super::first(input);
    let compression = [None, Some(Compression::Lz4), Some(Compression::Snappy)];
    let compression = compression[usize::from(which) % compression.len()];
    while let Ok(Some(head)) = Head::parse(rest) {
        let body = &rest[HEAD..];
        let body = &body[..head.length.min(body.len())];
        if let Ok(answer) = Answer::parse(&head, body, compression, 1 << 20) {
            let _ = format!("{answer:?}");
        }
        let _ = (head.is_done(true), head.is_done(false));
        rest = &rest[HEAD + body.len()..];
    }
}
