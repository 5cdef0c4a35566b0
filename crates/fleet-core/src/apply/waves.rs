//! In which order manifests are applied: what others need comes first.
//!
//! Decides from group and resource alone. A wave never waits for the one before to be available, only for it to be applied.

use super::decode::Manifest;

/// Everything that is in no other wave: custom resources, mostly.
const LAST: u16 = 999;

/// Groups whose resources have a wave. Group and resource are looked up independently of each other.
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

const WAVES: &[&[&str]] = &[
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

/// The wave of a resource; lower ones come first.
pub fn wave_of(group: &str, resource: &str) -> u16 {
    if !GROUPS.contains(&group) {
        return LAST;
    }
    let place = WAVES.iter().position(|wave| wave.contains(&resource));
    place.and_then(|place| u16::try_from(place).ok()).unwrap_or(LAST)
}

/// Places of the manifests that can be applied, wave by wave; those of one wave in their order in the Work.
pub fn waves(manifests: &[Manifest<'_>]) -> Vec<Vec<usize>> {
    let mut sorted: Vec<(u16, usize)> = manifests
        .iter()
        .enumerate()
        .filter(|(_, manifest)| manifest.verdict.is_ok())
        .map(|(place, manifest)| (wave_of(&manifest.identifier.group, &manifest.identifier.resource), place))
        .collect();
    sorted.sort_unstable();
    sorted.chunk_by(|one, other| one.0 == other.0).map(|wave| wave.iter().map(|(_, place)| *place).collect()).collect()
}

/// The same places as one batch: where nothing is written there is no order.
pub fn one_batch(manifests: &[Manifest<'_>]) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..manifests.len()).filter(|place| manifests[*place].verdict.is_ok()).collect();
    if all.is_empty() { Vec::new() } else { vec![all] }
}
