//! `duckdb:///path/file.duckdb` and the options of a trial spec.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::read::Reading;
use crate::upsert::{Common, Method, StatementKind};
use venturi_base::error::{Error, Result};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::TrialSpec;

/// `DEFAULT_FLUSH_COUNT` of DuckDB's appender, less one vector.
const MOST_APPENDED: usize = 99 * 2048;

/// The options as the spec gives them; see `docs/targets/duckdb.md`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Options {
    #[serde(skip)]
    pub common: Common,
    #[serde(skip)]
    pub reading: Reading,
    pub statement: Option<StatementKind>,
    pub method: Method,
    /// The shared object that has DuckDB.
    #[serde(rename = "library")]
    pub engine: Option<PathBuf>,
}

impl Options {
    pub fn parse(spec: &TrialSpec) -> Result<Self> {
        let mut given = OptionReader::new("duckdb", &spec.options);
        let parsed = Self {
            common: given.take()?,
            reading: given.take()?,
            ..given.rest()?
        };
        if spec.in_flight > 1 {
            return Err(Error::usage(
                "in_flight: DuckDB runs in the client's own process, one batch at a time on a \
                 connection; take more streams",
            ));
        }
        if parsed.method == Method::Copy && parsed.statement.is_some() {
            return Err(Error::usage(
                "statement is for method = upsert; an appender takes values as they are",
            ));
        }
        if parsed.method == Method::Copy && spec.rows_per_batch > MOST_APPENDED {
            return Err(Error::usage(format!(
                "rows_per_batch: with method = copy at most {MOST_APPENDED}, for there an appender \
                 hands its rows over by itself, in the midst of a batch"
            )));
        }
        Ok(parsed)
    }

    pub fn engine(&self) -> Result<&Path> {
        self.engine.as_deref().ok_or_else(|| {
            Error::usage(
                "library: name a shared object with DuckDB's C API, such as libduckdb.so or the \
                 extension module of the Python package",
            )
        })
    }
}
