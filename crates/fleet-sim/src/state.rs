//! The state of a hub and of its members in a form that two worlds can be compared in.
//!
//! Decides which objects count. What of an object is luck, is `luck`'s; what remains must be the same wherever the same things
//! were asked for. Of a member only what was placed or made by hand counts, not what its own controllers made of it. Never
//! decides whether a state is right: that is `laws`.

mod luck;

use std::collections::BTreeMap;
use std::iter;

use fleet_api::kinds::{
    AppliedWork, ApprovalRequest, ClusterApprovalRequest, ClusterProfile, ClusterResourceBinding,
    ClusterResourceOverrideSnapshot, ClusterResourcePlacement, ClusterResourcePlacementEviction,
    ClusterResourcePlacementStatus, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, ClusterStagedUpdateRun,
    InternalMemberCluster, MemberCluster, ResourceBinding, ResourceOverrideSnapshot, ResourcePlacement,
    ResourceSnapshot, SchedulingPolicySnapshot, StagedUpdateRun, Work,
};
use fleet_api::well_known::{annotations, label_values, labels, namespaces};
use fleet_runtime::KindId;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::Value;

use luck::{CLIENT_SIDE_APPLY, Strategies, forget_stops_that_may_not_have_been_seen, normalise, normalise_on_member};

/// Everything that matters of a hub and of whoever was a member once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetState {
    pub hub: HubState,
    pub members: BTreeMap<String, HubState>,
}

impl FleetState {
    pub async fn read(
        hub: &kube::Client,
        members: impl Iterator<Item = (String, kube::Client)>,
    ) -> Result<Self, kube::Error> {
        let mut state = Self { hub: HubState::read(hub).await?, members: BTreeMap::new() };
        for (name, client) in members {
            state.members.insert(name, HubState::read_member(&client).await?);
        }
        Ok(state)
    }

    /// The state without luck, as text. Where a story is hurried, so is how many versions there were.
    pub fn without_luck(&self, hurried: bool) -> String {
        let hub = if hurried { self.hub.clone().without_counts() } else { self.hub.clone() };
        let members = self.members.iter().map(|(name, state)| state.of_member_without_luck(name, &hub));
        iter::once(hub.without_luck()).chain(members).collect()
    }
}

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
                forget_stops_that_may_not_have_been_seen(object);
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

    /// The same as text without luck and without what the member's own controllers say of it. `hub` is what the member was told.
    pub fn of_member_without_luck(&self, member: &str, hub: &Self) -> String {
        let told = hub.strategies_of(member);
        self.printed(&format!("{member}: "), |object| normalise_on_member(object, &told))
    }

    /// How a member is to apply its Works, by their names.
    fn strategies_of(&self, member: &str) -> Strategies {
        let namespace = format!("{}{member}", namespaces::MEMBER_PREFIX);
        let own = self.of_kind("Work").iter().filter(|work| work["metadata"]["namespace"] == *namespace);
        let strategy = |work: &Value| {
            let name = work["metadata"]["name"].as_str()?.to_owned();
            let type_ = work["spec"]["applyStrategy"]["type"].as_str().unwrap_or(CLIENT_SIDE_APPLY);
            Some((name, type_.to_owned()))
        };
        own.filter_map(strategy).collect()
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
    use serde_json::json;

    use super::luck::ROLLOUT_COUNT;
    use super::*;

    fn state(objects: Vec<Value>) -> HubState {
        HubState(BTreeMap::from([("ClusterResourceBinding".to_owned(), objects)]))
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
            state(vec![object]).of_member_without_luck("m1", &HubState::default())
        };
        assert_eq!(workload("a", 1), workload("a", 2));
        assert_ne!(workload("a", 1), workload("b", 1));
    }
}
