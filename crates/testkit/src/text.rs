//! What a text or an error has to say.

/// Fails, and shows the whole text, unless these words are in it.
#[track_caller]
pub fn assert_contains(text: &str, words: &str) {
    assert!(text.contains(words), "{words:?} is not in: {text}");
}

/// Fails unless an error, of whatever type, is of this kind and has these words in its message.
#[macro_export]
macro_rules! assert_error {
    ($error:expr, $kind:expr, $words:expr $(,)?) => {{
        let error = &$error;
        assert_eq!(error.kind, $kind, "{}", error.message);
        $crate::assert_contains(&error.message, $words);
    }};
}

/// The value of a JSON text.
pub fn parse_json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
