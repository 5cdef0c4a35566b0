//! A hub with one placement, in which plans are executed. Methods simulate the other controllers.

use std::collections::BTreeMap;

use fleet_api::kinds::{
    Binding, Cluster, ClusterResourcePlacementStatus, Namespaced, Obj, Placement, PolicySnapshot, Scope, Snapshot,
};
use fleet_api::names::PlacementKey;
use fleet_api::types::{ClusterDecision, PlacementSpec, PlacementStatus};
use fleet_api::well_known::{annotations, finalizers, label_values, labels};
use fleet_api::yaml;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::hub::Hub;
use crate::placement::{
    BindingFacts, CopyFacts, Observed, PlacementFacts, Plan, PolicySnapshotFacts, Propagation, ResourceSnapshotFacts,
    SnapshotIntervals, StatusUpdate, Write, copied, owner_of, plan,
};
use crate::plan::lint;

pub(crate) const START: &str = "2026-11-15T12:00:00Z";

/// One placement and its objects.
#[derive(Debug, Clone)]
pub(crate) struct Fixture<S: Scope> {
    pub(crate) key: PlacementKey,
    pub(crate) placement: Obj<Placement, S>,
    pub(crate) hub: Hub,
    pub(crate) policies: Vec<Obj<PolicySnapshot, S>>,
    pub(crate) snapshots: Vec<Obj<Snapshot, S>>,
    pub(crate) bindings: Vec<Obj<Binding, S>>,
    /// Status copies by namespace.
    pub(crate) copies: BTreeMap<String, ClusterResourcePlacementStatus>,
    pub(crate) copy_failed_until: Option<Timestamp>,
    pub(crate) propagation: Propagation,
    pub(crate) snapshot_intervals: SnapshotIntervals,
    pub(crate) now: Timestamp,
}

pub(crate) type ClusterFixture = Fixture<Cluster>;
pub(crate) type NamespacedFixture = Fixture<Namespaced>;

pub(crate) fn spec(text: &str) -> PlacementSpec {
    serde_json::from_value(yaml::documents(text).unwrap().remove(0)).unwrap()
}

/// A placement named `web` of everything in namespace `shop`.
pub(crate) const SHOP: &str = "{resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]}";

impl<S: Scope> Fixture<S> {
    pub(crate) fn new(key: &str, hub: &str, spec_text: &str) -> Self {
        let key = PlacementKey::parse(key).unwrap();
        let mut placement = Obj::named(key.name.to_string(), spec(spec_text));
        placement.metadata.namespace = key.namespace.as_ref().map(ToString::to_string);
        placement.metadata.generation = Some(1);
        placement.metadata.uid = Some("uid-of-web".to_owned());
        Self {
            key,
            placement,
            hub: Hub::parse(hub),
            policies: Vec::new(),
            snapshots: Vec::new(),
            bindings: Vec::new(),
            copies: BTreeMap::new(),
            copy_failed_until: None,
            propagation: Propagation::default(),
            snapshot_intervals: SnapshotIntervals::NONE,
            now: START.parse().unwrap(),
        }
    }

    pub(crate) fn edit(&mut self, spec_text: &str) {
        self.placement.spec = spec(spec_text);
        self.placement.metadata.generation = Some(self.placement.generation() + 1);
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn observe(&self) -> Observed<'_> {
        let placement = PlacementFacts::of(&self.key, &self.placement);
        let copy = crate::placement::copy_namespace(&placement).and_then(|namespace| self.copies.get(namespace));
        Observed {
            placement,
            policy_snapshots: self.policies.iter().map(PolicySnapshotFacts::of).collect(),
            resource_snapshots: self.snapshots.iter().map(ResourceSnapshotFacts::of).collect(),
            bindings: self.bindings.iter().map(BindingFacts::of).collect(),
            status_copy: CopyFacts { found: copy.map(|copy| &copy.spec), failed_until: self.copy_failed_until },
            selection: None,
            inventory: &self.hub,
            propagation: &self.propagation,
            snapshot_intervals: self.snapshot_intervals,
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        let plan = plan(&self.observe(), self.now);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    /// Plans, executes the plan, and checks that nothing is left to do.
    pub(crate) fn run(&mut self) -> Plan {
        let plan = self.plan();
        self.apply(&plan);
        if !plan.writes.contains(&Write::RemovePlacementFinalizer) {
            let again = self.plan();
            assert!(again.is_idle(), "{again:#?}");
        }
        plan
    }

    /// As `run`, without the plan.
    pub(crate) fn settle(&mut self) {
        drop(self.run());
    }

    pub(crate) fn apply(&mut self, plan: &Plan) {
        for write in &plan.writes {
            self.write(write);
        }
        if let Some(update) = &plan.status {
            self.tell(update);
        }
    }

    pub(crate) fn tell(&mut self, update: &StatusUpdate) {
        if let Some(status) = &update.status {
            self.placement.status = Some(status.status.clone());
        }
        if let Some(copy) = &update.copy {
            self.copies.insert(copy.namespace.clone(), copy.object(&self.key, owner_of(&self.placement)));
            self.copied(Ok(()));
        }
    }

    /// Sets the result of writing a copy.
    pub(crate) fn copied(&mut self, went: Result<(), String>) {
        let status = copied(&PlacementFacts::of(&self.key, &self.placement), went, self.now);
        self.placement.status = status.or_else(|| self.placement.status.take());
    }

    pub(crate) fn write(&mut self, write: &Write) {
        let owner = owner_of(&self.placement);
        match write {
            Write::AddPlacementFinalizer => {
                self.placement.metadata.finalizers = Some(vec![finalizers::PLACEMENT.to_owned()]);
            }
            Write::RemovePlacementFinalizer => self.placement.metadata.finalizers = None,
            Write::CreatePolicySnapshot(new) => {
                let mut object = new.object(&self.key, owner);
                object.metadata.generation = Some(1);
                assert!(self.policies.iter().all(|one| one.metadata.name != object.metadata.name));
                self.policies.push(object);
            }
            Write::RefreshPolicySnapshot { snapshot, placement_generation, number_of_clusters } => {
                let snapshot = named(&mut self.policies, snapshot);
                mark(snapshot, true);
                let notes = snapshot.metadata.annotations.get_or_insert_default();
                notes.insert(annotations::PLACEMENT_GENERATION.to_owned(), placement_generation.to_string());
                if let Some(number) = number_of_clusters {
                    notes.insert(annotations::NUMBER_OF_CLUSTERS.to_owned(), number.to_string());
                }
            }
            Write::RetirePolicySnapshot { snapshot } => mark(named(&mut self.policies, snapshot), false),
            Write::DeletePolicySnapshot { snapshot } => remove(&mut self.policies, snapshot),
            Write::CreateResourceSnapshot(new) => {
                let mut object = new.clone().object(&self.key, owner);
                object.metadata.creation_timestamp = Some(serde_json::from_value(json!(self.now)).unwrap());
                assert!(self.snapshots.iter().all(|one| one.metadata.name != object.metadata.name));
                self.snapshots.push(object);
            }
            Write::MarkResourceSnapshot { snapshot, latest } => mark(named(&mut self.snapshots, snapshot), *latest),
            Write::RecordContentChange { snapshot, seen } => {
                let notes = named(&mut self.snapshots, snapshot).metadata.annotations.get_or_insert_default();
                notes.insert(annotations::NEXT_SNAPSHOT_DETECTED_AT.to_owned(), seen.to_string());
            }
            Write::DeleteResourceSnapshot { snapshot } => remove(&mut self.snapshots, snapshot),
        }
    }

    pub(crate) fn status(&self) -> &PlacementStatus {
        self.placement.status.as_ref().unwrap()
    }

    /// Simulates the scheduler: `c1 c2 -c3` picks two clusters and rejects one. `fulfilled` is its verdict.
    pub(crate) fn schedule(&mut self, clusters: &str, fulfilled: bool) {
        let generation = self.placement.generation();
        let policy = self.policies.iter_mut().find(|one| is_marked(one)).unwrap();
        let decisions: Vec<_> = clusters.split_whitespace().map(decision).collect();
        let found = decisions.iter().filter(|decision| decision.selected).count();
        let (status, reason) =
            if fulfilled { ("True", "SchedulingPolicyFulfilled") } else { ("False", "SchedulingPolicyUnfulfilled") };
        policy.status = Some(
            serde_json::from_value(json!({
                "observedCRPGeneration": generation,
                "conditions": [{
                    "type": "Scheduled", "status": status, "reason": reason, "message": format!("found {found}"),
                    "observedGeneration": 1, "lastTransitionTime": START,
                }],
                "targetClusters": decisions,
            }))
            .unwrap(),
        );
        let policy = policy.metadata.name.clone().unwrap();
        self.bindings.retain(|one| decisions.iter().any(|other| picks(other, &one.spec.target_cluster)));
        for decision in decisions.iter().filter(|decision| decision.selected) {
            let cluster = &decision.cluster_name;
            match self.bindings.iter_mut().find(|one| one.spec.target_cluster == *cluster) {
                Some(binding) => binding.spec.scheduling_policy_snapshot_name.clone_from(&policy),
                None => self.bindings.push(binding(cluster, &policy)),
            }
        }
    }

    /// Simulates rollout, work generator and member: the clusters get a snapshot and reach these steps.
    /// `Applied=False` is the last step of a failed cluster; an empty snapshot name keeps the current one.
    pub(crate) fn roll_out(&mut self, clusters: &str, snapshot: &str, words: &str) {
        for cluster in clusters.split_whitespace() {
            let binding = self.binding(cluster);
            if !snapshot.is_empty() {
                snapshot.clone_into(&mut binding.spec.resource_snapshot_name);
            }
            let conditions: Vec<_> = words
                .split_whitespace()
                .map(|word| {
                    let (type_, status) = word.split_once('=').unwrap_or((word, "True"));
                    json!({
                        "type": type_, "status": status, "reason": format!("{type_}{status}"),
                        "message": format!("said by {cluster}"), "observedGeneration": 1, "lastTransitionTime": START,
                    })
                })
                .collect();
            binding.status = Some(serde_json::from_value(json!({"conditions": conditions})).unwrap());
        }
    }

    pub(crate) fn binding(&mut self, cluster: &str) -> &mut Obj<Binding, S> {
        self.bindings.iter_mut().find(|one| one.spec.target_cluster == cluster).unwrap()
    }
}

/// All steps of a successful cluster.
pub(crate) const ALL_GOOD: &str = "RolloutStarted Overridden WorkSynchronized Applied Available";

fn decision(word: &str) -> ClusterDecision {
    let (selected, name) = match word.strip_prefix('-') {
        Some(name) => (false, name),
        None => (true, word),
    };
    let reason = if selected { format!("picked {name}") } else { format!("{name} does not fit") };
    ClusterDecision { cluster_name: name.to_owned(), selected, cluster_score: None, reason }
}

fn picks(decision: &ClusterDecision, cluster: &str) -> bool {
    decision.selected && decision.cluster_name == cluster
}

fn binding<S: Scope>(cluster: &str, policy: &str) -> Obj<Binding, S> {
    let spec = json!({
        "state": "Scheduled",
        "resourceSnapshotName": "",
        "schedulingPolicySnapshotName": policy,
        "targetCluster": cluster,
        "clusterDecision": decision(cluster),
    });
    let mut object = Obj::named(format!("web-{cluster}-01234567"), serde_json::from_value(spec).unwrap());
    object.metadata.generation = Some(1);
    object
}

fn named<'o, F: fleet_api::kinds::Family, S: Scope>(objects: &'o mut [Obj<F, S>], name: &str) -> &'o mut Obj<F, S> {
    objects.iter_mut().find(|one| one.metadata.name.as_deref() == Some(name)).unwrap()
}

fn remove<F: fleet_api::kinds::Family, S: Scope>(objects: &mut Vec<Obj<F, S>>, name: &str) {
    let before = objects.len();
    objects.retain(|one| one.metadata.name.as_deref() != Some(name));
    assert_eq!(objects.len() + 1, before, "{name}");
}

fn mark<F: fleet_api::kinds::Family, S: Scope>(object: &mut Obj<F, S>, latest: bool) {
    let word = if latest { label_values::TRUE } else { label_values::FALSE };
    object.metadata.labels.get_or_insert_default().insert(labels::IS_LATEST_SNAPSHOT.to_owned(), word.to_owned());
}

pub(crate) fn is_marked<F: fleet_api::kinds::Family, S: Scope>(object: &Obj<F, S>) -> bool {
    let labels = object.metadata.labels.as_ref().unwrap();
    labels.get(labels::IS_LATEST_SNAPSHOT).is_some_and(|word| word == label_values::TRUE)
}
