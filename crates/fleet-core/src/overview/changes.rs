//! What differs between two versions of a placement's resources, resource by resource and field by field.
//!
//! Decides how a difference is told. What secrets hold is never told, only that it differs. Never decides which versions are
//! compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fleet_api::types::EmbeddedObject;
use serde::Serialize;
use serde_json::Value;

/// A resource that one of two versions has and the other has not, or has differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub sort: ChangeSort,
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    /// For a resource that both have: what differs in it.
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
    /// As in a patch.
    pub fn sign(self) -> char {
        match self {
            ChangeSort::Added => '+',
            ChangeSort::Changed => '~',
            ChangeSort::Removed => '-',
        }
    }
}

/// `Deployment shop/web`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// A field that differs; absent values are not there.
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

/// What stands for the value of a secret.
const SECRET: &str = "(secret)";

/// What leads from one version to the other, by kind and name.
pub fn changes<'r>(
    before: impl IntoIterator<Item = &'r EmbeddedObject>,
    after: impl IntoIterator<Item = &'r EmbeddedObject>,
) -> Vec<Change> {
    let (before, after) = (by_identity(before), by_identity(after));
    let all: BTreeSet<&Identity<'_>> = before.keys().chain(after.keys()).collect();
    all.into_iter().filter_map(|identity| change(identity, before.get(identity), after.get(identity))).collect()
}

/// Kind, namespace, name, `apiVersion`.
type Identity<'r> = (&'r str, &'r str, &'r str, &'r str);

fn by_identity<'r>(resources: impl IntoIterator<Item = &'r EmbeddedObject>) -> BTreeMap<Identity<'r>, &'r Value> {
    let identity = |one: &'r EmbeddedObject| (one.kind(), one.namespace(), one.name(), one.api_version());
    resources.into_iter().map(|one| (identity(one), &one.0)).collect()
}

fn change(identity: &Identity<'_>, before: Option<&&Value>, after: Option<&&Value>) -> Option<Change> {
    let (kind, namespace, name, api_version) = *identity;
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
        fields,
    })
}

/// Everything in a secret but its labels and the like may be secret.
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

/// Keys with dots in them stay recognisable.
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
    fn a_difference_is_told_by_resource_and_field() {
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
    fn lists_are_compared_place_by_place() {
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
    fn what_secrets_hold_is_never_told() {
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
