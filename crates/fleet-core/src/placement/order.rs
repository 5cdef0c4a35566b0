//! The order of objects in a snapshot. It depends only on kind, version, namespace and name, so that the same objects
//! always have the same hash.
//!
//! It is not the order in which members apply the objects.

use super::inventory::Selected;

/// Kinds with a fixed position, whatever their group; all others come after them.
const KNOWN_KINDS: &[&str] = &[
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Sorts objects into the order of snapshots.
pub(super) fn sort(objects: &mut [Selected<'_>]) {
    objects.sort_by_cached_key(Place::of);
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: usize,
    /// `group/version` for known kinds; group, version and kind for others.
    kind: String,
    name: String,
}

impl Place {
    fn of(one: &Selected<'_>) -> Self {
        let rank = KNOWN_KINDS.iter().position(|known| *known == one.kind.kind);
        let kind = match rank {
            Some(_) => one.kind.api_version(),
            None => format!("{}/{}, Kind={}", one.kind.group, one.kind.version, one.kind.kind),
        };
        let name = format!("{}/{}", one.object.namespace(), one.object.name());
        Self { rank: rank.unwrap_or(KNOWN_KINDS.len()), kind, name }
    }
}
