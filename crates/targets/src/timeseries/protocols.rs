//! `influx://`: line protocol over TCP, and `influx+http://`: the same as requests to write.

use super::options::{Options, Words};
use super::place::Place;
use super::post::Head;
use super::{Counts, Protocol, Transport};
use venturi_base::error::Result;

pub const TCP: Protocol = Protocol {
    scheme: "influx",
    port: 9009,
    databases: false,
    http_port: 8181,
    counting_port: 9000, // QuestDB's
    protocol: "influx",
    transport: Transport::Tcp,
    dialect: Words::Influx,
    flush: "#flush\n",
    flushed: "ok ",
    counts: Counts::Recognised,
};

pub const HTTP: Protocol = Protocol {
    scheme: "influx+http",
    port: 8086,
    databases: true,
    http_port: 0, // the URL's own
    counting_port: 0,
    protocol: "influx-http",
    transport: Transport::Http,
    ..TCP
};

/// What all requests to write to one server have: with a token the second version's path, where
/// `organisation/bucket` stands for a bucket of an organisation; else the first one's.
pub fn head(authority: &str, place: &Place, options: &Options) -> Result<Head> {
    let database = place.database.as_deref().unwrap_or_default();
    let path = match (&options.token_env, database.split_once('/')) {
        (_, Some((organisation, bucket))) => format!(
            "/api/v2/write?org={}&bucket={}&precision=ns",
            escaped(organisation),
            escaped(bucket)
        ),
        (Some(_), None) => format!("/api/v2/write?bucket={}&precision=ns", escaped(database)),
        (None, None) => format!("/write?db={}&precision=ns", escaped(database)),
    };
    Ok(Head {
        place: authority.to_owned(),
        path,
        authorization: options.authorization()?,
    })
}

pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let path = |url: &str, token: bool| {
            let options = Options {
                token_env: token.then(|| "PATH".to_owned()),
                ..Options::default()
            };
            let place = Place::parse(url, &HTTP).unwrap();
            head(&place.hosts[0].authority(), &place, &options).unwrap()
        };
        let plain = path("influx+http://h/d b", false);
        assert_eq!(plain.path, "/write?db=d%20b&precision=ns");
        assert_eq!(
            (plain.place.as_str(), plain.authorization),
            ("h:8086", None)
        );
        let token = path("influx+http://h:1/d", true);
        assert_eq!(token.path, "/api/v2/write?bucket=d&precision=ns");
        assert!(token.authorization.unwrap().starts_with("Token /"));
        let both = path("influx+http://h/o/b/", false).path;
        assert_eq!(both, "/api/v2/write?org=o&bucket=b&precision=ns");
        assert!(Place::parse("influx+http://h", &HTTP).is_err());
    }
}
