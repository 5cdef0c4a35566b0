//! Regular expressions as Kubernetes users write them (Go's RE2 dialect), compiled once per schema node.
//!
//! Decides how a Go expression is spelled for the `regex` crate, so that both match the same texts. Both engines work in
//! linear time; the size limit keeps a hostile repetition from eating memory at compile time.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// Bytes a compiled expression may take: generous for real patterns (`{1,253}` of Unicode classes takes some 100 KiB).
const COMPILED_SIZE_LIMIT: usize = 2 << 20;
/// Bytes of lazily built automaton per expression before the engine falls back to a slower, smaller one.
const AUTOMATON_SIZE_LIMIT: usize = 1 << 20;

/// The compiled form of a pattern, together with the text it was compiled from: a schema may be cloned and altered.
#[derive(Debug, Clone, Default)]
pub struct PatternCache(OnceLock<(String, Result<Regex, String>)>);

impl PatternCache {
    /// Whether `text` matches `pattern` anywhere, or why the pattern cannot be used.
    pub fn matches(&self, pattern: &str, text: &str) -> Result<bool, String> {
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
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("error parsing regexp: {last}: `{pattern}`")
        })
}

/// In Go `\d`, `\w`, `\s` and `\b` know ASCII only, a bracket inside a class is itself, set operators do not exist, and
/// a brace that starts no repetition is itself.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut in_class = false;
    // Whether the item before a dash inside a class can be the start of a range.
    let mut range_start = false;
    while let Some(first) = rest.chars().next() {
        let was_start = std::mem::replace(&mut range_start, in_class && first != '-');
        let step = match first {
            '-' if in_class => dash(rest, was_start, &mut out),
            '\\' => escape(rest, in_class, &mut out),
            '[' if !in_class => open_class(rest, &mut in_class, &mut out),
            '[' if rest.starts_with("[:") && rest.contains(":]") => {
                let end = rest.find(":]").map_or(rest.len(), |at| at + 2);
                out.push_str(&rest[..end]);
                end
            }
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(first);
                1
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
                1
            }
            '{' if !in_class && !starts_repetition(rest) => {
                out.push_str("\\{");
                1
            }
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
        if in_class && first == '-' && out.ends_with('-') && !out.ends_with("\\-") {
            // The end of a range cannot start another one.
            let end = rest[step..].chars().next().map_or(0, |c| if c == '\\' { 0 } else { c.len_utf8() });
            if end > 0 && !"[&~".contains(&rest[step..step + end]) {
                out.push_str(&rest[step..step + end]);
                rest = &rest[step + end..];
                continue;
            }
        }
        rest = &rest[step..];
    }
    out
}

/// A dash inside a class: part of a range, or itself, as it is next to another range or a class of characters.
fn dash(rest: &str, after_start: bool, out: &mut String) -> usize {
    let next_is_class = ["\\p", "\\P", "\\d", "\\w", "\\s", "]", "["].iter().any(|class| rest[1..].starts_with(class));
    out.push_str(if after_start && !next_is_class { "-" } else { "\\-" });
    1
}

/// Writes `[`, a leading `^` and a leading literal `]`; gives back how many bytes were read.
fn open_class(rest: &str, in_class: &mut bool, out: &mut String) -> usize {
    *in_class = true;
    out.push('[');
    let mut read = 1;
    if rest[read..].starts_with('^') {
        out.push('^');
        read += 1;
    }
    if rest[read..].starts_with(']') {
        out.push_str("\\]");
        read += 1;
    }
    read
}

fn escape(rest: &str, in_class: bool, out: &mut String) -> usize {
    let Some(escaped) = rest[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    if escaped == 'Q' && !in_class {
        let quoted = &rest[2..];
        let end = quoted.find("\\E").unwrap_or(quoted.len());
        out.push_str(&regex::escape(&quoted[..end]));
        return 2 + (end + 2).min(quoted.len());
    }
    let ascii = match (escaped, in_class) {
        ('d', false) => "[0-9]",
        ('D', false) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('W', false) => "[^0-9A-Za-z_]",
        ('s', false) => "[\\t\\n\\x0C\\r ]",
        ('S', false) => "[^\\t\\n\\x0C\\r ]",
        ('b', false) => "(?-u:\\b)",
        ('B', false) => "(?-u:\\B)",
        ('d', true) => "0-9",
        ('w', true) => "0-9A-Za-z_",
        ('s', true) => "\\t\\n\\x0C\\r ",
        _ => "",
    };
    if ascii.is_empty() {
        out.push('\\');
        out.push(escaped);
    } else {
        out.push_str(ascii);
    }
    1 + escaped.len_utf8()
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
    fn a_cache_notices_that_its_schema_was_given_another_pattern() {
        let cache = PatternCache::default();
        assert_eq!(cache.matches("^a$", "a"), Ok(true));
        assert_eq!(cache.clone().matches("^b$", "a"), Ok(false));
    }
}
