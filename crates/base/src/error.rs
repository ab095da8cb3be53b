//! What can go wrong, as the user is told it: a kind (the record's `error.kind`)
//! and a line that says what happened, where, and what to do next.

use std::fmt;

use crate::secrets::masked;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The spec asks for something impossible.
    Usage,
    Unreachable,
    /// The peer does not speak what was expected of it.
    Protocol,
    /// The peer is what was expected, and does not offer what this operation asks of it.
    Unsupported,
    Tls,
    Auth,
    /// The peer answered with an error.
    Server,
    /// The user's own code raised an error, or did other than it was asked to.
    Plugin,
    /// The peer went away in mid-trial.
    Lost,
    Timeout,
    Verification,
    /// A bound on memory was reached.
    Memory,
    Io,
    Cancelled,
    /// An end of the trial did not run.
    Paused,
    Internal,
}

/// What a failed batch means for its stream and its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fate {
    /// The stream cannot go on.
    #[default]
    Fatal,
    /// The peer said no: the batch's rows were not applied, the stream can go on.
    Refused { rows: u64 },
    /// Nobody knows whether the batch's rows were applied; the stream can go on.
    InDoubt { rows: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: Kind,
    pub message: String,
    /// The peer's own code, as it writes it.
    pub code: Option<String>,
    pub fate: Fate,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: masked(message.into()),
            code: None,
            fate: Fate::Fatal,
        }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(Kind::Protocol, message)
    }

    pub fn cancelled() -> Self {
        Self::new(Kind::Cancelled, "cancelled")
    }

    /// What a thread that panicked has said.
    pub fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("of an unknown kind");
        Self::new(Kind::Internal, format!("panicked: {text}"))
    }

    pub fn with_code(mut self, code: impl fmt::Display) -> Self {
        self.code = Some(code.to_string());
        self
    }

    pub fn with_fate(mut self, fate: Fate) -> Self {
        self.fate = fate;
        self
    }

    /// The same error with what was being done in front of it.
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.message = masked(format!("{what}: {}", self.message));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::new(Kind::Protocol, format!("Arrow: {error}"))
    }
}
