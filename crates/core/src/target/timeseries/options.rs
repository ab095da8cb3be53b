//! Options of the time-series targets, and in which words a stream's points are written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::codec::timeseries::{Digits, Form, Influx, OpenTsdb, Resp, Writer};
use crate::data::points::Layout;
use crate::error::{Error, Result};
use crate::target::upsert::Given;

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    Resp,
    OpenTsdb,
    Influx,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub format: Option<Form>,
    /// 17, or null: as few as read back as the same value.
    pub digits: Option<Value>,
    pub http_port: Option<u16>,
}

impl Options {
    pub fn parse(scheme: &'static str, options: &BTreeMap<String, Value>) -> Result<Self> {
        let mut parsed: Self = Given::new(scheme, options).rest()?;
        // Here null is a value.
        parsed.digits = options.get("digits").cloned();
        if parsed.http_port == Some(0) {
            return Err(Error::usage("http_port must be 1..65535"));
        }
        Ok(parsed)
    }

    fn digits(&self) -> Result<Digits> {
        match &self.digits {
            None => Ok(Digits::Seventeen),
            Some(Value::Number(number)) if number.as_u64() == Some(17) => Ok(Digits::Seventeen),
            Some(Value::Null) => Ok(Digits::Shortest),
            Some(other) => Err(Error::usage(format!(
                "digits = {other}: 17 (as C's %.17g), or null for as few as read back as the same value"
            ))),
        }
    }
}

/// A protocol with its options.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    words: Words,
    form: Form,
    digits: Digits,
}

impl Dialect {
    pub fn new(words: Words, options: &Options) -> Result<Self> {
        if options.format.is_some() && words != Words::Resp {
            return Err(Error::usage(
                "format is for akumuli://: other protocols have one form of a point",
            ));
        }
        Ok(Self {
            words,
            form: options.format.unwrap_or_default(),
            digits: options.digits()?,
        })
    }

    /// Of the system `name`, for the empty target.
    pub fn of_name(name: &str, options: &BTreeMap<String, Value>) -> Result<Self> {
        let words = match name {
            "akumuli" => Words::Resp,
            "opentsdb" => Words::OpenTsdb,
            "influx" => Words::Influx,
            _ => {
                return Err(Error::usage(format!(
                    "dialect {name:?} is not known for points; known: akumuli, opentsdb, influx"
                )))
            }
        };
        Self::new(words, &Options::parse("empty", options)?)
    }

    pub fn writer(&self, layout: &Layout) -> Writer {
        match self.words {
            Words::Resp => Writer::Resp(Resp::new(self.form, self.digits, layout)),
            Words::OpenTsdb => Writer::OpenTsdb(OpenTsdb::new(self.digits, layout)),
            Words::Influx => Writer::Influx(Influx::new(self.digits, layout)),
        }
    }
}
