//! `sqlite:///path/file.db` and the options of a trial spec.

use serde::{Deserialize, Serialize};

use crate::read::Reading;
use crate::upsert::{Common, StatementKind};
use venturi_base::error::{Error, Result};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::TrialSpec;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Journal {
    Delete,
    Truncate,
    Persist,
    Memory,
    Wal,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    Off,
    Normal,
    Full,
    Extra,
}

/// The options as the spec gives them; see `docs/targets/sqlite.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    #[serde(skip)]
    pub common: Common,
    #[serde(skip)]
    pub reading: Reading,
    pub statement: StatementKind,
    /// Without set-up, the file's own.
    pub journal: Option<Journal>,
    pub synchronous: Synchronous,
    pub without_rowid: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Common::default(),
            reading: Reading::default(),
            statement: StatementKind::Prepared,
            journal: None,
            synchronous: Synchronous::Normal,
            without_rowid: true,
        }
    }
}

impl Options {
    pub fn parse(spec: &TrialSpec) -> Result<Self> {
        let mut given = OptionReader::new("sqlite", &spec.options);
        let parsed = Self {
            common: given.take()?,
            reading: given.take()?,
            ..given.rest()?
        };
        if spec.in_flight > 1 {
            return Err(Error::usage(
                "in_flight: SQLite runs in the client's own thread, one batch at a time on a \
                 connection; take more streams",
            ));
        }
        Ok(parsed)
    }

    pub fn journal(&self) -> Option<Journal> {
        self.journal.or(self.common.setup.then_some(Journal::Wal))
    }
}
