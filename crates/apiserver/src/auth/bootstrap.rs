//! The ClusterRoles and bindings that every cluster starts with.

use serde_json::{Map, Value, json};

use super::rbac::RBAC_GROUP;

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const READ_WRITE: &str = "create delete deletecollection get list patch update watch";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// Verbs, group (`-` for URLs), resources or URLs; all separated by spaces.
type Row = (&'static str, &'static str, &'static str);

const ADMIN: &[Row] =
    &[("create", AUTHORIZATION, "localsubjectaccessreviews"), (READ_WRITE, RBAC_GROUP, "rolebindings roles")];

const EDIT: &[Row] = &[
    (READ, "", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    ("impersonate", "", "serviceaccounts"),
    (WRITE, "", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    ("create", "", "pods/eviction"),
    (
        WRITE,
        "",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
         serviceaccounts services services/proxy",
    ),
    ("create", "", "serviceaccounts/token"),
    (
        WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
         statefulsets/scale",
    ),
    (WRITE, "autoscaling", "horizontalpodautoscalers"),
    (WRITE, "batch", "cronjobs jobs"),
    (
        WRITE,
        "extensions",
        "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets \
         replicasets/scale replicationcontrollers/scale",
    ),
    (WRITE, "policy", "poddisruptionbudgets"),
    (WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    (READ_WRITE, "coordination.k8s.io", "leases"),
    (WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
];

const VIEW: &[Row] = &[
    (
        READ,
        "",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
         replicationcontrollers/scale serviceaccounts services services/status",
    ),
    (
        READ,
        "",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
         resourcequotas resourcequotas/status",
    ),
    (READ, "", "namespaces"),
    (READ, "discovery.k8s.io", "endpointslices"),
    (
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets \
         replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    (READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    (READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    (
        READ,
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status \
         networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
    ),
    (READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    (READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    (READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
];

/// Roles with rules of their own, and the aggregate that each feeds.
const ROLES: &[(&str, &str, &[Row])] = &[
    ("cluster-admin", "", &[("*", "*", "*"), ("*", "-", "*")]),
    ("system:aggregate-to-admin", "admin", ADMIN),
    ("system:aggregate-to-edit", "edit", EDIT),
    ("system:aggregate-to-view", "view", VIEW),
    (
        "system:auth-delegator",
        "",
        &[("create", AUTHENTICATION, "tokenreviews"), ("create", AUTHORIZATION, "subjectaccessreviews")],
    ),
    (
        "system:basic-user",
        "",
        &[
            ("create", AUTHORIZATION, "selfsubjectaccessreviews selfsubjectrulesreviews"),
            ("create", AUTHENTICATION, "selfsubjectreviews"),
        ],
    ),
    (
        "system:discovery",
        "",
        &[("get", "-", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/")],
    ),
    (
        "system:monitoring",
        "",
        &[
            ("get", "-", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"),
            ("get", "", "nodes/metrics"),
        ],
    ),
    ("system:public-info-viewer", "", &[("get", "-", "/healthz /livez /readyz /version /version/")]),
    (
        "system:service-account-issuer-discovery",
        "",
        &[(
            "get",
            "-",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
];

/// Roles that only gather, and the aggregate that each feeds in turn.
const AGGREGATES: &[(&str, &str)] = &[("admin", ""), ("edit", "admin"), ("view", "edit")];

/// Role and the groups that hold it.
const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["system:masters"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:monitoring", &["system:monitoring"]),
    ("system:public-info-viewer", &["system:authenticated", "system:unauthenticated"]),
    ("system:service-account-issuer-discovery", &["system:serviceaccounts"]),
];

/// The ClusterRole objects, without server-set metadata. Aggregating ones come without rules.
pub(crate) fn cluster_roles() -> Vec<Value> {
    let own = ROLES.iter().map(|(name, feeds, rows)| {
        let rules: Vec<Value> = rows.iter().map(rule).collect();
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata(name, feeds),
            "rules": rules})
    });
    let gathering = AGGREGATES.iter().map(|(name, feeds)| {
        let mut labels = Map::new();
        labels.insert(aggregation_label(name), json!("true"));
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata(name, feeds),
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": labels}]}, "rules": []})
    });
    own.chain(gathering).collect()
}

/// The ClusterRoleBinding objects, without server-set metadata.
pub(crate) fn cluster_role_bindings() -> Vec<Value> {
    let binding = |(role, groups): &(&str, &[&str])| {
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"apiGroup": RBAC_GROUP, "kind": "Group", "name": group})).collect();
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata(role, ""),
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}, "subjects": subjects})
    };
    BINDINGS.iter().map(binding).collect()
}

fn metadata(name: &str, feeds: &str) -> Value {
    let mut labels = Map::new();
    labels.insert("kubernetes.io/bootstrapping".to_owned(), json!("rbac-defaults"));
    if !feeds.is_empty() {
        labels.insert(aggregation_label(feeds), json!("true"));
    }
    json!({"name": name, "labels": labels, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}})
}

fn aggregation_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

fn rule((verbs, group, what): &Row) -> Value {
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    if *group == "-" {
        json!({"verbs": words(verbs), "nonResourceURLs": words(what)})
    } else {
        json!({"verbs": words(verbs), "apiGroups": [group], "resources": words(what)})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::rbac::{Rbac, RbacKind};
    use crate::auth::rule::{Attributes, Target};
    use crate::auth::user::User;

    fn world() -> Rbac {
        let rbac = Rbac::default();
        for role in cluster_roles() {
            rbac.set(RbacKind::ClusterRole, &role);
        }
        for binding in cluster_role_bindings() {
            rbac.set(RbacKind::ClusterRoleBinding, &binding);
        }
        rbac
    }

    #[test]
    fn authenticated_users_read_discovery_and_nothing_else() {
        let rbac = world();
        let jane = User::authenticated("jane", []);
        let path = |user: &User, path| {
            rbac.authorize(&Attributes { user, verb: "get", target: Target::Path(path) }).is_allowed()
        };
        for allowed in ["/api", "/apis/apps/v1", "/openapi/v3", "/version", "/readyz"] {
            assert!(path(&jane, allowed), "{allowed}");
        }
        assert!(!path(&jane, "/metrics"));
        assert!(path(&User::anonymous(), "/version"));
        assert!(!path(&User::anonymous(), "/api"));
    }

    #[test]
    fn view_is_part_of_edit_is_part_of_admin() {
        let rbac = world();
        for (role, verb, resource, expected) in [
            ("view", "get", "configmaps", true),
            ("view", "get", "secrets", false),
            ("view", "update", "configmaps", false),
            ("edit", "get", "configmaps", true),
            ("edit", "update", "secrets", true),
            ("admin", "update", "secrets", true),
            ("admin", "get", "pods", true),
            ("admin", "update", "nodes", false),
        ] {
            rbac.set(
                RbacKind::RoleBinding,
                &json!({"metadata": {"name": "b", "namespace": "ns"},
                "subjects": [{"kind": "User", "name": "jane"}], "roleRef": {"kind": "ClusterRole", "name": role}}),
            );
            let target = Target::Resource { group: "", resource, subresource: "", namespace: "ns", name: "" };
            let user = User::authenticated("jane", []);
            assert_eq!(
                rbac.authorize(&Attributes { user: &user, verb, target }).is_allowed(),
                expected,
                "{role} {verb} {resource}"
            );
        }
    }

    #[test]
    fn every_binding_names_a_role_that_exists() {
        let roles = cluster_roles();
        for binding in cluster_role_bindings() {
            assert!(roles.iter().any(|role| role["metadata"]["name"] == binding["roleRef"]["name"]));
        }
    }
}
