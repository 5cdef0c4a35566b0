//! The state of a hub and of its members in a form that two worlds can be compared in.
//!
//! Decides what of an object is luck (times, uids, revisions, random name suffixes) and leaves it out. What remains must be the
//! same wherever the same things were asked for. Of a member only what was placed or made by hand counts, not what its own
//! controllers made of it. Never decides whether a state is right: that is `laws`.

use std::collections::BTreeMap;

use fleet_api::kinds::{
    AppliedWork, ApprovalRequest, ClusterApprovalRequest, ClusterProfile, ClusterResourceBinding,
    ClusterResourceOverrideSnapshot, ClusterResourcePlacement, ClusterResourcePlacementEviction,
    ClusterResourcePlacementStatus, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, ClusterStagedUpdateRun,
    InternalMemberCluster, MemberCluster, ResourceBinding, ResourceOverrideSnapshot, ResourcePlacement,
    ResourceSnapshot, SchedulingPolicySnapshot, StagedUpdateRun, Work,
};
use fleet_api::names::BindingName;
use fleet_api::well_known::{annotations, label_values, labels};
use fleet_runtime::KindId;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::Value;

/// Objects by kind, namespace and name, as stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HubState(pub BTreeMap<String, Vec<Value>>);

/// What a hub agent writes or reads.
fn kinds() -> Vec<KindId> {
    vec![
        KindId::of::<MemberCluster>(),
        KindId::of::<InternalMemberCluster>(),
        KindId::of::<ClusterProfile>(),
        KindId::of::<Namespace>(),
        KindId::of::<Role>(),
        KindId::of::<RoleBinding>(),
        KindId::of::<ClusterResourcePlacement>(),
        KindId::of::<ResourcePlacement>(),
        KindId::of::<ClusterResourcePlacementStatus>(),
        KindId::of::<ClusterSchedulingPolicySnapshot>(),
        KindId::of::<SchedulingPolicySnapshot>(),
        KindId::of::<ClusterResourceSnapshot>(),
        KindId::of::<ResourceSnapshot>(),
        KindId::of::<ClusterResourceBinding>(),
        KindId::of::<ResourceBinding>(),
        KindId::of::<Work>(),
        KindId::of::<ClusterResourceOverrideSnapshot>(),
        KindId::of::<ResourceOverrideSnapshot>(),
        KindId::of::<ClusterResourcePlacementEviction>(),
        KindId::of::<ClusterStagedUpdateRun>(),
        KindId::of::<StagedUpdateRun>(),
        KindId::of::<ClusterApprovalRequest>(),
        KindId::of::<ApprovalRequest>(),
    ]
}

/// What is placed on members in stories, and what their agents keep about it.
fn kinds_on_members() -> Vec<KindId> {
    vec![KindId::of::<Namespace>(), KindId::of::<ConfigMap>(), KindId::of::<Deployment>(), KindId::of::<AppliedWork>()]
}

/// Namespaces that every cluster has.
const SYSTEM_NAMESPACES: [&str; 5] = ["default", "kube-system", "kube-public", "kube-node-lease", "fleet-system"];
/// The map that every namespace has.
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
/// How often a workload was given another template.
const ROLLOUT_COUNT: &str = "deployment.kubernetes.io/revision";

impl HubState {
    /// Reads everything that matters from a hub.
    pub async fn read(client: &kube::Client) -> Result<Self, kube::Error> {
        let mut state = BTreeMap::new();
        for kind in kinds() {
            let items = list(client, &kind).await?;
            state.insert(kind.kind.to_string(), items);
        }
        Ok(Self(state))
    }

    pub fn of_kind(&self, kind: &str) -> &[Value] {
        self.0.get(kind).map_or(&[], Vec::as_slice)
    }

    /// Whether some member says how what it has differs from what it should have.
    pub fn tells_differences(&self) -> bool {
        let works = self.of_kind("Work").iter().filter_map(|work| work["status"]["manifestConditions"].as_array());
        works.flatten().any(|one| one.get("driftDetails").is_some() || one.get("diffDetails").is_some())
    }

    /// The state without luck, as text: one object after the other, sorted.
    pub fn without_luck(&self) -> String {
        self.printed("", normalise)
    }

    fn printed(&self, heading: &str, normalise: impl Fn(&mut Value)) -> String {
        let mut objects = Vec::new();
        for (kind, items) in &self.0 {
            for item in items {
                let mut object = item.clone();
                normalise(&mut object);
                let meta = &object["metadata"];
                let word = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
                objects.push((kind.clone(), word("namespace"), word("name"), format!("{object:#}")));
            }
        }
        objects.sort();
        let text = objects
            .into_iter()
            .map(|(kind, namespace, name, text)| format!("{heading}{kind} {namespace}/{name}\n{text}\n"));
        text.collect()
    }

    /// The same without what tells how many versions of content it took to get here: of all snapshots only the newest are kept,
    /// and they are called so wherever they are named.
    #[must_use]
    pub fn without_counts(mut self) -> Self {
        let mut names = BTreeMap::new();
        let mut indices = BTreeMap::new();
        for kind in COUNTED {
            let Some(snapshots) = self.0.get_mut(kind) else { continue };
            snapshots.retain(|one| one["metadata"]["labels"][labels::IS_LATEST_SNAPSHOT] == label_values::TRUE);
            for one in snapshots {
                let meta = &mut one["metadata"];
                let own = [labels::PARENT_OVERRIDE, labels::PARENT_PLACEMENT].map(|key| meta["labels"][key].clone());
                let parent = own.iter().find_map(Value::as_str).unwrap_or_default().to_owned();
                let name = meta["name"].as_str().unwrap_or_default().to_owned();
                names.insert(name, format!("newest of {parent}"));
                if let Some(index) = meta["labels"][labels::RESOURCE_INDEX].as_str() {
                    let namespace = meta["namespace"].as_str().unwrap_or_default().to_owned();
                    indices.insert((namespace, parent), index.to_owned());
                }
                if let Some(all) = meta["labels"].as_object_mut() {
                    all.remove(labels::OVERRIDE_INDEX);
                }
            }
        }
        for (kind, objects) in &mut self.0 {
            for object in objects {
                let index = placement_of(kind, object).and_then(|placement| indices.get(&placement));
                call_newest(object, &names, index.map(String::as_str));
            }
        }
        self
    }

    /// Reads what was placed on a member, and what was made there by hand.
    pub async fn read_member(client: &kube::Client) -> Result<Self, kube::Error> {
        let mut state = BTreeMap::new();
        for kind in kinds_on_members() {
            let mut items = match list(client, &kind).await {
                // The agent that would need the kind does not apply anything.
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                other => other?,
            };
            items.retain(|object| !is_part_of_every_cluster(&kind, object));
            state.insert(kind.kind.to_string(), items);
        }
        Ok(Self(state))
    }

    /// The same as text without luck and without what the member's own controllers say of it.
    pub fn of_member_without_luck(&self, member: &str) -> String {
        self.printed(&format!("{member}: "), normalise_on_member)
    }
}

/// Kinds of which there are more, the more often something changed.
const COUNTED: [&str; 4] =
    ["ClusterResourceSnapshot", "ResourceSnapshot", "ClusterResourceOverrideSnapshot", "ResourceOverrideSnapshot"];
/// Fields and labels that hold the index of a resource snapshot.
const INDICES: [&str; 3] = ["observedResourceIndex", labels::RESOURCE_INDEX, labels::PARENT_RESOURCE_SNAPSHOT_INDEX];
/// What a Work says of the names of overrides.
const OVERRIDE_HASHES: [&str; 2] = [annotations::PARENT_OVERRIDES_HASH, annotations::PARENT_CLUSTER_OVERRIDES_HASH];

/// Namespace and name of the placement that an object belongs to.
fn placement_of(kind: &str, object: &Value) -> Option<(String, String)> {
    let meta = &object["metadata"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if kind.ends_with("ResourcePlacement") {
        return Some((text(&meta["namespace"]).unwrap_or_default(), text(&meta["name"])?));
    }
    let namespace = match kind {
        "Work" => text(&meta["labels"][labels::PARENT_PLACEMENT_NAMESPACE]),
        _ => text(&meta["namespace"]),
    };
    Some((namespace.unwrap_or_default(), text(&meta["labels"][labels::PARENT_PLACEMENT])?))
}

fn call_newest(value: &mut Value, names: &BTreeMap<String, String>, index: Option<&str>) {
    match value {
        Value::String(text) => {
            if let Some(newest) = names.get(text) {
                text.clone_from(newest);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| call_newest(item, names, index)),
        Value::Object(fields) => {
            fields.retain(|key, _| !OVERRIDE_HASHES.contains(&key.as_str()));
            for (key, field) in fields {
                if index.is_some() && INDICES.contains(&key.as_str()) && field.as_str() == index {
                    *field = "newest".into();
                }
                call_newest(field, names, index);
            }
        }
        _ => {}
    }
}

async fn list(client: &kube::Client, kind: &KindId) -> Result<Vec<Value>, kube::Error> {
    let request = http::Request::get(kind.collection_path(None)).body(Vec::new());
    let mut list: Value = client.request(request.map_err(kube::Error::HttpError)?).await?;
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Ok(Vec::new()),
    }
}

fn is_part_of_every_cluster(kind: &KindId, object: &Value) -> bool {
    let (namespace, name) = (object["metadata"]["namespace"].as_str(), object["metadata"]["name"].as_str());
    let system = |word: Option<&str>| word.is_some_and(|word| SYSTEM_NAMESPACES.contains(&word));
    let is_namespace = &*kind.kind == "Namespace" && system(name);
    is_namespace || system(namespace) || (&*kind.kind == "ConfigMap" && name == Some(ROOT_CERTIFICATE))
}

fn normalise_on_member(object: &mut Value) {
    // Ledgers are told by the agent; everything else has a status of the member's own.
    let is_ledger = object["spec"].get("workNamespace").is_some();
    if let Some(fields) = object.as_object_mut().filter(|_| !is_ledger) {
        fields.remove("status");
    }
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("generation");
        if let Some(notes) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            notes.remove(ROLLOUT_COUNT);
        }
    }
    normalise(object);
}

/// Takes everything out of an object that is luck.
fn normalise(object: &mut Value) {
    forget_old_explanations(object);
    forget_when_it_ended(object);
    sort_clusters(object);
    forget_generation(object);
    let is_binding = object["spec"].get("targetCluster").is_some();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink"] {
            meta.remove(field);
        }
        if let Some(found) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            found.remove(annotations::NEXT_SNAPSHOT_DETECTED_AT);
            if let Some(Value::String(applied)) = found.get_mut(annotations::LAST_APPLIED) {
                // It names its owner, identity included.
                let mut manifest: Value = serde_json::from_str(applied).unwrap_or_default();
                forget_luck(&mut manifest);
                *applied = manifest.to_string();
            }
            if let Some(Value::String(note)) = found.get_mut(annotations::MOVED_BY_RUN) {
                // Its last part is a generation.
                *note = note.rsplit_once('/').map_or("", |(front, _)| front).to_owned();
            }
        }
        if let Some(Value::String(binding)) = meta.get_mut("labels").and_then(|all| all.get_mut(labels::PARENT_BINDING))
        {
            *binding = without_suffix(binding);
        }
        if is_binding && let Some(name) = meta["name"].as_str() {
            meta.insert("name".to_owned(), without_suffix(name).into());
        }
    }
    forget_luck(object);
}

/// A policy that asks for a number of clusters and has got them is not looked at again. What its status says about others
/// is what was so when the last one was found: with one of them on its way out, that may be before or after its end.
fn forget_old_explanations(object: &mut Value) {
    let has_got_all = |object: &Value| {
        let scheduled =
            object["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Scheduled");
        object["spec"]["policy"]["placementType"] == "PickN" && scheduled.is_some_and(|one| one["status"] == "True")
    };
    if !has_got_all(object) {
        return;
    }
    if let Some(decisions) = object.pointer_mut("/status/targetClusters").and_then(Value::as_array_mut) {
        decisions.retain(|decision| decision["selected"] == true);
    }
}

/// A run that ended while it was stopped and resumed does not look at that any more. An eviction that was cut short is told as
/// what was found when it was taken up again.
fn forget_when_it_ended(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let is_eviction = kind.ends_with("Eviction");
    if kind.ends_with("StagedUpdateRun")
        && let Some(status) = object.get_mut("status")
    {
        return forget_observed_generations(status);
    }
    let conditions = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for condition in conditions {
        if is_eviction && condition["type"] == "Executed" && condition["status"] == "True" {
            condition["message"] = "some".into();
        }
    }
}

fn forget_observed_generations(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("observedGeneration");
            map.values_mut().for_each(forget_observed_generations);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_observed_generations),
        _ => {}
    }
}

/// How many writes it took to get a binding or a Work where it is, is luck. What is said of it must be said of its last one.
fn forget_generation(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !(kind == "Work" || kind.ends_with("ResourceBinding") || object["spec"].get("targetCluster").is_some()) {
        return;
    }
    let generation = object["metadata"]["generation"].clone();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("generation");
    }
    // These are generations of objects on the member, where as much is luck.
    if let Some(manifests) = object.pointer_mut("/status/manifestConditions") {
        forget_observed_generations(manifests);
    }
    judge_generations(object, &generation);
}

fn judge_generations(value: &mut Value, generation: &Value) {
    match value {
        Value::Object(map) => {
            if let Some(observed) = map.get_mut("observedGeneration") {
                *observed = if observed == generation { "current".into() } else { "old".into() };
            }
            map.values_mut().for_each(|inner| judge_generations(inner, generation));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| judge_generations(inner, generation)),
        _ => {}
    }
}

/// Clusters that are equally good stand in the order in which they were found.
fn sort_clusters(object: &mut Value) {
    for list in ["targetClusters", "placementStatuses"] {
        if let Some(clusters) = object.get_mut("status").and_then(|status| status.get_mut(list)?.as_array_mut()) {
            clusters.sort_by_cached_key(|one| one["clusterName"].as_str().unwrap_or_default().to_owned());
        }
    }
}

fn without_suffix(binding: &str) -> String {
    match (BindingName::suffix(binding), binding.rsplit_once('-')) {
        (Some(_), Some((front, _))) => format!("{front}-*"),
        _ => binding.to_owned(),
    }
}

/// Fields that hold instants or identities, wherever they are.
const LUCK: [&str; 13] = [
    "lastTransitionTime",
    "startTime",
    "endTime",
    "firstDriftedObservedTime",
    "firstDiffedObservedTime",
    "observedInMemberClusterGeneration",
    "targetClusterObservedGeneration",
    "observationTime",
    "lastReceivedHeartbeat",
    "lastUpdatedTime",
    "uid",
    "resourceVersion",
    "creationTimestamp",
];

fn forget_luck(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !LUCK.contains(&key.as_str()));
            if let Some(when) = map.get_mut("deletionTimestamp") {
                *when = "some time".into();
            }
            map.values_mut().for_each(forget_luck);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_luck),
        _ => {}
    }
}

/// How the second state differs from the first, as lines with their surroundings; nothing if it does not.
pub fn difference(first: &str, second: &str) -> Option<String> {
    if first == second {
        return None;
    }
    let diff = similar::TextDiff::from_lines(first, second);
    Some(diff.unified_diff().context_radius(LINES_AROUND).header("without faults", "with faults").to_string())
}

/// Enough to see which object and which condition a line belongs to.
const LINES_AROUND: usize = 25;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state(objects: Vec<Value>) -> HubState {
        HubState(BTreeMap::from([("ClusterResourceBinding".to_owned(), objects)]))
    }

    #[test]
    fn luck_makes_no_difference_and_everything_else_does() {
        let binding = |suffix: &str, second: &str, state: &str| {
            json!({
                "metadata": {"name": format!("web-east-{suffix}"), "uid": suffix, "resourceVersion": second, "generation": 2},
                "spec": {"targetCluster": "east", "state": state},
                "status": {"conditions": [{"type": "Applied", "lastTransitionTime": second}]},
            })
        };
        let one = state(vec![binding("0a1b2c3d", "1", "Bound")]).without_luck();
        let same = state(vec![binding("99999999", "2", "Bound")]).without_luck();
        assert_eq!(difference(&one, &same), None);
        let other = state(vec![binding("0a1b2c3d", "1", "Scheduled")]).without_luck();
        assert!(difference(&one, &other).is_some_and(|text| text.contains("Scheduled")));
    }

    #[test]
    fn why_others_were_not_picked_is_luck_once_enough_are() {
        let snapshot = |scheduled: &str, others: Value| {
            let mut decisions = vec![json!({"clusterName": "east", "selected": true})];
            decisions.extend(others.as_array().cloned().unwrap_or_default());
            let object = json!({
                "metadata": {"name": "web-0"},
                "spec": {"policy": {"placementType": "PickN", "numberOfClusters": 1}},
                "status": {"conditions": [{"type": "Scheduled", "status": scheduled}], "targetClusters": decisions},
            });
            state(vec![object]).without_luck()
        };
        let left = || json!([{"clusterName": "west", "selected": false, "reason": "has left"}]);
        assert_eq!(snapshot("True", json!([])), snapshot("True", left()));
        assert_ne!(snapshot("False", json!([])), snapshot("False", left()));
    }

    #[test]
    fn how_often_a_work_was_written_is_luck_and_what_is_said_of_an_older_one_is_not() {
        let work = |generation: i64, observed: i64, suffix: &str| {
            let object = json!({
                "kind": "Work",
                "metadata": {
                    "name": "web-work", "generation": generation,
                    "labels": {labels::PARENT_BINDING: format!("web-east-{suffix}")},
                },
                "status": {"conditions": [{"type": "Applied", "observedGeneration": observed}]},
            });
            state(vec![object]).without_luck()
        };
        assert_eq!(work(1, 1, "0a1b2c3d"), work(2, 2, "99999999"));
        assert_ne!(work(2, 2, "0a1b2c3d"), work(2, 1, "0a1b2c3d"));
    }

    #[test]
    fn how_often_an_object_on_the_member_was_written_is_luck() {
        let work = |generation: i64, status: &str| {
            let condition = json!({"type": "Applied", "status": status, "observedGeneration": 1});
            let manifests = json!([{"identifier": {"ordinal": 0}, "conditions": [condition]}]);
            let metadata = json!({"name": "web-work", "generation": generation});
            let object = json!({"kind": "Work", "metadata": metadata, "status": {"manifestConditions": manifests}});
            state(vec![object]).without_luck()
        };
        assert_eq!(work(1, "True"), work(2, "True"));
        assert_ne!(work(1, "True"), work(1, "False"));
    }

    #[test]
    fn the_order_of_clusters_is_luck() {
        let placement = |names: [&str; 2]| {
            let entries = names.map(|name| json!({"clusterName": name}));
            state(vec![json!({"metadata": {"name": "web"}, "status": {"placementStatuses": entries}})]).without_luck()
        };
        assert_eq!(placement(["east", "west"]), placement(["west", "east"]));
        assert_ne!(placement(["east", "west"]), placement(["east", "north"]));
    }

    #[test]
    fn how_many_versions_there_were_is_no_matter_and_who_has_an_older_one_is() {
        let world = |newest: u32, has: u32| {
            let snapshot = |number: u32| {
                json!({"metadata": {"name": format!("web-{number}-snapshot"), "labels": {
                    labels::PARENT_PLACEMENT: "web", labels::RESOURCE_INDEX: number.to_string(),
                    labels::IS_LATEST_SNAPSHOT: (number == newest).to_string(),
                }}})
            };
            let binding = json!({
                "metadata": {"name": "b", "labels": {labels::PARENT_PLACEMENT: "web"}},
                "spec": {"resourceSnapshotName": format!("web-{has}-snapshot")},
            });
            let placement = json!({"metadata": {"name": "web"}, "status": {"observedResourceIndex": has.to_string()}});
            let kinds = [
                ("ClusterResourceSnapshot", (0..=newest).map(snapshot).collect()),
                ("ClusterResourceBinding", vec![binding]),
                ("ClusterResourcePlacement", vec![placement]),
            ];
            let state = HubState(kinds.into_iter().map(|(kind, all)| (kind.to_owned(), all)).collect());
            state.without_counts().without_luck()
        };
        assert_eq!(difference(&world(2, 2), &world(1, 1)), None);
        assert!(difference(&world(2, 2), &world(2, 1)).is_some());
    }

    #[test]
    fn what_every_cluster_has_and_what_controllers_say_is_not_compared() {
        let kind = |name: &str| KindId::new("", "v1", name, "");
        let named = |name: &str| json!({"metadata": {"name": name, "namespace": "shop"}});
        assert!(is_part_of_every_cluster(&kind("Namespace"), &named("kube-system")));
        assert!(is_part_of_every_cluster(&kind("ConfigMap"), &named(ROOT_CERTIFICATE)));
        assert!(!is_part_of_every_cluster(&kind("ConfigMap"), &named("settings")));
        let workload = |image: &str, ready: u32| {
            let object = json!({
                "metadata": {"name": "web", "generation": ready, "annotations": {ROLLOUT_COUNT: ready.to_string()}},
                "spec": {"image": image}, "status": {"ready": ready},
            });
            state(vec![object]).of_member_without_luck("m1")
        };
        assert_eq!(workload("a", 1), workload("a", 2));
        assert_ne!(workload("a", 1), workload("b", 1));
    }

    #[test]
    fn how_an_eviction_was_allowed_is_luck_and_that_it_was_is_not() {
        let eviction = |status: &str, message: &str| {
            let condition = json!({"type": "Executed", "status": status, "message": message});
            let kind = "ClusterResourcePlacementEviction";
            state(vec![json!({"kind": kind, "metadata": {}, "status": {"conditions": [condition]}})]).without_luck()
        };
        assert_eq!(eviction("True", "no budget"), eviction("True", "being removed"));
        assert_ne!(eviction("False", "no budget"), eviction("False", "being removed"));
        assert_ne!(eviction("True", "no budget"), eviction("False", "no budget"));
    }

    #[test]
    fn what_was_last_applied_counts_without_the_identity_of_its_owner() {
        let object = |uid: &str, value: &str| {
            let applied = json!({"metadata": {"ownerReferences": [{"name": "w", "uid": uid}]}, "data": value});
            let notes = json!({annotations::LAST_APPLIED: applied.to_string()});
            state(vec![json!({"metadata": {"name": "m", "annotations": notes}})]).of_member_without_luck("m1")
        };
        assert_eq!(object("1", "a"), object("2", "a"));
        assert_ne!(object("1", "a"), object("1", "b"));
    }

    #[test]
    fn names_that_only_look_like_bindings_stay() {
        let other = json!({"metadata": {"name": "a-b-0a1b2c3d"}, "spec": {}});
        assert!(state(vec![other]).without_luck().contains("a-b-0a1b2c3d"));
    }
}
