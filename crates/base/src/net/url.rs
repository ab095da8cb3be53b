//! What a URL and its options hold that is not said outright.

use crate::error::{Error, Result};

/// What stands for itself, and for a byte as % and two hexadecimal digits; `None`: no such digits.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(first);
        }
    }
    Some(bytes)
}

/// Secrets travel as names of environment variables.
pub fn secret(variable: &str) -> Result<String> {
    std::env::var(variable).map_err(|_| {
        Error::usage(format!(
            "the environment variable {variable}, which should hold a secret, is not set"
        ))
    })
}
