//! Which placements a change enqueues for scheduling. Heartbeats and most reports of members enqueue none.

use std::collections::BTreeSet;

use fleet_api::conditions::policy_snapshot::PolicySnapshotScheduled;
use fleet_api::conditions::{ConditionStatus, decode_ignoring_generation};
use fleet_api::kinds::{Binding, MemberCluster, Obj, Placement, PolicySnapshot, Scope};
use fleet_api::names::{ClusterName, PlacementKey};
use fleet_api::types::{ObservedCluster, PlacementPolicy, PlacementType, ResourceList};
use fleet_api::well_known::annotations;
use fleet_core::scheduler::{ClusterFacts, EligibilityLimits, eligibility, unusable_properties};
use fleet_runtime::{Cache, Clock, Event};
use jiff::Timestamp;

use crate::caches::PlacementCaches;
use crate::keys::{key_of, parent_of};
use crate::meta;

/// A placement is scheduled when its policy snapshot is created; of its own changes only the deletion counts.
pub(super) fn on_placement<S: Scope>(event: Event<'_, Obj<Placement, S>>) -> Option<PlacementKey> {
    let placement = event.new?;
    let is_news = event.old.is_none_or(|old| !old.is_deleting() && placement.is_deleting());
    key_of(placement).filter(|_| is_news)
}

/// The fields of a policy snapshot that the scheduler reads, and the moment when the policy is no longer fulfilled:
/// changes of members before that did not enqueue the placement.
pub(super) fn on_policy_snapshot<S: Scope>(event: Event<'_, Obj<PolicySnapshot, S>>) -> Vec<PlacementKey> {
    let has_changed = event.changed(|snapshot| {
        let number = snapshot.annotation(annotations::NUMBER_OF_CLUSTERS);
        let generation = snapshot.annotation(annotations::PLACEMENT_GENERATION);
        (number, generation, meta::is_latest(snapshot), snapshot.is_deleting(), parent_of(snapshot))
    });
    let lapsed = matches!((event.old, event.new), (Some(old), Some(new)) if is_fulfilled(old) && !is_fulfilled(new));
    if !lapsed && !has_changed {
        return Vec::new();
    }
    event.versions().filter_map(parent_of).collect()
}

/// A deleted binding frees its slot, whoever deletes it. A binding that records that its resources stay may be
/// deleted itself.
pub(super) fn on_binding<S: Scope>(event: Event<'_, Obj<Binding, S>>) -> Option<PlacementKey> {
    let was_there = event.old.is_some_and(|old| !old.is_deleting());
    let is_going = event.new.is_none_or(Obj::is_deleting);
    // A binding that was already being deleted when this process started must be released too.
    let found_going = event.old.is_none() && event.new.is_some_and(Obj::is_deleting);
    let abandoned = |binding: &Obj<Binding, S>| binding.annotation(annotations::DELETE_PROPAGATION).is_some();
    let is_settled = event.new.is_some_and(abandoned) && !event.old.is_some_and(abandoned);
    let binding = event.new.or(event.old)?;
    parent_of(binding).filter(|_| (was_there && is_going) || found_going || is_settled)
}

/// Whether a change of a member may change the result of this policy: it picks every cluster that fits, or it has
/// fewer than it wants.
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

/// Whether the latest policy explains why it did not pick this cluster. After the cluster is gone, the explanation is
/// removed.
fn explains<S: Scope>(snapshot: &Obj<PolicySnapshot, S>, cluster: &str) -> bool {
    let decisions = snapshot.status.iter().flat_map(|status| &status.target_clusters);
    meta::is_latest(snapshot) && decisions.into_iter().any(|one| !one.selected && one.cluster_name == cluster)
}

/// Triggers for changes of members.
pub(super) struct FleetTriggers<S: Scope> {
    pub(super) members: Cache<MemberCluster>,
    pub(super) caches: PlacementCaches<S>,
    pub(super) limits: EligibilityLimits,
    pub(super) clock: Clock,
}

impl<S: Scope> FleetTriggers<S> {
    pub(super) fn concerned(&self, event: Event<'_, MemberCluster>) -> BTreeSet<PlacementKey> {
        // During the first list of members, every placement will be scheduled anyway.
        if !self.members.is_synced() {
            return BTreeSet::new();
        }
        let mut concerned = self.naming_values(event);
        if !matters(event, self.clock.now(), self.limits) {
            return concerned;
        }
        let open = self.caches.open_policy_snapshots.get(&true);
        concerned.extend(open.iter().filter_map(|snapshot| parent_of(&**snapshot)));
        if event.new.is_none() || is_replaced(event) {
            let stranded = self.caches.bindings_by_cluster.get(event.key().name());
            concerned.extend(stranded.iter().filter_map(|binding| parent_of(&**binding)));
            let snapshots = self.caches.policy_snapshots.list();
            let explaining = snapshots.iter().filter(|snapshot| explains(snapshot, event.key().name()));
            concerned.extend(explaining.filter_map(|snapshot| parent_of(&**snapshot)));
        }
        concerned
    }

    /// Placements whose status starts or stops to name an unusable value of the member.
    fn naming_values(&self, event: Event<'_, MemberCluster>) -> BTreeSet<PlacementKey> {
        if matches!((event.old, event.new), (Some(old), Some(new)) if !reports_differ(old, new)) {
            return BTreeSet::new();
        }
        let snapshots = self.caches.policy_snapshots.list();
        let changed =
            snapshots.iter().filter(|snapshot| meta::is_latest(&***snapshot) && names_others(snapshot, event));
        changed.filter_map(|snapshot| parent_of(&**snapshot)).collect()
    }
}

/// Whether the unusable values of the member have changed for this policy.
fn names_others<S: Scope>(snapshot: &Obj<PolicySnapshot, S>, event: Event<'_, MemberCluster>) -> bool {
    let policy = snapshot.spec.policy.as_ref();
    let [old, new] = [event.old, event.new].map(|member| {
        let facts = member.and_then(|member| Some(ClusterFacts::of(ClusterName::parse(member.name()).ok()?, member)));
        facts.map(|facts| unusable_properties(policy, &facts)).unwrap_or_default()
    });
    old != new
}

/// Whether the cluster may be picked now and could not before, or is gone. A cluster that becomes stale, unhealthy or
/// tainted keeps its bindings, and a leaving cluster is waited for.
fn matters(event: Event<'_, MemberCluster>, now: Timestamp, limits: EligibilityLimits) -> bool {
    let is_eligible = |member: &MemberCluster| {
        let name = ClusterName::parse(member.name());
        name.is_ok_and(|name| eligibility(&ClusterFacts::of(name, member), now, limits).is_ok())
    };
    let Some(new) = event.new else { return true };
    if is_replaced(event) {
        return true;
    }
    if new.is_deleting() {
        return false;
    }
    let Some(old) = event.old else { return is_eligible(new) };
    labels_differ(old, new)
        || lost_a_taint(old, new)
        || reports_differ(old, new)
        || (!is_eligible(old) && is_eligible(new))
}

/// Whether the cluster has left and another one has joined under its name.
fn is_replaced(event: Event<'_, MemberCluster>) -> bool {
    matches!((event.old, event.new), (Some(old), Some(new)) if old.metadata.uid != new.metadata.uid)
}

fn labels_differ(old: &MemberCluster, new: &MemberCluster) -> bool {
    let [old, new] = [old, new].map(|member| member.metadata.labels.as_ref().filter(|labels| !labels.is_empty()));
    old != new
}

fn lost_a_taint(old: &MemberCluster, new: &MemberCluster) -> bool {
    old.spec.taints.iter().any(|taint| !new.spec.taints.contains(taint))
}

/// Whether reported values that policies read have changed, ignoring timestamps.
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

    /// A healthy member with these fields merged over it.
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
        k8s_values::merge_patch::apply(&mut object, &over);
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
    fn heartbeats_enqueue_nothing_except_the_first_after_a_gap() {
        assert!(!check(Some(heartbeat("2026-01-01T00:58:00Z")), Some(heartbeat("2026-01-01T00:59:00Z"))));
        assert!(check(Some(heartbeat("2026-01-01T00:50:00Z")), Some(heartbeat("2026-01-01T01:00:00Z"))));
        assert!(!check(Some(heartbeat("2026-01-01T00:40:00Z")), Some(heartbeat("2026-01-01T00:50:00Z"))));
    }

    #[test]
    fn created_changed_and_deleted_members_enqueue_placements() {
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
        let back = |rest: Value| Some(json!({"metadata": {"uid": "2", "deletionTimestamp": rest}, "status": null}));
        assert!(check(same(), back(Value::Null)), "it has left and come back");
        assert!(check(same(), back(json!(NOW))), "it has left, come back and is leaving again");
    }

    #[test]
    fn removing_a_taint_enqueues_placements() {
        let tainted = || Some(json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}));
        assert!(!check(Some(json!({})), tainted()));
        assert!(check(tainted(), Some(json!({}))));
        let other = json!({"spec": {"taints": [{"key": "a", "value": "c", "effect": "NoSchedule"}]}});
        assert!(check(tainted(), Some(other)));
    }

    #[test]
    fn only_changed_values_of_reports_enqueue_placements() {
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
        k8s_values::merge_patch::apply(&mut object, &json!({"metadata": metadata}));
        k8s_values::merge_patch::apply(&mut object, &rest);
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn placements_are_enqueued_when_created_and_deleted() {
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
    fn a_deleted_binding_enqueues_its_placement() {
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
    fn only_fields_that_scheduling_reads_enqueue_policy_snapshots() {
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
