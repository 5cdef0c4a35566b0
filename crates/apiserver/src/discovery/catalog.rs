//! All served kinds, grouped and ordered as clients see them: groups by priority and name, versions with `v1` before
//! `v1beta1`.
//!
//! A catalog is immutable and is rebuilt when the kinds change.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::schema::Node;

/// One resource in one version.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApiResource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) subresources: Vec<ApiSubresource>,
    pub(crate) schema: Node,
    /// Built-in kinds take strategic merge patches; custom ones do not.
    pub(crate) strategic_merge: bool,
    /// Name of the schema in OpenAPI documents; made from group, version and kind if `None`.
    pub(crate) definition: Option<String>,
    /// Changes whenever the schema does.
    pub(crate) shape: u64,
    /// Group, version and kind under which objects are kept; `None` for what is not stored, or in no
    /// version that is served.
    pub(crate) stored_as: Option<String>,
}

/// A subresource. `group` and `version` are empty where they are the parent's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ApiSubresource {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) verbs: Vec<String>,
}

/// Where the kinds come from.
pub(crate) trait KindSource: Send + Sync {
    /// Changes whenever `resources` would answer differently.
    fn revision(&self) -> u64;
    /// Every served resource, once per served version.
    fn resources(&self) -> Vec<Arc<ApiResource>>;
    /// The catalog of these kinds; clusters with the same kinds may share one.
    fn catalog(&self) -> Arc<Catalog> {
        Arc::new(Catalog::new(self.resources()))
    }
}

/// A group with its versions, preferred first.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<(String, Vec<Arc<ApiResource>>)>,
}

/// A snapshot of what is served.
#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) groups: Vec<Group>,
    /// Its documents of aggregated discovery once they were asked for: of the named groups, of the core group.
    aggregated: [OnceLock<Printed>; 2],
}

/// An encoded document.
#[derive(Debug, Clone)]
pub(crate) struct Printed {
    pub(crate) json: Bytes,
    pub(crate) etag: String,
}

impl Catalog {
    pub(crate) fn new(resources: Vec<Arc<ApiResource>>) -> Self {
        let mut by_group: BTreeMap<String, BTreeMap<String, Vec<Arc<ApiResource>>>> = BTreeMap::new();
        for resource in resources {
            let versions = by_group.entry(resource.group.clone()).or_default();
            versions.entry(resource.version.clone()).or_default().push(resource);
        }
        let mut groups: Vec<Group> = by_group
            .into_iter()
            .map(|(name, versions)| {
                let mut versions: Vec<_> = versions.into_iter().collect();
                versions.sort_by(|a, b| compare_versions(&a.0, &b.0));
                Group { name, versions }
            })
            .collect();
        groups.sort_by_key(|group| Reverse(group_priority(&group.name)));
        Self { groups, aggregated: Default::default() }
    }

    /// The document of aggregated discovery of the core group or of all others, which is printed once.
    pub(crate) fn aggregated(&self, core: bool, print: impl FnOnce() -> Printed) -> &Printed {
        self.aggregated[usize::from(core)].get_or_init(print)
    }

    pub(crate) fn named_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| !group.name.is_empty())
    }

    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<&[Arc<ApiResource>]> {
        let group = self.groups.iter().find(|candidate| candidate.name == group)?;
        group.versions.iter().find(|(name, _)| name == version).map(|(_, resources)| resources.as_slice())
    }

    /// Group and version of everything served, in order.
    pub(crate) fn group_versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.groups
            .iter()
            .flat_map(|group| group.versions.iter().map(|(version, _)| (group.name.as_str(), version.as_str())))
    }
}

/// Higher comes first; groups of CustomResourceDefinitions share one low priority and follow by name.
fn group_priority(group: &str) -> u32 {
    match group {
        "apiregistration.k8s.io" => 20_000,
        "" => 18_000,
        "apps" => 17_800,
        "events.k8s.io" => 17_750,
        "authentication.k8s.io" => 17_700,
        "authorization.k8s.io" => 17_600,
        "autoscaling" => 17_500,
        "batch" => 17_400,
        "certificates.k8s.io" => 17_300,
        "networking.k8s.io" => 17_200,
        "policy" => 17_100,
        "rbac.authorization.k8s.io" => 17_000,
        "storage.k8s.io" => 16_800,
        "admissionregistration.k8s.io" | "apiextensions.k8s.io" => 16_700,
        "scheduling.k8s.io" => 16_600,
        "coordination.k8s.io" => 16_500,
        "node.k8s.io" => 16_300,
        "discovery.k8s.io" | "resource.k8s.io" => 16_200,
        "flowcontrol.apiserver.k8s.io" => 16_100,
        _ => 1000,
    }
}

/// Best version first: stable before beta before alpha, newer before older, anything else last by name.
pub(crate) fn compare_versions(left: &str, right: &str) -> Ordering {
    match (rank(left), rank(right)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// Maturity, major number, number within the maturity; `None` for names that are not Kubernetes versions.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let digits = version.strip_prefix('v')?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let major = digits[..end].parse().ok()?;
    let suffix = &digits[end..];
    if suffix.is_empty() {
        return Some((3, major, 0));
    }
    let (maturity, minor) = match (suffix.strip_prefix("beta"), suffix.strip_prefix("alpha")) {
        (Some(minor), _) => (2, minor),
        (_, Some(minor)) => (1, minor),
        _ => return None,
    };
    Some((maturity, major, minor.parse().ok()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
        let singular = kind.to_lowercase();
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: format!("{singular}s"),
            singular,
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            namespaced: true,
            verbs: ["create", "get", "list", "watch"].map(str::to_owned).to_vec(),
            ..ApiResource::default()
        }
    }

    pub(crate) fn sample() -> Catalog {
        let sub = |name: &str, kind: &str, group: &str, version: &str| ApiSubresource {
            name: name.to_owned(),
            kind: kind.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
        };
        let mut pods = resource("", "v1", "Pod");
        pods.short_names = vec!["po".to_owned()];
        pods.subresources = vec![sub("status", "Pod", "", "")];
        let mut deployments = resource("apps", "v1", "Deployment");
        deployments.subresources = vec![sub("scale", "Scale", "autoscaling", "v1")];
        let widgets = ["v1beta1", "v1"].map(|version| resource("example.com", version, "Widget"));
        Catalog::new([pods, deployments].into_iter().chain(widgets).map(Arc::new).collect())
    }

    #[test]
    fn versions_are_ordered_by_maturity_and_number() {
        let mut versions =
            vec!["foo1", "v1alpha1", "v2", "v1", "v10", "v1beta2", "v1beta10", "v2alpha1", "bar", "v1gamma1"];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta10", "v1beta2", "v2alpha1", "v1alpha1", "bar", "foo1", "v1gamma1"]
        );
    }

    #[test]
    fn groups_are_ordered_by_priority_and_then_by_name() {
        let resources = ["z.com", "batch", "", "a.com", "apps", "admissionregistration.k8s.io"];
        let catalog = Catalog::new(resources.iter().map(|group| Arc::new(resource(group, "v1", "X"))).collect());
        let names: Vec<&str> = catalog.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["", "apps", "batch", "admissionregistration.k8s.io", "a.com", "z.com"]);
    }

    #[test]
    fn resources_are_found_by_group_and_version() {
        let catalog = sample();
        assert_eq!(catalog.resources("example.com", "v1beta1").map(<[_]>::len), Some(1));
        assert!(catalog.resources("example.com", "v2").is_none());
        assert_eq!(catalog.group_versions().count(), 4);
        assert_eq!(catalog.named_groups().count(), 2);
    }
}
