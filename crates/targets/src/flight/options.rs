//! `flight://host:port/path?command=…` and the options of a trial spec.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::offers::WITHOUT_END;
use crate::hosts::{self, Host};
use venturi_base::codec::frame;
use venturi_base::codec::ipc::Compression;
use venturi_base::error::{Error, Result};
use venturi_base::meter::clock::Stage;
use venturi_base::meter::handicap::Handicap;
use venturi_base::net::tls::ClientTls;
use venturi_base::net::url::{secret, unescape};
use venturi_base::option_reader::OptionReader;
use venturi_base::spec::{Data, Operation, TrialSpec, Verify};

/// Arrow's own perf server listens here.
pub const DEFAULT_PORT: u16 = 31337;

/// Where a server is and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    pub host: String,
    pub port: u16,
    pub tls: bool,
}

impl Address {
    fn of(host: Host, tls: bool) -> Self {
        let Host { name, port } = host;
        Self {
            host: name,
            port,
            tls,
        }
    }

    pub fn to_host(&self) -> Host {
        Host {
            name: self.host.clone(),
            port: self.port,
        }
    }

    /// What to ask where no `server` answers as one does; `scheme`: by whose URL it would be reached by TLS.
    pub fn doubt(&self, server: &str, scheme: &str) -> String {
        match self.tls || self.to_host().socket().is_some() {
            true => format!("is it {server}?"),
            false => format!("is it {server}, and does it want TLS ({scheme}+tls://)?"),
        }
    }

    /// As it stands in a URL.
    pub fn authority(&self) -> String {
        self.to_host().authority()
    }

    /// What requests name as `:authority`: a path is none, and gRPC says this for it.
    pub fn requested(&self) -> String {
        match self.to_host().socket() {
            Some(_) => "localhost".to_owned(),
            None => self.authority(),
        }
    }

    /// One place at the beginning of a text, and what follows it.
    pub(crate) fn place(text: &str, over: Over, default_port: u16) -> Option<(Self, &str)> {
        let (place, rest) = hosts::split(text, over == Over::Unix)?;
        let mut hosts = hosts::places(place, default_port, over == Over::Unix).ok()?;
        let host = hosts.pop().filter(|_| hosts.is_empty())?;
        Some((Self::of(host, over == Over::Tls), rest))
    }

    /// A Flight location; `None`: the server that was asked (no scheme for another one).
    pub fn of_location(uri: &str) -> Result<Option<Self>> {
        if uri.is_empty() || uri.starts_with("arrow-flight-reuse-connection:") {
            return Ok(None);
        }
        let place = scheme(uri).and_then(|(over, rest)| Self::place(rest, over, DEFAULT_PORT));
        match place {
            Some((address, _)) => Ok(Some(address)),
            None => Err(Error::protocol(format!(
                "the server offers its data at {:?}, which Venturi cannot reach; known: grpc://, grpc+tcp://, grpc+tls://, grpc+unix://",
                hosts::printable(uri)
            ))),
        }
    }
}

/// What the bytes travel over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Tcp,
    Tls,
    Unix,
}

/// What a URL's bytes travel over, and what follows the scheme: Venturi's own ones and those of locations.
fn scheme(url: &str) -> Option<(Over, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let over = match scheme {
        "flight" | "grpc" | "grpc+tcp" => Over::Tcp,
        "flight+tls" | "grpc+tls" => Over::Tls,
        "flight+unix" | "grpc+unix" => Over::Unix,
        _ => return None,
    };
    Some((over, rest))
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Nothing in the URL: Arrow's perf protocol.
    Nothing,
    Path(Vec<String>),
    Command(Vec<u8>),
    Ticket(Vec<u8>),
}

/// The servers, at least one, and what is asked of them.
pub fn parse_url(url: &str) -> Result<(Vec<Address>, Subject)> {
    let wrong = |what: &str| {
        Error::usage(format!(
            "target {:?}: {what}; write flight://host:port, flight://host:port/table or flight://host:port?command=text (several hosts with commas between them), or {}",
            hosts::printable(url),
            hosts::unix_form("flight")
        ))
    };
    let (over, rest) = scheme(url).ok_or_else(|| wrong("not a Flight URL"))?;
    let unix = over == Over::Unix;
    let (places, rest) = hosts::split(rest, unix).ok_or_else(|| wrong("no / follows the colon"))?;
    let what = if unix {
        "no path from the root on"
    } else {
        "no host"
    };
    let no_place = |text| wrong(&format!("{:?} is {what}", hosts::printable(text)));
    let places = hosts::places(places, DEFAULT_PORT, unix).map_err(no_place)?;
    if let Some(again) = hosts::twice(&places) {
        return Err(wrong(&format!("{} stands there twice", again.authority())));
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| unescape(segment).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| wrong("a % without two hexadecimal digits"))?;
    let subject = match query.split_once('=') {
        None if query.is_empty() && path.is_empty() => Subject::Nothing,
        None if query.is_empty() => Subject::Path(path),
        Some((key @ ("command" | "ticket"), value)) if path.is_empty() => {
            let bytes = match value.strip_prefix("base64:") {
                Some(text) => base64_decode(text).ok_or_else(|| wrong("not base64"))?,
                None => {
                    unescape(value).ok_or_else(|| wrong("a % without two hexadecimal digits"))?
                }
            };
            match key {
                "command" => Subject::Command(bytes),
                _ => Subject::Ticket(bytes),
            }
        }
        _ => {
            return Err(wrong(
                "only ?command= or ?ticket= may follow, without a path",
            ))
        }
    };
    let tls = over == Over::Tls;
    let servers = places.into_iter().map(|host| Address::of(host, tls));
    Ok((servers.collect(), subject))
}

fn base64_decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolChoice {
    Auto,
    Perf,
    Path,
    Command,
    Ticket,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    PerStream,
    Shared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    Stream,
    Batch,
}

/// The options as the spec gives them; see `docs/targets/flight.md`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub tls_ca: Option<String>,
    pub tls_certificate: Option<String>,
    pub tls_key: Option<String>,
    pub tls_server_name: Option<String>,
    pub tls_insecure: bool,
    pub token_env: Option<String>,
    pub user: Option<String>,
    pub password_env: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub header_env: BTreeMap<String, String>,
    pub compression: Option<String>,
    pub window: Option<u32>,
    pub send_buffer: Option<usize>,
    pub max_message_size: usize,
    pub connections: Connections,
    pub protocol: ProtocolChoice,
    pub ack: Ack,
    /// Nanoseconds to burn for every batch, by stage.
    pub handicap: BTreeMap<String, u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls_ca: None,
            tls_certificate: None,
            tls_key: None,
            tls_server_name: None,
            tls_insecure: false,
            token_env: None,
            user: None,
            password_env: None,
            headers: BTreeMap::new(),
            header_env: BTreeMap::new(),
            compression: None,
            window: None,
            send_buffer: None,
            max_message_size: 64 << 20,
            connections: Connections::PerStream,
            protocol: ProtocolChoice::Auto,
            ack: Ack::Stream,
            handicap: BTreeMap::new(),
        }
    }
}

impl Options {
    pub fn parse(options: &BTreeMap<String, Value>) -> Result<Self> {
        OptionReader::new("flight", options)
            .rest::<Self>()?
            .checked()
    }

    /// An error: it cannot be so.
    pub(crate) fn checked(self) -> Result<Self> {
        let parsed = self;
        if parsed
            .window
            .is_some_and(|window| window == 0 || window > frame::MAX_WINDOW)
        {
            return Err(Error::usage("window must be 1..2147483647 bytes"));
        }
        if parsed
            .send_buffer
            .is_some_and(|size| !(4096..=1 << 30).contains(&size))
        {
            return Err(Error::usage("send_buffer must be 4096..1073741824 bytes"));
        }
        parsed.compression()?;
        if parsed.max_message_size == 0 || parsed.max_message_size > u32::MAX as usize {
            return Err(Error::usage("max_message_size must be 1..4294967295 bytes"));
        }
        if parsed.tls_certificate.is_some() != parsed.tls_key.is_some() {
            return Err(Error::usage(
                "a client certificate needs both tls_certificate and tls_key",
            ));
        }
        if parsed.password_env.is_some() && parsed.user.is_none() {
            return Err(Error::usage("password_env needs user"));
        }
        Ok(parsed)
    }

    /// Whether any option says something of TLS. An endpoint of a `flight://` server may be TLS's.
    pub fn wants_tls(&self) -> bool {
        let given = [&self.tls_ca, &self.tls_certificate, &self.tls_server_name];
        self.tls_insecure || given.iter().any(|option| option.is_some())
    }

    pub fn tls(&self) -> ClientTls<'_> {
        ClientTls {
            authority: self.tls_ca.as_deref(),
            certificate: self.tls_certificate.as_deref(),
            key: self.tls_key.as_deref(),
            insecure: self.tls_insecure,
        }
    }

    pub fn window(&self) -> u32 {
        self.window.unwrap_or(frame::MAX_WINDOW)
    }

    /// Of the bodies that the sender is told, or is, to compress.
    pub fn compression(&self) -> Result<Compression> {
        Compression::of_name(self.compression.as_deref().unwrap_or_default())
    }

    /// What a batch costs more at the client of this operation.
    pub fn handicap(&self, operation: Operation, verify: Verify) -> Result<Handicap> {
        let (whose, stages): (_, &[Stage]) = match (operation, verify) {
            (Operation::Get, Verify::Checksum) => {
                ("the client of a get", &[Stage::Decode, Stage::Verify])
            }
            (Operation::Get, _) => ("the client of a get without checksum", &[Stage::Decode]),
            (Operation::Put, Verify::Checksum) => (
                "the client of a put",
                &[Stage::Generate, Stage::Encode, Stage::Verify],
            ),
            (Operation::Put | Operation::Upsert | Operation::Ingest, _) => (
                "the client of a put without checksum",
                &[Stage::Generate, Stage::Encode],
            ),
        };
        Handicap::parse(&self.handicap, stages, whose)
    }

    /// The extra headers, with the secrets read from where they live.
    pub fn headers(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut headers: Vec<_> = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_lowercase(), value.clone().into_bytes()))
            .collect();
        for (name, variable) in &self.header_env {
            headers.push((name.to_lowercase(), secret(variable)?.into_bytes()));
        }
        if let Some(variable) = &self.token_env {
            let value = format!("Bearer {}", secret(variable)?);
            headers.push(("authorization".into(), value.into_bytes()));
        }
        Ok(headers)
    }

    /// `Basic …` for user and password.
    pub fn basic(&self) -> Result<Option<Vec<u8>>> {
        use base64::Engine;
        let Some(user) = &self.user else {
            return Ok(None);
        };
        let password = match &self.password_env {
            Some(variable) => secret(variable)?,
            None => String::new(),
        };
        let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        Ok(Some(format!("Basic {text}").into_bytes()))
    }
}

pub(super) fn check(spec: &TrialSpec, subject: &Subject, options: &Options) -> Result<()> {
    let named = match subject {
        Subject::Nothing => ProtocolChoice::Perf,
        Subject::Path(_) => ProtocolChoice::Path,
        Subject::Command(_) => ProtocolChoice::Command,
        Subject::Ticket(_) => ProtocolChoice::Ticket,
    };
    if options.protocol != ProtocolChoice::Auto && options.protocol != named {
        return Err(Error::usage(format!(
            "protocol = {:?} does not fit the URL {:?}, which names {:?}",
            options.protocol,
            hosts::printable(&spec.target),
            named
        )));
    }
    let rows = spec.rows_per_stream.unwrap_or(0);
    if rows > WITHOUT_END {
        return Err(Error::usage(format!(
            "rows_per_stream must be at most {WITHOUT_END}"
        )));
    }
    if spec.rows_per_batch > i32::MAX as usize {
        return Err(Error::usage("rows_per_batch must be at most 2147483647"));
    }
    match (spec.operation, subject, &spec.data) {
        (Operation::Upsert, ..) => Err(Error::usage(
            "Flight knows no upsert: put, or upsert into a database (mysql://, cassandra://, postgres://, sqlite://, duckdb://)",
        )),
        (Operation::Put, Subject::Ticket(_), _) => Err(Error::usage("a ticket is for a get; put to a path: flight://host:port/table")),
        (Operation::Get, Subject::Nothing, Data::Remote) => Err(Error::usage(
            "data = \"remote\" needs to say what to get: flight://host:port/table, ?command=… or ?ticket=…",
        )),
        (Operation::Get, Subject::Path(_) | Subject::Command(_) | Subject::Ticket(_), data) if *data != Data::Remote => {
            Err(Error::usage("a get of a path, command or ticket moves what the server holds: data = \"remote\""))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let one = |url: &str| {
            let (mut servers, subject) = parse_url(url).unwrap();
            assert_eq!(servers.len(), 1);
            (servers.remove(0), subject)
        };
        let (address, subject) = one("flight://localhost");
        assert_eq!(address.authority(), "localhost:31337");
        assert_eq!(subject, Subject::Nothing);
        let (address, subject) = one("flight+tls://[::1]:9/a%20b/c");
        assert!(address.tls);
        assert_eq!(address.authority(), "[::1]:9");
        assert_eq!(subject, Subject::Path(vec!["a b".into(), "c".into()]));
        let (_, subject) = one("flight://h:1?command=select%201,2");
        assert_eq!(subject, Subject::Command(b"select 1,2".to_vec()));
        let (_, subject) = one("flight://h:1/?ticket=base64:AAE=");
        assert_eq!(subject, Subject::Ticket(vec![0, 1]));
        let (servers, subject) = parse_url("flight+tls://a:1,[::1],c/t").unwrap();
        let all: Vec<_> = servers.iter().map(Address::authority).collect();
        assert_eq!(all, ["a:1", "[::1]:31337", "c:31337"]);
        assert!(servers.iter().all(|server| server.tls));
        assert_eq!(subject, Subject::Path(vec!["t".into()]));
        let (servers, subject) = parse_url("flight+unix:///run/a,/run/b%20c:/t?").unwrap();
        let all: Vec<_> = servers.iter().map(Address::authority).collect();
        assert_eq!(all, ["/run/a", "/run/b c"]);
        assert_eq!(servers[0].requested(), "localhost");
        assert_eq!(subject, Subject::Path(vec!["t".into()]));
        let (_, subject) = one("flight+unix:///run/s?command=a/b:c");
        assert_eq!(subject, Subject::Command(b"a/b:c".to_vec()));
        for wrong in [
            "flight+unix://",
            "flight+unix://h",
            "flight+unix://h:1",
            "flight+unix:///",
            "flight+unix:///a:t",
            "flight+unix:///a,/a",
            "flight+unix://u:hush@/a",
            "flight:///a",
            "flight://",
            "http://h",
            "flight://h:0",
            "flight://h:99999",
            "flight://h?x=1",
            "flight://h/p?command=x",
            "flight://h/%zz",
            "flight://127.0.0.1::31337",
            "flight://::1:31337",
            "flight://a,",
            "flight://a,b:x",
            "flight://a:31337,b,a",
            "flight://u@h",
            "flight://u:hush@h",
            "flight://h:1?token=hush",
            "flight://h:1#hush",
        ] {
            let said = parse_url(wrong).expect_err(wrong).message;
            assert!(!said.contains("hush"), "{said}");
        }
    }

    #[test]
    fn locations() {
        assert_eq!(
            Address::of_location("arrow-flight-reuse-connection://?").unwrap(),
            None
        );
        let there = Address::of_location("grpc+tcp://10.0.0.1:5000")
            .unwrap()
            .unwrap();
        assert_eq!(there.authority(), "10.0.0.1:5000");
        let near = Address::of_location("grpc+unix:///run/s").unwrap().unwrap();
        assert_eq!(near.authority(), "/run/s");
        assert!(Address::of_location("s3://bucket").is_err());
    }

    #[test]
    fn options_are_strict() {
        let one =
            |key: &str, value: Value| Options::parse(&BTreeMap::from([(key.to_owned(), value)]));
        assert!(one("tls_ca", Value::Null).is_ok());
        assert!(one("windw", 1.into())
            .unwrap_err()
            .message
            .contains("windw"));
        assert!(one("window", 0.into()).is_err());
        assert!(one("compression", "zstd:19".into()).is_ok());
        for wrong in ["zstd:0", "zstd:23", "zstd:x", "gzip", "lz4:1"] {
            let refused = one("compression", wrong.into()).unwrap_err().message;
            assert!(refused.contains("1 to 22"), "{refused}");
        }
        assert!(one("tls_key", "k.pem".into()).is_err());
        assert_eq!(
            one("connections", "shared".into()).unwrap().connections,
            Connections::Shared
        );
    }
}
