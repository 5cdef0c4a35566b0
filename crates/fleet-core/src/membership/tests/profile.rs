//! The inventory entry: when there is one, what it says, whose it is.

use expect_test::{Expect, expect};
use fleet_api::conditions::member::ControlPlaneHealthy;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::render::{conditions_text, profile_text};
use super::world::{START, World};
use crate::membership::profile::Outcome;
use crate::plan::Wake;

fn joined(status: Value) -> World {
    let mut world = World::joined();
    let mut merged = serde_json::to_value(world.status()).unwrap();
    merged.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    world.member().status = Some(serde_json::from_value(merged).unwrap());
    world.profile = None;
    world
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
    let mut world = joined(status);
    world.inventory_acts();
    expected.assert_eq(&conditions_text(&world.profile.unwrap().status.unwrap().conditions));
}

#[test]
fn health_is_what_the_agent_says_as_long_as_it_is_heard_of() {
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
fn silence_becomes_news_at_its_time_and_not_before() {
    let mut world = World::joined();
    world.profile_settings.unhealthy_after = Some(SignedDuration::from_mins(3));
    let lost_at = world.now + SignedDuration::from_mins(3);
    assert_eq!(world.profile_plan().wake, Wake::At(lost_at));
    world.now = lost_at - SignedDuration::from_secs(1);
    assert!(world.profile_plan().is_idle());
    world.now = lost_at;
    let plan = world.run_profile();
    assert_eq!(profile_text(&plan), "Kept(HeartbeatLost)");
    assert_eq!(plan.wake, Wake::OnChange);
}

#[test]
fn unless_a_threshold_is_given_a_heartbeat_that_is_a_little_late_is_not_lost() {
    let mut world = World::joined();
    assert_eq!(world.profile_settings.unhealthy_after, None);
    world.pass(119);
    assert_eq!(world.profile_plan().report.outcome, Outcome::Kept(ControlPlaneHealthy::Healthy));
    world.pass(1);
    assert_eq!(world.profile_plan().report.outcome, Outcome::Kept(ControlPlaneHealthy::HeartbeatLost));
}

#[test]
fn a_threshold_that_is_given_holds_whatever_the_heartbeats_period() {
    let mut world = World::joined();
    world.profile_settings.unhealthy_after = Some(SignedDuration::from_secs(90));
    world.pass(89);
    assert_eq!(world.profile_plan().report.outcome, Outcome::Kept(ControlPlaneHealthy::Healthy));
    world.pass(1);
    assert_eq!(world.profile_plan().report.outcome, Outcome::Kept(ControlPlaneHealthy::HeartbeatLost));
}

#[test]
fn a_member_that_has_not_joined_since_it_changed_leaves_its_entry_as_it_is() {
    let mut world = World::joined();
    world.edit(|_| {});
    world.profile.as_mut().unwrap().spec.display_name = "edited".to_owned();
    world.pass(10_000);
    assert_eq!(profile_text(&world.run_profile()), "AwaitingJoin");
    world.settle();
    assert_eq!(world.profile.unwrap().spec.display_name, "m1");
}

#[test]
fn what_somebody_changed_is_put_right_and_noticed() {
    let mut world = World::joined();
    world.profile.as_mut().unwrap().spec.display_name = "edited".to_owned();
    expect![[r#"
        update profile m1
        wake at 2026-11-15T12:02:00Z
        Kept(Healthy) (reverted)"#]]
    .assert_eq(&profile_text(&world.run_profile()));
    world.profile.as_mut().unwrap().metadata.labels = None;
    expect![[r#"
        update profile m1
        wake at 2026-11-15T12:02:00Z
        Kept(Healthy) (reverted)"#]]
    .assert_eq(&profile_text(&world.run_profile()));
    world.profile = None;
    expect![[r#"
        create profile m1
        wake at 2026-11-15T12:02:00Z
        Kept(Healthy)"#]]
    .assert_eq(&profile_text(&world.run_profile()));
}

#[test]
fn what_others_put_into_the_status_stays() {
    let mut world = World::joined();
    let status = world.profile.as_mut().unwrap().status.as_mut().unwrap();
    status.properties = serde_json::from_value(json!([{"name": "a", "value": "b"}])).unwrap();
    world.inventory_acts();
    assert_eq!(world.profile.unwrap().status.unwrap().properties.len(), 1);
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

fn check_access(world: &mut World, status: Value, expected: Expect) {
    let mut merged = serde_json::to_value(world.status()).unwrap();
    merged.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    world.member().status = Some(serde_json::from_value(merged).unwrap());
    world.inventory_acts();
    let status = world.profile.as_ref().unwrap().status.as_ref().unwrap();
    expected.assert_eq(&serde_json::to_string(&json!([status.version, status.access_providers])).unwrap());
}

#[test]
fn version_and_access_are_those_of_the_last_successful_collection() {
    let mut world = World::joined();
    let value = |value: &str| json!({"value": value, "observationTime": START});
    let all = json!({
        "k8s.io/k8s-version": value("v1.34.2"),
        "k8s.io/cluster-entrypoint": value("https://m1:6443"),
        "k8s.io/cluster-certificate-authority-data": value("PEM"),
    });
    check_access(&mut world, collected("False", all.clone()), expect!["[null,[]]"]);
    check_access(
        &mut world,
        collected("True", all),
        expect![[
            r#"[{"kubernetes":"v1.34.2"},[{"cluster":{"certificate-authority-data":"UEVN","server":"https://m1:6443"},"name":"KubeFleet"}]]"#
        ]],
    );
    check_access(
        &mut world,
        collected("False", json!({})),
        expect![[
            r#"[{"kubernetes":"v1.34.2"},[{"cluster":{"certificate-authority-data":"UEVN","server":"https://m1:6443"},"name":"KubeFleet"}]]"#
        ]],
    );
    check_access(
        &mut world,
        collected("True", json!({})),
        expect![[r#"[null,[{"cluster":{"server":""},"name":"KubeFleet"}]]"#]],
    );
}

#[test]
fn an_entry_without_a_member_goes() {
    let mut world = World::joined();
    world.member = None;
    assert_eq!(profile_text(&world.run_profile()), "delete profile m1\nRemoving");
    assert!(world.profile.is_none());
    assert_eq!(profile_text(&world.run_profile()), "Nothing");
}

#[test]
fn an_entry_of_another_manager_is_neither_taken_over_nor_deleted() {
    let mut world = World::joined();
    world.profile.as_mut().unwrap().spec.cluster_manager.name = "somebody".to_owned();
    assert_eq!(profile_text(&world.run_profile()), "ManagedByAnother { manager: \"somebody\" }");
    world.delete_member();
    assert_eq!(profile_text(&world.run_profile()), "release member\nRemoving");
    world.settle();
    assert!(world.member.is_none() && world.profile.is_some());
}

#[test]
fn an_entry_that_somebody_deletes_is_made_anew_when_it_is_gone() {
    let mut world = World::joined();
    let profile = world.profile.as_mut().unwrap();
    profile.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(world.now));
    profile.metadata.finalizers = Some(vec!["example.com/other".to_owned()]);
    assert_eq!(profile_text(&world.run_profile()), "ProfileGoing");
    world.profile.as_mut().unwrap().metadata.finalizers = None;
    world.settle();
    assert!(world.profile.unwrap().metadata.deletion_timestamp.is_none());
}
