//! Decodes objects, lists and watch events from the JSON of an API server.
//!
//! Kubernetes accepts objects that are nested deeper than serde_json reads. One such object must not fail the whole list. Therefore
//! `fieldsV1`, which no controller reads and which nests as deep as the object, is skipped, and an object that still cannot be
//! decoded is returned as its name and version, with the error.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The path that is never decoded.
const SKIPPED: &[&str] = &["metadata", "managedFields", "fieldsV1"];

/// One object of a list, a watch event or a response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    /// The object without `fieldsV1`. With a `problem`, only its apiVersion, kind, name, namespace, uid and resourceVersion.
    pub(crate) object: Value,
    /// Why the object cannot be decoded.
    pub(crate) problem: Option<String>,
}

impl Decoded {
    /// Fails only if the text is not JSON or not an object.
    fn of(text: &str) -> serde_json::Result<Self> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let whole = Without(SKIPPED).deserialize(&mut reader).and_then(|object| reader.end().map(|()| object));
        match whole {
            Ok(object) if object.is_object() => Ok(Self { object, problem: None }),
            Ok(_) => Err(serde_json::Error::custom("the answer is not an object")),
            Err(problem) => {
                // serde_json skips unknown fields without recursion, at any depth.
                let identity: Identity = serde_json::from_str(text)?;
                Ok(Self { object: json!(identity), problem: Some(problem.to_string()) })
            }
        }
    }

    /// The object, or the error.
    pub(crate) fn readable(self) -> Result<Value, serde_json::Error> {
        match self.problem {
            None => Ok(self.object),
            Some(problem) => Err(serde_json::Error::custom(problem)),
        }
    }
}

impl<'de> Deserialize<'de> for Decoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::of(text.get()).map_err(D::Error::custom)
    }
}

/// The identity of an object that cannot be decoded.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default)]
    metadata: IdentityMetadata,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentityMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) revision: String,
    /// The token of the next page, if there is one.
    pub(crate) more: Option<String>,
    pub(crate) items: Vec<Decoded>,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageMetadata {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

impl PageMetadata {
    /// The token of the next page, if there is one.
    pub(crate) fn more(&self) -> Option<&str> {
        self.r#continue.as_deref().filter(|token| !token.is_empty())
    }
}

impl Page {
    pub(crate) fn of(text: &str) -> serde_json::Result<Self> {
        let RawPage { metadata, items } = serde_json::from_str(text)?;
        let items = items.unwrap_or_default().into_iter().map(|item| Decoded::of(item.get()));
        Ok(Self {
            more: metadata.more().map(str::to_owned),
            revision: metadata.resource_version.unwrap_or_default(),
            items: items.collect::<Result<_, _>>()?,
        })
    }
}

/// Decodes any JSON value without the part at this path. The path continues through the elements of lists.
struct Without(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Without {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Without {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(Without(self.0))? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            match self.0 {
                [last] if key == *last => drop(fields.next_value::<IgnoredAny>()?),
                [next, rest @ ..] if key == *next => {
                    read.insert(key, fields.next_value_seed(Without(rest))?);
                }
                _ => {
                    read.insert(key, fields.next_value()?);
                }
            }
        }
        Ok(Value::Object(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::WatchEvent;

    /// `levels` nested objects.
    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
    }

    fn object(name: &str, spec: &str, fields: &str) -> String {
        format!(
            r#"{{"apiVersion":"v1","kind":"A","metadata":{{"managedFields":[{{"fieldsV1":{fields},"manager":"m"}}],
               "name":"{name}","resourceVersion":"7","uid":"u"}},"spec":{spec}}}"#
        )
    }

    #[test]
    fn audit_03_one_object_that_is_too_deep_fails_neither_the_list_nor_other_objects() {
        let items = [
            object("flat", r#"{"x":[1,-2,1.5,null,true,"t"]}"#, "{}"),
            object("owned", &nested(120), &nested(9_000)),
            object("deep", &nested(9_000), &nested(9_000)),
        ];
        let list = format!(r#"{{"metadata":{{"resourceVersion":"9","continue":"t"}},"items":[{}]}}"#, items.join(","));
        let page = Page::of(&list).unwrap();
        assert_eq!((page.revision.as_str(), page.more.as_deref()), ("9", Some("t")));
        let [flat, owned, deep] = page.items.try_into().unwrap();
        assert_eq!(flat.object["spec"], json!({"x": [1, -2, 1.5, null, true, "t"]}));
        assert_eq!(flat.object["metadata"]["managedFields"], json!([{"manager": "m"}]));
        assert!(flat.problem.is_none() && owned.problem.is_none(), "{:?}", owned.problem);
        assert_eq!(owned.object["spec"].to_string(), nested(120));
        assert!(deep.problem.as_ref().unwrap().contains("recursion limit exceeded"), "{:?}", deep.problem);
        let known = json!({"name": "deep", "resourceVersion": "7", "uid": "u"});
        assert_eq!(deep.object, json!({"apiVersion": "v1", "kind": "A", "metadata": known}));
        assert!(deep.readable().is_err());
    }

    #[test]
    fn audit_03_watch_events_and_responses_are_decoded_in_the_same_way() {
        let deep = object("deep", &nested(500), &nested(500));
        let event = format!(r#"{{"type":"MODIFIED","object":{deep}}}"#);
        let WatchEvent::Modified(decoded) = serde_json::from_str::<WatchEvent<Decoded>>(&event).unwrap() else {
            panic!("another event");
        };
        assert_eq!(decoded.object["metadata"]["name"], "deep");
        assert_eq!(serde_json::from_str::<Decoded>(&deep).unwrap(), decoded);
    }

    #[test]
    fn a_value_that_is_not_an_object_is_an_error() {
        for text in ["", "1", "[]", "null", r#"{"a":"#, r#"{"a":1}x"#] {
            assert!(Decoded::of(text).is_err(), "{text}");
        }
        for (text, items) in [("{}", 0), (r#"{"items":null}"#, 0), (r#"{"items":[{}]}"#, 1)] {
            assert_eq!(Page::of(text).unwrap().items.len(), items, "{text}");
        }
        assert!(Page::of(r#"{"items":[1]}"#).is_err() && Page::of(r#"{"items":"#).is_err());
    }
}
