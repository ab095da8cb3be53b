//! What all databases ask of a spec: options, and the table's name, by which it may be dropped
//! or not.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use serde::de::{value, DeserializeOwned, Error as _, Visitor};
use serde::{forward_to_deserialize_any, Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::spec::Data;

/// The options of every database.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct Common {
    pub table: Option<String>,
    pub setup: bool,
    pub keep: bool,
    /// Statements that every connection executes when it is opened.
    pub init: Vec<String>,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            table: None,
            setup: true,
            keep: false,
            init: Vec::new(),
        }
    }
}

impl Common {
    /// Whether the table goes when the trial is over.
    pub fn drops(&self) -> bool {
        self.setup && !self.keep
    }

    /// The table's name; where the user names none, by the data.
    pub fn table(&self, data: &Data) -> String {
        let named = self.table.clone();
        named.unwrap_or_else(|| default_name(data))
    }
}

/// How a batch becomes a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatementKind {
    Text,
    Prepared,
}

/// How rows get into the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// INSERT ... ON CONFLICT DO UPDATE.
    #[default]
    Upsert,
    /// By the quickest way that the database has, into a place from where the same takes them.
    Copy,
}

/// Options of a target as they were given, read part by part, strictly; null means: the default.
pub struct Given {
    scheme: &'static str,
    left: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Given {
    pub fn new(scheme: &'static str, options: &BTreeMap<String, Value>) -> Self {
        let given = options.iter().filter(|(_, value)| !value.is_null());
        Self {
            scheme,
            left: given
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            known: Vec::new(),
        }
    }

    /// The options that `T` has, which must be a struct.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<T> {
        let names = field_names::<T>();
        self.known.extend(names);
        let taken = names
            .iter()
            .filter_map(|name| self.left.remove_entry(*name));
        let taken = Value::Object(taken.collect());
        serde_json::from_value(taken).map_err(|error| self.wrong(error))
    }

    /// The same, of the last part: none must be left over.
    pub fn rest<T: DeserializeOwned>(mut self) -> Result<T> {
        let rest = self.take()?;
        match self.left.keys().next() {
            None => Ok(rest),
            Some(name) => {
                let known = self.known.join("`, `");
                let unknown = format!("unknown field `{name}`, expected one of `{known}`");
                Err(self.wrong(unknown))
            }
        }
    }

    fn wrong(&self, what: impl Display) -> Error {
        Error::usage(format!("options of {}://: {what}", self.scheme))
    }
}

/// As serde knows them.
fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // It fails, for there is nothing to read.
    let _ = T::deserialize(Fields(&mut names));
    names
}

/// Keeps the names that a struct asks a format for.
struct Fields<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, value::Error> {
        *self.0 = names;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> std::result::Result<V::Value, value::Error> {
        Err(value::Error::custom("no value"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Venturi drops tables of such names, and no others.
const OWN: &str = "venturi_";

/// Where the user names none: `venturi_usage`, or `venturi_` and the file's name.
fn default_name(data: &Data) -> String {
    let stem = match data {
        Data::File { path, .. } => Path::new(path)
            .file_stem()
            .map(|stem| stem.to_string_lossy().to_lowercase())
            .unwrap_or_default(),
        _ => "usage".to_owned(),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("{OWN}{}", stem.chars().map(plain).collect::<String>())
}

pub fn is_own(table: &str) -> bool {
    table.starts_with(OWN)
}

/// A table of somebody else's stands in the way.
pub fn occupied(table: &str) -> Error {
    Error::usage(format!(
        "table {table} exists already and is not Venturi's (its name does not begin with {OWN}): \
         drop it, name another by --table, or upsert into it as it is by --no-setup"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let file = |path: &str| {
            default_name(&Data::File {
                path: path.into(),
                ipc: String::new(),
            })
        };
        assert_eq!(file("/data/Sales 2026.parquet"), "venturi_sales_2026");
        assert_eq!(default_name(&Data::Remote), "venturi_usage");
        assert!(is_own("venturi_x") && !is_own("sales"));
        assert!(occupied("sales").message.contains("--no-setup"));
    }

    #[test]
    fn options_are_read_part_by_part() {
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Own {
            #[serde(skip)]
            common: Common,
            #[serde(rename = "library")]
            engine: Option<String>,
            statement: Option<StatementKind>,
        }
        let parse = |json: &str| {
            let mut given = Given::new("db", &serde_json::from_str(json).unwrap());
            let common = given.take()?;
            Ok::<_, Error>(Own {
                common,
                ..given.rest()?
            })
        };
        let defaults = parse(r#"{"table": null, "setup": null}"#).unwrap();
        assert!(defaults.common.setup && defaults.common.drops());
        assert_eq!(defaults.common.table(&Data::Remote), "venturi_usage");
        let given = parse(r#"{"table": "t", "keep": true, "library": "a", "statement": "text"}"#);
        let Own {
            common,
            engine,
            statement,
        } = given.unwrap();
        assert_eq!(common.table(&Data::Remote), "t");
        assert!(common.setup && !common.drops());
        assert_eq!(engine.as_deref(), Some("a"));
        assert_eq!(statement, Some(StatementKind::Text));
        for (json, line) in [
            (
                r#"{"tabel": "t"}"#,
                "options of db://: unknown field `tabel`, expected one of `table`, `setup`, `keep`, \
                 `init`, `library`, `statement`",
            ),
            (
                r#"{"keep": 1}"#,
                "options of db://: invalid type: integer `1`, expected a boolean",
            ),
        ] {
            assert_eq!(parse(json).unwrap_err().message, line);
        }
    }
}
