//! Indexes the items of a list map by their keys.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A list map that can be asked for the item with given keys.
#[derive(Debug)]
pub(crate) struct KeyedItems<'k, 'v> {
    keys: &'k [String],
    items: BTreeMap<String, &'v Value>,
}

impl<'k, 'v> KeyedItems<'k, 'v> {
    pub(crate) fn new(keys: &'k [String], list: &'v [Value]) -> Self {
        let mut items = BTreeMap::new();
        for item in list {
            if let Some(fields) = item.as_object() {
                // Of items with the same keys the first one counts.
                items.entry(key_text(keys, fields)).or_insert(item);
            }
        }
        Self { keys, items }
    }

    /// The item that has the keys of `wanted`. A key that both lack is the same key.
    pub(crate) fn find(&self, wanted: &Value) -> Option<&'v Value> {
        self.items.get(&key_text(self.keys, wanted.as_object()?)).copied()
    }
}

/// The values of the keys as JSON, each ended by a line break, which JSON without indentation has nowhere.
fn key_text(keys: &[String], fields: &Map<String, Value>) -> String {
    #[cfg(test)]
    crate::testing::count_steps(keys.len());
    let mut text = String::new();
    for key in keys {
        if let Some(value) = fields.get(key) {
            text.push_str(&value.to_string());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_found_by_all_their_keys() {
        let list = [
            json!({"port": 80, "protocol": "TCP", "name": "first"}),
            json!({"port": 80, "protocol": "TCP", "name": "second"}),
            json!({"port": 80, "name": "no protocol"}),
            json!("80"),
        ];
        let keys = ["port".to_owned(), "protocol".to_owned()];
        let items = KeyedItems::new(&keys, &list);
        let name = |wanted: Value| items.find(&wanted).map(|item| item["name"].as_str().unwrap());
        assert_eq!(name(json!({"port": 80, "protocol": "TCP"})), Some("first"));
        assert_eq!(name(json!({"port": 80})), Some("no protocol"));
        assert_eq!(name(json!({"port": "80"})), None);
        assert_eq!(name(json!("80")), None);
    }
}
