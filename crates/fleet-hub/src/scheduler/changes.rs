//! Which placements are scheduled again when something changes.
//!
//! Decides what of a change can lead to another choice of clusters. Most of what members report does not: heartbeats wake
//! nobody. Never schedules.

use std::collections::BTreeSet;

use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::conditions::{ConditionStatus, decode_ignoring_generation};
use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope};
use fleet_api::names::{ClusterName, PlacementKey};
use fleet_api::types::{ObservedCluster, PlacementPolicy, PlacementType, ResourceList};
use fleet_api::well_known::annotations;
use fleet_core::scheduler::{ClusterFacts, EligibilityLimits, eligibility};
use fleet_runtime::{Cache, Clock, Event};
use jiff::Timestamp;

use crate::caches::by;
use crate::keys::{key_of, parent_of};
use crate::meta;

/// A placement is scheduled for the first time when its policy snapshot comes; of its own changes only its end counts.
pub(super) fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let placement = event.new?;
    let is_news = event.old.is_none_or(|old| !meta::is_deleting(old) && meta::is_deleting(placement));
    key_of(placement).filter(|_| is_news)
}

/// What the scheduler reads of a policy snapshot, and the moment when it stops being fulfilled: members that changed
/// while that was being found out were not told of it.
pub(super) fn on_policy_snapshot<S: Scope>(event: Event<'_, Obj<PolicySnapshot, S>>) -> Vec<PlacementKey> {
    let has_changed = event.changed(|snapshot| {
        let number = meta::annotation(snapshot, annotations::NUMBER_OF_CLUSTERS);
        let generation = meta::annotation(snapshot, annotations::PLACEMENT_GENERATION);
        (number, generation, meta::is_latest(snapshot), meta::is_deleting(snapshot), parent_of(snapshot))
    });
    let lapsed = matches!((event.old, event.new), (Some(old), Some(new)) if is_fulfilled(old) && !is_fulfilled(new));
    if !lapsed && !has_changed {
        return Vec::new();
    }
    event.sides().filter_map(parent_of).collect()
}

/// A binding that goes frees its place, whoever deletes it. One that says that its resources stay may go itself.
pub(super) fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> Option<PlacementKey> {
    let was_there = event.old.is_some_and(|old| !meta::is_deleting(old));
    let is_going = event.new.is_none_or(meta::is_deleting);
    // One that was going when this process started must be let go of too.
    let found_going = event.old.is_none() && event.new.is_some_and(meta::is_deleting);
    let abandoned = |binding: &Obj<Binding, S>| meta::annotation(binding, annotations::DELETE_PROPAGATION).is_some();
    let is_settled = event.new.is_some_and(abandoned) && !event.old.is_some_and(abandoned);
    let binding = event.new.or(event.old)?;
    parent_of(binding).filter(|_| (was_there && is_going) || found_going || is_settled)
}

/// The value under which `by::OPEN` has all snapshots that members may be added to.
pub(crate) const OPEN: &str = "open";

/// Whether a change in the fleet may change what this policy leads to: it takes every cluster that fits, or it has not got
/// what it wants.
pub(crate) fn is_open<S: Scope>(snapshot: &Obj<PolicySnapshot, S>) -> bool {
    let takes_all = snapshot
        .spec
        .policy
        .as_ref()
        .is_none_or(|policy: &PlacementPolicy| policy.placement_type() == PlacementType::PickAll);
    meta::is_latest(snapshot) && (takes_all || !is_fulfilled(snapshot))
}

fn is_fulfilled<S: Scope>(snapshot: &Obj<PolicySnapshot, S>) -> bool {
    let conditions = snapshot.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    decode_ignoring_generation::<PolicySnapshotScheduled>(conditions)
        .any()
        .is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Which placements a change of a member concerns.
pub(super) struct FleetChanges<S: Scope> {
    pub(super) members: Cache<MemberCluster>,
    pub(super) policy_snapshots: Cache<Obj<PolicySnapshot, S>>,
    pub(super) bindings: Cache<Obj<Binding, S>>,
    pub(super) limits: EligibilityLimits,
    pub(super) clock: Clock,
}

impl<S: Scope> FleetChanges<S> {
    pub(super) fn concerned(&self, event: Event<'_, MemberCluster>) -> BTreeSet<PlacementKey> {
        // While members are listed for the first time, no placement has been looked at: each will be, with all of them.
        if !self.members.is_synced() || !matters(event, self.clock.now(), self.limits) {
            return BTreeSet::new();
        }
        let open = self.policy_snapshots.by(by::OPEN, OPEN);
        let mut concerned: BTreeSet<PlacementKey> = open.iter().filter_map(|snapshot| parent_of(&**snapshot)).collect();
        if event.new.is_none() {
            let stranded = self.bindings.by(by::CLUSTER, event.key().name());
            concerned.extend(stranded.iter().filter_map(|binding| parent_of(&**binding)));
        }
        concerned
    }
}

/// Whether a cluster may be picked that was not, or is gone. Growing old, sick or tainted takes nothing from anybody, and
/// a cluster that is leaving is waited for.
fn matters(event: Event<'_, MemberCluster>, now: Timestamp, limits: EligibilityLimits) -> bool {
    let is_eligible = |member: &MemberCluster| {
        let name = ClusterName::parse(meta::name(member));
        name.is_ok_and(|name| eligibility(&ClusterFacts::of(name, member), now, limits).is_ok())
    };
    let Some(new) = event.new else { return true };
    if meta::is_deleting(new) {
        return false;
    }
    let Some(old) = event.old else { return is_eligible(new) };
    labels_differ(old, new)
        || lost_a_taint(old, new)
        || reports_differ(old, new)
        || (!is_eligible(old) && is_eligible(new))
}

fn labels_differ(old: &MemberCluster, new: &MemberCluster) -> bool {
    let [old, new] = [old, new].map(|member| member.metadata.labels.as_ref().filter(|labels| !labels.is_empty()));
    old != new
}

fn lost_a_taint(old: &MemberCluster, new: &MemberCluster) -> bool {
    old.spec.taints.iter().any(|taint| !new.spec.taints.contains(taint))
}

/// What agents report and policies read, but for the times of the reports.
fn reports_differ(old: &MemberCluster, new: &MemberCluster) -> bool {
    let [old, new] = [old, new].map(|member| member.status.as_ref().map(|status| &status.observed));
    !properties(old).eq(properties(new)) || !namespaces(old).eq(namespaces(new)) || usage(old) != usage(new)
}

fn properties(observed: Option<&ObservedCluster>) -> impl Iterator<Item = (&String, &String)> {
    let all = observed.into_iter().flat_map(|observed| &observed.properties);
    all.map(|(name, property)| (name, &property.value))
}

fn namespaces(observed: Option<&ObservedCluster>) -> impl Iterator<Item = (&String, &String)> {
    observed.into_iter().flat_map(|observed| &observed.namespaces)
}

fn usage(observed: Option<&ObservedCluster>) -> Option<[&ResourceList; 3]> {
    let usage = observed?.resource_usage.as_ref()?;
    Some([&usage.capacity, &usage.allocatable, &usage.available])
}

#[cfg(test)]
mod tests {
    use fleet_api::kinds::{Cluster, Namespaced};
    use fleet_core::scheduler::EligibilityLimits;
    use fleet_runtime::ObjectKey;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    /// A healthy member, with these fields merged over it.
    fn member(over: Value) -> MemberCluster {
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "R", "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let mut object = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": "c1"},
            "spec": {"identity": {"kind": "User", "name": "c1"}, "taints": []},
            "status": {
                "conditions": [],
                "properties": {"nodes": {"value": "3", "observationTime": "2026-01-01T00:59:00Z"}},
                "resourceUsage": {"capacity": {"cpu": "4"}, "observationTime": "2026-01-01T00:59:00Z"},
                "agentStatus": [{
                    "type": "MemberAgent", "conditions": [condition("Joined"), condition("Healthy")],
                    "lastReceivedHeartbeat": "2026-01-01T00:59:00Z",
                }],
            },
        });
        fleet_runtime::diff::apply_merge_patch(&mut object, &over);
        serde_json::from_value(object).unwrap()
    }

    fn check(old: Option<Value>, new: Option<Value>) -> bool {
        let (old, new) = (old.map(member), new.map(member));
        let key = ObjectKey::cluster("c1");
        let event = Event::new(&key, old.as_ref(), new.as_ref());
        matters(event, NOW.parse().unwrap(), EligibilityLimits::default())
    }

    fn heartbeat(at: &str) -> Value {
        let mut agents = serde_json::to_value(member(json!({}))).unwrap()["status"]["agentStatus"].take();
        agents[0]["lastReceivedHeartbeat"] = json!(at);
        json!({"status": {"agentStatus": agents}})
    }

    #[test]
    fn heartbeats_alone_wake_nobody_and_the_first_after_a_silence_does() {
        assert!(!check(Some(heartbeat("2026-01-01T00:58:00Z")), Some(heartbeat("2026-01-01T00:59:00Z"))));
        assert!(check(Some(heartbeat("2026-01-01T00:50:00Z")), Some(heartbeat("2026-01-01T01:00:00Z"))));
        assert!(!check(Some(heartbeat("2026-01-01T00:40:00Z")), Some(heartbeat("2026-01-01T00:50:00Z"))));
    }

    #[test]
    fn members_matter_when_they_come_change_or_are_gone() {
        let same = || Some(json!({}));
        assert!(!check(same(), same()));
        assert!(check(None, same()), "one that is found eligible, after a watch was cut");
        assert!(!check(None, Some(json!({"status": null}))));
        assert!(check(Some(json!({"status": null})), same()));
        assert!(!check(same(), Some(json!({"status": {"agentStatus": []}}))), "becoming ineligible");
        assert!(check(same(), None));
        assert!(check(same(), Some(json!({"metadata": {"labels": {"region": "east"}}}))));
        assert!(!check(Some(json!({"metadata": {"labels": {}}})), same()));
        let leaving = json!({"metadata": {"deletionTimestamp": NOW, "labels": {"region": "east"}}});
        assert!(!check(same(), Some(leaving)), "a leaving member is waited for");
    }

    #[test]
    fn a_taint_matters_when_it_goes() {
        let tainted = || Some(json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}));
        assert!(!check(Some(json!({})), tainted()));
        assert!(check(tainted(), Some(json!({}))));
        let other = json!({"spec": {"taints": [{"key": "a", "value": "c", "effect": "NoSchedule"}]}});
        assert!(check(tainted(), Some(other)));
    }

    #[test]
    fn reports_matter_for_what_they_say_and_not_for_when() {
        let with = |status: Value| Some(json!({"status": status}));
        let later =
            json!({"properties": {"nodes": {"observationTime": NOW}}, "resourceUsage": {"observationTime": NOW}});
        assert!(!check(with(json!({})), with(later)));
        assert!(check(with(json!({})), with(json!({"properties": {"nodes": {"value": "4"}}}))));
        assert!(check(with(json!({})), with(json!({"properties": {"more": {"value": "4", "observationTime": NOW}}}))));
        assert!(check(with(json!({})), with(json!({"resourceUsage": {"capacity": {"cpu": "5"}}}))));
        assert!(check(with(json!({})), with(json!({"namespaces": {"shop": ""}}))));
    }

    fn object<F: fleet_api::kinds::Family, S: Scope>(metadata: Value, rest: Value) -> Obj<F, S> {
        let mut object = json!({"metadata": {"name": "x", "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}});
        fleet_runtime::diff::apply_merge_patch(&mut object, &json!({"metadata": metadata}));
        fleet_runtime::diff::apply_merge_patch(&mut object, &rest);
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn of_a_placement_only_its_coming_and_its_end_count() {
        let placement =
            |metadata: Value| object::<Placement, Cluster>(metadata, json!({"spec": {"resourceSelectors": []}}));
        let (plain, edited, going) = (
            placement(json!({"generation": 1})),
            placement(json!({"generation": 2})),
            placement(json!({"generation": 2, "deletionTimestamp": NOW})),
        );
        let key = ObjectKey::cluster("web");
        let on = |old, new| on_placement(Event::new(&key, old, new)).map(|key| key.to_string());
        assert_eq!(on(None, Some(&plain)).as_deref(), Some("x"));
        assert_eq!(on(Some(&plain), Some(&edited)), None);
        assert_eq!(on(Some(&edited), Some(&going)).as_deref(), Some("x"));
        assert_eq!(on(Some(&going), Some(&going)), None);
        assert_eq!(on(Some(&going), None), None);
    }

    #[test]
    fn a_binding_that_goes_frees_its_place() {
        let spec = json!({"spec": {"state": "Bound", "resourceSnapshotName": "", "schedulingPolicySnapshotName": "",
            "targetCluster": "c1", "clusterDecision": {"clusterName": "c1", "selected": true, "reason": ""}}});
        let binding = |metadata: Value| object::<Binding, Namespaced>(metadata, spec.clone());
        let there = binding(json!({"namespace": "shop"}));
        let going = binding(json!({"namespace": "shop", "deletionTimestamp": NOW}));
        let key = ObjectKey::cluster("web");
        let on = |old, new| on_binding(Event::new(&key, old, new)).map(|key| key.to_string());
        assert_eq!(on(None, Some(&there)), None);
        assert_eq!(on(Some(&there), Some(&going)).as_deref(), Some("shop/web"));
        assert_eq!(on(Some(&going), None), None);
        assert_eq!(on(Some(&there), None).as_deref(), Some("shop/web"));
        assert_eq!(on(None, Some(&going)).as_deref(), Some("shop/web"));
    }

    #[test]
    fn of_a_policy_snapshot_counts_what_scheduling_reads() {
        let snapshot = |metadata: Value, scheduled: &str| {
            let condition = json!({"type": "Scheduled", "status": scheduled, "reason": "R", "message": "",
                "observedGeneration": 1, "lastTransitionTime": NOW});
            let policy = json!({"placementType": "PickN", "numberOfClusters": 1});
            let rest = json!({"spec": {"policy": policy, "policyHash": ""}, "status": {
                "conditions": [condition], "observedCRPGeneration": 1, "targetClusters": []}});
            object::<PolicySnapshot, Cluster>(metadata, rest)
        };
        let marked = |number: &str| {
            json!({"labels": {"kubernetes-fleet.io/is-latest-snapshot": "true"},
                "annotations": {"kubernetes-fleet.io/number-of-clusters": number}})
        };
        let key = ObjectKey::cluster("web");
        let on = |old: &_, new: &_| on_policy_snapshot(Event::new(&key, Some(old), Some(new))).len();
        let fulfilled = snapshot(marked("1"), "True");
        let unfulfilled = snapshot(marked("1"), "False");
        assert_eq!(on(&unfulfilled, &fulfilled), 0, "our own verdict");
        assert_ne!(on(&fulfilled, &unfulfilled), 0, "members may have come while it was found");
        assert_ne!(on(&fulfilled, &snapshot(marked("2"), "True")), 0);
        assert_ne!(on(&fulfilled, &snapshot(json!({}), "True")), 0);
        assert_eq!((is_open(&fulfilled), is_open(&unfulfilled)), (false, true));
        assert!(!is_open(&snapshot(json!({}), "False")), "an old one");
    }
}
