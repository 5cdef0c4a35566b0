//! The order in which manifests are applied: dependencies come first.
//!
//! Only group and resource decide. A batch waits until the previous one is applied, not until it is available.

use super::decode::Manifest;

/// Everything that is in no other batch: mostly custom resources.
const LAST: u16 = 999;

/// Groups whose resources have a batch. Group and resource are looked up independently of each other.
const GROUPS: &[&str] = &[
    "",
    "networking.k8s.io",
    "scheduling.k8s.io",
    "policy",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "rbac.authorization.k8s.io",
    "apps",
    "autoscaling",
    "apiregistration.k8s.io",
    "admissionregistration.k8s.io",
    "batch",
];

const BATCHES: &[&[&str]] = &[
    &["namespaces", "priorityclasses"],
    &[
        "networkpolicies",
        "resourcequotas",
        "limitranges",
        "podsecuritypolicies",
        "poddisruptionbudgets",
        "serviceaccounts",
        "secrets",
        "configmaps",
        "storageclasses",
        "persistentvolumes",
        "persistentvolumeclaims",
        "customresourcedefinitions",
        "ingressclasses",
    ],
    &["clusterroles", "roles"],
    &["clusterrolebindings", "rolebindings"],
    &[
        "services",
        "daemonsets",
        "pods",
        "replicationcontrollers",
        "replicasets",
        "deployments",
        "horizontalpodautoscalers",
        "statefulsets",
        "jobs",
        "cronjobs",
        "ingresses",
    ],
    &["apiservices", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
];

/// The batch of a resource; lower numbers are applied first.
pub fn batch_of(group: &str, resource: &str) -> u16 {
    if !GROUPS.contains(&group) {
        return LAST;
    }
    let place = BATCHES.iter().position(|wave| wave.contains(&resource));
    place.and_then(|place| u16::try_from(place).ok()).unwrap_or(LAST)
}

/// Indexes of the applicable manifests, batch by batch; within a batch in the order of the Work.
pub fn batches(manifests: &[Manifest<'_>]) -> Vec<Vec<usize>> {
    let mut sorted: Vec<(u16, usize)> = manifests
        .iter()
        .enumerate()
        .filter(|(_, manifest)| manifest.verdict.is_ok())
        .map(|(place, manifest)| (batch_of(&manifest.identifier.group, &manifest.identifier.resource), place))
        .collect();
    sorted.sort_unstable();
    sorted.chunk_by(|one, other| one.0 == other.0).map(|wave| wave.iter().map(|(_, place)| *place).collect()).collect()
}

/// The same indexes as one batch, for runs that write nothing.
pub fn one_batch(manifests: &[Manifest<'_>]) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..manifests.len()).filter(|place| manifests[*place].verdict.is_ok()).collect();
    if all.is_empty() { Vec::new() } else { vec![all] }
}
