//! What a user sets of a driver, of what is read or written through it, and what of that is secret.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::read::{Reading, Split};
use crate::upsert::Common;
use venturi_base::error::{Error, Result};
use venturi_base::net::url::{secret, unescape};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::{Operation, TrialSpec};

/// Of shorter ones an error is not cleaned: they stand in every second word.
const LEAST_SECRET: usize = 3;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct DriverOptions {
    /// The shared library, where its place is known; else the driver is looked for by its name.
    library: Option<String>,
    driver_entrypoint: Option<String>,
    /// Each KEY=VALUE.
    driver_options: Vec<String>,
    /// Names of variables of the environment.
    driver_option_env: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
pub struct Options {
    /// As it is called: a name, or a file.
    pub name: String,
    pub library: Option<String>,
    pub entrypoint: Option<String>,
    pub common: Common,
    pub reading: Reading,
    given: Vec<(String, String)>,
    variables: BTreeMap<String, String>,
}

/// What takes an option: a database, its connections, or their statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Database,
    Connection,
    Statement,
}

impl Level {
    /// Whose option a key is, and how the driver calls it.
    fn of(key: &str) -> (Self, &str) {
        match key.split_once(':') {
            Some(("connection", key)) => (Self::Connection, key),
            Some(("statement", key)) => (Self::Statement, key),
            Some(("database", key)) => (Self::Database, key),
            _ => (Self::Database, key),
        }
    }
}

/// The options of a driver with the values of variables, which an error must not repeat.
#[derive(Clone, Default)]
pub struct Settings {
    options: Vec<(Level, String, String)>,
    secrets: Vec<String>,
}

impl Options {
    pub fn of(spec: &TrialSpec) -> Result<Self> {
        let mut given = OptionReader::new("adbc", &spec.options);
        let common: Common = given.take()?;
        let reading: Reading = given.take()?;
        let told: DriverOptions = given.rest()?;
        let here = |error: Error| error.context("adbc://");
        let place = spec.target.strip_prefix("adbc://").unwrap_or_default();
        let library = match place.starts_with('/') {
            true => Some(place.to_owned()),
            false => told.library,
        };
        let name = Path::new(place).file_name().and_then(|name| name.to_str());
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            Error::usage(
                "adbc:// names no driver: write adbc://postgresql, or adbc:///path/to/libadbc_driver_x.so",
            )
        })?;
        let mut given = Vec::new();
        for word in &told.driver_options {
            let line = "an option of a driver is written KEY=VALUE";
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| here(Error::usage(line)))?;
            if told.driver_option_env.contains_key(key) {
                let line = format!("{key} is given twice, as it is and by a variable");
                return Err(here(Error::usage(line)));
            }
            given.push((key.to_owned(), value.to_owned()));
        }
        let found = Self {
            name: name.to_owned(),
            library,
            entrypoint: told.driver_entrypoint,
            common,
            reading,
            given,
            variables: told.driver_option_env,
        };
        found.check(spec).map_err(here)?;
        Ok(found)
    }

    fn check(&self, spec: &TrialSpec) -> Result<()> {
        if !super::SYSTEM.operations.contains(&spec.operation) {
            return Err(Error::usage("operations are get and put"));
        }
        if spec.own().len() < spec.streams {
            return Err(Error::usage(
                "drivers are loaded on one host: leave --on out",
            ));
        }
        let table = self.common.table.as_deref();
        self.reading.check_names(table)?;
        if self.reading.split == Some(Split::Parts) {
            return Err(Error::usage(
                "split parts: a driver does not say where rows lie; split by key, by hash, or none",
            ));
        }
        match spec.operation {
            Operation::Get => self.reading.check_get(spec, table),
            _ if self.reading.query.is_some() => Err(Error::usage("a query is for gets")),
            _ => Ok(()),
        }
    }

    /// With what variables hold; an error names one that is not set.
    pub fn filled(&self) -> Result<Settings> {
        let mut found = Settings::default();
        for (key, value) in &self.given {
            found.add(key, value.clone());
        }
        for (key, variable) in &self.variables {
            let value = secret(variable).map_err(|error| error.context("adbc://"))?;
            found.hide(&value);
            found.add(key, value);
        }
        Ok(found)
    }
}

impl Settings {
    fn add(&mut self, key: &str, value: String) {
        let (level, key) = Level::of(key);
        self.options.push((level, key.to_owned(), value));
    }

    /// The whole, and the password in it where it is a URL or a line of settings.
    fn hide(&mut self, value: &str) {
        let user = value
            .split_once("://")
            .and_then(|(_, rest)| rest.split(['/', '?']).next()?.rsplit_once('@'));
        let in_url = user.and_then(|(user, _)| Some(user.split_once(':')?.1));
        let settings = value.split(['?', '&', ' ', ';']);
        let assigned = settings.filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            name.to_lowercase().contains("pass").then_some(value)
        });
        let parts: Vec<&str> = in_url.into_iter().chain(assigned).collect();
        let plain = parts.iter().filter_map(|part| unescape(part));
        let plain: Vec<String> = plain.filter_map(|it| String::from_utf8(it).ok()).collect();
        let all = parts.into_iter().map(str::to_owned).chain(plain);
        let all = [value.to_owned()].into_iter().chain(all);
        self.secrets
            .extend(all.filter(|it| it.len() >= LEAST_SECRET));
    }

    pub fn of(&self, level: Level) -> impl Iterator<Item = (&str, &str)> + '_ {
        let here = self.options.iter().filter(move |(at, ..)| *at == level);
        here.map(|(_, key, value)| (key.as_str(), value.as_str()))
    }

    /// A text of the driver's without what must not be repeated.
    pub fn cleaned(&self, text: &str) -> String {
        let hidden = |text: String, secret: &String| text.replace(secret, "***");
        self.secrets.iter().fold(text.to_owned(), hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(target: &str, more: &str) -> Result<Options> {
        let spec = TrialSpec::parse(&format!(
            r#"{{"trial": "t", "target": "{target}", "operation": "get", "streams": 1, "threads": 1,
                "rows_per_batch": 10, "data": {{"source": "remote"}}, "options": {{"table": "t" {more}}}}}"#
        ));
        Options::of(&spec.unwrap())
    }

    #[test]
    fn a_name_or_a_file() {
        let named = options("adbc://sqlite", r#", "library": "/a/b.so""#).unwrap();
        assert_eq!(
            (named.name.as_str(), named.library.as_deref()),
            ("sqlite", Some("/a/b.so"))
        );
        let file = options("adbc:///a/libx.so", "").unwrap();
        assert_eq!(
            (file.name.as_str(), file.library.as_deref()),
            ("libx.so", Some("/a/libx.so"))
        );
        assert!(options("adbc://", "")
            .unwrap_err()
            .message
            .contains("names no driver"));
        let parts = options("adbc://sqlite", r#", "split": "parts""#).unwrap_err();
        assert!(parts.message.contains("split by key"), "{parts}");
    }

    #[test]
    fn levels_and_secrets() {
        // A variable that every process has.
        let found = options(
            "adbc://x",
            r#", "driver_options": ["uri=u", "statement:rows=1", "connection:c=2", "a:b=3"],
                "driver_option_env": {"password": "PATH"}"#,
        );
        let found = found.unwrap().filled().unwrap();
        let of = |level| found.of(level).map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(of(Level::Database), ["uri", "a:b", "password"]);
        assert_eq!(of(Level::Connection), ["c"]);
        assert_eq!(of(Level::Statement), ["rows"]);
        let path = std::env::var("PATH").unwrap();
        assert_eq!(found.cleaned(&format!("no {path}!")), "no ***!");
        let twice = options(
            "adbc://x",
            r#", "driver_options": ["uri=u"], "driver_option_env": {"uri": "PATH"}"#,
        );
        assert!(twice.unwrap_err().message.contains("uri is given twice"));
        let unset = options(
            "adbc://x",
            r#", "driver_option_env": {"uri": "VENTURI_NOT_SET"}"#,
        );
        let unset = unset.unwrap().filled().err().unwrap();
        assert!(unset.message.contains("VENTURI_NOT_SET"), "{unset}");
    }

    #[test]
    fn passwords_within_a_value_are_hidden_too() {
        for value in [
            "postgresql://me:p%40ss@h/db?x=1",
            "host=h user=me password=p@ss",
            "Driver=x;PWD=1;Pass=p@ss;",
        ] {
            let mut given = Settings::default();
            given.hide(value);
            let said = given.cleaned("p@ss is wrong for me at h");
            assert_eq!(said, "*** is wrong for me at h", "{value}");
        }
    }
}
