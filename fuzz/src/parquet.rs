//! A Parquet file as ClickHouse answers with it: an error, or batches whose values can be read.

use venturi_core::data::digest;
use venturi_core::target::clickhouse::{Feed, Format};

const LIMIT: usize = 1 << 22;

pub fn run(input: &[u8]) {
    let mut feed = Feed::new(Format::Parquet, &[], true, 100, LIMIT).expect("a format");
    let mut bytes = input;
    while !bytes.is_empty() {
        let room = feed.room().expect("less than the limit");
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        feed.filled(count)
            .expect("a file is looked at when it is whole");
        assert!(feed.next_batch().expect("neither here").is_none());
    }
    if feed.end().is_err() {
        return;
    }
    let mut rows = 0;
    while let Ok(Some(batch)) = feed.next_batch() {
        let _ = digest(&batch);
        rows += batch.num_rows();
        // A few bytes may stand for very many rows that are alike.
        if rows > 100_000 {
            return;
        }
    }
}
