//! Selectors and paths: joined selectors select the intersection, and a path finds a bounded number of values.

use std::collections::BTreeMap;

use apiserver::internals::values_at;
use k8s_values::{FieldSelector, Selector};

use super::{field, parsed, text};

pub(super) const LABEL_WORDS: &[&str] = &[
    "in",
    "notin",
    "exists",
    "(",
    ")",
    ",",
    "=",
    "==",
    "!=",
    "!",
    ">",
    "<",
    "app",
    "example.com/tier",
    "a in (b,c)",
    "1",
];
pub(super) const FIELD_WORDS: &[&str] =
    &["metadata.name", "metadata.namespace", "=", "==", "!=", ",", "\\", "\\,", "\\="];
pub(super) const PATH_WORDS: &[&str] = &[
    "..",
    ".",
    "[*]",
    "[0:1]",
    "[-1:]",
    "[::-1]",
    "[?(@.a==1)]",
    "['a','b']",
    "{",
    "}",
    "$",
    "@",
    "*",
    ".items",
    "..*",
];

/// Sets of labels that selectors are tried on.
const LABELS: &[&[(&str, &str)]] =
    &[&[], &[("app", "web")], &[("app", ""), ("example.com/tier", "1")], &[("a", "b"), ("app", "web"), ("n", "10")]];

/// A path of so many steps may name a value this often at most: once by each way that leads to it.
const FOUND_MAX: usize = 1 << 20;

pub(super) fn label_selector(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let halves = text.split_once('\n').unwrap_or((text, ""));
    let (Ok(one), Ok(other)) = (Selector::parse(halves.0), Selector::parse(halves.1)) else { return };
    let joined = match halves {
        (one, other) if one.trim().is_empty() => other.to_owned(),
        (one, other) if other.trim().is_empty() => one.to_owned(),
        (one, other) => format!("{one},{other}"),
    };
    let both = Selector::parse(&joined);
    assert!(both.is_ok(), "{joined:?} cannot be read: {both:?}");
    let printed = both.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(Selector::parse(&printed), both, "{joined:?} is printed as {printed:?}");
    for labels in LABELS {
        let of = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let wanted = one.matches_by(of) && other.matches_by(of);
        assert_eq!(both.as_ref().map(|both| both.matches_by(of)), Ok(wanted), "{joined:?} on {labels:?}");
    }
}

pub(super) fn field_selector(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let halves = text.split_once('\n').unwrap_or((text, ""));
    let (Ok(one), Ok(other)) = (FieldSelector::parse(halves.0), FieldSelector::parse(halves.1)) else { return };
    let joined = format!("{},{}", halves.0, halves.1);
    match FieldSelector::parse(&joined) {
        Ok(both) => {
            assert_eq!(both.is_everything(), one.is_everything() && other.is_everything(), "{joined:?}");
            assert_eq!(
                both.exact("metadata.name"),
                one.exact("metadata.name").or(other.exact("metadata.name")),
                "{joined:?}"
            );
        }
        Err(error) => assert!(error.is_empty(), "{joined:?} cannot be read: {error}"),
    }
}

pub(super) fn jsonpath(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let object = field(&input, "object");
    let Some(found) = values_at(text(&input, "path"), &object) else { return };
    assert!(found <= FOUND_MAX, "{found} values were found");
    // A label selector of the fleet's own API meets the same objects.
    if let Ok(selector) = serde_json::from_value(field(&input, "selector"))
        && let Ok(selector) = Selector::new(Some(&selector))
    {
        let labels: BTreeMap<String, String> = serde_json::from_value(field(&object, "labels")).unwrap_or_default();
        let _ = selector.matches(&labels);
    }
}
