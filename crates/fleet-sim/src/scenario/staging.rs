//! Staged update runs: stages, approvals, stop and resume, while strategy, content and members change.
//!
//! Some requests make no sense in the state of the fleet. The hub must refuse them with and without faults alike.

use fleet_api::kinds::{
    ApprovalRequest, ClusterApprovalRequest, ClusterResourcePlacement, ClusterStagedUpdateRun,
    ClusterStagedUpdateStrategy, ResourcePlacement, StagedUpdateRun, StagedUpdateStrategy,
};
use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::placing::{PolicyType, TIERS};
use super::{NAMESPACES, Placed, ScenarioBuilder};

const PLACED: &str = NAMESPACES[0];
const STRATEGY: &str = "stages";
const RUNS_MAX: usize = 3;

/// Chance in thousandths that a run is stopped or resumed while it updates clusters.
const OVERLAPS: u32 = 400;

#[derive(Debug, Clone)]
pub(super) struct Run {
    path: String,
    pub(super) name: String,
    state: &'static str,
}

/// The kinds of one scope.
struct Kinds {
    placement: KindId,
    strategy: KindId,
    run: KindId,
    approval: KindId,
    namespace: Option<&'static str>,
}

impl Kinds {
    fn of(namespaced: bool) -> Self {
        if namespaced {
            Self {
                placement: KindId::of::<ResourcePlacement>(),
                strategy: KindId::of::<StagedUpdateStrategy>(),
                run: KindId::of::<StagedUpdateRun>(),
                approval: KindId::of::<ApprovalRequest>(),
                namespace: Some(PLACED),
            }
        } else {
            Self {
                placement: KindId::of::<ClusterResourcePlacement>(),
                strategy: KindId::of::<ClusterStagedUpdateStrategy>(),
                run: KindId::of::<ClusterStagedUpdateRun>(),
                approval: KindId::of::<ClusterApprovalRequest>(),
                namespace: None,
            }
        }
    }
}

impl ScenarioBuilder {
    pub(super) fn set_up_staging(&mut self) {
        self.create_namespace(PLACED);
        self.create_map(PLACED);
        let namespaced = self.random.chance(400);
        if self.random.chance(600) {
            self.create_workload(PLACED, "web");
        }
        for _ in 0..3 + self.random.below(2) {
            self.join_staging(namespaced);
        }
        self.place_external(namespaced);
        self.write_strategy(namespaced);
    }

    pub(super) fn add_staging_action(&mut self) {
        let namespaced = self.placements.values().any(|placed| placed.namespace.is_some());
        match self.random.below(100) {
            _ if self.runs.is_empty() => self.start_run(namespaced),
            0..8 => self.start_run(namespaced),
            8..28 => self.change_run(),
            28..62 => self.approve(namespaced),
            62..72 => self.change_staged(),
            72..77 => self.write_strategy(namespaced),
            77..82 => self.label(),
            82..86 => self.join_staging(namespaced),
            86..89 => self.leave(),
            89..93 => self.override_content(),
            93..96 => self.delete_run(),
            96..98 => self.change_policy(),
            _ => self.delete_strategy(namespaced),
        }
    }

    /// A namespaced placement does not create its namespace on a member, so the member's user does.
    fn join_staging(&mut self, namespaced: bool) {
        let before = self.actions.len();
        self.join();
        let Some(joining) = self.actions.get(before).and_then(|action| action.joining.as_ref()) else { return };
        let member = joining.member.name.to_string();
        if namespaced {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACED}});
            let path = KindId::of::<Namespace>().collection_path(None);
            self.add_on_member(&member, format!("on {member}: namespace {PLACED}"), "POST", path, body);
        }
    }

    fn place_external(&mut self, namespaced: bool) {
        if !namespaced {
            return self.place_namespace(PLACED, PolicyType::PickAll, json!({"type": "External"}));
        }
        let kinds = Kinds::of(true);
        let selectors: Vec<Value> = [("", "ConfigMap"), ("apps", "Deployment")]
            .map(|(group, kind)| json!({"group": group, "version": "v1", "kind": kind, "labelSelector": {"matchLabels": {"app": "x"}}}))
            .into();
        let mut spec = json!({"resourceSelectors": selectors, "strategy": {"type": "External"}});
        if let Some(policy) = self.policy(PolicyType::PickAll) {
            spec["policy"] = policy;
        }
        let name = format!("rp{}", self.number());
        let what = format!("place {name} {spec}");
        let path = self.create(what, &kinds.placement, kinds.namespace, &name, json!({"spec": spec}));
        self.remember_placement(path, name, PolicyType::PickAll, kinds.namespace);
    }

    /// Creates or edits the strategy.
    fn write_strategy(&mut self, namespaced: bool) {
        let kinds = Kinds::of(namespaced);
        let mut stages: Vec<Value> = TIERS.iter().map(|tier| self.strategy_stage(tier)).collect();
        if self.random.chance(500) {
            stages.reverse();
        }
        let is_new = self.stages.is_empty();
        self.stages = stages;
        let spec = json!({"stages": self.stages});
        if is_new {
            let what = format!("strategy {spec}");
            self.create(what, &kinds.strategy, kinds.namespace, STRATEGY, json!({"spec": spec}));
        } else {
            let path = kinds.strategy.object_path(kinds.namespace, STRATEGY, None);
            self.add(format!("strategy {spec}"), "PATCH", path, json!({"spec": spec}));
        }
    }

    fn strategy_stage(&mut self, tier: &str) -> Value {
        let mut stage = json!({
            "name": tier, "labelSelector": {"matchLabels": {"tier": tier}},
            "maxConcurrency": ([json!(1), json!(2), json!("50%"), json!("100%")])[self.random.index(4)],
        });
        if self.random.chance(300) {
            // Sorting by the last label fails: regions are not numbers.
            stage["sortingLabelKey"] = self.one_of(&["rank", "rank", "rank", "rank", "rank", "region"]).into();
        }
        if self.random.chance(350) {
            stage["beforeStageTasks"] = json!([{"type": "Approval"}]);
        }
        let mut after = Vec::new();
        if self.random.chance(350) {
            after.push(json!({"type": "Approval"}));
        }
        if self.random.chance(350) {
            after.push(json!({"type": "TimedWait", "waitTime": self.one_of(&["5s", "20s"])}));
        }
        if !after.is_empty() {
            stage["afterStageTasks"] = after.into();
        }
        stage
    }

    fn delete_strategy(&mut self, namespaced: bool) {
        let kinds = Kinds::of(namespaced);
        if std::mem::take(&mut self.stages).is_empty() {
            return;
        }
        let path = kinds.strategy.object_path(kinds.namespace, STRATEGY, None);
        self.add("delete strategy".to_owned(), "DELETE", path, Value::Null);
    }

    fn start_run(&mut self, namespaced: bool) {
        if self.runs.len() >= RUNS_MAX {
            return;
        }
        let kinds = Kinds::of(namespaced);
        let Some((_, Placed { name: placement, .. })) = self.pick_placement() else { return };
        let (name, state) =
            (format!("run{}", self.number()), self.one_of(&["Run", "Run", "Run", "Initialize", "Stop"]));
        let mut spec = json!({"placementName": placement, "stagedRolloutStrategyName": STRATEGY, "state": state});
        if self.random.chance(200) {
            spec["resourceSnapshotIndex"] = "0".into();
        }
        let what = format!("run {name} {state}");
        let path = self.create(what, &kinds.run, kinds.namespace, &name, json!({"spec": spec}));
        self.runs.push(Run { path, name, state });
        if state == "Run" && self.random.chance(OVERLAPS) {
            self.overlap();
            self.change_state(self.runs.len() - 1);
        }
    }

    fn pick_run(&mut self) -> Option<usize> {
        (!self.runs.is_empty()).then(|| self.random.index(self.runs.len()))
    }

    /// Starts, stops or resumes a run.
    fn change_run(&mut self) {
        if let Some(index) = self.pick_run() {
            self.change_state(index);
        }
    }

    /// A run that is stopped while it updates clusters is resumed shortly after: where it stops is nondeterministic,
    /// where it ends is not (except for the condition of a stage whose clusters never finish).
    fn change_state(&mut self, index: usize) {
        let state = if self.runs[index].state == "Run" { "Stop" } else { "Run" };
        self.runs[index].state = state;
        let Run { path, name, .. } = self.runs[index].clone();
        if self.actions.last().is_some_and(|before| before.next_after.is_some()) {
            self.tolerance.interrupted_runs.insert(name.clone());
        }
        self.add(format!("{} {name}", state.to_lowercase()), "PATCH", path, json!({"spec": {"state": state}}));
        let is_on_its_way = self.actions.len() > 1 && self.actions[self.actions.len() - 2].next_after.is_some();
        if state == "Stop" && (is_on_its_way || self.random.chance(OVERLAPS)) {
            self.overlap();
            self.change_state(index);
        }
    }

    fn approve(&mut self, namespaced: bool) {
        let kinds = Kinds::of(namespaced);
        let Some(index) = self.pick_run() else { return };
        let name = self.runs[index].name.clone();
        let gates: Vec<String> = self.stages.iter().flat_map(gates_of).collect();
        let Some(gate) = self.random.pick(&gates).cloned() else { return };
        let request = format!("{name}-{gate}");
        let condition = json!({
            "type": "Approved", "status": "True", "reason": "approved", "message": "approved",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        });
        let path = kinds.approval.object_path(kinds.namespace, &request, Some("status"));
        self.add(format!("approve {request}"), "PATCH", path, json!({"status": {"conditions": [condition]}}));
    }

    fn change_staged(&mut self) {
        match self.pick_path(|builder| &builder.maps) {
            Some(path) if self.random.chance(700) => self.edit_map(path),
            _ => self.create_map(PLACED),
        }
    }

    fn delete_run(&mut self) {
        let Some(index) = self.pick_run() else { return };
        let Run { path, name, .. } = self.runs.remove(index);
        self.add(format!("delete run {name}"), "DELETE", path, Value::Null);
    }
}

/// The suffixes of the names of a stage's approval requests.
pub(super) fn gates_of(stage: &Value) -> Vec<String> {
    let name = stage["name"].as_str().unwrap_or_default();
    let asks = |tasks: &Value| tasks.as_array().into_iter().flatten().any(|task| task["type"] == "Approval");
    let gates = [("before", asks(&stage["beforeStageTasks"])), ("after", asks(&stage["afterStageTasks"]))];
    gates.into_iter().filter(|(_, asks)| *asks).map(|(when, _)| format!("{when}-{name}")).collect()
}
