//! What a user sets of a program, and what its command and its environment are for one stream.

use serde::Deserialize;

use venturi_base::error::{Error, Result};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::{Data, Operation, TrialSpec};

/// Bytes of a batch at most, where nothing is said.
const USUAL_BATCH: usize = 1 << 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An Arrow IPC stream.
    #[default]
    Arrow,
    /// Records with a first one that names the columns; counted.
    Csv,
    /// Counted.
    Lines,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Csv => "csv",
            Self::Lines => "lines",
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The program and its arguments.
    pub command: Vec<String>,
    pub format: Format,
    pub max_block_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            format: Format::default(),
            max_block_bytes: USUAL_BATCH,
        }
    }
}

impl Options {
    pub fn of(spec: &TrialSpec) -> Result<Self> {
        let found: Self = OptionReader::new("exec", &spec.options).rest()?;
        let wrong = |what: &str| Err(Error::usage(format!("exec://: {what}")));
        if found.command.first().is_none_or(String::is_empty) {
            return wrong("names no program; give its command");
        }
        if found.command.iter().any(|word| word.contains('\0')) {
            return wrong("the command has a character of code 0, which no program can be given");
        }
        if !super::SYSTEM.operations.contains(&spec.operation) {
            return wrong("takes gets and puts");
        }
        if found.format != Format::Arrow && spec.operation == Operation::Put {
            return wrong("a put is an Arrow IPC stream; csv and lines are for gets");
        }
        if found.format != Format::Arrow && spec.data != Data::Remote {
            return wrong(
                "csv and lines are counted, and cannot be held against rows that are known",
            );
        }
        Ok(found)
    }
}
