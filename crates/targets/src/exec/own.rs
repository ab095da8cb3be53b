//! Venturi's own program, for where none is named: it writes the rows of a trial, or reads and counts
//! them, as fast as it can.

use std::fs::File;
use std::io::{stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;

use serde::Deserialize;

use crate::stream::{give, take};
use crate::Tally;
use venturi_base::codec::ipc::{Compression, Encoder};
use venturi_base::data::Source;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::spec::{Data, Operation};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    operation: Operation,
    /// Of a get.
    #[serde(default)]
    data: Option<Data>,
    rows_per_batch: usize,
    /// Without end where nothing is said.
    rows: Option<u64>,
}

/// A get writes to standard output until all is written or nobody reads; a put reads standard input.
pub fn run(json: &str) -> Result<Tally> {
    let spec: Spec = serde_json::from_str(json)
        .map_err(|error| Error::usage(format!("the program's spec: {error}")))?;
    if spec.operation == Operation::Put {
        return take(&mut plain(stdin().as_fd())?, true);
    }
    let data = spec.data.unwrap_or(Data::Remote);
    let source = Source::make(&data, spec.rows_per_batch)?;
    let encoder = Encoder::new(&source.schema(), Compression::None)?;
    let cursor = source.cursor(spec.rows);
    let given = give(
        &mut plain(stdout().as_fd())?,
        cursor,
        encoder,
        false,
        &AtomicBool::new(false),
    );
    match given {
        // A trial that ends with its time closes the pipe.
        Err(error) if error.kind == Kind::Lost && spec.rows.is_none() => Ok(Tally::default()),
        given => given,
    }
}

/// Without the buffer of Rust's own.
fn plain(fd: BorrowedFd<'_>) -> Result<File> {
    let copy = fd.try_clone_to_owned();
    copy.map(File::from)
        .map_err(|error| Error::new(Kind::Io, format!("standard input or output: {error}")))
}
