//! `mysql://user@host:port,host2/database` and the options of a trial spec.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde::Deserialize;
use serde_json::Value;

use super::auth::Secret;
use super::statement::StatementKind;
use crate::error::{Error, Result};
use crate::target::flight;
use crate::target::upsert::read_options;

const DEFAULT_PORT: u16 = 3306;
const DEFAULT_DATABASE: &str = "venturi";
/// What the servers allow for a name, in characters.
const LONGEST_NAME: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub port: u16,
}

impl Host {
    /// As it stands in a URL.
    pub fn authority(&self) -> String {
        match self.name.contains(':') {
            true => format!("[{}]:{}", self.name, self.port),
            false => format!("{}:{}", self.name, self.port),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(v6) => match v6.split_once(']')? {
                (name, "") => (name, None),
                (name, after) => (name, Some(after.strip_prefix(':')?)),
            },
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None => DEFAULT_PORT,
        };
        let name = name.to_owned();
        (!name.is_empty()).then_some(Self { name, port })
    }
}

/// What a URL says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub tls: bool,
    pub user: Option<String>,
    /// Streams are spread over them; the first one is asked everything else.
    pub hosts: Vec<Host>,
    pub database: String,
}

impl Place {
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::usage(format!(
                "target {url:?}: {what}; write mysql://[user@]host[:3306][,host2...]/[database]"
            ))
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("mysql", rest)) => (false, rest),
            Some(("mysql+tls", rest)) => (true, rest),
            _ => return Err(wrong("not a MySQL URL")),
        };
        let text = |escaped: &str, what: &str| {
            flight::unescape(escaped)
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| wrong(&format!("the {what} is not text")))
        };
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
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
        let database = match database.trim_end_matches('/') {
            "" => DEFAULT_DATABASE.to_owned(),
            name => text(name, "database")?,
        };
        check_name("database", &database)?;
        let host =
            |host: &str| Host::parse(host).ok_or_else(|| wrong(&format!("{host:?} is no host")));
        Ok(Self {
            tls,
            user: match user {
                Some("") => return Err(wrong("there is no user before the @")),
                user => user.map(|user| text(user, "user")).transpose()?,
            },
            hosts: hosts.split(',').map(host).collect::<Result<_>>()?,
            database,
        })
    }

    pub fn host_of(&self, stream: usize) -> &Host {
        &self.hosts[stream % self.hosts.len()]
    }

    /// All hosts, for the record.
    pub fn address(&self) -> String {
        let all: Vec<String> = self.hosts.iter().map(Host::authority).collect();
        all.join(",")
    }
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
    storage: Option<String>,
    pub shard_key: Option<Vec<String>>,
    pub partitions: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: None,
            setup: true,
            keep: false,
            init: Vec::new(),
            statement: StatementKind::Text,
            user: None,
            password_env: None,
            tls_ca: None,
            tls_certificate: None,
            tls_key: None,
            tls_insecure: false,
            tls_server_name: None,
            storage: None,
            shard_key: None,
            partitions: None,
        }
    }
}

impl Options {
    pub fn parse(options: &BTreeMap<String, Value>) -> Result<Self> {
        let parsed: Self = read_options("mysql", options)?;
        if let Some(table) = &parsed.table {
            check_name("table", table)?;
        }
        if parsed.partitions == Some(0) {
            return Err(Error::usage("partitions must be at least 1"));
        }
        if parsed.tls_certificate.is_some() != parsed.tls_key.is_some() {
            return Err(Error::usage(
                "a client certificate needs both tls_certificate and tls_key",
            ));
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

    pub fn storage(&self) -> Storage {
        match self.storage.as_deref() {
            None | Some("") => Storage::Default,
            Some("rowstore") => Storage::Rowstore,
            Some("columnstore") => Storage::Columnstore,
            Some(engine) => Storage::Engine(engine.to_owned()),
        }
    }

    /// Who logs in, and how. The user of the options goes before the URL's; without either it is
    /// who runs this, as for the server's own client.
    pub fn access(&self, place: &Place, timeout: Duration) -> Result<Access> {
        let user = self.user.clone().or_else(|| place.user.clone());
        let user = user.or_else(|| std::env::var("USER").ok().filter(|name| !name.is_empty()));
        let password = match &self.password_env {
            Some(variable) => flight::secret(variable)?,
            None => String::new(),
        };
        Ok(Access {
            user: user.unwrap_or_else(|| "root".into()),
            secret: Secret::new(password),
            tls: self.tls(place)?,
            server_name: self.tls_server_name.clone(),
            timeout,
        })
    }

    fn tls(&self, place: &Place) -> Result<Option<Arc<ClientConfig>>> {
        if !place.tls {
            let given = [&self.tls_ca, &self.tls_certificate, &self.tls_server_name];
            return match self.tls_insecure || given.iter().any(|option| option.is_some()) {
                true => Err(Error::usage(
                    "TLS is asked for by a tls option, but not by the URL: write mysql+tls://",
                )),
                false => Ok(None),
            };
        }
        let mut config = flight::client_config(&flight::Options {
            tls_ca: self.tls_ca.clone(),
            tls_certificate: self.tls_certificate.clone(),
            tls_key: self.tls_key.clone(),
            tls_insecure: self.tls_insecure,
            ..flight::Options::default()
        })?;
        config.alpn_protocols.clear();
        Ok(Some(Arc::new(config)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let place = Place::parse("mysql://me@one,two:3307,[::1]:9/sales").unwrap();
        assert_eq!(place.user.as_deref(), Some("me"));
        assert_eq!(place.address(), "one:3306,two:3307,[::1]:9");
        assert_eq!((place.database.as_str(), place.tls), ("sales", false));
        assert_eq!(place.host_of(4).name, "two");
        let place = Place::parse("mysql+tls://h").unwrap();
        assert_eq!((place.database.as_str(), place.tls), ("venturi", true));
        assert_eq!(
            Place::parse("mysql://a%40b@h/d%20e")
                .unwrap()
                .user
                .as_deref(),
            Some("a@b")
        );
        for wrong in [
            "mysql://",
            "mysql://@h",
            "mysql://h:0",
            "mysql://h,,i",
            "mysql://h:x/d",
            "mysql://h/a.b",
            "mysql://[::1",
            "maria://h",
        ] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
        let secret = Place::parse("mysql://me:hush@h").unwrap_err();
        assert!(secret.message.contains("password_env") && !secret.message.contains("hush"));
    }

    fn parse(json: &str) -> Result<Options> {
        Options::parse(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn options() {
        let defaults = parse(r#"{"table": null}"#).unwrap();
        assert!(defaults.setup && !defaults.keep);
        assert_eq!(defaults.statement, StatementKind::Text);
        assert_eq!(defaults.storage(), Storage::Default);
        let given = parse(r#"{"storage": "Aria", "statement": "prepared"}"#).unwrap();
        assert_eq!(given.storage(), Storage::Engine("Aria".into()));
        for (json, part) in [
            (r#"{"tabel": "x"}"#, "tabel"),
            (r#"{"table": "a`b"}"#, "a`b"),
            (r#"{"storage": "a; drop"}"#, "engine"),
            (r#"{"partitions": 0}"#, "partitions"),
            (r#"{"tls_key": "k"}"#, "both"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.message.contains(part), "{}", error.message);
        }
        let place = Place::parse("mysql://u@h").unwrap();
        let asked = parse(r#"{"tls_insecure": true}"#).unwrap();
        let refused = asked.access(&place, Duration::ZERO).err().unwrap();
        assert!(refused.message.contains("mysql+tls://"));
        let unset = parse(r#"{"password_env": "VENTURI_NOT_SET"}"#).unwrap();
        let refused = unset.access(&place, Duration::ZERO).err().unwrap();
        assert!(refused.message.contains("VENTURI_NOT_SET"));
        let user = parse(r#"{"user": "other"}"#).unwrap();
        assert_eq!(user.access(&place, Duration::ZERO).unwrap().user, "other");
    }
}
