//! The response of a step as text for the comparison.

use super::normalise::Normaliser;
use super::script::Directive;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, WARNING};
use hyper::{HeaderMap, StatusCode};
use serde_json::Value;
use std::fmt::Write;

/// The answer of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) step: String,
    pub(super) text: String,
    /// Whether the server accepted (2xx, or exit code 0); `None` without a response.
    pub(super) accepted: Option<bool>,
    /// Why the step did not behave as the script requires.
    pub(super) failed: Option<String>,
}

/// The answers of one case on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transcript {
    pub(super) case: String,
    pub(super) answers: Vec<Answer>,
}

impl Transcript {
    /// The whole transcript as one text, for `--record`.
    pub(super) fn render(&self) -> String {
        let mut out = String::new();
        for answer in &self.answers {
            let _ = writeln!(out, "=== {}\n{}\n", answer.step, answer.text.trim_end());
        }
        out
    }
}

/// Status, the headers that callers act upon, and the body.
pub(super) fn http(
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
    directives: &[Directive],
    normaliser: &mut Normaliser,
) -> String {
    let mut out = format!("{}\n", status.as_u16());
    if directives.contains(&Directive::StatusOnly) {
        return out;
    }
    for name in [CONTENT_TYPE, WARNING] {
        for value in headers.get_all(&name) {
            let value = String::from_utf8_lossy(value.as_bytes());
            let _ = writeln!(out, "{name}: {}", normaliser.words(&value));
        }
    }
    match parsed(headers, body) {
        Some(value) => out.push_str(&normaliser.json(selected(value, directives))),
        None => out.push_str(&normaliser.words(&String::from_utf8_lossy(body))),
    }
    out
}

/// The body as data. Two YAML texts that quote and indent differently say the same.
fn parsed(headers: &HeaderMap, body: &Bytes) -> Option<Value> {
    let is_yaml = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/yaml"));
    if is_yaml {
        return serde_saphyr::from_str(std::str::from_utf8(body).ok()?).ok();
    }
    serde_json::from_slice(body).ok()
}

/// The parts of a body that the step asks for.
pub(super) fn selected(mut value: Value, directives: &[Directive]) -> Value {
    for directive in directives {
        match directive {
            Directive::Show(pointers) => {
                let parts = pointers.iter().map(|p| (p.clone(), value.pointer(p).cloned().unwrap_or(Value::Null)));
                value = Value::Object(parts.collect());
            }
            Directive::Hide(pointers) => pointers.iter().for_each(|pointer| remove(&mut value, pointer)),
            _ => {}
        }
    }
    value
}

/// Removes what the pointer names; `*` stands for every element or member.
fn remove(value: &mut Value, pointer: &str) {
    let pointer = pointer.trim_start_matches('/');
    let (head, rest) = pointer.split_once('/').map_or((pointer, None), |(head, rest)| (head, Some(rest)));
    let key = head.replace("~1", "/");
    match (value, rest) {
        (Value::Object(map), None) => {
            map.remove(&key);
        }
        (Value::Object(map), Some(rest)) if head == "*" => map.values_mut().for_each(|child| remove(child, rest)),
        (Value::Array(items), Some(rest)) if head == "*" => items.iter_mut().for_each(|child| remove(child, rest)),
        (Value::Object(map), Some(rest)) => {
            if let Some(child) = map.get_mut(&key) {
                remove(child, rest);
            }
        }
        (Value::Array(items), Some(rest)) => {
            if let Some(child) = head.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                remove(child, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn show_keeps_and_hide_removes() {
        let body = json!({"a": {"b": 1}, "items": [{"x": 1, "y": 2}, {"x": 3}], "m": {"k": {"x": 1}}});
        let show = [Directive::Show(vec!["/a/b".into(), "/none".into()])];
        assert_eq!(selected(body.clone(), &show), json!({"/a/b": 1, "/none": null}));
        let hide = [Directive::Hide(vec!["/a".into(), "/items/*/x".into(), "/m/*/x".into()])];
        assert_eq!(selected(body, &hide), json!({"items": [{"y": 2}, {}], "m": {"k": {}}}));
    }

    #[test]
    fn an_answer_shows_status_type_warnings_and_body() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().expect("value"));
        headers.append("warning", "299 - \"one\"".parse().expect("value"));
        headers.append("warning", "299 - \"two\"".parse().expect("value"));
        headers.insert("audit-id", "x".parse().expect("value"));
        let mut normaliser = Normaliser::new(Vec::new()).expect("patterns");
        let text = http(StatusCode::CREATED, &headers, &Bytes::from("{\"b\":1,\"a\":2}"), &[], &mut normaliser);
        expect_test::expect![[r#"
            201
            content-type: application/json
            warning: 299 - "one"
            warning: 299 - "two"
            {
              "a": 2,
              "b": 1
            }"#]]
        .assert_eq(&text);
    }
}
