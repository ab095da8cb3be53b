//! `scheme://host[:port][,host2...][/database]`.

use super::Protocol;
use crate::hosts::{self, Host};
use venturi_base::error::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// At least one.
    pub hosts: Vec<Host>,
    /// What follows the first slash; only where the system has databases.
    pub database: Option<String>,
}

impl Place {
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

#[cfg(test)]
mod tests {
    use super::super::akumuli;
    use super::*;

    #[test]
    fn urls() {
        let parse = |url| Place::parse(url, &akumuli::TCP);
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
