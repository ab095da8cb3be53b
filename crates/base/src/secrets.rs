//! Secrets that a text names by `{env:NAME}`: filled in where the text is used, and masked in what is said.

use parking_lot::RwLock;

use crate::error::Result;
use crate::net::url::secret;

const OPENS: &str = "{env:";
/// What is shorter stands in any text.
const LEAST: usize = 3;

/// Values that were filled in, as they are and as `{:?}` has them.
static FILLED: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// A text with the values of the variables that it names.
pub fn fill(text: &str) -> Result<String> {
    let (mut filled, mut left) = (String::new(), text);
    while let Some(at) = left.find(OPENS) {
        let (before, rest) = left.split_at(at);
        filled += before;
        let named = rest[OPENS.len()..].split_once('}');
        match named.filter(|(name, _)| is_name(name)) {
            Some((name, after)) => {
                filled += &remembered(secret(name)?);
                left = after;
            }
            None => {
                filled += OPENS;
                left = &rest[OPENS.len()..];
            }
        }
    }
    Ok(filled + left)
}

fn is_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(letters)
}

fn remembered(value: String) -> String {
    let mut known = FILLED.write();
    if value.len() >= LEAST && !known.contains(&value) {
        let escaped = value.escape_debug().to_string();
        known.extend((escaped != value).then_some(escaped));
        known.push(value.clone());
        known.sort_by_key(|value| std::cmp::Reverse(value.len()));
    }
    value
}

/// A text without the values that were filled in.
pub fn masked(text: String) -> String {
    let known = FILLED.read();
    let hidden = |text: String, value: &String| match text.contains(value) {
        true => text.replace(value, "***"),
        false => text,
    };
    known.iter().fold(text, hidden)
}

/// The end of a text that was cut: what is left of a value at its front is masked as well.
pub fn masked_end(text: &str) -> String {
    let text = text.trim_start_matches(char::REPLACEMENT_CHARACTER);
    let known = FILLED.read();
    let parts = known
        .iter()
        .flat_map(|value| value.char_indices().map(move |(at, _)| &value[at..]));
    let left = parts.filter(|part| part.len() >= LEAST && text.starts_with(part));
    let longest = left.map(str::len).max();
    drop(known);
    masked(longest.map_or_else(|| text.to_owned(), |cut| format!("***{}", &text[cut..])))
}

/// The beginning of a text: it is masked before it is cut.
pub fn beginning(text: &str, most: usize) -> String {
    masked(text.to_owned()).chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_secret_is_filled_in_and_masked() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(fill("a {env:PATH}{b}").unwrap(), format!("a {path}{{b}}"));
        assert_eq!(
            fill("{env:} {env:a b} {env:").unwrap(),
            "{env:} {env:a b} {env:"
        );
        assert!(fill("{env:VENTURI_NOT_SET}")
            .unwrap_err()
            .message
            .contains("VENTURI_NOT_SET"));
        assert_eq!(Error::usage(format!("near {path}!")).message, "near ***!");
        assert_eq!(beginning(&format!("ab{path}"), 4), "ab**");
    }
}
