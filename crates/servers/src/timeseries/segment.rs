//! The files of a segment: their names, and `series/`, which has what the segment holds of each series,
//! so that neither a restart nor a question has to read points.
//!
//! The name of each file, `<id>-<checksum>.parquet`, has XXH3 (64 bits) of the whole file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::arrow::ProjectionMask;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{FileReader, SerializedFileReader};
use xxhash_rust::xxh3::Xxh3;

use super::series::Totals;
use venturi_base::codec::timeseries::parse::series::split;

/// Lines of series that are handed to the writer at a time.
const SERIES_BATCH: usize = 8 << 10;
/// Higher levels take much longer and gain little: most of what is left is noise.
pub const LEVEL: i32 = 1;

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
pub struct Summed {
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

/// A sealed series and what is in it.
#[derive(Debug, Clone)]
pub struct Line {
    pub name: Box<[u8]>,
    pub totals: Totals,
}

/// The first word of a series' name.
pub fn metric(name: &[u8]) -> &[u8] {
    // A blank of the name itself has a backslash before it.
    split(name, b' ').next().unwrap_or_default()
}

pub fn time() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

pub fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, kind): &(&str, DataType)| Field::new(*name, kind.clone(), false);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
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

pub fn zstd() -> Compression {
    ZstdLevel::try_new(LEVEL).map_or(Compression::UNCOMPRESSED, Compression::ZSTD)
}

pub fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("venturi ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(zstd())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
}

pub fn create(path: &Path) -> io::Result<BufWriter<Summed>> {
    let file = File::create(path)?;
    let hash = Xxh3::new();
    Ok(BufWriter::with_capacity(1 << 20, Summed { file, hash }))
}

/// Ends a file and returns its checksum.
pub fn finish(file: &mut BufWriter<Summed>, sync: bool) -> Result<u64> {
    file.flush()?;
    let written = file.get_ref();
    if sync {
        written.file.sync_all()?;
    }
    Ok(written.hash.digest())
}

pub fn times(times: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
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
