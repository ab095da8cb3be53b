//! A server in another network namespace of this host. Its address is not ours and its sockets are not in our
//! tables, so whoever has made both namespaces says so, by the variable `VENTURI_BESIDE`: ADDRESS=FOLDER, the
//! folder with the tables as `/proc/PID/net`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static NAMESPACE: LazyLock<Option<ServerNamespace>> = LazyLock::new(|| {
    let text = std::env::var("VENTURI_BESIDE").ok()?;
    ServerNamespace::parse(&text)
});

pub struct ServerNamespace {
    ip: IpAddr,
    tables: PathBuf,
}

impl ServerNamespace {
    /// The namespace that the variable names; none if it is unset or cannot be read.
    pub fn from_environment() -> Option<&'static Self> {
        NAMESPACE.as_ref()
    }

    fn parse(text: &str) -> Option<Self> {
        let (ip, tables) = text.split_once('=')?;
        Some(Self {
            ip: ip.parse().ok()?,
            tables: tables.into(),
        })
    }

    pub fn has(&self, ip: IpAddr) -> bool {
        self.ip == ip
    }

    pub fn tables(&self) -> &Path {
        &self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_a_folder_are_read() {
        let found = ServerNamespace::parse("10.77.0.2=/proc/12/net").unwrap();
        assert!(found.has([10, 77, 0, 2].into()) && !found.has([10, 77, 0, 1].into()));
        assert_eq!(found.tables(), Path::new("/proc/12/net"));
        for nonsense in ["", "10.77.0.2", "host=/proc/12/net"] {
            assert!(ServerNamespace::parse(nonsense).is_none());
        }
    }
}
