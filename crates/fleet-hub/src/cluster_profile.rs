//! The controller of ClusterProfiles, one for each joined member; `fleet_core::membership::profile` plans.
//!
//! While a member or its ClusterProfile cannot be read, the ClusterProfile stays as it is.

use fleet_api::kinds::{ClusterProfile, MemberCluster};
use fleet_api::names::ClusterName;
use fleet_api::well_known::{finalizers, namespaces};
use fleet_core::membership::profile::{
    MemberFacts, Observed, ProfileFacts, Settings, WantedProfile, Write as Planned, plan,
};
use fleet_runtime::{Actions, Cache, Controller, ObjectKey, PlanInput, Runtime, Triggers, Write};

use crate::caches::Caches;
use crate::membership::signed;
use crate::meta::{changed, with_finalizer, without_finalizer};
use crate::names;
use crate::options::HubOptions;

/// Starts the controller if ClusterProfiles are enabled.
pub(crate) fn start(runtime: &mut Runtime, options: &HubOptions, caches: &Caches) {
    let Some(profiles) = caches.profiles.clone() else { return };
    let settings = Settings { unhealthy_after: options.unhealthy_after.map(signed) };
    let triggers = Triggers::new()
        .on(&caches.members, |event| ClusterName::parse(event.key().name()).ok())
        .on(&profiles, |event| ClusterName::parse(event.key().name()).ok());
    let inventory = Inventory { members: caches.members.clone(), profiles, settings };
    runtime.controller(inventory, triggers, options.member_workers());
}

struct Inventory {
    members: Cache<MemberCluster>,
    profiles: Cache<ClusterProfile>,
    settings: Settings,
}

impl Controller for Inventory {
    const NAME: &'static str = names::CLUSTER_PROFILE;
    type Key = ClusterName;
    type Facts = ();

    fn plan(&self, key: &ClusterName, _: Option<()>, input: PlanInput) -> Actions {
        let member_key = ObjectKey::cluster(key.as_str());
        let profile_key = ObjectKey::namespaced(namespaces::FLEET_SYSTEM, key.as_str());
        if self.members.is_unreadable(&member_key) || self.profiles.is_unreadable(&profile_key) {
            let note = Some("waiting until the MemberCluster and its ClusterProfile can be read".to_owned());
            return Actions { note, ..Actions::none() };
        }
        let (member, profile) = (self.members.get(&member_key), self.profiles.get(&profile_key));
        let observed = Observed {
            cluster: key,
            member: member.as_deref().map(MemberFacts::of),
            profile: profile.as_deref().map(ProfileFacts::of),
            settings: self.settings,
        };
        let plan = plan(&observed, input.now);
        if plan.report.reverted {
            tracing::warn!(profile = %key, "another writer changed a ClusterProfile; reverting the change");
        }
        let mut actions = Actions::none().with_wake(plan.wake);
        for planned in &plan.writes {
            actions.writes.extend(write(planned, member.as_deref(), profile.as_deref()));
        }
        if let Some(status) = plan.status {
            // A ClusterProfile that this plan creates has no resource version yet.
            let base =
                profile.map_or_else(|| WantedProfile { cluster: key.clone() }.object(), |found| (*found).clone());
            actions.write(Write::status(&base, &base.clone().with_status(status)));
        }
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }
}

/// Returns `None` if the object is not in the observation; a plan never refers to such an object.
fn write(planned: &Planned, member: Option<&MemberCluster>, profile: Option<&ClusterProfile>) -> Option<Write> {
    match planned {
        Planned::AddMemberFinalizer => {
            Some(Write::change(member?, &with_finalizer(member?, finalizers::CLUSTER_PROFILE)))
        }
        Planned::RemoveMemberFinalizer => {
            Some(Write::change(member?, &without_finalizer(member?, finalizers::CLUSTER_PROFILE)))
        }
        Planned::CreateProfile(wanted) => Some(Write::create(&wanted.object())),
        Planned::UpdateProfile(wanted) => Some(changed(profile?, |profile| {
            profile.spec = wanted.spec();
            profile.metadata.labels.get_or_insert_default().extend(WantedProfile::labels());
        })),
        Planned::DeleteProfile { .. } => Some(Write::delete(profile?)),
    }
}
