//! Where it is cut, and an Arrow stream of a hostile server: the cuts make no difference, and
//! it is an error or batches whose values can be read.

use venturi_core::codec::ipc_stream::StreamReader;
use venturi_core::data::digest;

const LIMIT: usize = 1 << 22;

/// The batches' digests, and how it ended.
fn read(mut bytes: &[u8], cut: usize) -> (Vec<Option<u64>>, Result<bool, String>) {
    let mut reader = StreamReader::new(LIMIT);
    let mut found = Vec::new();
    while !bytes.is_empty() && !reader.is_ended() {
        let room = reader.room();
        assert!(!room.is_empty());
        let count = room.len().min(cut).min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        if let Err(error) = reader.filled(count) {
            return (found, Err(error.message));
        }
        found.extend(reader.take_ready().map(|batch| digest(&batch).ok()));
    }
    (found, Ok(reader.is_between()))
}

pub fn run(input: &[u8]) {
    let (cut, bytes) = super::first(input);
    assert_eq!(read(bytes, usize::MAX), read(bytes, usize::from(cut) + 1));
}
