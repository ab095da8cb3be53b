//! Which lists of headers are well formed (RFC 9113, 8.2 and 8.3).

use crate::codec::hpack::Header;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Request,
    Response,
    Trailers,
}

/// What is wrong with a list.
type Malformed = &'static str;

/// Those of HTTP/1's connections, which HTTP/2 has no place for (8.2.2).
const OF_CONNECTIONS: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// Checks a section's headers; what `content-length` says of the body, if it is there.
pub(super) fn check(headers: &[Header], section: Section) -> Result<Option<u64>, Malformed> {
    // The pseudo-headers that a section may have; the first ones it must have.
    let (known, needed): (&[&str], usize) = match section {
        Section::Request => (&[":method", ":scheme", ":path", ":authority"], 3),
        Section::Response => (&[":status"], 1),
        Section::Trailers => (&[], 0),
    };
    let mut seen = [false; 4];
    let mut regular = false;
    let mut length = None;
    for Header { name, value } in headers {
        if value.contains(['\0', '\r', '\n']) {
            return Err("a header's value with a line end or a NUL");
        }
        if name.starts_with(':') {
            let Some(at) = known.iter().position(|known| known == name) else {
                return Err("a pseudo-header that does not belong there");
            };
            if regular {
                return Err("a pseudo-header behind another header");
            }
            if std::mem::replace(&mut seen[at], true) {
                return Err("a pseudo-header that comes twice");
            }
            if value.is_empty() && name == ":path" {
                return Err("an empty :path");
            }
            continue;
        }
        regular = true;
        let allowed = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        if name.is_empty() || !name.bytes().all(|byte| allowed(byte) && byte != b':') {
            return Err("a header's name that is not in lower case");
        }
        if OF_CONNECTIONS.contains(&name.as_str()) || (name == "te" && value != "trailers") {
            return Err("a header of HTTP/1's connections");
        }
        if name == "content-length" && section != Section::Trailers {
            let digits = value.bytes().all(|byte| byte.is_ascii_digit());
            let said = value.parse().ok().filter(|_| digits);
            if said.is_none() || length.is_some_and(|before| Some(before) != said) {
                return Err("a content-length that is not one number");
            }
            length = said;
        }
    }
    match seen[..needed].iter().all(|seen| *seen) {
        true => Ok(length),
        false => Err("without the pseudo-headers that it must have"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(&str, &str)]) -> Vec<Header> {
        let header = |(name, value): &(&str, &str)| Header {
            name: (*name).into(),
            value: (*value).into(),
        };
        pairs.iter().map(header).collect()
    }

    const CALL: [(&str, &str); 5] = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/a/b"),
        ("te", "trailers"),
        ("x-any", "\u{fffd} :anything, \t"),
    ];

    #[test]
    fn what_grpc_sends_is_well_formed() {
        assert_eq!(check(&list(&CALL), Section::Request), Ok(None));
        let sized = [
            &CALL[..],
            &[("content-length", "12"), ("content-length", "12")],
        ]
        .concat();
        assert_eq!(check(&list(&sized), Section::Request), Ok(Some(12)));
        let response = [(":status", "200"), ("content-type", "application/grpc")];
        assert_eq!(check(&list(&response), Section::Response), Ok(None));
        assert_eq!(
            check(&list(&[("grpc-status", "0")]), Section::Trailers),
            Ok(None)
        );
    }

    #[test]
    fn one_thing_wrong() {
        for (section, what, wrong) in [
            (Section::Request, "lower case", ("X-Any", "1")),
            (Section::Request, "lower case", ("x any", "1")),
            (Section::Request, "lower case", ("x:any", "1")),
            (Section::Request, "lower case", ("", "1")),
            (Section::Request, "NUL", ("x", "a\nb")),
            (Section::Request, "belong", (":status", "200")),
            (Section::Request, "belong", (":test", "1")),
            (Section::Request, "behind", (":authority", "a")),
            (Section::Request, "connections", ("connection", "close")),
            (Section::Request, "connections", ("te", "trailers, gzip")),
            (Section::Request, "one number", ("content-length", "+1")),
            (Section::Request, "one number", ("content-length", "")),
        ] {
            let found = check(&list(&[&CALL[..], &[wrong]].concat()), section);
            assert!(found.unwrap_err().contains(what), "{wrong:?}: {found:?}");
        }
        for missing in 0..3 {
            let mut call = CALL.to_vec();
            call.remove(missing);
            assert!(check(&list(&call), Section::Request)
                .unwrap_err()
                .contains("must have"));
            let twice = [&CALL[missing..=missing], &CALL[..]].concat();
            assert!(check(&list(&twice), Section::Request)
                .unwrap_err()
                .contains("twice"));
        }
        let lengths = [
            &CALL[..],
            &[("content-length", "1"), ("content-length", "2")],
        ]
        .concat();
        assert!(check(&list(&lengths), Section::Request).is_err());
        let pathless = [(":method", "POST"), (":scheme", "http"), (":path", "")];
        assert!(check(&list(&pathless), Section::Request)
            .unwrap_err()
            .contains(":path"));
        assert!(check(&[], Section::Response).is_err());
        assert!(check(&list(&[(":status", "200")]), Section::Trailers).is_err());
    }
}
