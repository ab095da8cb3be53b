use arrow_array::RecordBatch;
use proptest::prelude::*;

use super::handshake::{Fault, Handshake, Parameters, Request};
use super::messages;
use super::receive::{Event, Receiver};
use crate::codec::ipc::{schema_to_bytes, Compression, Decoder, Encoder};
use venturi_testkit::arrow::numbers_and_texts;

fn batch(rows: usize) -> RecordBatch {
    numbers_and_texts(0..rows as i64)
}

fn bytes(wrapped: &messages::Wrapped) -> Vec<u8> {
    let pieces = wrapped.pieces.iter().map(|piece| piece.as_slice());
    let all = pieces.collect::<Vec<_>>().concat();
    assert_eq!(all.len(), wrapped.length);
    all
}

/// All that is said, fed in pieces of these sizes over and over.
fn hear(bytes: &[u8], cuts: &[usize], largest: usize) -> (Vec<Event>, Option<String>) {
    let mut receiver = Receiver::new(largest);
    let mut events = Vec::new();
    let mut rest = bytes;
    let mut cuts = cuts.iter().cycle();
    loop {
        match receiver.next() {
            Ok(Some(event)) => events.push(event),
            Ok(None) if rest.is_empty() => return (events, None),
            Ok(None) => {
                let cut = cuts.next().copied().unwrap_or(1).max(1);
                let read = receiver.fill(|places| {
                    let mut read = 0;
                    for place in places.iter_mut() {
                        let here = place.len().min(rest.len()).min(cut - read);
                        place[..here].copy_from_slice(&rest[..here]);
                        rest = &rest[here..];
                        read += here;
                    }
                    read
                });
                receiver.filled(read);
            }
            Err(error) => return (events, Some(error.message)),
        }
    }
}

fn conversation(rows: &[usize], compression: Compression, checksum: bool) -> Vec<u8> {
    let schema = batch(0).schema();
    let mut encoder = Encoder::new(&schema, compression).unwrap();
    let mut all = messages::hello("version=1.2\npid=7");
    all.extend(messages::schema(&schema_to_bytes(&schema).unwrap()));
    let mut encoded = vec![];
    for rows in rows {
        encoder.encode(&batch(*rows), &mut encoded).unwrap();
        for one in encoded.drain(..) {
            all.extend(bytes(&messages::block(one, checksum)));
        }
    }
    all.extend(messages::statistics("{}"));
    all.extend(messages::end());
    all.extend(messages::answer(b"later"));
    all.extend(messages::error("no more"));
    all
}

proptest! {
    #[test]
    fn what_is_said_is_heard_however_it_is_cut(
        rows in proptest::collection::vec(0usize..2000, 0..4),
        cuts in proptest::collection::vec(1usize..9000, 1..5),
        how in 0usize..3,
        checksum: bool,
    ) {
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd(3)][how];
        let (events, error) = hear(&conversation(&rows, compression, checksum), &cuts, 1 << 20);
        prop_assert_eq!(error, None);
        let mut decoder = Decoder::default();
        let mut found = vec![];
        let mut others = vec![];
        for event in events {
            match event {
                Event::Schema(bytes) => {
                    prop_assert!(decoder.message(&bytes[8..], None).unwrap().is_none());
                }
                Event::Block(block) => {
                    prop_assert_eq!(block.has_checksum(), checksum);
                    block.check().unwrap();
                    found.push(decoder.message(&block.header, block.body).unwrap().unwrap());
                }
                Event::Hello(text) | Event::Statistics(text) | Event::Error(text) => others.push(text),
                Event::Answer(bytes) => others.push(String::from_utf8(bytes).unwrap()),
                Event::End => others.push("end".into()),
            }
        }
        let expected: Vec<_> = rows.iter().map(|rows| batch(*rows)).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(others.join("|"), "version=1.2\npid=7|{}|end|later|no more");
    }

    #[test]
    fn a_changed_byte_is_noticed(at in 16usize..4000, bit in 0u8..8) {
        let mut encoder = Encoder::new(&batch(0).schema(), Compression::None).unwrap();
        let mut encoded = vec![];
        encoder.encode(&batch(500), &mut encoded).unwrap();
        let mut all = bytes(&messages::block(encoded.remove(0), true));
        // The size is not covered: a wrong one is noticed by what follows.
        let at = 24 + 8 + at % (all.len() - 32);
        all[at] ^= 1 << bit;
        let (events, _) = hear(&all, &[700], 1 << 20);
        for event in events {
            if let Event::Block(block) = event {
                prop_assert!(block.check().is_err());
            }
        }
    }

    #[test]
    fn a_conversation_that_was_changed_is_an_error_or_a_message(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
        how in 0usize..3,
        checksum: bool,
    ) {
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd(3)][how];
        let mut said = conversation(&[300, 300, 17], compression, checksum);
        for (at, byte) in changes {
            let at = at.index(said.len());
            said[at] = byte;
        }
        // A piece is left out.
        let at = cut.index(said.len());
        said.drain(at..(at + 9).min(said.len()));
        let (events, _) = hear(&said, &[4000, 3], 1 << 20);
        let mut decoder = Decoder::limited(1 << 24);
        for event in events {
            match event {
                Event::Schema(bytes) => {
                    if let Ok(header) = super::receive::ipc_header(&bytes) {
                        let _ = decoder.message(header, None);
                    }
                }
                Event::Block(block) => {
                    let _ = block.check();
                    if let Ok(Some(batch)) = decoder.message(&block.header, block.body) {
                        let _ = crate::data::digest(&batch);
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_a_message(noise in proptest::collection::vec(any::<u8>(), 0..200), flag in 0i64..17) {
        let mut all = flag.to_be_bytes().to_vec();
        all.extend(noise);
        let _ = hear(&all, &[7, 1, 30], 4096);
        let _ = Handshake::read(&mut &all[..]);
        let _ = Request::read(&mut &all[..], true);
    }

    #[test]
    fn handshakes_and_requests_come_back(
        client in "\\PC{0,40}", database in "\\PC{0,9}", password in "\\PC{0,9}",
        id in "\\PC{0,40}", text in "\\PC{0,80}", encoders in 1usize..1024, minor in 1i64..3, number: i64,
    ) {
        let said = Handshake { minor, client, database, user: "u".into(), password, encoders };
        let bytes = said.write();
        prop_assert_eq!(&Handshake::read(&mut &bytes[..]).unwrap(), &said);
        for cut in 0..bytes.len() {
            let half = Handshake::read(&mut &bytes[..cut]);
            prop_assert!(matches!(half, Err(Fault::Io(_))), "cut at {}", cut);
        }
        for request in [
            Request::Query { id: id.clone(), text: text.clone() },
            Request::Ask { name: id, payload: text },
            Request::Freed(number),
        ] {
            let bytes = request.write();
            prop_assert_eq!(Request::read(&mut &bytes[..], true).unwrap(), Some(request));
        }
        prop_assert_eq!(Request::read(&mut &[][..], false).unwrap(), None);
    }
}

#[test]
fn parameters_travel_in_the_name() {
    let said = Parameters {
        compression: Compression::Zstd(7),
        checksum: true,
        partition: Some(3),
        partitions: Some(8),
        trial: Some("abc".into()),
        verify: Some("checksum".into()),
        sample: Some(5),
        block_bytes: Some(1 << 20),
        ring: Some(4 << 20),
    };
    let name = said.name("venturi 0.1.0");
    assert!(name.starts_with("venturi 0.1.0\ncompression=zstd:7\nchecksum=xxh3\n"));
    assert_eq!(Parameters::parse(&name).unwrap(), said);
    let unknown = Parameters::parse("CHSpark 1.0; whatever=1\nunknown=2").unwrap();
    assert_eq!(unknown, Parameters::default());
    assert!(Parameters::parse("x\npartition=-1").is_err());
    assert!(Parameters::parse("x\ncompression=brotli").is_err());
}

#[test]
fn handshakes_that_lie_are_told_what_is_wrong() {
    let right = venturi_testkit::charrow::plain(1).write();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = right.clone();
        change(&mut bytes);
        match Handshake::read(&mut &bytes[..]) {
            Err(Fault::Wrong(text)) => text,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(&|bytes| bytes[7] = 5).contains("flag 5"));
    assert!(refused(&|bytes| bytes[15] = 2).contains("version 2.1"));
    assert!(refused(&|bytes| bytes[16] = 0x80).contains("version 1.-"));
    assert!(refused(&|bytes| bytes[24] = 0xff).contains("name has a size of -"));
    assert!(refused(&|bytes| bytes[28] = 1).contains("0 to 65536"));
    assert!(refused(&|bytes| bytes[32] = 0xff).contains("not UTF-8"));
    let end = right.len();
    assert!(refused(&|bytes| bytes[end - 17] = b'W').contains("unknown encoder \"ArroW\""));
    assert!(refused(&|bytes| bytes[end - 1] = 0).contains("0 encoders"));
    assert!(refused(&|bytes| bytes[end - 2] = 5).contains("1281 encoders"));
}

#[test]
fn sizes_that_lie_are_refused_before_memory_is_taken() {
    let said = |flag: i64, rest: &[i64]| {
        let mut all = flag.to_be_bytes().to_vec();
        rest.iter().for_each(|n| all.extend(n.to_be_bytes()));
        hear(&all, &[1000], 1 << 20).1.unwrap_or_default()
    };
    assert!(said(11, &[-1]).contains("-1 bytes"));
    assert!(said(11, &[i64::MAX]).contains("max_block_bytes"));
    assert!(said(13, &[7, 0, 0]).contains("not an Arrow IPC"));
    assert!(said(10, &[i64::MIN]).contains("possible are"));
    assert!(said(8, &[1 << 40]).contains("possible are"));
    assert!(said(12, &[2 << 20]).contains("up to 1048576"));
    assert!(said(10, &[20 << 20]).contains("up to 16777216"));
    assert!(said(15, &[65 << 20]).contains("up to 67108864"));
    assert!(said(9, &[]).contains("flag 9"));
    assert!(said(-1, &[]).contains("flag -1"));
    assert!(said(11, &[100, -1]).contains("header would be"));
    // A large block that never comes has its memory lazily, and its message is half way.
    assert_eq!(said(11, &[1 << 20]), "");
}
