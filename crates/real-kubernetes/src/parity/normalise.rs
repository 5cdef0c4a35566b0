//! Makes responses of two servers comparable: values that differ between any two runs (uids, versions, times, ports) become
//! placeholders. Equal values get equal placeholders within a case, so that "the resourceVersion did not change" is still
//! visible.

use super::{age, descriptions};
use regex::{Captures, Regex};
use serde_json::Value;
use std::collections::BTreeMap;

/// Placeholders of one case on one server, in the order in which the values appeared.
#[derive(Debug)]
pub(super) struct Normaliser {
    literals: Vec<(String, String)>,
    identities: BTreeMap<String, String>,
    counters: BTreeMap<&'static str, usize>,
    generated: BTreeMap<String, String>,
    patterns: Patterns,
}

#[derive(Debug)]
struct Patterns {
    uid: Regex,
    time: Regex,
    version_line: Regex,
    /// Replaced by a fixed text, in this order.
    fixed: Vec<(Regex, &'static str)>,
}

/// What differs between any two servers and has no identity worth keeping.
const FIXED: [(&str, &str); 9] = [
    // An object quoted in an error message.
    (r#"(\\+"resourceVersion\\+":\\+")\d+"#, "${1}<version>"),
    (r"(too old resource version: )\d+ \(\d+\)", "${1}<version> (<version>)"),
    (r"(?i)(resource ?version: +|resource ?version in [a-z ]+: |current: |in record \()\d+", "${1}<version>"),
    (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d \d\d:\d\d:\d\d [+-]\d{4}", "<spoken time>"),
    // Two real servers on one etcd have different prefixes.
    (r"/registry-\d+/", "/registry/"),
    (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    (r"\bkube-api-access-[a-z0-9]{5}\b", "kube-api-access-<id>"),
    (r"\b10\.96\.\d+\.\d+\b", "<cluster-ip>"),
    (r"(?m)^(\s*-?\s*nodePort: |.*:)(3[0-2]\d{3})\b", "${1}<node-port>"),
];

impl Patterns {
    fn new() -> Result<Self, regex::Error> {
        let fixed = FIXED.iter().map(|(pattern, stand_in)| Ok((Regex::new(pattern)?, *stand_in)));
        Ok(Self {
            uid: Regex::new(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")?,
            time: Regex::new(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")?,
            version_line: Regex::new(r#"(?m)^(\s*"?resourceVersion"?: )"(\d+)""#)?,
            fixed: fixed.collect::<Result<_, regex::Error>>()?,
        })
    }
}

impl Normaliser {
    /// `literals` are texts of this run (the case's id, the server's address) with their stand-ins, longest first.
    pub(super) fn new(literals: Vec<(String, String)>) -> Result<Self, regex::Error> {
        Ok(Self {
            literals,
            identities: BTreeMap::new(),
            counters: BTreeMap::new(),
            generated: BTreeMap::new(),
            patterns: Patterns::new()?,
        })
    }

    /// A JSON answer as sorted, indented text.
    pub(super) fn json(&mut self, mut value: Value) -> String {
        self.mask(&mut value, Place::Top);
        order_causes(&mut value);
        let text = format!("{value:#}");
        self.words(&text)
    }

    /// Output of kubectl: identities as everywhere, ages masked, column widths evened out.
    pub(super) fn terminal(&mut self, text: &str) -> String {
        let text = descriptions::without_explanations(text);
        let lines: Vec<String> = text.lines().map(age::even_out).collect();
        self.words(&lines.join("\n"))
    }

    /// Any text: regular patterns and literals.
    pub(super) fn words(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        let mut generated: Vec<(&String, &String)> = self.generated.iter().collect();
        generated.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, stand_in) in generated {
            text = text.replace(name.as_str(), stand_in);
        }
        for (literal, stand_in) in &self.literals {
            text = text.replace(literal.as_str(), stand_in);
        }
        // Identities first: what follows would cut digits out of them.
        let (uid, version_line) = (self.patterns.uid.clone(), self.patterns.version_line.clone());
        text = uid.replace_all(&text, |found: &Captures<'_>| self.identity("uid", &found[0])).into_owned();
        text = version_line
            .replace_all(&text, |found: &Captures<'_>| format!("{}{}", &found[1], self.identity("rv", &found[2])))
            .into_owned();
        let near_now = |found: &Captures<'_>| age::stand_in_for_time(&found[0]);
        text = self.patterns.time.replace_all(&text, near_now).into_owned();
        for (pattern, stand_in) in &self.patterns.fixed {
            text = pattern.replace_all(&text, *stand_in).into_owned();
        }
        text
    }

    fn identity(&mut self, kind: &'static str, value: &str) -> String {
        if let Some(known) = self.identities.get(&format!("{kind}/{value}")) {
            return known.clone();
        }
        let counter = self.counters.entry(kind).or_default();
        *counter += 1;
        let stand_in = format!("<{kind}-{counter}>");
        self.identities.insert(format!("{kind}/{value}"), stand_in.clone());
        stand_in
    }

    fn mask(&mut self, value: &mut Value, place: Place) {
        match value {
            Value::Object(map) => {
                let is_bookmark = map.get("type").is_some_and(|kind| kind == "BOOKMARK");
                let is_list = is_bookmark
                    || map.contains_key("items")
                    || map.contains_key("rows")
                    || map.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
                self.note_generated_name(map);
                let in_table = map.contains_key("columnDefinitions");
                for (key, child) in map.iter_mut() {
                    let below = match (key.as_str(), place) {
                        ("metadata", _) if is_list => Place::ListMetadata,
                        ("object", _) if is_bookmark => Place::Bookmark,
                        ("metadata", Place::Bookmark) => Place::ListMetadata,
                        ("rows", _) if in_table => Place::TableRows,
                        ("columnDefinitions", _) => Place::Columns,
                        ("cells", Place::TableRows) => Place::Cells,
                        _ => Place::Inside,
                    };
                    self.mask_field(key, child, place, below);
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.mask(item, place);
                }
            }
            Value::String(text) if place == Place::Cells => *text = age::stand_in_for_cell(text),
            _ => {}
        }
    }

    fn mask_field(&mut self, key: &str, child: &mut Value, place: Place, below: Place) {
        // `@show` names a part by its whole pointer.
        match (key.rsplit('/').next().unwrap_or(key), &mut *child) {
            ("resourceVersion", Value::String(version)) if !version.is_empty() && version != "0" => {
                *version = match place {
                    Place::ListMetadata => "<list-version>".to_owned(),
                    _ => self.identity("rv", &version.clone()),
                };
            }
            // Their order depends on times in seconds.
            ("managedFields", Value::Array(_)) => {
                self.mask(child, below);
                if let Value::Array(entries) = child {
                    entries.sort_by_cached_key(|entry| {
                        (entry["operation"].to_string(), entry["manager"].to_string(), entry.to_string())
                    });
                }
            }
            // Servers word the descriptions of columns and certificates differently; compare only whether there is one.
            ("description", Value::String(words)) if place == Place::Columns && !words.is_empty() => {
                descriptions::STAND_IN.clone_into(words);
            }
            ("description", Value::String(words)) if key == "kubernetes.io/description" => {
                descriptions::STAND_IN.clone_into(words);
            }
            ("ca.crt", Value::String(certificate)) => "<certificate>".clone_into(certificate),
            ("continue", Value::String(token)) if !token.is_empty() => "<continue>".clone_into(token),
            ("nodePort" | "healthCheckNodePort", port @ Value::Number(_)) => *port = Value::from("<node-port>"),
            _ => self.mask(child, below),
        }
    }

    /// Remembers a name generated from `generateName`, for this and all later responses.
    fn note_generated_name(&mut self, map: &serde_json::Map<String, Value>) {
        let metadata = map.get("metadata").and_then(Value::as_object);
        let text = |key: &str| metadata.and_then(|m| m.get(key)).and_then(Value::as_str);
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
            && name.starts_with(prefix)
            && !self.generated.contains_key(name)
        {
            let suffix = name.len() - prefix.len();
            let number = self.generated.len() + 1;
            self.generated.insert(name.to_owned(), format!("{prefix}<{suffix} letters, {number}>"));
        }
    }
}

/// The causes of a rejection have the random order of a Go map: sorts them, and their list in the message if it contains exactly
/// the causes.
fn order_causes(status: &mut Value) {
    let Some(causes) = status.pointer("/details/causes").and_then(Value::as_array).cloned() else { return };
    let said = |causes: &[Value]| -> String {
        let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        let each: Vec<String> =
            causes.iter().map(|c| format!("{}: {}", text(c, "field"), text(c, "message"))).collect();
        format!("[{}]", each.join(", "))
    };
    let mut sorted = causes.clone();
    sorted.sort_by_cached_key(Value::to_string);
    let message = status["message"].as_str().unwrap_or_default().replace(&said(&causes), &said(&sorted));
    status["message"] = Value::from(message);
    status["details"]["causes"] = Value::from(sorted);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Inside,
    /// A list's version is the server's, not an object's: how it relates to the items' depends on other traffic.
    ListMetadata,
    Bookmark,
    TableRows,
    Cells,
    Columns,
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    fn normaliser() -> Normaliser {
        Normaliser::new(vec![("parity-p7".into(), "<ns>".into()), ("p7".into(), "<id>".into())]).expect("patterns")
    }

    #[test]
    fn equal_versions_stay_equal_and_list_versions_have_no_identity() {
        let mut n = normaliser();
        let object = |rv: &str| json!({"metadata": {"resourceVersion": rv, "namespace": "parity-p7"}});
        let first = n.json(object("41"));
        assert_eq!(first, n.json(object("41")));
        assert_ne!(first, n.json(object("42")));
        let list =
            n.json(json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": "41"}, "items": [object("42")]}));
        expect![[r#"
            {
              "items": [
                {
                  "metadata": {
                    "namespace": "<ns>",
                    "resourceVersion": "<rv-2>"
                  }
                }
              ],
              "kind": "ConfigMapList",
              "metadata": {
                "resourceVersion": "<list-version>"
              }
            }"#]]
        .assert_eq(&list);
    }

    #[test]
    fn a_generated_name_is_masked_wherever_it_shows_up_later() {
        let mut n = normaliser();
        n.json(json!({"metadata": {"generateName": "web-", "name": "web-x7k2p"}}));
        assert_eq!(n.words("configmaps \"web-x7k2p\" not found"), "configmaps \"web-<5 letters, 1>\" not found");
    }

    #[test]
    fn only_parts_that_differ_between_runs_are_masked() {
        let mut n = normaliser();
        let words = "uid 0b0c1ed4-9b5c-4a6f-8f0b-0d6a1d0e7d11 in parity-p7, Too large resource version: 99, current: 12, 2001-01-01T00:00:00Z";
        expect!["uid <uid-1> in <ns>, Too large resource version: <version>, current: <version>, 2001-01-01T00:00:00Z"]
            .assert_eq(&n.words(words));
        expect![[r"  resourceVersion: <rv-1>"]].assert_eq(&n.words("  resourceVersion: \"5\""));
    }

    #[test]
    fn causes_of_a_refusal_have_no_order() {
        let cause = |field: &str| json!({"field": field, "message": "Required value", "reason": "FieldValueRequired"});
        let refusal = |first: &str, second: &str| {
            json!({
                "details": {"causes": [cause(first), cause(second)]},
                "message": format!("X is invalid: [{first}: Required value, {second}: Required value]"),
            })
        };
        assert_eq!(normaliser().json(refusal("a", "b")), normaliser().json(refusal("b", "a")));
        let mut inconsistent = refusal("a", "b");
        inconsistent["message"] = json!("X is invalid: [b: Required value]");
        assert_ne!(normaliser().json(refusal("a", "b")), normaliser().json(inconsistent));
    }

    #[test]
    fn column_descriptions_may_differ_but_must_exist() {
        let table = |words: &str| json!({"columnDefinitions": [{"name": "Age", "description": words}], "rows": []});
        assert_eq!(normaliser().json(table("how old")), normaliser().json(table("time since creation")));
        assert_ne!(normaliser().json(table("how old")), normaliser().json(table("")));
        let elsewhere = |words: &str| json!({"spec": {"description": words}});
        assert_ne!(normaliser().json(elsewhere("a")), normaliser().json(elsewhere("b")));
    }

    #[test]
    fn the_published_authority_differs_by_run() {
        let map = |ca: &str, why: &str| json!({"data": {"ca.crt": ca}, "metadata": {"annotations": {"kubernetes.io/description": why}}});
        assert_eq!(normaliser().json(map("A", "x")), normaliser().json(map("B", "y")));
    }

    #[test]
    fn ages_in_table_cells_are_masked_and_other_cells_are_not() {
        let mut n = normaliser();
        let table =
            json!({"kind": "Table", "columnDefinitions": [], "rows": [{"cells": ["web-5s", "3", "12s", "4m10s"]}]});
        let text = n.json(table);
        assert!(text.contains("\"web-5s\"") && text.contains("\"3\""), "{text}");
        assert_eq!(text.matches("<age>").count(), 2, "{text}");
    }
}
