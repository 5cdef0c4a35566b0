//! What a user of the guides makes: the placement and what it places, strategies, runs, approvals, overrides.

use fleet_testkit::{Arrangement, PLACEMENT_API, object};
use serde_json::{Value, json};

use super::{Fleet, Kind, NAMESPACE, Scope};

impl Fleet {
    /// The objects of a scenario in this fleet.
    pub(crate) fn arrangement(&self) -> Arrangement<'_> {
        let selector = match self.scope {
            Scope::Cluster => json!({"group": "", "version": "v1", "kind": "Namespace", "name": "test-namespace"}),
            Scope::Namespaced => json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}),
        };
        Arrangement {
            hub: &self.server,
            scope: self.scope,
            namespace: NAMESPACE,
            placement: self.placement_name(),
            strategy: self.strategy_name(),
            selectors: json!([selector]),
        }
    }

    /// The External placement of the example, with this policy.
    pub(crate) async fn place(&self, policy: Value) {
        let mut spec = json!({"resourceSelectors": self.arrangement().selectors, "strategy": {"type": "External"}});
        if !policy.is_null() {
            spec["policy"] = policy;
        }
        self.make(Kind::Placement, self.placement_name(), spec).await;
    }

    /// Where that is which is placed.
    fn maps(&self) -> String {
        let namespace = match self.scope {
            Scope::Cluster => "test-namespace",
            Scope::Namespaced => NAMESPACE,
        };
        format!("/api/v1/namespaces/{namespace}/configmaps")
    }

    pub(crate) async fn no_content(&self) {
        self.server.delete(&format!("{}/settings", self.maps())).await;
    }

    /// What is placed gets this value.
    pub(crate) async fn content(&self, value: &str) {
        let maps = self.maps();
        let body = json!({"metadata": {"name": "settings"}, "data": {"value": value}});
        if self.server.get(&format!("{maps}/settings")).await.is_some() {
            self.server.patch(&format!("{maps}/settings"), body).await;
        } else {
            self.server.create(&maps, body).await;
        }
    }

    fn overrides(&self) -> String {
        match self.scope {
            Scope::Cluster => format!("{PLACEMENT_API}/clusterresourceoverrides"),
            Scope::Namespaced => format!("{PLACEMENT_API}/namespaces/{NAMESPACE}/resourceoverrides"),
        }
    }

    pub(crate) async fn no_override_for(&self, environment: &str) {
        let path = format!("{}/of-{environment}", self.overrides());
        self.server.delete(&path).await;
    }

    /// Clusters of this environment get the map `settings` with this note; made, or edited if it is there.
    pub(crate) async fn override_for(&self, environment: &str, note: &str) {
        let clusters =
            json!({"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"environment": environment}}}]});
        let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"note": note}}]);
        let rule = json!({"clusterSelector": clusters, "jsonPatchOverrides": patch});
        let selector = |kind: &str, name: &str| json!([{"group": "", "version": "v1", "kind": kind, "name": name}]);
        let (collection, name) = (self.overrides(), format!("of-{environment}"));
        let (kind, mut spec) = match self.scope {
            Scope::Cluster => (
                "ClusterResourceOverride",
                json!({"clusterResourceSelectors": selector("Namespace", "test-namespace")}),
            ),
            Scope::Namespaced => ("ResourceOverride", json!({"resourceSelectors": selector("ConfigMap", "settings")})),
        };
        spec["policy"] = json!({"overrideRules": [rule]});
        if self.server.get(&format!("{collection}/{name}")).await.is_some() {
            self.server.patch(&format!("{collection}/{name}"), json!({"spec": spec})).await;
        } else {
            self.server.create(&collection, object(kind, &name, spec)).await;
        }
    }

    /// The strategy `example-strategy` with these stages.
    pub(crate) async fn strategy(&self, stages: Value) {
        self.make(Kind::Strategy, &self.strategy, json!({"stages": stages})).await;
    }

    /// A run of the example's placement and strategy; `spec` adds to it.
    pub(crate) async fn run(&self, name: &str, spec: Value) {
        self.try_run(name, spec).await.unwrap();
    }

    pub(crate) async fn try_run(&self, name: &str, spec: Value) -> Result<Value, String> {
        let mut whole = json!({"placementName": self.placement_name(), "stagedRolloutStrategyName": self.strategy});
        for (field, value) in spec.as_object().unwrap() {
            whole[field] = value.clone();
        }
        self.try_make(Kind::Run, name, whole).await
    }

    pub(crate) async fn set_state(&self, run: &str, state: &str) {
        self.patch(Kind::Run, run, json!({"spec": {"state": state}})).await;
    }

    /// As the guides do it, for this generation of the request.
    pub(crate) async fn approve(&self, request: &str, generation: i64) {
        let condition = json!({"type": "Approved", "status": "True", "reason": "approved", "message": "approved",
            "lastTransitionTime": self.server.clock.now().to_string(), "observedGeneration": generation});
        let path = format!("{}/{request}/status", self.collection(Kind::Approval));
        self.server.patch(&path, json!({"status": {"conditions": [condition]}})).await;
    }
}
