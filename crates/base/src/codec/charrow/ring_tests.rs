use std::collections::VecDeque;

use proptest::prelude::*;

use super::receive::{Block, Event, Receiver};
use super::ring::*;
use super::{flag, messages};
use crate::codec::ipc::{schema_to_bytes, Compression, Decoder, Encoder};
use crate::data::records;
use crate::spec::Values;
use venturi_testkit::assert_contains;

fn pair(bytes: u64) -> (Writer, Reader) {
    let writer = Writer::make(bytes as usize).unwrap();
    let file = writer.for_reader().unwrap();
    (writer, Reader::of(&file, bytes).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any pieces, told at any time and copied out in any order of the two ends: all arrive, in order.
    #[test]
    fn what_is_written_is_read(
        pieces in proptest::collection::vec(0usize..200_000, 1..12),
        turns in proptest::collection::vec(any::<bool>(), 8..64),
        size in SMALLEST..4 * SMALLEST,
    ) {
        let (mut writer, mut reader) = pair(size);
        let all: Vec<u8> = pieces.iter().enumerate()
            .flat_map(|(n, length)| (0..*length).map(move |at| (n * 31 + at * 7) as u8)).collect();
        let (mut written, mut filled, mut freed, mut read) = (0, VecDeque::new(), VecDeque::new(), vec![]);
        // Each end has a turn at last, also where all that were drawn are one end's.
        let mut turns = turns.iter().chain(&[true, false]).cycle();
        let mut piece = pieces.iter().scan(0, |end, length| { *end += length; Some(*end) }).peekable();
        let mut idle = 0;
        while read.len() < all.len() {
            prop_assert!(idle < 200, "neither end goes on");
            idle += 1;
            if *turns.next().unwrap() {
                while let Some(bytes) = freed.pop_front() {
                    writer.free(bytes as i64).unwrap();
                }
                while piece.peek().is_some_and(|end| *end == written) {
                    piece.next();
                }
                let end = piece.peek().copied().unwrap_or(written).min(written + writer.part());
                let count = writer.write(&all[written..end]);
                if count > 0 {
                    (written, idle) = (written + count, 0);
                    filled.push_back(count);
                }
            } else if let Some(count) = filled.pop_front() {
                let mut into = vec![0; count];
                reader.take(&mut into).unwrap();
                read.extend(into);
                freed.extend(reader.freed());
                idle = 0;
            }
        }
        prop_assert_eq!(read, all);
    }

    /// Whatever numbers the other end says: an error, or what the ring can hold.
    #[test]
    fn numbers_that_lie_are_refused(said in proptest::collection::vec(-3i64..300_000, 1..20)) {
        let (mut writer, mut reader) = pair(SMALLEST);
        let mut told = 0;
        for number in said {
            let used = writer.length() - writer.room();
            let right = (1..=used as i64).contains(&number);
            prop_assert_eq!(writer.free(number).is_ok(), right);
            writer.write(&[1; 9000]);
            let wanted = number.max(0) as usize;
            let taken = reader.take(&mut vec![0; wanted]).is_ok();
            prop_assert_eq!(taken, wanted <= SMALLEST as usize - told);
            told += if taken { wanted } else { 0 };
            if let Some(freed) = reader.freed() {
                prop_assert_eq!(freed, std::mem::take(&mut told));
            }
        }
        prop_assert!(writer.free(i64::MAX).is_err() && writer.free(i64::MIN).is_err());
    }
}

#[test]
fn sizes_that_lie_are_refused() {
    let writer = Writer::make(SMALLEST as usize).unwrap();
    let file = writer.for_reader().unwrap();
    let said = |length| Reader::of(&file, length).unwrap_err().message;
    for length in [0, SMALLEST - 1, LARGEST + 1, u64::MAX] {
        assert!(said(length).contains("possible are 65536 to 67108864"));
    }
    assert!(said(SMALLEST + 1).contains("cannot be read: it holds 65536 bytes"));
}

/// What a server says of blocks that lie in its ring, as far as they fit into it, and what it has to say after.
fn conversation(writer: &mut Writer, rows: &[usize], part: usize, checksum: bool) -> Vec<u8> {
    let made = |rows| records::batch(3, rows, Values::Random, 5).unwrap();
    let schema = made(1).schema();
    let mut encoder = Encoder::new(&schema, Compression::None).unwrap();
    let mut said = messages::schema(&schema_to_bytes(&schema).unwrap());
    let mut encoded = vec![];
    for rows in rows {
        encoder.encode(&made(*rows), &mut encoded).unwrap();
        for one in encoded.drain(..) {
            let block = messages::block(one, checksum);
            said.extend(block.pieces[0].as_slice());
            let body: Vec<u8> = block.pieces[1..]
                .iter()
                .flat_map(|piece| piece.as_slice().to_vec())
                .collect();
            for piece in body.chunks(part) {
                assert_eq!(writer.write(piece), piece.len());
                said.extend(messages::filled(piece.len()));
            }
        }
    }
    said.extend(messages::statistics("{}"));
    said.extend(messages::end());
    said
}

/// All that is said, in pieces of this size; and what the server was told is free: never more than was copied
/// out, and all of it but less than a part.
fn hear(said: &[u8], reader: Reader, cut: usize) -> (Vec<Event>, usize, Option<String>) {
    let mut receiver = Receiver::new(1 << 20);
    receiver.attach(reader);
    let (mut events, mut freed, mut rest) = (vec![], 0, said);
    loop {
        let next = receiver.next();
        let tells = receiver.freed();
        freed += tells.unwrap_or(0);
        let untold = receiver.copied().checked_sub(freed as u64);
        assert!(untold.is_some_and(|untold| untold < RING / 4), "{untold:?}");
        match next {
            Ok(Some(event)) => events.push(event),
            Ok(None) if tells.is_some() => {}
            Ok(None) if rest.is_empty() => return (events, freed, None),
            Ok(None) => {
                let read = receiver.fill(|places| {
                    let here = places[0].len().min(rest.len()).min(cut);
                    places[0][..here].copy_from_slice(&rest[..here]);
                    rest = &rest[here..];
                    here
                });
                receiver.filled(read);
            }
            Err(error) => return (events, freed, Some(error.message)),
        }
    }
}

const RING: u64 = 256 << 10;

/// What a checksum is over, as it came.
fn payload(block: &Block) -> (Vec<u8>, Vec<u8>) {
    let body = block.body.as_ref().map_or(vec![], |body| body.to_vec());
    (block.header.clone(), body)
}

fn blocks(events: Vec<Event>) -> Vec<Block> {
    let block = |event| match event {
        Event::Block(block) => Some(block),
        _ => None,
    };
    events.into_iter().filter_map(block).collect()
}

proptest! {
    #[test]
    fn blocks_come_through_a_ring_however_they_are_told(
        rows in proptest::collection::vec(0usize..1500, 0..6),
        part in 1000usize..100_000,
        cut in 1usize..5000,
        checksum: bool,
    ) {
        let (mut writer, reader) = pair(RING);
        let said = conversation(&mut writer, &rows, part, checksum);
        let used = writer.length() - writer.room();
        let (events, freed, error) = hear(&said, reader, cut);
        prop_assert_eq!(error, None);
        prop_assert!(freed <= used && used - freed < RING as usize / 4);
        let mut decoder = Decoder::default();
        let mut found = vec![];
        for event in events {
            match event {
                Event::Schema(bytes) => drop(decoder.message(&bytes[8..], None).unwrap()),
                Event::Block(block) => {
                    block.check().unwrap();
                    found.push(decoder.message(&block.header, block.body).unwrap().unwrap().num_rows());
                }
                _ => {}
            }
        }
        prop_assert_eq!(found, rows);
    }

    /// Changed, put in, or said twice: an error or a message, and one whose checksum is right is an original.
    #[test]
    fn a_conversation_that_was_changed_is_an_error_or_a_message(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        again in any::<proptest::sample::Index>(),
        numbers in proptest::collection::vec((any::<proptest::sample::Index>(), -2i64..300_000), 0..3),
        cut in 1usize..5000,
    ) {
        let (mut writer, reader) = pair(RING);
        let mut said = conversation(&mut writer, &[900, 1200, 7], 20_000, true);
        let same = Reader::of(&writer.for_reader().unwrap(), RING).unwrap();
        let originals: Vec<_> = blocks(hear(&said, same, cut).0).iter().map(payload).collect();
        prop_assert_eq!(originals.len(), 3);
        for (at, byte) in changes {
            let at = at.index(said.len());
            said[at] = byte;
        }
        for (at, number) in numbers {
            let at = at.index(said.len() / 8) * 8;
            said.splice(at..at, messages::filled(0)[..8].iter().copied().chain(number.to_be_bytes()));
        }
        let at = again.index(said.len() / 16) * 16;
        let piece = said[at..said.len().min(at + 48)].to_vec();
        said.splice(at..at, piece);
        let (events, _, _) = hear(&said, reader, cut);
        let mut decoder = Decoder::limited(1 << 24);
        for block in blocks(events) {
            if block.has_checksum() && block.check().is_ok() {
                prop_assert!(originals.contains(&payload(&block)));
            }
            let _ = decoder.message(&block.header, block.body);
        }
    }
}

#[test]
fn what_must_not_stand_in_the_middle_of_a_block_is_refused() {
    let said = |more: &[u8]| {
        let (mut writer, reader) = pair(RING);
        let mut said = conversation(&mut writer, &[1000], 1 << 20, false);
        // Before its body is told, which is its last but two messages.
        let tail = 16 + messages::statistics("{}").len() + 16;
        said.truncate(said.len() - tail);
        said.extend(more);
        hear(&said, reader, 4096).2.unwrap_or_default()
    };
    let number = |flag: i64, number: i64| [flag.to_be_bytes(), number.to_be_bytes()].concat();
    assert_eq!(said(&number(flag::FILLED, 24_000)), "");
    assert_eq!(said(&messages::answer(b"later")), "");
    assert!(said(&messages::end()).contains("flag 11 before the last 24"));
    assert!(said(&messages::statistics("{}")).contains("flag 14 before"));
    for wrong in [0, -1, i64::MIN, i64::MAX, 24_641] {
        let found = said(&number(flag::FILLED, wrong));
        assert_contains(&found, &format!("says that {wrong} bytes of a block"));
    }
    let whole = [number(flag::FILLED, 24_000), number(flag::FILLED, 5)].concat();
    assert!(said(&whole).contains("no block has begun"));
}

/// Without a ring nobody speaks of one.
#[test]
fn a_ring_that_there_is_none_of_is_not_filled() {
    let mut receiver = Receiver::new(1000);
    receiver.fill(|places| places[0][..16].copy_from_slice(&messages::filled(9)));
    receiver.filled(16);
    assert!(receiver.next().unwrap_err().message.contains("flag 16"));
}
