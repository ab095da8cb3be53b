//! What a user set, read into structs that share the fields.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::de::{value, DeserializeOwned, Error as _, Visitor};
use serde::{forward_to_deserialize_any, Deserializer};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::secrets::fill;

/// What was given, read part by part, strictly; null means: the default.
pub struct OptionReader {
    /// For errors.
    what: String,
    left: Map<String, Value>,
    known: Vec<&'static str>,
}

impl OptionReader {
    /// Options of a target.
    pub fn new(scheme: &str, options: &BTreeMap<String, Value>) -> Self {
        let options = options.iter();
        Self::of(
            format!("options of {scheme}://"),
            options.map(|(key, value)| (key.clone(), value.clone())),
        )
    }

    /// The spec of a server, as JSON.
    pub fn server(json: &str) -> Result<Self> {
        let what = "the server's spec";
        let given: Map<_, _> =
            serde_json::from_str(json).map_err(|error| Error::usage(format!("{what}: {error}")))?;
        Ok(Self::of(what.into(), given))
    }

    fn of(what: String, given: impl IntoIterator<Item = (String, Value)>) -> Self {
        let given = given.into_iter();
        Self {
            what,
            left: given.filter(|(_, value)| !value.is_null()).collect(),
            known: Vec::new(),
        }
    }

    /// The fields that `T` has, which must be a struct.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<T> {
        let names = field_names::<T>();
        self.known.extend(names);
        let taken = names
            .iter()
            .filter_map(|name| self.left.remove_entry(*name));
        let mut taken = Value::Object(taken.collect());
        fill_texts(&mut taken).map_err(|error| error.context(&self.what))?;
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
        Error::usage(format!("{}: {what}", self.what))
    }
}

/// With the values of the variables that they name.
fn fill_texts(value: &mut Value) -> Result<()> {
    match value {
        Value::String(text) => *text = fill(text)?,
        Value::Array(items) => items.iter_mut().try_for_each(fill_texts)?,
        Value::Object(fields) => fields.values_mut().try_for_each(fill_texts)?,
        _ => {}
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn options_are_read_part_by_part() {
        #[derive(Debug, Deserialize)]
        #[serde(default)]
        struct Common {
            table: String,
            setup: bool,
        }
        impl Default for Common {
            fn default() -> Self {
                Self {
                    table: "mine".into(),
                    setup: true,
                }
            }
        }
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Own {
            #[serde(skip)]
            common: Common,
            #[serde(rename = "library")]
            engine: Option<String>,
        }
        let parse = |json: &str| {
            let mut given = OptionReader::new("db", &serde_json::from_str(json).unwrap());
            let common = given.take()?;
            Ok::<_, Error>(Own {
                common,
                ..given.rest()?
            })
        };
        let defaults = parse(r#"{"table": null, "library": null}"#).unwrap();
        assert_eq!((defaults.common.setup, defaults.engine), (true, None));
        assert_eq!(defaults.common.table, "mine");
        let given = parse(r#"{"table": "t", "setup": false, "library": "a"}"#).unwrap();
        assert_eq!(given.common.table, "t");
        assert!(!given.common.setup);
        assert_eq!(given.engine.as_deref(), Some("a"));
        for (json, line) in [
            (
                r#"{"tabel": "t"}"#,
                "options of db://: unknown field `tabel`, expected one of `table`, `setup`, `library`",
            ),
            (
                r#"{"setup": 1}"#,
                "options of db://: invalid type: integer `1`, expected a boolean",
            ),
        ] {
            assert_eq!(parse(json).unwrap_err().message, line);
        }
    }
}
