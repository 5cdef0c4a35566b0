//! What is never placed: kinds, namespaces, and single objects that controllers create.

use std::collections::BTreeSet;

use fleet_api::kinds::{CLUSTER_GROUP, PLACEMENT_GROUP};
use fleet_api::well_known::{api_groups, namespaces};
use serde_json::Value;

use super::inventory::{GroupVersion, Inventory, Kind, LiveObject};

/// The kinds that are placed: all except those of a list, or only those of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Apis {
    /// All except the built-in list and these.
    AllBut(ApiList),
    Only(ApiList),
}

/// The options of the hub agent about propagation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Propagation {
    pub apis: Apis,
    /// Namespaces that are not placed, besides `default` and the reserved ones.
    pub skipped_namespaces: BTreeSet<String>,
    /// Workloads run on the hub, so its volume claims are bound there and useless elsewhere.
    pub workloads_on_hub: bool,
    /// Secrets are neither placed nor read.
    pub secrets_stay: bool,
}

impl Default for Propagation {
    fn default() -> Self {
        Self {
            apis: Apis::AllBut(ApiList::default()),
            skipped_namespaces: BTreeSet::new(),
            workloads_on_hub: false,
            secrets_stay: false,
        }
    }
}

/// Groups, versions and kinds as the agent's options list them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiList(Vec<ApiEntry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ApiEntry {
    group: String,
    version: Option<String>,
    kind: Option<String>,
}

/// Why an option is not a list of APIs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} names no API; it is GROUP, GROUP/VERSION, GROUP/VERSION/KIND[,KIND…] or v1/KIND[,KIND…]")]
pub struct ApiListError {
    pub entry: String,
}

/// Entries with this prefix belong to the core group.
const CORE_VERSION: &str = "v1";

impl ApiList {
    /// Parses entries separated by `;`.
    pub fn parse(text: &str) -> Result<Self, ApiListError> {
        let mut entries = Vec::new();
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let parts: Vec<&str> = entry.split('/').map(str::trim).collect();
            let (group, version, kinds) = match parts[..] {
                [group] => (group, None, None),
                [core, kinds] if core.starts_with(CORE_VERSION) => ("", Some(CORE_VERSION), Some(kinds)),
                [group, version] => (group, Some(version), None),
                [group, version, kinds] => (group, Some(version), Some(kinds)),
                _ => return Err(ApiListError { entry: entry.to_owned() }),
            };
            let one = |kind: Option<&str>| ApiEntry {
                group: group.to_owned(),
                version: version.map(str::to_owned),
                kind: kind.map(str::to_owned),
            };
            match kinds {
                None => entries.push(one(None)),
                Some(kinds) => entries.extend(kinds.split(',').map(|kind| one(Some(kind.trim())))),
            }
        }
        Ok(Self(entries))
    }

    /// Whether the list contains something of this group version.
    fn mentions(&self, part: &GroupVersion) -> bool {
        self.0.iter().any(|entry| entry.is_of(part))
    }

    /// Whether the list contains all of this group version.
    fn covers(&self, part: &GroupVersion) -> bool {
        self.0.iter().any(|entry| entry.is_of(part) && entry.kind.is_none())
    }

    fn contains(&self, kind: &GroupVersionKind<'_>) -> bool {
        self.0.iter().any(|entry| {
            entry.group == kind.group
                && entry.version.as_deref().is_none_or(|version| version == kind.version)
                && entry.kind.as_deref().is_none_or(|word| word == kind.kind)
        })
    }
}

impl ApiEntry {
    fn is_of(&self, part: &GroupVersion) -> bool {
        self.group == part.group && self.version.as_ref().is_none_or(|version| *version == part.version)
    }
}

/// A kind, whether the server serves it or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupVersionKind<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
}

impl<'a> From<&'a Kind> for GroupVersionKind<'a> {
    fn from(kind: &'a Kind) -> Self {
        Self { group: &kind.group, version: &kind.version, kind: &kind.kind }
    }
}

/// Groups that are never placed: reports of members, and objects that every cluster has for itself.
const BLOCKED_GROUPS: &[&str] = &[CLUSTER_GROUP, "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"];
const BLOCKED_CORE_KINDS: &[&str] = &["Pod", "Node"];
const BLOCKED_NETWORKING_KINDS: &[&str] = &["ServiceImport", "TrafficManagerProfile", "TrafficManagerBackend"];
/// Kinds of our own group that are meant for members; all others stay on the hub.
const PLACED_OWN_KINDS: &[&str] = &["ClusterResourceEnvelope", "ResourceEnvelope"];

impl Propagation {
    /// Whether objects of this kind are never placed.
    pub fn blocks_kind(&self, kind: GroupVersionKind<'_>) -> bool {
        self.keeps_as_secret(kind)
            || match &self.apis {
                Apis::Only(list) => !list.contains(&kind),
                Apis::AllBut(list) => is_blocked(kind) || list.contains(&kind),
            }
    }

    /// Whether the kind is Secret, and Secrets stay on the hub.
    pub fn keeps_as_secret(&self, kind: GroupVersionKind<'_>) -> bool {
        self.secrets_stay && kind == GroupVersionKind { group: "", version: "v1", kind: "Secret" }
    }

    /// Whether objects of this group version are never placed, whatever its kinds.
    pub(super) fn blocks_part(&self, part: &GroupVersion) -> bool {
        match &self.apis {
            Apis::Only(list) => !list.mentions(part),
            Apis::AllBut(list) => BLOCKED_GROUPS.contains(&part.group.as_str()) || list.covers(part),
        }
    }

    /// Whether objects of this kind are placed with their namespace. Core events are served in another group too, and
    /// are excluded if that is blocked.
    pub fn sweeps_kind(&self, kind: &Kind) -> bool {
        let twin = GroupVersionKind { group: "events.k8s.io", version: "v1", kind: "Event" };
        let stays_with_twin = kind.is("", "v1", "Event") && self.blocks_kind(twin);
        !stays_with_twin && !self.blocks_kind(kind.into())
    }

    /// Whether the content of this namespace is never placed with it.
    pub fn blocks_namespace(&self, namespace: &str) -> bool {
        namespaces::is_reserved(namespace) || namespace == "default" || self.skipped_namespaces.contains(namespace)
    }

    /// Whether an object may be placed: it is not one that controllers create in every cluster.
    pub(super) fn lets_object_through(&self, kind: &Kind, object: LiveObject<'_>, inventory: &dyn Inventory) -> bool {
        match (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()) {
            ("apps", "v1", "ReplicaSet" | "ControllerRevision") => !object.is_owned(),
            ("", "v1", "ConfigMap") => object.name() != "kube-root-ca.crt",
            ("", "v1", "ServiceAccount") => object.name() != "default",
            ("", "v1", "Secret") => {
                object.0.get("type").and_then(Value::as_str) != Some("kubernetes.io/service-account-token")
            }
            ("", "v1", "PersistentVolumeClaim") => !self.workloads_on_hub,
            ("", "v1", "Endpoints") => inventory
                .kind("", "v1", "Service")
                .is_none_or(|service| inventory.get(service, object.namespace(), object.name()).is_none()),
            ("discovery.k8s.io", "v1", "EndpointSlice") => {
                !object.labels().contains_key("endpointslice.kubernetes.io/managed-by")
            }
            _ => true,
        }
    }
}

fn is_blocked(kind: GroupVersionKind<'_>) -> bool {
    match kind.group {
        "" => kind.version == "v1" && BLOCKED_CORE_KINDS.contains(&kind.kind),
        PLACEMENT_GROUP => !PLACED_OWN_KINDS.contains(&kind.kind),
        api_groups::NETWORKING => BLOCKED_NETWORKING_KINDS.contains(&kind.kind),
        group => BLOCKED_GROUPS.contains(&group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_19_secrets_are_not_placed_if_disabled() {
        for apis in [Apis::AllBut(ApiList::default()), Apis::Only(ApiList::parse("v1/Secret,ConfigMap").unwrap())] {
            let placing = Propagation { apis, ..Propagation::default() };
            let keeping = Propagation { secrets_stay: true, ..placing.clone() };
            assert!(!placing.blocks_kind(kind("/v1/Secret")) && keeping.blocks_kind(kind("/v1/Secret")));
            assert!(!keeping.blocks_kind(kind("/v1/ConfigMap")));
        }
    }

    fn kind(text: &str) -> GroupVersionKind<'_> {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap();
        GroupVersionKind { group: next(), version: next(), kind: next() }
    }

    fn propagation(apis: Apis) -> Propagation {
        Propagation { apis, ..Propagation::default() }
    }

    #[test]
    fn kinds_of_the_hub_are_blocked_and_envelopes_are_not() {
        let propagation = Propagation::default();
        for blocked in [
            "/v1/Pod",
            "/v1/Node",
            "cluster.kubernetes-fleet.io/v1beta1/MemberCluster",
            "coordination.k8s.io/v1/Lease",
            "events.k8s.io/v1/Event",
            "networking.fleet.azure.com/v1alpha1/ServiceImport",
            "placement.kubernetes-fleet.io/v1beta1/Work",
            "placement.kubernetes-fleet.io/v1beta1/ClusterResourcePlacementStatus",
        ] {
            assert!(propagation.blocks_kind(kind(blocked)), "{blocked}");
        }
        for placed in [
            "/v1/ConfigMap",
            "/v1/Event",
            "networking.fleet.azure.com/v1alpha1/ServiceExport",
            "placement.kubernetes-fleet.io/v1beta1/ResourceEnvelope",
            "placement.kubernetes-fleet.io/v1beta1/ClusterResourceEnvelope",
        ] {
            assert!(!propagation.blocks_kind(kind(placed)), "{placed}");
        }
    }

    #[test]
    fn lists_name_groups_versions_and_kinds() {
        let list = ApiList::parse("a.io; b.io/v2;c.io/v1/X, Y;v1/Secret,Service;v1beta1/Odd;").unwrap();
        let skipping = propagation(Apis::AllBut(list.clone()));
        let only = propagation(Apis::Only(list));
        for (text, listed) in [
            ("a.io/v9/Any", true),
            ("b.io/v2/Any", true),
            ("b.io/v1/Any", false),
            ("c.io/v1/X", true),
            ("c.io/v1/Y", true),
            ("c.io/v1/Z", false),
            ("/v1/Secret", true),
            ("/v1/Service", true),
            ("/v1/Odd", true),
            ("/v1/ConfigMap", false),
        ] {
            assert_eq!(skipping.blocks_kind(kind(text)), listed, "{text}");
            assert_eq!(only.blocks_kind(kind(text)), !listed, "{text}");
        }
        assert!(skipping.blocks_kind(kind("/v1/Pod")));
        let error = ApiList::parse("a/b/c/d").unwrap_err();
        assert_eq!(error, ApiListError { entry: "a/b/c/d".to_owned() });
    }

    #[test]
    fn a_group_version_is_blocked_if_all_its_kinds_are() {
        let list = || ApiList::parse("a.io; b.io/v2;c.io/v1/X").unwrap();
        let (skipping, only) = (propagation(Apis::AllBut(list())), propagation(Apis::Only(list())));
        for (group, version, skipped, left_out) in [
            ("a.io", "v9", true, false),
            ("b.io", "v2", true, false),
            ("b.io", "v1", false, true),
            ("c.io", "v1", false, false),
            ("metrics.k8s.io", "v1beta1", true, true),
        ] {
            let part = GroupVersion::new(group, version);
            assert_eq!((skipping.blocks_part(&part), only.blocks_part(&part)), (skipped, left_out), "{part}");
        }
    }

    #[test]
    fn reserved_and_skipped_namespaces_are_not_placed() {
        let skipped = BTreeSet::from(["ops".to_owned()]);
        let propagation = Propagation { skipped_namespaces: skipped, ..Propagation::default() };
        for (namespace, blocked) in
            [("kube-system", true), ("fleet-member-a", true), ("default", true), ("ops", true), ("shop", false)]
        {
            assert_eq!(propagation.blocks_namespace(namespace), blocked, "{namespace}");
        }
    }

    #[test]
    fn core_events_are_selected_only_if_both_groups_of_events_are_placed() {
        let event = Kind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Event".to_owned(),
            plural: "events".to_owned(),
            namespaced: true,
            preferred: true,
        };
        assert!(!Propagation::default().sweeps_kind(&event));
        let both = ApiList::parse("v1/Event;events.k8s.io").unwrap();
        assert!(propagation(Apis::Only(both)).sweeps_kind(&event));
    }
}
