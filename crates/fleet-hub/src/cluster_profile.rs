//! Runs the inventory: one ClusterProfile for each member that joined.
//!
//! Decides which change concerns which entry, and how each write of a plan becomes a request. While a member or its entry
//! cannot be read, the entry stays as it is. Never decides what an entry says: that is `fleet_core::membership::profile`.

use fleet_api::kinds::{ClusterProfile, MemberCluster};
use fleet_api::names::ClusterName;
use fleet_api::well_known::{finalizers, namespaces};
use fleet_core::membership::profile::{
    MemberFacts, Observed, ProfileFacts, Settings, WantedProfile, Write as Planned, plan,
};
use fleet_core::plan::Wake;
use fleet_runtime::{Actions, Cache, Controller, Moment, Next, ObjectKey, Runtime, Triggers, Write};

use crate::caches::Caches;
use crate::membership::{changed, signed};
use crate::meta::{with_finalizer, without_finalizer};
use crate::names;
use crate::options::HubOptions;

/// Starts the inventory, if it is turned on.
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

    fn plan(&self, key: &ClusterName, (): (), moment: Moment) -> Actions {
        let member_key = ObjectKey::cluster(key.as_str());
        let profile_key = ObjectKey::namespaced(namespaces::FLEET_SYSTEM, key.as_str());
        if self.members.is_broken(&member_key) || self.profiles.is_broken(&profile_key) {
            let note = Some("waits until the member and its entry can be read".to_owned());
            return Actions { note, ..Actions::none() };
        }
        let (member, profile) = (self.members.get(&member_key), self.profiles.get(&profile_key));
        let observed = Observed {
            cluster: key,
            member: member.as_deref().map(MemberFacts::of),
            profile: profile.as_deref().map(ProfileFacts::of),
            settings: self.settings,
        };
        let plan = plan(&observed, moment.now);
        if plan.report.reverted {
            tracing::warn!(profile = %key, "somebody else changed an entry of the inventory; the change is taken back");
        }
        let mut actions = Actions::none().then(match plan.wake {
            Wake::OnChange => Next::OnChange,
            Wake::At(instant) => Next::At(instant),
        });
        for planned in &plan.writes {
            actions.writes.extend(write(planned, member.as_deref(), profile.as_deref()));
        }
        if let Some(status) = plan.status {
            // An entry that this plan makes has no version yet, and nobody else to take it from.
            let base =
                profile.map_or_else(|| WantedProfile { cluster: key.clone() }.object(), |found| (*found).clone());
            actions.write(Write::status(&base, &base.clone().with_status(status)));
        }
        actions.note = Some(format!("{:?}", plan.report.outcome));
        actions
    }
}

/// `None` for what was not observed, of which no plan speaks.
fn write(planned: &Planned, member: Option<&MemberCluster>, profile: Option<&ClusterProfile>) -> Option<Write> {
    match planned {
        Planned::HoldMember => Some(Write::change(member?, &with_finalizer(member?, finalizers::CLUSTER_PROFILE))),
        Planned::ReleaseMember => {
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
