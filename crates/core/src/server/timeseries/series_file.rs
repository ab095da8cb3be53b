//! `series/<id>.parquet`: what a segment holds of each series, so that neither a restart
//! nor a question needs its points.

use std::fs::File;
use std::io::BufWriter;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::segment::{finish, metric, number, properties, stamp, text, Line};
use super::totals::Totals;

/// Series of one row group.
const GROUP_SERIES: usize = 1 << 18;

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

pub fn write(path: &Path, lines: &[Line], sync: bool) -> Result<()> {
    let file = BufWriter::new(File::create(path)?);
    let mut file = SerializedFileWriter::new(file, schema()?, properties())?;
    for lines in lines.chunks(GROUP_SERIES) {
        let mut group = file.next_row_group()?;
        let texts = |of: &dyn Fn(&[u8]) -> Vec<u8>| -> Vec<ByteArray> {
            lines.iter().map(|line| of(&line.name).into()).collect()
        };
        let integers = |of: &dyn Fn(&Totals) -> i64| -> Vec<i64> {
            lines.iter().map(|line| of(&line.totals)).collect()
        };
        let doubles = |of: &dyn Fn(&Totals) -> f64| -> Vec<f64> {
            lines.iter().map(|line| of(&line.totals)).collect()
        };
        let tags = |name: &[u8]| {
            name.get(metric(name).len() + 1..)
                .unwrap_or_default()
                .to_vec()
        };
        column::<ByteArrayType>(&mut group, &texts(&<[u8]>::to_vec))?;
        column::<ByteArrayType>(&mut group, &texts(&|name| metric(name).to_vec()))?;
        column::<ByteArrayType>(&mut group, &texts(&tags))?;
        column::<Int64Type>(&mut group, &integers(&|it| it.points as i64))?;
        column::<Int64Type>(&mut group, &integers(&|it| it.first))?;
        column::<Int64Type>(&mut group, &integers(&|it| it.last))?;
        column::<DoubleType>(&mut group, &doubles(&|it| it.min))?;
        column::<DoubleType>(&mut group, &doubles(&|it| it.max))?;
        column::<DoubleType>(&mut group, &doubles(&|it| it.sum))?;
        column::<Int64Type>(&mut group, &integers(&|it| it.checksum as i64))?;
        group.close()?;
    }
    finish(file, sync)
}

fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, BufWriter<File>>,
    values: &[T::T],
) -> Result<()> {
    let missing = || ParquetError::General("a column too many".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

/// Names and totals of a segment's series. A file that makes no sense is an error, never
/// a panic: others than us may have written to it.
pub fn read(path: &Path) -> Result<Vec<(Vec<u8>, Totals)>> {
    let broken = |_| Err(ParquetError::General("the file makes no sense".into()));
    catch_unwind(AssertUnwindSafe(|| read_file(path))).unwrap_or_else(broken)
}

fn read_file(path: &Path) -> Result<Vec<(Vec<u8>, Totals)>> {
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
    let mut lines = Vec::new();
    for place in 0..reader.num_row_groups() {
        let group = reader.get_row_group(place)?;
        let group = group.as_ref();
        let names = values::<ByteArrayType>(group, 0)?;
        let [points, first, last, checksum] =
            [3, 4, 5, 9].map(|column| values::<Int64Type>(group, column));
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

/// How many points the footer of a segment's points file promises.
pub fn points_of(path: &Path) -> Result<u64> {
    let broken = |_| Err(ParquetError::General("the file makes no sense".into()));
    let count = || {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        Ok(reader.metadata().file_metadata().num_rows() as u64)
    };
    catch_unwind(AssertUnwindSafe(count)).unwrap_or_else(broken)
}
