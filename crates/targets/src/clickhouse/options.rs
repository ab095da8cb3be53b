//! `clickhouse://user@host:port/database` and the options of a trial spec.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::read::Reading;
use crate::upsert::{Form, Login, Place};
use venturi_base::codec::ipc::Compression;
use venturi_base::error::{Error, Result};
use venturi_base::http1::{Tls, Web};
use venturi_base::net::tls::tls_advice;
use venturi_base::option_reader::OptionReader;

pub const URL: Form = Form {
    scheme: "clickhouse",
    port: 8123,
    space: "database",
    usual: "venturi",
    one_host: Some("the streams share out one query, which one server answers, and what was put is looked for there"),
};
/// Where HTTPS is spoken, unless the URL says otherwise.
pub const TLS_PORT: u16 = 8443;
/// Of a name in ClickHouse; files are called by it.
const LONGEST_NAME: usize = 200;

/// In what form rows travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Arrow,
    Native,
    RowBinary,
    Parquet,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Arrow => "arrow",
            Format::Native => "native",
            Format::RowBinary => "rowbinary",
            Format::Parquet => "parquet",
        }
    }
}

/// The options as the spec gives them; see `docs/targets/clickhouse.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Options {
    #[serde(skip)]
    pub login: Login,
    #[serde(skip)]
    pub reading: Reading,
    pub format: Option<Format>,
    compression: Option<String>,
    pub settings: BTreeMap<String, Value>,
    pub database: Option<String>,
    pub table: Option<String>,
    pub storage: Option<String>,
    pub setup: bool,
    pub keep: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            login: Login::default(),
            reading: Reading::default(),
            format: None,
            compression: None,
            settings: BTreeMap::new(),
            database: None,
            table: None,
            storage: None,
            setup: true,
            keep: false,
        }
    }
}

impl Options {
    pub fn parse(options: &BTreeMap<String, Value>) -> Result<Self> {
        let mut given = OptionReader::new("clickhouse", options);
        let (login, reading) = (given.take()?, given.take()?);
        let parsed = Self {
            login,
            reading,
            ..given.rest()?
        };
        for (what, name) in [("table", &parsed.table), ("database", &parsed.database)] {
            check_name(what, name.as_deref())?;
        }
        check_name("split_by", parsed.reading.split_by.as_deref())?;
        parsed.reading.check_names(parsed.table.as_deref())?;
        for (name, value) in &parsed.settings {
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if name.is_empty() || !plain || value.is_array() || value.is_object() {
                return Err(Error::usage(format!(
                    "settings: {name:?} = {value}: a name of letters, digits and _, and one value"
                )));
            }
        }
        parsed.compression()?;
        Ok(parsed)
    }

    pub fn compression(&self) -> Result<Compression> {
        let compression = Compression::of_name(self.compression.as_deref().unwrap_or("none"))?;
        let by_http = matches!(self.format, Some(Format::Native | Format::RowBinary));
        match compression {
            Compression::Lz4 if by_http => Err(Error::usage(
                "compression lz4 is for the formats arrow and parquet, which compress by themselves; native and rowbinary are compressed by HTTP: zstd",
            )),
            other => Ok(other),
        }
    }

    /// Settings as they stand in a request.
    pub fn parameters(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.settings.iter().map(|(name, value)| {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Bool(on) => u8::from(*on).to_string(),
                other => other.to_string(),
            };
            (name.clone(), value)
        })
    }
}

/// What becomes part of a statement in quotes must not end these.
fn check_name(what: &str, name: Option<&str>) -> Result<()> {
    let fits = |name: &str| {
        (1..=LONGEST_NAME).contains(&name.len())
            && !name.contains(['`', '\\', '\'', '"', '/', '\0', '\n'])
    };
    match name {
        Some(name) if !fits(name) => Err(Error::usage(format!(
            "{what} {name:?}: a name has 1 to {LONGEST_NAME} bytes, and no quotes, slashes or line ends"
        ))),
        _ => Ok(()),
    }
}

/// Who is asked, and for what.
#[derive(Debug)]
pub struct Access {
    pub web: Web,
    pub place: Place,
    pub database: String,
    pub user: Option<String>,
    pub password: Option<String>,
}

impl Access {
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        let mut place = Place::parse(url, &URL)?;
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Not one of Venturi's own: queries are about tables that exist.
        let own = (!path.trim_matches('/').is_empty()).then(|| place.space.clone());
        let database = options.database.clone().or(own);
        check_name("database", database.as_deref())?;
        let tls = options.login.tls(&place)?;
        let no_port = !hosts
            .rsplit('@')
            .next()
            .unwrap_or("")
            .trim_end_matches(']')
            .contains(':')
            || hosts.ends_with(']');
        if tls.is_some() && no_port {
            place.hosts[0].port = TLS_PORT;
        }
        let host = &place.hosts[0];
        let web = Web {
            host: host.name.clone(),
            port: host.port,
            authority: host.authority(),
            tls: tls.map(|config| Tls {
                config: config.into(),
                server_name: options.login.tls_server_name.clone(),
                authority: options.login.tls_ca.is_some(),
                advice: |text, authority| tls_advice(text, "clickhouse", authority),
            }),
        };
        let user = options.login.user(&place);
        let password = options.login.password()?;
        if password.is_some() && user.is_none() {
            return Err(Error::usage("password_env needs a user"));
        }
        let printable = |text: &String| text.bytes().all(|b| (0x20..0x7f).contains(&b));
        if !user.iter().chain(&password).all(printable) {
            return Err(Error::usage(
                "user and password must be of printable ASCII characters",
            ));
        }
        Ok(Self {
            web,
            place,
            database: database.unwrap_or_else(|| "default".into()),
            user,
            password,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Split;

    fn parse(json: &str) -> Result<Options> {
        Options::parse(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn urls() {
        let access = |url| Access::new(url, &Options::default());
        let found = access("clickhouse://me@h/sales").unwrap();
        assert_eq!((found.web.port, found.database.as_str()), (8123, "sales"));
        assert_eq!(found.user.as_deref(), Some("me"));
        let two = access("clickhouse://a,b").err().unwrap().message;
        assert!(
            two.contains("one host, not several: the streams share"),
            "{two}"
        );
        assert_eq!(access("clickhouse://h:9/").unwrap().database, "default");
        assert_eq!(access("clickhouse+tls://[::1]").unwrap().web.port, 8443);
        assert_eq!(
            access("clickhouse+tls://[::1]:9").unwrap().web.authority,
            "[::1]:9"
        );
        assert_eq!(
            access("clickhouse+tls://h").unwrap().web.authority,
            "h:8443"
        );
        for wrong in [
            "clickhouse://",
            "clickhouse://a,b",
            "clickhouse://h/a`b",
            "clickhouse://h?x=1",
        ] {
            assert!(access(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options() {
        let given = parse(
            r#"{"format": "rowbinary", "split": "hash", "split_by": "k", "settings": {"max_threads": 1, "x": true, "y": "z"}}"#,
        );
        let given = given.unwrap();
        assert_eq!(
            (given.format, given.reading.split),
            (Some(Format::RowBinary), Some(Split::Hash))
        );
        let settings: Vec<_> = given
            .parameters()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        assert_eq!(settings, ["max_threads=1", "x=1", "y=z"]);
        for (json, part) in [
            (r#"{"formt": "arrow"}"#, "formt"),
            (r#"{"format": "csv"}"#, "csv"),
            (r#"{"table": "a`b"}"#, "a`b"),
            (r#"{"table": "a", "query": "SELECT 1"}"#, "not both"),
            (r#"{"query": " "}"#, "there is none"),
            (r#"{"compression": "lz4", "format": "native"}"#, "zstd"),
            (r#"{"compression": "br"}"#, "br"),
            (r#"{"settings": {"a b": 1}}"#, "a b"),
            (r#"{"settings": {"a": []}}"#, "one value"),
            (r#"{"max_block_bytes": 1}"#, "max_block_size"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
}
