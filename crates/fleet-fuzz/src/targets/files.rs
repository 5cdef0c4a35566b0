//! Files and bodies that reach the programs: kubeconfigs, fleet files, AdmissionReviews, messages of assistants.

use std::collections::BTreeMap;

use apiserver::internals::json_patch;
use fleet_api::admission::{AdmissionLookups, KindLookup, Lookup, LookupError, ServiceExport, Settings};
use fleet_api::kinds::{
    ClusterResourceOverride, ClusterResourcePlacement, MemberCluster, PLACEMENT_GROUP, ResourceOverride,
};
use kube::core::GroupVersionKind;
use kubefleet::fuzzing;
use serde_json::Value;

use super::{field, parsed, text};

pub(super) const KUBECONFIG_WORDS: &[&str] = &[
    "clusters",
    "users",
    "contexts",
    "current-context",
    "name",
    "cluster",
    "user",
    "context",
    "extensions",
    "kubefleet-up",
    "extension",
    "writtenBy",
    "hub",
    "work",
];
pub(super) const FLEET_WORDS: &[&str] = &[
    "members:\n",
    "- name: ",
    "labels: {",
    "taints:\n",
    "key: ",
    "effect: NoSchedule",
    "nodes: ",
    "properties: {",
    "behaviour:\n",
    "readyAfter: ",
    "outcome: crash",
    "image: ",
    "90s",
    "&a ",
    "*a",
    "<<: *a",
];
pub(super) const ASSISTANT_WORDS: &[&str] = &[
    "jsonrpc",
    "2.0",
    "id",
    "method",
    "params",
    "initialize",
    "protocolVersion",
    "ping",
    "tools/list",
    "tools/call",
    "notifications/cancelled",
    "requestId",
    "name",
    "arguments",
    "status",
    "approve",
    "resume",
    "run",
    "subject",
    "cluster/east",
    "--kubeconfig=x",
];
pub(super) const REVIEW_WORDS: &[&str] = &[
    "admission.k8s.io/v1",
    "AdmissionReview",
    "CREATE",
    "UPDATE",
    "DELETE",
    "object",
    "oldObject",
    "userInfo",
    "groups",
    "namespace",
    PLACEMENT_GROUP,
    "v1beta1",
    "ClusterResourcePlacement",
    "ResourcePlacement",
    "MemberCluster",
    "clusterresourceplacements",
    "resourceSelectors",
    "policy",
    "PickN",
    "PickFixed",
    "clusterNames",
    "tolerations",
    "strategy",
    "rollingUpdate",
    "maxUnavailable",
    "100%",
    "topologySpreadConstraints",
    "affinity",
    "system:masters",
    "fleet-member-a",
    "kube-system",
    "overrideRules",
    "jsonPatchOverrides",
];

/// What `kubefleet up` adds to a kubeconfig.
const OURS: &str = "{clusters: [{name: hub, cluster: {server: a}}], users: [{name: hub, user: {}}], contexts: [{name: hub, context: {}}], current-context: hub}";

/// The user's kubeconfig with ours in it, and without it again. `users` is a YAML text, or a document.
pub(super) fn kubeconfig(input: &[u8]) {
    let Some(input) = parsed(input) else { return };
    let written = |name: &str| match input.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    let Ok(merged) = fuzzing::merged_kubeconfig(&written("users"), OURS) else { return };
    for section in ["clusters", "users", "contexts"] {
        let entries = |file: &Value| file[section].as_array().cloned().unwrap_or_default();
        assert_eq!(entries(&merged.restored), entries(&merged.before), "{section} of others changed");
    }
}

/// A fleet file: errors are one line long.
pub(super) fn fleet_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Some(complaint) = fuzzing::fleet_file_complaint(text) {
        assert!(!complaint.trim().is_empty());
        assert_eq!(complaint.lines().count(), 1, "{complaint:?}");
    }
}

/// A message of an assistant: an answer has its id and is one line of JSON; nothing is written unless that is allowed.
pub(super) fn assistant(input: &[u8]) {
    let allowed = fuzzing::assistant_message(input, true);
    let refused = fuzzing::assistant_message(input, false);
    assert!(!refused.writes, "a tool that writes is called without permission");
    for line in [allowed.answer, refused.answer].into_iter().flatten() {
        assert!(line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
        assert!(!line.trim_end().chars().any(fleet_api::safe_text::is_hidden), "{line:?}");
        let answer = parsed(line.as_bytes()).unwrap_or_default();
        assert_eq!(answer["jsonrpc"], "2.0");
        assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{line}");
        let asked = parsed(input).map(|message| field(&message, "id")).unwrap_or_default();
        assert!(answer["id"] == asked || answer["id"].is_null(), "{line}");
    }
}

/// An AdmissionReview at every path that is served: the answer is about the question, and its patch can be applied.
pub(super) fn admission_review(input: &[u8]) {
    let Some(asked) = parsed(input) else { return };
    for answer in fuzzing::admission_answers(input, &Hub::default()) {
        let response = field(&answer, "response");
        assert_eq!(response["uid"], asked["request"]["uid"]);
        assert_eq!(answer["apiVersion"], asked["apiVersion"]);
        assert!(response["allowed"].is_boolean());
        if let Some(operations) = fuzzing::patch_of(&response) {
            let patched = json_patch(&asked["request"]["object"], &operations);
            assert!(patched.is_ok(), "the patch {operations} does not apply: {patched:?}");
            assert_eq!(text(&response, "patchType"), "JSONPatch");
        }
    }
}

/// A hub without objects, with every check switched on.
#[derive(Debug)]
struct Hub(Settings);

impl Default for Hub {
    fn default() -> Self {
        Self(Settings { enable_guard_rail: true, enable_pdbs: false, ..Settings::default() })
    }
}

impl KindLookup for Hub {
    fn scope(&self, kind: &GroupVersionKind) -> Lookup {
        match kind.kind.as_str() {
            "Namespace" | "ClusterRole" => Lookup::Cluster,
            "ConfigMap" | "Deployment" => Lookup::Namespaced,
            _ => Lookup::Unknown,
        }
    }
}

impl AdmissionLookups for Hub {
    fn settings(&self) -> &Settings {
        &self.0
    }

    fn cluster_resource_placement(&self, _: &str) -> Result<Option<ClusterResourcePlacement>, LookupError> {
        Ok(None)
    }

    fn member_cluster(&self, _: &str) -> Result<Option<MemberCluster>, LookupError> {
        Ok(None)
    }

    fn cluster_resource_overrides(&self) -> Result<Vec<ClusterResourceOverride>, LookupError> {
        Ok(Vec::new())
    }

    fn resource_overrides(&self, _: &str) -> Result<Vec<ResourceOverride>, LookupError> {
        Ok(Vec::new())
    }

    fn service_exports(&self, _: &str) -> Result<Vec<ServiceExport>, LookupError> {
        Ok(Vec::new())
    }

    fn namespace_labels(&self, _: &str) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
