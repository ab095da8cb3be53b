//! What a text has to say.

/// Fails, and shows the whole text, unless these words are in it.
#[track_caller]
pub fn assert_contains(text: &str, words: &str) {
    assert!(text.contains(words), "{words:?} is not in: {text}");
}
