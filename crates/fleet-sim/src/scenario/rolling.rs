//! Rolling updates: content that changes, limits, apply strategies, overrides, evictions and disruption budgets.
//!
//! There is one placement per namespace: with two placements of the same object, the owner on a member is
//! nondeterministic.

use std::time::Duration;

use fleet_api::kinds::{
    ClusterResourceOverride, ClusterResourcePlacement, ClusterResourcePlacementDisruptionBudget,
    ClusterResourcePlacementEviction, ResourceOverride,
};
use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::placing::{PolicyType, TIERS};
use super::{NAMESPACES, Placed, ScenarioBuilder};

/// Members in the setup: enough for limits to matter.
const MEMBERS: u64 = 3;
/// How long a rollout waits for a cluster whose availability cannot be tracked.
const UNAVAILABLE_PERIODS_SECONDS: [u64; 3] = [1, 5, 20];
pub(super) const LONGEST_UNAVAILABLE_PERIOD: Duration = Duration::from_secs(20);

impl ScenarioBuilder {
    pub(super) fn set_up_rolling(&mut self) {
        let namespace = NAMESPACES[0];
        self.create_namespace(namespace);
        self.create_map(namespace);
        if self.random.chance(600) {
            self.create_workload(namespace, "web");
        }
        if self.random.chance(250) {
            self.create_untracked(namespace, "rest");
        }
        for _ in 0..MEMBERS + self.random.below(2) {
            self.join();
        }
        self.place_rolling(namespace);
        if self.random.chance(300) {
            self.override_content();
        }
    }

    pub(super) fn add_rolling_action(&mut self) {
        match self.random.below(100) {
            0..20 => self.change_placed(),
            20..30 => self.change_during_rollout(),
            30..35 => self.disturb_rollout(),
            35..44 => self.change_limits(),
            44..51 => self.change_apply_strategy(),
            51..66 => self.override_content(),
            66..72 => self.drop_override(),
            72..80 => self.evict(),
            80..85 => self.set_budget(),
            85..89 => self.join(),
            89..92 => self.leave(),
            92..96 => self.label(),
            96..98 => self.change_policy(),
            _ => self.remove_placement(),
        }
    }

    /// Changes content that the placements select.
    pub(super) fn change_placed(&mut self) {
        if !self.workloads.is_empty() && self.random.chance(600) {
            return self.change_workload();
        }
        if !self.untracked.is_empty() && self.random.chance(500) {
            return self.change_untracked();
        }
        match (self.random.chance(700), self.pick_path(|builder| &builder.maps)) {
            (true, Some(path)) => self.edit_map(path),
            _ => self.create_map(NAMESPACES[0]),
        }
    }

    /// Adds changes that overlap with the rollout of earlier ones. All of them are valid, so the last one is rolled out
    /// everywhere.
    fn change_during_rollout(&mut self) {
        self.only_valid = true;
        for _ in 0..=self.random.below(2) {
            self.change_placed();
            self.overlap_content();
        }
        let before = self.actions.len();
        match self.random.below(4) {
            0 => self.change_limits(),
            1 => self.override_content(),
            // An override may fail where its ConfigMap exists. Then the content of a cluster would depend on whether
            // the short time without the ConfigMap was rolled out.
            2 if self.overrides.is_empty() => self.replace_map(),
            _ => self.change_placed(),
        }
        if self.actions.len() == before {
            self.change_placed();
        }
        self.only_valid = false;
    }

    /// A member joins, or the placement is deleted, during a rollout. No member leaves: it would keep the content of
    /// that moment, which is nondeterministic.
    fn disturb_rollout(&mut self) {
        self.only_valid = true;
        self.change_placed();
        self.overlap_content();
        let before = self.actions.len();
        match self.random.below(3) {
            0 => self.join(),
            1 => self.remove_placement(),
            _ => self.recreate_placement(),
        }
        if self.actions.len() == before {
            self.change_placed();
        }
        self.only_valid = false;
    }

    pub(super) fn place_rolling(&mut self, namespace: &'static str) {
        let policy = self.one_of(&[PolicyType::PickAll, PolicyType::PickAll, PolicyType::PickN]);
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": self.limits()});
        self.place_namespace(namespace, policy, strategy);
    }

    /// Creates a placement of a namespace and everything in it.
    pub(super) fn place_namespace(&mut self, namespace: &'static str, policy: PolicyType, strategy: Value) {
        let name = format!("crp{}", self.number());
        let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": namespace});
        let mut spec = json!({"resourceSelectors": [selector], "strategy": strategy});
        if let Some(policy) = self.policy(policy) {
            spec["policy"] = policy;
        }
        let what = format!("place {name} {}", json!({"policy": &spec["policy"], "strategy": &spec["strategy"]}));
        let kind = KindId::of::<ClusterResourcePlacement>();
        let path = self.create(what, &kind, None, &name, json!({"spec": spec}));
        self.remember_placement(path, name, policy, None);
    }

    fn limits(&mut self) -> Value {
        let unavailable = [json!(1), json!(2), json!("34%"), json!("100%")];
        let surge = [json!(0), json!(1), json!("50%")];
        let (unavailable, surge) =
            (unavailable[self.random.index(unavailable.len())].clone(), surge[self.random.index(surge.len())].clone());
        json!({
            "maxUnavailable": unavailable, "maxSurge": surge,
            "unavailablePeriodSeconds": self.one_of(&UNAVAILABLE_PERIODS_SECONDS),
        })
    }

    fn change_limits(&mut self) {
        let Some((path, Placed { name, .. })) = self.pick_placement() else { return };
        let limits = self.limits();
        let body = json!({"spec": {"strategy": {"rollingUpdate": limits}}});
        self.add(format!("limits {name} {limits}"), "PATCH", path, body);
    }

    /// Removes the limits at the end of the scenario. With them a rollout may block forever, and which clusters it
    /// blocks on is nondeterministic.
    pub(super) fn lift_limits(&mut self) {
        let placements: Vec<(String, String)> =
            self.placements.iter().map(|(path, placed)| (path.clone(), placed.name.clone())).collect();
        for (path, name) in placements {
            self.lift_limits_of(path, &name);
            // The limits of one placement do not affect another.
            self.overlap();
        }
    }

    fn lift_limits_of(&mut self, path: String, name: &str) {
        let body = json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}});
        self.add(format!("limits {name} lifted"), "PATCH", path, body);
    }

    pub(super) fn change_apply_strategy(&mut self) {
        let Some((path, Placed { name, .. })) = self.pick_placement() else { return };
        let strategy = self.apply_strategy();
        let body = json!({"spec": {"strategy": {"applyStrategy": strategy}}});
        self.add(format!("apply {name} {strategy}"), "PATCH", path, body);
    }

    pub(super) fn apply_strategy(&mut self) -> Value {
        let types = ["ClientSideApply", "ClientSideApply", "ServerSideApply", "ReportDiff"];
        let type_ = self.one_of(&types);
        // A merge patch keeps fields that it does not name, so it names every field.
        let forced = if type_ == "ServerSideApply" { json!({"force": self.random.chance(500)}) } else { Value::Null };
        json!({
            "type": type_,
            "comparisonOption": self.one_of(&["PartialComparison", "FullComparison"]),
            "whenToApply": self.one_of(&["Always", "Always", "IfNotDrifted"]),
            "whenToTakeOver": self.one_of(&["Always", "IfNoDiff", "Never"]),
            "serverSideApplyConfig": forced,
        })
    }

    /// Creates or edits an override: of the namespace with everything in it, or of one ConfigMap.
    pub(super) fn override_content(&mut self) {
        let rules = json!([self.override_rule()]);
        let known = self.pick_path(|builder| &builder.overrides);
        if let Some(path) = known.filter(|_| self.random.chance(500)) {
            let body = json!({"spec": {"policy": {"overrideRules": rules}}});
            return self.add(format!("override {path} {rules}"), "PATCH", path, body);
        }
        let map = self.pick_path(|builder| &builder.maps);
        let policy = json!({"overrideRules": rules});
        let (kind, namespace, spec) = if let Some(path) = map.filter(|_| self.random.chance(500)) {
            let name = path.rsplit('/').next().unwrap_or_default();
            let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": name});
            let spec = json!({"resourceSelectors": [selector], "policy": policy});
            (KindId::of::<ResourceOverride>(), Some(NAMESPACES[0]), spec)
        } else {
            let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": NAMESPACES[0]});
            let spec = json!({"clusterResourceSelectors": [selector], "policy": policy});
            (KindId::of::<ClusterResourceOverride>(), None, spec)
        };
        let name = format!("o{}", self.number());
        let path = self.create(format!("override {name} {rules}"), &kind, namespace, &name, json!({"spec": spec}));
        self.overrides.insert(path);
    }

    fn override_rule(&mut self) -> Value {
        let terms = if self.random.chance(400) {
            json!([])
        } else {
            json!([{"labelSelector": {"matchLabels": {"tier": self.one_of(&TIERS)}}}])
        };
        let number = self.number().to_string();
        let value = json!({"note": number, "at": "${MEMBER-CLUSTER-NAME}"});
        let note = json!({"op": "add", "path": "/metadata/annotations", "value": value});
        let patch = match self.random.below(10) {
            // It fails on every cluster that it selects: there is no such label.
            0 if !self.only_valid => {
                self.content_may_fail = true;
                json!({"op": "remove", "path": "/metadata/labels/none"})
            }
            _ => note,
        };
        json!({
            "clusterSelector": {"clusterSelectorTerms": terms}, "overrideType": "JSONPatch",
            "jsonPatchOverrides": [patch],
        })
    }

    fn drop_override(&mut self) {
        let Some(path) = self.pick_path(|builder| &builder.overrides) else { return };
        self.overrides.remove(&path);
        self.add(format!("delete override {path}"), "DELETE", path, Value::Null);
    }

    /// The verdict depends on whether the cluster has failed, so a rollout of content that may fail has to reach every
    /// cluster before.
    fn evict(&mut self) {
        let Some((path, Placed { name, .. })) = self.pick_placement() else { return };
        let Some(cluster) = self.pick_path(|builder| &builder.members) else { return };
        if self.content_may_fail {
            self.lift_limits_of(path, &name);
        }
        let eviction = format!("ev{}", self.number());
        let spec = json!({"spec": {"placementName": name, "clusterName": cluster}});
        let kind = KindId::of::<ClusterResourcePlacementEviction>();
        self.create(format!("evict {name} from {cluster}"), &kind, None, &eviction, spec);
    }

    /// Creates the disruption budget of a placement, or deletes it.
    fn set_budget(&mut self) {
        let Some((_, Placed { name, policy, .. })) = self.pick_placement() else { return };
        let kind = KindId::of::<ClusterResourcePlacementDisruptionBudget>();
        if self.budgets.remove(&name) {
            let path = kind.object_path(None, &name, None);
            return self.add(format!("delete budget {name}"), "DELETE", path, Value::Null);
        }
        let number = self.random.below(4);
        let spec = match policy {
            PolicyType::PickN if self.random.chance(500) => json!({"maxUnavailable": number}),
            _ => json!({"minAvailable": number}),
        };
        self.create(format!("budget {name} {spec}"), &kind, None, &name, json!({"spec": spec}));
        self.budgets.insert(name);
    }
}

/// The path of a namespace, on the hub and on members.
pub(super) fn namespace_path(name: &str) -> String {
    KindId::of::<Namespace>().object_path(None, name, None)
}
