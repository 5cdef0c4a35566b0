//! What a member has on the hub, and that it is put right when somebody changes it.

use expect_test::{Expect, expect};
use fleet_api::types::Subject as Identity;
use fleet_api::well_known::labels;
use k8s_openapi::api::rbac::v1::{PolicyRule, Subject};
use serde_json::{Value, json};

use super::render::{hub_text, status_text};
use super::world::World;
use crate::membership::hub::{MemberRole, Write};

#[test]
fn everything_of_a_member_belongs_to_it() {
    let mut world = World::new();
    world.hub_acts();
    expect![[r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes-fleet.io/is-fleet-resource":"true"},"name":"fleet-member-m1","ownerReferences":[{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"MemberCluster","name":"m1","uid":"uid-of-m1"}]}}"#]].assert_eq(&json!(world.namespace).to_string());
    expect![[r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"fleet-role-m1","namespace":"fleet-member-m1","ownerReferences":[{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"MemberCluster","name":"m1","uid":"uid-of-m1"}]},"rules":[{"apiGroups":["cluster.kubernetes-fleet.io"],"resources":["*"],"verbs":["*"]},{"apiGroups":["placement.kubernetes-fleet.io"],"resources":["*"],"verbs":["*"]},{"apiGroups":["networking.fleet.azure.com"],"resources":["*"],"verbs":["*"]},{"apiGroups":[""],"resources":["events"],"verbs":["get","list","update","patch","watch","create"]}]}"#]].assert_eq(&json!(world.role).to_string());
    expect![[r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"fleet-rolebinding-m1","namespace":"fleet-member-m1","ownerReferences":[{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"MemberCluster","name":"m1","uid":"uid-of-m1"}]},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"fleet-role-m1"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"agent-of-m1"}]}"#]].assert_eq(&json!(world.role_binding).to_string());
    expect![[r#"{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","kind":"InternalMemberCluster","metadata":{"generation":1,"name":"m1","namespace":"fleet-member-m1","ownerReferences":[{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"MemberCluster","name":"m1","uid":"uid-of-m1"}]},"spec":{"heartbeatPeriodSeconds":60,"state":"Join"}}"#]].assert_eq(&json!(world.mailbox).to_string());
}

fn check_subject(identity: Value, expected: Expect) {
    let mut world = World::named("m1", identity);
    world.hub_acts();
    expected.assert_eq(&json!(world.role_binding.unwrap().subjects).to_string());
}

#[test]
fn users_and_groups_get_their_api_group() {
    check_subject(
        json!({"kind": "User", "name": "u"}),
        expect![[r#"[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"u"}]"#]],
    );
    check_subject(
        json!({"kind": "Group", "name": "g", "apiGroup": ""}),
        expect![[r#"[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"g"}]"#]],
    );
    check_subject(
        json!({"kind": "Group", "name": "g", "apiGroup": "example.com"}),
        expect![[r#"[{"apiGroup":"example.com","kind":"Group","name":"g"}]"#]],
    );
    check_subject(
        json!({"kind": "ServiceAccount", "name": "s", "namespace": "fleet-system"}),
        expect![[r#"[{"kind":"ServiceAccount","name":"s","namespace":"fleet-system"}]"#]],
    );
}

/// Only the writes and their events.
fn check(change: impl FnOnce(&mut World), expected: Expect) {
    let mut world = World::joined();
    change(&mut world);
    expected.assert_eq(&hub_text(&world.run_hub()));
}

#[test]
fn what_somebody_changed_is_put_right() {
    check(|_| {}, expect!["Prepared(Joined)"]);
    check(
        |world| world.member().metadata.labels = None,
        expect![[r#"
        hold member
        Prepared(Joined)"#]],
    );
    check(
        |world| {
            let labels = world.member().metadata.labels.as_mut().unwrap();
            labels.insert(labels::MEMBER_NAME.to_owned(), "another".to_owned());
        },
        expect![[r#"
            hold member
            Prepared(Joined)"#]],
    );
    check(
        |world| world.namespace.as_mut().unwrap().metadata.labels = None,
        expect![[r#"
        mark namespace fleet-member-m1
        event Normal NamespacePatched: Namespace was patched
        Prepared(Joined)"#]],
    );
    check(
        |world| world.role = None,
        expect![[r#"
        create role fleet-role-m1
        event Normal RoleCreated: role was created
        Prepared(Joined)"#]],
    );
    check(
        |world| world.role.as_mut().unwrap().rules.as_mut().unwrap().truncate(3),
        expect![[r#"
        update role fleet-role-m1
        event Normal RoleUpdated: role was updated
        Prepared(Joined)"#]],
    );
    check(
        |world| {
            let rules = world.role.as_mut().unwrap().rules.as_mut().unwrap();
            rules[3].resource_names = Some(vec!["one".to_owned()]);
        },
        expect![[r#"
            update role fleet-role-m1
            event Normal RoleUpdated: role was updated
            Prepared(Joined)"#]],
    );
    check(
        |world| world.role_binding = None,
        expect![[r#"
        create role binding fleet-rolebinding-m1 for User agent-of-m1
        event Normal RoleBindingCreated: role binding was created
        Prepared(Joined)"#]],
    );
    check(
        |world| {
            let intruder = Subject { kind: "User".to_owned(), name: "intruder".to_owned(), ..Subject::default() };
            world.role_binding.as_mut().unwrap().subjects.as_mut().unwrap().push(intruder);
        },
        expect![[r#"
            update role binding fleet-rolebinding-m1
            event Normal RoleBindingUpdated: role binding was updated
            Prepared(Joined)"#]],
    );
    check(
        |world| world.role_binding.as_mut().unwrap().role_ref.name = "admin".to_owned(),
        expect![[r#"
        replace role binding fleet-rolebinding-m1
        event Normal RoleBindingUpdated: role binding was updated
        Prepared(Joined)"#]],
    );
    check(
        |world| world.mailbox = None,
        expect![[r#"
        create mailbox m1 Join 60s
        event Normal InternalMemberClusterCreated: Internal member cluster was created
        Prepared(Joined)"#]],
    );
    check(
        |world| world.order("Leave"),
        expect![[r#"
        update mailbox m1 Join 60s
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        Prepared(Joined)"#]],
    );
}

#[test]
fn a_new_identity_and_a_new_heartbeat_period_are_passed_on() {
    let mut world = World::joined();
    world.edit(|member| {
        member.spec.identity = Identity { kind: "User".to_owned(), name: "new".to_owned(), ..Identity::default() };
        member.spec.heartbeat_period_seconds = Some(10);
    });
    expect![[r#"
        update role binding fleet-rolebinding-m1
        update mailbox m1 Join 10s
        event Normal RoleBindingUpdated: role binding was updated
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        Prepared(Joined)"#]]
    .assert_eq(&hub_text(&world.run_hub()));
    expect![[r#"[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"new"}]"#]]
        .assert_eq(&json!(world.role_binding.unwrap().subjects).to_string());
}

#[test]
fn how_a_server_gives_lists_back_makes_no_difference() {
    let mut world = World::named("m1", json!({"kind": "ServiceAccount", "name": "s", "namespace": "n"}));
    world.settle();
    for rule in world.role.as_mut().unwrap().rules.iter_mut().flatten() {
        *rule = PolicyRule { resource_names: Some(Vec::new()), non_resource_urls: Some(Vec::new()), ..rule.clone() };
    }
    for subject in world.role_binding.as_mut().unwrap().subjects.iter_mut().flatten() {
        subject.api_group = Some(String::new());
    }
    world.mailbox.as_mut().unwrap().spec.heartbeat_period_seconds = None;
    let plan = world.hub_plan();
    assert!(plan.is_idle(), "{plan:#?}");
}

#[test]
fn a_name_that_no_namespace_can_have_is_refused_in_the_status_and_free_to_go() {
    for name in ["m".repeat(51), "m.example".to_owned()] {
        let mut world = World::named(&name, json!({"kind": "User", "name": "u"}));
        let plan = world.run_hub();
        assert!(plan.writes.is_empty(), "{plan:#?}");
        assert!(status_text(&world).starts_with("ReadyToJoin=False@1 MemberClusterNotReadyToJoin: "));
        // Another release may have put its finalizer there before it noticed.
        world.write_hub(&Write::HoldMember);
        world.delete_member();
        assert_eq!(hub_text(&world.run_hub()), "release member\nLeaving(Released)");
        assert!(world.member.is_none());
    }
}

#[test]
fn a_namespace_that_somebody_deletes_is_made_anew_when_it_is_gone() {
    let mut world = World::joined();
    world.terminate_namespace();
    expect!["NamespaceGoing"].assert_eq(&hub_text(&world.run_hub()));
    expect![[r#"
        ReadyToJoin=False@1 MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet
        Joined=True@1 MemberClusterJoined: Member cluster has successfully joined the fleet
        MemberAgent 2026-11-15T12:00:00Z Healthy=True@1 Joined=True@1"#]]
    .assert_eq(&status_text(&world));
    world.collect_garbage();
    expect![[r#"
        create namespace fleet-member-m1
        create role fleet-role-m1
        create role binding fleet-rolebinding-m1 for User agent-of-m1
        create mailbox m1 Join 60s
        event Normal NamespaceCreated: Namespace was created
        event Normal RoleCreated: role was created
        event Normal RoleBindingCreated: role binding was created
        event Normal InternalMemberClusterCreated: Internal member cluster was created
        event Normal MemberClusterReadyToJoin: member cluster ready to join
        Prepared(Joined)"#]]
    .assert_eq(&hub_text(&world.run_hub()));
    world.settle();
    assert!(status_text(&world).starts_with("ReadyToJoin=True@1"));
    assert_eq!(world.role.unwrap().rules.unwrap().len(), 4);
}

#[test]
fn a_role_to_be_written_says_all_it_takes_to_write_it() {
    let plan = World::new().hub_plan();
    let role = plan.writes.iter().find_map(|write| match write {
        Write::CreateRole(role) => Some(role),
        _ => None,
    });
    let Some(MemberRole { namespace, name, rules }) = role else { panic!("{plan:#?}") };
    assert_eq!((namespace.as_str(), name.as_str(), rules.len()), ("fleet-member-m1", "fleet-role-m1", 4));
}
