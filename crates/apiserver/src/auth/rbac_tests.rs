//! The indexed authorizer answers as a plain walk over all objects does, and words refusals as Kubernetes does.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::auth::rule::Target;

fn pods<'a>(namespace: &'a str, name: &'a str) -> Target<'a> {
    Target::Resource { group: "", resource: "pods", subresource: "", namespace, name }
}

fn role(namespace: &str, name: &str, verbs: &[&str]) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name},
        "rules": [{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]})
}

fn binding(namespace: &str, name: &str, role_kind: &str, role: &str, subjects: &Value) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": role}})
}

fn ask(rbac: &Rbac, user: &User, verb: &str, namespace: &str) -> bool {
    rbac.authorize(&Attributes { user, verb, target: pods(namespace, "") }).is_allowed()
}

#[test]
fn a_role_binding_counts_only_in_its_namespace() {
    let rbac = Rbac::default();
    rbac.set(RbacKind::ClusterRole, &role("", "reader", &["list"]));
    rbac.set(
        RbacKind::RoleBinding,
        &binding("a", "b", "ClusterRole", "reader", &json!([{"kind": "ServiceAccount", "name": "sa"}])),
    );
    let user = User::service_account("a", "sa", "");
    assert!(ask(&rbac, &user, "list", "a"));
    assert!(!ask(&rbac, &user, "list", "b"));
    assert!(!ask(&rbac, &user, "list", ""));
    assert!(!ask(&rbac, &User::service_account("b", "sa", ""), "list", "a"));
    rbac.observe("", "rolebindings", "a", "b", None);
    assert!(ask(&rbac, &user, "list", "a"));
    rbac.observe(RBAC_GROUP, "rolebindings", "a", "b", None);
    assert!(!ask(&rbac, &user, "list", "a"));
}

#[test]
fn a_changed_binding_grants_nothing_to_its_old_subjects() {
    let rbac = Rbac::default();
    rbac.set(RbacKind::ClusterRole, &role("", "reader", &["list"]));
    let of = |name: &str| binding("", "b", "ClusterRole", "reader", &json!([{"kind": "User", "name": name}]));
    rbac.set(RbacKind::ClusterRoleBinding, &of("jane"));
    rbac.set(RbacKind::ClusterRoleBinding, &of("joe"));
    assert!(!ask(&rbac, &User::authenticated("jane", []), "list", "x"));
    assert!(ask(&rbac, &User::authenticated("joe", []), "list", "x"));
}

#[test]
fn reasons_name_the_binding_or_the_missing_object() {
    let rbac = Rbac::default();
    rbac.set(RbacKind::Role, &role("ns", "reader", &["get"]));
    rbac.set(RbacKind::RoleBinding, &binding("ns", "b", "Role", "reader", &json!([{"kind": "Group", "name": "dev"}])));
    let user = User::authenticated("jane", ["dev".to_owned()]);
    let allowed = rbac.authorize(&Attributes { user: &user, verb: "get", target: pods("ns", "p") });
    expect![[r#"
        Allowed(
            "RBAC: allowed by RoleBinding \"b/ns\" of Role \"reader\" to Group \"dev\"",
        )
    "#]]
    .assert_debug_eq(&allowed);
    rbac.remove(RbacKind::Role, "ns", "reader");
    let refused = rbac.require(&Attributes { user: &user, verb: "get", target: pods("ns", "p") }).unwrap_err();
    expect![[r#"{"apiVersion":"v1","code":403,"details":{"kind":"pods","name":"p"},"kind":"Status","message":"pods \"p\" is forbidden: User \"jane\" cannot get resource \"pods\" in API group \"\" in the namespace \"ns\": RBAC: role.rbac.authorization.k8s.io \"reader\" not found","metadata":{},"reason":"Forbidden","status":"Failure"}"#]]
        .assert_eq(&refused.to_status().to_string());
    let path = rbac.require(&Attributes { user: &user, verb: "get", target: Target::Path("/metrics") }).unwrap_err();
    expect![[r#"{"apiVersion":"v1","code":403,"details":{},"kind":"Status","message":"forbidden: User \"jane\" cannot get path \"/metrics\"","metadata":{},"reason":"Forbidden","status":"Failure"}"#]]
        .assert_eq(&path.to_status().to_string());
}

#[test]
fn masters_need_no_rule() {
    let rbac = Rbac::default();
    let master = User::authenticated("root", ["system:masters".to_owned()]);
    assert_eq!(
        rbac.authorize(&Attributes { user: &master, verb: "x", target: Target::Path("/") }),
        Decision::Allowed(String::new())
    );
}

#[test]
fn aggregation_follows_labels_through_several_roles_and_cycles() {
    let rbac = Rbac::default();
    let aggregating = |name: &str, own: &str, wanted: &str| {
        json!({"metadata": {"name": name, "labels": {own: "true"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {wanted: "true"}}]}})
    };
    rbac.set(RbacKind::ClusterRole, &aggregating("admin", "a", "to-admin"));
    rbac.set(RbacKind::ClusterRole, &aggregating("edit", "to-admin", "to-edit"));
    rbac.set(RbacKind::ClusterRole, &aggregating("loop", "to-edit", "to-admin"));
    let subjects = json!([{"kind": "User", "name": "jane"}]);
    rbac.set(RbacKind::ClusterRoleBinding, &binding("", "b", "ClusterRole", "admin", &subjects));
    let jane = User::authenticated("jane", []);
    assert!(!ask(&rbac, &jane, "get", ""));
    let mut leaf = role("", "leaf", &["get"]);
    leaf["metadata"]["labels"] = json!({"to-edit": "true"});
    rbac.set(RbacKind::ClusterRole, &leaf);
    assert!(ask(&rbac, &jane, "get", ""));
    rbac.remove(RbacKind::ClusterRole, "", "leaf");
    assert!(!ask(&rbac, &jane, "get", ""));
}

#[test]
fn a_controller_gathers_each_rule_once_and_never_its_own() {
    let role_value = json!({"metadata": {"name": "sum", "labels": {"x": "1"}}, "rules": [{"verbs": ["old"]}],
        "aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "x", "operator": "In", "values": ["1"]}]}]}});
    let part = |name: &str| json!({"metadata": {"name": name, "labels": {"x": "1"}}, "rules": [{"verbs": ["get"], "resources": ["a"]}]});
    let all = [
        role_value.clone(),
        part("a"),
        part("b"),
        json!({"metadata": {"name": "other"}, "rules": [{"verbs": ["no"]}]}),
    ];
    assert_eq!(aggregated_rules(&role_value, &all).len(), 1);
}

/// The algorithm of kube-apiserver: every binding, every subject, every rule.
fn naive(objects: &[(RbacKind, Value)], user: &User, verb: &str, namespace: &str) -> bool {
    let applies = |binding: &Value, default_namespace: &str| {
        binding["subjects"].as_array().into_iter().flatten().any(|subject| {
            let name = subject["name"].as_str().unwrap();
            match subject["kind"].as_str().unwrap() {
                "User" => user.name == name,
                "Group" => user.groups.iter().any(|group| group == name),
                _ => {
                    let namespace = subject["namespace"].as_str().unwrap_or(default_namespace);
                    !namespace.is_empty() && user.name == service_account_name(namespace, name)
                }
            }
        })
    };
    objects.iter().any(|(kind, object)| {
        let own = match kind {
            RbacKind::ClusterRoleBinding => "",
            RbacKind::RoleBinding => object["metadata"]["namespace"].as_str().unwrap(),
            _ => return false,
        };
        if (*kind == RbacKind::RoleBinding && (own != namespace || namespace.is_empty())) || !applies(object, own) {
            return false;
        }
        let wanted_kind = if object["roleRef"]["kind"] == "Role" { RbacKind::Role } else { RbacKind::ClusterRole };
        objects.iter().any(|(role_kind, role)| {
            *role_kind == wanted_kind
                && role["metadata"]["name"] == object["roleRef"]["name"]
                && (wanted_kind == RbacKind::ClusterRole || role["metadata"]["namespace"] == own)
                && rules_of(role)
                    .iter()
                    .any(|rule| rule.allows(&Attributes { user, verb, target: pods(namespace, "") }))
        })
    })
}

fn object() -> impl Strategy<Value = (RbacKind, Value)> {
    let namespace = prop::sample::select(vec!["a", "b"]);
    let name = prop::sample::select(vec!["r1", "r2", "r3"]);
    let verbs = prop::sample::subsequence(vec!["get", "list", "*"], 0..=2);
    let subject = prop_oneof![
        Just(json!({"kind": "User", "name": "jane"})),
        Just(json!({"kind": "Group", "name": "dev"})),
        Just(json!({"kind": "ServiceAccount", "name": "sa"})),
        Just(json!({"kind": "ServiceAccount", "name": "sa", "namespace": "b"})),
    ];
    let subjects = prop::collection::vec(subject, 0..3);
    (0..4_u8, namespace, name, verbs, subjects, prop::sample::select(vec!["Role", "ClusterRole"]), 0..3_usize).prop_map(
        |(kind, namespace, name, verbs, subjects, role_kind, role_index)| {
            let target = ["r1", "r2", "r3"][role_index];
            match kind {
                0 => (RbacKind::Role, role(namespace, name, &verbs)),
                1 => (RbacKind::ClusterRole, role("", name, &verbs)),
                2 => (RbacKind::RoleBinding, binding(namespace, name, role_kind, target, &json!(subjects))),
                _ => (RbacKind::ClusterRoleBinding, binding("", name, "ClusterRole", target, &json!(subjects))),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_index_answers_as_a_plain_walk_does(steps in prop::collection::vec((object(), any::<bool>()), 0..25)) {
        let rbac = Rbac::default();
        let mut live: Vec<(RbacKind, Value)> = Vec::new();
        for ((kind, object), removed) in steps {
            let same = |other: &(RbacKind, Value)| {
                other.0 == kind && other.1["metadata"]["name"] == object["metadata"]["name"]
                    && other.1["metadata"]["namespace"] == object["metadata"]["namespace"]
            };
            live.retain(|other| !same(other));
            if removed {
                rbac.remove(kind, text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
            } else {
                rbac.set(kind, &object);
                live.push((kind, object));
            }
        }
        let users = [User::authenticated("jane", []), User::authenticated("joe", ["dev".to_owned()]),
            User::service_account("a", "sa", ""), User::service_account("b", "sa", "")];
        for user in &users {
            for namespace in ["", "a", "b"] {
                for verb in ["get", "list", "delete"] {
                    prop_assert_eq!(ask(&rbac, user, verb, namespace), naive(&live, user, verb, namespace), "{} {} {}", user.name, verb, namespace);
                }
            }
        }
    }
}
