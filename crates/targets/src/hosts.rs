//! Hosts in a URL: one, or several with commas between them; or Unix sockets in their place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use socket2::SockAddr;
use venturi_base::error::{Error, Kind, Result as Answer};
use venturi_base::meter::readers::listener::{pid_at, pid_of};
use venturi_base::meter::readers::network::is_own;
use venturi_base::net::url::unescape;
use venturi_base::net::wire::Wire;
use venturi_base::net::{dial, unix};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// From the root on: a Unix socket's path.
    pub name: String,
    /// 0: of a Unix socket, which has none.
    pub port: u16,
}

impl Host {
    /// `host`, `host:port`, and an IPv6 address in brackets. `None`: it is none of these.
    pub fn parse(text: &str, usual: u16) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(v6) => match v6.split_once(']')? {
                (name, "") => (name, None),
                (name, after) => (name, Some(after.strip_prefix(':')?)),
            },
            // What is left here has one colon at most, or its port is none.
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None => usual,
        };
        // Who logs in is no part of a host.
        let fits = !name.is_empty() && !name.contains('@');
        fits.then(|| Self {
            name: name.to_owned(),
            port,
        })
    }

    /// The path of a Unix socket, with its escapes. `None`: it is none from the root on.
    fn at(text: &str) -> Option<Self> {
        let name = String::from_utf8(unescape(text)?).ok()?;
        let fits = name.len() > 1 && name.starts_with('/') && !name.contains('\0');
        fits.then_some(Self { name, port: 0 })
    }

    pub fn socket(&self) -> Option<&Path> {
        (self.port == 0).then(|| Path::new(&self.name))
    }

    /// As it stands in a URL.
    pub fn authority(&self) -> String {
        match self.port {
            0 => self.name.clone(),
            port => self.with_port(port),
        }
    }

    /// A connection without TLS. The caller says where to.
    pub async fn dial(
        &self,
        timeout: Option<Duration>,
        send_buffer: Option<usize>,
    ) -> Answer<Wire> {
        match self.socket() {
            Some(path) => dial::unix(path, timeout, send_buffer).await.map(Wire::Unix),
            None => {
                let to = (self.name.as_str(), self.port);
                dial::tcp(to, timeout, send_buffer).await.map(Wire::Tcp)
            }
        }
    }

    /// The same host, another port.
    pub fn with_port(&self, port: u16) -> String {
        match self.name.contains(':') {
            true => format!("[{}]:{port}", self.name),
            false => format!("{}:{port}", self.name),
        }
    }

    /// Where a reference server there has its raw probe: at this port, or beside its socket.
    pub async fn raw_peer(&self, port: u16) -> Answer<SockAddr> {
        if let Some(path) = self.socket() {
            return unix::address(&unix::raw_of(path));
        }
        let found = tokio::net::lookup_host((self.name.as_str(), port)).await;
        let found = found.ok().and_then(|mut all| all.next());
        found
            .map(SockAddr::from)
            .ok_or_else(|| Error::new(Kind::Unreachable, format!("{} has no address", self.name)))
    }

    /// Before any connection is made: whose process listens there, if it is one of this host. A
    /// name is not looked up, for that would make the trial's own look-up faster.
    pub fn listening(&self) -> Option<u32> {
        if let Some(path) = self.socket() {
            return pid_at(path);
        }
        let all = match self.name.as_str() {
            "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            name => vec![name.parse::<IpAddr>().ok()?],
        };
        all.into_iter()
            .filter(|ip| is_own(*ip))
            .find_map(|ip| pid_of((ip, self.port).into()))
    }
}

/// What follows the scheme, in two: the places, and what is asked for there, from its / or ? on. Behind a
/// Unix socket a colon stands between them. `None`: something else follows the colon.
pub fn split(rest: &str, unix: bool) -> Option<(&str, &str)> {
    let end = rest.find(if unix { [':', '?'] } else { ['/', '?'] });
    let (places, after) = rest.split_at(end.unwrap_or(rest.len()));
    let asked = match unix {
        true => after.strip_prefix(':').unwrap_or(after),
        false => after,
    };
    let fits = asked.is_empty() || asked.starts_with(['/', '?']);
    fits.then_some((places, asked))
}

/// How a URL of Unix sockets is written.
pub fn unix_form(scheme: &str) -> String {
    format!("{scheme}+unix:///path/of/socket, and :/NAME behind it for what is there")
}

/// A list of Unix sockets, or of hosts as `parse`.
pub fn places(text: &str, usual: u16, unix: bool) -> Result<Vec<Host>, &str> {
    match unix {
        true => text
            .split(',')
            .map(|path| Host::at(path).ok_or(path))
            .collect(),
        false => parse(text, usual),
    }
}

/// A list of hosts, at least one; an error is what of it is no host.
pub fn parse(text: &str, usual: u16) -> Result<Vec<Host>, &str> {
    let host = |text| Host::parse(text, usual).ok_or(text);
    text.split(',').map(host).collect()
}

/// The first one that stands in the list twice: what counts for itself must be asked once.
pub fn twice(hosts: &[Host]) -> Option<&Host> {
    let again = |at: usize| hosts[..at].contains(&hosts[at]);
    (1..hosts.len()).find(|at| again(*at)).map(|at| &hosts[at])
}

/// All of them, for the record and for error lines.
pub fn address(hosts: &[Host]) -> String {
    let all: Vec<String> = hosts.iter().map(Host::authority).collect();
    all.join(",")
}

/// Whom a stream speaks to: by its number in the whole trial, so that it is the same one
/// whichever process runs the stream.
pub fn of_stream<T>(hosts: &[T], stream: usize) -> &T {
    &hosts[stream % hosts.len()]
}

/// What an error shows of a URL: nothing of what stands before its last @, where a password may be
/// however it is misspelt, and no parameters. Python's `urls.printable` is the same.
pub fn printable(url: &str) -> String {
    const HIDDEN: &str = "***";
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(&b))
    };
    let (head, rest) = match url.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (&url[..=scheme.len()], rest),
        _ => ("", url),
    };
    let place = rest.trim_start_matches('/');
    let mut shown = format!("{head}{}", &rest[..rest.len() - place.len()]);
    let after = match place.rfind('@').max(place.rfind("%40")) {
        None => place,
        // Behind a ? the @ may be part of a secret as well, and what follows it the rest of that.
        Some(at) if place[..at].contains(['?', '#']) => return shown + HIDDEN,
        Some(at) => {
            shown += HIDDEN;
            &place[at..]
        }
    };
    match after.find(['?', '#']) {
        Some(mark) => shown + &after[..=mark] + HIDDEN,
        None => shown + after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_has_no_secrets() {
        for (url, shown) in [
            ("mysql://u:hush@h/db", "mysql://***@h/db"),
            ("mysql:/u:hush@h", "mysql:/***@h"),
            ("u:hush@h", "u:***@h"),
            ("mysql://u%3ahush%40h", "mysql://***%40h"),
            ("mysql://u:hu/s?h@h", "mysql://***"),
            ("flight://h:1?token=hush", "flight://h:1?***"),
            ("flight://h?token=a@hush", "flight://***"),
            ("flight://h#token=hush", "flight://h#***"),
            ("1u:hush@h", "***@h"),
            ("mysql://h,,i", "mysql://h,,i"),
            ("", ""),
        ] {
            assert_eq!(printable(url), shown);
        }
    }

    #[test]
    fn lists() {
        let hosts = parse("one,two:3307,[::1]:9,[::2]", 5).unwrap();
        assert_eq!(address(&hosts), "one:5,two:3307,[::1]:9,[::2]:5");
        assert_eq!(of_stream(&hosts, 5).name, "two");
        assert_eq!(twice(&hosts), None);
        assert_eq!(parse("a,,b", 5), Err(""));
        for wrong in [
            "", ":1", "a:0", "a:x", "a:1:2", "[::1", "[::1]x", "::1", "u@a", "u:p@a",
        ] {
            assert_eq!(parse(&format!("h,{wrong}"), 5), Err(wrong));
        }
        let hosts = parse("a:5,b,a", 5).unwrap();
        assert_eq!(twice(&hosts).map(Host::authority).as_deref(), Some("a:5"));
    }

    #[test]
    fn unix_sockets() {
        let parts = |rest| split(rest, true);
        assert_eq!(parts("/run/s"), Some(("/run/s", "")));
        assert_eq!(parts("/run/s:/db"), Some(("/run/s", "/db")));
        assert_eq!(parts("/run/s:"), Some(("/run/s", "")));
        assert_eq!(parts("/run/s?query=a:b"), Some(("/run/s", "?query=a:b")));
        assert_eq!(parts("/run/s:/t?x=1"), Some(("/run/s", "/t?x=1")));
        assert_eq!(parts("/run/s:db"), None);
        assert_eq!(split("h:1/db?x", false), Some(("h:1", "/db?x")));
        let hosts = places("/a%20b,/c%2Cd", 5, true).unwrap();
        assert_eq!(address(&hosts), "/a b,/c,d");
        assert_eq!(hosts[1].socket(), Some(Path::new("/c,d")));
        assert_eq!(hosts[0].listening(), None);
        for wrong in ["", "run/s", "/", "/a%0", "/a%00b", "/a%ff"] {
            assert_eq!(places(wrong, 5, true), Err(wrong));
        }
        assert_eq!(parse("h", 5).unwrap()[0].socket(), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_listens_is_known_before_anything_is_connected() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = |name: &str| {
            let name = name.to_owned();
            Host { name, port }.listening()
        };
        assert_eq!(found("127.0.0.1"), Some(std::process::id()));
        assert_eq!(found("localhost"), Some(std::process::id()));
        assert_eq!(found("203.0.113.1"), None); // TEST-NET-3, nobody's
        assert_eq!(found("host.invalid"), None);
        drop(listener);
        assert_eq!(found("127.0.0.1"), None);
    }
}
