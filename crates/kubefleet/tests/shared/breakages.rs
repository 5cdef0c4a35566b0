//! What can be broken in an installation, and which check of `kubefleet doctor` must notice it. Members are named `east`.

use serde_json::{Value, json};

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// A change that breaks something.
pub(crate) struct Breakage {
    /// `hub` or `east`.
    pub(crate) cluster: &'static str,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) format: &'static str,
    pub(crate) body: Value,
    /// The check and the subject of the finding.
    pub(crate) noticed: (&'static str, &'static str),
    /// The start of the command that repairs it.
    pub(crate) repaired_by: &'static str,
}

/// A token that has expired long ago: the claims are `{"exp":1}`.
const EXPIRED: &str = "ZTMwLmV5SmxlSEFpT2pGOS54";

fn delete(
    cluster: &'static str,
    path: &'static str,
    noticed: (&'static str, &'static str),
    repaired_by: &'static str,
) -> Breakage {
    Breakage { cluster, method: "DELETE", path, format: "application/json", body: json!({}), noticed, repaired_by }
}

/// Every breakage that a running agent does not repair by itself.
pub(crate) fn breakages() -> Vec<Breakage> {
    let (hub, east) = ("kubefleet install hub --context hub", "kubefleet join east --context east");
    vec![
        delete(
            "hub",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterapprovalrequests.placement.kubernetes-fleet.io",
            ("definitions", "hub"),
            hub,
        ),
        Breakage {
            cluster: "east",
            method: "PATCH",
            path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/appliedworks.placement.kubernetes-fleet.io",
            format: JSON_PATCH,
            body: json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "older"}]),
            noticed: ("definitions", "member east"),
            repaired_by: east,
        },
        delete(
            "hub",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/hub-agent-role-binding",
            ("permissions", "hub"),
            hub,
        ),
        delete(
            "east",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/member-agent-cluster-admin-binding",
            ("permissions", "member east"),
            east,
        ),
        delete(
            "east",
            "/apis/apps/v1/namespaces/fleet-system/deployments/member-agent",
            ("agent", "member east"),
            east,
        ),
        Breakage {
            cluster: "east",
            method: "PATCH",
            path: "/api/v1/namespaces/fleet-system/secrets/hub-kubeconfig-secret",
            format: MERGE_PATCH,
            body: json!({"data": {"token": EXPIRED}}),
            noticed: ("token", "member east"),
            repaired_by: east,
        },
    ]
}

/// The findings of `kubefleet doctor -o json`: check and subject, and the commands of the fix.
pub(crate) fn findings(printed: &str) -> Vec<((String, String), Vec<String>)> {
    let report: Value = serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}:\n{printed}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let finding = |one: &Value| {
        let steps = one["fix"]["steps"].as_array().unwrap();
        let commands = steps.iter().map(|step| text(&step["command"])).filter(|command| !command.is_empty()).collect();
        ((text(&one["check"]), text(&one["subject"])), commands)
    };
    report["findings"].as_array().unwrap().iter().map(finding).collect()
}

/// The first command of the fix of a breakage; fails if it was not noticed.
pub(crate) fn repair(breakage: &Breakage, printed: &str) -> String {
    let found = findings(printed);
    let (check, subject) = breakage.noticed;
    let noticed = found.iter().find(|((one, other), _)| one == check && other == subject);
    let (_, commands) = noticed.unwrap_or_else(|| panic!("{} is not noticed: {found:#?}", breakage.path));
    assert!(commands[0].starts_with(breakage.repaired_by), "{commands:?}");
    commands[0].clone()
}
