//! Members write in namespaces of their own on the hub. Whatever gets into such a namespace, nothing is placed from it.

use fleet_api::admission::reserved::refused_kinds;
use serde_json::{Value, json};

use crate::end_to_end::world::{PLACEMENT, World};

const MEMBERS_OWN: &str = "fleet-member-c1";

/// What the controllers hold objects of these kinds by.
fn finalizers(plural: &str) -> &'static [&'static str] {
    match plural {
        "resourceplacements" => &["kubernetes-fleet.io/crp-cleanup", "kubernetes-fleet.io/scheduler-cleanup"],
        "resourcebindings" => &["kubernetes-fleet.io/scheduler-crb-cleanup", "kubernetes-fleet.io/work-cleanup"],
        "resourceoverrides" => &["kubernetes-fleet.io/override-cleanup"],
        "stagedupdateruns" => &["kubernetes-fleet.io/stagedupdaterun-finalizer"],
        _ => &[],
    }
}

fn object(kind: &str, name: &str, labels: Value, spec: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
        "metadata": {"name": name, "labels": labels}, "spec": spec})
}

/// A placement that selects a ConfigMap next to it, and a finished rollout of another that goes to `c2`, with everything
/// that the controllers ask of it. One object of each kind that reserved namespaces must not have.
fn attack() -> Vec<(&'static str, Value)> {
    let parent = json!({"kubernetes-fleet.io/parent-CRP": "stolen", "kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/policy-index": "0", "kubernetes-fleet.io/resource-index": "0"});
    let loot = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "loot", "namespace": MEMBERS_OWN}});
    let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "loot"});
    let everywhere = json!({"placementType": "PickAll"});
    let mut snapshot =
        object("ResourceSnapshot", "stolen-0-snapshot", parent.clone(), json!({"selectedResources": [loot]}));
    snapshot["metadata"]["annotations"] = json!({"kubernetes-fleet.io/resource-hash": "h",
        "kubernetes-fleet.io/number-of-resource-snapshots": "1", "kubernetes-fleet.io/number-of-enveloped-object": "0"});
    let mut policy = object(
        "SchedulingPolicySnapshot",
        "stolen-0",
        parent.clone(),
        json!({"policy": everywhere, "policyHash": "aGFzaA=="}),
    );
    policy["metadata"]["annotations"] = json!({"kubernetes-fleet.io/CRP-generation": "1"});
    let binding = json!({"state": "Bound", "targetCluster": "c2", "resourceSnapshotName": "stolen-0-snapshot",
        "schedulingPolicySnapshotName": "stolen-0",
        "clusterDecision": {"clusterName": "c2", "selected": true, "reason": "picked"}});
    let patch = json!([{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]);
    let rules =
        json!({"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": patch}]});
    let payload = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "loot"});
    let overriding = json!({"resourceSelectors": [payload], "policy": rules});
    let stage = json!({"name": "all", "labelSelector": {}});
    let mut envelope = object("ResourceEnvelope", "wrapped", json!({}), Value::Null);
    envelope.as_object_mut().unwrap().remove("spec");
    envelope["data"] = json!({"loot.yaml": loot});
    let placement = |name: &str, strategy: &str| {
        let spec = json!({"resourceSelectors": [selector], "policy": everywhere, "strategy": {"type": strategy}});
        object("ResourcePlacement", name, json!({}), spec)
    };
    vec![
        ("resourceplacements", placement("evil", "RollingUpdate")),
        ("resourceplacements", placement("stolen", "External")),
        ("schedulingpolicysnapshots", policy),
        ("resourcesnapshots", snapshot),
        ("resourcebindings", object("ResourceBinding", "stolen-c2", parent, binding)),
        ("resourceoverrides", object("ResourceOverride", "o", json!({}), overriding.clone())),
        (
            "resourceoverridesnapshots",
            object(
                "ResourceOverrideSnapshot",
                "o-0",
                json!({"kubernetes-fleet.io/parent-resource-override": "o", "kubernetes-fleet.io/is-latest-snapshot": "true"}),
                json!({"overrideHash": "aGFzaA==", "overrideSpec": overriding}),
            ),
        ),
        ("resourceenvelopes", envelope),
        ("stagedupdatestrategies", object("StagedUpdateStrategy", "s", json!({}), json!({"stages": [stage]}))),
        (
            "stagedupdateruns",
            object(
                "StagedUpdateRun",
                "r",
                json!({}),
                json!({"placementName": "stolen", "stagedRolloutStrategyName": "s", "state": "Run"}),
            ),
        ),
        (
            "approvalrequests",
            object(
                "ApprovalRequest",
                "a",
                json!({"kubernetes-fleet.io/targetUpdateRun": "r"}),
                json!({"parentStageRollout": "r", "targetStage": "all"}),
            ),
        ),
    ]
}

fn path(namespace: &str, plural: &str) -> String {
    format!("{PLACEMENT}/namespaces/{namespace}/{plural}")
}

impl World {
    /// Writes all of it into a namespace, as somebody who may; says that the rollout has begun.
    async fn attacked_in(&self, namespace: &str, finalizers: fn(&str) -> &'static [&'static str]) {
        self.create(
            &format!("/api/v1/namespaces/{namespace}/configmaps"),
            json!({"metadata": {"name": "loot"}, "data": {"a": "b"}}),
        )
        .await;
        for (plural, mut object) in attack() {
            object["metadata"]["finalizers"] = json!(finalizers(plural));
            self.create(&path(namespace, plural), object).await;
        }
        let started = json!({"type": "RolloutStarted", "status": "True", "reason": "RolloutStarted", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let bindings = path(namespace, "resourcebindings");
        self.patch(&format!("{bindings}/stolen-c2/status"), json!({"status": {"conditions": [started]}})).await;
    }

    async fn everything_in(&self, namespace: &str) -> Vec<Value> {
        let mut all = Vec::new();
        for info in refused_kinds() {
            all.extend(self.list(&path(namespace, info.plural)).await);
        }
        all
    }
}

#[tokio::test(start_paused = true)]
async fn audit_06_nothing_is_placed_from_the_namespace_of_a_member() {
    assert!(refused_kinds().iter().all(|info| attack().iter().any(|(plural, _)| *plural == info.plural)));
    let world = World::new(&["c1", "c2"]).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.attacked_in(MEMBERS_OWN, |_| &[]).await;
    let written = world.everything_in(MEMBERS_OWN).await;
    running.at_rest(&members).await;
    assert_eq!(world.works().await, Vec::<String>::new());
    assert_eq!(world.everything_in(MEMBERS_OWN).await, written, "nobody writes to them, or around them");

    // A hub that finds them when it starts does not act on them either.
    running.stop().await;
    let again = world.start();
    again.at_rest(&members).await;
    assert_eq!(world.works().await, Vec::<String>::new());
    assert_eq!(world.everything_in(MEMBERS_OWN).await, written);
    again.stop().await;
    members.stop().await;
}

/// The same objects in any other namespace are placed: the test above shows something.
#[tokio::test(start_paused = true)]
async fn audit_06_the_same_objects_elsewhere_are_placed() {
    let world = World::new(&["c1", "c2"]).await;
    world.attacked_in("shop", |_| &[]).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    let works = world.works().await;
    assert!(works.iter().any(|work| work.starts_with("c2/") && work.contains("evil")), "{works:?}");
    assert!(works.iter().any(|work| work.starts_with("c2/") && work.contains("stolen")), "{works:?}");
    running.stop().await;
    members.stop().await;
}

/// Releases before this one served them, so they may have finalizers.
#[tokio::test(start_paused = true)]
async fn audit_06_deleted_objects_in_the_namespace_of_a_member_are_finalized() {
    let world = World::new(&["c1", "c2"]).await;
    let (running, members) = (world.start(), world.members());
    running.at_rest(&members).await;
    world.attacked_in(MEMBERS_OWN, finalizers).await;
    running.at_rest(&members).await;
    for info in refused_kinds() {
        world.delete(&path(MEMBERS_OWN, info.plural)).await;
    }
    running.at_rest(&members).await;
    let left: Vec<String> = world
        .everything_in(MEMBERS_OWN)
        .await
        .iter()
        .map(|one| format!("{} {} {}", one["kind"], one["metadata"]["name"], one["metadata"]["finalizers"]))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    running.stop().await;
    members.stop().await;
}
