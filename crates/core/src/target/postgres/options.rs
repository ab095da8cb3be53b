//! `postgres://user@host:port/database` and the options of a trial spec.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::spec::TrialSpec;
use crate::target::flight;
use crate::target::upsert::read_options;

const DEFAULT_PORT: u16 = 5432;
const DEFAULT_DATABASE: &str = "venturi";

/// What a URL says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub tls: bool,
    pub user: Option<String>,
    pub host: String,
    pub port: u16,
    pub database: String,
}

impl Place {
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::usage(format!(
                "target {url:?}: {what}; write postgres://[user@]host[:{DEFAULT_PORT}]/[database]"
            ))
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("postgres", rest)) => (false, rest),
            Some(("postgres+tls", rest)) => (true, rest),
            _ => return Err(wrong("not a Postgres URL")),
        };
        if rest.contains(['?', '#']) {
            return Err(wrong("settings are options, not part of the URL"));
        }
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match place.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, place),
        };
        if user.is_some_and(|user| user.contains(':')) {
            // The URL itself holds it, so it is not repeated.
            return Err(Error::usage(
                "target: a password does not belong in a URL, where everybody sees it: put it \
                 into an environment variable and name that as password_env",
            ));
        }
        let plain = |what: &str, text: &str| {
            flight::unescape(text)
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| wrong(&format!("the {what} is not text")))
        };
        let user = match user {
            Some("") => return Err(wrong("there is no user before the @")),
            Some(user) => Some(plain("user", user)?),
            None => None,
        };
        let (host, port) = match host.strip_prefix('[') {
            Some(v6) => {
                let (host, after) = v6.split_once(']').ok_or_else(|| wrong("a [ without ]"))?;
                (host, after.strip_prefix(':'))
            }
            None => match host.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (host, None),
            },
        };
        if host.is_empty() {
            return Err(wrong("there is no host"));
        }
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0),
            None => Some(DEFAULT_PORT),
        };
        let database = match database.trim_end_matches('/') {
            "" => DEFAULT_DATABASE.to_owned(),
            name => plain("database", name)?,
        };
        Ok(Self {
            tls,
            user,
            host: host.to_owned(),
            port: port.ok_or_else(|| wrong("no such port"))?,
            database,
        })
    }

    /// As it stands in a URL, for error lines and the record.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// INSERT ... ON CONFLICT DO UPDATE.
    Upsert,
    /// COPY into a temporary table, and from there the same.
    Copy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statements {
    Text,
    Prepared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    On,
    Off,
    Local,
    RemoteWrite,
    RemoteApply,
}

impl Synchronous {
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Local => "local",
            Self::RemoteWrite => "remote_write",
            Self::RemoteApply => "remote_apply",
        }
    }
}

/// The options as the spec gives them; see `docs/targets/postgres.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub table: Option<String>,
    pub setup: bool,
    pub keep: bool,
    pub init: Vec<String>,
    pub statement: Option<Statements>,
    pub user: Option<String>,
    pub password_env: Option<String>,
    pub tls_ca: Option<String>,
    pub tls_certificate: Option<String>,
    pub tls_key: Option<String>,
    pub tls_insecure: bool,
    pub tls_server_name: Option<String>,
    pub method: Method,
    pub synchronous: Option<Synchronous>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: None,
            setup: true,
            keep: false,
            init: Vec::new(),
            statement: None,
            user: None,
            password_env: None,
            tls_ca: None,
            tls_certificate: None,
            tls_key: None,
            tls_insecure: false,
            tls_server_name: None,
            method: Method::Upsert,
            synchronous: None,
        }
    }
}

impl Options {
    pub fn parse(spec: &TrialSpec) -> Result<Self> {
        let parsed: Self = read_options("postgres", &spec.options)?;
        if parsed.tls_certificate.is_some() != parsed.tls_key.is_some() {
            return Err(Error::usage(
                "a client certificate needs both tls_certificate and tls_key",
            ));
        }
        if parsed.method == Method::Copy {
            if parsed.statement == Some(Statements::Text) {
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

    pub fn statement(&self) -> Statements {
        self.statement.unwrap_or(Statements::Prepared)
    }

    /// Who logs in; the user of the options goes before the URL's.
    pub fn user(&self, place: &Place) -> Result<String> {
        self.user
            .clone()
            .or_else(|| place.user.clone())
            .or_else(|| std::env::var("USER").ok().filter(|user| !user.is_empty()))
            .ok_or_else(|| {
                Error::usage("no user to log in with: postgres://user@host, or the option user")
            })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let place = Place::parse("postgres://ann%40x@db.example/sales").unwrap();
        assert_eq!(place.user.as_deref(), Some("ann@x"));
        assert_eq!(place.authority(), "db.example:5432");
        assert_eq!(place.database, "sales");
        let place = Place::parse("postgres+tls://[::1]:7").unwrap();
        assert!(place.tls && place.user.is_none());
        assert_eq!(place.authority(), "[::1]:7");
        assert_eq!(place.database, "venturi");
        for wrong in [
            "postgres://",
            "mysql://h",
            "postgres://h:0",
            "postgres://@h",
            "postgres://h/db?sslmode=off",
            "postgres://ann:secret@h/db",
            "postgres://[::1/db",
        ] {
            let error = Place::parse(wrong).unwrap_err().message;
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
