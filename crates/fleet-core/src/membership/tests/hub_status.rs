//! The status of the MemberCluster from the reports of its agents.

use expect_test::{Expect, expect};
use fleet_api::conditions::Condition;
use fleet_api::types::InternalMemberClusterStatus;
use serde_json::{Value, json};

use super::fixture::{Fixture, START};
use super::render::{conditions_text, hub_text, observed_text, status_text};

/// `MemberAgent=True MultiClusterServiceAgent=absent`: each agent with its Joined condition.
fn agents(text: &str) -> Value {
    let entry = |word: &str| {
        let (agent, joined) = word.split_once('=').unwrap();
        let conditions = if joined == "absent" { json!([]) } else { json!([condition("Joined", joined)]) };
        json!({"type": agent, "conditions": conditions, "lastReceivedHeartbeat": START})
    };
    text.split_whitespace().map(entry).collect()
}

fn condition(type_: &str, status: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Reason", "message": "", "observedGeneration": 9,
        "lastTransitionTime": "2026-11-15T11:00:00Z",
    })
}

fn report(fixture: &mut Fixture, status: Value) {
    fixture.internal_member_cluster.as_mut().unwrap().status = Some(serde_json::from_value(status).unwrap());
}

fn prepared(networking: bool) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.settings.networking_agents = networking;
    fixture.hub_acts();
    fixture
}

fn check(networking: bool, text: &str, expected: Expect) {
    let mut fixture = prepared(networking);
    report(&mut fixture, json!({"agentStatus": agents(text)}));
    fixture.hub_acts();
    expected.assert_eq(&conditions_text(&fixture.status().conditions));
}

#[test]
fn a_member_has_joined_when_all_expected_agents_have() {
    check(
        false,
        "",
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported all the expected agents, expected 1, got 0"#]],
    );
    check(
        false,
        "MemberAgent=True",
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@1 MemberClusterJoined: Member cluster has successfully joined the fleet"#]],
    );
    check(
        false,
        "MemberAgent=False",
        expect![[r#"
        ReadyToJoin=False@1 MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet
        Joined=False@1 MemberClusterLeft: Member cluster has left the fleet"#]],
    );
    check(
        false,
        "MemberAgent=Unknown",
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member agents are not in a consistent state"#]],
    );
    check(
        false,
        "MemberAgent=absent",
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported the join condition for agent MemberAgent"#]],
    );
    check(
        false,
        "MultiClusterServiceAgent=True",
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported all the expected agents, expected 1, got 0"#]],
    );
    check(
        false,
        "MemberAgent=True MultiClusterServiceAgent=False Stranger=False",
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@1 MemberClusterJoined: Member cluster has successfully joined the fleet"#]],
    );
}

#[test]
fn networking_agents_are_expected_if_enabled() {
    check(
        true,
        "MemberAgent=True",
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported all the expected agents, expected 3, got 1"#]],
    );
    check(
        true,
        "MemberAgent=True MemberAgent=True MemberAgent=True",
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported all the expected agents, expected 3, got 1"#]],
    );
    let three = |one: &str, two: &str, three: &str| {
        format!("MemberAgent={one} MultiClusterServiceAgent={two} ServiceExportImportAgent={three}")
    };
    check(
        true,
        &three("True", "True", "True"),
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@1 MemberClusterJoined: Member cluster has successfully joined the fleet"#]],
    );
    check(
        true,
        &three("False", "False", "False"),
        expect![[r#"
        ReadyToJoin=False@1 MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet
        Joined=False@1 MemberClusterLeft: Member cluster has left the fleet"#]],
    );
    check(
        true,
        &three("True", "False", "True"),
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member agents are not in a consistent state"#]],
    );
    check(
        true,
        &three("True", "absent", "True"),
        expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported the join condition for agent MultiClusterServiceAgent"#]],
    );
}

#[test]
fn agent_statuses_are_copied_with_the_generation_of_the_member() {
    let mut fixture = prepared(false);
    fixture.edit(|_| {});
    fixture.edit(|_| {});
    let usage = json!({"capacity": {"cpu": "4"}, "available": {"cpu": "1500m"}});
    report(
        &mut fixture,
        json!({
            "agentStatus": agents("MemberAgent=True"),
            "conditions": [condition("ClusterPropertyCollectionSucceeded", "True"), condition("ByAProvider", "False")],
            "properties": {"kubernetes-fleet.io/node-count": {"value": "3", "observationTime": START}},
            "resourceUsage": usage,
            "namespaces": {"shop": "web-work"},
        }),
    );
    fixture.hub_acts();
    expect![[r#"
        ReadyToJoin=True@3 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@3 MemberClusterJoined: Member cluster has successfully joined the fleet
        ClusterPropertyCollectionSucceeded=True@3 Reason
        ByAProvider=False@3 Reason
        MemberAgent 2026-11-15T12:00:00Z Joined=True@3"#]]
    .assert_eq(&status_text(&fixture));
    expect![[r#"
        kubernetes-fleet.io/node-count=3
        capacity cpu=4
        available cpu=1500m
        namespace shop of "web-work""#]]
    .assert_eq(&observed_text(&fixture.status().observed));
    let of = |status: &[Condition], type_: &str| {
        status.iter().find(|one| one.type_ == type_).unwrap().last_transition_time.to_string()
    };
    assert_eq!(of(&fixture.status().conditions, "ByAProvider"), "2026-11-15T11:00:00Z", "the member's own time");

    report(&mut fixture, json!({"conditions": [condition("ByAProvider", "True")]}));
    fixture.hub_acts();
    expect![[r#"
        ReadyToJoin=True@3 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@3 MemberClusterJoined: Member cluster has successfully joined the fleet
        ClusterPropertyCollectionSucceeded=True@3 Reason
        ByAProvider=True@3 Reason
        MemberAgent 2026-11-15T12:00:00Z Joined=True@3"#]]
    .assert_eq(&status_text(&fixture));
    assert_eq!(observed_text(&fixture.status().observed), "", "what is not reported any more is gone");
}

#[test]
fn a_member_cannot_set_conditions_of_the_hub() {
    let mut fixture = prepared(false);
    let forged = [condition("Joined", "True"), condition("ReadyToJoin", "False")];
    report(&mut fixture, json!({"agentStatus": agents("MemberAgent=absent"), "conditions": forged}));
    fixture.hub_acts();
    expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported the join condition for agent MemberAgent"#]].assert_eq(&conditions_text(&fixture.status().conditions));
}

#[test]
fn audit_08_a_member_whose_properties_are_not_quantities_is_named_in_its_status() {
    let mut fixture = prepared(false);
    let value = |value: &str| json!({"value": value, "observationTime": START});
    report(
        &mut fixture,
        json!({"agentStatus": agents("MemberAgent=True"), "conditions": [condition("ClusterPropertiesUsable", "True")],
            "properties": {"kubernetes-fleet.io/node-count": value("3"), "example.com/rating": value("high"),
                "k8s.io/k8s-version": value("v1.34.2"), "k8s.io/cluster-entrypoint": value("https://m1")}}),
    );
    fixture.hub_acts();
    let reported = |fixture: &Fixture| {
        let found =
            fixture.status().conditions.iter().find(|one| one.type_ == "ClusterPropertiesUsable").cloned().unwrap();
        (found.status.to_string(), found.reason, found.message)
    };
    let (status, reason, message) = reported(&fixture);
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "PropertiesNotQuantities"),
        "whatever the member says of itself"
    );
    assert!(message.ends_with("does not report them: \"example.com/rating\""), "{message}");

    report(
        &mut fixture,
        json!({"agentStatus": agents("MemberAgent=True"), "properties": {"example.com/rating": value("5")}}),
    );
    fixture.hub_acts();
    let (status, reason, _) = reported(&fixture);
    assert_eq!((status.as_str(), reason.as_str()), ("True", "PropertiesUsable"));
}

#[test]
fn audit_08_members_with_valid_quantities_have_no_finding() {
    let mut fixture = prepared(false);
    let version = json!({"k8s.io/k8s-version": {"value": "v1.34.2", "observationTime": START}});
    report(&mut fixture, json!({"agentStatus": agents("MemberAgent=True"), "properties": version}));
    fixture.hub_acts();
    assert!(fixture.status().conditions.iter().all(|one| one.type_ != "ClusterPropertiesUsable"));
}

#[test]
fn duplicate_conditions_of_a_provider_are_copied_once() {
    let mut fixture = prepared(false);
    report(&mut fixture, json!({"conditions": [condition("ByAProvider", "True"), condition("ByAProvider", "False")]}));
    fixture.hub_acts();
    assert_eq!(fixture.status().conditions.iter().filter(|one| one.type_ == "ByAProvider").count(), 1);
}

#[test]
fn a_heartbeat_is_copied_without_an_event() {
    let mut fixture = Fixture::joined();
    fixture.pass(70);
    fixture.agent_acts();
    let plan = fixture.run_hub();
    assert!(plan.status.is_some());
    assert_eq!(hub_text(&plan), "Prepared(Joined)");
}

#[test]
fn an_agent_that_left_makes_the_member_unready() {
    let mut fixture = Fixture::joined();
    let status: InternalMemberClusterStatus =
        serde_json::from_value(json!({"agentStatus": agents("MemberAgent=False")})).unwrap();
    fixture.internal_member_cluster.as_mut().unwrap().status = Some(status);
    expect![[r#"
        event Normal MemberClusterJoined: member cluster left
        count leave_result_counter
        Prepared(Left)"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    expect![[r#"
        ReadyToJoin=False@1 MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet
        Joined=False@1 MemberClusterLeft: Member cluster has left the fleet"#]]
    .assert_eq(&conditions_text(&fixture.status().conditions));
}
