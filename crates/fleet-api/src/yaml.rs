//! Reads and writes YAML: two-space indent, sorted keys, no anchors.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::safe_text;

/// Why a text is not YAML that Kubernetes accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid YAML: {0}")]
pub struct YamlError(String);

/// A document as YAML text, ending with a line break. Control characters and hidden characters are escaped; if that
/// is not possible in block style, the document is written as JSON, which is YAML, too.
pub fn to_string(value: &impl Serialize) -> String {
    // A JSON tree has string keys and no cycles, so printing cannot fail.
    let text = serde_saphyr::to_string(value).unwrap_or_default();
    if !text.chars().any(|one| !matches!(one, '\n' | '\t') && safe_text::is_hidden(one)) {
        return text;
    }
    let document = serde_json::to_string_pretty(value).unwrap_or_default();
    let document = safe_text::json(&document);
    let lines: Vec<_> = document.lines().map(with_explicit_key).collect();
    format!("{}\n", lines.join("\n"))
}

/// Maximum length of an implicit key in YAML; a longer key needs a question mark before it.
const IMPLICIT_KEY_MAX: usize = 1024;

/// A line of indented JSON as a line of YAML.
fn with_explicit_key(line: &str) -> Cow<'_, str> {
    let content = line.trim_start();
    match key_length(content) {
        Some(length) if length > IMPLICIT_KEY_MAX => {
            let indent = line.strip_suffix(content).unwrap_or_default();
            Cow::Owned(format!("{indent}? {content}"))
        }
        _ => Cow::Borrowed(line),
    }
}

/// The length of the key at the start of a line of indented JSON, quotes included.
fn key_length(content: &str) -> Option<usize> {
    let mut is_escaped = false;
    let is_end = |&(_, one): &(usize, char)| {
        let is_end = one == '"' && !is_escaped;
        is_escaped = one == '\\' && !is_escaped;
        is_end
    };
    let (last, _) = content.strip_prefix('"')?.char_indices().find(is_end)?;
    let length = last + 2;
    content.get(length..)?.starts_with(':').then_some(length)
}

/// All documents of a text without empty ones.
pub fn documents(text: &str) -> Result<Vec<Value>, YamlError> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| YamlError(error.to_string()))?;
    Ok(all.into_iter().filter(|document| !document.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Characters that a terminal obeys or hides, among plain ones.
    const HIDDEN: &[char] = &['\u{1b}', '\u{7}', '\u{7f}', '\u{9b}', '\r', '\u{202e}', '\u{2066}', '\u{200b}'];

    fn text() -> impl Strategy<Value = String> {
        let character = prop_oneof![prop::sample::select(HIDDEN), prop::char::range(' ', '~')];
        prop::collection::vec(character, 0..12).prop_map(String::from_iter)
    }

    #[test]
    fn audit_07_long_keys_with_hidden_characters_are_read_again() {
        for length in [1000, 1016, 1017, 1018, 1024, 5000] {
            let key = format!("{}\u{202e}\\\"", "k".repeat(length));
            let value = json!({"a": [{&key: "v\": x", "plain": 1}, key, {}]});
            assert_eq!(documents(&to_string(&value)), Ok(vec![value]), "{length}");
        }
    }

    proptest! {
        #[test]
        fn audit_07_control_characters_are_escaped_and_read_back(text in text()) {
            let value = json!({"a": {"b": [text, {"c": "plain"}]}});
            let printed = to_string(&value);
            let hidden = |one: char| !matches!(one, '\n' | '\t') && safe_text::is_hidden(one);
            prop_assert!(!printed.chars().any(hidden), "{printed:?}");
            prop_assert_eq!(documents(&printed).unwrap(), vec![value]);
        }
    }
}
