//! What users do in a simulated world: a list of actions by seed.
//!
//! Decides the actions beforehand, from the seed alone, so that the same story can be told in good and in bad weather. Each
//! action is one request: what one request leads to may not depend on luck, what two lead to may. Never looks at the
//! world.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::kinds::{ClusterResourcePlacement, MemberCluster, ResourcePlacement};
use fleet_runtime::KindId;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};

use crate::Random;
use crate::member::SimulatedMember;

/// Most members at a time. Enough for every policy to have a choice.
const MEMBERS_MAX: usize = 6;
/// Fewest members that others leave behind.
const MEMBERS_MIN: usize = 1;
const PLACEMENTS_MAX: usize = 4;
const NAMESPACES: [&str; 2] = ["app-a", "app-b"];
const REGIONS: [&str; 3] = ["east", "west", "north"];
/// Tiers by which placements select.
const TIERS: [&str; 2] = ["prod", "test"];
/// Seldom, because heartbeats cost time, and still often enough for a cluster to count as healthy when one is lost.
const HEARTBEAT_PERIOD_SECONDS: i32 = 120;

/// One request of a user, and who appears with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// For people: `label member2 region=west`.
    pub what: String,
    pub method: &'static str,
    pub path: String,
    pub body: Value,
    /// A member whose agent runs from now on.
    pub appears: Option<SimulatedMember>,
}

/// What the author of a story remembers of it.
struct Author {
    random: Random,
    members: BTreeSet<String>,
    /// By path: the type of policy, which cannot be changed.
    placements: BTreeMap<String, PolicyType>,
    maps: BTreeSet<String>,
    /// Makes names and contents differ.
    counter: u32,
    story: Vec<Action>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PolicyType {
    None,
    PickAll,
    PickFixed,
    PickN,
}

/// The actions before the first storm, and those that a storm follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    pub opening: Vec<Action>,
    pub actions: Vec<Action>,
}

/// The story of a seed, with so many actions after the opening.
pub fn story(random: Random, length: usize) -> Story {
    let mut author = Author {
        random,
        members: BTreeSet::new(),
        placements: BTreeMap::new(),
        maps: BTreeSet::new(),
        counter: 0,
        story: Vec::new(),
    };
    for namespace in NAMESPACES {
        author.create_namespace(namespace);
        author.create_map(namespace);
    }
    for _ in 0..=author.random.below(2) {
        author.join();
    }
    let opening = std::mem::take(&mut author.story);
    while author.story.len() < length {
        author.act();
    }
    Story { opening, actions: author.story }
}

impl Author {
    fn act(&mut self) {
        match self.random.below(100) {
            0..12 => self.join(),
            12..20 => self.leave(),
            20..35 => self.label(),
            35..42 => self.taint(),
            42..62 => self.place(),
            62..76 => self.change_policy(),
            76..82 => self.remove_placement(),
            82..88 => self.label_namespace(),
            _ => self.change_content(),
        }
    }

    fn tell(&mut self, what: String, method: &'static str, path: String, body: Value) {
        self.story.push(Action { what, method, path, body, appears: None });
    }

    fn number(&mut self) -> u32 {
        self.counter += 1;
        self.counter
    }

    fn region(&mut self) -> &'static str {
        REGIONS[self.random.index(REGIONS.len())]
    }

    fn tier(&mut self) -> &'static str {
        TIERS[self.random.index(TIERS.len())]
    }

    fn a_member(&mut self) -> Option<String> {
        let all: Vec<String> = self.members.iter().cloned().collect();
        self.random.pick(&all).cloned()
    }

    fn join(&mut self) {
        // The lowest free name: a member that left may come back under its name.
        let free = (1..=MEMBERS_MAX).map(|number| format!("m{number}")).find(|name| !self.members.contains(name));
        let Some(name) = free else { return };
        let Ok(member) = SimulatedMember::new(&name) else { return };
        let (region, tier) = (self.region(), self.tier());
        let mut member = member.labelled(&[("region", region), ("tier", tier)]);
        member.nodes = u32::try_from(1 + self.random.below(4)).unwrap_or(1);
        member.heartbeat_period_seconds = Some(HEARTBEAT_PERIOD_SECONDS);
        let path = KindId::of::<MemberCluster>().collection_path(None);
        let body = serde_json::to_value(member.member_cluster()).unwrap_or_default();
        self.tell(format!("join {name} region={region} tier={tier}"), "POST", path, body);
        if let Some(action) = self.story.last_mut() {
            action.appears = Some(member);
        }
        self.members.insert(name);
    }

    fn leave(&mut self) {
        if self.members.len() <= MEMBERS_MIN {
            return;
        }
        let Some(name) = self.a_member() else { return };
        self.tell(format!("leave {name}"), "DELETE", member_path(&name), Value::Null);
        self.members.remove(&name);
    }

    fn label(&mut self) {
        let Some(name) = self.a_member() else { return };
        let (key, value) = if self.random.chance(500) { ("region", self.region()) } else { ("tier", self.tier()) };
        let body = json!({"metadata": {"labels": {key: value}}});
        self.tell(format!("label {name} {key}={value}"), "PATCH", member_path(&name), body);
    }

    fn taint(&mut self) {
        let Some(name) = self.a_member() else { return };
        let tainted = self.random.chance(600);
        let taints = if tainted { json!([{"key": "busy", "value": "yes", "effect": "NoSchedule"}]) } else { json!([]) };
        let what = format!("{} {name}", if tainted { "taint" } else { "clear" });
        self.tell(what, "PATCH", member_path(&name), json!({"spec": {"taints": taints}}));
    }

    fn place(&mut self) {
        if self.placements.len() >= PLACEMENTS_MAX {
            return;
        }
        let types = [PolicyType::None, PolicyType::PickAll, PolicyType::PickFixed, PolicyType::PickN];
        let policy_type = types[self.random.index(types.len())];
        let number = self.number();
        let namespaced = self.random.chance(300);
        let (kind, namespace, name, selector) = if namespaced {
            let namespace = NAMESPACES[self.random.index(NAMESPACES.len())];
            let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": "x"}}});
            (KindId::of::<ResourcePlacement>(), Some(namespace), format!("rp{number}"), selector)
        } else {
            let mut selector = json!({"group": "", "version": "v1", "kind": "Namespace"});
            if self.random.chance(500) {
                selector["name"] = NAMESPACES[self.random.index(NAMESPACES.len())].into();
            } else {
                selector["labelSelector"] = json!({"matchLabels": {"tier": self.tier()}});
            }
            (KindId::of::<ClusterResourcePlacement>(), None, format!("crp{number}"), selector)
        };
        let mut spec = json!({"resourceSelectors": [selector]});
        if let Some(policy) = self.policy(policy_type) {
            spec["policy"] = policy;
        }
        let body = json!({
            "apiVersion": kind.api_version(), "kind": &*kind.kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        });
        self.tell(format!("place {name} {policy_type:?}"), "POST", kind.collection_path(namespace), body);
        self.placements.insert(kind.object_path(namespace, &name, None), policy_type);
    }

    fn a_placement(&mut self) -> Option<(String, PolicyType)> {
        let all: Vec<(String, PolicyType)> = self.placements.iter().map(|(path, one)| (path.clone(), *one)).collect();
        self.random.pick(&all).cloned()
    }

    fn change_policy(&mut self) {
        let Some((path, policy_type)) = self.a_placement() else { return };
        let Some(policy) = self.policy(policy_type) else { return };
        // Absent fields must go, which a merge patch says by null.
        let mut body = json!({"affinity": null, "topologySpreadConstraints": null, "tolerations": null});
        if let (Value::Object(all), Value::Object(new)) = (&mut body, policy) {
            all.extend(new);
        }
        self.tell(format!("policy {path} {body}"), "PATCH", path, json!({"spec": {"policy": body}}));
    }

    fn remove_placement(&mut self) {
        let Some((path, _)) = self.a_placement() else { return };
        self.placements.remove(&path);
        self.tell(format!("remove {path}"), "DELETE", path, Value::Null);
    }

    fn policy(&mut self, policy_type: PolicyType) -> Option<Value> {
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
                    let terms = json!([{"labelSelector": {"matchLabels": {"tier": self.tier()}}}]);
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
                        {"labelSelector": {"matchLabels": {"region": self.region()}}}}]);
                    policy["affinity"] =
                        json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
                }
                if self.random.chance(300) {
                    let words = ["DoNotSchedule", "ScheduleAnyway"];
                    let otherwise = words[self.random.index(words.len())];
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

    fn create_namespace(&mut self, name: &str) {
        let tier = self.tier();
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"tier": tier}}});
        let path = KindId::of::<Namespace>().collection_path(None);
        self.tell(format!("namespace {name} tier={tier}"), "POST", path, body);
    }

    fn label_namespace(&mut self) {
        let (name, tier) = (NAMESPACES[self.random.index(NAMESPACES.len())], self.tier());
        let path = KindId::of::<Namespace>().object_path(None, name, None);
        let body = json!({"metadata": {"labels": {"tier": tier}}});
        self.tell(format!("label namespace {name} tier={tier}"), "PATCH", path, body);
    }

    fn create_map(&mut self, namespace: &str) {
        let (number, kind) = (self.number(), KindId::of::<ConfigMap>());
        let name = format!("cm{number}");
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": "x"}},
            "data": {"number": number.to_string()},
        });
        self.tell(format!("create {namespace}/{name}"), "POST", kind.collection_path(Some(namespace)), body);
        self.maps.insert(kind.object_path(Some(namespace), &name, None));
    }

    fn change_content(&mut self) {
        let all: Vec<String> = self.maps.iter().cloned().collect();
        match (self.random.below(3), self.random.pick(&all).cloned()) {
            (0, Some(path)) => {
                let number = self.number().to_string();
                self.tell(format!("edit {path}"), "PATCH", path, json!({"data": {"number": number}}));
            }
            (1, Some(path)) if all.len() > 1 => {
                self.maps.remove(&path);
                self.tell(format!("delete {path}"), "DELETE", path, Value::Null);
            }
            _ => {
                let namespace = NAMESPACES[self.random.index(NAMESPACES.len())];
                self.create_map(namespace);
            }
        }
    }
}

fn member_path(name: &str) -> String {
    KindId::of::<MemberCluster>().object_path(None, name, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_tells_one_story() {
        let tell = |seed| story(Random::new(seed), 12);
        assert_eq!(tell(1), tell(1));
        assert_ne!(tell(1), tell(2));
        assert_eq!(tell(1).actions.len(), 12);
    }

    #[test]
    fn all_kinds_of_actions_are_told_in_a_hundred_stories() {
        let stories = (0..100).flat_map(|seed| story(Random::new(seed), 12).actions);
        let words: BTreeSet<String> =
            stories.filter_map(|action| action.what.split(' ').next().map(str::to_owned)).collect();
        let expected =
            ["clear", "create", "delete", "edit", "join", "label", "leave", "place", "policy", "remove", "taint"];
        assert_eq!(words.into_iter().collect::<Vec<_>>(), expected);
    }
}
