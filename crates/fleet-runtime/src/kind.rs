//! Identifies a resource of the API without its Rust type, and builds its request paths.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Group, version, kind and plural of a resource. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId {
    /// Empty for the core group.
    pub group: Arc<str>,
    pub version: Arc<str>,
    pub kind: Arc<str>,
    pub plural: Arc<str>,
}

impl KindId {
    pub fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into(), plural: plural.into() }
    }

    /// The resource of a Rust type.
    pub fn of<K: kube::Resource<DynamicType = ()>>() -> Self {
        Self::new(&K::group(&()), &K::version(&()), &K::kind(&()), &K::plural(&()))
    }

    /// `group/version`, or the version alone in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Path of all objects of the kind, in one namespace or in all.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let Some(namespace) = namespace {
            let _ = write!(path, "/namespaces/{}", escaped(namespace));
        }
        let _ = write!(path, "/{}", self.plural);
        path
    }

    /// Path of one object or of one of its subresources.
    pub fn object_path(&self, namespace: Option<&str>, name: &str, subresource: Option<&str>) -> String {
        let mut path = format!("{}/{}", self.collection_path(namespace), escaped(name));
        if let Some(subresource) = subresource {
            let _ = write!(path, "/{subresource}");
        }
        path
    }
}

/// Percent-encodes a path segment. `:` stays, for names such as `system:controller`.
fn escaped(segment: &str) -> impl fmt::Display + '_ {
    const UNRESERVED: &percent_encoding::AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
    utf8_percent_encode(segment, UNRESERVED)
}

/// `plural.group`, as CustomResourceDefinitions are named.
impl fmt::Display for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn paths_follow_the_group_and_the_namespace() {
        let maps = KindId::of::<ConfigMap>();
        let deployments = KindId::of::<Deployment>();
        assert_eq!(maps.collection_path(None), "/api/v1/configmaps");
        assert_eq!(maps.object_path(Some("a"), "b:c/d", None), "/api/v1/namespaces/a/configmaps/b:c%2Fd");
        assert_eq!(
            deployments.object_path(Some("a"), "b", Some("status")),
            "/apis/apps/v1/namespaces/a/deployments/b/status"
        );
        assert_eq!((maps.to_string(), deployments.to_string()), ("configmaps".into(), "deployments.apps".into()));
        assert_eq!((maps.api_version(), deployments.api_version()), ("v1".into(), "apps/v1".into()));
    }
}
