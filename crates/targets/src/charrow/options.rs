//! `charrow://host:port/database?query=…` and the options of a trial spec.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::flight::{self, Address, Over};
use crate::hosts;
use venturi_base::codec::charrow::ring;
use venturi_base::codec::charrow::{DEFAULT_PORT, EXTENDED, LARGEST_BLOCK, MOST_ENCODERS, PLAIN};
use venturi_base::codec::ipc::Compression;
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::meter::handicap::Handicap;
use venturi_base::net::url::{self, unescape};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::Verify;

/// Threads of a decoder pool.
const MOST_DECODERS: usize = 256;

/// What a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub address: Address,
    /// Blocks come through shared memory.
    pub shared: bool,
    pub database: Option<String>,
    pub query: Option<String>,
}

pub fn parse_url(url: &str) -> Result<Place> {
    let wrong = |what: &str| {
        Error::usage(format!(
            "target {:?}: {what}; write charrow://host:port, charrow://host:port/database or charrow://host:port?query=SELECT…, or {}",
            hosts::printable(url),
            hosts::unix_form("charrow")
        ))
    };
    let shared = url.starts_with("charrow+shm:");
    let (over, rest) = match url.split_once("://") {
        Some(("charrow", rest)) => (Over::Tcp, rest),
        Some(("charrow+tls", rest)) => (Over::Tls, rest),
        Some(("charrow+unix" | "charrow+shm", rest)) => (Over::Unix, rest),
        _ => return Err(wrong("not a charrow URL")),
    };
    let places = hosts::split(rest, over == Over::Unix);
    if places.is_some_and(|(places, _)| places.contains(',')) {
        return Err(wrong(
            "one host, not several: the streams share the blocks of one query, which one server has",
        ));
    }
    let (address, rest) = Address::place(rest, over, DEFAULT_PORT).ok_or_else(|| match over {
        Over::Unix => wrong("no path from the root on, or no / behind its colon"),
        _ => wrong("no host, or no port"),
    })?;
    let text = |part: &str| {
        let bytes = unescape(part).ok_or_else(|| wrong("a % without two hexadecimal digits"))?;
        String::from_utf8(bytes).map_err(|_| wrong("not UTF-8"))
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.trim_matches('/');
    if path.contains('/') {
        return Err(wrong("a database is one name"));
    }
    let query = match query.split_once('=') {
        Some(("query", value)) => Some(text(&value.replace('+', "%20"))?),
        None if query.is_empty() => None,
        _ => return Err(wrong("only ?query= may follow")),
    };
    Ok(Place {
        address,
        shared,
        database: Some(text(path)?).filter(|name| !name.is_empty()),
        query: query.filter(|query| !query.trim().is_empty()),
    })
}

/// The options as the spec gives them; see `docs/targets/charrow.md`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub tls_ca: Option<String>,
    pub tls_certificate: Option<String>,
    pub tls_key: Option<String>,
    pub tls_server_name: Option<String>,
    pub tls_insecure: bool,
    /// A number, or "auto".
    encoders: Option<Value>,
    decoders: Option<usize>,
    version: Option<String>,
    compression: Option<String>,
    /// Of each block.
    pub checksum: bool,
    pub query: Option<String>,
    pub query_id: Option<String>,
    pub user: Option<String>,
    pub password_env: Option<String>,
    pub database: Option<String>,
    pub client_name: Option<String>,
    max_block_bytes: Option<u64>,
    /// What a block should hold about; the server decides without.
    pub block_bytes: Option<u64>,
    pub send_buffer: Option<usize>,
    /// Of a partition, in shared memory.
    pub ring_bytes: Option<u64>,
    /// Nanoseconds to burn for every block, by stage.
    handicap: BTreeMap<String, u64>,
}

impl Options {
    pub fn parse(options: &BTreeMap<String, Value>) -> Result<Self> {
        let parsed: Self = OptionReader::new("charrow", options).rest()?;
        parsed.encoders()?;
        let compressed = parsed.compression()? != Compression::None;
        if parsed.minor()? == PLAIN && (compressed || parsed.checksum) {
            return Err(Error::usage(
                "compression and checksum need version 1.2: 1.1 has neither",
            ));
        }
        if parsed.decoders() > MOST_DECODERS {
            return Err(Error::usage(format!(
                "decoders must be 0..{MOST_DECODERS} (0: each stream decodes on its own thread)"
            )));
        }
        if !(1..=2 * LARGEST_BLOCK as u64).contains(&parsed.max_block_bytes()) {
            return Err(Error::usage("max_block_bytes must be 1..2147483648"));
        }
        if parsed
            .send_buffer
            .is_some_and(|size| !(4096..=1 << 30).contains(&size))
        {
            return Err(Error::usage("send_buffer must be 4096..1073741824 bytes"));
        }
        if let Some(bytes) = parsed.ring_bytes {
            if !(ring::SMALLEST..=ring::LARGEST).contains(&bytes) {
                return Err(Error::usage(
                    "--ring must be 64 KiB to 64 MiB, as --ring 4Mi",
                ));
            }
        }
        if parsed.block_bytes == Some(0) {
            return Err(Error::usage("block_bytes must be at least 1"));
        }
        if parsed.tls_certificate.is_some() != parsed.tls_key.is_some() {
            return Err(Error::usage(
                "a client certificate needs both tls_certificate and tls_key",
            ));
        }
        Ok(parsed)
    }

    /// `None`: as many as the server has CPUs.
    pub fn encoders(&self) -> Result<Option<usize>> {
        let wrong = || Error::usage(format!("encoders must be 1..{MOST_ENCODERS}, or \"auto\""));
        match &self.encoders {
            None => Ok(None),
            Some(Value::String(text)) if text == "auto" => Ok(None),
            Some(value) => value
                .as_u64()
                .or_else(|| value.as_str()?.parse().ok())
                .and_then(|count| usize::try_from(count).ok())
                .filter(|count| (1..=MOST_ENCODERS).contains(count))
                .map(Some)
                .ok_or_else(wrong),
        }
    }

    pub fn decoders(&self) -> usize {
        self.decoders.unwrap_or(1)
    }

    /// The highest minor version to offer.
    pub fn minor(&self) -> Result<i64> {
        match self.version.as_deref() {
            None | Some("1.2") => Ok(EXTENDED),
            Some("1.1") => Ok(PLAIN),
            Some(other) => Err(Error::usage(format!(
                "version {other:?}: known are 1.1 and 1.2"
            ))),
        }
    }

    pub fn compression(&self) -> Result<Compression> {
        Compression::of_name(self.compression.as_deref().unwrap_or_default())
    }

    fn max_block_bytes(&self) -> u64 {
        self.max_block_bytes.unwrap_or(LARGEST_BLOCK as u64)
    }

    pub fn largest_block(&self) -> usize {
        usize::try_from(self.max_block_bytes()).unwrap_or(LARGEST_BLOCK)
    }

    /// What a block costs more at the client.
    pub fn handicap(&self, verify: Verify) -> Result<Handicap> {
        let (whose, stages): (_, &[Stage]) = match verify {
            Verify::Checksum => ("the client of a get", &[Stage::Decode, Stage::Verify]),
            _ => ("the client of a get without checksum", &[Stage::Decode]),
        };
        Handicap::parse(&self.handicap, stages, whose)
    }

    /// Bytes of the ring that each partition of such a place wants.
    pub fn ring(&self, place: &Place) -> Result<Option<u64>> {
        match (place.shared, self.ring_bytes) {
            (true, bytes) if self.minor()? == EXTENDED => Ok(Some(bytes.unwrap_or(ring::USUAL))),
            (true, _) => Err(Error::usage(
                "charrow+shm:// needs version 1.2: 1.1 has no shared memory",
            )),
            (false, None) => Ok(None),
            (false, Some(_)) => Err(Error::usage(
                "--ring is of charrow+shm:// alone: without shared memory there is no ring",
            )),
        }
    }

    pub fn password(&self) -> Result<String> {
        let secret = |name: &String| url::secret(name);
        Ok(self
            .password_env
            .as_ref()
            .map(secret)
            .transpose()?
            .unwrap_or_default())
    }

    /// What dialling needs.
    pub fn dialling(&self) -> flight::Options {
        flight::Options {
            tls_ca: self.tls_ca.clone(),
            tls_certificate: self.tls_certificate.clone(),
            tls_key: self.tls_key.clone(),
            tls_server_name: self.tls_server_name.clone(),
            tls_insecure: self.tls_insecure,
            send_buffer: self.send_buffer,
            ..flight::Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let place = parse_url("charrow://localhost").unwrap();
        assert_eq!(place.address.authority(), "localhost:9006");
        assert_eq!((place.database, place.query), (None, None));
        let place = parse_url("charrow+tls://[::1]:9/sales?query=SELECT%20*+FROM t").unwrap();
        assert!(place.address.tls);
        assert_eq!(place.database.as_deref(), Some("sales"));
        assert_eq!(place.query.as_deref(), Some("SELECT * FROM t"));
        let place = parse_url("charrow+unix:///run/s:/sales?query=SELECT 1").unwrap();
        assert_eq!(place.address.authority(), "/run/s");
        assert_eq!(place.database.as_deref(), Some("sales"));
        assert_eq!(place.query.as_deref(), Some("SELECT 1"));
        let shared = parse_url("charrow+shm:///run/s:/sales").unwrap();
        assert!(shared.shared && !place.shared);
        assert_eq!(shared.address, place.address);
        for wrong in [
            "charrow+unix://h:1",
            "charrow+shm://h:1",
            "charrow+shm:///run/s:sales",
            "charrow+unix:///run/s:sales",
            "charrow+unix:///a,/b",
            "charrow://",
            "flight://h",
            "charrow://h:0",
            "charrow://h/a/b",
            "charrow://h?x=1",
            "charrow://h?query=%zz",
            "charrow://u@h",
            "charrow://u:hush@h",
            "charrow://h?token=hush",
        ] {
            let said = parse_url(wrong).expect_err(wrong).message;
            assert!(!said.contains("hush"), "{said}");
        }
        let two = parse_url("charrow://a:1,b:2/db").unwrap_err().message;
        assert!(
            two.contains("one host, not several: the streams share"),
            "{two}"
        );
    }

    #[test]
    fn options_are_strict() {
        let one =
            |key: &str, value: Value| Options::parse(&BTreeMap::from([(key.to_owned(), value)]));
        assert_eq!(
            one("encoders", "auto".into()).unwrap().encoders().unwrap(),
            None
        );
        assert_eq!(
            one("encoders", 8.into()).unwrap().encoders().unwrap(),
            Some(8)
        );
        assert_eq!(one("encoders", Value::Null).unwrap().decoders(), 1);
        for (key, value) in [
            ("encoders", Value::from(0)),
            ("encoders", 1025.into()),
            ("encoders", "many".into()),
            ("decoders", 257.into()),
            ("version", "1.3".into()),
            ("compression", "gzip".into()),
            ("max_block_bytes", 0.into()),
            ("ring_bytes", ((64 << 20) + 1).into()),
            ("partitions", 3.into()),
        ] {
            assert!(one(key, value.clone()).is_err(), "{key} = {value}");
        }
        let of = |url: &str, options: Options| options.ring(&parse_url(url).unwrap());
        let given = || one("ring_bytes", 65536.into()).unwrap();
        assert_eq!(of("charrow+shm:///s", given()).unwrap(), Some(65536));
        assert_eq!(
            of("charrow+shm:///s", Options::default()).unwrap(),
            Some(4 << 20)
        );
        assert_eq!(of("charrow+unix:///s", Options::default()).unwrap(), None);
        let wrong = of("charrow+unix:///s", given()).unwrap_err().message;
        assert!(wrong.starts_with("--ring is of charrow+shm:// alone"));
        let wrong = one("ring_bytes", 65535.into()).unwrap_err().message;
        assert_eq!(wrong, "--ring must be 64 KiB to 64 MiB, as --ring 4Mi");
        let old = one("version", "1.1".into()).unwrap();
        assert!(of("charrow+shm:///s", old)
            .unwrap_err()
            .message
            .contains("1.2"));
        let plain = [("version", Value::from("1.1")), ("checksum", true.into())];
        let plain = plain.map(|(key, value)| (key.to_owned(), value)).into();
        assert!(Options::parse(&plain).unwrap_err().message.contains("1.2"));
    }
}
