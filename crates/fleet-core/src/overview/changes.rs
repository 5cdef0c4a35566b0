//! The differences between two versions of a placement's resources, by resource and field.
//!
//! Envelopes are opened, so that what clusters get is compared. Never shows the content of Secrets, only that it
//! differs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fleet_api::types::EmbeddedObject;
use serde::Serialize;
use serde_json::Value;

use crate::envelope::Envelope;

/// A resource that is in only one of two versions, or differs between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub sort: ChangeSort,
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// The envelope that contains it: `namespace/name` or the name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub envelope: String,
    /// The changed fields of a resource that is in both versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeSort {
    Added,
    Changed,
    Removed,
}

impl ChangeSort {
    /// The sign in a diff.
    pub fn sign(self) -> char {
        match self {
            ChangeSort::Added => '+',
            ChangeSort::Changed => '~',
            ChangeSort::Removed => '-',
        }
    }
}

/// `Deployment shop/web`, or `Deployment shop/web in envelope shop/letter`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)?;
        if self.envelope.is_empty() { Ok(()) } else { write!(f, " in envelope {}", self.envelope) }
    }
}

/// A changed field; an absent value is omitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// `spec.template.spec.containers[0].image`.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Replaces values of Secrets.
const SECRET: &str = "(secret)";

/// The changes from one version to the other, sorted by kind and name.
pub fn changes<'r>(
    before: impl IntoIterator<Item = &'r EmbeddedObject>,
    after: impl IntoIterator<Item = &'r EmbeddedObject>,
) -> Vec<Change> {
    between(&opened(before), &opened(after))
}

/// A resource as clusters get it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    pub(super) object: EmbeddedObject,
    /// The envelope that contains it, or empty.
    pub(super) envelope: String,
}

/// The resources that clusters get: the content of envelopes, and all others.
pub(super) fn opened<'r>(resources: impl IntoIterator<Item = &'r EmbeddedObject>) -> Vec<Content> {
    let mut found = Vec::new();
    for resource in resources {
        match Envelope::of(resource) {
            Some(envelope) => {
                found.extend(envelope.entries().map(|(_, value)| Content {
                    object: EmbeddedObject(value.clone()),
                    envelope: envelope.to_string(),
                }));
            }
            None => found.push(Content { object: resource.clone(), envelope: String::new() }),
        }
    }
    found
}

/// The same for resources without envelopes.
pub(super) fn between(before: &[Content], after: &[Content]) -> Vec<Change> {
    let (before, after) = (by_identity(before), by_identity(after));
    let all: BTreeSet<&Identity<'_>> = before.keys().chain(after.keys()).collect();
    all.into_iter().filter_map(|identity| change(identity, before.get(identity), after.get(identity))).collect()
}

/// Kind, namespace, name, `apiVersion`, envelope.
type Identity<'r> = (&'r str, &'r str, &'r str, &'r str, &'r str);

fn by_identity(contents: &[Content]) -> BTreeMap<Identity<'_>, &Value> {
    let mut found = BTreeMap::new();
    for Content { object, envelope } in contents {
        found.insert(
            (object.kind(), object.namespace(), object.name(), object.api_version(), envelope.as_str()),
            &object.0,
        );
    }
    found
}

fn change(identity: &Identity<'_>, before: Option<&&Value>, after: Option<&&Value>) -> Option<Change> {
    let (kind, namespace, name, api_version, envelope) = *identity;
    let (sort, fields) = match (before, after) {
        (Some(before), Some(after)) => {
            let mut fields = Vec::new();
            compare(String::new(), Some(before), Some(after), &mut fields);
            if fields.is_empty() {
                return None;
            }
            (ChangeSort::Changed, fields)
        }
        (None, _) => (ChangeSort::Added, Vec::new()),
        (Some(_), None) => (ChangeSort::Removed, Vec::new()),
    };
    let fields = if kind == "Secret" { fields.into_iter().map(concealed).collect() } else { fields };
    Some(Change {
        sort,
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        envelope: envelope.to_owned(),
        fields,
    })
}

/// Everything in a Secret except its metadata may be secret.
fn concealed(field: FieldChange) -> FieldChange {
    if field.path.starts_with("metadata.") || field.path == "type" {
        return field;
    }
    let conceal = |value: Option<Value>| value.map(|_| Value::from(SECRET));
    FieldChange { before: conceal(field.before), after: conceal(field.after), path: field.path }
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, out: &mut Vec<FieldChange>) {
    match (before, after) {
        (Some(before), Some(after)) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                compare(joined(&path, key), before.get(key), after.get(key), out);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for place in 0..before.len().max(after.len()) {
                compare(format!("{path}[{place}]"), before.get(place), after.get(place), out);
            }
        }
        (before, after) => out.push(FieldChange { path, before: before.cloned(), after: after.cloned() }),
    }
}

/// Keys with dots stay recognisable.
fn joined(path: &str, key: &str) -> String {
    let key = if key.contains(['.', '/', '[']) { format!("[{key:?}]") } else { key.to_owned() };
    match path {
        "" => key,
        _ if key.starts_with('[') => format!("{path}{key}"),
        _ => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str, rest: Value) -> EmbeddedObject {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}});
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        EmbeddedObject(object)
    }

    fn check(before: &[EmbeddedObject], after: &[EmbeddedObject], expected: Expect) {
        let mut out = String::new();
        for change in changes(before, after) {
            writeln!(out, "{} {change}", change.sort.sign()).unwrap();
            for FieldChange { path, before, after } in change.fields {
                let text = |value: Option<Value>| value.map_or("nothing".to_owned(), |value| value.to_string());
                writeln!(out, "    {path}: {} → {}", text(before), text(after)).unwrap();
            }
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn a_difference_is_reported_by_resource_and_field() {
        let before = [
            object("ConfigMap", "a", json!({"data": {"x": "1", "gone": "y", "app.yaml": "old"}})),
            object("ConfigMap", "same", json!({"data": {}})),
            object("Service", "old", json!({})),
        ];
        let after = [
            object("ConfigMap", "a", json!({"data": {"x": "2", "app.yaml": "new"}, "list": [1]})),
            object("ConfigMap", "same", json!({"data": {}})),
            object("Deployment", "web", json!({})),
        ];
        check(
            &before,
            &after,
            expect![[r#"
                ~ ConfigMap shop/a
                    data["app.yaml"]: "old" → "new"
                    data.gone: "y" → nothing
                    data.x: "1" → "2"
                    list: nothing → [1]
                + Deployment shop/web
                - Service shop/old
            "#]],
        );
    }

    #[test]
    fn lists_are_compared_by_index() {
        let containers = |images: &[&str]| json!({"spec": {"containers": images.iter().map(|image| json!({"image": image})).collect::<Vec<_>>()}});
        check(
            &[object("Pod", "a", containers(&["one", "two"]))],
            &[object("Pod", "a", containers(&["one", "zwei", "drei"]))],
            expect![[r#"
                ~ Pod shop/a
                    spec.containers[1].image: "two" → "zwei"
                    spec.containers[2]: nothing → {"image":"drei"}
            "#]],
        );
    }

    #[test]
    fn last_09_envelopes_are_opened() {
        let letter = |entries: Value| {
            EmbeddedObject(json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
                "metadata": {"name": "letter", "namespace": "shop"}, "data": entries}))
        };
        let config = |value: &str| object("ConfigMap", "a", json!({"data": {"x": value}})).0;
        let secret = |value: &str| object("Secret", "s", json!({"data": {"password": value}})).0;
        check(
            &[letter(json!({"a.yaml": config("1"), "s.yaml": secret("b2xk")}))],
            &[letter(
                json!({"renamed.yaml": config("2"), "s.yaml": secret("bmV3"), "more.yaml": object("Service", "web", json!({})).0}),
            )],
            expect![[r#"
                ~ ConfigMap shop/a in envelope shop/letter
                    data.x: "1" → "2"
                ~ Secret shop/s in envelope shop/letter
                    data.password: "(secret)" → "(secret)"
                + Service shop/web in envelope shop/letter
            "#]],
        );
    }

    #[test]
    fn content_of_secrets_is_never_shown() {
        check(
            &[object("Secret", "a", json!({"data": {"password": "b2xk"}}))],
            &[object("Secret", "a", json!({"data": {"password": "bmV3", "more": "eA=="}}))],
            expect![[r#"
                ~ Secret shop/a
                    data.more: nothing → "(secret)"
                    data.password: "(secret)" → "(secret)"
            "#]],
        );
    }
}
