//! `scheme://host[:port][/database]`.

use super::System;
use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub host: String,
    pub port: u16,
    /// What follows the first slash; only where the system has databases.
    pub database: Option<String>,
}

impl Place {
    pub fn parse(url: &str, system: &System) -> Result<Self> {
        let System { scheme, port, .. } = system;
        let database = if system.databases { "/database" } else { "" };
        let wrong = |what: &str| {
            Error::usage(format!(
                "target {url:?}: {what}; write {scheme}://host[:{port}]{database}"
            ))
        };
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, after) = match place.strip_prefix('[') {
            Some(v6) => v6
                .split_once(']')
                .ok_or_else(|| wrong("a [ without its ]"))?,
            None => place.find(':').map_or((place, ""), |at| place.split_at(at)),
        };
        let port = match after.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port > 0),
            None if after.is_empty() => Some(*port),
            None => None,
        };
        let port = port.ok_or_else(|| wrong("the port must be 1..65535"))?;
        if host.is_empty() || host.contains(['@', '?', '#']) {
            return Err(wrong("there is no host, or it is not alone"));
        }
        let path = path.trim_end_matches('/');
        if path.contains(['?', '#']) || (!path.is_empty() && !system.databases) {
            return Err(wrong("nothing else may follow"));
        }
        if path.is_empty() && system.databases {
            return Err(wrong("the database is missing"));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            database: system.databases.then(|| path.to_owned()),
        })
    }

    pub fn authority(&self) -> String {
        self.with_port(self.port)
    }

    pub fn with_port(&self, port: u16) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{port}", self.host),
            false => format!("{}:{port}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::akumuli;
    use super::*;

    #[test]
    fn urls() {
        let parse = |url| Place::parse(url, &akumuli::TCP);
        assert_eq!(parse("akumuli://h").unwrap().authority(), "h:8282");
        assert_eq!(parse("akumuli://h:9/").unwrap().authority(), "h:9");
        assert_eq!(parse("akumuli://[::1]:9").unwrap().authority(), "[::1]:9");
        for wrong in [
            "akumuli://",
            "akumuli://:8282",
            "akumuli://h:0",
            "akumuli://h:x",
            "akumuli://u@h",
            "akumuli://h/db",
            "akumuli://h?x=1",
            "akumuli://[::1",
            "akumuli://::1",
        ] {
            let said = parse(wrong).unwrap_err().message;
            assert!(said.contains("akumuli://host[:8282]"), "{wrong}: {said}");
        }
    }
}
