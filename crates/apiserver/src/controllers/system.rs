//! Creates the namespaces and PriorityClasses that every cluster has. Existing objects stay unchanged.

use serde_json::{Value, json};

use crate::registry::StorageKey;
use crate::registry::info::BUILT_IN_SHAPE;
use crate::rest::meta::printed_time;
use crate::server::Cluster;
use crate::store::{Action, Change, Encoded, Expect, Index};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const SCHEDULING: &str = "scheduling.k8s.io";
const PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub(super) fn create(cluster: &Cluster) {
    let namespaces = NAMESPACES.into_iter().map(|name| {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        ("", "namespaces", name, object)
    });
    let priorities = PRIORITIES.into_iter().map(|(name, value, description)| {
        let object = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name, "generation": 1},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        });
        (SCHEDULING, "priorityclasses", name, object)
    });
    let changes: Vec<Change> = namespaces
        .chain(priorities)
        .filter(|(group, plural, name, _)| {
            cluster.registry().is_built_in(group, plural)
                && cluster.store().peek(&StorageKey::new(group, plural), name).is_none()
        })
        .map(|(group, plural, name, object)| put(cluster, StorageKey::new(group, plural), name, object))
        .collect();
    if !changes.is_empty()
        && let Err(error) = cluster.store().commit_unsettled(changes, &[])
    {
        tracing::error!(%error, cluster = cluster.name(), "the objects of a new cluster could not be created");
    }
}

fn put(cluster: &Cluster, resource: StorageKey, name: &str, mut object: Value) -> Change {
    object["metadata"]["uid"] = cluster.identities().uid().into();
    object["metadata"]["creationTimestamp"] = printed_time(cluster.now()).into();
    let action = Action::Put { body: Encoded::new(&object), index: Index::of(&object), shape: BUILT_IN_SHAPE };
    Change { resource, key: name.into(), expect: Expect::Absent, action }
}
