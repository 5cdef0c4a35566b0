//! The difference of two JSON values as a JSON patch.

use serde_json::{Value, json};

use super::OPERATIONS_MAX;

/// Operations that a computed patch leaves to its sender, which adds tests.
const LEFT_TO_THE_SENDER: usize = 100;

/// The operations that turn `old` into `new`, below `path`. Lists are compared by position, so that one changed element of
/// a long list is one operation; a merge patch would contain the whole list.
pub fn diff(old: &Value, new: &Value, path: &str) -> Vec<Value> {
    let mut operations = Vec::new();
    collect(old, new, &mut path.to_owned(), &mut operations);
    if operations.len() <= OPERATIONS_MAX - LEFT_TO_THE_SENDER { operations } else { whole_values(old, new, path) }
}

/// As few operations: replaces the whole value at `path`. The root cannot be replaced, so its fields are.
fn whole_values(old: &Value, new: &Value, path: &str) -> Vec<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if path.is_empty() => {
            let at = |name: &str| format!("/{}", pointer_token(name));
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            let changed = new.iter().filter(|(name, is)| old.get(*name) != Some(*is));
            gone.map(|name| json!({"op": "remove", "path": at(name)}))
                .chain(changed.map(|(name, is)| json!({"op": "add", "path": at(name), "value": is})))
                .collect()
        }
        _ => vec![json!({"op": "replace", "path": path, "value": new})],
    }
}

fn collect(old: &Value, new: &Value, path: &mut String, operations: &mut Vec<Value>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) => {
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                operations.push(json!({"op": "remove", "path": format!("{path}/{}", pointer_token(name))}));
            }
            for (name, is) in new {
                let length = path.len();
                path.extend(["/", pointer_token(name).as_str()]);
                match old.get(name) {
                    Some(was) => collect(was, is, path, operations),
                    None => operations.push(json!({"op": "add", "path": path, "value": is})),
                }
                path.truncate(length);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (place, (was, is)) in old.iter().zip(new).enumerate() {
                let length = path.len();
                path.extend(["/", place.to_string().as_str()]);
                collect(was, is, path, operations);
                path.truncate(length);
            }
            for place in (new.len()..old.len()).rev() {
                operations.push(json!({"op": "remove", "path": format!("{path}/{place}")}));
            }
            for is in new.iter().skip(old.len()) {
                operations.push(json!({"op": "add", "path": format!("{path}/-"), "value": is}));
            }
        }
        _ => operations.push(json!({"op": "replace", "path": path, "value": new})),
    }
}

/// Escapes a field name for a JSON pointer.
pub fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
