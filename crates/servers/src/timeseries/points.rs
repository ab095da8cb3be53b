//! A memtable's points -> a file of `points/`, sorted by series and time, as Parquet by Arrow's writers.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, DataType as ParquetType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::EnabledStatistics;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{
    SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite,
};
use parquet::schema::types::ColumnDescPtr;

use super::segment::{create, finish, metric, properties, schema, time, zstd, Line, Summed, LEVEL};
use super::series::{Registry, Totals};
use venturi_base::data::points::series_hash;

/// Points of a row group: readers work on one each.
const GROUP: usize = 1 << 20;
/// Rows of a page.
const PAGE: usize = 32 << 10;
/// Bytes of the distinct values of a row group: gauges have so few that a dictionary is the
/// smallest form, and noise passes the bound at once.
const DISTINCT: usize = 32 << 10;

/// Rows of some series, as they came.
#[derive(Debug, Default)]
pub struct Part {
    pub series: Box<[u32]>,
    pub stamps: Vec<i64>,
    /// Row by row, as many as there are series.
    pub values: Vec<f64>,
}

/// A column of a part: some points of a series.
#[derive(Debug, Clone, Copy)]
struct Piece {
    series: u32,
    part: u32,
    column: u32,
}

fn points_schema() -> SchemaRef {
    schema(&[
        ("series", DataType::Utf8),
        ("metric", DataType::Utf8),
        ("time", time()),
        ("value", DataType::Float64),
    ])
}

/// A file of points, and those that are on their way to it.
struct PointsFile {
    file: SerializedFileWriter<BufWriter<Summed>>,
    /// The series of the points below, and how many points each has.
    runs: Vec<(Box<[u8]>, usize)>,
    times: Vec<i64>,
    values: Vec<f64>,
}

impl PointsFile {
    fn create(path: &Path) -> Result<Self> {
        let properties = properties()
            .set_data_page_row_count_limit(PAGE)
            .set_column_dictionary_enabled("time".into(), false)
            .set_column_encoding("time".into(), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_page_size_limit("value".into(), DISTINCT)
            .set_column_encoding("value".into(), Encoding::BYTE_STREAM_SPLIT)
            .set_column_statistics_enabled("value".into(), EnabledStatistics::None);
        let columns = ArrowSchemaConverter::new().convert(&points_schema())?;
        let properties = Arc::new(properties.build());
        Ok(Self {
            file: SerializedFileWriter::new(create(path)?, columns.root_schema_ptr(), properties)?,
            runs: Vec::new(),
            times: Vec::new(),
            values: Vec::new(),
        })
    }

    /// Adds a series' points from all its pieces, sorted by time.
    fn gather(&mut self, name: &[u8], run: &[Piece], parts: &[Part]) -> Totals {
        let from = self.times.len();
        for piece in run {
            let part = &parts[piece.part as usize];
            self.times.extend_from_slice(&part.stamps);
            let rows = part.values.chunks_exact(part.series.len());
            self.values
                .extend(rows.map(|row| row[piece.column as usize]));
        }
        let (times, values) = (&mut self.times[from..], &mut self.values[from..]);
        if !times.is_sorted() {
            let mut points: Vec<_> = times.iter().copied().zip(values.iter().copied()).collect();
            // Stable, as points of one time stay in the order in which they came.
            points.sort_by_key(|&(time, _)| time);
            for (at, point) in points.into_iter().enumerate() {
                (times[at], values[at]) = point;
            }
        }
        self.runs.push((name.into(), times.len()));
        let points = times.iter().copied().zip(values.iter().copied());
        Totals::of(series_hash(name), points)
    }

    /// Writes the first points as row groups: all full ones, and the last one if `all`.
    fn write_groups(&mut self, all: bool) -> Result<()> {
        let mut from = 0;
        while self.times.len() - from >= if all { 1 } else { GROUP } {
            let to = self.times.len().min(from + GROUP);
            let runs = self.take_runs(to - from);
            let metrics: Vec<_> = (runs.iter())
                .map(|(name, rows)| (metric(name), *rows))
                .collect();
            let [series, metric] = [0, 1].map(|place| self.file.schema_descr().column(place));
            let mut group = self.file.next_row_group()?;
            write_texts(series, &runs, &mut group)?;
            write_texts(metric, &metrics, &mut group)?;
            write_numbers::<Int64Type>(&self.times[from..to], &mut group)?;
            write_numbers::<DoubleType>(&self.values[from..to], &mut group)?;
            group.close()?;
            from = to;
        }
        self.times.drain(..from);
        self.values.drain(..from);
        Ok(())
    }

    /// The series of the first points.
    fn take_runs(&mut self, points: usize) -> Vec<(Box<[u8]>, usize)> {
        let (mut left, mut ended) = (points, 0);
        while self.runs.get(ended).is_some_and(|(_, rows)| *rows <= left) {
            left -= self.runs[ended].1;
            ended += 1;
        }
        let mut runs: Vec<_> = self.runs.drain(..ended).collect();
        // The rest of a series is of the next group.
        if let Some((name, rows)) = self.runs.first_mut().filter(|_| left > 0) {
            runs.push((name.clone(), left));
            *rows -= left;
        }
        runs
    }
}

fn write_numbers<T: ParquetType>(
    numbers: &[T::T],
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
) -> Result<()> {
    let column = group.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("a column too many".into()))?;
    column.typed::<T>().write_batch(numbers, None, None)?;
    column.close()
}

/// Writes a column of sorted texts: a dictionary, in which neighbours that are equal share an
/// entry, and a page that has the runs of its numbers.
fn write_texts(
    column: ColumnDescPtr,
    texts: &[(impl AsRef<[u8]>, usize)],
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
) -> Result<()> {
    let mut entries: Vec<(&[u8], usize)> = Vec::new();
    for (text, rows) in texts {
        match entries
            .last_mut()
            .filter(|(last, _)| *last == text.as_ref())
        {
            Some((_, length)) => *length += rows,
            None => entries.push((text.as_ref(), *rows)),
        }
    }
    let rows: usize = entries.iter().map(|(_, rows)| rows).sum();
    let width = usize::BITS - entries.len().saturating_sub(1).leading_zeros();
    let (mut plain, mut runs) = (Vec::new(), vec![width as u8]);
    for (number, (text, rows)) in entries.iter().enumerate() {
        plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
        plain.extend_from_slice(text);
        // A run of RLE: its length in seven bits each, twice, and the number.
        let mut length = rows << 1;
        while length >= 0x80 {
            runs.push(length as u8 | 0x80);
            length >>= 7;
        }
        runs.push(length as u8);
        runs.extend_from_slice(&number.to_le_bytes()[..width.div_ceil(8) as usize]);
    }
    let packed = |bytes: &[u8]| zstd::bulk::compress(bytes, LEVEL).map(Bytes::from);
    let dictionary = Page::DictionaryPage {
        buf: packed(&plain)?,
        num_values: entries.len() as u32,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let numbers = Page::DataPage {
        buf: packed(&runs)?,
        num_values: rows as u32,
        encoding: Encoding::RLE_DICTIONARY,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let mut bytes = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut bytes);
    let first = pages.write_page(CompressedPage::new(dictionary, plain.len()))?;
    let second = pages.write_page(CompressedPage::new(numbers, runs.len()))?;
    let bytes = Bytes::from(bytes.into_inner()?);
    let text = |entry: Option<&(&[u8], usize)>| entry.map(|(text, _)| ByteArray::from(*text));
    let range = (text(entries.first()), text(entries.last()));
    let metadata = ColumnChunkMetaData::builder(column)
        .set_compression(zstd())
        .set_encodings(vec![
            Encoding::PLAIN,
            Encoding::RLE,
            Encoding::RLE_DICTIONARY,
        ])
        .set_num_values(rows as i64)
        .set_total_compressed_size(bytes.len() as i64)
        .set_total_uncompressed_size((first.uncompressed_size + second.uncompressed_size) as i64)
        .set_dictionary_page_offset(Some(0))
        .set_data_page_offset(first.bytes_written as i64)
        .set_statistics(Statistics::byte_array(
            range.0,
            range.1,
            None,
            Some(0),
            false,
        ));
    let closed = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows as u64,
        metadata: metadata.build()?,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    group.append_column(&bytes, closed)
}

/// Writes a file of points. Returns the totals of each series, in the file's order, and the
/// checksum of the file.
pub fn write_points(
    path: &Path,
    parts: &[Part],
    registry: &Registry,
    sync: bool,
) -> Result<(Vec<Line>, u64)> {
    let (mut file, mut lines) = (PointsFile::create(path)?, Vec::new());
    for run in pieces(parts, registry).chunk_by(|a, b| a.series == b.series) {
        let name: Box<[u8]> = registry.names().get(run[0].series).into();
        lines.push(Line {
            totals: file.gather(&name, run, parts),
            name,
        });
        file.write_groups(false)?;
    }
    file.write_groups(true)?;
    file.file.finish()?;
    Ok((lines, finish(file.file.inner_mut(), sync)?))
}

/// All columns of all parts in the order of their series' names.
fn pieces(parts: &[Part], registry: &Registry) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (part, points) in parts.iter().enumerate() {
        for (column, &series) in points.series.iter().enumerate() {
            pieces.push(Piece {
                series,
                part: part as u32,
                column: column as u32,
            });
        }
    }
    let names = registry.names();
    // Stable, as points of one time stay in the order in which they came.
    pieces.sort_by(|a, b| names.get(a.series).cmp(names.get(b.series)));
    pieces
}
