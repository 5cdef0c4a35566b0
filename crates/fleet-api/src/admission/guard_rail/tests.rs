//! Which users may change what, and the messages of denials.

use expect_test::{Expect, expect};
use serde_json::json;

use super::super::fake_lookups::{FakeLookups, MEMBER, object, request, user};
use super::super::lookups::Settings;
use super::*;

const CRD: &str = "apiextensions.k8s.io/v1/CustomResourceDefinition";
const NAMESPACE: &str = "/v1/Namespace";

fn printed(verdict: &Verdict) -> String {
    let word = if verdict.is_allowed() { "allowed" } else { "denied" };
    format!("{word}: {}", verdict.message())
}

fn named(kind: &str, namespace: &str, name: &str) -> Request {
    request(Operation::Create, kind, json!({"metadata": {"name": name, "namespace": namespace}}))
}

fn by(request: &Request, user: User) -> Request {
    Request { user, ..request.clone() }
}

fn check(request: &Request, lookups: &FakeLookups, expected: Expect) {
    expected.assert_eq(&printed(&admit(request, lookups)));
}

/// Every user that the guard rail distinguishes, with the answer.
fn who_passes(request: &Request, lookups: &FakeLookups) -> String {
    let people = [
        ("plain", user("ann", &["system:authenticated"])),
        ("whitelisted", user("bob", &[])),
        ("masters", user("x", &["system:masters"])),
        ("kubeadm", user("x", &["kubeadm:cluster-admins"])),
        ("service account", user("system:serviceaccount:a:b", &["system:serviceaccounts"])),
        ("node", user("x", &["system:nodes"])),
        ("scheduler", user("system:kube-scheduler", &[])),
        ("controller manager", user("system:kube-controller-manager", &[])),
        ("support", user("aks-support", &[])),
        ("member", user("agent", &[])),
        ("member's account", user("system:serviceaccount:fleet-system:agent", &[])),
    ];
    let passing: Vec<&str> = people
        .into_iter()
        .filter(|(_, user)| admit(&by(request, user.clone()), lookups).is_allowed())
        .map(|(who, _)| who)
        .collect();
    passing.join(", ")
}

fn hub() -> FakeLookups {
    FakeLookups {
        settings: Settings { whitelisted_users: vec!["bob".to_owned()], ..Settings::default() },
        members: vec![object(MEMBER, "m1", json!({"identity": {"kind": "User", "name": "agent"}}))],
        ..FakeLookups::default()
    }
}

#[test]
fn fleet_crds_are_for_administrators() {
    for group in [
        "networking.fleet.azure.com",
        "cluster.kubernetes-fleet.io",
        "placement.kubernetes-fleet.io",
        "multicluster.x-k8s.io",
    ] {
        let crd = named(CRD, "", &format!("things.{group}"));
        expect!["whitelisted, masters, kubeadm"].assert_eq(&who_passes(&crd, &hub()));
    }
    expect!["plain, whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support, member, member's account"].assert_eq(&who_passes(&named(CRD, "", "things.example.com"), &hub()));
    check(
        &named(CRD, "", "works.placement.kubernetes-fleet.io"),
        &hub(),
        expect![
            "denied: user: 'ann' in 'groups: [system:authenticated]' is not allowed to CREATE resource apiextensions.k8s.io/v1, Kind=CustomResourceDefinition/: /works.placement.kubernetes-fleet.io"
        ],
    );
    check(
        &named(CRD, "", "dotless"),
        &hub(),
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to CREATE resource apiextensions.k8s.io/v1, Kind=CustomResourceDefinition/: /dotless"
        ],
    );
}

#[test]
fn reserved_namespaces_are_for_the_privileged() {
    expect!["whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support"]
        .assert_eq(&who_passes(&named(NAMESPACE, "", "fleet-x"), &hub()));
    // API servers send the name as the namespace too; it is not printed.
    check(
        &named(NAMESPACE, "kube-x", "kube-x"),
        &hub(),
        expect![
            "denied: user: 'ann' in 'groups: [system:authenticated]' is not allowed to CREATE resource /v1, Kind=Namespace/: /kube-x"
        ],
    );
    check(
        &named(NAMESPACE, "", "app"),
        &hub(),
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to CREATE resource /v1, Kind=Namespace/: /app"
        ],
    );
}

#[test]
fn groups_are_printed_up_to_ten() {
    let groups: Vec<String> = (0..11).map(|i| format!("g{i}")).collect();
    let ten = User { name: "ann".to_owned(), groups: groups[..10].to_vec() };
    let eleven = User { name: "ann".to_owned(), groups };
    let denied = named(NAMESPACE, "", "fleet-x");
    check(
        &by(&denied, ten),
        &hub(),
        expect![
            "denied: user: 'ann' in 'groups: [g0 g1 g2 g3 g4 g5 g6 g7 g8 g9]' is not allowed to CREATE resource /v1, Kind=Namespace/: /fleet-x"
        ],
    );
    check(
        &by(&denied, eleven),
        &hub(),
        expect![
            "denied: user: 'ann' in 'groups: [g0, g1, g2,......]' is not allowed to CREATE resource /v1, Kind=Namespace/: /fleet-x"
        ],
    );
    check(
        &by(&denied, user("ann", &[])),
        &hub(),
        expect!["denied: user: 'ann' in 'groups: []' is not allowed to CREATE resource /v1, Kind=Namespace/: /fleet-x"],
    );
}

#[test]
fn agents_write_in_the_namespace_of_their_member() {
    for kind in [
        "cluster.kubernetes-fleet.io/v1beta1/InternalMemberCluster",
        "placement.kubernetes-fleet.io/v1beta1/Work",
        "networking.fleet.azure.com/v1alpha1/EndpointSliceExport",
        "networking.fleet.azure.com/v1alpha1/EndpointSliceImport",
        "networking.fleet.azure.com/v1alpha1/InternalServiceExport",
        "networking.fleet.azure.com/v1alpha1/InternalServiceImport",
    ] {
        expect!["whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support, member, member's account"].assert_eq(&who_passes(&named(kind, "fleet-member-m1", "x"), &hub()));
        expect!["whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support"]
            .assert_eq(&who_passes(&named(kind, "fleet-system", "x"), &hub()));
        assert!(admit(&named(kind, "app", "x"), &hub()).is_allowed(), "{kind}");
    }
}

#[test]
fn requests_about_an_unknown_member_are_allowed() {
    let work = |namespace: &str| named("placement.kubernetes-fleet.io/v1beta1/Work", namespace, "w");
    check(
        &work("fleet-member-m2"),
        &hub(),
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to CREATE resource placement.kubernetes-fleet.io/v1beta1, Kind=Work/: fleet-member-m2/w because we failed to get MC"
        ],
    );
    check(
        &work("fleet-member-"),
        &hub(),
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to CREATE resource placement.kubernetes-fleet.io/v1beta1, Kind=Work/: fleet-member-/w because we failed to get MC"
        ],
    );
    check(
        &work("fleet-member-m1"),
        &FakeLookups { broken: true, ..hub() },
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to CREATE resource placement.kubernetes-fleet.io/v1beta1, Kind=Work/: fleet-member-m1/w because we failed to get MC"
        ],
    );
    check(
        &work("fleet-member-m1"),
        &hub(),
        expect![
            "denied: user: 'ann' in 'groups: [system:authenticated]' is not allowed to CREATE resource placement.kubernetes-fleet.io/v1beta1, Kind=Work/: fleet-member-m1/w"
        ],
    );
}

#[test]
fn messages_name_operation_requested_kind_and_subresource() {
    let mut update = named("placement.kubernetes-fleet.io/v1beta1/Work", "fleet-member-m1", "w");
    update.operation = Operation::Update;
    update.request_kind.version = "v1".to_owned();
    update.subresource = "status".to_owned();
    check(
        &update,
        &hub(),
        expect![
            "denied: user: 'ann' in 'groups: [system:authenticated]' is not allowed to UPDATE resource placement.kubernetes-fleet.io/v1, Kind=Work/status: fleet-member-m1/w"
        ],
    );
    check(
        &by(&update, user("agent", &["a", "b"])),
        &hub(),
        expect![
            "allowed: user: 'agent' in 'groups: [a b]' is allowed to UPDATE resource placement.kubernetes-fleet.io/v1, Kind=Work/status: fleet-member-m1/w"
        ],
    );
}

#[test]
fn everything_else() {
    let lookups = hub();
    check(
        &named("/v1/Event", "kube-system", "e"),
        &lookups,
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to CREATE resource /v1, Kind=Event/: kube-system/e"
        ],
    );
    expect!["whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support"]
        .assert_eq(&who_passes(&named("events.k8s.io/v1/Event", "kube-system", "e"), &lookups));
    expect!["whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support"]
        .assert_eq(&who_passes(&named("/v1/Secret", "fleet-member-m1", "s"), &lookups));
    check(
        &named("/v1/Secret", "fleet-system", "s"),
        &lookups,
        expect![
            "denied: user: 'ann' in 'groups: [system:authenticated]' is not allowed to CREATE resource /v1, Kind=Secret/: fleet-system/s"
        ],
    );
    check(
        &named("example.com/v1/Thing", "", "t"),
        &lookups,
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to CREATE resource example.com/v1, Kind=Thing/: /t"
        ],
    );
}

fn member(metadata: Value, spec: Value, status: Value) -> Value {
    let mut made = object(MEMBER, "m1", spec);
    made["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    made["status"] = status;
    made
}

fn platform(extra: Value) -> Value {
    let mut metadata = json!({"annotations": {"fleet.azure.com/cluster-resource-id": "1"}});
    metadata.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    metadata
}

fn change(old: Value, new: Value) -> Request {
    Request { old_object: Some(old), ..request(Operation::Update, MEMBER, new) }
}

#[test]
fn only_privileged_users_create_and_delete_platform_members() {
    for operation in [Operation::Create, Operation::Delete] {
        let managed = request(operation, MEMBER, member(platform(json!({})), json!({}), json!(null)));
        expect!["whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support"]
            .assert_eq(&who_passes(&managed, &hub()));
        let upstream = request(operation, MEMBER, member(json!({}), json!({}), json!(null)));
        assert!(admit(&upstream, &hub()).is_allowed(), "{operation:?}");
    }
}

#[test]
fn upstream_members_may_be_changed_but_not_converted_to_platform_members() {
    let old = member(json!({}), json!({"heartbeatPeriodSeconds": 60}), json!({"conditions": []}));
    let spec = member(json!({"labels": {"a": "b"}}), json!({"heartbeatPeriodSeconds": 5}), json!(null));
    check(
        &change(old.clone(), spec),
        &hub(),
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to UPDATE resource cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/: /m1"
        ],
    );
    let status = member(json!({}), json!({"heartbeatPeriodSeconds": 60}), json!({"namespaces": {"a": ""}}));
    expect!["whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support"]
        .assert_eq(&who_passes(&change(old.clone(), status), &hub()));
    let annotated = change(old, member(platform(json!({})), json!({}), json!(null)));
    check(
        &by(&annotated, user("x", &["system:masters"])),
        &hub(),
        expect!["denied: no user is allowed to add a fleet pre-fixed annotation to an upstream member cluster"],
    );
}

#[test]
fn platform_members_keep_their_annotations() {
    let old = member(platform(json!({})), json!({}), json!(null));
    let stripped = change(old.clone(), member(json!({}), json!({}), json!(null)));
    check(
        &by(&stripped, user("x", &["system:masters"])),
        &hub(),
        expect!["denied: no user is allowed to remove all fleet pre-fixed annotations from a fleet member cluster"],
    );
    let mut two = old.clone();
    two["metadata"]["annotations"]["fleet.azure.com/other"] = json!("x");
    check(
        &change(two.clone(), old.clone()),
        &hub(),
        expect![
            "denied: user: 'ann' in 'groups: [system:authenticated]' is not allowed to UPDATE resource cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/: /m1"
        ],
    );
    check(
        &change(old, two),
        &hub(),
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to UPDATE resource cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/: /m1"
        ],
    );
}

#[test]
fn any_user_may_change_some_fields_of_a_platform_member() {
    let old = member(platform(json!({})), json!({"heartbeatPeriodSeconds": 60}), json!(null));
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    new["metadata"]["annotations"]["example.com/x"] = json!("y");
    new["spec"]["taints"] = json!([{"key": "a", "effect": "NoSchedule"}]);
    new["metadata"]["resourceVersion"] = json!("7");
    new["status"] = json!({"conditions": null});
    check(
        &change(old, new),
        &hub(),
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to UPDATE resource cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/: /m1"
        ],
    );
}

#[test]
fn only_privileged_users_may_change_other_fields_of_a_platform_member() {
    let old = member(platform(json!({})), json!({"heartbeatPeriodSeconds": 60}), json!(null));
    for (pointer, value) in [
        ("/spec", json!({"heartbeatPeriodSeconds": 5})),
        ("/status", json!({"namespaces": {"a": ""}})),
        ("/metadata/finalizers", json!(["x"])),
        ("/metadata/ownerReferences", json!([{"name": "x"}])),
        ("/metadata/annotations", json!({"fleet.azure.com/cluster-resource-id": "2"})),
    ] {
        let mut new = old.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        new.pointer_mut(parent).unwrap()[field] = value;
        expect!["whitelisted, masters, kubeadm, service account, node, scheduler, controller manager, support"]
            .assert_eq(&who_passes(&change(old.clone(), new), &hub()));
    }
}

#[test]
fn labels_of_platform_members_can_be_fixed() {
    let mut lookups = hub();
    lookups.settings.deny_modify_member_cluster_labels = true;
    let labelled = |labels: Value| member(platform(json!({"labels": labels})), json!({}), json!(null));
    let old = labelled(json!({"a": "1", "kubernetes-fleet.io/x": "1"}));
    for labels in [
        json!({"kubernetes-fleet.io/x": "1"}),
        json!({"a": "2", "kubernetes-fleet.io/x": "1"}),
        json!({"a": "1", "b": "1"}),
    ] {
        let request = change(old.clone(), labelled(labels));
        check(
            &request,
            &lookups,
            expect!["denied: users are not allowed to modify labels through hub cluster directly"],
        );
        expect!["masters"].assert_eq(&who_passes(&request, &lookups));
    }
    check(
        &change(old.clone(), labelled(json!({"a": "1", "kubernetes-fleet.io/y": "2"}))),
        &lookups,
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to UPDATE resource cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/: /m1"
        ],
    );
    check(
        &change(old, labelled(json!({}))),
        &hub(),
        expect![
            "allowed: user: 'ann' in 'groups: [system:authenticated]' is allowed to UPDATE resource cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/: /m1"
        ],
    );
}
