//! Responses before encoding. Objects stay the stored bytes wherever nothing has to change; the HTTP layer may turn them
//! into tables, metadata-only objects or YAML.

use std::fmt;
use std::pin::Pin;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use serde_json::Value;

use super::typeless::put_without_type;
use crate::error::{ApiError, Reason};

/// The answer to a request that was not refused.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Body,
    /// Texts of `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// The content of an answer.
pub(crate) enum Body {
    /// One object, encoded as JSON.
    Object(Bytes),
    List(List),
    Watch(WatchStream),
    /// Plain text, for unknown paths.
    Text(&'static str),
}

/// Items are whole objects; a list that is not printed as a list need not be parsed again.
#[derive(Debug, Clone, Default)]
pub(crate) struct List {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) resource_version: String,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<u64>,
    pub(crate) items: Vec<Bytes>,
    /// Whether the items lose their `apiVersion` and `kind`, because the list says both.
    pub(crate) typeless: bool,
}

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// One line of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchEvent {
    pub(crate) kind: WatchKind,
    pub(crate) object: Bytes,
}

/// Ends when the server ends the watch (timeout, expiry, changed CustomResourceDefinition).
pub(crate) type WatchStream = Pin<Box<dyn Stream<Item = WatchEvent> + Send>>;

impl Response {
    pub(crate) fn object(status: u16, bytes: Bytes) -> Self {
        Self { status, body: Body::Object(bytes), warnings: Vec::new() }
    }

    pub(crate) fn value(status: u16, value: &Value) -> Self {
        Self::object(status, Bytes::from(value.to_string()))
    }

    /// The `Status` object of a refusal.
    pub(crate) fn refused(error: &ApiError) -> Self {
        if error.reason == Reason::NoSuchPath {
            return Self { status: 404, body: Body::Text("404 page not found\n"), warnings: Vec::new() };
        }
        Self::value(error.code(), &error.to_status())
    }

    /// The body parsed; `Null` for a watch. For callers in the same process, and for tests.
    #[cfg(test)]
    pub(crate) fn to_value(&self) -> Value {
        match &self.body {
            Body::Object(bytes) => serde_json::from_slice(bytes).unwrap_or_default(),
            Body::List(list) => serde_json::from_slice(&list.to_bytes()).unwrap_or_default(),
            Body::Watch(_) | Body::Text(_) => Value::Null,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Body::Object(bytes) => f.debug_tuple("Object").field(bytes).finish(),
            Body::List(list) => f.debug_tuple("List").field(list).finish(),
            Body::Watch(_) => f.write_str("Watch(..)"),
            Body::Text(text) => f.write_str(text),
        }
    }
}

impl List {
    /// The list object; items are copied as they are, or without their type.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let content: usize = self.items.iter().map(|i| i.len() + 1).sum();
        let mut out = BytesMut::with_capacity(content + 256);
        out.put_slice(b"{\"kind\":");
        put_text(&mut out, &self.kind);
        out.put_slice(b",\"apiVersion\":");
        put_text(&mut out, &self.api_version);
        out.put_slice(b",\"metadata\":{\"resourceVersion\":");
        put_text(&mut out, &self.resource_version);
        if let Some(token) = &self.continue_token {
            out.put_slice(b",\"continue\":");
            put_text(&mut out, token);
        }
        if let Some(remaining) = self.remaining {
            out.put_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
        }
        out.put_slice(b"},\"items\":[");
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            if self.typeless {
                put_without_type(&mut out, item);
            } else {
                out.put_slice(item);
            }
        }
        out.put_slice(b"]}");
        out.freeze()
    }
}

impl WatchKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            WatchKind::Added => "ADDED",
            WatchKind::Modified => "MODIFIED",
            WatchKind::Deleted => "DELETED",
            WatchKind::Bookmark => "BOOKMARK",
            WatchKind::Error => "ERROR",
        }
    }
}

impl WatchEvent {
    /// The event with the reason why a watch ends.
    pub(crate) fn error(error: &ApiError) -> Self {
        Self { kind: WatchKind::Error, object: Bytes::from(error.to_status().to_string()) }
    }
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_slice(Value::from(text).to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_list_splices_its_items() {
        let list = List {
            api_version: "v1".into(),
            kind: "ConfigMapList".into(),
            resource_version: "7".into(),
            continue_token: Some("abc".into()),
            remaining: Some(3),
            items: vec![Bytes::from_static(b"{\"a\":1}"), Bytes::from_static(b"{}")],
            typeless: false,
        };
        expect![[r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"abc","remainingItemCount":3},"items":[{"a":1},{}]}"#]]
            .assert_eq(&String::from_utf8_lossy(&list.to_bytes()));
    }

    #[test]
    fn a_refusal_is_a_status() {
        let response = Response::refused(&ApiError::not_found("", "pods", "a"));
        assert_eq!((response.status, response.to_value()["reason"].as_str()), (404, Some("NotFound")));
    }
}
