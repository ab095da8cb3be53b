//! `http+arrow://host:port/path?query` and the options of a trial spec.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::flight;
use crate::hosts::{self, Host};
use venturi_base::codec::coding::Coding;
use venturi_base::error::{Error, Result};
use venturi_base::http1::{Tls, Web};
use venturi_base::net::tls::{in_the_clear, tls_advice};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::{Data, Operation, TrialSpec};

pub const SCHEME: &str = "http+arrow";
pub const DEFAULT_PORT: u16 = 80;
pub const TLS_PORT: u16 = 443;

/// How a put says how long its body is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// It does not: the batches go as they are made.
    #[default]
    Chunked,
    /// All batches are made first.
    Length,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Post,
    Put,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Own {
    body: Body,
    http_method: Method,
    http_compression: Option<String>,
}

/// The options as the spec gives them; see `docs/targets/http.md`.
#[derive(Debug, Clone)]
pub struct Options {
    pub body: Body,
    pub method: Method,
    pub coding: Coding,
    /// What Flight has as well: who we are, TLS, compression within the stream, handicaps.
    pub shared: flight::Options,
}

impl Options {
    pub fn parse(options: &BTreeMap<String, Value>) -> Result<Self> {
        let mut given = OptionReader::new(SCHEME, options);
        let own: Own = given.take()?;
        let shared = given.rest::<flight::Options>()?.checked()?;
        let name = own.http_compression.unwrap_or_default();
        let unknown = || {
            Error::usage(format!(
                "http_compression {name:?}: known are none, gzip and zstd"
            ))
        };
        Ok(Self {
            body: own.body,
            method: own.http_method,
            coding: Coding::of_name(&name).ok_or_else(unknown)?,
            shared,
        })
    }

    /// Who asks, for every request; secrets are read from where they live.
    pub fn headers(&self) -> Result<Vec<(String, String)>> {
        let mut found = self.shared.headers()?;
        if let Some(basic) = self.shared.basic()? {
            found.push(("authorization".into(), basic));
        }
        let sent = |(name, value): (String, Vec<u8>)| {
            let plain = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
            let word =
                |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
            let fits = !name.is_empty() && name.bytes().all(word);
            match String::from_utf8(value) {
                Ok(value) if fits && value.bytes().all(|byte| plain(&byte)) => Ok((name, value)),
                _ => Err(Error::usage(format!(
                    "header {name:?}: names and values, user and password must be of printable ASCII characters"
                ))),
            }
        };
        found.into_iter().map(sent).collect()
    }

    fn tls(&self) -> Result<Tls> {
        let mut config = self.shared.tls().config()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls {
            config: config.into(),
            server_name: self.shared.tls_server_name.clone(),
            authority: self.shared.tls_ca.is_some(),
            advice: |text, authority| tls_advice(text, SCHEME, authority),
        })
    }
}

/// Where a server is, and what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub host: Host,
    pub tls: bool,
    /// From its / on, with what follows a ?; empty where the URL names a server and nothing there.
    pub path: String,
}

impl Place {
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::usage(format!(
                "target {:?}: {what}; write {SCHEME}://HOST:PORT/PATH",
                hosts::printable(url)
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("not a URL"))?;
        let tls = match scheme.strip_prefix(SCHEME) {
            Some("") => false,
            Some("+tls") => true,
            _ => return Err(wrong("not a URL of Arrow over HTTP")),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if host.contains(',') {
            return Err(wrong(&format!(
                "one host, not several: {}",
                super::ONE_HOST
            )));
        }
        let port = if tls { TLS_PORT } else { DEFAULT_PORT };
        let host = Host::parse(host, port);
        let host = host.ok_or_else(|| wrong("names no host"))?;
        let path = match path.trim_matches('/') {
            "" => String::new(),
            _ if path.starts_with('?') => format!("/{path}"),
            _ => path.to_owned(),
        };
        Ok(Self { host, tls, path })
    }

    pub fn authority(&self) -> String {
        self.host.authority()
    }

    pub fn web(&self, options: &Options) -> Result<Web> {
        if !self.tls && options.shared.wants_tls() {
            return Err(in_the_clear(SCHEME));
        }
        Ok(Web {
            host: self.host.name.clone(),
            port: self.host.port,
            authority: self.authority(),
            tls: self.tls.then(|| options.tls()).transpose()?,
        })
    }
}

/// A path as a request's first line has it: what would end it is escaped.
pub fn in_line(path: &str) -> String {
    let mut line = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'#' => line.push(char::from(byte)),
            _ => line.push_str(&format!("%{byte:02X}")),
        }
    }
    line
}

/// What can be refused before anything is connected.
pub fn check(spec: &TrialSpec, place: &Place, options: &Options) -> Result<()> {
    let wrong = |what: &str| Err(Error::usage(format!("{SCHEME}://: {what}")));
    match (spec.operation, &spec.data) {
        (Operation::Get, Data::Remote) if place.path.is_empty() => wrong(
            "data = \"remote\" needs to say what to get: http+arrow://HOST:PORT/PATH",
        ),
        (Operation::Get, data) if *data != Data::Remote && !place.path.is_empty() => {
            wrong("a get of a path moves what the server holds: data = \"remote\"")
        }
        (Operation::Put, _) if options.body == Body::Length && spec.rows_per_stream.is_none() => {
            wrong("body = \"length\" says how long the body is before it is sent: give rows_per_stream")
        }
        (Operation::Put, _) if options.body == Body::Length && spec.duration_ns.is_some() => {
            wrong("body = \"length\" cannot end with a duration: give rows_per_stream alone")
        }
        (Operation::Get | Operation::Put, _) => Ok(()),
        _ => wrong("takes gets and puts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let place = |url| Place::parse(url).unwrap();
        let found = place("http+arrow://h");
        assert_eq!(
            (found.authority(), found.path),
            ("h:80".into(), String::new())
        );
        let found = place("http+arrow+tls://[::1]/a/{stream}.arrows?x=1&y=%20");
        assert_eq!(found.authority(), "[::1]:443");
        assert_eq!(found.path, "/a/{stream}.arrows?x=1&y=%20");
        assert_eq!(place("http+arrow://h:8/").path, "");
        assert_eq!(place("http+arrow://h:8?q=1").path, "/?q=1");
        for wrong in [
            "http+arrow://",
            "http://h",
            "http+arrow://a,b",
            "http+arrow://u@h",
            "http+arrow://h:0",
            "http+arrows://h",
        ] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options() {
        let parse = |json: &str| Options::parse(&serde_json::from_str(json).unwrap());
        let given =
            parse(r#"{"body": "length", "http_method": "PUT", "http_compression": "zstd"}"#);
        let given = given.unwrap();
        assert_eq!((given.body, given.coding), (Body::Length, Coding::Zstd));
        assert_eq!(given.method.name(), "PUT");
        for (json, part) in [
            (r#"{"body": "long"}"#, "long"),
            (r#"{"http_compression": "br"}"#, "gzip and zstd"),
            (r#"{"bodi": 1}"#, "bodi"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.message.contains(part), "{}", error.message);
        }
        let lines = parse(r#"{"headers": {"x": "a\r\nb: c"}}"#).unwrap();
        assert!(lines.headers().is_err());
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(in_line("/a b\r\n#ä?x=%20"), "/a%20b%0D%0A%23%C3%A4?x=%20");
    }
}
