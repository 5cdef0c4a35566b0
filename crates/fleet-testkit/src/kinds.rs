//! The kinds around a staged update run in both scopes, where their objects are, and objects that many tests make.

use fleet_runtime::Clock;
use serde_json::{Value, json};

pub const PLACEMENT_API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
pub const CLUSTER_API: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1";
pub const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
pub const NAMESPACES: &str = "/api/v1/namespaces";
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Whether a test uses cluster-scoped or namespaced kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Placement,
    Run,
    Strategy,
    Approval,
    Binding,
    ResourceSnapshot,
}

impl Kind {
    pub fn name(self, scope: Scope) -> &'static str {
        self.words(scope).0
    }

    pub fn plural(self, scope: Scope) -> &'static str {
        self.words(scope).1
    }

    fn words(self, scope: Scope) -> (&'static str, &'static str) {
        match (self, scope) {
            (Kind::Placement, Scope::Cluster) => ("ClusterResourcePlacement", "clusterresourceplacements"),
            (Kind::Placement, Scope::Namespaced) => ("ResourcePlacement", "resourceplacements"),
            (Kind::Run, Scope::Cluster) => ("ClusterStagedUpdateRun", "clusterstagedupdateruns"),
            (Kind::Run, Scope::Namespaced) => ("StagedUpdateRun", "stagedupdateruns"),
            (Kind::Strategy, Scope::Cluster) => ("ClusterStagedUpdateStrategy", "clusterstagedupdatestrategies"),
            (Kind::Strategy, Scope::Namespaced) => ("StagedUpdateStrategy", "stagedupdatestrategies"),
            (Kind::Approval, Scope::Cluster) => ("ClusterApprovalRequest", "clusterapprovalrequests"),
            (Kind::Approval, Scope::Namespaced) => ("ApprovalRequest", "approvalrequests"),
            (Kind::Binding, Scope::Cluster) => ("ClusterResourceBinding", "clusterresourcebindings"),
            (Kind::Binding, Scope::Namespaced) => ("ResourceBinding", "resourcebindings"),
            (Kind::ResourceSnapshot, Scope::Cluster) => ("ClusterResourceSnapshot", "clusterresourcesnapshots"),
            (Kind::ResourceSnapshot, Scope::Namespaced) => ("ResourceSnapshot", "resourcesnapshots"),
        }
    }

    /// The path of the collection; `namespace` counts only for namespaced kinds.
    pub fn collection(self, scope: Scope, namespace: &str) -> String {
        match scope {
            Scope::Cluster => format!("{PLACEMENT_API}/{}", self.plural(scope)),
            Scope::Namespaced => format!("{PLACEMENT_API}/namespaces/{namespace}/{}", self.plural(scope)),
        }
    }
}

/// An object of the placement API.
pub fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A MemberCluster without an agent, with these labels.
pub fn member_cluster(name: &str, labels: Value) -> Value {
    let identity = json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels}, "spec": {"identity": identity}})
}

/// The status of a member that has joined, is healthy, and has just sent a heartbeat.
pub fn member_status(clock: &Clock) -> Value {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "Fine", "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let agent = json!({"type": "MemberAgent", "conditions": [condition("Joined"), condition("Healthy")],
        "lastReceivedHeartbeat": clock.now().to_string()});
    json!({"status": {"agentStatus": [agent], "conditions": [condition("Joined")]}})
}

/// A stage for the clusters of this environment.
pub fn stage(environment: &str) -> Value {
    json!({"name": environment, "labelSelector": {"matchLabels": {"environment": environment}}})
}
