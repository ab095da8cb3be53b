//! Are a file's pages what was written? Their headers have checksums.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use flate2::Crc;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::page_header;

const BUFFER: usize = 256 << 10;

/// Whether every page has the checksum of its header.
pub fn pages(path: &Path) -> Result<()> {
    sense(|| {
        let file = File::open(path)?;
        let reader = SerializedFileReader::new(file.try_clone()?)?;
        columns(file, reader.metadata())
    })
}

/// The rows that a file's footer promises. No page is read.
pub fn promised_rows(path: &Path) -> Result<u64> {
    sense(|| {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        Ok(reader.metadata().file_metadata().num_rows() as u64)
    })
}

/// What reads a file. One that makes no sense is an error, never a panic: others than us may
/// have written to it.
pub fn sense<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    let broken = |_| Err(ParquetError::General("the file makes no sense".into()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(broken)
}

fn columns(file: File, metadata: &ParquetMetaData) -> Result<()> {
    let mut file = BufReader::with_capacity(BUFFER, file);
    let mut buffer = vec![0; BUFFER];
    for (place, group) in metadata.row_groups().iter().enumerate() {
        for column in group.columns() {
            let wrong = |what: &dyn std::fmt::Display| {
                let name = column.column_path().string();
                ParquetError::General(format!("{name} of row group {place}: {what}"))
            };
            let (start, length) = range(column).ok_or_else(|| wrong(&"it has no place"))?;
            let checked = chunk(&mut file, start, length, &mut buffer);
            checked.map_err(|error| wrong(&error))?;
        }
    }
    Ok(())
}

/// Where a column chunk begins, and its bytes.
fn range(column: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    let data = column.data_page_offset();
    let start = column
        .dictionary_page_offset()
        .map_or(data, |it| it.min(data));
    let length = column.compressed_size();
    Some((u64::try_from(start).ok()?, u64::try_from(length).ok()?))
}

fn chunk(file: &mut BufReader<File>, start: u64, length: u64, buffer: &mut [u8]) -> io::Result<()> {
    let damaged = |at: u64, what: &str| {
        let text = format!("the page at byte {at} {what}");
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    file.seek(SeekFrom::Start(start))?;
    let (mut at, end) = (start, start.saturating_add(length));
    while at < end {
        let mut counted = Counted {
            inner: &mut *file,
            bytes: 0,
        };
        let header = page_header::read(&mut counted);
        let header = header.map_err(|_| damaged(at, "has a damaged header"))?;
        let behind = at + counted.bytes;
        if header.compressed > end.saturating_sub(behind) {
            return Err(damaged(at, "is longer than its column"));
        }
        let mut crc = Crc::new();
        let mut left = header.compressed;
        while left > 0 {
            let most = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            let piece = &mut buffer[..most];
            file.read_exact(piece)?;
            crc.update(piece);
            left -= piece.len() as u64;
        }
        if header.crc != Some(crc.sum()) {
            return Err(damaged(at, "is damaged: it does not have its checksum"));
        }
        at = behind + header.compressed;
    }
    Ok(())
}

/// Tells how much was read.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(room)?;
        self.bytes += read as u64;
        Ok(read)
    }
}
