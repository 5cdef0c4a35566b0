//! Objects that the member's policy denies.

use fleet_core::apply::policy::Policy;
use fleet_member::ApplierOptions;
use serde_json::{Value, json};

use crate::applier::fixture::{Fixture, config_map, namespace, until};

const MAPS: &str = "v1/configmaps";
const ROLES: &str = "rbac.authorization.k8s.io/v1/clusterroles";

fn map_in(namespace: &str, name: &str) -> Value {
    let mut map = config_map(name, json!({"k": "hub"}));
    map["metadata"]["namespace"] = json!(namespace);
    map
}

fn role(name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    })
}

/// Message of the Applied condition of each manifest.
async fn messages(fixture: &Fixture, work: &str) -> Vec<String> {
    let work = fixture.stored(work).await;
    let records = work["status"]["manifestConditions"].as_array().unwrap().clone();
    records.iter().map(|record| record["conditions"][0]["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn audit_19_denied_objects_are_reported_and_not_applied() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("fleet-system")).await;
    let ours = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "member-agent-role"}, "rules": []});
    fixture.member().create(ROLES, None, &ours).await;
    let manifests = [
        namespace("app"),
        map_in("app", "cm"),
        map_in("fleet-system", "cm"),
        role("member-agent-role"),
        namespace("kube-system"),
    ];
    fixture.work("w", &manifests, json!({})).await;
    let agent = fixture.start();
    fixture
        .reaches(
            "w",
            "Applied=False/SomeManifestsAreNotApplied\n\
             0 Namespace/app: Applied=True/Applied Available=True/Available\n\
             1 ConfigMap/cm: Applied=True/Applied Available=True/Available\n\
             2 ConfigMap/cm: Applied=False/DeniedByMemberPolicy\n\
             3 ClusterRole/member-agent-role: Applied=False/DeniedByMemberPolicy\n\
             4 Namespace/kube-system: Applied=False/DeniedByMemberPolicy",
        )
        .await;
    let denied = &messages(&fixture, "w").await[2..];
    assert_eq!(
        denied,
        [
            "Failed to apply the manifest (error: the policy of the member cluster does not allow the namespace fleet-system)",
            "Failed to apply the manifest (error: the policy of the member cluster protects ClusterRole member-agent-role, on \
             which its member agent depends)",
            "Failed to apply the manifest (error: the policy of the member cluster does not allow the namespace kube-system)",
        ]
    );
    assert_eq!(fixture.member().get(MAPS, Some("fleet-system"), "cm").await, None);
    let kept = fixture.member().get(ROLES, None, "member-agent-role").await.unwrap();
    assert!(
        crate::applier::fixture::owners(&kept).is_empty() && kept["rules"].as_array().is_none_or(Vec::is_empty),
        "{kept}"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_19_a_policy_that_is_tightened_deletes_nothing() {
    let fixture = Fixture::new().await;
    fixture.work("w", &[namespace("app"), map_in("app", "cm")], json!({})).await;
    let agent = fixture.start();
    fixture.shows("w", "Available=True/AllManifestsAvailable").await;
    agent.stop().await;
    let policy = Policy { allowed_kinds: "Namespace".parse().unwrap(), ..Policy::default() };
    let agent = fixture.start_with(ApplierOptions { policy, ..ApplierOptions::default() });
    fixture.work("w", &[namespace("app"), map_in("app", "cm"), map_in("app", "other")], json!({})).await;
    fixture.shows("w", "1 ConfigMap/cm: Applied=False/DeniedByMemberPolicy").await;
    fixture.shows("w", "2 ConfigMap/other: Applied=False/DeniedByMemberPolicy").await;
    assert!(fixture.member().get(MAPS, Some("app"), "cm").await.is_some());
    assert_eq!(fixture.member().get(MAPS, Some("app"), "other").await, None);
    // Objects that are no longer in the Work are removed under any policy.
    fixture.work("w", &[namespace("app")], json!({})).await;
    until("it is gone", || async { fixture.member().get(MAPS, Some("app"), "cm").await.is_none() }).await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn audit_19_differences_from_denied_objects_are_not_reported() {
    let fixture = Fixture::new().await;
    fixture.member().create("v1/namespaces", None, &namespace("fleet-system")).await;
    fixture.member().create(MAPS, Some("fleet-system"), &map_in("fleet-system", "cm")).await;
    fixture.work("w", &[map_in("fleet-system", "cm")], json!({"applyStrategy": {"type": "ReportDiff"}})).await;
    let agent = fixture.start();
    fixture.shows("w", "DiffReported=False/SomeManifestsHaveNotReportedDiff").await;
    let reported = fixture.stored("w").await["status"].to_string();
    assert!(reported.contains("DeniedByMemberPolicy") && !reported.contains("diffDetails"), "{reported}");
    agent.stop().await;
}
