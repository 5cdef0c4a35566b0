//! Prints differences between two versions. Long values are truncated around the difference; multi-line texts are shown as
//! changed lines.

use std::fmt::Write as _;

use fleet_api::safe_text::{json, line};
use fleet_core::overview::{Change, ChangeSort, FieldChange};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::output::{Paint, Tone};

/// Longest value that is not truncated, in characters.
const VALUE_CHARACTERS: usize = 60;
/// Common characters of two long values that are shown before the difference.
const COMMON_CHARACTERS: usize = 15;
/// Maximum number of changed lines that are shown.
const TEXT_LINES: usize = 20;

/// Whether output is truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Glance,
    Whole,
}

/// Resources and their fields, one per line.
pub(crate) fn render(changes: &[Change], paint: Paint, depth: usize, extent: Extent) -> String {
    let indent = "  ".repeat(depth);
    let mut out = String::new();
    for change in changes {
        let tone = tone(change.sort);
        let _ = writeln!(out, "{indent}{}", paint.paint(tone, &format!("{} {change}", change.sort.sign())));
        for one in change.fields.iter().flat_map(|field| field_lines(field, paint, extent)) {
            let _ = writeln!(out, "{indent}    {one}");
        }
    }
    out
}

fn tone(sort: ChangeSort) -> Tone {
    match sort {
        ChangeSort::Added => Tone::Good,
        ChangeSort::Changed => Tone::Waiting,
        ChangeSort::Removed => Tone::Bad,
    }
}

fn field_lines(field: &FieldChange, paint: Paint, extent: Extent) -> Vec<String> {
    let path = line(&field.path);
    match (&field.before, &field.after) {
        (Some(Value::String(before)), Some(Value::String(after))) if before.contains('\n') || after.contains('\n') => {
            let mut lines = vec![format!("{path}:")];
            lines.extend(text_lines(before, after, paint, extent));
            lines
        }
        (Some(before), Some(after)) => {
            let (before, after) = pair(&shown(before), &shown(after), extent);
            vec![format!("{path}: {before} → {after}")]
        }
        (None, Some(after)) => vec![format!("{path}: + {}", window(&shown(after), 0, extent))],
        (Some(before), None) => vec![format!("{path}: - {}", window(&shown(before), 0, extent))],
        (None, None) => Vec::new(),
    }
}

/// A value as JSON, with escaped control characters.
fn shown(value: &Value) -> String {
    json(&value.to_string()).into_owned()
}

/// The changed lines of a text.
fn text_lines(before: &str, after: &str, paint: Paint, extent: Extent) -> Vec<String> {
    let difference = TextDiff::from_lines(before, after);
    let shown = |tag: ChangeTag, one: &str| {
        let one = one.trim_end_matches('\n');
        match tag {
            ChangeTag::Equal => None,
            ChangeTag::Delete => Some(paint.paint(Tone::Bad, &format!("  - {one}"))),
            ChangeTag::Insert => Some(paint.paint(Tone::Good, &format!("  + {one}"))),
        }
    };
    let mut lines: Vec<String> =
        difference.iter_all_changes().filter_map(|change| shown(change.tag(), change.value())).collect();
    if extent == Extent::Glance && lines.len() > TEXT_LINES {
        let more = lines.len() - TEXT_LINES;
        lines.truncate(TEXT_LINES);
        lines.push(format!("  … {more} more lines"));
    }
    lines
}

/// Two values; long ones are truncated around the difference.
fn pair(before: &str, after: &str, extent: Extent) -> (String, String) {
    let is_long = |text: &str| text.chars().count() > VALUE_CHARACTERS;
    let common = before.chars().zip(after.chars()).take_while(|(one, other)| one == other).count();
    let start = if is_long(before) || is_long(after) { common.saturating_sub(COMMON_CHARACTERS) } else { 0 };
    (window(before, start, extent), window(after, start, extent))
}

/// A truncated text with ellipses.
fn window(text: &str, start: usize, extent: Extent) -> String {
    if extent == Extent::Whole {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(start).take(VALUE_CHARACTERS).collect();
    let before = if start > 0 { "…" } else { "" };
    let behind = if text.chars().count() > start + VALUE_CHARACTERS { "…" } else { "" };
    format!("{before}{kept}{behind}")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(before: Option<Value>, after: Option<Value>, extent: Extent, expected: Expect) {
        let change = Change {
            sort: ChangeSort::Changed,
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "shop".to_owned(),
            name: "settings".to_owned(),
            envelope: String::new(),
            fields: vec![FieldChange { path: "data.x".to_owned(), before, after }],
        };
        expected.assert_eq(&render(&[change], Paint::PLAIN, 0, extent));
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let long = |end: &str| Some(json!(format!("{}{end}", "registry.example.com/team/".repeat(4))));
        check(
            long("web:1"),
            long("web:2"),
            Extent::Glance,
            expect![[r#"
                  ~ ConfigMap shop/settings
                      data.x: …e.com/team/web:1" → …e.com/team/web:2"
            "#]],
        );
        check(
            None,
            long("web:2"),
            Extent::Glance,
            expect![[r#"
                  ~ ConfigMap shop/settings
                      data.x: + "registry.example.com/team/registry.example.com/team/registr…
            "#]],
        );
        check(
            Some(json!(1)),
            None,
            Extent::Glance,
            expect![[r"
              ~ ConfigMap shop/settings
                  data.x: - 1
        "]],
        );
    }

    #[test]
    fn changed_lines_of_texts_are_shown() {
        let text = |middle: &str| Some(json!(format!("[server]\nport = 80\n{middle}\nhost = web\n")));
        check(
            text("level = info"),
            text("level = debug\ntrace = on"),
            Extent::Glance,
            expect![[r"
                  ~ ConfigMap shop/settings
                      data.x:
                        - level = info
                        + level = debug
                        + trace = on
            "]],
        );
    }

    #[test]
    fn nothing_is_truncated_with_wide_output() {
        let numbers = |from: u32| Some(json!((from..from + 30).map(|n| n.to_string()).collect::<Vec<_>>().join("\n")));
        let shown = |extent| {
            let field = FieldChange { path: "x".to_owned(), before: numbers(0), after: numbers(100) };
            field_lines(&field, Paint::PLAIN, extent)
        };
        let glance = shown(Extent::Glance);
        assert_eq!(glance.len(), TEXT_LINES + 2);
        assert_eq!(glance.last().map(String::as_str), Some("  … 40 more lines"));
        assert_eq!(shown(Extent::Whole).len(), 61);
        let long = "x".repeat(200);
        assert_eq!(window(&long, 0, Extent::Whole), long);
    }
}
