//! `mysql://user@host:port,host2/database` and the options of a trial spec.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::auth::Secret;
use crate::read::Reading;
use crate::upsert::{Common, Form, Login, Place, StatementKind};
use venturi_base::error::{Error, Result};
use venturi_base::option_reader::OptionReader;

pub const URL: Form = Form {
    scheme: "mysql",
    port: 3306,
    space: "database",
    usual: "venturi",
    one_host: None,
};
/// What the servers allow for a name, in characters.
const LONGEST_NAME: usize = 64;

pub fn parse_url(url: &str) -> Result<Place> {
    let place = Place::parse(url, &URL)?;
    check_name("database", &place.space)?;
    Ok(place)
}

fn check_name(what: &str, name: &str) -> Result<()> {
    let fits = (1..=LONGEST_NAME).contains(&name.chars().count())
        && !name.contains(['`', '\\', '/', '.', '\0', '\''])
        && !name.ends_with(' ');
    match fits {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "{what} {name:?}: a name has 1 to {LONGEST_NAME} characters, none of them / \\ . ` or '"
        ))),
    }
}

/// How a get's rows travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WireFormat {
    /// Of a prepared statement.
    Binary,
    Text,
}

/// How a table is stored where the server is SingleStore; any other word is the name of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    Default,
    Rowstore,
    Columnstore,
    Engine(String),
}

/// How connections are made.
#[derive(Clone)]
pub struct Access {
    pub user: String,
    pub secret: Secret,
    pub tls: Option<Arc<ClientConfig>>,
    pub server_name: Option<String>,
    pub timeout: Duration,
}

/// The options as the spec gives them; see `docs/targets/mysql.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    #[serde(skip)]
    pub common: Common,
    #[serde(skip)]
    pub login: Login,
    #[serde(skip)]
    pub reading: Reading,
    pub format: Option<WireFormat>,
    pub statement: StatementKind,
    storage: Option<String>,
    pub shard_key: Option<Vec<String>>,
    pub partitions: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Common::default(),
            login: Login::default(),
            reading: Reading::default(),
            format: None,
            statement: StatementKind::Text,
            storage: None,
            shard_key: None,
            partitions: None,
        }
    }
}

impl Options {
    pub fn parse(options: &BTreeMap<String, Value>) -> Result<Self> {
        let mut given = OptionReader::new("mysql", options);
        let parsed = Self {
            common: given.take()?,
            login: given.take()?,
            reading: given.take()?,
            ..given.rest()?
        };
        if let Some(table) = &parsed.common.table {
            check_name("table", table)?;
        }
        if parsed.partitions == Some(0) {
            return Err(Error::usage("partitions must be at least 1"));
        }
        if let Storage::Engine(name) = parsed.storage() {
            if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(Error::usage(format!(
                    "storage {name:?}: rowstore, columnstore or the name of an engine"
                )));
            }
        }
        Ok(parsed)
    }

    pub fn format(&self) -> WireFormat {
        self.format.unwrap_or(WireFormat::Binary)
    }

    pub fn storage(&self) -> Storage {
        match self.storage.as_deref() {
            None | Some("") => Storage::Default,
            Some("rowstore") => Storage::Rowstore,
            Some("columnstore") => Storage::Columnstore,
            Some(engine) => Storage::Engine(engine.to_owned()),
        }
    }

    /// Who logs in, and how.
    pub fn access(&self, place: &Place, timeout: Duration) -> Result<Access> {
        let user = self.login.user_or_own(place);
        Ok(Access {
            user: user.unwrap_or_else(|| "root".into()),
            secret: Secret::new(self.login.password()?.unwrap_or_default()),
            tls: self.login.tls(place)?.map(Arc::new),
            server_name: self.login.tls_server_name.clone(),
            timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let place = parse_url("mysql://me@one,two:3307/sales").unwrap();
        assert_eq!(place.address(), "one:3306,two:3307");
        assert_eq!(place.space, "sales");
        assert!(parse_url("mysql://h/a.b").is_err());
    }

    fn parse(json: &str) -> Result<Options> {
        Options::parse(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn options() {
        let defaults = parse(r#"{"table": null}"#).unwrap();
        assert_eq!(defaults.statement, StatementKind::Text);
        assert_eq!(defaults.storage(), Storage::Default);
        let given = parse(r#"{"storage": "Aria", "statement": "prepared"}"#).unwrap();
        assert_eq!(given.storage(), Storage::Engine("Aria".into()));
        for (json, part) in [
            (r#"{"tabel": "x"}"#, "tabel"),
            (r#"{"table": "a`b"}"#, "a`b"),
            (r#"{"storage": "a; drop"}"#, "engine"),
            (r#"{"partitions": 0}"#, "partitions"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.message.contains(part), "{}", error.message);
        }
        let place = parse_url("mysql://u@h").unwrap();
        let user = parse(r#"{"user": "other"}"#).unwrap();
        assert_eq!(user.access(&place, Duration::ZERO).unwrap().user, "other");
        let asked = parse(r#"{"tls_insecure": true}"#).unwrap();
        assert!(asked.access(&place, Duration::ZERO).is_err());
    }
}
