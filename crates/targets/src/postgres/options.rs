//! `postgres://user@host:port/database` and the options of a trial spec.

use serde::{Deserialize, Serialize};

use crate::read::Reading;
use crate::upsert::{Common, Form, Login, Method, Place, StatementKind};
use venturi_base::error::{Error, Result};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::TrialSpec;

pub const URL: Form = Form {
    scheme: "postgres",
    port: 5432,
    space: "database",
    usual: "venturi",
    one_host: Some("rows are written and read at one server"),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    On,
    Off,
    Local,
    RemoteWrite,
    RemoteApply,
}

/// How a get's rows travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WireFormat {
    /// `COPY (query) TO STDOUT (FORMAT binary)`.
    Copy,
    /// By the extended protocol, in binary.
    Rows,
}

/// The options as the spec gives them; see `docs/targets/postgres.md`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Options {
    #[serde(skip)]
    pub common: Common,
    #[serde(skip)]
    pub login: Login,
    #[serde(skip)]
    pub reading: Reading,
    pub format: Option<WireFormat>,
    pub statement: Option<StatementKind>,
    pub method: Method,
    pub synchronous: Option<Synchronous>,
}

impl Options {
    pub fn parse(spec: &TrialSpec) -> Result<Self> {
        let mut given = OptionReader::new("postgres", &spec.options);
        let parsed = Self {
            common: given.take()?,
            login: given.take()?,
            reading: given.take()?,
            ..given.rest()?
        };
        if parsed.method == Method::Copy {
            if parsed.statement == Some(StatementKind::Text) {
                return Err(Error::usage(
                    "statement = text is for method = upsert; a COPY carries binary values",
                ));
            }
            if spec.in_flight > 1 {
                return Err(Error::usage(
                    "in_flight: a COPY has its connection to itself; take more streams, or \
                     method = upsert",
                ));
            }
        }
        Ok(parsed)
    }

    pub fn statement(&self) -> StatementKind {
        self.statement.unwrap_or(StatementKind::Prepared)
    }

    pub fn format(&self) -> WireFormat {
        self.format.unwrap_or(WireFormat::Copy)
    }

    /// Who logs in.
    pub fn user(&self, place: &Place) -> Result<String> {
        self.login.user_or_own(place).ok_or_else(|| {
            Error::usage("no user to log in with: postgres://user@host, or the option user")
        })
    }
}
