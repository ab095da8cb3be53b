//! The body of an answer, in each format -> batches.

use std::panic::AssertUnwindSafe;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::options::Format;
use venturi_base::codec::clickhouse::rowbinary::read_header;
use venturi_base::codec::clickhouse::{native, rowbinary, Column};
use venturi_base::codec::ipc::quietly;
use venturi_base::codec::ipc_stream::StreamReader;
use venturi_base::error::{Error, Kind, Result};

/// Bytes that are asked for at once.
const READ: usize = 256 << 10;

/// Give it bytes by `room` and `filled`, ask for `next_batch` until it has none, and say `end` once.
pub enum Feed {
    Rows(Box<Rows>),
    Blocks(Buffered, Box<native::Decoder>),
    Arrow(Box<StreamReader>),
    /// A whole file first: what is in it stands at its end.
    File(Buffered, Option<Box<ParquetRecordBatchReader>>, usize),
}

pub struct Rows {
    buffered: Buffered,
    decoder: rowbinary::Decoder,
    columns: Vec<Column>,
    /// Names and types come before the rows.
    header: bool,
    rows_per_batch: usize,
    ended: bool,
}

impl Feed {
    pub fn new(
        format: Format,
        columns: &[Column],
        header: bool,
        rows_per_batch: usize,
        limit: usize,
    ) -> Result<Self> {
        let buffered = Buffered::new(limit);
        Ok(match format {
            Format::Arrow => Self::Arrow(Box::new(StreamReader::new(limit))),
            Format::Native => Self::Blocks(buffered, Box::new(native::Decoder::limited(limit))),
            Format::Parquet => Self::File(buffered, None, rows_per_batch),
            Format::RowBinary => Self::Rows(Box::new(Rows {
                buffered,
                decoder: rowbinary::Decoder::new(columns)?.limited(limit),
                columns: columns.to_vec(),
                header,
                rows_per_batch,
                ended: false,
            })),
        })
    }

    /// Where the next bytes belong; empty where no more may come.
    pub fn room(&mut self) -> Result<&mut [u8]> {
        match self {
            Self::Arrow(reader) => Ok(reader.room()),
            Self::Rows(rows) => rows.buffered.room(),
            Self::Blocks(buffered, _) | Self::File(buffered, _, _) => buffered.room(),
        }
    }

    pub fn filled(&mut self, bytes: usize) -> Result<()> {
        match self {
            Self::Arrow(reader) => return reader.filled(bytes),
            Self::Rows(rows) => rows.buffered.to += bytes,
            Self::Blocks(buffered, _) | Self::File(buffered, _, _) => buffered.to += bytes,
        }
        Ok(())
    }

    /// The next batch of what is there.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Arrow(reader) => Ok(reader.take_ready()),
            Self::Rows(rows) => rows.next(),
            Self::Blocks(buffered, decoder) => {
                while !buffered.unread().is_empty() {
                    let Some((batch, used)) = decoder.push(buffered.unread())? else {
                        return Ok(None);
                    };
                    buffered.from += used;
                    if batch.num_rows() > 0 {
                        return Ok(Some(batch));
                    }
                }
                Ok(None)
            }
            Self::File(_, None, _) => Ok(None),
            Self::File(_, Some(reader), _) => {
                let next = quietly(AssertUnwindSafe(|| reader.next().transpose()));
                Ok(next.map_err(|_| broken_file())??)
            }
        }
    }

    /// No more bytes will come: what is there must be whole. `next_batch` may have more batches.
    pub fn end(&mut self) -> Result<()> {
        let cut = |bytes: usize| {
            let what = format!("the answer ended within a row or block ({bytes} bytes of it)");
            Err(Error::protocol(what))
        };
        match self {
            Self::Arrow(reader) if reader.is_ended() => Ok(()),
            // A query without rows may have no stream at all.
            Self::Arrow(reader) if reader.schema().is_none() && reader.is_between() => Ok(()),
            Self::Arrow(_) => Err(Error::protocol("the Arrow stream did not come to its end")),
            Self::Rows(rows) => {
                rows.ended = true;
                match rows.buffered.unread().len() {
                    0 => Ok(()),
                    left => cut(left),
                }
            }
            Self::Blocks(buffered, _) => match buffered.unread().len() {
                0 => Ok(()),
                left => cut(left),
            },
            Self::File(buffered, reader, rows_per_batch) => {
                let bytes = std::mem::take(buffered).into_bytes();
                if bytes.is_empty() {
                    return Ok(());
                }
                let rows = *rows_per_batch;
                let open = || {
                    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
                    builder.with_batch_size(rows).build()
                };
                let made = quietly(AssertUnwindSafe(open)).map_err(|_| broken_file())?;
                let wrong = |error| Error::protocol(format!("Parquet: {error}"));
                *reader = Some(Box::new(made.map_err(wrong)?));
                Ok(())
            }
        }
    }
}

fn broken_file() -> Error {
    Error::protocol("the server sent a Parquet file that contradicts itself")
}

impl Rows {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.header {
            let Some((columns, used)) = read_header(self.buffered.unread())? else {
                return Ok(None);
            };
            if columns != self.columns {
                return Err(Error::protocol(
                    "the answer has other columns than the query had when it was planned",
                ));
            }
            self.buffered.from += used;
            self.header = false;
        }
        let most = self.rows_per_batch - self.decoder.rows();
        let used = self.decoder.push(self.buffered.unread(), most)?;
        self.buffered.from += used;
        let rows = self.decoder.rows();
        match rows == self.rows_per_batch || (self.ended && rows > 0) {
            true => self.decoder.finish().map(Some),
            false => Ok(None),
        }
    }
}

/// Bytes that are not understood yet: `from..to`.
#[derive(Debug, Default)]
pub struct Buffered {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    limit: usize,
}

impl Buffered {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    fn room(&mut self) -> Result<&mut [u8]> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
        // Moved only when it pays: a block in the making may be long.
        if self.bytes.len() - self.to < READ && self.from > self.bytes.len() / 2 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.bytes.len() - self.to < READ / 4 {
            if self.to - self.from > self.limit {
                let what = format!(
                    "a block (of Parquet the whole file) of more than {} bytes: ask for smaller blocks, split it among more streams, or raise max_block_bytes",
                    self.limit
                );
                return Err(Error::new(Kind::Memory, what));
            }
            let more = (self.bytes.len() * 2).max(4 * READ);
            self.bytes.resize(more, 0);
        }
        Ok(&mut self.bytes[self.to..])
    }

    fn into_bytes(mut self) -> Bytes {
        self.bytes.truncate(self.to);
        Bytes::from(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use venturi_base::codec::clickhouse::{rowbinary, state_rows};
    use venturi_base::data::digest;

    fn rows_of(format: Format, body: &[u8], cut: usize, limit: usize) -> Result<Vec<RecordBatch>> {
        let columns = state_rows::columns();
        let mut feed = Feed::new(format, &columns, true, 300, limit)?;
        let mut found = Vec::new();
        for piece in body.chunks(cut) {
            let mut piece = piece;
            while !piece.is_empty() {
                let room = feed.room()?;
                assert!(!room.is_empty());
                let count = room.len().min(piece.len());
                room[..count].copy_from_slice(&piece[..count]);
                piece = &piece[count..];
                feed.filled(count)?;
                while let Some(batch) = feed.next_batch()? {
                    found.push(batch);
                }
            }
        }
        feed.end()?;
        while let Some(batch) = feed.next_batch()? {
            found.push(batch);
        }
        Ok(found)
    }

    fn body(format: Format, batch: &RecordBatch) -> Vec<u8> {
        let columns = state_rows::columns();
        let mut out = Vec::new();
        match format {
            Format::RowBinary => {
                out = rowbinary::header(&columns);
                rowbinary::Encoder::new(&columns)
                    .encode(batch, &mut out)
                    .unwrap();
            }
            Format::Native => native::encode(&columns, batch, &mut out).unwrap(),
            Format::Arrow => {
                let mut writer =
                    arrow_ipc::writer::StreamWriter::try_new(&mut out, &batch.schema()).unwrap();
                writer.write(batch).unwrap();
                writer.finish().unwrap();
            }
            Format::Parquet => {
                let mut writer =
                    parquet::arrow::ArrowWriter::try_new(&mut out, batch.schema(), None).unwrap();
                writer.write(batch).unwrap();
                writer.close().unwrap();
            }
        }
        out
    }

    #[test]
    fn every_format_gives_the_rows() {
        let batch = state_rows::batch(5, 0, 900).unwrap();
        for format in [
            Format::Arrow,
            Format::Native,
            Format::RowBinary,
            Format::Parquet,
        ] {
            let body = body(format, &batch);
            for cut in [13, 4096, usize::MAX] {
                let found = rows_of(format, &body, cut, 1 << 30).unwrap();
                let all = arrow_select::concat::concat_batches(&found[0].schema(), &found).unwrap();
                assert_eq!(digest(&all).unwrap(), digest(&batch).unwrap(), "{format:?}");
            }
            let short = rows_of(format, &body[..body.len() - 20], 999, 1 << 30);
            assert_eq!(short.unwrap_err().kind, Kind::Protocol, "{format:?}");
        }
    }

    #[test]
    fn a_bound_is_kept() {
        let batch = state_rows::batch(5, 0, 90_000).unwrap();
        for format in [Format::Arrow, Format::Native, Format::Parquet] {
            let error = rows_of(format, &body(format, &batch), 1 << 16, 1 << 20).unwrap_err();
            assert_eq!(error.kind, Kind::Memory, "{format:?}: {error}");
        }
    }
}
