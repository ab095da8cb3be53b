//! Requests to a ClickHouse server, and what it says when it refuses one.

use std::time::Duration;

use super::options::{Access, Options};
use crate::database::shortened;
use venturi_base::error::{Error, Kind, Result};
use venturi_base::http1::{Client, Head};
use venturi_base::limit;
use venturi_base::secrets::masked;

/// Bytes of an answer to a question about tables.
const MOST_ANSWER: usize = 16 << 20;
/// Of a refusal.
const MOST_REFUSAL: usize = 1 << 20;
/// Characters of it that are shown.
const SHOWN: usize = 400;

/// Who it is, as `SELECT version()` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim().split('.').map(|part| part.parse().ok());
        Some(Self(numbers.next()??, numbers.next()??))
    }

    /// Without Bool, Date32, DateTime64.
    pub fn is_old(self) -> bool {
        self < Version(21, 12)
    }

    pub fn has_arrow(self) -> bool {
        self >= Version(20, 5)
    }

    /// Compresses answers with zstd when asked to by HTTP.
    pub fn has_zstd(self) -> bool {
        self >= Version(20, 11)
    }

    /// RowBinary can name its columns.
    pub fn has_row_header(self) -> bool {
        self >= Version(19, 2)
    }
}

/// How requests are made.
#[derive(Debug)]
pub struct Server {
    pub access: Access,
    settings: Vec<(String, String)>,
    timeout: Duration,
}

impl Server {
    pub fn new(access: Access, options: &Options, timeout: Duration) -> Self {
        Self {
            settings: options.parameters().collect(),
            access,
            timeout,
        }
    }

    pub fn authority(&self) -> &str {
        &self.access.web.authority
    }

    pub async fn connect(&self) -> Result<Client> {
        let connecting = Client::connect(&self.access.web);
        match limit::within(self.timeout, connecting).await {
            Ok(connected) => connected,
            Err(over) => Err(Error::new(
                Kind::Unreachable,
                format!(
                    "{}: no connection within {over}: {}",
                    self.authority(),
                    match self.access.web.tls {
                        Some(_) => "does the server speak TLS on this port? Without TLS the URL begins with clickhouse://",
                        None => "is a firewall in the way, or the address wrong?",
                    }
                ),
            )),
        }
    }

    /// The path of a request with these parameters besides the settings.
    pub fn path(&self, parameters: &[(&str, &str)]) -> String {
        let mut path = format!("/?database={}", escape(&self.access.database));
        let mine = parameters.iter().map(|(name, value)| (*name, *value));
        let given = self
            .settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in mine.chain(given) {
            path.push_str(&format!("&{name}={}", escape(value)));
        }
        path
    }

    /// The path of an INSERT. Batches repeat, and a table that keeps copies, or drops what it has seen, would
    /// drop them unread.
    pub fn insert_path(&self, insert: &str) -> String {
        const DEDUPLICATE: &str = "insert_deduplicate";
        let given = self.settings.iter().any(|(name, _)| name == DEDUPLICATE);
        let own = [("query", insert), (DEDUPLICATE, "0")];
        self.path(if given { &own[..1] } else { &own })
    }

    /// Who asks, for every request.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![("Content-Type", "application/octet-stream")];
        if let Some(user) = &self.access.user {
            headers.push(("X-ClickHouse-User", user));
        }
        if let Some(password) = &self.access.password {
            headers.push(("X-ClickHouse-Key", password));
        }
        headers
    }

    /// The answer to the first question, as text.
    pub async fn ask_first(&self, client: &mut Client, statement: &str) -> Result<String> {
        let asked = limit::within(self.timeout, self.post(client, statement)).await;
        asked.unwrap_or_else(|over| {
            Err(Error::new(
                Kind::Timeout,
                format!(
                    "{}: no answer within {over} to {}; is it ClickHouse's HTTP port, and does it want TLS (clickhouse+tls://)?",
                    self.authority(),
                    shortened(statement)
                ),
            ))
        })
    }

    /// What a statement answers, as text.
    pub async fn ask(&self, client: &mut Client, statement: &str) -> Result<String> {
        let what = format!("{}: {}", self.authority(), shortened(statement));
        limit::patient(what, self.post(client, statement)).await
    }

    async fn post(&self, client: &mut Client, statement: &str) -> Result<String> {
        let (path, headers) = (self.path(&[]), self.headers());
        let call = client.call("POST", &path, &headers, statement.as_bytes(), MOST_ANSWER);
        let (head, body) = call.await?;
        if head.status != 200 {
            return Err(self.refused(&head, &body));
        }
        String::from_utf8(body).map_err(|_| {
            Error::protocol(format!("{}: an answer that is no text", self.authority()))
        })
    }

    /// The rest of a refusal, as an error.
    pub async fn refusal(&self, client: &mut Client, head: &Head) -> Error {
        match client.read_rest(MOST_REFUSAL).await {
            Ok(body) => self.refused(head, &body),
            Err(error) => error,
        }
    }

    fn refused(&self, head: &Head, body: &[u8]) -> Error {
        let text = String::from_utf8_lossy(body);
        let code = head.get("x-clickhouse-exception-code").map(str::to_owned);
        match parse_exception(&text) {
            Some(error) => error.context(self.authority()),
            None => {
                let kind = match head.status {
                    401 | 403 => Kind::Auth,
                    _ => Kind::Server,
                };
                let said = one_line(&text);
                let line = format!("{}: HTTP {}: {said}", self.authority(), head.status);
                let error = Error::new(kind, line);
                match code {
                    Some(code) => error.with_code(code),
                    None => error.with_code(head.status),
                }
            }
        }
    }
}

/// The exception in a text, if it is one: `Code: 60. DB::Exception: ...`. The last one counts.
pub fn parse_exception(text: &str) -> Option<Error> {
    let start = text.rfind("Code: ")?;
    let exception = &text[start..];
    let digits = exception["Code: ".len()..]
        .split(|c: char| !c.is_ascii_digit())
        .next()?;
    let code: u32 = digits.parse().ok()?;
    exception.find("DB::")?;
    let kind = match code {
        // Wrong password, unknown user, address not allowed, authentication failed, access denied.
        192..=195 | 516 | 497 => Kind::Auth,
        159 | 160 => Kind::Timeout,
        _ => Kind::Server,
    };
    // What frames an exception inside a body.
    let end = exception.find("__exception__").unwrap_or(exception.len());
    let advice = match code {
        60 => "; is it in another database?",
        241 => "; use a larger max_memory_usage (settings), or less at once",
        252 => "; use more rows per batch, or fewer streams",
        516 | 192..=194 => "; give the user in the URL, and password_env",
        _ => "",
    };
    let line = one_line(&exception[..end]);
    Some(Error::new(kind, format!("{line}{advice}")).with_code(code))
}

/// The same, of the last bytes of a body.
pub fn exception_at_end(tail: &[u8]) -> Option<Error> {
    // Longer ones are shortened when they are shown.
    let text = String::from_utf8_lossy(tail);
    let trimmed = text.trim_end();
    let framed = trimmed.ends_with("__exception__");
    // A text in a table may look like one, but does not end the answer so.
    let ends = framed || trimmed.ends_with([')', '.']) || trimmed.ends_with("DB::Exception");
    parse_exception(trimmed).filter(|_| ends && text.ends_with('\n') || framed)
}

fn one_line(text: &str) -> String {
    let text = masked(text.to_owned());
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words
        .join(" ")
        .replace("e.displayText() = ", "")
        .replace(", e.what() = DB::Exception", "");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// A name in a statement. Options have no quotes in names; a column's may.
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let old = Version::parse("18.16.1\n").unwrap();
        assert_eq!(old, Version(18, 16));
        assert!(old.is_old() && !old.has_arrow() && !old.has_row_header());
        assert!(Version::parse("26.9.1.1").unwrap().has_zstd());
        assert_eq!(Version::parse("Hello"), None);
    }

    #[test]
    fn exceptions_are_one_line() {
        let old = "Code: 60, e.displayText() = DB::Exception: Table default.x doesn't exist., e.what() = DB::Exception\n";
        let error = parse_exception(old).unwrap();
        assert_eq!(error.code.as_deref(), Some("60"));
        assert_eq!(
            error.message,
            "Code: 60, DB::Exception: Table default.x doesn't exist.; is it in another database?"
        );
        let new = "Code: 516. DB::Exception: default: Authentication failed:\n password is\twrong. (AUTHENTICATION_FAILED) (version 26.9.1)\n";
        assert_eq!(parse_exception(new).unwrap().kind, Kind::Auth);
        assert_eq!(parse_exception("Code: red"), None);
        assert!(
            parse_exception(&format!("Code: 1. DB::Exception: {}", "x".repeat(9999)))
                .unwrap()
                .message
                .len()
                < 450
        );
    }

    #[test]
    fn exceptions_behind_rows_are_found() {
        let rows = b"\x01\x02\xff binary \x03";
        for text in [
            "Code: 241. DB::Exception: Memory limit exceeded (version 23.8.1)\n",
            "Code: 241, e.displayText() = DB::Exception: Memory limit, e.what() = DB::Exception\n",
            "__exception__\r\nabc\r\nCode: 241. DB::Exception: Memory limit (version 25.11)\r\n93 abc\r\n__exception__\r\n",
        ] {
            let tail = [&rows[..], text.as_bytes()].concat();
            let error = exception_at_end(&tail).unwrap();
            assert_eq!(error.code.as_deref(), Some("241"));
            assert!(!error.message.contains("__exception__"), "{error}");
        }
        assert_eq!(
            exception_at_end(b"rows that say Code: 7. DB::Exception: once, and go on"),
            None
        );
        assert_eq!(exception_at_end(rows), None);
    }

    #[test]
    fn an_insert_is_not_deduplicated_unless_that_is_asked_for() {
        let path = |options: &str| {
            let options = Options::parse(&serde_json::from_str(options).unwrap()).unwrap();
            let access = Access::new("clickhouse://h", &options).unwrap();
            Server::new(access, &options, Duration::ZERO).insert_path("I")
        };
        let own = "/?database=default&query=I&insert_deduplicate=";
        assert_eq!(path("{}"), format!("{own}0"));
        let asked = path(r#"{"settings": {"insert_deduplicate": 1}}"#);
        assert_eq!(asked, format!("{own}1"));
    }

    #[test]
    fn escapes() {
        assert_eq!(escape("a b&c=d/ä"), "a%20b%26c%3Dd%2F%C3%A4");
        assert_eq!(quoted("a`b\\"), "`a\\`b\\\\`");
    }
}
