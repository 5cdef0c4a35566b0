//! What the agents' reports come to on the MemberCluster.

use expect_test::{Expect, expect};
use fleet_api::conditions::Condition;
use fleet_api::types::InternalMemberClusterStatus;
use serde_json::{Value, json};

use super::render::{conditions_text, hub_text, observed_text, status_text};
use super::world::{START, World};

/// `MemberAgent=True MultiClusterServiceAgent=absent`: each agent with its own word on joining.
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

fn report(world: &mut World, status: Value) {
    world.mailbox.as_mut().unwrap().status = Some(serde_json::from_value(status).unwrap());
}

fn prepared(networking: bool) -> World {
    let mut world = World::new();
    world.settings.networking_agents = networking;
    world.hub_acts();
    world
}

fn check(networking: bool, text: &str, expected: Expect) {
    let mut world = prepared(networking);
    report(&mut world, json!({"agentStatus": agents(text)}));
    world.hub_acts();
    expected.assert_eq(&conditions_text(&world.status().conditions));
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
fn networking_agents_have_a_say_where_they_are_enabled() {
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
fn reports_are_copied_and_stamped_with_the_members_generation() {
    let mut world = prepared(false);
    world.edit(|_| {});
    world.edit(|_| {});
    let usage = json!({"capacity": {"cpu": "4"}, "available": {"cpu": "1500m"}});
    report(
        &mut world,
        json!({
            "agentStatus": agents("MemberAgent=True"),
            "conditions": [condition("ClusterPropertyCollectionSucceeded", "True"), condition("ByAProvider", "False")],
            "properties": {"kubernetes-fleet.io/node-count": {"value": "3", "observationTime": START}},
            "resourceUsage": usage,
            "namespaces": {"shop": "web-work"},
        }),
    );
    world.hub_acts();
    expect![[r#"
        ReadyToJoin=True@3 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@3 MemberClusterJoined: Member cluster has successfully joined the fleet
        ClusterPropertyCollectionSucceeded=True@3 Reason
        ByAProvider=False@3 Reason
        MemberAgent 2026-11-15T12:00:00Z Joined=True@3"#]]
    .assert_eq(&status_text(&world));
    expect![[r#"
        kubernetes-fleet.io/node-count=3
        capacity cpu=4
        available cpu=1500m
        namespace shop of "web-work""#]]
    .assert_eq(&observed_text(&world.status().observed));
    let of = |status: &[Condition], type_: &str| {
        status.iter().find(|one| one.type_ == type_).unwrap().last_transition_time.to_string()
    };
    assert_eq!(of(&world.status().conditions, "ByAProvider"), "2026-11-15T11:00:00Z", "the member's own time");

    report(&mut world, json!({"conditions": [condition("ByAProvider", "True")]}));
    world.hub_acts();
    expect![[r#"
        ReadyToJoin=True@3 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=True@3 MemberClusterJoined: Member cluster has successfully joined the fleet
        ClusterPropertyCollectionSucceeded=True@3 Reason
        ByAProvider=True@3 Reason
        MemberAgent 2026-11-15T12:00:00Z Joined=True@3"#]]
    .assert_eq(&status_text(&world));
    assert_eq!(observed_text(&world.status().observed), "", "what is not reported any more is gone");
}

#[test]
fn a_member_cannot_say_that_it_has_joined_in_the_hubs_name() {
    let mut world = prepared(false);
    let forged = [condition("Joined", "True"), condition("ReadyToJoin", "False")];
    report(&mut world, json!({"agentStatus": agents("MemberAgent=absent"), "conditions": forged}));
    world.hub_acts();
    expect![[r#"
        ReadyToJoin=True@1 MemberClusterReadyToJoin: Member cluster is ready to join the fleet
        Joined=Unknown@1 MemberClusterJoinStateUnknown: Member cluster m1 has not reported the join condition for agent MemberAgent"#]].assert_eq(&conditions_text(&world.status().conditions));
}

#[test]
fn a_list_that_names_a_condition_twice_comes_to_rest_too() {
    let mut world = prepared(false);
    report(&mut world, json!({"conditions": [condition("ByAProvider", "True"), condition("ByAProvider", "False")]}));
    world.hub_acts();
    assert_eq!(world.status().conditions.iter().filter(|one| one.type_ == "ByAProvider").count(), 1);
}

#[test]
fn a_heartbeat_is_copied_without_any_news() {
    let mut world = World::joined();
    world.pass(70);
    world.agent_acts();
    let plan = world.run_hub();
    assert!(plan.status.is_some());
    assert_eq!(hub_text(&plan), "Prepared(Joined)");
}

#[test]
fn an_agent_that_left_by_itself_is_not_ready_until_it_is_asked_again() {
    let mut world = World::joined();
    let status: InternalMemberClusterStatus =
        serde_json::from_value(json!({"agentStatus": agents("MemberAgent=False")})).unwrap();
    world.mailbox.as_mut().unwrap().status = Some(status);
    expect![[r#"
        event Normal MemberClusterJoined: member cluster left
        count leave_result_counter
        Prepared(Left)"#]]
    .assert_eq(&hub_text(&world.run_hub()));
    expect![[r#"
        ReadyToJoin=False@1 MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet
        Joined=False@1 MemberClusterLeft: Member cluster has left the fleet"#]]
    .assert_eq(&conditions_text(&world.status().conditions));
}
