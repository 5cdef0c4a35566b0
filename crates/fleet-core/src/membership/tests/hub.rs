//! The objects of a member on the hub, which are repaired after changes.

use expect_test::{Expect, expect};
use fleet_api::types::Subject as Identity;
use fleet_api::well_known::labels;
use k8s_openapi::api::rbac::v1::{PolicyRule, Subject};
use serde_json::{Value, json};

use super::fixture::Fixture;
use super::render::{hub_text, status_text};
use crate::membership::hub::{MemberRole, Write};

#[test]
fn objects_of_a_member_have_it_as_owner() {
    let mut fixture = Fixture::new();
    fixture.hub_acts();
    expect![[r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes-fleet.io/is-fleet-resource":"true"},"name":"fleet-member-m1","ownerReferences":[{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"MemberCluster","name":"m1","uid":"uid-of-m1"}]}}"#]].assert_eq(&json!(fixture.namespace).to_string());
    expect![[r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"fleet-role-m1","namespace":"fleet-member-m1","ownerReferences":[{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"MemberCluster","name":"m1","uid":"uid-of-m1"}]},"rules":[{"apiGroups":["cluster.kubernetes-fleet.io"],"resources":["internalmemberclusters"],"verbs":["get","list","watch"]},{"apiGroups":["cluster.kubernetes-fleet.io"],"resources":["internalmemberclusters/status"],"verbs":["get","update","patch"]},{"apiGroups":["placement.kubernetes-fleet.io"],"resources":["works"],"verbs":["get","list","watch","update","patch"]},{"apiGroups":["placement.kubernetes-fleet.io"],"resources":["works/status"],"verbs":["get","update","patch"]},{"apiGroups":["networking.fleet.azure.com"],"resources":["endpointsliceexports","endpointsliceimports","internalserviceexports","internalserviceimports"],"verbs":["get","list","watch","create","update","patch","delete"]},{"apiGroups":["networking.fleet.azure.com"],"resources":["endpointsliceexports/status","endpointsliceimports/status","internalserviceexports/status","internalserviceimports/status"],"verbs":["get","update","patch"]},{"apiGroups":["networking.fleet.azure.com"],"resources":["endpointsliceexports/finalizers","endpointsliceimports/finalizers","internalserviceexports/finalizers","internalserviceimports/finalizers"],"verbs":["update"]},{"apiGroups":[""],"resources":["events"],"verbs":["get","list","update","patch","watch","create"]}]}"#]].assert_eq(&json!(fixture.role).to_string());
    expect![[r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"fleet-rolebinding-m1","namespace":"fleet-member-m1","ownerReferences":[{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"MemberCluster","name":"m1","uid":"uid-of-m1"}]},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"fleet-role-m1"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"agent-of-m1"}]}"#]].assert_eq(&json!(fixture.role_binding).to_string());
    expect![[r#"{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","kind":"InternalMemberCluster","metadata":{"generation":1,"name":"m1","namespace":"fleet-member-m1","ownerReferences":[{"apiVersion":"cluster.kubernetes-fleet.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"MemberCluster","name":"m1","uid":"uid-of-m1"}]},"spec":{"heartbeatPeriodSeconds":60,"state":"Join"}}"#]].assert_eq(&json!(fixture.internal_member_cluster).to_string());
}

fn check_subject(identity: Value, expected: Expect) {
    let mut fixture = Fixture::named("m1", identity);
    fixture.hub_acts();
    expected.assert_eq(&json!(fixture.role_binding.unwrap().subjects).to_string());
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
fn check(change: impl FnOnce(&mut Fixture), expected: Expect) {
    let mut fixture = Fixture::joined();
    change(&mut fixture);
    expected.assert_eq(&hub_text(&fixture.run_hub()));
}

#[test]
fn foreign_changes_are_reverted() {
    check(|_| {}, expect!["Prepared(Joined)"]);
    check(
        |fixture| fixture.member().metadata.labels = None,
        expect![[r#"
        hold member
        Prepared(Joined)"#]],
    );
    check(
        |fixture| {
            let labels = fixture.member().metadata.labels.as_mut().unwrap();
            labels.insert(labels::MEMBER_NAME.to_owned(), "another".to_owned());
        },
        expect![[r#"
            hold member
            Prepared(Joined)"#]],
    );
    check(
        |fixture| fixture.namespace.as_mut().unwrap().metadata.labels = None,
        expect![[r#"
        mark namespace fleet-member-m1
        event Normal NamespacePatched: Namespace was patched
        Prepared(Joined)"#]],
    );
    check(
        |fixture| fixture.role = None,
        expect![[r#"
        create role fleet-role-m1
        event Normal RoleCreated: role was created
        Prepared(Joined)"#]],
    );
    check(
        |fixture| fixture.role.as_mut().unwrap().rules.as_mut().unwrap().truncate(3),
        expect![[r#"
        update role fleet-role-m1
        event Normal RoleUpdated: role was updated
        Prepared(Joined)"#]],
    );
    check(
        |fixture| {
            let rules = fixture.role.as_mut().unwrap().rules.as_mut().unwrap();
            rules[3].resource_names = Some(vec!["one".to_owned()]);
        },
        expect![[r#"
            update role fleet-role-m1
            event Normal RoleUpdated: role was updated
            Prepared(Joined)"#]],
    );
    check(
        |fixture| fixture.role_binding = None,
        expect![[r#"
        create role binding fleet-rolebinding-m1 for User agent-of-m1
        event Normal RoleBindingCreated: role binding was created
        Prepared(Joined)"#]],
    );
    check(
        |fixture| {
            let intruder = Subject { kind: "User".to_owned(), name: "intruder".to_owned(), ..Subject::default() };
            fixture.role_binding.as_mut().unwrap().subjects.as_mut().unwrap().push(intruder);
        },
        expect![[r#"
            update role binding fleet-rolebinding-m1
            event Normal RoleBindingUpdated: role binding was updated
            Prepared(Joined)"#]],
    );
    check(
        |fixture| fixture.role_binding.as_mut().unwrap().role_ref.name = "admin".to_owned(),
        expect![[r#"
        replace role binding fleet-rolebinding-m1
        event Normal RoleBindingUpdated: role binding was updated
        Prepared(Joined)"#]],
    );
    check(
        |fixture| fixture.internal_member_cluster = None,
        expect![[r#"
        create InternalMemberCluster m1 Join 60s
        event Normal InternalMemberClusterCreated: Internal member cluster was created
        Prepared(Joined)"#]],
    );
    check(
        |fixture| fixture.request("Leave"),
        expect![[r#"
        update InternalMemberCluster m1 Join 60s
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        Prepared(Joined)"#]],
    );
}

#[test]
fn identity_and_heartbeat_period_are_propagated() {
    let mut fixture = Fixture::joined();
    fixture.edit(|member| {
        member.spec.identity = Identity { kind: "User".to_owned(), name: "new".to_owned(), ..Identity::default() };
        member.spec.heartbeat_period_seconds = Some(10);
    });
    expect![[r#"
        update role binding fleet-rolebinding-m1
        update InternalMemberCluster m1 Join 10s
        event Normal RoleBindingUpdated: role binding was updated
        event Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated
        Prepared(Joined)"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    expect![[r#"[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"new"}]"#]]
        .assert_eq(&json!(fixture.role_binding.unwrap().subjects).to_string());
}

#[test]
fn server_defaults_in_lists_cause_no_write() {
    let mut fixture = Fixture::named("m1", json!({"kind": "ServiceAccount", "name": "s", "namespace": "n"}));
    fixture.settle();
    for rule in fixture.role.as_mut().unwrap().rules.iter_mut().flatten() {
        *rule = PolicyRule { resource_names: Some(Vec::new()), non_resource_urls: Some(Vec::new()), ..rule.clone() };
    }
    for subject in fixture.role_binding.as_mut().unwrap().subjects.iter_mut().flatten() {
        subject.api_group = Some(String::new());
    }
    fixture.internal_member_cluster.as_mut().unwrap().spec.heartbeat_period_seconds = None;
    let plan = fixture.hub_plan();
    assert!(plan.is_idle(), "{plan:#?}");
}

#[test]
fn a_member_whose_name_is_too_long_is_reported_and_can_be_deleted() {
    for name in ["m".repeat(51), "m.example".to_owned()] {
        let mut fixture = Fixture::named(&name, json!({"kind": "User", "name": "u"}));
        let plan = fixture.run_hub();
        assert!(plan.writes.is_empty(), "{plan:#?}");
        assert!(status_text(&fixture).starts_with("ReadyToJoin=False@1 MemberClusterNotReadyToJoin: "));
        // Another release may have added its finalizer.
        fixture.write_hub(&Write::AddMemberFinalizer);
        fixture.delete_member();
        assert_eq!(hub_text(&fixture.run_hub()), "release member\nLeaving(Released)");
        assert!(fixture.member.is_none());
    }
}

#[test]
fn a_deleted_namespace_is_recreated_once_it_is_gone() {
    let mut fixture = Fixture::joined();
    fixture.terminate_namespace();
    expect!["NamespaceTerminating"].assert_eq(&hub_text(&fixture.run_hub()));
    expect![[r#"
        ReadyToJoin=False@1 MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet
        Joined=True@1 MemberClusterJoined: Member cluster has successfully joined the fleet
        MemberAgent 2026-11-15T12:00:00Z Healthy=True@1 Joined=True@1"#]]
    .assert_eq(&status_text(&fixture));
    fixture.collect_garbage();
    expect![[r#"
        create namespace fleet-member-m1
        create role fleet-role-m1
        create role binding fleet-rolebinding-m1 for User agent-of-m1
        create InternalMemberCluster m1 Join 60s
        event Normal NamespaceCreated: Namespace was created
        event Normal RoleCreated: role was created
        event Normal RoleBindingCreated: role binding was created
        event Normal InternalMemberClusterCreated: Internal member cluster was created
        event Normal MemberClusterReadyToJoin: member cluster ready to join
        Prepared(Joined)"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    fixture.settle();
    assert!(status_text(&fixture).starts_with("ReadyToJoin=True@1"));
    assert_eq!(fixture.role.unwrap().rules.unwrap(), MemberRole::rules());
}

#[test]
fn a_role_write_is_complete() {
    let plan = Fixture::new().hub_plan();
    let role = plan.writes.iter().find_map(|write| match write {
        Write::CreateRole(role) => Some(role),
        _ => None,
    });
    let Some(MemberRole { namespace, name, rules }) = role else { panic!("{plan:#?}") };
    assert_eq!((namespace.as_str(), name.as_str()), ("fleet-member-m1", "fleet-role-m1"));
    assert_eq!(rules, &MemberRole::rules());
}

/// The rules that earlier releases and KubeFleet itself gave to members.
#[test]
fn audit_06_a_wide_role_is_narrowed() {
    let mut fixture = Fixture::joined();
    let wide =
        ["cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io", "networking.fleet.azure.com"].map(|group| {
            PolicyRule {
                api_groups: Some(vec![group.to_owned()]),
                resources: Some(vec!["*".to_owned()]),
                verbs: vec!["*".to_owned()],
                ..PolicyRule::default()
            }
        });
    let role = fixture.role.as_mut().unwrap();
    role.rules = Some(wide.into_iter().chain(role.rules.iter().flatten().last().cloned()).collect());
    expect![[r#"
        update role fleet-role-m1
        event Normal RoleUpdated: role was updated
        Prepared(Joined)"#]]
    .assert_eq(&hub_text(&fixture.run_hub()));
    assert_eq!(fixture.role.unwrap().rules.unwrap(), MemberRole::rules());
}

#[test]
fn audit_06_no_rule_of_a_member_has_a_wildcard() {
    for rule in MemberRole::rules() {
        let words = [rule.api_groups, rule.resources, Some(rule.verbs)].into_iter().flatten().flatten();
        assert!(words.into_iter().all(|word| !word.contains('*')));
        assert_eq!((rule.resource_names, rule.non_resource_urls), (None, None));
    }
}
