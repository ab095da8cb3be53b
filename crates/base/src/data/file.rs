//! `file`: the Arrow IPC file that Python made of a user's Parquet, CSV or Arrow file.
//!
//! Every error names the user's file, not the prepared one, which the user never saw.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::SchemaRef;

use crate::error::{Error, Kind, Result};
use crate::halt;

/// All batches of the IPC file `ipc`, which was made of the file `original`.
pub fn read(original: &str, ipc: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let failed = |kind: Kind, error: &dyn std::fmt::Display| {
        Error::new(kind, format!("{original}: {error} (prepared as {ipc})"))
    };
    let file = File::open(Path::new(ipc)).map_err(|error| failed(Kind::Io, &error))?;
    let reader =
        FileReader::try_new_buffered(file, None).map_err(|error| failed(Kind::Usage, &error))?;
    let schema = reader.schema();
    let mut batches = Vec::with_capacity(reader.num_batches());
    for batch in reader {
        halt::check()?;
        batches.push(batch.map_err(|error| failed(Kind::Usage, &error))?);
    }
    Ok((schema, batches))
}
