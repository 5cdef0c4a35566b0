//! Makes untrusted text safe to print: on a terminal, in JSON, as a word of a shell command.
//!
//! Names, messages and manifests come from users and members. Never changes the meaning for a machine that parses the
//! result.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters that control a terminal or are invisible, as ranges. Control characters are not listed: `char` knows
/// them.
const UNDRAWN: &[(char, char)] = &[
    // Soft hyphen, Arabic letter mark, Hangul and Khmer fillers, Mongolian selectors.
    ('\u{ad}', '\u{ad}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    // Zero-width characters, direction marks, line and paragraph separators, direction overrides and isolates.
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    // Noncharacters, variation selectors, byte order mark, interlinear annotations.
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1d173}', '\u{1d17a}'),
    // Tags and more variation selectors.
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character controls a terminal or is invisible.
pub fn is_hidden(character: char) -> bool {
    character.is_control() || UNDRAWN.iter().any(|(first, last)| (*first..=*last).contains(&character))
}

/// The text in one line, with every hidden character escaped, such as `\n` or `\u{1b}`.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, is_hidden, |out, character| out.extend(character.escape_default()))
}

/// The same for a text of several lines: line breaks stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |one| one != '\n' && is_hidden(one), |out, character| out.extend(character.escape_default()))
}

/// A JSON document with hidden characters in strings written as JSON escapes. Its meaning is unchanged.
pub fn json(document: &str) -> Cow<'_, str> {
    let escape = |out: &mut String, character: char| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    };
    replaced(document, |one| one != '\n' && is_hidden(one), escape)
}

/// The text as one word for sh, bash and zsh, quoted if needed. `None` if it has hidden characters: a terminal would
/// act on them when the command is pasted.
pub fn shell_word(text: &str) -> Option<String> {
    if text.chars().any(is_hidden) {
        return None;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    // zsh replaces a word that starts with an equals sign by the path of a program.
    if !text.is_empty() && !text.starts_with('=') && text.bytes().all(plain) {
        return Some(text.to_owned());
    }
    Some(format!("'{}'", text.replace('\'', r"'\''")))
}

fn replaced(text: &str, hidden: impl Fn(char) -> bool, spell: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.chars().any(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if hidden(character) { spell(&mut out, character) } else { out.push(character) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(line("web: ready → ✓"), "web: ready → ✓");
        assert_eq!(line("a\n\tb\u{1b}[2Jc\u{9b}d\u{7f}"), r"a\n\tb\u{1b}[2Jc\u{9b}d\u{7f}");
        assert_eq!(line("\u{202e}evil\u{2066}\u{e0041}\u{200b}"), r"\u{202e}evil\u{2066}\u{e0041}\u{200b}");
        assert_eq!(lines("a\n\tb\r"), "a\n\\tb\\r");
    }

    #[test]
    fn words_are_quoted_unless_they_are_safe_for_a_shell() {
        let quoted = |text: &str| shell_word(text).unwrap();
        assert_eq!(quoted("web-1.example.com/a=b"), "web-1.example.com/a=b");
        assert_eq!(quoted("web; touch x #"), "'web; touch x #'");
        assert_eq!(quoted("it's $(id)"), r"'it'\''s $(id)'");
        assert_eq!(quoted("=ls"), "'=ls'");
        assert_eq!(quoted(""), "''");
        assert_eq!(shell_word("a\nb"), None);
        assert_eq!(shell_word("\u{1b}[201~"), None);
    }

    proptest! {
        #[test]
        fn json_is_escaped_without_changing_its_value(text in any::<String>()) {
            let document = serde_json::to_string(&text).unwrap();
            let safe = json(&document);
            prop_assert!(!safe.chars().any(is_hidden), "{safe}");
            prop_assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
        }
    }
}
