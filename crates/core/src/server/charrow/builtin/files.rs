//! Files that are read while a query runs.

use std::fs::File;
use std::io::{BufReader, Read, Seek};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::SchemaRef;

use super::kept;
use crate::error::{Error, Kind, Result};
use crate::server::charrow::engine::{Raw, Run};

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    ArrowFile,
    ArrowStream,
}

fn failed(name: &str, path: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(Kind::Io, format!("table {name:?}: {path}: {error}"))
}

fn format(name: &str, path: &str) -> Result<(File, Format)> {
    let mut file = File::open(path).map_err(|error| failed(name, path, &error))?;
    let mut magic = [0; 6];
    let read = file
        .read(&mut magic)
        .map_err(|error| failed(name, path, &error))?;
    file.rewind().map_err(|error| failed(name, path, &error))?;
    let format = match &magic[..read] {
        b"ARROW1" => Format::ArrowFile,
        [0xff, 0xff, 0xff, 0xff, ..] => Format::ArrowStream,
        [b'P', b'A', b'R', b'1', ..] => {
            return Err(Error::usage(format!(
            "table {name:?}: {path}: Parquet is not read while a query runs; load it with --table"
        )))
        }
        _ => {
            return Err(Error::usage(format!(
                "table {name:?}: {path}: neither an Arrow IPC file nor an Arrow IPC stream"
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
    let (file, format) = format(name, path)?;
    let wrong = |error: arrow_schema::ArrowError| failed(name, path, &error);
    let input = BufReader::with_capacity(1 << 20, file);
    let (schema, batches): (SchemaRef, Batches) = match format {
        Format::ArrowFile => {
            let reader = FileReader::try_new(input, None).map_err(wrong)?;
            (reader.schema(), Box::new(reader))
        }
        Format::ArrowStream => {
            let reader = StreamReader::try_new(input, None).map_err(wrong)?;
            (reader.schema(), Box::new(reader))
        }
    };
    let kept = kept(&schema, columns)?;
    Ok(Box::new(Reading {
        schema: super::projected(&schema, kept.as_deref())?,
        kept,
        batches,
        left: limit.unwrap_or(u64::MAX),
        place: format!("table {name:?}: {path}"),
    }))
}

type Batches =
    Box<dyn Iterator<Item = std::result::Result<RecordBatch, arrow_schema::ArrowError>> + Send>;

struct Reading {
    schema: SchemaRef,
    kept: Option<Vec<usize>>,
    batches: Batches,
    left: u64,
    place: String,
}

impl Run for Reading {
    fn schema(&mut self) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn next(&mut self) -> Result<Option<Raw>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some(batch) = self.batches.next() else {
            return Ok(None);
        };
        let mut batch =
            batch.map_err(|error| Error::new(Kind::Io, format!("{}: {error}", self.place)))?;
        if let Some(kept) = &self.kept {
            batch = batch.project(kept)?;
        }
        if batch.num_rows() as u64 > self.left {
            batch = batch.slice(0, self.left as usize);
        }
        self.left -= batch.num_rows() as u64;
        Ok(Some(Raw::Batches(Box::new(std::iter::once(Ok(batch))))))
    }
}
