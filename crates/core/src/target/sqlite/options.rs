//! `sqlite:///path/file.db` and the options of a trial spec.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::spec::TrialSpec;
use crate::target::upsert::read_options;

pub fn parse_url(url: &str) -> Result<PathBuf> {
    let path = Path::new(url.strip_prefix("sqlite://").unwrap_or(url));
    match path.is_absolute() && path.file_name().is_some() {
        true => Ok(path.to_owned()),
        false => Err(Error::usage(format!(
            "target {url:?}: not the path of a file; write sqlite:///path/to/file.db with three \
             slashes, from the root on"
        ))),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Journal {
    Delete,
    Truncate,
    Persist,
    Memory,
    Wal,
    Off,
}

impl Journal {
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Persist => "persist",
            Self::Memory => "memory",
            Self::Wal => "wal",
            Self::Off => "off",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    Off,
    Normal,
    Full,
    Extra,
}

impl Synchronous {
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Normal => "normal",
            Self::Full => "full",
            Self::Extra => "extra",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statements {
    Text,
    Prepared,
}

/// The options as the spec gives them; see `docs/targets/sqlite.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub table: Option<String>,
    pub setup: bool,
    pub keep: bool,
    pub init: Vec<String>,
    pub statement: Statements,
    /// Without set-up, the file's own.
    pub journal: Option<Journal>,
    pub synchronous: Synchronous,
    pub without_rowid: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: None,
            setup: true,
            keep: false,
            init: Vec::new(),
            statement: Statements::Prepared,
            journal: None,
            synchronous: Synchronous::Normal,
            without_rowid: true,
        }
    }
}

impl Options {
    pub fn parse(spec: &TrialSpec) -> Result<Self> {
        let parsed: Self = read_options("sqlite", &spec.options)?;
        if spec.in_flight > 1 {
            return Err(Error::usage(
                "in_flight: SQLite runs in the client's own thread, one batch at a time on a \
                 connection; take more streams",
            ));
        }
        Ok(parsed)
    }

    pub fn journal(&self) -> Option<Journal> {
        self.journal.or(self.setup.then_some(Journal::Wal))
    }
}
