//! Redis' protocol (RESP 2), as far as a client of pipelines speaks it: commands and replies.
//!
//! Source: "Redis serialization protocol specification". A reply's bytes are counted before a value is
//! made of them, so a length that a server claims reserves no memory.

use super::calendar::unsigned;
use crate::error::{Error, Result};

/// The most bytes of a reply. Nothing that Venturi asks for has a longer one.
pub const LONGEST: usize = 64 << 20;
/// The most bytes of a line, which says how long something is, or what went wrong.
pub const LONGEST_LINE: usize = 64 << 10;
/// The most values in one reply: a page of keys has a thousand.
const MOST_VALUES: usize = 1 << 20;
/// The most arrays inside one another. A page of keys is two deep.
const DEEPEST: usize = 32;

/// A command under construction.
pub struct Command {
    words: u64,
    body: Vec<u8>,
}

impl Command {
    pub fn new(name: &str) -> Self {
        let mut made = Self {
            words: 0,
            body: Vec::with_capacity(128),
        };
        made.arg(name);
        made
    }

    pub fn arg(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        self.bulk(word.as_ref());
        self
    }

    fn bulk(&mut self, word: &[u8]) {
        self.words += 1;
        self.body.push(b'$');
        unsigned(word.len() as u64, &mut self.body);
        self.body.extend_from_slice(b"\r\n");
        self.body.extend_from_slice(word);
        self.body.extend_from_slice(b"\r\n");
    }

    /// The number of its words, the name included.
    pub fn words(&self) -> u64 {
        self.words
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'*');
        unsigned(self.words, out);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }

    pub fn packed(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.body.len() + 16);
        self.write(&mut packed);
        packed
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    Integer(i64),
    Text(Vec<u8>),
    Array(Vec<Reply>),
    Refused(Refusal),
}

/// An error as the server writes it: a code, and words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub details: String,
}

impl Refusal {
    fn parse(line: &[u8]) -> Self {
        let text = String::from_utf8_lossy(line);
        let (code, details) = text.split_once(' ').unwrap_or((&text, ""));
        Self {
            code: code.to_owned(),
            details: details.to_owned(),
        }
    }
}

impl Reply {
    /// A reply from its bytes, as [`length`] counts them.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let reply = Self::take(&mut rest, 0)?;
        match rest {
            [] => Ok(reply),
            _ => Err(refuse_reply()),
        }
    }

    fn take(rest: &mut &[u8], depth: usize) -> Result<Self> {
        let (kind, line, used) = head(rest)?.ok_or_else(refuse_reply)?;
        *rest = &rest[used..];
        Ok(match kind {
            b'+' => Self::Text(line.to_vec()),
            b'-' => Self::Refused(Refusal::parse(line)),
            b':' => Self::Integer(number(line)?),
            b'$' => match usize::try_from(number(line)?) {
                Err(_) => Self::Nothing,
                Ok(length) => {
                    let (text, after) = rest.split_at_checked(length).ok_or_else(refuse_reply)?;
                    *rest = after.strip_prefix(b"\r\n").ok_or_else(refuse_reply)?;
                    Self::Text(text.to_vec())
                }
            },
            _ => match number(line)? {
                ..0 => Self::Nothing,
                _ if depth == DEEPEST => return Err(refuse_reply()),
                count => {
                    let values = (0..count).map(|_| Self::take(rest, depth + 1));
                    Self::Array(values.collect::<Result<_>>()?)
                }
            },
        })
    }
}

/// The bytes of the first reply; `None`: it is not whole yet.
pub fn length(bytes: &[u8]) -> Result<Option<usize>> {
    let (mut at, mut left, mut values) = (0, 1usize, 1usize);
    while left > 0 {
        let Some((kind, line, used)) = head(&bytes[at.min(bytes.len())..])? else {
            return Ok(None);
        };
        at += used;
        left -= 1;
        if kind == b'$' {
            if let Ok(length) = usize::try_from(number(line)?) {
                if length > LONGEST {
                    return Err(refuse_reply());
                }
                at += length + 2;
            }
        } else if kind == b'*' {
            let count = usize::try_from(number(line)?).unwrap_or(0);
            values = values.saturating_add(count);
            if values > MOST_VALUES {
                return Err(refuse_reply());
            }
            left += count;
        }
    }
    Ok((at <= bytes.len()).then_some(at))
}

/// The first byte, the rest of its line, and the bytes of both; `None`: the line is not whole yet.
fn head(bytes: &[u8]) -> Result<Option<(u8, &[u8], usize)>> {
    let Some((kind, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    if !b"+-:$*".contains(kind) {
        return Err(refuse_reply());
    }
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
        return match rest.len() > LONGEST_LINE {
            true => Err(refuse_reply()),
            false => Ok(None),
        };
    };
    let line = rest[..end].strip_suffix(b"\r").ok_or_else(refuse_reply)?;
    Ok(Some((*kind, line, end + 2)))
}

fn number(line: &[u8]) -> Result<i64> {
    let text = std::str::from_utf8(line).map_err(|_| refuse_reply())?;
    text.parse().map_err(|_| refuse_reply())
}

pub fn refuse_reply() -> Error {
    Error::protocol("what it says is no reply of Redis' protocol: is it a Redis server?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Reply {
        Reply::Text(text.into())
    }

    #[test]
    fn replies_are_whole_or_not_yet() {
        let refusal = Refusal {
            code: "WRONGTYPE".into(),
            details: "Operation against a key".into(),
        };
        let array = Reply::Array(vec![
            text("0"),
            Reply::Array(vec![text("a"), Reply::Integer(7)]),
        ]);
        for (bytes, reply) in [
            ("+OK\r\n", text("OK")),
            (
                "-WRONGTYPE Operation against a key\r\n",
                Reply::Refused(refusal),
            ),
            (":-12\r\n", Reply::Integer(-12)),
            ("$3\r\na\r\n\r\n", text("a\r\n")),
            ("$0\r\n\r\n", text("")),
            ("$-1\r\n", Reply::Nothing),
            ("*-1\r\n", Reply::Nothing),
            ("*0\r\n", Reply::Array(vec![])),
            ("*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n:7\r\n", array),
        ] {
            for cut in 0..bytes.len() {
                let part = &bytes.as_bytes()[..cut];
                assert_eq!(length(part).unwrap(), None, "{bytes:?} up to {cut}");
                assert!(Reply::parse(part).is_err(), "{bytes:?} up to {cut}");
            }
            let more = format!("{bytes}+more");
            assert_eq!(length(more.as_bytes()).unwrap(), Some(bytes.len()));
            assert_eq!(Reply::parse(bytes.as_bytes()).unwrap(), reply);
        }
    }

    #[test]
    fn a_refusal_may_be_a_code_alone_or_no_text() {
        for (line, code, details) in [
            (&b"-OOM\r\n"[..], "OOM", ""),
            (b"-\r\n", "", ""),
            (b"-ERR \xff\r\n", "ERR", "\u{fffd}"),
        ] {
            let expected = Refusal {
                code: code.into(),
                details: details.into(),
            };
            assert_eq!(Reply::parse(line).unwrap(), Reply::Refused(expected));
        }
    }

    #[test]
    fn what_is_no_reply_is_refused_at_once() {
        let many_values = format!("*{}\r\n", MOST_VALUES);
        let many_small = "*1000\r\n".repeat(2000);
        let endless = [b'+'; LONGEST_LINE + 2];
        for bytes in [
            &b"HTTP/1.1 400"[..],
            b"\xff",
            b"\0",
            b"$many\r\n",
            b"$\r\n",
            b"$1.5\r\n",
            b"+line\n",
            b"*99999999999\r\n",
            b"*9223372036854775807\r\n",
            b"$99999999999\r\n",
            b"$9223372036854775807\r\n",
            b"$9223372036854775808\r\n",
            many_values.as_bytes(),
            many_small.as_bytes(),
            &endless,
        ] {
            assert!(length(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn whole_replies_may_still_be_wrong() {
        let deep = |arrays: usize| format!("{}:1\r\n", "*1\r\n".repeat(arrays));
        assert!(Reply::parse(deep(DEEPEST).as_bytes()).is_ok());
        for bytes in [":many\r\n", "$1\r\nabc", &deep(DEEPEST + 1), &deep(100_000)] {
            assert_eq!(length(bytes.as_bytes()).unwrap(), Some(bytes.len()));
            assert!(Reply::parse(bytes.as_bytes()).is_err());
        }
    }

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut command = Command::new("HSET");
        command.arg("a\r\nb").arg(b"").arg(12.to_string());
        assert_eq!(command.words(), 4);
        let expected = b"*4\r\n$4\r\nHSET\r\n$4\r\na\r\nb\r\n$0\r\n\r\n$2\r\n12\r\n";
        assert_eq!(command.packed(), expected);
        let mut out = b"+".to_vec();
        command.write(&mut out);
        assert_eq!(out[1..], expected[..]);
    }
}
