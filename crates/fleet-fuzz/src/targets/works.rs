//! Objects that a hub places on a member: manifests, envelopes and overrides; and the messages that agents exchange.

use std::collections::BTreeMap;

use fleet_api::conditions::run_message::{self, RunMessage};
use fleet_api::hashes;
use fleet_api::kinds::{
    ClusterResourceBinding, ClusterResourceOverrideSnapshot, ClusterResourceSnapshot, PLACEMENT_API_VERSION,
    ResourceOverrideSnapshot, Work,
};
use fleet_api::names::{
    ApprovalRequestName, BindingName, ClusterName, MemberNamespace, OverrideSnapshotName, PlacementKey,
    PolicySnapshotName, ResourceSnapshotName, WorkName,
};
use fleet_api::types::{ApplyStrategy, ApplyStrategyType, EmbeddedObject};
use fleet_api::well_known::annotations;
use fleet_core::apply::compare::{MAX_DETAILS, MAX_VALUE_BYTES, REDACTED, differences};
use fleet_core::apply::decode::{Served, decode};
use fleet_core::apply::desired::{Operation, operation};
use fleet_core::apply::ownership::Owner;
use fleet_core::overrides::{Candidates, Matched, Pinned, Scopes, SnapshotFacts, Target};
use fleet_core::placement::ResourceSnapshotFacts;
use fleet_core::workgen::{BindingFacts, ContentDepth, Observed, ReportBack, RolloutStart, WorkFacts, Write, plan};
use jiff::Timestamp;
use k8s_values::validation;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{field, parsed, size};

pub(super) const WORDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "ownerReferences",
    "uid",
    "v1",
    "apps/v1",
    "Deployment",
    "ConfigMap",
    "Namespace",
    "Secret",
    "data",
    "spec",
    "ServerSideApply",
    "ClientSideApply",
    "ReportDiff",
    annotations::LAST_APPLIED,
    PLACEMENT_API_VERSION,
    "ResourceEnvelope",
    "ClusterResourceEnvelope",
    "${MEMBER-CLUSTER-NAME}",
    "${MEMBER-CLUSTER-LABEL-KEY-region}",
    "/metadata/labels/a",
    "/spec/replicas",
    "add",
    "remove",
    "replace",
    "JSONPatch",
    "Delete",
    "clusterSelector",
    "op",
    "path",
    "value",
];
pub(super) const MESSAGE_WORDS: &[&str] = &[
    "cannot continue the updateRun: ",
    "failed to validate the updateRun: ",
    "no resourceSnapshots with index ",
    "found for",
    "parent placement not found",
    "does not have an external rollout strategy",
    "updateRun: ",
    "stagedUpdateRun: ",
    ", ",
    "`",
    "\"",
    "cluster ",
    "stage ",
    "binding ",
    "[",
    "]",
    "the sorting label",
];

fn is_namespaced(kind: &str) -> bool {
    !matches!(kind, "Namespace" | "ClusterRole" | "CustomResourceDefinition" | "ClusterResourceEnvelope")
}

fn list<T: DeserializeOwned>(input: &Value, name: &str) -> Vec<T> {
    let items = input.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
}

/// Manifests of a Work: what is accepted names one object, and what was created from it differs from it in nothing.
pub(super) fn manifests(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let manifests: Vec<EmbeddedObject> = list(&input, "manifests");
    let kinds = |_: &str, version: &str, kind: &str| {
        (version == "v1")
            .then(|| Served { resource: format!("{}s", kind.to_lowercase()), namespaced: is_namespaced(kind) })
    };
    let decoded = decode(&manifests, &kinds);
    assert_eq!(decoded.len(), manifests.len());
    let mut seen = std::collections::BTreeSet::new();
    let strategy: ApplyStrategy = serde_json::from_value(field(&input, "strategy")).unwrap_or_default();
    let owner = Owner { name: "work".to_owned(), uid: "owner".to_owned() };
    let live = field(&input, "live");
    for manifest in decoded.iter().filter(|manifest| manifest.verdict.is_ok()) {
        let id = &manifest.identifier;
        let key = (&id.group, &id.version, &id.kind, &id.namespace, &id.name);
        assert!(!id.name.is_empty() && seen.insert(key), "{key:?} is applied twice or has no name");
        created_and_compared(manifest.object, &strategy, &owner);
        let found = differences(manifest.object, &live);
        assert!(found.len() <= MAX_DETAILS);
        let bytes: usize = found.iter().map(|one| one.value_in_hub.len() + one.value_in_member.len()).sum();
        assert!(bytes <= MAX_VALUE_BYTES + 2 * MAX_DETAILS * REDACTED.len(), "differences take {bytes} bytes");
        let _ = operation(manifest.object, Some(&live).filter(|live| live.is_object()), &strategy, &owner);
        let _ = hashes::spec_hash(manifest.object);
    }
}

fn created_and_compared(manifest: &Value, strategy: &ApplyStrategy, owner: &Owner) {
    let Ok(Operation::Create(mut created)) = operation(manifest, None, strategy, owner) else { return };
    assert!(owner.owns(&created), "what is created is not ours: {created}");
    let found = differences(manifest, &created);
    assert!(found.is_empty(), "created from the manifest, and different: {found:?}");
    created["metadata"]["uid"] = json!("u-1");
    if strategy.strategy_type() == ApplyStrategyType::ClientSideApply {
        let again = operation(manifest, Some(&created), strategy, owner);
        let is_settled = matches!(again, Ok(Operation::Nothing | Operation::Apply { .. }));
        assert!(is_settled || has_null(manifest), "there is still something to send: {again:?}");
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

#[derive(Debug)]
struct Kinds;

impl Scopes for Kinds {
    fn is_cluster_scoped(&self, _: &str, _: &str, kind: &str) -> Option<bool> {
        Some(!is_namespaced(kind))
    }
}

/// Overrides of resources for one cluster: what is pinned is found, and a resource that no override selects stays as it is.
pub(super) fn overrides(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let resources: Vec<EmbeddedObject> = list(&input, "resources");
    let cluster_overrides: Vec<ClusterResourceOverrideSnapshot> = list(&input, "clusterOverrides");
    let overrides: Vec<ResourceOverrideSnapshot> = list(&input, "overrides");
    let labels: BTreeMap<String, String> = serde_json::from_value(field(&input, "labels")).unwrap_or_default();
    let Ok(placement) = PlacementKey::parse("web") else { return };
    let target = Target { name: "member1", labels: &labels };
    let snapshots: Vec<_> =
        cluster_overrides.iter().map(SnapshotFacts::of).chain(overrides.iter().map(SnapshotFacts::of)).collect();
    let matched = Matched::new(&placement, &Candidates::of(&resources, &Kinds), snapshots.iter().copied());
    let pins = matched.pins(&target);
    let pinned = Pinned::find(&pins.cluster_overrides, &pins.overrides, &snapshots);
    assert!(pinned.is_ok(), "{pins:?} are pinned and not found: {pinned:?}");
    let pinned = pinned.unwrap_or_default();
    let bound = 1000 * (1 + size(&input));
    for resource in &resources {
        let overridden = pinned.apply(resource, &target, &Kinds);
        assert_eq!(pinned.apply(resource, &target, &Kinds), overridden, "the second answer differs");
        match overridden {
            Ok(Some(overridden)) => {
                assert!(size(&overridden.0) <= bound, "a resource of {} bytes", size(&overridden.0));
                assert!(!matched.is_empty() || overridden == *resource, "changed by no override: {overridden:?}");
            }
            Ok(None) => assert!(!matched.is_empty(), "deleted by no override"),
            Err(failure) => assert!(failure.to_string().len() <= bound, "the failure is longer than its cause"),
        }
    }
}

/// A binding with its snapshots and overrides becomes Works: their names can be names, and what is in them can be read.
pub(super) fn contents(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let Ok(binding) = serde_json::from_value::<ClusterResourceBinding>(field(&input, "binding")) else { return };
    let snapshots: Vec<ClusterResourceSnapshot> = list(&input, "snapshots");
    let cluster_overrides: Vec<ClusterResourceOverrideSnapshot> = list(&input, "clusterOverrides");
    let overrides: Vec<ResourceOverrideSnapshot> = list(&input, "overrides");
    let works: Vec<Work> = list(&input, "works");
    let labels: BTreeMap<String, String> = serde_json::from_value(field(&input, "labels")).unwrap_or_default();
    let (Ok(placement), Ok(cluster)) = (PlacementKey::parse("web"), ClusterName::parse("member1")) else { return };
    let Ok(namespace) = MemberNamespace::of(&cluster) else { return };
    let observed = Observed {
        placement: &placement,
        binding: BindingFacts::of(&binding),
        cluster: Some(Target { name: "member1", labels: &labels }),
        leaving: false,
        namespace: &namespace,
        works: works.iter().map(WorkFacts::of).collect(),
        snapshots: snapshots.iter().map(ResourceSnapshotFacts::of).collect(),
        content: ContentDepth::Whole,
        overrides: cluster_overrides
            .iter()
            .map(SnapshotFacts::of)
            .chain(overrides.iter().map(SnapshotFacts::of))
            .collect(),
        report_back: ReportBack::As(None),
        start: RolloutStart::ImpliedByBinding,
        rejection: None,
        scopes: &Kinds,
    };
    let plan = plan(&observed, Timestamp::UNIX_EPOCH);
    let bound = 1000 * (1 + size(&input));
    for write in &plan.writes {
        let Write::CreateWork(new) = write else { continue };
        assert!(validation::dns1123_subdomain(&new.name).is_empty(), "{:?} can be no name", new.name);
        let printed = format!("{new:?}");
        assert!(printed.len() <= bound, "a Work of {} bytes", printed.len());
    }
    // A member's own report of a Work reaches the binding's status.
    if let Some(status) = &plan.status {
        assert!(format!("{status:?}").len() <= bound);
    }
}

/// A message of a run from any writer, and names that agents parse.
pub(super) fn messages(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let read = RunMessage::read(text);
    assert_eq!(RunMessage::read(text), read);
    assert!(text.ends_with(run_message::reason(text)), "the reason is no end of {text:?}");
    if let Some(run) = run_message::run_that_moved(text) {
        assert!(text.contains(run) && !run.contains(char::is_whitespace), "{run:?} of {text:?}");
    }
    let printed = [
        WorkName::parse(text).map(|name| name.to_string()),
        PolicySnapshotName::parse(text).map(|name| name.to_string()),
        ResourceSnapshotName::parse(text).map(|name| name.to_string()),
        OverrideSnapshotName::parse(text).map(|name| name.to_string()),
        ApprovalRequestName::parse(text).map(|name| name.to_string()),
        PlacementKey::parse(text).ok().map(|name| name.to_string()),
    ];
    for printed in printed.into_iter().flatten() {
        assert_eq!(printed, text, "a name that is read is printed as another");
    }
    let _ = BindingName::suffix(text);
    let _ = MemberNamespace::cluster_of(text);
}
