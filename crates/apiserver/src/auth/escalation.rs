//! Prevents privilege escalation: a user may write a Role or binding only with permissions that the user already has.

use serde_json::{Value, json};

use super::coverage::{Coverage, coverage};
use super::rbac::{RBAC_GROUP, Rbac, RbacKind, RoleRef, rules_of};
use super::rule::{Attributes, PolicyRule, Target, quoted_list};
use super::user::User;
use crate::error::{ApiError, Reason};

/// Checks a create (`old` is `None`) or an update of one of the four RBAC kinds. `namespace` is the request's.
pub(crate) fn check_write(
    rbac: &Rbac,
    user: &User,
    kind: RbacKind,
    namespace: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    if user.is_master() || old.is_some_and(|old| only_collector_fields_differ(new, old)) {
        return Ok(());
    }
    match kind {
        RbacKind::Role | RbacKind::ClusterRole => check_role(rbac, user, kind, namespace, new, old),
        RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => check_binding(rbac, user, kind, namespace, new),
    }
}

fn check_role(
    rbac: &Rbac,
    user: &User,
    kind: RbacKind,
    namespace: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let name = name_of(new);
    // A create through the collection has no name in its path, so a rule with resourceNames cannot match it.
    let path_name = if old.is_some() { name } else { "" };
    if is_allowed(rbac, user, "escalate", kind.resource(), namespace, path_name) {
        return Ok(());
    }
    let refused = |why: &str| ApiError::forbidden(RBAC_GROUP, kind.resource(), name, why);
    confirm_held(rbac, user, namespace, &rules_of(new)).map_err(|why| refused(&why))?;
    let aggregates = |object: &Value| object.get("aggregationRule").is_some_and(|rule| !rule.is_null());
    if (aggregates(new) || old.is_some_and(aggregates)) && confirm_held(rbac, user, "", &full_authority()).is_err() {
        return Err(refused("must have cluster-admin privileges to use the aggregationRule"));
    }
    Ok(())
}

fn check_binding(rbac: &Rbac, user: &User, kind: RbacKind, namespace: &str, new: &Value) -> Result<(), ApiError> {
    let role = RoleRef::from_binding(new);
    let resource = match role.kind.as_str() {
        "ClusterRole" => Some("clusterroles"),
        "Role" => Some("roles"),
        _ => None,
    };
    if resource.is_some_and(|resource| is_allowed(rbac, user, "bind", resource, namespace, &role.name)) {
        return Ok(());
    }
    let rules = rbac.role_rules(&role, namespace).map_err(|why| match resource {
        // The answer names the binding's resource and the role's name, odd as that is.
        Some(_) => ApiError::not_found(RBAC_GROUP, kind.resource(), &role.name),
        None => ApiError { reason: Reason::InternalError, message: why, details: None },
    })?;
    confirm_held(rbac, user, namespace, &rules)
        .map_err(|why| ApiError::forbidden(RBAC_GROUP, kind.resource(), name_of(new), &why))
}

fn is_allowed(rbac: &Rbac, user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
    let target = Target::Resource { group: RBAC_GROUP, resource, subresource: "", namespace, name };
    rbac.authorize(&Attributes { user, verb, target }).is_allowed()
}

fn confirm_held(rbac: &Rbac, user: &User, namespace: &str, wanted: &[PolicyRule]) -> Result<(), String> {
    let (held, failures) = rbac.rules_for(user, namespace);
    let attempt =
        format!("user {:?} (groups={}) is attempting to grant RBAC permissions", user.name, quoted_list(&user.groups));
    let mut why = match coverage(&held, wanted) {
        Coverage::Covered => return Ok(()),
        Coverage::Missing { lines, complete: true } => format!("{attempt} not currently held:\n{}", lines.join("\n")),
        Coverage::Missing { lines, complete: false } => {
            format!("{attempt} not currently held:\n{}\nand others, which are too many to list", lines.join("\n"))
        }
        Coverage::TooComplex => {
            format!(
                "{attempt} in rules that are too complex to compare with those currently held: use fewer or simpler rules"
            )
        }
    };
    if !failures.is_empty() {
        why.push_str("; resolution errors: [");
        why.push_str(&failures.join(" "));
        why.push(']');
    }
    Err(why)
}

fn full_authority() -> Vec<PolicyRule> {
    let rules = [
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ];
    rules.iter().map(PolicyRule::from_value).collect()
}

/// The garbage collector edits owners and finalizers of roles that it could not have granted itself.
fn only_collector_fields_differ(new: &Value, old: &Value) -> bool {
    let stripped = |object: &Value| {
        let mut copy = object.clone();
        if let Some(metadata) = copy.get_mut("metadata").and_then(Value::as_object_mut) {
            for key in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(key);
            }
        }
        copy
    };
    stripped(new) == stripped(old)
}

fn name_of(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn world() -> (Rbac, User) {
        let rbac = Rbac::default();
        let role = json!({"metadata": {"name": "dev"}, "rules": [
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["bind"], "apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "resourceNames": ["view"]},
        ]});
        rbac.set(RbacKind::ClusterRole, &role);
        rbac.set(
            RbacKind::ClusterRole,
            &json!({"metadata": {"name": "view"}, "rules": [
            {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"]}]}),
        );
        rbac.set(
            RbacKind::ClusterRoleBinding,
            &json!({"metadata": {"name": "dev"},
            "subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"kind": "ClusterRole", "name": "dev"}}),
        );
        (rbac, User::authenticated("jane", []))
    }

    fn role(verbs: &[&str]) -> Value {
        json!({"metadata": {"name": "r", "namespace": "ns"}, "rules": [{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]})
    }

    fn binding(kind: &str, name: &str) -> Value {
        json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name}})
    }

    #[test]
    fn a_role_may_contain_only_permissions_of_its_writer() {
        let (rbac, jane) = world();
        assert_eq!(check_write(&rbac, &jane, RbacKind::Role, "ns", &role(&["get"]), None), Ok(()));
        let refused = check_write(&rbac, &jane, RbacKind::Role, "ns", &role(&["get", "delete"]), None).unwrap_err();
        expect![[r#"
            roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:
            {APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#]]
        .assert_eq(&refused.message);
        let master = User::authenticated("root", ["system:masters".to_owned()]);
        assert_eq!(check_write(&rbac, &master, RbacKind::Role, "ns", &role(&["delete"]), None), Ok(()));
    }

    #[test]
    fn the_verb_escalate_lifts_the_check() {
        let (rbac, jane) = world();
        rbac.set(
            RbacKind::ClusterRole,
            &json!({"metadata": {"name": "dev"}, "rules": [
            {"verbs": ["escalate"], "apiGroups": [RBAC_GROUP], "resources": ["roles"]}]}),
        );
        assert_eq!(check_write(&rbac, &jane, RbacKind::Role, "ns", &role(&["delete"]), None), Ok(()));
        assert!(check_write(&rbac, &jane, RbacKind::ClusterRole, "", &role(&["delete"]), None).is_err());
    }

    #[test]
    fn aggregation_needs_full_authority() {
        let (rbac, jane) = world();
        let aggregating = json!({"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [{}]}});
        let refused = check_write(&rbac, &jane, RbacKind::ClusterRole, "", &aggregating, None).unwrap_err();
        expect![[r#"clusterroles.rbac.authorization.k8s.io "sum" is forbidden: must have cluster-admin privileges to use the aggregationRule"#]]
            .assert_eq(&refused.message);
    }

    #[test]
    fn a_binding_may_grant_only_own_permissions_or_those_that_bind_allows() {
        let (rbac, jane) = world();
        let check = |value: &Value| check_write(&rbac, &jane, RbacKind::RoleBinding, "ns", value, None);
        assert_eq!(check(&binding("ClusterRole", "view")), Ok(()));
        let refused = check(&binding("ClusterRole", "missing")).unwrap_err();
        assert_eq!(
            (refused.code(), refused.message.as_str()),
            (404, r#"rolebindings.rbac.authorization.k8s.io "missing" not found"#)
        );
        rbac.set(RbacKind::Role, &role(&["delete"]));
        assert_eq!(check(&binding("Role", "r")).unwrap_err().code(), 403);
        rbac.set(RbacKind::Role, &role(&["get"]));
        assert_eq!(check(&binding("Role", "r")), Ok(()));
    }

    #[test]
    fn the_garbage_collector_may_edit_owners() {
        let (rbac, jane) = world();
        let old = role(&["delete"]);
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["x"]);
        assert_eq!(check_write(&rbac, &jane, RbacKind::Role, "ns", &new, Some(&old)), Ok(()));
        new["metadata"]["labels"] = json!({"a": "b"});
        assert!(check_write(&rbac, &jane, RbacKind::Role, "ns", &new, Some(&old)).is_err());
    }
}
