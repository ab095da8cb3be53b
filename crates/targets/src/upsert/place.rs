//! Where a database is: of a server the URL, who logs in, and TLS; or a file's path.

use std::path::{Path, PathBuf};

use rustls::ClientConfig;
use serde::Deserialize;

use crate::hosts::{self, Host};
use venturi_base::error::{Error, Result};
use venturi_base::net::tls::{in_the_clear, ClientTls};
use venturi_base::net::url::{secret, unescape};

/// What the URLs of one system look like.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    pub scheme: &'static str,
    pub port: u16,
    /// What comes behind the hosts: "database", "keyspace".
    pub space: &'static str,
    /// Which one where the URL names none.
    pub usual: &'static str,
    /// Why there can only be one host, where there can.
    pub one_host: Option<&'static str>,
}

/// What a URL says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    scheme: &'static str,
    pub tls: bool,
    pub user: Option<String>,
    /// At least one.
    pub hosts: Vec<Host>,
    /// The database, or keyspace.
    pub space: String,
}

impl Place {
    pub fn parse(url: &str, form: &Form) -> Result<Self> {
        let wrong = |what: &str| {
            let Form {
                scheme,
                port,
                space,
                ..
            } = form;
            let more = match form.one_host {
                None => "[,host2...]",
                Some(_) => "",
            };
            let or = match url.contains("+unix://") {
                true => format!(", or {}", hosts::unix_form(scheme)),
                false => String::new(),
            };
            Error::usage(format!(
                "target {:?}: {what}; write {scheme}://[user@]host[:{port}]{more}/[{space}]{or}",
                hosts::printable(url)
            ))
        };
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let (scheme, tls) = match scheme.strip_suffix("+tls") {
            Some(scheme) => (scheme, true),
            None => (scheme, false),
        };
        let (scheme, unix) = match scheme.strip_suffix("+unix") {
            Some(scheme) => (scheme, true),
            None => (scheme, false),
        };
        if scheme != form.scheme {
            return Err(wrong(&format!("not a URL of {}", form.scheme)));
        }
        let (place, space) =
            hosts::split(rest, unix).ok_or_else(|| wrong("no / follows the colon"))?;
        let space = space.strip_prefix('/').unwrap_or(space);
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, place),
        };
        if space.contains('@') {
            return Err(wrong(&format!("an @ in the {} is written %40", form.space)));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong("settings are options, not part of the URL"));
        }
        let text = |escaped: &str, what: &str| {
            unescape(escaped)
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| wrong(&format!("the {what} is not text")))
        };
        let user = match user {
            Some("") => return Err(wrong("there is no user before the @")),
            user => user.map(|user| text(user, "user")).transpose()?,
        };
        if user.as_deref().is_some_and(|user| user.contains(':')) {
            // The URL itself holds it, so it is not repeated.
            return Err(Error::usage(
                "target: a password does not belong in a URL, where everybody sees it: put it into an \
                 environment variable and name that as password_env",
            ));
        }
        let what = if unix {
            "no path from the root on"
        } else {
            "no host"
        };
        let no_place = |text| wrong(&format!("{:?} is {what}", hosts::printable(text)));
        let hosts = hosts::places(hosts, form.port, unix).map_err(no_place)?;
        if let Some(why) = form.one_host.filter(|_| hosts.len() > 1) {
            return Err(wrong(&format!("one host, not several: {why}")));
        }
        let space = match space.trim_end_matches('/') {
            "" => form.usual.to_owned(),
            name => text(name, form.space)?,
        };
        Ok(Self {
            scheme: form.scheme,
            tls,
            user,
            hosts,
            space,
        })
    }

    /// Streams are spread over the hosts; the first one is asked everything else.
    pub fn host_of(&self, stream: usize) -> &Host {
        hosts::of_stream(&self.hosts, stream)
    }

    /// All hosts, for the record and for error lines.
    pub fn address(&self) -> String {
        hosts::address(&self.hosts)
    }
}

/// The path of `scheme:///path/file`.
pub fn file_of(url: &str, scheme: &str) -> Result<PathBuf> {
    let path = Path::new(url.split_once("://").map_or(url, |(_, path)| path));
    match path.is_absolute() && path.file_name().is_some() {
        true => Ok(path.to_owned()),
        false => Err(Error::usage(format!(
            "target {:?}: not the path of a file; write {scheme}:///path/to/file.db with three \
             slashes, from the root on",
            hosts::printable(url)
        ))),
    }
}

/// The options of every database that is a server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Login {
    user: Option<String>,
    pub password_env: Option<String>,
    pub tls_ca: Option<String>,
    tls_certificate: Option<String>,
    tls_key: Option<String>,
    pub tls_insecure: bool,
    pub tls_server_name: Option<String>,
}

impl Login {
    /// Who logs in: the user of the options goes before the URL's.
    pub fn user(&self, place: &Place) -> Option<String> {
        self.user.clone().or_else(|| place.user.clone())
    }

    /// The same, or else who runs this, as for the servers' own clients.
    pub fn user_or_own(&self, place: &Place) -> Option<String> {
        let own = || std::env::var("USER").ok().filter(|name| !name.is_empty());
        self.user(place).or_else(own)
    }

    pub fn password(&self) -> Result<Option<String>> {
        self.password_env.as_deref().map(secret).transpose()
    }

    /// `None`: without TLS, which no option asks for then. No protocol is negotiated in it.
    pub fn tls(&self, place: &Place) -> Result<Option<ClientConfig>> {
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            return Err(Error::usage(
                "a client certificate needs both tls_certificate and tls_key",
            ));
        }
        if !place.tls {
            let given = [&self.tls_ca, &self.tls_certificate, &self.tls_server_name];
            return match self.tls_insecure || given.iter().any(|option| option.is_some()) {
                true => Err(in_the_clear(place.scheme)),
                false => Ok(None),
            };
        }
        let tls = ClientTls {
            authority: self.tls_ca.as_deref(),
            certificate: self.tls_certificate.as_deref(),
            key: self.tls_key.as_deref(),
            insecure: self.tls_insecure,
        };
        tls.config().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: Form = Form {
        scheme: "mysql",
        port: 3306,
        space: "database",
        usual: "venturi",
        one_host: None,
    };
    const ONE: Form = Form {
        scheme: "postgres",
        port: 5432,
        space: "database",
        usual: "venturi",
        one_host: Some("it is so"),
    };

    #[test]
    fn urls() {
        let place = Place::parse("mysql://me@one,two:3307,[::1]:9,[::2]/sales", &MANY).unwrap();
        assert_eq!(place.user.as_deref(), Some("me"));
        assert_eq!(place.address(), "one:3306,two:3307,[::1]:9,[::2]:3306");
        assert_eq!((place.space.as_str(), place.tls), ("sales", false));
        assert_eq!(place.host_of(5).name, "two");
        let place = Place::parse("mysql+tls://a%40b@h/d%20e/", &MANY).unwrap();
        assert_eq!((place.space.as_str(), place.tls), ("d e", true));
        assert_eq!(place.user.as_deref(), Some("a@b"));
        let place = Place::parse("postgres://[::1]:7", &ONE).unwrap();
        assert_eq!((place.space.as_str(), place.user), ("venturi", None));
        let place = Place::parse("mysql+unix://me@/run/my%20sql.sock:/sales", &MANY).unwrap();
        assert_eq!(
            (place.address().as_str(), place.tls),
            ("/run/my sql.sock", false)
        );
        assert_eq!(
            (place.space.as_str(), place.user.as_deref()),
            ("sales", Some("me"))
        );
        let place = Place::parse("postgres+unix:///run/postgresql", &ONE).unwrap();
        assert_eq!(
            (place.space.as_str(), place.host_of(0).port),
            ("venturi", 0)
        );
        for wrong in [
            "mysql+unix://h/d",
            "mysql+unix:///s:d",
            "mysql+unix:///s:/d?x=1",
        ] {
            let error = Place::parse(wrong, &MANY).unwrap_err().message;
            assert!(
                error.contains("mysql+unix:///path/of/socket, and :/NAME"),
                "{error}"
            );
        }
        for wrong in [
            "mysql://",
            "mysql",
            "mysql://@h",
            "mysql://h:0",
            "mysql://h:x/d",
            "mysql://h,,i",
            "mysql://[::1",
            "mysql://[::1]x",
            "mysql://h/d?ssl=off",
            "mysql://u/hush@h",
            "maria://h",
        ] {
            let error = Place::parse(wrong, &MANY).unwrap_err().message;
            assert!(
                error.contains("mysql://[user@]host[:3306][,host2...]/[database]"),
                "{error}"
            );
        }
        let one = Place::parse("postgres://a,b", &ONE).unwrap_err().message;
        assert!(one.contains("not several: it is so; write"), "{one}");
        for url in ["mysql://me:hush@h", "mysql://me%3Ahush@h"] {
            let secret = Place::parse(url, &MANY).unwrap_err().message;
            assert!(secret.contains("password_env") && !secret.contains("hush"));
        }
    }

    #[test]
    fn files() {
        let path = file_of("sqlite:///var/a b.db", "sqlite").unwrap();
        assert_eq!(path, Path::new("/var/a b.db"));
        for wrong in ["sqlite://a.db", "sqlite:///", "sqlite://"] {
            let error = file_of(wrong, "sqlite").unwrap_err().message;
            assert!(error.contains("sqlite:///path/to/file.db"), "{error}");
        }
    }

    #[test]
    fn tls_is_asked_for_by_the_url() {
        let login = |json: &str| serde_json::from_str::<Login>(json).unwrap();
        let plain = Place::parse("postgres://h", &ONE).unwrap();
        let private = Place::parse("postgres+tls://h", &ONE).unwrap();
        assert!(login("{}").tls(&plain).unwrap().is_none());
        assert!(login("{}").tls(&private).unwrap().is_some());
        for option in [r#"{"tls_ca": "ca.pem"}"#, r#"{"tls_insecure": true}"#] {
            let error = login(option).tls(&plain).unwrap_err().message;
            assert!(error.contains("write postgres+tls://"), "{error}");
        }
        let half = login(r#"{"tls_key": "k"}"#).tls(&private).unwrap_err();
        assert!(half.message.contains("both"));
        let names = serde_json::json!({"user": "u", "password_env": "VENTURI_NOT_SET"});
        let login: Login = serde_json::from_value(names).unwrap();
        assert_eq!(login.user(&plain).as_deref(), Some("u"));
        assert!(login
            .password()
            .unwrap_err()
            .message
            .contains("VENTURI_NOT_SET"));
    }
}
