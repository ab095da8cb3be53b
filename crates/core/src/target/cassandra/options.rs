//! `cassandra://user@host:port,host2/keyspace` and the options of a trial spec.

use std::collections::BTreeMap;

use scylla::frame::Compression;
use scylla::statement::batch::BatchType;
use scylla::statement::Consistency;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::target::flight;
use crate::target::upsert::read_options;

const DEFAULT_PORT: u16 = 9042;
const DEFAULT_KEYSPACE: &str = "venturi";
/// What Cassandra itself allows for the name of a keyspace or table.
pub const LONGEST_NAME: usize = 48;

/// What a URL says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub tls: bool,
    pub user: Option<String>,
    /// Contact points, host and port; the driver finds the other nodes by itself.
    pub hosts: Vec<(String, u16)>,
    pub keyspace: String,
}

impl Place {
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::usage(format!(
                "target {url:?}: {what}; write cassandra://[user@]host[:9042][,host2...]/[keyspace]"
            ))
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("cassandra", rest)) => (false, rest),
            Some(("cassandra+tls", rest)) => (true, rest),
            _ => return Err(wrong("not a Cassandra URL")),
        };
        let (place, keyspace) = rest.split_once('/').unwrap_or((rest, ""));
        let keyspace = match keyspace.trim_end_matches('/') {
            "" => DEFAULT_KEYSPACE,
            name => name,
        };
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, place),
        };
        if user.is_some_and(|user| user.contains(':')) {
            // The URL itself holds it, so it is not repeated.
            return Err(Error::usage(
                "target: a password does not belong in a URL, where everybody sees it: put it into an \
                 environment variable and name that as password_env",
            ));
        }
        let user = match user {
            Some("") => return Err(wrong("there is no user before the @")),
            Some(user) => Some(
                flight::unescape(user)
                    .and_then(|bytes| String::from_utf8(bytes).ok())
                    .ok_or_else(|| wrong("the user is not text"))?,
            ),
            None => None,
        };
        let hosts = hosts
            .split(',')
            .map(|host| contact(host).ok_or_else(|| wrong(&format!("{host:?} is no host"))))
            .collect::<Result<_>>()?;
        check_name("keyspace", keyspace)?;
        Ok(Self {
            tls,
            user,
            hosts,
            keyspace: keyspace.to_owned(),
        })
    }

    /// The first contact point, for the record and for error lines.
    pub fn address(&self) -> String {
        let all: Vec<String> = self.hosts.iter().map(authority).collect();
        all.join(",")
    }
}

/// As it stands in a URL.
pub fn authority((host, port): &(String, u16)) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

fn contact(text: &str) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(v6) => {
            let (host, after) = v6.split_once(']')?;
            match after {
                "" => (host, None),
                after => (host, Some(after.strip_prefix(':')?)),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => DEFAULT_PORT,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatementKind {
    Text,
    Prepared,
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
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub table: Option<String>,
    pub setup: bool,
    pub keep: bool,
    pub init: Vec<String>,
    pub statement: StatementKind,
    pub user: Option<String>,
    pub password_env: Option<String>,
    pub tls_ca: Option<String>,
    pub tls_certificate: Option<String>,
    pub tls_key: Option<String>,
    pub tls_insecure: bool,
    pub tls_server_name: Option<String>,
    pub write: Write,
    batch: Batching,
    consistency: Level,
    pub replication: Option<u32>,
    pub partition_key: Option<usize>,
    compression: Option<String>,
    pub token_aware: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: None,
            setup: true,
            keep: false,
            init: Vec::new(),
            statement: StatementKind::Prepared,
            user: None,
            password_env: None,
            tls_ca: None,
            tls_certificate: None,
            tls_key: None,
            tls_insecure: false,
            tls_server_name: None,
            write: Write::Counter,
            batch: Batching::Unlogged,
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
        let parsed: Self = read_options("cassandra", options)?;
        parsed.compression()?;
        if let Some(table) = &parsed.table {
            check_name("table", table)?;
        }
        if parsed.replication == Some(0) {
            return Err(Error::usage("replication must be at least 1"));
        }
        if parsed.tls_certificate.is_some() != parsed.tls_key.is_some() {
            return Err(Error::usage(
                "a client certificate needs both tls_certificate and tls_key",
            ));
        }
        if parsed.write == Write::Counter && parsed.consistency == Level::Any {
            return Err(Error::usage(
                "consistency = any is not for counters, which a replica must read first: take one",
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

    /// The kind of BATCH; `None`: every row by itself.
    pub fn batch(&self) -> Option<BatchType> {
        match (self.batch, self.write) {
            (Batching::None, _) => None,
            (_, Write::Counter) => Some(BatchType::Counter),
            (Batching::Unlogged, Write::Insert) => Some(BatchType::Unlogged),
            (Batching::Logged, Write::Insert) => Some(BatchType::Logged),
        }
    }

    /// User and password, if any; the one of the options goes before the URL's.
    pub fn login(&self, place: &Place) -> Result<Option<(String, String)>> {
        let user = self.user.clone().or_else(|| place.user.clone());
        match (user, &self.password_env) {
            (Some(user), Some(variable)) => Ok(Some((user, flight::secret(variable)?))),
            (Some(user), None) => Ok(Some((user, String::new()))),
            (None, Some(_)) => Err(Error::usage(
                "password_env needs a user: cassandra://user@host, or the option user",
            )),
            (None, None) => Ok(None),
        }
    }

    pub fn tls(&self) -> flight::Options {
        flight::Options {
            tls_ca: self.tls_ca.clone(),
            tls_certificate: self.tls_certificate.clone(),
            tls_key: self.tls_key.clone(),
            tls_server_name: self.tls_server_name.clone(),
            tls_insecure: self.tls_insecure,
            ..flight::Options::default()
        }
    }
}
