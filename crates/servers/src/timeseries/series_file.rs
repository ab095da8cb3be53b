//! A file of `series/`: what a segment holds of each series, so that neither a restart
//! nor a question needs its points.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::checks::sense;
use super::files::Summed;
use super::pages::{self, Column};
use super::segment::{finish, metric, number, properties, stamp, text, Line};
use super::totals::Totals;

/// Series of one row group.
const GROUP_SERIES: usize = 1 << 18;
/// Series of one page.
const PAGE_SERIES: usize = 1 << 13;
/// The column that counts.
const POINTS: usize = 3;

fn count(name: &str, signed: bool) -> Result<TypePtr> {
    let integer = LogicalType::integer(64, signed);
    let count = Type::primitive_type_builder(name, Physical::INT64)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(integer));
    count.build().map(Arc::new)
}

fn schema() -> Result<TypePtr> {
    let fields = vec![
        text("series")?,
        text("metric")?,
        text("tags")?,
        count("points", true)?,
        stamp("first")?,
        stamp("last")?,
        number("min")?,
        number("max")?,
        number("sum")?,
        count("checksum", false)?,
    ];
    let schema = Type::group_type_builder("series").with_fields(fields);
    schema.build().map(Arc::new)
}

/// What a column of the file has of a series, as plain bytes.
type Value = fn(&Line, &mut Vec<u8>);

fn tags(name: &[u8]) -> &[u8] {
    name.get(metric(name).len() + 1..).unwrap_or_default()
}

/// In the order of the schema.
const VALUES: [Value; 10] = [
    |line, out| pages::plain_text(&line.name, out),
    |line, out| pages::plain_text(metric(&line.name), out),
    |line, out| pages::plain_text(tags(&line.name), out),
    |line, out| out.extend_from_slice(&line.totals.points.to_le_bytes()),
    |line, out| out.extend_from_slice(&line.totals.first.to_le_bytes()),
    |line, out| out.extend_from_slice(&line.totals.last.to_le_bytes()),
    |line, out| out.extend_from_slice(&line.totals.min.to_le_bytes()),
    |line, out| out.extend_from_slice(&line.totals.max.to_le_bytes()),
    |line, out| out.extend_from_slice(&line.totals.sum.to_le_bytes()),
    |line, out| out.extend_from_slice(&line.totals.checksum.to_le_bytes()),
];

/// Writes the file and tells its checksum. `lines` are sorted by their names.
pub fn write(path: &Path, lines: &[Line], sync: bool) -> Result<u64> {
    let file = BufWriter::new(Summed::create(path)?);
    let mut file = SerializedFileWriter::new(file, schema()?, properties())?;
    let columns = file.schema_descr().columns().to_vec();
    let mut zstd = pages::compressor()?;
    let mut plain = Vec::new();
    for lines in lines.chunks(GROUP_SERIES) {
        let mut group = file.next_row_group()?;
        for (place, (value, descriptor)) in VALUES.iter().zip(&columns).enumerate() {
            let mut column = Column::default();
            for lines in lines.chunks(PAGE_SERIES) {
                plain.clear();
                lines.iter().for_each(|line| value(line, &mut plain));
                column.data(Encoding::PLAIN, &plain, lines.len(), &mut zstd)?;
            }
            let range = lines.first().zip(lines.last()).filter(|_| place == 0);
            let range = range.map(|(first, last)| pages::text_range(&first.name, &last.name));
            column.close(descriptor.clone(), range, &mut group)?;
        }
        group.close()?;
    }
    finish(file, sync)
}

/// Names and totals of a segment's series.
pub fn read(path: &Path) -> Result<Vec<(Vec<u8>, Totals)>> {
    sense(|| read_lines(&open(path)?))
}

/// How many points all series have together.
pub fn points(path: &Path) -> Result<u64> {
    sense(|| {
        let reader = open(path)?;
        let mut points = 0u64;
        for place in 0..reader.num_row_groups() {
            let group = reader.get_row_group(place)?;
            let counts = values::<Int64Type>(group.as_ref(), POINTS)?;
            let sum = |sum: u64, count: i64| sum.wrapping_add(count as u64);
            points = counts.into_iter().fold(points, sum);
        }
        Ok(points)
    })
}

fn open(path: &Path) -> Result<SerializedFileReader<File>> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let names: Vec<String> = schema()?
        .get_fields()
        .iter()
        .map(|it| it.name().into())
        .collect();
    let found = reader.metadata().file_metadata().schema_descr();
    if !found.columns().iter().map(|it| it.name()).eq(names.iter()) {
        return Err(ParquetError::General("not a file of series".into()));
    }
    Ok(reader)
}

fn read_lines(reader: &SerializedFileReader<File>) -> Result<Vec<(Vec<u8>, Totals)>> {
    let mut lines = Vec::new();
    for place in 0..reader.num_row_groups() {
        let group = reader.get_row_group(place)?;
        let group = group.as_ref();
        let names = values::<ByteArrayType>(group, 0)?;
        let [points, first, last, checksum] =
            [POINTS, 4, 5, 9].map(|column| values::<Int64Type>(group, column));
        let [min, max, sum] = [6, 7, 8].map(|column| values::<DoubleType>(group, column));
        let (points, first, last, checksum) = (points?, first?, last?, checksum?);
        let (min, max, sum) = (min?, max?, sum?);
        for (at, name) in names.iter().enumerate() {
            let totals = Totals {
                points: points[at] as u64,
                first: first[at],
                last: last[at],
                min: min[at],
                max: max[at],
                sum: sum[at],
                checksum: checksum[at] as u64,
            };
            lines.push((name.data().to_vec(), totals));
        }
    }
    Ok(lines)
}

/// A column of a row group, whole.
fn values<T: DataType>(group: &dyn RowGroupReader, column: usize) -> Result<Vec<T::T>> {
    let rows = group.metadata().num_rows() as usize;
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(column)?);
    let mut values = Vec::new();
    while values.len() < rows {
        let (_, read, _) = reader.read_records(rows - values.len(), None, None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General("a column is cut short".into()));
        }
    }
    Ok(values)
}
