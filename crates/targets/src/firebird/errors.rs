//! What Firebird says, in lines that say what to do next.

use std::fmt::Write as _;

use super::connect::Reader;
use venturi_base::error::{Error, Fate, Kind};

/// What went wrong, as a response has it: codes, each with its words and numbers.
#[derive(Debug, Default)]
pub struct Status {
    codes: Vec<(u32, Vec<String>)>,
    state: String,
}

/// What a server says by a number alone, and what to do; <https://firebirdsql.org/file/documentation/html/en/refdocs/fblangref30/firebird-30-language-reference.html>, appendix B.
const CODES: &[(u32, &str)] = &[
    (335544321, "arithmetic overflow or string truncation"),
    (335544336, "deadlock: --retries tries such batches again"),
    (335544344, "the file cannot be opened or made: an alias of databases.conf, or a path at the server, is what a URL names"),
    (335544345, "another transaction holds the row: --retries tries such batches again"),
    (335544347, "a value that the column may not have"),
    (335544349, "two rows of one key"),
    (335544351, "the metadata could not be changed"),
    (335544352, "the user has no right to it"),
    (335544359, "this column may not be written"),
    (335544361, "a read-only transaction"),
    (335544395, "not defined"),
    (335544436, "SQL error code"),
    (335544451, "another transaction has changed the row: --retries tries such batches again"),
    (335544472, "the user or the password is wrong (--user, --password-env)"),
    (335544528, "the database is shut down"),
    (335544569, "Dynamic SQL error"),
    (335544578, "column unknown"),
    (335544580, "table unknown"),
    (335544634, "token unknown, in line and column"),
    (335544665, "two rows of one key"),
    (335544721, "the connection is lost"),
    (335544778, "a division by zero"),
    (335544779, "string too long"),
    (335544838, "a foreign key"),
    (335544841, "the column cannot be null"),
    (335544914, "string right truncation: expected length, actual"),
    (335544916, "numeric value is out of range"),
    (335545017, "the wire's encryption: WireCrypt of its firebird.conf"),
];

const UNAVAILABLE: u32 = 335544344;
const LOGIN: u32 = 335544472;
const RIGHTS: u32 = 335544352;
const SHUT_DOWN: [u32; 3] = [335544528, 335544721, 335544856];

impl Status {
    /// Of a response its handle, its data, and what went wrong.
    pub fn response<'a>(from: &mut Reader<'a>) -> Option<(u32, &'a [u8], Self)> {
        let handle = from.number()?;
        from.long()?;
        let data = from.bytes()?;
        let mut status = Self::default();
        // Warnings come behind all else.
        let mut warns = false;
        loop {
            match from.number()? {
                0 => break,
                kind @ (1 | 18) => {
                    let code = from.number()?;
                    warns |= kind == 18;
                    if code != 0 && !warns {
                        status.codes.push((code, Vec::new()));
                    }
                }
                19 => status.state = text(from.bytes()?),
                2 | 3 | 5 => {
                    let words = text(from.bytes()?);
                    status.add(warns, words);
                }
                _ => {
                    let number = from.number()? as i32;
                    status.add(warns, number.to_string());
                }
            }
        }
        Some((handle, data, status))
    }

    /// The log-in was refused.
    pub fn denied() -> Error {
        let status = Self {
            codes: vec![(LOGIN, Vec::new())],
            state: String::new(),
        };
        let denied = status.error();
        denied.unwrap_or_else(|| Error::new(Kind::Auth, "the log-in was refused"))
    }

    fn add(&mut self, warns: bool, words: String) {
        if let Some((_, all)) = self.codes.last_mut().filter(|_| !warns) {
            all.push(words);
        }
    }

    pub fn error(&self) -> Option<Error> {
        let first = self.codes.first()?.0;
        let mut message = String::new();
        for (code, words) in &self.codes {
            let known = CODES.iter().find(|(known, _)| known == code);
            let words = words.join(" ");
            let between = if message.is_empty() { "" } else { "; " };
            let _ = match (known, words.is_empty()) {
                (Some((_, text)), true) => write!(message, "{between}{text}"),
                (Some((_, text)), false) => write!(message, "{between}{text}: {words}"),
                // Some codes only carry words.
                (None, false) => write!(message, "{between}{words}"),
                (None, true) => Ok(()),
            };
        }
        let kind = match first {
            LOGIN | RIGHTS => Kind::Auth,
            code if SHUT_DOWN.contains(&code) => Kind::Lost,
            _ => Kind::Server,
        };
        let state = match self.state.as_str() {
            "" => String::new(),
            state => format!(", SQLSTATE {state}"),
        };
        let message = message.replace('\n', " ");
        Some(Error::new(kind, format!("{message} (error {first}{state})")).with_code(first))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether there is no such database.
pub fn is_unavailable(error: &Error) -> bool {
    error.code.as_deref() == Some(&UNAVAILABLE.to_string())
}

/// Of a batch of so many rows: what the server refused is undone.
pub fn of_batch(error: Error, rows: u64) -> Error {
    match error.kind {
        Kind::Lost | Kind::Protocol => error,
        _ => error.with_fate(Fate::Refused { rows }),
    }
}
