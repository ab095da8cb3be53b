//! The two files of a segment, as Parquet by Arrow's writer.
//!
//! `points/`: a memtable's points, sorted by series and time. `series/`: what the segment holds of
//! each series, so that neither a restart nor a question has to read points. The name of each file,
//! `<id>-<checksum>.parquet`, has XXH3 (64 bits) of the whole file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::{
    compute_leaves, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriter, ArrowWriterOptions,
};
use parquet::arrow::{ArrowSchemaConverter, ProjectionMask};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{
    SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite,
};
use parquet::schema::types::ColumnDescPtr;
use xxhash_rust::xxh3::Xxh3;

use super::head::{Frozen, Part};
use super::registry::Registry;
use super::totals::Totals;
use venturi_base::codec::timeseries::parse::series::split;
use venturi_base::data::points::series_hash;

/// Points of a row group: readers work on one each.
const GROUP: usize = 1 << 20;
/// Points that are handed to the columns' writers at a time.
const BATCH: usize = 64 << 10;
/// Lines of series that are handed to the writer at a time.
const SERIES_BATCH: usize = 8 << 10;
/// Rows of a page.
const PAGE: usize = 32 << 10;
/// Bytes of the distinct values of a row group: gauges have so few that a dictionary is the
/// smallest form, and noise passes the bound at once.
const DISTINCT: usize = 32 << 10;
/// Higher levels take much longer and gain little: most of what is left is noise.
const LEVEL: i32 = 1;

/// The name that makes a file a segment's.
pub fn named(data: &Path, folder: &str, id: u64, checksum: u64) -> PathBuf {
    data.join(folder)
        .join(format!("{id:016}-{checksum:016x}.parquet"))
}

/// The number and the checksum in a name.
pub fn parse(name: &str) -> Option<(u64, u64)> {
    let (id, checksum) = name.strip_suffix(".parquet")?.split_once('-')?;
    let numbers = (id.parse().ok()?, u64::from_str_radix(checksum, 16).ok()?);
    let written = format!("{:016}-{:016x}.parquet", numbers.0, numbers.1);
    (written == name).then_some(numbers)
}

pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A file that is written from its beginning to its end, and its checksum.
struct Summed {
    file: File,
    hash: Xxh3,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A column of a part: some points of a series.
#[derive(Debug, Clone, Copy)]
struct Piece {
    series: u32,
    part: u32,
    column: u32,
}

/// A sealed series and what is in it.
#[derive(Debug, Clone)]
pub struct Line {
    pub series: u32,
    pub name: Box<[u8]>,
    pub totals: Totals,
}

/// The first word of a series' name.
pub fn metric(name: &[u8]) -> &[u8] {
    // A blank of the name itself has a backslash before it.
    split(name, b' ').next().unwrap_or_default()
}

fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), false);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn points_schema() -> SchemaRef {
    schema(&[
        ("series", DataType::Utf8),
        ("metric", DataType::Utf8),
        ("time", time()),
        ("value", DataType::Float64),
    ])
}

fn series_schema() -> SchemaRef {
    schema(&[
        ("series", DataType::Utf8),
        ("metric", DataType::Utf8),
        ("tags", DataType::Utf8),
        ("points", DataType::Int64),
        ("first", time()),
        ("last", time()),
        ("min", DataType::Float64),
        ("max", DataType::Float64),
        ("sum", DataType::Float64),
        ("checksum", DataType::UInt64),
    ])
}

fn zstd() -> Compression {
    ZstdLevel::try_new(LEVEL).map_or(Compression::UNCOMPRESSED, Compression::ZSTD)
}

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("venturi ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(zstd())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
}

fn create(path: &Path) -> io::Result<BufWriter<Summed>> {
    let file = File::create(path)?;
    let hash = Xxh3::new();
    Ok(BufWriter::with_capacity(1 << 20, Summed { file, hash }))
}

/// Ends a file and returns its checksum.
fn finish(file: &mut BufWriter<Summed>, sync: bool) -> Result<u64> {
    file.flush()?;
    let written = file.get_ref();
    if sync {
        written.file.sync_all()?;
    }
    Ok(written.hash.digest())
}

fn times(times: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
}

/// A file of points, and those that are on their way to it.
struct PointsFile {
    file: SerializedFileWriter<BufWriter<Summed>>,
    schema: SchemaRef,
    writers: ArrowRowGroupWriterFactory,
    /// Of the row group that is being written, and how many points it has.
    open: Vec<ArrowColumnWriter>,
    points: usize,
    /// The series of the group's points and of those below, and how many points each has.
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
        let schema = points_schema();
        let columns = ArrowSchemaConverter::new().convert(&schema)?;
        let properties = Arc::new(properties.build());
        let file = SerializedFileWriter::new(create(path)?, columns.root_schema_ptr(), properties)?;
        Ok(Self {
            writers: ArrowRowGroupWriterFactory::new(&file, schema.clone()),
            file,
            schema,
            open: Vec::new(),
            points: 0,
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

    /// Hands the points over to their columns' writers.
    fn write_batch(&mut self) -> Result<()> {
        let columns = [
            times(std::mem::take(&mut self.times)),
            Arc::new(Float64Array::from(std::mem::take(&mut self.values))),
        ];
        let mut from = 0;
        while from < columns[0].len() {
            if self.open.is_empty() {
                self.open = self.writers.create_column_writers(0)?;
                // Those of texts would hash the name of each point's series.
                self.open.drain(..2);
            }
            let count = (columns[0].len() - from).min(GROUP - self.points);
            for (place, (writer, column)) in self.open.iter_mut().zip(&columns).enumerate() {
                let field = self.schema.field(2 + place);
                for leaf in compute_leaves(field, &column.slice(from, count))? {
                    writer.write(&leaf)?;
                }
            }
            from += count;
            self.points += count;
            if self.points == GROUP {
                self.close_group()?;
            }
        }
        Ok(())
    }

    fn close_group(&mut self) -> Result<()> {
        let points = std::mem::take(&mut self.points);
        let runs = self.take_runs(points);
        if runs.is_empty() {
            return Ok(());
        }
        let metrics: Vec<_> = (runs.iter())
            .map(|(name, rows)| (metric(name), *rows))
            .collect();
        let [series, metric] = [0, 1].map(|place| self.file.schema_descr().column(place));
        let mut group = self.file.next_row_group()?;
        write_texts(series, &runs, &mut group)?;
        write_texts(metric, &metrics, &mut group)?;
        for writer in self.open.drain(..) {
            writer.close()?.append_to_row_group(&mut group)?;
        }
        group.close()?;
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
    frozen: &Frozen,
    registry: &Registry,
    sync: bool,
) -> Result<(Vec<Line>, u64)> {
    let (mut file, mut lines) = (PointsFile::create(path)?, Vec::new());
    for run in pieces(frozen, registry).chunk_by(|a, b| a.series == b.series) {
        let series = run[0].series;
        let name: Box<[u8]> = registry.names().get(series).into();
        lines.push(Line {
            series,
            totals: file.gather(&name, run, &frozen.parts),
            name,
        });
        if file.times.len() >= BATCH {
            file.write_batch()?;
        }
    }
    file.write_batch()?;
    file.close_group()?;
    file.file.finish()?;
    Ok((lines, finish(file.file.inner_mut(), sync)?))
}

/// All columns of all parts in the order of their series' names.
fn pieces(frozen: &Frozen, registry: &Registry) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (part, points) in frozen.parts.iter().enumerate() {
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

/// Writes a file of series and returns its checksum. `lines` are sorted by their names.
pub fn write_series(path: &Path, lines: &[Line], sync: bool) -> Result<u64> {
    let schema = series_schema();
    let options = ArrowWriterOptions::new()
        .with_properties(properties().set_dictionary_enabled(false).build())
        .with_skip_arrow_metadata(true);
    let mut file = ArrowWriter::try_new_with_options(create(path)?, schema.clone(), options)?;
    for lines in lines.chunks(SERIES_BATCH) {
        let text = |of: fn(&[u8]) -> &[u8]| -> ArrayRef {
            // Parsers take no names that are not UTF-8.
            let texts = lines.iter().map(|it| String::from_utf8_lossy(of(&it.name)));
            Arc::new(StringArray::from_iter_values(texts))
        };
        let totals = || lines.iter().map(|line| &line.totals);
        let number = |of: fn(&Totals) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(totals().map(of)))
        };
        let points = totals().map(|it| it.points as i64);
        let checksums = totals().map(|it| it.checksum);
        let columns = vec![
            text(|name| name),
            text(metric),
            text(|name| name.get(metric(name).len() + 1..).unwrap_or_default()),
            Arc::new(Int64Array::from_iter_values(points)),
            times(totals().map(|it| it.first).collect()),
            times(totals().map(|it| it.last).collect()),
            number(|it| it.min),
            number(|it| it.max),
            number(|it| it.sum),
            Arc::new(UInt64Array::from_iter_values(checksums)),
        ];
        file.write(&RecordBatch::try_new(schema.clone(), columns)?)?;
    }
    file.finish()?;
    finish(file.inner_mut(), sync)
}

/// Names and totals of a segment's series.
pub fn read_series(path: &Path) -> Result<Vec<(Vec<u8>, Totals)>> {
    guard(|| {
        let mut lines = Vec::new();
        for batch in batches(path, &[0, 3, 4, 5, 6, 7, 8, 9])? {
            let batch = batch?;
            let names = batch.column(0).as_string::<i32>();
            let points = batch.column(1).as_primitive::<Int64Type>();
            let time = |at: usize| batch.column(at).as_primitive::<TimestampNanosecondType>();
            let number = |at: usize| batch.column(at).as_primitive::<Float64Type>();
            let checksums = batch.column(7).as_primitive::<UInt64Type>();
            let line = |at: usize| {
                let totals = Totals {
                    points: points.value(at) as u64,
                    first: time(2).value(at),
                    last: time(3).value(at),
                    min: number(4).value(at),
                    max: number(5).value(at),
                    sum: number(6).value(at),
                    checksum: checksums.value(at),
                };
                (names.value(at).as_bytes().to_vec(), totals)
            };
            lines.extend((0..batch.num_rows()).map(line));
        }
        Ok(lines)
    })
}

/// How many points all series of a file of series have together.
pub fn count_points(path: &Path) -> Result<u64> {
    guard(|| {
        let mut points = 0u64;
        for batch in batches(path, &[3])? {
            let batch = batch?;
            let counts = batch.column(0).as_primitive::<Int64Type>().values().iter();
            points = counts.fold(points, |sum, &count| sum.wrapping_add(count as u64));
        }
        Ok(points)
    })
}

/// Some columns of a file of series.
fn batches(path: &Path, columns: &[usize]) -> Result<ParquetRecordBatchReader> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let (found, expected) = (builder.schema().fields(), series_schema());
    let column = |field: &Arc<Field>| (field.name().clone(), field.data_type().clone());
    if !found
        .iter()
        .map(column)
        .eq(expected.fields().iter().map(column))
    {
        return Err(ParquetError::General("not a file of series".into()));
    }
    let mask = ProjectionMask::leaves(builder.parquet_schema(), columns.iter().copied());
    builder
        .with_projection(mask)
        .with_batch_size(SERIES_BATCH)
        .build()
}

/// The rows that a file's footer promises. No page is read.
pub fn promised_rows(path: &Path) -> Result<u64> {
    guard(|| {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        Ok(reader.metadata().file_metadata().num_rows() as u64)
    })
}

/// Reads a file that somebody else may have written to: what makes no sense is an error, never a
/// panic.
fn guard<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    let broken = |_| Err(ParquetError::General("the file makes no sense".into()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(broken)
}
