//! A small language for fleets, and a fixture in which plans are carried out.
//!
//! One cluster per line: `m1 env=prod cpu=4/3/2 nodes=3 taint=k:v ns=a,b heartbeat=7m joined=False healthy=False:6m leaving
//! silent uid=1`. Words that mean nothing else are labels. Decides nothing that the scheduler decides.

use std::collections::BTreeMap;

use fleet_api::kinds::{ClusterResourceBinding, ClusterSchedulingPolicySnapshot, MemberCluster, Obj};
use fleet_api::names::{ClusterName, PlacementKey};
use fleet_api::types::{BindingState, PlacementPolicy};
use fleet_api::well_known::{annotations, finalizers};
use fleet_api::yaml;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::plan::{Wake, lint};
use crate::scheduler::{
    BindingFacts, ClusterFacts, EligibilityLimits, LatestPolicy, Observed, PlacementFacts, Plan, Write, plan,
};

pub(crate) fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

pub(crate) fn policy(text: &str) -> PlacementPolicy {
    let mut documents = yaml::documents(text).unwrap();
    serde_json::from_value(documents.remove(0)).unwrap()
}

/// The fleet of the acceptance scenarios; `c1` to `c9` in their notation.
pub(crate) const FLEET: &str = "
    cluster-1-east-prod region=east env=prod nodes=2 rating=100 cpu=4/3/2 memory=4Gi/3Gi/2Gi
    cluster-2-east-prod region=east env=prod nodes=4 rating=60 cpu=8/7/4 memory=8Gi/7Gi/4Gi
    cluster-3-east-canary region=east env=canary nodes=6 rating=40 cpu=12/11/6 memory=12Gi/11Gi/6Gi
    cluster-4-central-prod region=central env=prod nodes=2 rating=80 cpu=8/6/2 memory=4Gi/2Gi/1Gi
    cluster-5-central-prod region=central env=prod nodes=8 rating=40 cpu=32/30/8 memory=16Gi/14Gi/4Gi
    cluster-6-west-prod region=west env=prod nodes=2 rating=60 cpu=4/2/1 memory=8Gi/6Gi/4Gi
    cluster-7-west-canary region=west env=canary nodes=8 rating=20 cpu=16/14/4 memory=32Gi/30Gi/16Gi
    unhealthy-cluster-east-prod region=east env=prod nodes=1 rating=100 cpu=8/6/0 memory=8Gi/6Gi/0 heartbeat=7m
    left-cluster-central-prod region=central env=prod leaving";

pub(crate) const SHORT_NAMES: &[(&str, &str)] = &[
    ("cluster-1-east-prod", "c1"),
    ("cluster-2-east-prod", "c2"),
    ("cluster-3-east-canary", "c3"),
    ("cluster-4-central-prod", "c4"),
    ("cluster-5-central-prod", "c5"),
    ("cluster-6-west-prod", "c6"),
    ("cluster-7-west-canary", "c7"),
    ("unhealthy-cluster-east-prod", "c8"),
    ("left-cluster-central-prod", "c9"),
    ("non-existent-cluster", "c10"),
];

/// The full name of a cluster in the scenarios' notation.
pub(crate) fn full_name(short: &str) -> &str {
    SHORT_NAMES.iter().find(|(_, other)| *other == short).map_or(short, |(full, _)| full)
}

#[derive(Debug, Clone)]
pub(crate) struct Fleet {
    pub(crate) clusters: BTreeMap<ClusterName, MemberCluster>,
}

impl Fleet {
    pub(crate) fn parse(text: &str) -> Self {
        let clusters = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(cluster);
        Self { clusters: clusters.collect() }
    }

    pub(crate) fn facts(&self) -> Vec<ClusterFacts<'_>> {
        self.clusters.iter().map(|(name, cluster)| ClusterFacts::of(name.clone(), cluster)).collect()
    }
}

/// One line of the language.
pub(crate) fn cluster(line: &str) -> (ClusterName, MemberCluster) {
    let mut words = line.split_whitespace();
    let name = ClusterName::parse(full_name(words.next().unwrap())).unwrap();
    let mut draft = Draft::default();
    for word in words {
        draft.read(word);
    }
    let object = draft.object(&name);
    (name, serde_json::from_value(object).unwrap())
}

#[derive(Default)]
struct Draft {
    labels: Map<String, Value>,
    taints: Vec<Value>,
    properties: Map<String, Value>,
    usage: [Map<String, Value>; 3],
    namespaces: Option<Map<String, Value>>,
    /// The age of the heartbeat, or `never`.
    heartbeat: Option<String>,
    joined: Option<String>,
    healthy: Option<String>,
    leaving: bool,
    silent: bool,
    uid: Option<String>,
}

impl Draft {
    fn read(&mut self, word: &str) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "taint" => {
                let (key, value) = value.split_once(':').unwrap();
                self.taints.push(json!({"key": key, "value": value, "effect": "NoSchedule"}));
            }
            "nodes" => self.property("kubernetes-fleet.io/node-count", value),
            "version" => self.property("k8s.io/k8s-version", value),
            "rating" => self.property("test.only/energy-efficiency-rating", value),
            "cpu" | "memory" | "gpu" => {
                for (list, amount) in self.usage.iter_mut().zip(value.split('/')) {
                    list.insert(key.to_owned(), json!(amount));
                }
            }
            "ns" => {
                let names = value.split(',').filter(|name| !name.is_empty());
                self.namespaces = Some(names.map(|name| (name.to_owned(), json!(""))).collect());
            }
            "heartbeat" => self.heartbeat = Some(value.to_owned()),
            "joined" => self.joined = Some(value.to_owned()),
            "healthy" => self.healthy = Some(value.to_owned()),
            "leaving" => self.leaving = true,
            "silent" => self.silent = true,
            "uid" => self.uid = Some(value.to_owned()),
            _ => drop(self.labels.insert(key.to_owned(), json!(value))),
        }
    }

    fn property(&mut self, name: &str, value: &str) {
        self.properties.insert(name.to_owned(), json!({"value": value, "observationTime": now()}));
    }

    fn object(self, name: &ClusterName) -> Value {
        let [capacity, allocatable, available] = self.usage;
        let mut agents = vec![json!({"type": "MultiClusterServiceAgent"})];
        if !self.silent {
            let age = self.heartbeat.as_deref().unwrap_or("30s");
            let heartbeat = (age != "never").then(|| now() - duration(age));
            let conditions: Vec<Value> = [("Joined", self.joined), ("Healthy", self.healthy)]
                .into_iter()
                .filter_map(|(type_, given)| agent_condition(type_, given.as_deref().unwrap_or("True")))
                .collect();
            agents.push(json!({"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": heartbeat}));
        }
        let collected = self.namespaces.is_some();
        let conditions =
            if collected { vec![condition("NamespaceCollectionSucceeded", "False", now())] } else { Vec::new() };
        json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster",
            "metadata": {
                "name": name.as_str(),
                "uid": self.uid,
                "labels": self.labels,
                "deletionTimestamp": self.leaving.then(now),
            },
            "spec": {"identity": {"kind": "User", "name": "agent"}, "taints": self.taints},
            "status": {
                "conditions": conditions,
                "properties": self.properties,
                "resourceUsage": {"capacity": capacity, "allocatable": allocatable, "available": available},
                "namespaces": self.namespaces,
                "agentStatus": agents,
            },
        })
    }
}

/// `True`, `False:6m` (for six minutes), `absent`.
fn agent_condition(type_: &str, given: &str) -> Option<Value> {
    let (status, since) = given.split_once(':').unwrap_or((given, "1h"));
    (status != "absent").then(|| condition(type_, status, now() - duration(since)))
}

fn condition(type_: &str, status: &str, since: Timestamp) -> Value {
    json!({"type": type_, "status": status, "reason": "Told", "message": "", "lastTransitionTime": since})
}

fn duration(text: &str) -> SignedDuration {
    text.parse().unwrap()
}

/// A placement named `web` with its fleet, policy and bindings.
#[derive(Debug, Clone)]
pub(crate) struct Fixture {
    pub(crate) key: PlacementKey,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) has_finalizer: bool,
    pub(crate) abandons: bool,
    pub(crate) fleet: Fleet,
    pub(crate) snapshots: Vec<ClusterSchedulingPolicySnapshot>,
    pub(crate) bindings: Vec<ClusterResourceBinding>,
    pub(crate) seed: u64,
}

impl Fixture {
    pub(crate) fn new(fleet: &str) -> Self {
        Self {
            key: PlacementKey::parse("web").unwrap(),
            generation: 0,
            deleting: false,
            has_finalizer: false,
            abandons: false,
            fleet: Fleet::parse(fleet),
            snapshots: Vec::new(),
            bindings: Vec::new(),
            seed: 0,
        }
    }

    /// The scenarios' fleet under a policy in YAML; an empty one is absent.
    pub(crate) fn with_policy(policy: &str) -> Self {
        let mut fixture = Self::new(FLEET);
        fixture.set_policy(policy);
        fixture
    }

    /// A new snapshot in place of the latest one.
    pub(crate) fn set_policy(&mut self, text: &str) {
        let policy = (!text.is_empty()).then(|| policy(text));
        self.generation += 1;
        let index = self.snapshots.pop().map_or(0, |old| {
            let name = old.metadata.name.unwrap();
            name.rsplit_once('-').unwrap().1.parse::<u32>().unwrap() + 1
        });
        let number = policy.as_ref().and_then(|policy| policy.number_of_clusters);
        self.snapshots.push(
            serde_json::from_value(json!({
                "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                "kind": "ClusterSchedulingPolicySnapshot",
                "metadata": {"name": format!("web-{index}"), "generation": 1},
                "spec": {"policy": policy, "policyHash": ""},
            }))
            .unwrap(),
        );
        self.annotate(annotations::PLACEMENT_GENERATION, Some(self.generation.to_string()));
        self.annotate(annotations::NUMBER_OF_CLUSTERS, number.map(|number| number.to_string()));
    }

    /// Changes how many clusters are wanted, which keeps the snapshot.
    pub(crate) fn set_number(&mut self, number: usize) {
        self.generation += 1;
        self.annotate(annotations::PLACEMENT_GENERATION, Some(self.generation.to_string()));
        self.annotate(annotations::NUMBER_OF_CLUSTERS, Some(number.to_string()));
    }

    pub(crate) fn annotate(&mut self, key: &str, value: Option<String>) {
        let annotations = self.snapshots[0].metadata.annotations.get_or_insert_default();
        match value {
            Some(value) => drop(annotations.insert(key.to_owned(), value)),
            None => drop(annotations.remove(key)),
        }
    }

    /// Replaces or adds clusters.
    pub(crate) fn set_clusters(&mut self, lines: &str) {
        self.fleet.clusters.extend(Fleet::parse(lines).clusters);
    }

    /// Gives words to clusters of the fixture in place of or besides those they have.
    pub(crate) fn change(&mut self, short: &str, words: &str) {
        let line = FLEET.lines().find(|line| line.trim().starts_with(full_name(short))).unwrap();
        self.set_clusters(&format!("{line} {words}"));
    }

    pub(crate) fn remove_cluster(&mut self, short: &str) {
        self.fleet.clusters.remove(full_name(short)).unwrap();
    }

    /// What a rollout does with a binding.
    pub(crate) fn set_state(&mut self, shorts: &[&str], state: &BindingState) {
        for short in shorts {
            self.binding_mut(short).spec.state = state.clone();
        }
    }

    pub(crate) fn binding_mut(&mut self, short: &str) -> &mut ClusterResourceBinding {
        let cluster = full_name(short);
        self.bindings.iter_mut().find(|binding| binding.spec.target_cluster == cluster).unwrap()
    }

    pub(crate) fn observe(&self) -> Observed<'_> {
        let marked: Vec<_> = self.snapshots.iter().collect();
        Observed {
            placement: PlacementFacts {
                key: &self.key,
                deleting: self.deleting,
                has_finalizer: self.has_finalizer,
                abandons: self.abandons,
            },
            policy: LatestPolicy::of(&marked),
            clusters: self.fleet.facts(),
            bindings: self.bindings.iter().map(BindingFacts::of).collect(),
            limits: EligibilityLimits::default(),
            suffix_seed: self.seed,
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        let plan = plan(&self.observe(), now());
        assert_eq!(lint(&plan), Vec::<String>::new());
        assert_eq!(plan.wake, Wake::OnChange);
        plan
    }

    pub(crate) fn apply(&mut self, plan: &Plan) {
        for write in &plan.writes {
            self.write(write);
        }
        if let Some(status) = &plan.status {
            self.snapshots[0].status = Some(status.clone());
        }
    }

    pub(crate) fn write(&mut self, write: &Write) {
        self.seed += 1;
        match write {
            Write::AddPlacementFinalizer => self.has_finalizer = true,
            Write::RemovePlacementFinalizer => self.has_finalizer = false,
            Write::Explain(status) => self.snapshots[0].status = Some(status.clone()),
            Write::CreateBinding(new) => {
                let object: ClusterResourceBinding = new.object(&self.key);
                assert!(self.bindings.iter().all(|one| one.metadata.name != object.metadata.name));
                self.bindings.push(object);
            }
            Write::RemoveBindingFinalizer { binding } => {
                let binding = self.named(binding);
                binding.metadata.finalizers.as_mut().unwrap().retain(|one| one != finalizers::SCHEDULER_BINDING);
                self.sweep();
            }
            Write::DeleteBinding { binding } => {
                self.named(binding).metadata.deletion_timestamp = Some(serde_json::from_value(json!(now())).unwrap());
                self.sweep();
            }
            Write::AssociateBinding(association) => {
                let binding = self.named(&association.binding);
                binding.spec.state = association.state.clone();
                binding.spec.scheduling_policy_snapshot_name = association.policy_snapshot.clone();
                binding.spec.cluster_decision = association.decision.clone();
                let uid = association.cluster_uid.clone().map(|uid| (annotations::MEMBER_CLUSTER_UID.to_owned(), uid));
                binding.metadata.annotations.get_or_insert_default().extend(uid);
            }
            Write::Unschedule { binding, previous } => {
                let binding = self.named(binding);
                let annotation = (annotations::PREVIOUS_BINDING_STATE.to_owned(), previous.to_string());
                binding.metadata.annotations.get_or_insert_default().extend([annotation]);
                binding.spec.state = BindingState::Unscheduled;
            }
        }
    }

    pub(crate) fn named(&mut self, name: &str) -> &mut ClusterResourceBinding {
        self.bindings.iter_mut().find(|binding| binding.metadata.name.as_deref() == Some(name)).unwrap()
    }

    /// Deleted bindings without finalizers are gone.
    /// The work generator, which has nothing to clean up here, removes its finalizer at once.
    fn sweep(&mut self) {
        self.bindings.retain(|binding| {
            let metadata = &binding.metadata;
            let holds = |finalizer: &String| finalizer != finalizers::WORK;
            metadata.deletion_timestamp.is_none() || metadata.finalizers.iter().flatten().any(holds)
        });
    }
}

/// A binding that was made earlier, with nothing but what the scheduler looks at.
pub(crate) fn old_binding(name: &str, cluster: &str, state: &BindingState, snapshot: &str) -> ClusterResourceBinding {
    let mut binding: ClusterResourceBinding = Obj::named(
        name,
        serde_json::from_value(json!({
            "state": state,
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": snapshot,
            "targetCluster": cluster,
            "clusterDecision": {
                "clusterName": cluster,
                "selected": true,
                "clusterScore": {"affinityScore": 0, "priorityScore": 0},
                "reason": "picked earlier",
            },
        }))
        .unwrap(),
    );
    binding.metadata.finalizers = Some(vec![finalizers::SCHEDULER_BINDING.to_owned()]);
    binding
}
