//! The facts for a plan of a ClusterProfile, borrowed from the objects.

use fleet_api::conditions::Condition;
use fleet_api::kinds::{ClusterProfile, MemberCluster};
use fleet_api::names::ClusterName;
use fleet_api::types::{ClusterProfileSpec, ClusterProfileStatus, MemberClusterStatus};
use fleet_api::well_known::{finalizers, label_values, labels};
use jiff::SignedDuration;

/// Everything that a plan depends on.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The name of the member and of its ClusterProfile.
    pub cluster: &'a ClusterName,
    pub member: Option<MemberFacts<'a>>,
    /// The ClusterProfile of that name in the fleet's own namespace.
    pub profile: Option<ProfileFacts<'a>>,
    pub settings: Settings,
}

/// Settings of the hub agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Maximum age of a heartbeat of a healthy cluster. By default a single late heartbeat does not make a cluster
    /// unhealthy.
    pub unhealthy_after: Option<SignedDuration>,
}

#[derive(Debug, Clone, Copy)]
pub struct MemberFacts<'a> {
    pub generation: i64,
    pub leaving: bool,
    /// Whether the MemberCluster has the finalizer of this controller.
    pub has_finalizer: bool,
    pub heartbeat_period: SignedDuration,
    pub status: Option<&'a MemberClusterStatus>,
}

impl<'a> MemberFacts<'a> {
    pub fn of(member: &'a MemberCluster) -> Self {
        let metadata = &member.metadata;
        Self {
            generation: member.generation(),
            leaving: metadata.deletion_timestamp.is_some(),
            has_finalizer: metadata.finalizers.iter().flatten().any(|one| one == finalizers::CLUSTER_PROFILE),
            heartbeat_period: SignedDuration::from_secs(i64::from(member.spec.heartbeat_period_seconds())),
            status: member.status.as_ref(),
        }
    }

    pub(super) fn conditions(&self) -> &'a [Condition] {
        self.status.map_or(&[], |status| &status.conditions)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ProfileFacts<'a> {
    pub generation: i64,
    pub deleting: bool,
    /// Whether the label that names us as manager is correct.
    pub labelled: bool,
    pub spec: &'a ClusterProfileSpec,
    pub status: Option<&'a ClusterProfileStatus>,
}

impl<'a> ProfileFacts<'a> {
    pub fn of(profile: &'a ClusterProfile) -> Self {
        let metadata = &profile.metadata;
        let label = metadata.labels.as_ref().and_then(|all| all.get(labels::CLUSTER_MANAGER));
        Self {
            generation: profile.generation(),
            deleting: metadata.deletion_timestamp.is_some(),
            labelled: label.is_some_and(|manager| manager == label_values::CLUSTER_MANAGER),
            spec: &profile.spec,
            status: profile.status.as_ref(),
        }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.spec.cluster_manager.name == label_values::CLUSTER_MANAGER
    }
}
