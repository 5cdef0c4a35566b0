//! Brings a hub into the state of a scenario, with the requests of a user.

use serde_json::{Value, json};

use crate::scenarios::{Change, Named, Scenario, scenario};
use crate::{JsonClient, Kind, MEMBERS, Scope, object};

/// The hub and the names of the objects of a scenario.
pub struct Arrangement<'a> {
    pub hub: &'a JsonClient,
    pub scope: Scope,
    /// Where namespaced objects are.
    pub namespace: &'a str,
    pub placement: &'a str,
    pub strategy: &'a str,
    /// The resource selectors of the placement.
    pub selectors: Value,
}

impl Arrangement<'_> {
    pub fn scenario(&self, entry: &str) -> Scenario {
        let namespace = if self.scope == Scope::Cluster { "" } else { self.namespace };
        scenario(entry, namespace, self.placement, self.strategy)
    }

    /// Labels the members, and creates the placement and the strategy.
    pub async fn prepare(&self, scenario: &Scenario) {
        for (member, labels) in &scenario.labels {
            self.label(member, &json!(labels)).await;
        }
        let mut placement = json!({"resourceSelectors": self.selectors, "strategy": {"type": "External"}});
        for (field, value) in &scenario.placement {
            placement[field] = value.clone();
        }
        self.create(Kind::Placement, self.placement, placement).await;
        if let Some(stages) = &scenario.stages {
            self.create(Kind::Strategy, self.strategy, json!({"stages": stages})).await;
        }
    }

    pub async fn create_run(&self, name: &str, scenario: &Scenario) {
        let mut run = json!({
            "placementName": self.placement, "stagedRolloutStrategyName": self.strategy, "state": "Run",
        });
        for (field, value) in &scenario.run {
            run[field] = value.clone();
        }
        self.create(Kind::Run, name, run).await;
    }

    /// What happens while the run waits.
    pub async fn change(&self, scenario: &Scenario) {
        for change in &scenario.then {
            match change {
                Change::Delete(Named::Placement) => self.hub.delete(&self.path(Kind::Placement, self.placement)).await,
                Change::Delete(Named::Strategy) => self.hub.delete(&self.path(Kind::Strategy, self.strategy)).await,
                Change::PatchPlacement(spec) => self.patch(Kind::Placement, self.placement, spec).await,
                Change::PatchStrategy(spec) => self.patch(Kind::Strategy, self.strategy, spec).await,
                Change::Label(members) => {
                    for (member, labels) in members {
                        self.label(member, labels).await;
                    }
                }
            }
        }
    }

    fn path(&self, kind: Kind, name: &str) -> String {
        format!("{}/{name}", kind.collection(self.scope, self.namespace))
    }

    async fn create(&self, kind: Kind, name: &str, spec: Value) {
        let collection = kind.collection(self.scope, self.namespace);
        self.hub.create(&collection, object(kind.name(self.scope), name, spec)).await;
    }

    async fn patch(&self, kind: Kind, name: &str, spec: &Value) {
        self.hub.patch(&self.path(kind, name), json!({"spec": spec})).await;
    }

    async fn label(&self, member: &str, labels: &Value) {
        self.hub.patch(&format!("{MEMBERS}/{member}"), json!({"metadata": {"labels": labels}})).await;
    }
}
