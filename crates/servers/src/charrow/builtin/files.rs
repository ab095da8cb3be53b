//! Files that are read while a query runs.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::ProjectionMask;

use super::{kept, projected};
use crate::charrow::engine::{Raw, Run};
use venturi_base::error::{Error, Kind, Result};

/// Rows that a Parquet reader decodes at a time.
const PARQUET_ROWS: usize = 32_768;

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    ArrowFile,
    ArrowStream,
    Parquet,
}

/// A file by the name of its table.
#[derive(Clone)]
struct Place(Arc<str>);

impl Place {
    fn failed(&self, error: &dyn std::fmt::Display) -> Error {
        Error::new(Kind::Io, format!("{}: {error}", self.0))
    }
}

fn format(place: &Place, path: &str) -> Result<(File, Format)> {
    let mut file = File::open(path).map_err(|error| place.failed(&error))?;
    let mut magic = [0; 6];
    let read = file
        .read(&mut magic)
        .map_err(|error| place.failed(&error))?;
    file.rewind().map_err(|error| place.failed(&error))?;
    let format = match &magic[..read] {
        b"ARROW1" => Format::ArrowFile,
        [0xff, 0xff, 0xff, 0xff, ..] => Format::ArrowStream,
        [b'P', b'A', b'R', b'1', ..] => Format::Parquet,
        _ => {
            return Err(Error::usage(format!(
                "{}: neither Parquet nor Arrow IPC; load other formats with --table",
                place.0
            )))
        }
    };
    Ok((file, format))
}

/// Is it there, and of a known format?
pub fn check(name: &str, path: &str) -> Result<()> {
    open(name, path, None, None).map(|_| ())
}

/// Begins to read it.
pub fn open(
    name: &str,
    path: &str,
    columns: Option<&[String]>,
    limit: Option<u64>,
) -> Result<Box<dyn Run>> {
    let place = Place(format!("table {name:?}: {path}").into());
    let (file, format) = format(&place, path)?;
    let wrong = |error: ArrowError| place.failed(&error);
    let limit = limit.unwrap_or(u64::MAX);
    let (schema, batches): (SchemaRef, Batches) = match format {
        Format::Parquet => return parquet(place, path, &file, columns, limit),
        Format::ArrowFile => {
            let input = BufReader::with_capacity(1 << 20, file);
            let reader = FileReader::try_new(input, None).map_err(wrong)?;
            (reader.schema(), Box::new(reader))
        }
        Format::ArrowStream => {
            let input = BufReader::with_capacity(1 << 20, file);
            let reader = StreamReader::try_new(input, None).map_err(wrong)?;
            (reader.schema(), Box::new(reader))
        }
    };
    let kept = kept(&schema, columns)?;
    Ok(Box::new(Reading {
        schema: projected(&schema, kept.as_deref())?,
        kept,
        batches,
        left: limit,
        place,
    }))
}

type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send>;

/// An Arrow IPC file: read in order, by one encoder at a time.
struct Reading {
    schema: SchemaRef,
    kept: Option<Vec<usize>>,
    batches: Batches,
    left: u64,
    place: Place,
}

impl Run for Reading {
    fn schema(&mut self) -> Result<Option<SchemaRef>> {
        Ok(Some(self.schema.clone()))
    }

    fn next(&mut self) -> Result<Raw> {
        if self.left == 0 {
            return Ok(Raw::End);
        }
        let Some(batch) = self.batches.next() else {
            return Ok(Raw::End);
        };
        let mut batch = batch.map_err(|error| self.place.failed(&error))?;
        if let Some(kept) = &self.kept {
            batch = batch.project(kept)?;
        }
        if batch.num_rows() as u64 > self.left {
            batch = batch.slice(0, self.left as usize);
        }
        self.left -= batch.num_rows() as u64;
        Ok(Raw::Batches(Box::new(std::iter::once(Ok(batch)))))
    }
}

/// A Parquet file: each encoder reads and decodes row groups of its own.
struct RowGroups {
    place: Place,
    path: String,
    metadata: ArrowReaderMetadata,
    schema: SchemaRef,
    kept: Option<Vec<usize>>,
    next: usize,
    left: u64,
}

fn parquet(
    place: Place,
    path: &str,
    file: &File,
    columns: Option<&[String]>,
    limit: u64,
) -> Result<Box<dyn Run>> {
    let load =
        |options| ArrowReaderMetadata::load(file, options).map_err(|error| place.failed(&error));
    let mut metadata = load(ArrowReaderOptions::new())?;
    // A writer may have asked for dictionaries, which blocks do not carry.
    let plain = without_dictionaries(metadata.schema());
    if plain != *metadata.schema() {
        metadata = load(ArrowReaderOptions::new().with_schema(plain))?;
    }
    let schema = metadata.schema().clone();
    let kept = kept(&schema, columns)?;
    Ok(Box::new(RowGroups {
        schema: projected(&schema, kept.as_deref())?,
        path: path.to_owned(),
        place,
        metadata,
        kept,
        next: 0,
        left: limit,
    }))
}

fn without_dictionaries(schema: &SchemaRef) -> SchemaRef {
    let plain = |field: &Arc<Field>| match field.data_type() {
        DataType::Dictionary(_, values) => Arc::new(
            field
                .as_ref()
                .clone()
                .with_data_type(values.as_ref().clone()),
        ),
        _ => field.clone(),
    };
    let fields: Vec<_> = schema.fields().iter().map(plain).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

impl Run for RowGroups {
    fn schema(&mut self) -> Result<Option<SchemaRef>> {
        Ok(Some(self.schema.clone()))
    }

    fn next(&mut self) -> Result<Raw> {
        let groups = self.metadata.metadata().row_groups();
        let Some(group) = groups.get(self.next).filter(|_| self.left > 0) else {
            return Ok(Raw::End);
        };
        let rows = u64::try_from(group.num_rows()).unwrap_or(0).min(self.left);
        let at = self.next;
        self.next += 1;
        self.left -= rows;
        let file = File::open(&self.path).map_err(|error| self.place.failed(&error))?;
        let mut reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_row_groups(vec![at])
                .with_batch_size(PARQUET_ROWS)
                .with_limit(usize::try_from(rows).unwrap_or(usize::MAX));
        if let Some(kept) = &self.kept {
            let mask = ProjectionMask::roots(reader.parquet_schema(), kept.iter().copied());
            reader = reader.with_projection(mask);
        }
        let reader = reader.build().map_err(|error| self.place.failed(&error))?;
        // The file's order of columns is kept by the reader; the query's may be another one.
        let schema = self.schema.clone();
        let place = self.place.clone();
        let ordered = move |batch: std::result::Result<RecordBatch, ArrowError>| {
            let batch = batch.map_err(|error| place.failed(&error))?;
            let places = schema
                .fields()
                .iter()
                .map(|field| batch.schema_ref().index_of(field.name()))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            Ok(batch.project(&places)?)
        };
        Ok(Raw::Batches(Box::new(reader.map(ordered))))
    }
}
