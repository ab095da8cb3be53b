//! The far end: a thread or a process of ours that blocks.

use std::io::{IoSlice, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{failed, MOST_BATCH};
use crate::Tally;
use venturi_base::codec::ipc::Encoder;
use venturi_base::codec::ipc_queue::{Queue, MOST_PIECES};
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::data::digest::digest;
use venturi_base::data::Cursor;
use venturi_base::error::{Error, Kind, Result};

/// Encodes and writes until all is written, or it shall stop.
pub fn give(
    pipe: &mut impl Write,
    mut cursor: Cursor,
    mut encoder: Encoder,
    checksum: bool,
    stop: &AtomicBool,
) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut encoded = vec![encoder.schema_message()];
    let mut left = Queue::default();
    loop {
        for message in encoded.drain(..) {
            left.push(message)?;
        }
        let next = match stop.load(Ordering::Acquire) {
            true => None,
            false => cursor.next(),
        };
        if next.is_none() {
            left.end()?;
        }
        while !left.is_empty() {
            let mut slices = [IoSlice::new(&[]); MOST_PIECES];
            let filled = left.pieces(&mut slices);
            let written = pipe.write_vectored(&slices[..filled]);
            let written = written.map_err(|error| failed("writing", &error))?;
            tally.wire_bytes += written as u64;
            left.advance(written);
        }
        let Some(item) = next else {
            return Ok(tally);
        };
        tally.rows += item.rows;
        if checksum {
            tally.checksum = tally.checksum.wrapping_add(item.digest()?);
        }
        encoder.encode(item.batch(), &mut encoded)?;
    }
}

/// Reads and decodes until the stream's end.
pub fn take(pipe: &mut impl Read, checksum: bool) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut reader = StreamReader::new(MOST_BATCH);
    while !reader.is_ended() {
        let read = pipe.read(reader.room());
        let bytes = read.map_err(|error| failed("reading", &error))?;
        if bytes == 0 {
            return Err(Error::new(Kind::Lost, "the stream was cut"));
        }
        tally.wire_bytes += bytes as u64;
        reader.filled(bytes)?;
        if let Some(batch) = reader.take_ready() {
            tally.rows += batch.num_rows() as u64;
            if checksum {
                tally.checksum = tally.checksum.wrapping_add(digest(&batch)?);
            }
        }
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_cut_is_an_error() {
        let error = take(&mut &[0xff; 4][..], true).unwrap_err();
        assert!(error.message.contains("was cut"), "{error}");
    }
}
