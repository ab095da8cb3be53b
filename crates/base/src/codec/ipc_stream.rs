//! An Arrow IPC stream that comes in pieces of any size: the bytes of a body go straight into the
//! memory that its batch then refers to.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::budget::{Budget, Claim};
use super::ipc::Decoder;
use super::slab::{Body, Pool};
use crate::error::{Error, Kind, Result};

/// Bytes of a message's header at most: a schema of many columns.
const MOST_HEADER: usize = 16 << 20;
/// Before a length in streams of Arrow 0.15 and later.
const CONTINUATION: [u8; 4] = [0xff; 4];

#[derive(Debug)]
enum Part {
    /// The continuation mark, or the length at once.
    Prefix([u8; 4]),
    Length([u8; 4]),
    Header(Vec<u8>),
    Body(Vec<u8>, Body),
    /// The stream has said that this is its end.
    End,
}

/// Give it bytes by `room` and `filled`, and ask for `take_ready` after each.
pub struct StreamReader {
    decoder: Decoder,
    pool: Pool,
    limit: usize,
    part: Part,
    /// Bytes of the part that are there (of a body it knows itself).
    have: usize,
    ready: Option<RecordBatch>,
    /// What bodies that are coming in may take, over all streams.
    budget: Option<Budget>,
    claim: Option<Claim>,
    /// Of the last message, as they came.
    body: usize,
    messages: u64,
}

impl StreamReader {
    /// `limit`: bytes of a batch at most, as sent and unpacked.
    pub fn new(limit: usize) -> Self {
        Self {
            decoder: Decoder::limited(limit as u64),
            pool: Pool::default(),
            limit,
            part: Part::Prefix([0; 4]),
            have: 0,
            ready: None,
            budget: None,
            claim: None,
            body: 0,
            messages: 0,
        }
    }

    /// Bodies that are only half there count against this.
    pub fn within(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// How many messages have come, the schema and dictionaries included.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of the last message's body, as they came.
    pub fn body_bytes(&self) -> usize {
        self.body
    }

    /// Memory of the dictionaries that the stream's batches refer to.
    pub fn dictionary_bytes(&self) -> u64 {
        self.decoder.dictionary_bytes()
    }

    pub fn schema(&self) -> Option<&SchemaRef> {
        self.decoder.schema()
    }

    /// Where the next bytes belong; never empty, but after the stream's end.
    pub fn room(&mut self) -> &mut [u8] {
        match &mut self.part {
            Part::Prefix(bytes) | Part::Length(bytes) => &mut bytes[self.have..],
            Part::Header(header) => &mut header[self.have..],
            Part::Body(_, body) => body.rest(),
            Part::End => &mut [],
        }
    }

    /// So many bytes of `room` were filled.
    pub fn filled(&mut self, bytes: usize) -> Result<()> {
        if let Part::Body(_, body) = &mut self.part {
            body.advance(bytes);
            if body.left() > 0 {
                return Ok(());
            }
        } else {
            self.have += bytes;
            if !self.room().is_empty() {
                return Ok(());
            }
        }
        self.have = 0;
        self.part = match std::mem::replace(&mut self.part, Part::Prefix([0; 4])) {
            Part::Prefix(CONTINUATION) => Part::Length([0; 4]),
            Part::Prefix(bytes) | Part::Length(bytes) => match u32::from_le_bytes(bytes) as usize {
                0 => Part::End,
                _ if bytes == *b"ARRO" => {
                    let text = "it is a file of Arrow (ARROW1); an Arrow IPC stream is wanted";
                    return Err(Error::protocol(text));
                }
                length if length > MOST_HEADER => {
                    return Err(Error::protocol(format!(
                        "Arrow: a message's header of {length} bytes; is it an Arrow stream?"
                    )));
                }
                length => Part::Header(vec![0; length]),
            },
            Part::Header(header) => self.begin_body(header)?,
            Part::Body(header, body) => {
                self.message(&header, Some(body.finish()))?;
                self.claim = None;
                Part::Prefix([0; 4])
            }
            Part::End => Part::End,
        };
        Ok(())
    }

    fn begin_body(&mut self, header: Vec<u8>) -> Result<Part> {
        let length = arrow_ipc::root_as_message(&header)
            .map_err(|error| Error::protocol(format!("not an Arrow IPC message: {error}")))?
            .bodyLength();
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= self.limit);
        let length = length.ok_or_else(|| {
            let what = format!(
                "Arrow: a batch of more than {} bytes: ask for smaller blocks, or raise max_block_size",
                self.limit
            );
            Error::new(Kind::Memory, what)
        })?;
        self.body = length;
        if let Some(budget) = &self.budget {
            self.claim = budget.claim(length)?;
        }
        if length == 0 {
            self.message(&header, None)?;
            return Ok(Part::Prefix([0; 4]));
        }
        Ok(Part::Body(header, Body::new(&self.pool, length)))
    }

    fn message(&mut self, header: &[u8], body: Option<Buffer>) -> Result<()> {
        self.ready = self.decoder.message(header, body)?;
        self.messages += 1;
        Ok(())
    }

    /// The batch that the last bytes made whole.
    pub fn take_ready(&mut self) -> Option<RecordBatch> {
        self.ready.take()
    }

    /// Whether the stream has said its end.
    pub fn is_ended(&self) -> bool {
        matches!(self.part, Part::End)
    }

    /// Nothing of a message is there: a stream that is cut here may be whole.
    pub fn is_between(&self) -> bool {
        self.is_ended() || (matches!(self.part, Part::Prefix(_)) && self.have == 0)
    }
}

#[cfg(test)]
mod tests {
    use arrow_ipc::writer::StreamWriter;

    use super::*;
    use crate::codec::clickhouse::state_rows;

    fn stream(rows: &[usize]) -> (Vec<RecordBatch>, Vec<u8>) {
        let made = rows.iter().enumerate();
        let batches: Vec<_> = made
            .map(|(index, rows)| state_rows::batch(1, index as u64, *rows).unwrap())
            .collect();
        let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
        for batch in &batches {
            writer.write(batch).unwrap();
        }
        let bytes = writer.into_inner().unwrap();
        (batches, bytes)
    }

    fn read(
        mut bytes: &[u8],
        cut: usize,
        limit: usize,
    ) -> Result<(Vec<RecordBatch>, StreamReader)> {
        let mut reader = StreamReader::new(limit);
        let mut found = Vec::new();
        while !bytes.is_empty() && !reader.is_ended() {
            let room = reader.room();
            let count = room.len().min(cut).min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            reader.filled(count)?;
            found.extend(reader.take_ready());
        }
        Ok((found, reader))
    }

    #[test]
    fn cuts_make_no_difference() {
        let (batches, bytes) = stream(&[10, 0, 300]);
        for cut in [1, 7, 100, usize::MAX] {
            let (found, reader) = read(&bytes, cut, 1 << 20).unwrap();
            assert_eq!(found, batches);
            assert!(reader.is_ended() && reader.is_between());
        }
        let (_, reader) = read(&bytes[..bytes.len() - 9], 100, 1 << 20).unwrap();
        assert!(!reader.is_between());
    }

    #[test]
    fn lies_are_errors() {
        let (_, bytes) = stream(&[1000]);
        assert_eq!(read(&bytes, 100, 1000).err().unwrap().kind, Kind::Memory);
        let said = read(b"Code: 60. DB::Exception: no", 100, 1000)
            .err()
            .unwrap();
        assert!(said.message.contains("is it an Arrow stream"), "{said}");
        let said = read(b"ARROW1\0\0 and more", 100, 1000).err().unwrap();
        assert!(said.message.contains("stream is wanted"), "{said}");
        let mut short = 4u32.to_le_bytes().to_vec();
        short.extend([9; 4]);
        assert!(read(&short, 100, 1000).is_err());
    }
}
