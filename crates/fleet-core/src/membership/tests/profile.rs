//! The ClusterProfile: when it exists, what it reports, who manages it.

use expect_test::{Expect, expect};
use fleet_api::conditions::member::ControlPlaneHealthy;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::fixture::{Fixture, START};
use super::render::{conditions_text, profile_text};
use crate::membership::profile::ProfileOutcome;
use crate::plan::Wake;

fn joined(status: Value) -> Fixture {
    let mut fixture = Fixture::joined();
    let mut merged = serde_json::to_value(fixture.status()).unwrap();
    merged.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    fixture.member().status = Some(serde_json::from_value(merged).unwrap());
    fixture.profile = None;
    fixture
}

fn agent(conditions: Value, heartbeat: Value) -> Value {
    json!({"agentStatus": [{"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": heartbeat}]})
}

fn healthy(status: &str) -> Value {
    json!([{
        "type": "Healthy", "status": status, "reason": "R", "message": "", "lastTransitionTime": START,
    }])
}

fn check(status: Value, expected: Expect) {
    let mut fixture = joined(status);
    fixture.inventory_acts();
    expected.assert_eq(&conditions_text(&fixture.profile.unwrap().status.unwrap().conditions));
}

#[test]
fn health_is_that_of_the_agent_while_heartbeats_arrive() {
    check(
        json!({"agentStatus": [{"type": "ServiceExportImportAgent"}]}),
        expect![
            "ControlPlaneHealthy=Unknown@1 MemberAgentReportedNoStatus: The Fleet member agent has not reported its status yet"
        ],
    );
    check(
        agent(json!([]), json!(null)),
        expect![
            "ControlPlaneHealthy=Unknown@1 MemberAgentReportedNoHealthInfo: The Fleet member agent has reported its status, but the health condition is missing"
        ],
    );
    check(
        agent(healthy("True"), json!(null)),
        expect![
            "ControlPlaneHealthy=False@1 MemberAgentHeartbeatLost: The Fleet member agent has lost its heartbeat connection to the Fleet hub cluster"
        ],
    );
    check(
        agent(healthy("True"), json!("2026-11-15T11:58:00Z")),
        expect![
            "ControlPlaneHealthy=False@1 MemberAgentHeartbeatLost: The Fleet member agent has lost its heartbeat connection to the Fleet hub cluster"
        ],
    );
    check(
        agent(healthy("Unknown"), json!("2026-11-15T11:58:01Z")),
        expect![
            "ControlPlaneHealthy=Unknown@1 MemberAgentReportedNoHealthInfo: The Fleet member agent health check result is out of date or unknown"
        ],
    );
    check(
        agent(healthy("False"), json!(START)),
        expect![
            "ControlPlaneHealthy=False@1 MemberClusterAPIServerUnhealthy: The Fleet member agent reports that the API server is unhealthy"
        ],
    );
    check(
        agent(healthy("True"), json!(START)),
        expect![
            "ControlPlaneHealthy=True@1 MemberClusterAPIServerHealthy: The Fleet member agent reports that the API server is healthy"
        ],
    );
}

#[test]
fn missing_heartbeats_are_reported_at_their_time() {
    let mut fixture = Fixture::joined();
    fixture.profile_settings.unhealthy_after = Some(SignedDuration::from_mins(3));
    let lost_at = fixture.now + SignedDuration::from_mins(3);
    assert_eq!(fixture.profile_plan().wake, Wake::At(lost_at));
    fixture.now = lost_at - SignedDuration::from_secs(1);
    assert!(fixture.profile_plan().is_idle());
    fixture.now = lost_at;
    let plan = fixture.run_profile();
    assert_eq!(profile_text(&plan), "Kept(HeartbeatLost)");
    assert_eq!(plan.wake, Wake::OnChange);
}

#[test]
fn unless_a_threshold_is_given_a_heartbeat_that_is_a_little_late_is_not_lost() {
    let mut fixture = Fixture::joined();
    assert_eq!(fixture.profile_settings.unhealthy_after, None);
    fixture.pass(119);
    assert_eq!(fixture.profile_plan().report.outcome, ProfileOutcome::Kept(ControlPlaneHealthy::Healthy));
    fixture.pass(1);
    assert_eq!(fixture.profile_plan().report.outcome, ProfileOutcome::Kept(ControlPlaneHealthy::HeartbeatLost));
}

#[test]
fn a_configured_threshold_is_independent_of_the_heartbeat_period() {
    let mut fixture = Fixture::joined();
    fixture.profile_settings.unhealthy_after = Some(SignedDuration::from_secs(90));
    fixture.pass(89);
    assert_eq!(fixture.profile_plan().report.outcome, ProfileOutcome::Kept(ControlPlaneHealthy::Healthy));
    fixture.pass(1);
    assert_eq!(fixture.profile_plan().report.outcome, ProfileOutcome::Kept(ControlPlaneHealthy::HeartbeatLost));
}

#[test]
fn an_unjoined_member_leaves_its_profile_unchanged() {
    let mut fixture = Fixture::joined();
    fixture.edit(|_| {});
    fixture.profile.as_mut().unwrap().spec.display_name = "edited".to_owned();
    fixture.pass(10_000);
    assert_eq!(profile_text(&fixture.run_profile()), "AwaitingJoin");
    fixture.settle();
    assert_eq!(fixture.profile.unwrap().spec.display_name, "m1");
}

#[test]
fn foreign_changes_are_reverted_and_reported() {
    let mut fixture = Fixture::joined();
    fixture.profile.as_mut().unwrap().spec.display_name = "edited".to_owned();
    expect![[r#"
        update profile m1
        wake at 2026-11-15T12:02:00Z
        Kept(Healthy) (reverted)"#]]
    .assert_eq(&profile_text(&fixture.run_profile()));
    fixture.profile.as_mut().unwrap().metadata.labels = None;
    expect![[r#"
        update profile m1
        wake at 2026-11-15T12:02:00Z
        Kept(Healthy) (reverted)"#]]
    .assert_eq(&profile_text(&fixture.run_profile()));
    fixture.profile = None;
    expect![[r#"
        create profile m1
        wake at 2026-11-15T12:02:00Z
        Kept(Healthy)"#]]
    .assert_eq(&profile_text(&fixture.run_profile()));
}

#[test]
fn foreign_conditions_of_the_status_stay() {
    let mut fixture = Fixture::joined();
    let status = fixture.profile.as_mut().unwrap().status.as_mut().unwrap();
    status.properties = serde_json::from_value(json!([{"name": "a", "value": "b"}])).unwrap();
    fixture.inventory_acts();
    assert_eq!(fixture.profile.unwrap().status.unwrap().properties.len(), 1);
}

fn collected(status: &str, properties: Value) -> Value {
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": 1, "lastTransitionTime": START});
    json!({
        "conditions": [
            condition("Joined", "True", "MemberClusterJoined"),
            condition("ClusterPropertyCollectionSucceeded", status, "PropertiesCollected"),
        ],
        "properties": properties,
    })
}

fn check_access(fixture: &mut Fixture, status: Value, expected: Expect) {
    let mut merged = serde_json::to_value(fixture.status()).unwrap();
    merged.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    fixture.member().status = Some(serde_json::from_value(merged).unwrap());
    fixture.inventory_acts();
    let status = fixture.profile.as_ref().unwrap().status.as_ref().unwrap();
    expected.assert_eq(&serde_json::to_string(&json!([status.version, status.access_providers])).unwrap());
}

#[test]
fn version_and_access_are_those_of_the_last_successful_collection() {
    let mut fixture = Fixture::joined();
    let value = |value: &str| json!({"value": value, "observationTime": START});
    let all = json!({
        "k8s.io/k8s-version": value("v1.34.2"),
        "k8s.io/cluster-entrypoint": value("https://m1:6443"),
        "k8s.io/cluster-certificate-authority-data": value("PEM"),
    });
    check_access(&mut fixture, collected("False", all.clone()), expect!["[null,[]]"]);
    check_access(
        &mut fixture,
        collected("True", all),
        expect![[
            r#"[{"kubernetes":"v1.34.2"},[{"cluster":{"certificate-authority-data":"UEVN","server":"https://m1:6443"},"name":"KubeFleet"}]]"#
        ]],
    );
    check_access(
        &mut fixture,
        collected("False", json!({})),
        expect![[
            r#"[{"kubernetes":"v1.34.2"},[{"cluster":{"certificate-authority-data":"UEVN","server":"https://m1:6443"},"name":"KubeFleet"}]]"#
        ]],
    );
    check_access(
        &mut fixture,
        collected("True", json!({})),
        expect![[r#"[null,[{"cluster":{"server":""},"name":"KubeFleet"}]]"#]],
    );
}

#[test]
fn a_profile_without_a_member_is_deleted() {
    let mut fixture = Fixture::joined();
    fixture.member = None;
    assert_eq!(profile_text(&fixture.run_profile()), "delete profile m1\nRemoving");
    assert!(fixture.profile.is_none());
    assert_eq!(profile_text(&fixture.run_profile()), "Nothing");
}

#[test]
fn a_profile_of_another_manager_is_neither_taken_over_nor_deleted() {
    let mut fixture = Fixture::joined();
    fixture.profile.as_mut().unwrap().spec.cluster_manager.name = "somebody".to_owned();
    assert_eq!(profile_text(&fixture.run_profile()), "ManagedByAnother { manager: \"somebody\" }");
    fixture.delete_member();
    assert_eq!(profile_text(&fixture.run_profile()), "release member\nRemoving");
    fixture.settle();
    assert!(fixture.member.is_none() && fixture.profile.is_some());
}

#[test]
fn a_deleted_profile_is_recreated_once_it_is_gone() {
    let mut fixture = Fixture::joined();
    let profile = fixture.profile.as_mut().unwrap();
    profile.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(fixture.now));
    profile.metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    assert_eq!(profile_text(&fixture.run_profile()), "ProfileTerminating");
    fixture.profile.as_mut().unwrap().metadata.finalizers = None;
    fixture.settle();
    assert!(fixture.profile.unwrap().metadata.deletion_timestamp.is_none());
}

#[test]
fn last_04_the_version_is_in_the_inventory_also_without_a_property_provider() {
    let reported = json!({"properties": {"k8s.io/k8s-version": {"value": "v1.34.4", "observationTime": START}}});
    let mut fixture = joined(reported);
    fixture.inventory_acts();
    let status = fixture.profile.unwrap().status.unwrap();
    assert_eq!(status.version.map(|version| version.kubernetes), Some("v1.34.4".to_owned()));
    assert_eq!(status.access_providers, []);
}
