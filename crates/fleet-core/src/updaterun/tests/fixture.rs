//! A hub with one placement, its clusters and runs. Plans are executed; the fixture acts as the other controllers and
//! the members.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::kinds::{
    Approval, Binding, Cluster, Family, Member, Obj, Placement, PolicySnapshot, Scope, ScopeKind, Snapshot, UpdateRun,
};
use fleet_api::names::{NamespaceName, PlacementKey, PlacementName, RunName};
use fleet_api::types::{EmbeddedObject, UpdateRunState, UpdateRunStatus, UpdateStrategySpec};
use fleet_api::well_known::{annotations, finalizers, labels};
use fleet_api::yaml;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::placement::{self, GroupVersion, Inventory, Kind, LiveObject, PlacementFacts, Propagation, owner_of};
use crate::plan::lint;
use crate::updaterun::{
    ApprovalFacts, BindingFacts, ConcurrentRunFacts, MatchedOverrides, MemberFacts, Observed, Overrides, Plan,
    PolicySnapshotFacts, RunFacts, Settings, Unmatched, Write, plan,
};

pub(crate) const START: &str = "2026-11-15T12:00:00Z";
pub(crate) const RUN: &str = "example-run";

/// Two stages by label `env`, nothing between them.
pub(crate) const TWO_STAGES: &str = "{stages: [
    {name: staging, labelSelector: {matchLabels: {env: staging}}},
    {name: prod, labelSelector: {matchLabels: {env: prod}}}]}";

#[derive(Debug, Clone)]
pub(crate) struct RunFixture<S: Scope> {
    pub(crate) key: PlacementKey,
    pub(crate) placement: Option<Obj<Placement, S>>,
    pub(crate) policies: Vec<Obj<PolicySnapshot, S>>,
    pub(crate) snapshots: Vec<Obj<Snapshot, S>>,
    pub(crate) bindings: Vec<Obj<Binding, S>>,
    pub(crate) strategy: Option<UpdateStrategySpec>,
    pub(crate) members: Vec<Obj<Member, Cluster>>,
    pub(crate) approvals: Vec<Obj<Approval, S>>,
    pub(crate) runs: BTreeMap<String, Obj<UpdateRun, S>>,
    /// Deferred statuses, by run.
    pub(crate) deferred: BTreeMap<String, UpdateRunStatus>,
    pub(crate) hub: Hub,
    pub(crate) overrides: FakeOverrides,
    pub(crate) settings: Settings,
    pub(crate) confirmed: bool,
    pub(crate) now: Timestamp,
    /// Clusters on which nothing becomes available, with their condition.
    pub(crate) broken: BTreeMap<String, (&'static str, &'static str)>,
    /// Clusters that do not answer at all.
    pub(crate) silent: BTreeSet<String>,
    /// Number of executed writes by kind.
    pub(crate) writes: BTreeMap<&'static str, usize>,
}

/// Runs a scenario in both scopes.
macro_rules! both_scopes {
    ($($(#[$about:meta])* fn $name:ident(mut $fixture:ident) $body:block)+) => {
        $($(#[$about])* #[test]
        fn $name() {
            fn scenario<S: fleet_api::kinds::Scope>(mut $fixture: $crate::updaterun::tests::fixture::RunFixture<S>) $body
            scenario($crate::updaterun::tests::fixture::RunFixture::<fleet_api::kinds::Cluster>::new());
            scenario($crate::updaterun::tests::fixture::RunFixture::<fleet_api::kinds::Namespaced>::new());
        })+
    };
}
pub(crate) use both_scopes;

fn parsed<T: k8s_openapi::serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_value(yaml::documents(text).unwrap().remove(0)).unwrap()
}

pub(crate) fn strategy(text: &str) -> UpdateStrategySpec {
    parsed(text)
}

impl<S: Scope> RunFixture<S> {
    /// An External placement of one namespace that picks every cluster; there are none yet.
    pub(crate) fn new() -> Self {
        let key = match S::KIND {
            ScopeKind::Cluster => PlacementKey::cluster_scoped(PlacementName::parse("example-placement").unwrap()),
            ScopeKind::Namespaced => PlacementKey::namespaced(
                NamespaceName::parse("my-app-namespace").unwrap(),
                PlacementName::parse("web-app-placement").unwrap(),
            ),
        };
        let selector = match S::KIND {
            ScopeKind::Cluster => "{group: '', version: v1, kind: Namespace, name: shop}",
            ScopeKind::Namespaced => "{group: '', version: v1, kind: ConfigMap, name: settings}",
        };
        let spec = format!("{{resourceSelectors: [{selector}], strategy: {{type: External}}}}");
        let mut placement = Obj::named(key.name.to_string(), parsed(&spec));
        placement.metadata.namespace = key.namespace.as_ref().map(ToString::to_string);
        placement.metadata.generation = Some(1);
        let mut fixture = Self {
            key,
            placement: Some(placement),
            policies: Vec::new(),
            snapshots: Vec::new(),
            bindings: Vec::new(),
            strategy: Some(strategy(TWO_STAGES)),
            members: Vec::new(),
            approvals: Vec::new(),
            runs: BTreeMap::new(),
            deferred: BTreeMap::new(),
            hub: Hub::new(S::KIND),
            overrides: FakeOverrides::default(),
            settings: Settings::default(),
            confirmed: true,
            now: START.parse().unwrap(),
            broken: BTreeMap::new(),
            silent: BTreeSet::new(),
            writes: BTreeMap::new(),
        };
        fixture.set_policy(0, "null");
        fixture
    }

    /// `namespace/name` or `/name`, as in messages.
    pub(crate) fn key_of(&self, name: &str) -> String {
        format!("{}/{name}", self.key.namespace.as_ref().map(ToString::to_string).unwrap_or_default())
    }

    /// `namespace/name` or `name`.
    pub(crate) fn reference_to(&self, name: &str) -> String {
        self.key.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
    }

    /// Makes the policy snapshot of this index the latest one and fully scheduled.
    pub(crate) fn set_policy(&mut self, index: u32, policy: &str) {
        for old in &mut self.policies {
            set_label(old, labels::IS_LATEST_SNAPSHOT, "false");
        }
        let policy = if policy == "null" { Value::Null } else { parsed(policy) };
        let spec = json!({"policy": policy, "policyHash": ""});
        let name = format!("{}-{index}", self.key.name);
        let mut snapshot: Obj<PolicySnapshot, S> = Obj::named(name, serde_json::from_value(spec).unwrap());
        snapshot.metadata.generation = Some(1);
        set_label(&mut snapshot, labels::IS_LATEST_SNAPSHOT, "true");
        set_label(&mut snapshot, labels::POLICY_INDEX, &index.to_string());
        self.policies.push(snapshot);
        self.set_scheduled(true);
    }

    pub(crate) fn policy(&mut self) -> &mut Obj<PolicySnapshot, S> {
        self.policies.last_mut().unwrap()
    }

    pub(crate) fn set_scheduled(&mut self, fulfilled: bool) {
        let status = if fulfilled { "True" } else { "False" };
        let scheduled = condition("Scheduled", status, "SchedulingPolicyFulfilled", 1);
        let status = json!({"observedCRPGeneration": 1, "conditions": [scheduled]});
        self.policy().status = Some(serde_json::from_value(status).unwrap());
    }

    pub(crate) fn number_of_clusters(&mut self, text: &str) {
        let notes = self.policy().metadata.annotations.get_or_insert_default();
        notes.insert(annotations::NUMBER_OF_CLUSTERS.to_owned(), text.to_owned());
    }

    /// Adds member clusters with labels, each with a binding of the latest policy: `a env=prod order=1, b env=prod`.
    pub(crate) fn join(&mut self, clusters: &str) {
        for words in clusters.split(',').map(str::trim).filter(|words| !words.is_empty()) {
            let (name, labels) = words.split_once(' ').unwrap_or((words, ""));
            let spec = json!({"identity": {"kind": "User", "name": name}});
            self.members.push(Obj::named(name, serde_json::from_value(spec).unwrap()));
            self.label(name, labels);
            self.bind(name);
        }
    }

    pub(crate) fn label(&mut self, cluster: &str, labels: &str) {
        let member = self.members.iter_mut().find(|one| one.metadata.name.as_deref() == Some(cluster)).unwrap();
        let pairs = labels.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        member.metadata.labels = Some(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
    }

    pub(crate) fn bind(&mut self, cluster: &str) {
        let policy = self.policy().metadata.name.clone().unwrap();
        let spec = json!({
            "state": "Scheduled", "resourceSnapshotName": "", "schedulingPolicySnapshotName": policy,
            "targetCluster": cluster, "clusterDecision": {"clusterName": cluster, "selected": true, "reason": "picked"},
        });
        let name = format!("{}-{cluster}-01234567", self.key.name);
        let mut binding: Obj<Binding, S> = Obj::named(name, serde_json::from_value(spec).unwrap());
        binding.metadata.generation = Some(1);
        self.bindings.push(binding);
    }

    pub(crate) fn binding(&mut self, cluster: &str) -> &mut Obj<Binding, S> {
        self.bindings.iter_mut().find(|one| one.spec.target_cluster == cluster).unwrap()
    }

    /// Acts as the scheduler: the cluster is no longer selected.
    pub(crate) fn deselect(&mut self, cluster: &str) {
        self.edit_binding(cluster, |spec| spec["state"] = json!("Unscheduled"));
    }

    pub(crate) fn edit_binding(&mut self, cluster: &str, edit: impl FnOnce(&mut Value)) {
        let binding = self.binding(cluster);
        let mut spec = serde_json::to_value(&binding.spec).unwrap();
        edit(&mut spec);
        binding.spec = serde_json::from_value(spec).unwrap();
        binding.metadata.generation = Some(binding.generation() + 1);
    }

    pub(crate) fn edit_placement(&mut self, edit: impl FnOnce(&mut Value)) {
        let placement = self.placement.as_mut().unwrap();
        let mut spec = serde_json::to_value(&placement.spec).unwrap();
        edit(&mut spec);
        placement.spec = serde_json::from_value(spec).unwrap();
    }

    /// An empty index is left out, as users do.
    pub(crate) fn create_run(&mut self, name: &str, index: &str, state: UpdateRunState) {
        let mut spec = json!({
            "placementName": self.key.name.as_str(), "stagedRolloutStrategyName": "example-strategy", "state": state,
        });
        if !index.is_empty() {
            spec["resourceSnapshotIndex"] = json!(index);
        }
        let mut run: Obj<UpdateRun, S> = Obj::named(name, serde_json::from_value(spec).unwrap());
        run.metadata.namespace = self.key.namespace.as_ref().map(ToString::to_string);
        run.metadata.generation = Some(1);
        run.metadata.uid = Some(format!("uid-of-{name}"));
        self.runs.insert(name.to_owned(), run);
    }

    /// Creates the run of most scenarios and executes its first plan.
    pub(crate) fn start(&mut self, state: UpdateRunState) -> Plan {
        self.create_run(RUN, "", state);
        self.run(RUN)
    }

    pub(crate) fn set_state(&mut self, name: &str, state: UpdateRunState) {
        let run = self.runs.get_mut(name).unwrap();
        if run.spec.state != Some(state) {
            run.spec.state = Some(state);
            run.metadata.generation = Some(run.generation() + 1);
        }
    }

    pub(crate) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(crate) fn observe<R>(&self, run: &str, then: impl FnOnce(&Observed<'_>) -> R) -> R {
        let name = RunName::parse(run).unwrap();
        let facts = self.placement.as_ref().map(|placement| PlacementFacts::of(&self.key, placement));
        let propagation = Propagation::default();
        let content = facts.map(|placement| placement::Observed {
            placement,
            policy_snapshots: Vec::new(),
            resource_snapshots: self.snapshots.iter().map(placement::ResourceSnapshotFacts::of).collect(),
            bindings: Vec::new(),
            status_copy: placement::CopyFacts::default(),
            selection: None,
            inventory: &self.hub,
            propagation: &propagation,
            snapshot_intervals: placement::SnapshotIntervals::default(),
        });
        let mut run_facts = RunFacts::of(&name, &self.runs[run]);
        run_facts.status = self.deferred.get(run).or(run_facts.stored);
        let goes_on = |other: &&Obj<UpdateRun, S>| other.metadata.name.as_deref() != Some(run) && !is_over(other);
        then(&Observed {
            run: run_facts,
            placement: facts,
            policy_snapshots: self.policies.iter().map(PolicySnapshotFacts::of).collect(),
            bindings: self.bindings.iter().map(BindingFacts::of).collect(),
            strategy: self.strategy.as_ref(),
            members: self.members.iter().map(MemberFacts::of).collect(),
            approvals: self.approvals.iter().map(ApprovalFacts::of).collect(),
            concurrent_runs: self.runs.values().filter(goes_on).map(ConcurrentRunFacts::of).collect(),
            content: content.as_ref(),
            overrides: &self.overrides,
            confirmed: self.confirmed,
            settings: self.settings,
        })
    }

    pub(crate) fn plan(&self, run: &str) -> Plan {
        let plan = self.observe(run, |observed| plan(observed, self.now));
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    /// Plans, executes the plan, and checks that nothing is left to do.
    pub(crate) fn run(&mut self, run: &str) -> Plan {
        let plan = self.plan(run);
        self.apply(run, &plan);
        if self.runs.contains_key(run) {
            let again = self.plan(run);
            assert!(again.is_idle(), "{again:#?}\nafter {plan:#?}");
        }
        plan
    }

    /// Like `run`, without the plan.
    pub(crate) fn step(&mut self, run: &str) {
        drop(self.run(run));
    }

    pub(crate) fn apply(&mut self, run: &str, plan: &Plan) {
        for write in &plan.writes {
            self.write(run, write);
        }
        if let Some(new) = &plan.status {
            self.count("run status");
            self.store(run, new.status.clone());
        }
    }

    fn store(&mut self, run: &str, status: UpdateRunStatus) {
        self.deferred.remove(run);
        self.runs.get_mut(run).unwrap().status = Some(status);
    }

    /// Like `apply`, but defers the status.
    pub(crate) fn apply_deferring_status(&mut self, run: &str, plan: &Plan) {
        for write in &plan.writes {
            self.write(run, write);
        }
        if let Some(new) = &plan.status {
            self.deferred.insert(run.to_owned(), new.status.clone());
        }
    }

    /// Writes the deferred status.
    pub(crate) fn flush(&mut self, run: &str) {
        if let Some(status) = self.deferred.remove(run) {
            self.store(run, status);
        }
    }

    fn count(&mut self, sort: &'static str) {
        *self.writes.entry(sort).or_default() += 1;
    }

    pub(crate) fn write(&mut self, run: &str, write: &Write) {
        self.count(crate::plan::ObjectWrite::object(write).0);
        match write {
            Write::AddFinalizer => {
                let run = self.runs.get_mut(run).unwrap();
                run.metadata.finalizers = Some(vec![finalizers::UPDATE_RUN.to_owned()]);
                if run.spec.resource_snapshot_index.is_none() {
                    run.spec.resource_snapshot_index = Some(String::new());
                    run.metadata.generation = Some(run.generation() + 1);
                }
            }
            Write::RemoveFinalizer => drop(self.runs.remove(run)),
            Write::Content(placement::Write::CreateResourceSnapshot(new)) => {
                let owner = owner_of(self.placement.as_ref().unwrap());
                self.snapshots.push(new.clone().object(&self.key, owner));
            }
            Write::Content(placement::Write::MarkResourceSnapshot { snapshot, latest }) => {
                let snapshot = named(&mut self.snapshots, snapshot);
                set_label(snapshot, labels::IS_LATEST_SNAPSHOT, &latest.to_string());
            }
            Write::Content(other) => panic!("{other:?}"),
            Write::Record(status) => self.store(run, (**status).clone()),
            Write::MoveBinding(change) => {
                let binding = named(&mut self.bindings, &change.binding);
                binding.spec.state = fleet_api::types::BindingState::Bound;
                binding.spec.resource_snapshot_name.clone_from(&change.resource_snapshot);
                binding.spec.resource_override_snapshots =
                    Some(change.overrides.clone()).filter(|list| !list.is_empty());
                binding.spec.cluster_resource_override_snapshots =
                    Some(change.cluster_overrides.clone()).filter(|list| !list.is_empty());
                binding.spec.apply_strategy = Some(change.apply_strategy.clone());
                let notes = binding.metadata.annotations.get_or_insert_default();
                notes.insert(annotations::MOVED_BY_RUN.to_owned(), change.moved_by.to_string());
                binding.metadata.generation = Some(binding.generation() + 1);
            }
            Write::RenewMovedBy { binding, moved_by } => {
                let notes = named(&mut self.bindings, binding).metadata.annotations.get_or_insert_default();
                notes.insert(annotations::MOVED_BY_RUN.to_owned(), moved_by.to_string());
            }
            Write::DeleteBinding { binding } => set_deleting(named(&mut self.bindings, binding), self.now),
            Write::RequestApproval(new) => {
                let mut object = new.object();
                object.metadata.generation = Some(1);
                assert!(self.approvals.iter().all(|one| one.metadata.name != object.metadata.name));
                self.approvals.push(object);
            }
            Write::AcceptApproval { request, generation } => {
                let accepted = condition("ApprovalAccepted", "True", "ApprovalRequestApprovalAccepted", *generation);
                add_condition(named(&mut self.approvals, request), accepted);
            }
            Write::DeleteRequest { request } => {
                self.approvals.retain(|one| one.metadata.name.as_deref() != Some(request.as_str()));
            }
        }
    }

    /// Acts as work generator and member of one healthy cluster. Returns whether anything changed.
    pub(crate) fn serve(&mut self, cluster: &str) -> bool {
        let now = self.now;
        let (broken, silent) = (self.broken.get(cluster).copied(), self.silent.contains(cluster));
        let Some(binding) = self.bindings.iter_mut().find(|one| one.spec.target_cluster == cluster) else {
            return false;
        };
        if silent || binding.spec.state != fleet_api::types::BindingState::Bound {
            return false;
        }
        let facts = BindingFacts::of(binding);
        let (generation, moved_by) = (facts.generation, facts.moved_by.clone());
        let started = crate::updaterun::binding::has_rollout_started(&facts);
        let before = binding.status.clone();
        if !started {
            let Some(moved_by) = moved_by.filter(|moved_by| moved_by.generation == generation) else { return false };
            set_rollout_started(binding, &moved_by, now);
        }
        for (type_, reason) in [
            ("Overridden", "NoOverrideSpecified"),
            ("WorkSynchronized", "AllWorkSynced"),
            ("Applied", "AllWorkHaveBeenApplied"),
            ("Available", "AllWorkAreAvailable"),
        ] {
            match broken.filter(|(at, _)| *at == type_) {
                Some((_, reason)) => {
                    let mut failed = condition(type_, "False", reason, generation);
                    failed["message"] = json!(format!("{type_} failed on {cluster}"));
                    add_condition(binding, failed);
                    break;
                }
                None => add_condition(binding, condition(type_, "True", reason, generation)),
            }
        }
        binding.status != before
    }

    /// Every cluster reports once.
    pub(crate) fn serve_all(&mut self) {
        let clusters: Vec<_> = self.bindings.iter().map(|one| one.spec.target_cluster.clone()).collect();
        for cluster in clusters {
            self.serve(&cluster);
        }
    }

    /// Removes deleted bindings.
    pub(crate) fn collect_garbage(&mut self) {
        self.bindings.retain(|one| one.metadata.deletion_timestamp.is_none());
    }

    /// Writes an approval as a user does.
    pub(crate) fn approve(&mut self, request: &str, status: &str, generation: i64) {
        let mut approved = condition("Approved", status, "approved", generation);
        approved["message"] = json!("approved by alice");
        add_condition(named(&mut self.approvals, request), approved);
    }

    /// The newest status, stored or deferred.
    pub(crate) fn status(&self, run: &str) -> &UpdateRunStatus {
        self.deferred.get(run).or(self.runs[run].status.as_ref()).unwrap()
    }

    /// Reconciles runs and clusters in turn, one second per round, until nothing changes.
    pub(crate) fn finish(&mut self, run: &str) {
        for _ in 0..1000 {
            let plan = self.run(run);
            let before = self.bindings.clone();
            self.serve_all();
            self.collect_garbage();
            if plan.is_idle() && self.bindings == before {
                return;
            }
            self.pass(1);
        }
        panic!("no end");
    }
}

/// Whether the run is over.
pub(crate) fn is_over<S: Scope>(run: &Obj<UpdateRun, S>) -> bool {
    let conditions = run.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions.iter().any(|one| {
        one.type_ == "Succeeded"
            || (one.type_ == "Initialized" && one.status == fleet_api::conditions::ConditionStatus::False)
    })
}

pub(crate) fn condition(type_: &str, status: &str, reason: &str, generation: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": generation,
        "lastTransitionTime": START,
    })
}

fn set_rollout_started<S: Scope>(binding: &mut Obj<Binding, S>, moved_by: &crate::updaterun::MovedBy, now: Timestamp) {
    use fleet_api::conditions::ConditionState;
    let mut started = condition("RolloutStarted", "True", "RolloutStarted", binding.generation());
    started["message"] = json!(moved_by.rollout_started().message());
    started["lastTransitionTime"] = json!(fleet_api::time::Time::new(now));
    add_condition(binding, started);
}

/// Replaces the condition of the same type.
pub(crate) fn add_condition<F: Family, S: Scope>(object: &mut Obj<F, S>, condition: Value) {
    let mut status = serde_json::to_value(&object.status).unwrap();
    if status.is_null() {
        status = json!({});
    }
    let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
    match list.iter_mut().find(|one| one["type"] == condition["type"]) {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
    status["conditions"] = json!(list);
    object.status = Some(serde_json::from_value(status).unwrap());
}

pub(crate) fn named<'o, F: Family, S: Scope>(objects: &'o mut [Obj<F, S>], name: &str) -> &'o mut Obj<F, S> {
    objects.iter_mut().find(|one| one.metadata.name.as_deref() == Some(name)).unwrap()
}

pub(crate) fn set_label<F: Family, S: Scope>(object: &mut Obj<F, S>, key: &str, value: &str) {
    object.metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

pub(crate) fn set_deleting<F: Family, S: Scope>(object: &mut Obj<F, S>, now: Timestamp) {
    object.metadata.deletion_timestamp = Some(serde_json::from_value(json!(now)).unwrap());
}

/// The overrides that every cluster gets.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeOverrides {
    pub(crate) matched: MatchedOverrides,
    pub(crate) error: Option<Unmatched>,
}

impl Overrides for FakeOverrides {
    fn matching(&self, resources: &[&EmbeddedObject], clusters: &[&str]) -> Result<Vec<MatchedOverrides>, Unmatched> {
        assert!(!resources.is_empty());
        self.error.clone().map_or_else(|| Ok(vec![self.matched.clone(); clusters.len()]), Err)
    }
}

/// One object that the placement selects; its value can be changed.
#[derive(Debug, Clone)]
pub(crate) struct Hub {
    kinds: [Kind; 2],
    object: Value,
    pub(crate) complete: bool,
}

impl Hub {
    fn new(scope: ScopeKind) -> Self {
        let kind = |kind: &str, plural: &str, namespaced| Kind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced,
            preferred: true,
        };
        let object = match scope {
            ScopeKind::Cluster => json!({"metadata": {"name": "shop", "labels": {"value": "0"}}}),
            ScopeKind::Namespaced => {
                json!({"metadata": {"name": "settings", "namespace": "my-app-namespace", "labels": {"value": "0"}}})
            }
        };
        let kinds = [kind("Namespace", "namespaces", false), kind("ConfigMap", "configmaps", true)];
        Self { kinds, object, complete: true }
    }

    pub(crate) fn value(&self) -> &str {
        self.object["metadata"]["labels"]["value"].as_str().unwrap()
    }

    pub(crate) fn set(&mut self, value: &str) {
        self.object["metadata"]["labels"]["value"] = json!(value);
    }
}

impl Inventory for Hub {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Kind> {
        self.kinds.iter().find(|one| one.is(group, version, kind))
    }

    fn namespaced_kinds(&self) -> Vec<&Kind> {
        self.kinds.iter().filter(|kind| kind.namespaced).collect()
    }

    fn undiscovered(&self) -> Vec<GroupVersion> {
        Vec::new()
    }

    fn is_complete(&self, _: &Kind) -> bool {
        self.complete
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<LiveObject<'_>> {
        let object = LiveObject(&self.object);
        let fits = kind.namespaced != object.namespace().is_empty()
            && namespace.is_none_or(|namespace| namespace == object.namespace());
        if fits { vec![object] } else { Vec::new() }
    }

    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<LiveObject<'_>> {
        self.list(kind, Some(namespace)).into_iter().find(|object| object.name() == name)
    }
}
