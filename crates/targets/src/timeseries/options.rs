//! What the URL and the settings of a time-series target say, and in which words a stream's points are
//! written.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::protocols::Protocol;
use crate::hosts::{self, Host};
use venturi_base::codec::timeseries::{Digits, Form, Influx, Names, OpenTsdb, Resp, Writer};
use venturi_base::data::points::Layout;
use venturi_base::error::{Error, Result};
use venturi_base::net::url::secret;
use venturi_base::option_reader::OptionReader;

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    Resp,
    OpenTsdb,
    Influx,
}

/// `scheme://host[:port][,host2...][/database]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetUrl {
    /// At least one.
    pub hosts: Vec<Host>,
    /// What follows the first slash; only where the system has databases.
    pub database: Option<String>,
}

impl TargetUrl {
    pub fn parse(url: &str, protocol: &Protocol) -> Result<Self> {
        let Protocol { scheme, port, .. } = protocol;
        let database = if protocol.databases { "/database" } else { "" };
        let wrong = |what: &str| {
            Error::usage(format!(
                "target {:?}: {what}; write {scheme}://host[:{port}][,host2...]{database}",
                hosts::printable(url)
            ))
        };
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let (places, path) = rest.split_once('/').unwrap_or((rest, ""));
        if places.contains(['@', '?', '#']) {
            return Err(wrong("only hosts and their ports may stand there"));
        }
        let no_host = |text| wrong(&format!("{:?} is no host", hosts::printable(text)));
        let hosts = hosts::parse(places, *port).map_err(no_host)?;
        if let Some(again) = hosts::twice(&hosts) {
            return Err(wrong(&format!("{} stands there twice", again.authority())));
        }
        let path = path.trim_end_matches('/');
        if path.contains(['?', '#']) || (!path.is_empty() && !protocol.databases) {
            return Err(wrong("nothing else may follow"));
        }
        if path.is_empty() && protocol.databases {
            return Err(wrong("the database is missing"));
        }
        Ok(Self {
            hosts,
            database: protocol.databases.then(|| path.to_owned()),
        })
    }
}

/// Of all servers, or of each.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Ports {
    All(u16),
    Each(Vec<u16>),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub format: Option<Form>,
    /// 17, or null: as few as read back as the same value.
    pub digits: Option<Value>,
    pub http_port: Option<Ports>,
    /// Who writes; where a system asks.
    pub token_env: Option<String>,
    pub user: Option<String>,
    pub password_env: Option<String>,
}

impl Options {
    pub fn parse(scheme: &'static str, options: &BTreeMap<String, Value>) -> Result<Self> {
        let mut parsed: Self = OptionReader::new(scheme, options).rest()?;
        // Here null is a value.
        parsed.digits = options.get("digits").cloned();
        if parsed.password_env.is_some() && parsed.user.is_none() {
            return Err(Error::usage("password_env needs user"));
        }
        if parsed.token_env.is_some() && parsed.user.is_some() {
            return Err(Error::usage("token_env or user, not both"));
        }
        Ok(parsed)
    }

    /// Where each of the servers tells what it holds; usually at `usual`, or where it listens
    /// if that is 0.
    pub fn http_ports(&self, hosts: &[Host], usual: u16) -> Result<Vec<u16>> {
        let ports: Vec<u16> = match &self.http_port {
            None if usual == 0 => hosts.iter().map(|host| host.port).collect(),
            None => vec![usual; hosts.len()],
            Some(Ports::All(port)) => vec![*port; hosts.len()],
            Some(Ports::Each(ports)) => ports.clone(),
        };
        if ports.len() != hosts.len() {
            return Err(Error::usage(format!(
                "http_port: {} ports for {} hosts; give one for all, or one for each in the URL's order",
                ports.len(),
                hosts.len()
            )));
        }
        if ports.contains(&0) {
            return Err(Error::usage("http_port must be 1..65535"));
        }
        Ok(ports)
    }

    /// The header that says who writes.
    pub fn authorization(&self) -> Result<Option<String>> {
        use base64::Engine;
        if let Some(variable) = &self.token_env {
            return Ok(Some(format!("Token {}", secret(variable)?)));
        }
        let Some(user) = &self.user else {
            return Ok(None);
        };
        let password = match &self.password_env {
            Some(variable) => secret(variable)?,
            None => String::new(),
        };
        let text = format!("{user}:{password}");
        let text = base64::engine::general_purpose::STANDARD.encode(text);
        Ok(Some(format!("Basic {text}")))
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
    names: Names,
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
            names: Names::default(),
        })
    }

    /// The same for a server that takes other names.
    pub fn with_names(self, names: Names) -> Self {
        Self { names, ..self }
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

    /// Archives are in RESP, and in no other protocol's words.
    pub fn takes_archives(&self) -> bool {
        self.words == Words::Resp
    }

    /// Series are called by numbers that a connection was told before.
    pub fn has_dictionary(&self) -> bool {
        self.form == Form::Dictionary
    }

    pub fn writer(&self, layout: &Layout) -> Writer {
        match self.words {
            Words::Resp => Writer::Resp(Resp::new(self.form, self.digits, layout)),
            Words::OpenTsdb => Writer::OpenTsdb(OpenTsdb::new(self.digits, layout)),
            Words::Influx => Writer::Influx(Influx::new(self.digits, self.names, layout)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocols::AKUMULI;
    use super::*;

    #[test]
    fn urls() {
        let parse = |url| TargetUrl::parse(url, &AKUMULI);
        let hosts = |url| hosts::address(&parse(url).unwrap().hosts);
        assert_eq!(hosts("akumuli://h"), "h:8282");
        assert_eq!(hosts("akumuli://h:9/"), "h:9");
        assert_eq!(hosts("akumuli://[::1]:9,h"), "[::1]:9,h:8282");
        for wrong in [
            "akumuli://",
            "akumuli://:8282",
            "akumuli://h:0",
            "akumuli://h:x",
            "akumuli://u@h",
            "akumuli://u:hush@h?token=hush",
            "akumuli://h/db",
            "akumuli://h?x=1",
            "akumuli://[::1",
            "akumuli://::1",
            "akumuli://a,",
            "akumuli://a,b,a:8282",
        ] {
            let said = parse(wrong).unwrap_err().message;
            assert!(
                said.contains("akumuli://host[:8282][,host2...]") && !said.contains("hush"),
                "{wrong}: {said}"
            );
        }
    }
}
