//! `duckdb:///path/file.duckdb` and the options of a trial spec.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::spec::TrialSpec;
use crate::target::upsert::read_options;

/// `DEFAULT_FLUSH_COUNT` of DuckDB's appender, less one vector.
const MOST_APPENDED: usize = 99 * 2048;

pub fn parse_url(url: &str) -> Result<PathBuf> {
    let path = Path::new(url.strip_prefix("duckdb://").unwrap_or(url));
    match path.is_absolute() && path.file_name().is_some() && path.to_str().is_some() {
        true => Ok(path.to_owned()),
        false => Err(Error::usage(format!(
            "target {url:?}: not the path of a file; write duckdb:///path/to/file.duckdb with \
             three slashes, from the root on"
        ))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// INSERT ... ON CONFLICT DO UPDATE.
    Upsert,
    /// An appender, whose rows the same takes.
    Copy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statements {
    Text,
    Prepared,
}

/// The options as the spec gives them; see `docs/targets/duckdb.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub table: Option<String>,
    pub setup: bool,
    pub keep: bool,
    pub init: Vec<String>,
    pub statement: Option<Statements>,
    pub method: Method,
    /// The shared object that has DuckDB.
    #[serde(rename = "library")]
    pub engine: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: None,
            setup: true,
            keep: false,
            init: Vec::new(),
            statement: None,
            method: Method::Upsert,
            engine: None,
        }
    }
}

impl Options {
    pub fn parse(spec: &TrialSpec) -> Result<Self> {
        let parsed: Self = read_options("duckdb", &spec.options)?;
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
