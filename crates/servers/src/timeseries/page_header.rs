//! Headers of Parquet's pages, with the checksum of what follows them.
//!
//! The crate's writer leaves that out. A header is a structure in Thrift's compact protocol:
//! fields in order, each a byte (how many numbers further than the last one, its type) and
//! its value, then a 0.

use std::io::{self, Read};

use flate2::Crc;
use parquet::basic::Encoding;
use parquet::errors::{ParquetError, Result};

use super::pages::{varint, zigzag};

/// What a page holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Data(Encoding),
    Dictionary,
}

const I32: u8 = 5;
const STRUCT: u8 = 12;
const FALSE: u8 = 2;

/// As the format numbers them.
fn number(encoding: Encoding) -> Result<i32> {
    Ok(match encoding {
        Encoding::PLAIN => 0,
        Encoding::RLE => 3,
        Encoding::DELTA_BINARY_PACKED => 5,
        Encoding::RLE_DICTIONARY => 8,
        Encoding::BYTE_STREAM_SPLIT => 9,
        other => return Err(ParquetError::General(format!("{other} is not written"))),
    })
}

/// CRC-32, as gzip's.
pub fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Of a page of so many values that is `plain` bytes long where it is not compressed.
pub fn write(
    kind: Kind,
    values: usize,
    plain: usize,
    packed: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let size = |bytes: usize| {
        let long = |_| ParquetError::General(format!("a page of {bytes} bytes is too long"));
        i32::try_from(bytes).map_err(long)
    };
    let field = |further: u8, value: i32, out: &mut Vec<u8>| {
        out.push(further << 4 | I32);
        varint(zigzag(i64::from(value)), out);
    };
    let (dictionary, encoding) = match kind {
        Kind::Data(encoding) => (false, encoding),
        Kind::Dictionary => (true, Encoding::PLAIN),
    };
    field(1, if dictionary { 2 } else { 0 }, out);
    field(1, size(plain)?, out);
    field(1, size(packed.len())?, out);
    field(1, checksum(packed) as i32, out);
    let own = if dictionary { 7 } else { 5 };
    out.push((own - 4) << 4 | STRUCT);
    field(1, size(values)?, out);
    field(1, number(encoding)?, out);
    if dictionary {
        out.push(1 << 4 | FALSE); // not sorted
    } else {
        // Levels of columns that are always there: of no bytes.
        field(1, number(Encoding::RLE)?, out);
        field(1, number(Encoding::RLE)?, out);
    }
    out.extend_from_slice(&[0, 0]);
    Ok(())
}

/// What a header says of the bytes behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    pub compressed: u64,
    pub crc: Option<u32>,
}

/// Bytes of a header at most: those of others have statistics.
const MOST: u64 = 64 << 10;
/// Structures within structures.
const DEEPEST: u8 = 8;

/// Reads a header, whoever wrote it.
pub fn read(input: &mut impl Read) -> io::Result<Header> {
    let mut compact = Compact(input.take(MOST));
    let (mut header, mut compressed) = (Header::default(), None);
    let mut last = 0;
    while let Some((id, kind)) = compact.field(last)? {
        match (id, kind) {
            (3, I32) => compressed = u64::try_from(compact.signed()?).ok(),
            (4, I32) => header.crc = Some(compact.signed()? as u32),
            _ => compact.skip(kind, DEEPEST)?,
        }
        last = id;
    }
    header.compressed = compressed.ok_or_else(nonsense)?;
    Ok(header)
}

fn nonsense() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the header of a page makes no sense",
    )
}

struct Compact<R>(R);

impl<R: Read> Compact<R> {
    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn unsigned(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(nonsense())
    }

    fn signed(&mut self) -> io::Result<i64> {
        let number = self.unsigned()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The next field's number and type.
    fn field(&mut self, last: i64) -> io::Result<Option<(i64, u8)>> {
        let byte = self.byte()?;
        let (further, kind) = (byte >> 4, byte & 0x0F);
        Ok(match (further, kind) {
            (_, 0) => None,
            (0, kind) => Some((self.signed()?, kind)),
            (further, kind) => Some((last.saturating_add(i64::from(further)), kind)),
        })
    }

    fn pass(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut self.0.by_ref().take(bytes), &mut io::sink())?;
        match passed == bytes {
            true => Ok(()),
            false => Err(nonsense()),
        }
    }

    fn skip(&mut self, kind: u8, depth: u8) -> io::Result<()> {
        match kind {
            1 | FALSE => Ok(()),
            3 => self.pass(1),
            4..=6 => self.unsigned().map(|_| ()),
            7 => self.pass(8),
            8 => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            STRUCT if depth > 0 => {
                let mut last = 0;
                while let Some((id, kind)) = self.field(last)? {
                    self.skip(kind, depth - 1)?;
                    last = id;
                }
                Ok(())
            }
            // No page's header has a list or a map.
            _ => Err(nonsense()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for kind in [Kind::Data(Encoding::PLAIN), Kind::Dictionary] {
            let mut bytes = Vec::new();
            write(kind, 300, 70_000, b"packed", &mut bytes).unwrap();
            let mut rest = &bytes[..];
            let header = read(&mut rest).unwrap();
            assert_eq!(header.compressed, 6);
            assert_eq!(header.crc, Some(checksum(b"packed")));
            assert!(rest.is_empty());
            for end in 0..bytes.len() {
                assert!(read(&mut &bytes[..end]).is_err(), "{end}");
            }
        }
        assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn nonsense_ends() {
        let endless = [0x1C; 100_000]; // a structure in a structure in ...
        assert!(read(&mut &endless[..]).is_err());
        let long = [
            0x15, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
        ];
        assert!(read(&mut &long[..]).is_err());
        assert!(read(&mut &[0u8][..]).is_err());
        let text = [&[0x18, 0xFF, 0xFF, 0x7F][..], &[b'x'; 70_000]].concat();
        assert!(read(&mut &text[..]).is_err());
    }
}
