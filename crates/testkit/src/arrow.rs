//! Arrow's arrays, batches, streams and files, and what a column holds.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int64Array, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter, StreamWriter};

pub fn array(values: impl Array + 'static) -> ArrayRef {
    Arc::new(values)
}

/// A batch of these columns; those with nulls may have them.
pub fn batch<'a>(columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A batch of one column: n, these numbers.
pub fn numbers(range: Range<i64>) -> RecordBatch {
    batch([("n", array(Int64Array::from_iter_values(range)))])
}

/// The values of a batch's column of numbers.
pub fn values<T: ArrowPrimitiveType>(batch: &RecordBatch, at: usize) -> Vec<Option<T::Native>> {
    items::<T>(batch.column(at))
}

/// The values of an array of numbers.
pub fn items<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<Option<T::Native>> {
    array.as_primitive::<T>().iter().collect()
}

/// The texts of a batch's column.
pub fn texts(batch: &RecordBatch, at: usize) -> Vec<Option<&str>> {
    batch.column(at).as_string::<i32>().iter().collect()
}

/// The batches as an IPC stream.
pub fn write_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// The first batch of an IPC stream.
pub fn read_stream(stream: &[u8]) -> RecordBatch {
    let mut reader = StreamReader::try_new(stream, None).unwrap();
    reader.next().unwrap().unwrap()
}

/// The batches as an IPC file.
pub fn write_file(path: impl AsRef<Path>, batches: &[RecordBatch]) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = FileWriter::try_new(file, &batches[0].schema()).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

/// A batch of numbers and of texts, each fifth of which is null.
pub fn numbers_and_texts(rows: Range<i64>) -> RecordBatch {
    let numbers = array(Int64Array::from_iter_values(rows.clone()));
    let texts = rows.map(|row| (row % 5 > 0).then(|| format!("text {row}")));
    let texts = array(StringArray::from_iter(texts));
    RecordBatch::try_from_iter_with_nullable([("n", numbers, false), ("t", texts, true)]).unwrap()
}
