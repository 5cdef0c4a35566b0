//! Members that join, leave and change, and placements with every policy.

use fleet_api::kinds::{ClusterResourcePlacement, MemberCluster, ResourcePlacement};
use fleet_runtime::KindId;
use serde_json::{Value, json};

use super::{Action, JoiningMember, NAMESPACES, Placed, ScenarioBuilder};
use crate::member::SimulatedMember;

/// Most members at a time. Enough for every policy to have alternatives.
const MEMBERS_MAX: usize = 6;
/// The last member does not leave.
const MEMBERS_MIN: usize = 1;
const PLACEMENTS_MAX: usize = 4;
pub(super) const REGIONS: [&str; 3] = ["east", "west", "north"];
/// Label values by which stages may sort their clusters.
const RANKS: [&str; 3] = ["1", "2", "3"];
/// Label values by which placements and stages select.
pub(super) const TIERS: [&str; 2] = ["prod", "test"];
/// Long, because heartbeats cost run time, and short enough for a cluster to stay healthy when one heartbeat is lost.
const HEARTBEAT_PERIOD_SECONDS: i32 = 120;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyType {
    None,
    PickAll,
    PickFixed,
    PickN,
}

impl ScenarioBuilder {
    pub(super) fn set_up_placing(&mut self) {
        for namespace in NAMESPACES {
            self.create_namespace(namespace);
            self.create_map(namespace);
        }
        for _ in 0..=self.random.below(2) {
            self.join();
        }
    }

    pub(super) fn add_placing_action(&mut self) {
        match self.random.below(100) {
            0..12 => self.join(),
            12..20 => self.leave(),
            20..34 => self.label(),
            34..41 => self.taint(),
            41..58 => self.place(),
            58..64 => self.place_and_remove(),
            64..76 => self.change_policy(),
            76..81 => self.remove_placement(),
            81..84 => self.recreate_placement(),
            84..89 => self.label_namespace(),
            _ => self.change_maps(),
        }
    }

    pub(super) fn join(&mut self) {
        // The lowest free name: a member that left may join again.
        let free = (1..=MEMBERS_MAX).map(|number| format!("m{number}")).find(|name| !self.members.contains(name));
        if let Some(name) = free {
            self.join_as(&name);
        }
    }

    /// A member that left may join again with the agent that still runs, or with a restarted one.
    pub(super) fn join_as(&mut self, name: &str) {
        let Ok(member) = SimulatedMember::new(name) else { return };
        let (region, tier) = (self.one_of(&REGIONS), self.one_of(&TIERS));
        let rank = self.one_of(&RANKS);
        let mut member = member.labelled(&[("region", region), ("tier", tier), ("rank", rank)]);
        member.works = self.kind.works();
        member.nodes = u32::try_from(1 + self.random.below(4)).unwrap_or(1);
        member.heartbeat_period_seconds = Some(HEARTBEAT_PERIOD_SECONDS);
        let path = KindId::of::<MemberCluster>().collection_path(None);
        let body = serde_json::to_value(member.member_cluster()).unwrap_or_default();
        self.add(format!("join {name} region={region} tier={tier}"), "POST", path, body);
        let keeps_agent = self.left_members.contains(name) && self.random.chance(500);
        if let Some(action) = self.actions.last_mut() {
            action.joining = Some(JoiningMember { member, keeps_agent });
        }
        self.left_members.remove(name);
        self.members.insert(name.to_owned());
    }

    pub(super) fn leave(&mut self) {
        if self.members.len() <= MEMBERS_MIN {
            return;
        }
        let Some(name) = self.pick_path(|builder| &builder.members) else { return };
        self.add(format!("leave {name}"), "DELETE", member_path(&name), Value::Null);
        self.members.remove(&name);
        self.tolerance.left_members.insert(name.clone());
        let runs = self.runs.iter().map(|run| run.name.clone());
        self.tolerance.runs_with_leaves.extend(runs);
        self.left_members.insert(name);
    }

    pub(super) fn label(&mut self) {
        let Some(name) = self.pick_path(|builder| &builder.members) else { return };
        let (key, value) =
            if self.random.chance(500) { ("region", self.one_of(&REGIONS)) } else { ("tier", self.one_of(&TIERS)) };
        let body = json!({"metadata": {"labels": {key: value}}});
        self.add(format!("label {name} {key}={value}"), "PATCH", member_path(&name), body);
    }

    fn taint(&mut self) {
        let Some(name) = self.pick_path(|builder| &builder.members) else { return };
        let tainted = self.random.chance(600);
        let taints = if tainted { json!([{"key": "busy", "value": "yes", "effect": "NoSchedule"}]) } else { json!([]) };
        let what = format!("{} {name}", if tainted { "taint" } else { "clear" });
        self.add(what, "PATCH", member_path(&name), json!({"spec": {"taints": taints}}));
    }

    fn place(&mut self) {
        if self.placements.len() >= PLACEMENTS_MAX {
            return;
        }
        let types = [PolicyType::None, PolicyType::PickAll, PolicyType::PickFixed, PolicyType::PickN];
        let policy_type = self.one_of(&types);
        let number = self.number();
        let namespaced = self.random.chance(300);
        let (kind, namespace, name, selector) = if namespaced {
            let namespace = self.one_of(&NAMESPACES);
            let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": "x"}}});
            (KindId::of::<ResourcePlacement>(), Some(namespace), format!("rp{number}"), selector)
        } else {
            let mut selector = json!({"group": "", "version": "v1", "kind": "Namespace"});
            if self.random.chance(500) {
                selector["name"] = self.one_of(&NAMESPACES).into();
            } else {
                selector["labelSelector"] = json!({"matchLabels": {"tier": self.one_of(&TIERS)}});
            }
            (KindId::of::<ClusterResourcePlacement>(), None, format!("crp{number}"), selector)
        };
        let mut spec = json!({"resourceSelectors": [selector]});
        if let Some(policy) = self.policy(policy_type) {
            spec["policy"] = policy;
        }
        let what = format!("place {name} {policy_type:?}");
        let path = self.create(what, &kind, namespace, &name, json!({"spec": spec}));
        self.remember_placement(path, name, policy_type, namespace);
    }

    /// Creates a placement and deletes or recreates it while it is being scheduled.
    fn place_and_remove(&mut self) {
        let before = self.actions.len();
        self.place();
        let Some(path) = self
            .placements
            .iter()
            .find(|(_, one)| self.actions.len() > before && one.created_by == self.actions[before])
        else {
            return;
        };
        let path = path.0.clone();
        self.overlap();
        if self.random.chance(500) { self.remove(&path) } else { self.recreate(&path) }
    }

    pub(super) fn change_policy(&mut self) {
        let Some((path, Placed { policy: policy_type, .. })) = self.pick_placement() else { return };
        let Some(policy) = self.policy(policy_type) else { return };
        // In a merge patch, null removes a field.
        let mut body = json!({"affinity": null, "topologySpreadConstraints": null, "tolerations": null});
        if let (Value::Object(all), Value::Object(new)) = (&mut body, policy) {
            all.extend(new);
        }
        self.add(format!("policy {path} {body}"), "PATCH", path, json!({"spec": {"policy": body}}));
    }

    pub(super) fn remove_placement(&mut self) {
        if let Some((path, _)) = self.pick_placement() {
            self.remove(&path);
        }
    }

    fn remove(&mut self, path: &str) {
        self.placements.remove(path);
        self.add(format!("remove {path}"), "DELETE", path.to_owned(), Value::Null);
    }

    /// Deletes a placement and creates it again in its first form, as soon as the old one is gone.
    pub(super) fn recreate_placement(&mut self) {
        if let Some((path, _)) = self.pick_placement() {
            self.recreate(&path);
        }
    }

    pub(super) fn recreate(&mut self, path: &str) {
        let Some(Placed { created_by, .. }) = self.placements.get(path).cloned() else { return };
        self.add(format!("remove {path}"), "DELETE", path.to_owned(), Value::Null);
        self.overlap();
        self.actions.push(Action {
            what: format!("again {}", created_by.what),
            retries_conflict: true,
            next_after: None,
            ..created_by
        });
    }

    pub(super) fn policy(&mut self, policy_type: PolicyType) -> Option<Value> {
        match policy_type {
            PolicyType::None => None,
            PolicyType::PickFixed => {
                let mut names: Vec<String> = (1..=MEMBERS_MAX).map(|number| format!("m{number}")).collect();
                names.retain(|_| self.random.chance(500));
                if names.is_empty() {
                    names.push("m1".to_owned());
                }
                Some(json!({"placementType": "PickFixed", "clusterNames": names}))
            }
            PolicyType::PickAll => {
                let mut policy = json!({"placementType": "PickAll"});
                self.tolerate(&mut policy);
                if self.random.chance(700) {
                    let terms = json!([{"labelSelector": {"matchLabels": {"tier": self.one_of(&TIERS)}}}]);
                    policy["affinity"] = json!({"clusterAffinity":
                        {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}});
                }
                Some(policy)
            }
            PolicyType::PickN => {
                let mut policy = json!({"placementType": "PickN", "numberOfClusters": self.random.below(5)});
                self.tolerate(&mut policy);
                if self.random.chance(400) {
                    let preferred = json!([{"weight": 20, "preference":
                        {"labelSelector": {"matchLabels": {"region": self.one_of(&REGIONS)}}}}]);
                    policy["affinity"] =
                        json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
                }
                if self.random.chance(300) {
                    let words = ["DoNotSchedule", "ScheduleAnyway"];
                    let otherwise = self.one_of(&words);
                    policy["topologySpreadConstraints"] =
                        json!([{"maxSkew": 1, "topologyKey": "region", "whenUnsatisfiable": otherwise}]);
                }
                Some(policy)
            }
        }
    }

    fn tolerate(&mut self, policy: &mut Value) {
        if self.random.chance(300) {
            policy["tolerations"] = json!([{"key": "busy", "operator": "Exists"}]);
        }
    }
}

fn member_path(name: &str) -> String {
    KindId::of::<MemberCluster>().object_path(None, name, None)
}
