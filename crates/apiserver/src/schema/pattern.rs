//! Regular expressions in Go's RE2 dialect, compiled once per schema node.
//!
//! Translates a Go expression for the `regex` crate, so that both match the same texts. Both engines work in linear time;
//! the size limit bounds memory at compile time.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// Bytes a compiled expression may take: a host name with letters of all languages takes some 5 MiB.
const COMPILED_SIZE_LIMIT: usize = 10 << 20;
/// Bytes of lazily built automaton per expression before the engine falls back to a slower, smaller one.
const AUTOMATON_SIZE_LIMIT: usize = 1 << 20;

/// The compiled form of a pattern, together with the text it was compiled from: a schema may be cloned and altered.
#[derive(Debug, Clone, Default)]
pub(crate) struct PatternCache(OnceLock<(String, Result<Regex, String>)>);

impl PatternCache {
    /// Whether `text` matches `pattern` anywhere, or why the pattern cannot be used.
    pub(crate) fn matches(&self, pattern: &str, text: &str) -> Result<bool, String> {
        let (compiled_from, compiled) = self.0.get_or_init(|| (pattern.to_owned(), go_regex(pattern)));
        if compiled_from == pattern {
            return compiled.as_ref().map(|regex| regex.is_match(text)).map_err(Clone::clone);
        }
        go_regex(pattern).map(|regex| regex.is_match(text))
    }
}

/// Compiles an expression of Go's dialect. The error is worded after Go's.
pub(crate) fn go_regex(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern))
        .size_limit(COMPILED_SIZE_LIMIT)
        .dfa_size_limit(AUTOMATON_SIZE_LIMIT)
        .build()
        .map_err(|error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let last = match last {
                "unclosed character class" => "missing closing ]",
                "unclosed group" => "missing closing )",
                "unopened group" => "unexpected )",
                "repetition operator missing expression" => "missing argument to repetition operator",
                other => other,
            };
            format!("error parsing regexp: {last}: `{pattern}`")
        })
}

/// In Go `\d`, `\w`, `\s` and `\b` know ASCII only, a bracket inside a class is itself, set operators do not exist, and
/// a brace that starts no repetition is itself.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let read = match first {
            '\\' => escape(rest, &mut out),
            '[' => class(rest, &mut out),
            '{' if !starts_repetition(rest) => {
                out.push_str("\\{");
                1
            }
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[read..];
    }
    out
}

/// Translates an escape outside of classes; gives back how many bytes were read.
fn escape(rest: &str, out: &mut String) -> usize {
    let Some(escaped) = rest[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    if escaped == 'Q' {
        let quoted = &rest[2..];
        let end = quoted.find("\\E").unwrap_or(quoted.len());
        out.push_str(&regex::escape(&quoted[..end]));
        return 2 + (end + 2).min(quoted.len());
    }
    match escaped {
        'd' | 'w' | 's' => out.extend(["[", ascii_class(escaped), "]"]),
        'D' | 'W' | 'S' => out.extend(["[^", ascii_class(escaped), "]"]),
        'b' => out.push_str("(?-u:\\b)"),
        'B' => out.push_str("(?-u:\\B)"),
        other => out.extend(['\\', other]),
    }
    1 + escaped.len_utf8()
}

fn ascii_class(name: char) -> &'static str {
    match name.to_ascii_lowercase() {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        _ => "\\t\\n\\x0C\\r ",
    }
}

/// Translates a class from `[` to `]`; gives back how many bytes were read.
fn class(rest: &str, out: &mut String) -> usize {
    let mut at = 1;
    out.push('[');
    if rest[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    let first = at;
    while at < rest.len() && (at == first || !rest[at..].starts_with(']')) {
        let (item, read, is_class) = class_item(&rest[at..]);
        *out += &item;
        at += read;
        let after_dash = rest[at..].strip_prefix('-').unwrap_or_default();
        if is_class || after_dash.is_empty() || after_dash.starts_with(']') {
            continue;
        }
        let (end, read, end_is_class) = class_item(after_dash);
        *out += if end_is_class { "\\-" } else { "-" };
        *out += &end;
        at += 1 + read;
    }
    if rest[at..].starts_with(']') {
        out.push(']');
        at += 1;
    }
    at
}

/// One item of a class, as the `regex` crate writes it; the bytes read; whether it stands for several characters.
fn class_item(rest: &str) -> (String, usize, bool) {
    if let Some(end) = rest.strip_prefix("[:").and_then(|name| name.find(":]")) {
        return (rest[..end + 4].to_owned(), end + 4, true);
    }
    let mut chars = rest.chars();
    let first = chars.next().unwrap_or_default();
    if first != '\\' {
        return (regex::escape(first.encode_utf8(&mut [0; 4])), first.len_utf8(), false);
    }
    let escaped = chars.next().unwrap_or_default();
    let (length, is_class) = match escaped {
        'd' | 'w' | 's' => return (ascii_class(escaped).to_owned(), 2, true),
        'D' | 'W' | 'S' => return (format!("[^{}]", ascii_class(escaped)), 2, true),
        'p' | 'P' if rest[2..].starts_with('{') => (rest.find('}').map_or(rest.len(), |at| at + 1), true),
        'p' | 'P' => ((3).min(rest.len()), true),
        'x' if rest[2..].starts_with('{') => (rest.find('}').map_or(rest.len(), |at| at + 1), false),
        'x' => ((4).min(rest.len()), false),
        other => (1 + other.len_utf8(), false),
    };
    let length = (length..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len()).min(rest.len());
    (rest[..length].to_owned(), length, is_class)
}

fn starts_repetition(rest: &str) -> bool {
    let Some(end) = rest.find('}') else { return false };
    let body = &rest[1..end];
    let (low, high) = body.split_once(',').unwrap_or((body, "0"));
    !low.is_empty() && low.chars().chain(high.chars()).all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        go_regex(pattern).unwrap().is_match(text)
    }

    #[test]
    fn classes_know_ascii_only_as_in_go() {
        assert!(matches(r"^\d+$", "12") && !matches(r"^\d+$", "١٢"));
        assert!(matches(r"^[\w.]+$", "a.b_1") && !matches(r"^[\w.]+$", "é"));
        assert!(matches(r"^\S+$", "é"));
    }

    #[test]
    fn brackets_braces_and_set_operators_are_literal_where_go_has_them_literal() {
        assert!(matches(r"^[[a]+$", "[a"));
        assert!(matches(r"^[]a]+$", "]a"));
        assert!(matches(r"^[a&&b]+$", "a&b"));
        assert!(matches(r"^{name}$", "{name}"));
        assert!(matches(r"^a{2,3}$", "aaa") && !matches(r"^a{2,3}$", "a"));
        assert!(matches(r"^[[:alpha:]]+$", "ab"));
        assert!(matches(r"^[0-9-\p{L}]+$", "5-é") && matches(r"^[-a-c-e]+$", "-be") && !matches(r"^[a-c-e]$", "d"));
        assert!(matches(r"^[\w-]+$", "a-b") && matches(r"^[+--]+$", "+,-") && matches(r"^[a-\x63]$", "b"));
        assert!(matches(r"^\Qa.b\E$", "a.b") && !matches(r"^\Qa.b\E$", "axb"));
    }

    #[test]
    fn a_bad_or_enormous_pattern_is_refused_not_compiled() {
        assert!(go_regex("[a").unwrap_err().starts_with("error parsing regexp: "));
        assert!(go_regex("((a{1000}){1000}){1000}").is_err());
    }

    #[test]
    fn a_cached_pattern_is_compiled_again_after_a_change() {
        let cache = PatternCache::default();
        assert_eq!(cache.matches("^a$", "a"), Ok(true));
        assert_eq!(cache.clone().matches("^b$", "a"), Ok(false));
    }
}
