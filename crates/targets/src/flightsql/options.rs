//! `flightsql://host:port` and the options of a trial spec.

use serde::Deserialize;

use crate::flight::options::DEFAULT_PORT;
use crate::flight::options::{
    Ack, Address, Connections, Options as Transport, Over, ProtocolChoice,
};
use crate::hosts;
use crate::read::{Reading, Split};
use crate::sql::Dialect;
use crate::upsert::{Common, StatementKind};
use venturi_base::codec::ipc::Compression;
use venturi_base::error::{Error, Result};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::{Data, Operation, TrialSpec};

pub const ONE_HOST: &str =
    "the streams share one query, which one server answers, and what was put is looked for there";

/// The server.
pub fn parse_url(url: &str) -> Result<Address> {
    let wrong = |what: &str| {
        Error::usage(format!(
            "target {:?}: {what}; write flightsql://host:port or flightsql+tls://host:port",
            hosts::printable(url)
        ))
    };
    let (over, rest) = match url.split_once("://") {
        Some(("flightsql", rest)) => (Over::Tcp, rest),
        Some(("flightsql+tls", rest)) => (Over::Tls, rest),
        _ => return Err(wrong("not a URL of Flight SQL")),
    };
    if rest.contains(',') {
        return Err(wrong(&format!("one host, not several: {ONE_HOST}")));
    }
    match Address::place(rest, over, DEFAULT_PORT) {
        Some((address, "" | "/")) => Ok(address),
        Some(_) => Err(wrong(
            "what is read is named by table or query, a catalog by a header, not by the URL",
        )),
        None => Err(wrong("there is no host")),
    }
}

/// The options as the spec gives them; see `docs/targets/flightsql.md`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Options {
    #[serde(skip)]
    pub transport: Transport,
    #[serde(skip)]
    pub common: Common,
    #[serde(skip)]
    pub reading: Reading,
    /// A get's: a statement by its text, or prepared; a put's: prepared INSERTs instead of an ingest.
    pub statement: Option<StatementKind>,
    pub dialect: Option<String>,
}

impl Options {
    pub fn parse(spec: &TrialSpec) -> Result<Self> {
        let mut given = OptionReader::new("flightsql", &spec.options);
        let parsed = Self {
            transport: given.take::<Transport>()?.checked()?,
            common: given.take()?,
            reading: given.take()?,
            ..given.rest()?
        };
        parsed.check(spec)?;
        Ok(parsed)
    }

    fn check(&self, spec: &TrialSpec) -> Result<()> {
        let wrong = |what: &str| Err(Error::usage(format!("flightsql://: {what}")));
        let Transport {
            connections,
            protocol,
            ack,
            handicap,
            ..
        } = &self.transport;
        let plain = *connections == Connections::PerStream
            && *protocol == ProtocolChoice::Auto
            && *ack == Ack::Stream
            && handicap.is_empty();
        if !plain {
            return wrong("connections, protocol, ack and handicap are options of flight://");
        }
        if !self.common.init.is_empty() {
            return wrong("init: its connections have no statements of their own");
        }
        self.dialect()?;
        let table = self.common.table.as_deref();
        self.reading.check_names(table)?;
        match spec.operation {
            Operation::Get => self.check_get(spec),
            Operation::Put if spec.data == Data::Remote => {
                wrong("a put needs data of its own, records or a file, not remote")
            }
            Operation::Put if self.reading.query.is_some() => {
                wrong("a put writes into a table: give table, not query")
            }
            Operation::Put if self.reading.split.is_some() || self.reading.split_by.is_some() => {
                wrong("split is for gets")
            }
            Operation::Put if self.statement == Some(StatementKind::Text) => {
                wrong("a put is an ingest, or a prepared INSERT: statement = prepared")
            }
            Operation::Put => Ok(()),
            Operation::Upsert | Operation::Ingest => wrong("operations are get and put"),
        }
    }

    fn check_get(&self, spec: &TrialSpec) -> Result<()> {
        let here = |error: Error| error.context("flightsql://");
        if self.transport.compression()? != Compression::None {
            let text = "compression is for puts: what a server sends is its own choice";
            return Err(here(Error::usage(text)));
        }
        if self.reading.split == Some(Split::Parts) {
            let text = "split parts: the parts of a result are its endpoints, which the streams \
                        share where split is left out";
            return Err(here(Error::usage(text)));
        }
        // Streams share the endpoints, unless something else is said.
        let usual = self.dealt().then_some(Split::None);
        let asked = Reading {
            split: self.reading.split.or(usual),
            ..self.reading.clone()
        };
        asked
            .check_get(spec, self.common.table.as_deref())
            .map_err(here)
    }

    /// Whether the streams of a get share the endpoints of one result.
    pub fn dealt(&self) -> bool {
        self.reading.split.is_none() && self.reading.split_by.is_none()
    }

    /// `None`: by what the server says of itself.
    pub fn dialect(&self) -> Result<Option<&'static Dialect>> {
        self.dialect.as_deref().map(Dialect::from_name).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(operation: &str, json: &str) -> Result<Options> {
        let (data, rows) = match operation {
            "get" => (r#"{"source": "remote"}"#, "null"),
            _ => (r#"{"source": "records", "columns": 1}"#, "1"),
        };
        let whole = format!(
            r#"{{"trial": "t", "target": "flightsql://h", "operation": "{operation}", "data": {data},
                "rows_per_stream": {rows}, "rows_per_batch": 1, "streams": 2, "threads": 1, "options": {json}}}"#
        );
        Options::parse(&TrialSpec::parse(&whole).unwrap())
    }

    #[test]
    fn urls() {
        let there = parse_url("flightsql+tls://[::1]/").unwrap();
        assert_eq!(
            (there.authority().as_str(), there.tls),
            ("[::1]:31337", true)
        );
        assert_eq!(parse_url("flightsql://h:9").unwrap().port, 9);
        for wrong in [
            "flightsql://",
            "flight://h",
            "flightsql://a,b",
            "flightsql://h/t",
            "flightsql://h?query=hush",
            "flightsql://u:hush@h",
            "flightsql://h:0",
        ] {
            let said = parse_url(wrong).expect_err(wrong).message;
            assert!(!said.contains("hush"), "{said}");
        }
    }

    #[test]
    fn options_are_strict() {
        assert!(options("get", r#"{"query": "SELECT 1", "window": 9}"#)
            .unwrap()
            .dealt());
        assert!(!options("get", r#"{"table": "t", "split_by": "a"}"#)
            .unwrap()
            .dealt());
        for (operation, json, part) in [
            ("get", r#"{"tabel": "t"}"#, "tabel"),
            ("get", "{}", "what shall be read"),
            ("get", r#"{"table": "t", "query": "SELECT 1"}"#, "not both"),
            ("get", r#"{"table": "t", "split": "parts"}"#, "endpoints"),
            ("get", r#"{"table": "t", "split": "hash"}"#, "split_by"),
            ("get", r#"{"table": "t", "compression": "lz4"}"#, "for puts"),
            ("get", r#"{"table": "t", "window": 0}"#, "window"),
            ("get", r#"{"table": "t", "dialect": "klingon"}"#, "klingon"),
            ("put", r#"{"query": "SELECT 1"}"#, "give table"),
            ("put", r#"{"statement": "text"}"#, "prepared"),
            ("put", r#"{"init": ["SET x"]}"#, "init"),
            ("put", r#"{"ack": "batch"}"#, "flight://"),
        ] {
            let said = options(operation, json).unwrap_err().message;
            assert!(said.contains(part), "{said}");
        }
    }
}
