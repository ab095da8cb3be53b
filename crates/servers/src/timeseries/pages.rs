//! Pages of Parquet columns, made for sorted series.
//!
//! The crate's own column writers look at every value of a dictionary column and choose
//! where pages end. Here the series are known and come in runs, and a page that ends with
//! its series compresses better, so pages are made by hand; the crate writes the file.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;

use super::page_header::{self, Kind};

/// Higher levels take much longer and gain little: most of what is left is noise.
const LEVEL: i32 = 1;

pub type Compressor = zstd::bulk::Compressor<'static>;

pub fn compressor() -> Result<Compressor> {
    Compressor::new(LEVEL).map_err(|error| ParquetError::External(Box::new(error)))
}

pub fn compression() -> Compression {
    ZstdLevel::try_new(LEVEL).map_or(Compression::UNCOMPRESSED, Compression::ZSTD)
}

/// One column of a row group.
#[derive(Default)]
pub struct Column {
    /// Pages of data.
    bytes: Vec<u8>,
    /// Where the last one begins, and its uncompressed length.
    last: (usize, usize),
    /// The page that goes before them.
    dictionary: Vec<u8>,
    /// Of the pages.
    encodings: Vec<Encoding>,
    values: u64,
    plain_bytes: u64,
}

impl Column {
    pub fn data(
        &mut self,
        encoding: Encoding,
        plain: &[u8],
        values: usize,
        zstd: &mut Compressor,
    ) -> Result<()> {
        self.values += values as u64;
        if !self.encodings.contains(&encoding) {
            self.encodings.push(encoding);
        }
        let before = self.bytes.len();
        let plain_bytes = write(Kind::Data(encoding), plain, values, zstd, &mut self.bytes)?;
        self.plain_bytes += plain_bytes as u64;
        self.last = (before, plain_bytes);
        Ok(())
    }

    /// The last page of data once more, of so many values.
    pub fn again(&mut self, values: usize) {
        let (from, plain_bytes) = self.last;
        self.values += values as u64;
        self.plain_bytes += plain_bytes as u64;
        self.last.0 = self.bytes.len();
        self.bytes.extend_from_within(from..self.last.0);
    }

    pub fn dictionary(&mut self, plain: &[u8], values: usize, zstd: &mut Compressor) -> Result<()> {
        let bytes = &mut self.dictionary;
        self.plain_bytes += write(Kind::Dictionary, plain, values, zstd, bytes)? as u64;
        self.encodings.push(Encoding::PLAIN);
        Ok(())
    }

    /// Puts the column into the file.
    pub fn close(
        self,
        descriptor: ColumnDescPtr,
        statistics: Option<Statistics>,
        group: &mut SerializedRowGroupWriter<'_, impl std::io::Write + Send>,
    ) -> Result<()> {
        let data = self.dictionary.len() as i64;
        let first = (data > 0).then_some(0);
        let mut bytes = self.dictionary;
        if bytes.is_empty() {
            bytes = self.bytes;
        } else {
            bytes.extend_from_slice(&self.bytes);
        }
        let mut encodings = self.encodings;
        encodings.push(Encoding::RLE);
        let mut metadata = ColumnChunkMetaData::builder(descriptor)
            .set_compression(compression())
            .set_encodings(encodings)
            .set_num_values(self.values as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(self.plain_bytes as i64)
            .set_dictionary_page_offset(first)
            .set_data_page_offset(data);
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let closed = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.values,
            metadata: metadata.build()?,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        group.append_column(&Bytes::from(bytes), closed)
    }
}

/// A page behind what is in `out`; its length where it is not compressed.
fn write(
    kind: Kind,
    plain: &[u8],
    values: usize,
    zstd: &mut Compressor,
    out: &mut Vec<u8>,
) -> Result<usize> {
    let packed = zstd.compress(plain);
    let packed = packed.map_err(|error| ParquetError::External(Box::new(error)))?;
    let before = out.len();
    page_header::write(kind, values, plain.len(), &packed, out)?;
    let header = out.len() - before;
    out.extend_from_slice(&packed);
    Ok(header + plain.len())
}

/// Bytes of each value apart: the first ones of all, the second ones of all, ...
pub fn split_bytes(values: &[f64], out: &mut Vec<u8>) {
    let count = values.len();
    out.clear();
    out.resize(count * 8, 0);
    let mut streams = out.chunks_exact_mut(count.max(1));
    let mut streams: [&mut [u8]; 8] = std::array::from_fn(|_| streams.next().unwrap_or_default());
    for (at, value) in values.iter().enumerate() {
        for (stream, byte) in streams.iter_mut().zip(value.to_bits().to_le_bytes()) {
            stream[at] = byte;
        }
    }
}

const BLOCK: usize = 128;
const MINI: usize = 32;

pub fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// DELTA_BINARY_PACKED.
pub fn deltas(times: &[i64], out: &mut Vec<u8>) {
    out.clear();
    varint(BLOCK as u64, out);
    varint((BLOCK / MINI) as u64, out);
    varint(times.len() as u64, out);
    varint(zigzag(times.first().copied().unwrap_or(0)), out);
    let mut steps = [0i64; BLOCK];
    let mut last = times.first().copied().unwrap_or(0);
    for block in times.get(1..).unwrap_or_default().chunks(BLOCK) {
        for (step, &time) in steps.iter_mut().zip(block) {
            *step = time.wrapping_sub(last);
            last = time;
        }
        let steps = &steps[..block.len()];
        let least = steps.iter().copied().min().unwrap_or(0);
        varint(zigzag(least), out);
        let widths = out.len();
        out.extend_from_slice(&[0; BLOCK / MINI]);
        for (place, mini) in steps.chunks(MINI).enumerate() {
            let above = |step: &i64| step.wrapping_sub(least) as u64;
            let highest = mini.iter().map(above).fold(0, |all, step| all | step);
            let width = 64 - highest.leading_zeros();
            out[widths + place] = width as u8;
            pack(mini.iter().map(above), width, out);
        }
    }
}

/// Packs up to 32 numbers, the missing ones as 0.
fn pack(numbers: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let end = out.len() + MINI * width as usize / 8;
    let (mut bits, mut held) = (0u128, 0);
    for number in numbers {
        bits |= u128::from(number) << held;
        held += width;
        while held >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
    if held > 0 {
        out.push(bits as u8);
    }
    out.resize(end, 0);
}

/// A dictionary's numbers in runs, RLE_DICTIONARY.
pub fn runs(runs: &[(u32, usize)], entries: usize, out: &mut Vec<u8>) {
    let width = usize::BITS - entries.saturating_sub(1).leading_zeros();
    out.clear();
    out.push(width as u8);
    for &(entry, length) in runs {
        varint((length as u64) << 1, out);
        out.extend_from_slice(&entry.to_le_bytes()[..width.div_ceil(8) as usize]);
    }
}

pub fn plain_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

pub fn text_range(least: &[u8], most: &[u8]) -> Statistics {
    let text = |text: &[u8]| Some(ByteArray::from(text.to_vec()));
    Statistics::byte_array(text(least), text(most), None, Some(0), false)
}
