//! The objects of the hub and of all members, in a form that can be compared between two runs.
//!
//! Of a member only objects count that were placed or created by users, not those of its own controllers.
//! `nondeterminism` removes the fields that may differ.

mod nondeterminism;

use std::collections::BTreeMap;
use std::iter;

use fleet_api::kinds::{
    AppliedWork, ApprovalRequest, ClusterApprovalRequest, ClusterProfile, ClusterResourceBinding,
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ClusterResourcePlacement,
    ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction, ClusterResourcePlacementStatus,
    ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, ClusterStagedUpdateRun, InternalMemberCluster,
    MemberCluster, ResourceBinding, ResourceOverride, ResourceOverrideSnapshot, ResourcePlacement, ResourceSnapshot,
    SchedulingPolicySnapshot, StagedUpdateRun, Work,
};
use fleet_runtime::KindId;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PodTemplate};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::Value;

pub use nondeterminism::{CLIENT_SIDE_APPLY, FORGED_CONDITION, FORGED_REASON, Strategies, Tolerance};
use nondeterminism::{normalize, normalize_on_member};

/// The compared objects of the hub and of present and former members.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetState {
    pub hub: ClusterState,
    pub members: BTreeMap<String, ClusterState>,
}

impl FleetState {
    pub async fn read(
        hub: &kube::Client,
        members: impl Iterator<Item = (String, kube::Client)>,
    ) -> Result<Self, kube::Error> {
        let mut state = Self { hub: ClusterState::read(hub).await?, members: BTreeMap::new() };
        for (name, client) in members {
            state.members.insert(name, ClusterState::read_member(&client).await?);
        }
        Ok(state)
    }

    /// The state without nondeterministic fields, as text.
    pub fn normalized(&self, tolerance: &Tolerance) -> String {
        let mut hub = self.hub.clone();
        if tolerance.overlapping_changes {
            nondeterminism::remove_snapshot_counts(&mut hub);
        }
        let nothing = Strategies::new();
        let members = self.members.iter().map(|(name, state)| {
            let strategies = tolerance.strategies.get(name).unwrap_or(&nothing);
            state.printed(&format!("{name}: "), |object| normalize_on_member(object, strategies, tolerance))
        });
        iter::once(hub.printed("", |object| normalize(object, tolerance))).chain(members).collect()
    }
}

/// Stored objects by kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterState(pub BTreeMap<String, Vec<Value>>);

/// Kinds that the hub agent reads or writes.
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
        KindId::of::<ClusterResourceOverride>(),
        KindId::of::<ResourceOverride>(),
        KindId::of::<ClusterResourceOverrideSnapshot>(),
        KindId::of::<ResourceOverrideSnapshot>(),
        KindId::of::<ClusterResourcePlacementEviction>(),
        KindId::of::<ClusterResourcePlacementDisruptionBudget>(),
        KindId::of::<ClusterStagedUpdateRun>(),
        KindId::of::<StagedUpdateRun>(),
        KindId::of::<ClusterApprovalRequest>(),
        KindId::of::<ApprovalRequest>(),
        // Placed kinds: the hub agent may copy their status back.
        KindId::of::<ConfigMap>(),
        KindId::of::<Deployment>(),
        KindId::of::<PodTemplate>(),
    ]
}

/// Kinds that scenarios place on members, and the kind in which agents record what they applied.
fn kinds_on_members() -> Vec<KindId> {
    vec![
        KindId::of::<Namespace>(),
        KindId::of::<ConfigMap>(),
        KindId::of::<Deployment>(),
        KindId::of::<PodTemplate>(),
        KindId::of::<AppliedWork>(),
    ]
}

const SYSTEM_NAMESPACES: [&str; 5] = ["default", "kube-system", "kube-public", "kube-node-lease", "fleet-system"];
/// The ConfigMap that every namespace has.
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";

impl ClusterState {
    /// Reads the compared objects of the hub.
    pub async fn read(client: &kube::Client) -> Result<Self, kube::Error> {
        let mut state = BTreeMap::new();
        for kind in kinds() {
            let mut items = list(client, &kind).await?;
            items.retain(|object| &*kind.kind != "ConfigMap" || !is_part_of_every_cluster(&kind, object));
            state.insert(kind.kind.to_string(), items);
        }
        Ok(Self(state))
    }

    /// All objects of a hub with the plural of their kind.
    pub fn with_plurals(&self) -> impl Iterator<Item = (String, &Value)> {
        kinds()
            .into_iter()
            .flat_map(|kind| self.of_kind(&kind.kind).iter().map(move |one| (kind.plural.to_string(), one)))
    }

    pub fn of_kind(&self, kind: &str) -> &[Value] {
        self.0.get(kind).map_or(&[], Vec::as_slice)
    }

    /// All objects as text, sorted.
    fn printed(&self, heading: &str, normalize: impl Fn(&mut Value)) -> String {
        let mut objects = Vec::new();
        for (kind, items) in &self.0 {
            for item in items {
                let mut object = item.clone();
                normalize(&mut object);
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

    /// Reads the compared objects of a member.
    pub async fn read_member(client: &kube::Client) -> Result<Self, kube::Error> {
        let mut state = BTreeMap::new();
        for kind in kinds_on_members() {
            let mut items = match list(client, &kind).await {
                // The AppliedWork kind is missing if the agent only acknowledges Works.
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                other => other?,
            };
            items.retain(|object| !is_part_of_every_cluster(&kind, object));
            state.insert(kind.kind.to_string(), items);
        }
        Ok(Self(state))
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

/// A unified diff of two states, or `None` if they are equal.
pub fn difference(first: &str, second: &str) -> Option<String> {
    if first == second {
        return None;
    }
    let diff = similar::TextDiff::from_lines(first, second);
    Some(diff.unified_diff().context_radius(LINES_AROUND).header("without faults", "with faults").to_string())
}

/// Context lines: enough to see to which object and condition a line belongs.
const LINES_AROUND: usize = 25;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_every_cluster_has_are_not_compared() {
        let kind = |name: &str| KindId::new("", "v1", name, "");
        let named = |name: &str| json!({"metadata": {"name": name, "namespace": "shop"}});
        assert!(is_part_of_every_cluster(&kind("Namespace"), &named("kube-system")));
        assert!(is_part_of_every_cluster(&kind("ConfigMap"), &named(ROOT_CERTIFICATE)));
        assert!(!is_part_of_every_cluster(&kind("ConfigMap"), &named("settings")));
    }

    #[test]
    fn objects_of_hub_and_members_are_distinguished() {
        let map = || ClusterState([("ConfigMap".to_owned(), vec![json!({"metadata": {"name": "a"}})])].into());
        let on_hub = FleetState { hub: map(), ..FleetState::default() };
        let on_member = FleetState { members: [("m1".to_owned(), map())].into(), ..FleetState::default() };
        let text = |state: &FleetState| state.normalized(&Tolerance::default());
        assert_ne!(text(&on_hub), text(&on_member));
        assert!(difference(&text(&on_hub), &text(&on_hub)).is_none());
        assert!(difference(&text(&on_hub), &text(&on_member)).is_some_and(|text| text.contains("+m1: ConfigMap")));
    }
}
