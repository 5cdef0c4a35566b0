//! The simulated kinds and their names in the API.

use apiserver::simulation::StorageKey;

/// In the order of processing: kinds that others depend on come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Node,
    Claim,
    Service,
    Ingress,
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    ReplicaSet,
    Pod,
    DisruptionBudget,
}

/// The names of a kind in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
}

const fn names(group: &'static str, plural: &'static str, kind: &'static str) -> Names {
    Names { group, version: "v1", plural, kind }
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Node,
        Self::Claim,
        Self::Service,
        Self::Ingress,
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::ReplicaSet,
        Self::Pod,
        Self::DisruptionBudget,
    ];

    pub(super) const fn names(self) -> Names {
        match self {
            Self::Node => names("", "nodes", "Node"),
            Self::Claim => names("", "persistentvolumeclaims", "PersistentVolumeClaim"),
            Self::Service => names("", "services", "Service"),
            Self::Ingress => names("networking.k8s.io", "ingresses", "Ingress"),
            Self::Deployment => names("apps", "deployments", "Deployment"),
            Self::StatefulSet => names("apps", "statefulsets", "StatefulSet"),
            Self::DaemonSet => names("apps", "daemonsets", "DaemonSet"),
            Self::Job => names("batch", "jobs", "Job"),
            Self::ReplicaSet => names("apps", "replicasets", "ReplicaSet"),
            Self::Pod => names("", "pods", "Pod"),
            Self::DisruptionBudget => names("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
        }
    }

    pub(super) fn storage(self) -> StorageKey {
        StorageKey::new(self.names().group, self.names().plural)
    }

    pub(super) fn api_version(self) -> String {
        match self.names() {
            Names { group: "", version, .. } => version.to_owned(),
            Names { group, version, .. } => format!("{group}/{version}"),
        }
    }

    pub(super) fn of_storage(resource: &StorageKey) -> Option<Self> {
        let (plural, group) = resource.as_str().split_once('.').unwrap_or((resource.as_str(), ""));
        Self::ALL.into_iter().find(|kind| kind.names().plural == plural && kind.names().group == group)
    }

    pub(super) fn of_owner(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::ALL.into_iter().find(|one| one.names().kind == kind && one.names().group == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_storage_and_as_an_owner() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_storage(&kind.storage()), Some(kind));
            assert_eq!(Kind::of_owner(&kind.api_version(), kind.names().kind), Some(kind));
        }
        assert_eq!(Kind::of_storage(&StorageKey::new("example.com", "pods")), None);
        assert_eq!(Kind::of_owner("example.com/v1", "Pod"), None);
    }
}
