//! Names and objects of the two worked examples of the guides.

use serde_json::{Value, json};

const API: &str = "placement.kubernetes-fleet.io/v1beta1";
/// An invalid image name.
pub(crate) const BAD_IMAGE: &str = "nginx:::latest";
pub(crate) const GOOD_IMAGE: &str = "nginx:1.27";

/// What differs between the scopes.
pub(crate) struct Example {
    pub(crate) is_namespaced: bool,
    pub(crate) namespace: &'static str,
    pub(crate) placement_kind: &'static str,
    pub(crate) run_kind: &'static str,
    strategy_kind: &'static str,
    /// Names of the kinds on the command line.
    pub(crate) placements: &'static str,
    pub(crate) runs: &'static str,
    pub(crate) requests: &'static str,
    pub(crate) bindings: &'static str,
    pub(crate) placement: &'static str,
    pub(crate) run: &'static str,
    pub(crate) deployment: &'static str,
    /// The first stage has `member2`, the second the others; the value of the label is the name of the stage.
    pub(crate) stage_label: &'static str,
    pub(crate) first_stage: &'static str,
    pub(crate) second_stage: &'static str,
}

pub(crate) const CLUSTER_SCOPED: Example = Example {
    is_namespaced: false,
    namespace: "test-namespace",
    placement_kind: "ClusterResourcePlacement",
    run_kind: "ClusterStagedUpdateRun",
    strategy_kind: "ClusterStagedUpdateStrategy",
    placements: "crp",
    runs: "csur",
    requests: "clusterapprovalrequests",
    bindings: "clusterresourcebindings",
    placement: "example-placement",
    run: "example-run",
    deployment: "nginx-deployment",
    stage_label: "environment",
    first_stage: "staging",
    second_stage: "canary",
};

pub(crate) const NAMESPACED: Example = Example {
    is_namespaced: true,
    namespace: "my-app-namespace",
    placement_kind: "ResourcePlacement",
    run_kind: "StagedUpdateRun",
    strategy_kind: "StagedUpdateStrategy",
    placements: "rp",
    runs: "stagedupdaterun",
    requests: "approvalrequests",
    bindings: "resourcebindings",
    placement: "web-app-placement",
    run: "web-app-rollout",
    deployment: "web-app",
    stage_label: "tier",
    first_stage: "dev",
    second_stage: "prod",
};

impl Example {
    /// The `-n` flag for namespaced objects.
    pub(crate) fn at(&self) -> String {
        if self.is_namespaced { format!(" -n {}", self.namespace) } else { String::new() }
    }

    /// The placement in messages.
    pub(crate) fn placement_key(&self) -> String {
        let namespace = if self.is_namespaced { self.namespace } else { "" };
        format!("{namespace}/{}", self.placement)
    }

    /// An object of the placement's scope in messages, such as a binding.
    pub(crate) fn reference(&self, name: &str) -> String {
        if self.is_namespaced { format!("{}/{name}", self.namespace) } else { name.to_owned() }
    }

    pub(crate) fn work(&self) -> String {
        let prefix = if self.is_namespaced { format!("{}.", self.namespace) } else { String::new() };
        format!("{prefix}{}-work", self.placement)
    }

    fn object(&self, kind: &str, name: &str, spec: Value) -> Value {
        let mut object = json!({"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec});
        if self.is_namespaced {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        object
    }

    pub(crate) fn namespace_object(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
    }

    pub(crate) fn deployment_object(&self) -> Value {
        let labels = json!({"app": self.deployment});
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.deployment, "namespace": self.namespace},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": BAD_IMAGE}]}}}})
    }

    pub(crate) fn placement_object(&self) -> Value {
        let selected = if self.is_namespaced {
            json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": self.deployment})
        } else {
            json!({"group": "", "version": "v1", "kind": "Namespace", "name": self.namespace})
        };
        let spec = json!({"resourceSelectors": [selected], "policy": {"placementType": "PickAll"},
            "strategy": {"type": "External"}});
        self.object(self.placement_kind, self.placement, spec)
    }

    /// Places the namespace without its content: namespaced resources need an existing namespace.
    pub(crate) fn namespace_placement_object(&self) -> Value {
        let selected = json!({"group": "", "version": "v1", "kind": "Namespace", "name": self.namespace,
            "selectionScope": "NamespaceOnly"});
        json!({"apiVersion": API, "kind": "ClusterResourcePlacement", "metadata": {"name": self.namespace},
            "spec": {"resourceSelectors": [selected], "policy": {"placementType": "PickAll"}}})
    }

    pub(crate) fn strategy_object(&self) -> Value {
        let selector = |stage: &str| json!({"matchLabels": {self.stage_label: stage}});
        let approval = json!([{"type": "Approval"}]);
        let stages = json!([
            {"name": self.first_stage, "labelSelector": selector(self.first_stage), "maxConcurrency": 1,
                "beforeStageTasks": approval, "afterStageTasks": approval},
            {"name": self.second_stage, "labelSelector": selector(self.second_stage), "maxConcurrency": 1},
        ]);
        self.object(self.strategy_kind, "example-strategy", json!({"stages": stages}))
    }

    /// `rest` is the run's index and state, if it names any.
    pub(crate) fn run_object(&self, name: &str, rest: Value) -> Value {
        let mut spec = rest;
        spec["placementName"] = json!(self.placement);
        spec["stagedRolloutStrategyName"] = json!("example-strategy");
        self.object(self.run_kind, name, spec)
    }
}
