//! Namespace and name of an object, and resource versions as comparable numbers.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Namespace and name of an object. Cheap to clone: the strings are shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// `None` for objects of cluster-scoped kinds.
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    pub fn namespaced(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// From the fields of `ObjectMeta`; an empty namespace means none.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self { namespace: namespace.filter(|text| !text.is_empty()).map(Arc::from), name: name.into() }
    }

    /// The key of a typed object. If the object has no name, the name is empty.
    pub fn of<K: kube::Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
    }

    /// The key of an object as JSON. `None` if it has no name.
    pub fn of_value(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        Some(Self::new(metadata["namespace"].as_str(), metadata["name"].as_str()?))
    }

    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A resourceVersion as a number. One that is not a number counts as 0, which is older than every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Revision(pub u64);

impl Revision {
    pub fn parse(text: &str) -> Self {
        Self(text.parse().unwrap_or_default())
    }

    /// The revision of an object or of a list.
    pub fn of_value(object: &Value) -> Self {
        object["metadata"]["resourceVersion"].as_str().map(Self::parse).unwrap_or_default()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_print_as_kubectl_names_them_and_sort_by_namespace_then_name() {
        let mut keys = [
            ObjectKey::namespaced("b", "a"),
            ObjectKey::namespaced("a", "z"),
            ObjectKey::cluster("z"),
            ObjectKey::new(Some(""), "y"),
        ];
        keys.sort();
        let printed: Vec<String> = keys.iter().map(ToString::to_string).collect();
        assert_eq!(printed, ["y", "z", "a/z", "b/a"]);
    }

    #[test]
    fn revisions_compare_as_numbers_and_an_opaque_one_is_the_oldest() {
        assert!(Revision::parse("9") < Revision::parse("10"));
        assert_eq!(Revision::parse("opaque"), Revision(0));
        let object = serde_json::json!({"metadata": {"name": "a", "resourceVersion": "7"}});
        assert_eq!(
            (Revision::of_value(&object), ObjectKey::of_value(&object)),
            (Revision(7), Some(ObjectKey::cluster("a")))
        );
        assert_eq!(ObjectKey::of_value(&serde_json::json!({"metadata": {}})), None);
    }
}
