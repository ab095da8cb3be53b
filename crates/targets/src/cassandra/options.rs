//! `cassandra://user@host:port,host2/keyspace` and the options of a trial spec.

use std::collections::BTreeMap;

use scylla::frame::Compression;
use scylla::statement::batch::BatchType;
use scylla::statement::Consistency;
use serde::Deserialize;
use serde_json::Value;

use crate::read::Reading;
pub use crate::upsert::StatementKind;
use crate::upsert::{Common, Form, Login, Place};
use venturi_base::error::{Error, Result};
use venturi_base::option_reader::OptionReader;

pub const URL: Form = Form {
    scheme: "cassandra",
    port: 9042,
    space: "keyspace",
    usual: "venturi",
    one_host: None,
};
/// What Cassandra itself allows for the name of a keyspace or table.
pub const LONGEST_NAME: usize = 48;

/// The hosts are contact points: the driver finds the other nodes by itself.
pub fn parse_url(url: &str) -> Result<Place> {
    let place = Place::parse(url, &URL)?;
    check_name("keyspace", &place.space)?;
    Ok(place)
}

pub fn check_name(what: &str, name: &str) -> Result<()> {
    let fits = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match fits {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{what} {name:?}: Cassandra takes letters, digits and _, at most {LONGEST_NAME} of them"
        ))),
    }
}

/// What happens to the columns that are not the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Write {
    /// `UPDATE ... SET hits = hits + ?` of counter columns.
    Counter,
    /// `INSERT` of plain columns: the last row of a key wins.
    Insert,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batching {
    Unlogged,
    Logged,
    /// Every row by itself.
    None,
}

/// How a batch is put to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchForm {
    /// The protocol's BATCH: the id of a prepared statement, or a text, for each row.
    Message,
    /// CQL's `BEGIN BATCH ... APPLY BATCH`: one statement, prepared as a whole or one text.
    Statement,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Any,
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    LocalOne,
}

/// The options as the spec gives them; see `docs/targets/cassandra.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    #[serde(skip)]
    pub common: Common,
    #[serde(skip)]
    pub login: Login,
    #[serde(skip)]
    pub reading: Reading,
    /// Rows of one answer to a get at most.
    pub page_size: Option<i32>,
    pub statement: StatementKind,
    pub write: Write,
    batch: Batching,
    pub batch_form: BatchForm,
    consistency: Level,
    pub replication: Option<u32>,
    pub partition_key: Option<usize>,
    compression: Option<String>,
    pub token_aware: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Common::default(),
            login: Login::default(),
            reading: Reading::default(),
            page_size: None,
            statement: StatementKind::Prepared,
            write: Write::Counter,
            batch: Batching::Unlogged,
            batch_form: BatchForm::Message,
            consistency: Level::LocalOne,
            replication: None,
            partition_key: None,
            compression: None,
            token_aware: true,
        }
    }
}

impl Options {
    pub fn parse(options: &BTreeMap<String, Value>) -> Result<Self> {
        let mut given = OptionReader::new("cassandra", options);
        let parsed = Self {
            common: given.take()?,
            login: given.take()?,
            reading: given.take()?,
            ..given.rest()?
        };
        parsed.compression()?;
        if let Some(table) = &parsed.common.table {
            check_name("table", table)?;
        }
        if parsed.page_size.is_some_and(|rows| rows < 1) {
            return Err(Error::usage("page_size must be at least 1"));
        }
        if parsed.replication == Some(0) {
            return Err(Error::usage("replication must be at least 1"));
        }
        if parsed.write == Write::Counter && parsed.consistency == Level::Any {
            return Err(Error::usage(
                "consistency = any is not for counters and gets, which a replica must read first: take one",
            ));
        }
        Ok(parsed)
    }

    pub fn compression(&self) -> Result<Option<Compression>> {
        match self.compression.as_deref() {
            None | Some("none") => Ok(None),
            Some("lz4") => Ok(Some(Compression::Lz4)),
            Some("snappy") => Ok(Some(Compression::Snappy)),
            Some(other) => Err(Error::usage(format!(
                "compression = {other:?}: CQL knows lz4 and snappy"
            ))),
        }
    }

    pub fn consistency(&self) -> Consistency {
        match self.consistency {
            Level::Any => Consistency::Any,
            Level::One => Consistency::One,
            Level::Two => Consistency::Two,
            Level::Three => Consistency::Three,
            Level::Quorum => Consistency::Quorum,
            Level::All => Consistency::All,
            Level::LocalQuorum => Consistency::LocalQuorum,
            Level::EachQuorum => Consistency::EachQuorum,
            Level::LocalOne => Consistency::LocalOne,
        }
    }

    /// No replica need have it.
    pub fn is_any(&self) -> bool {
        self.consistency == Level::Any
    }

    /// The kind of BATCH; `None`: every row by itself.
    pub fn batch(&self) -> Option<BatchType> {
        match (self.batch, self.write) {
            (Batching::None, _) => None,
            (_, Write::Counter) => Some(BatchType::Counter),
            (Batching::Unlogged, Write::Insert) => Some(BatchType::Unlogged),
            (Batching::Logged, Write::Insert) => Some(BatchType::Logged),
        }
    }

    /// User and password, if any.
    pub fn login(&self, place: &Place) -> Result<Option<(String, String)>> {
        match (self.login.user(place), &self.login.password_env) {
            (Some(user), _) => Ok(Some((user, self.login.password()?.unwrap_or_default()))),
            (None, Some(_)) => Err(Error::usage(
                "password_env needs a user: cassandra://user@host, or the option user",
            )),
            (None, None) => Ok(None),
        }
    }
}
