//! The ClusterProfile of a joined member, for other tools.
//!
//! A plan wakes by time when a heartbeat would be lost. Never takes over or deletes a ClusterProfile of another
//! manager.
//!
//! | file | step |
//! |---|---|
//! | `observed` | the facts |
//! | `status` | the status of the ClusterProfile |

mod observed;
mod status;

use std::collections::BTreeMap;

use fleet_api::conditions::decode;
use fleet_api::conditions::member::{ControlPlaneHealthy, MemberJoined};
use fleet_api::kinds::{ClusterProfile, Obj};
use fleet_api::names::ClusterName;
use fleet_api::types::{ClusterManager, ClusterProfileSpec, ClusterProfileStatus};
use fleet_api::well_known::{label_values, labels, namespaces};
use jiff::Timestamp;

pub use observed::{MemberFacts, Observed, ProfileFacts, Settings};

use crate::plan::{self, ObjectWrite, Wake};

pub type Plan = plan::Plan<Write, ClusterProfileStatus, Report>;

/// One write to the MemberCluster or to its ClusterProfile. The plan's status is that of the ClusterProfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Adds the finalizer of this controller to the MemberCluster.
    AddMemberFinalizer,
    /// Removes the finalizer of this controller from the MemberCluster.
    RemoveMemberFinalizer,
    CreateProfile(WantedProfile),
    /// Sets spec and label.
    UpdateProfile(WantedProfile),
    DeleteProfile {
        profile: ClusterName,
    },
}

impl ObjectWrite for Write {
    fn object(&self) -> (&'static str, &str) {
        match self {
            Write::AddMemberFinalizer | Write::RemoveMemberFinalizer => ("member", ""),
            Write::CreateProfile(WantedProfile { cluster: profile })
            | Write::UpdateProfile(WantedProfile { cluster: profile })
            | Write::DeleteProfile { profile } => ("profile", profile.as_str()),
        }
    }

    fn is_deletion(&self) -> bool {
        matches!(self, Write::DeleteProfile { .. })
    }

    fn removes_finalizer(&self) -> bool {
        matches!(self, Write::RemoveMemberFinalizer)
    }
}

/// A ClusterProfile as it should be, without status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedProfile {
    pub cluster: ClusterName,
}

impl WantedProfile {
    pub fn spec(&self) -> ClusterProfileSpec {
        ClusterProfileSpec {
            display_name: self.cluster.to_string(),
            cluster_manager: ClusterManager { name: label_values::CLUSTER_MANAGER.to_owned() },
        }
    }

    /// The labels that every ClusterProfile has.
    pub fn labels() -> BTreeMap<String, String> {
        BTreeMap::from([(labels::CLUSTER_MANAGER.to_owned(), label_values::CLUSTER_MANAGER.to_owned())])
    }

    pub fn object(&self) -> ClusterProfile {
        let mut object =
            Obj::named(self.cluster.to_string(), self.spec()).in_namespace(namespaces::FLEET_SYSTEM.to_owned());
        object.metadata.labels = Some(Self::labels());
        object
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub outcome: ProfileOutcome,
    /// Another writer had changed the ClusterProfile; the plan reverts that.
    pub reverted: bool,
}

/// The state of the ClusterProfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProfileOutcome {
    /// There is no such member, and no ClusterProfile of ours.
    Nothing,
    /// The member is being deleted or is gone; its ClusterProfile is deleted.
    Removing,
    /// The member has not joined in its current generation. An existing ClusterProfile stays as it is.
    AwaitingJoin,
    /// Another manager has a ClusterProfile of this name, and the manager is immutable.
    ManagedByAnother {
        manager: String,
    },
    /// The ClusterProfile is being deleted; a new one is created afterwards.
    ProfileTerminating,
    Kept(ControlPlaneHealthy),
}

/// Keeps one ClusterProfile for every joined member, with a current status.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let plan = match &observed.member {
        None => remove(observed, None),
        Some(member) if member.leaving => remove(observed, Some(member)),
        Some(member) => keep(observed, member, now),
    };
    debug_assert_eq!(plan::lint(&plan), Vec::<String>::new());
    plan
}

fn at(outcome: ProfileOutcome) -> Plan {
    Plan::nothing(Report { outcome, reverted: false })
}

fn remove(observed: &Observed<'_>, member: Option<&MemberFacts<'_>>) -> Plan {
    let ours = observed.profile.as_ref().is_some_and(|profile| profile.is_ours() && !profile.deleting);
    let held = member.is_some_and(|member| member.has_finalizer);
    let mut plan = at(if ours || held { ProfileOutcome::Removing } else { ProfileOutcome::Nothing });
    plan.writes.extend(ours.then(|| Write::DeleteProfile { profile: observed.cluster.clone() }));
    plan.writes.extend(held.then_some(Write::RemoveMemberFinalizer));
    plan
}

fn keep(observed: &Observed<'_>, member: &MemberFacts<'_>, now: Timestamp) -> Plan {
    if !decode::<MemberJoined>(member.conditions(), member.generation).is_true() {
        return at(ProfileOutcome::AwaitingJoin);
    }
    let wanted = WantedProfile { cluster: observed.cluster.clone() };
    let hold = (!member.has_finalizer).then_some(Write::AddMemberFinalizer);
    let (write, generation) = match &observed.profile {
        None => (Some(Write::CreateProfile(wanted)), 1),
        Some(profile) if !profile.is_ours() => {
            return at(ProfileOutcome::ManagedByAnother { manager: profile.spec.cluster_manager.name.clone() });
        }
        Some(profile) if profile.deleting => return at(ProfileOutcome::ProfileTerminating),
        Some(profile) if *profile.spec != wanted.spec() => (Some(Write::UpdateProfile(wanted)), profile.generation + 1),
        Some(profile) if !profile.labelled => (Some(Write::UpdateProfile(wanted)), profile.generation),
        Some(profile) => (None, profile.generation),
    };
    let (health, news_at) = status::health(member, observed.settings, now);
    let before = observed.profile.as_ref().and_then(|profile| profile.status);
    let status = status::update(before, member, &health, generation, now);
    let mut plan = at(ProfileOutcome::Kept(health));
    plan.report.reverted = matches!(write, Some(Write::UpdateProfile(_)));
    plan.writes = hold.into_iter().chain(write).collect();
    plan.status = (before != Some(&status)).then_some(status);
    plan.wake = news_at.map_or(Wake::OnChange, Wake::At);
    plan
}
