//! The table of runs that fail, as data: the planner, the diagnose rules, the hub and the command line run the same rows.
//! Uses only `fleet-api`, so that the tests of `fleet-core` can include this file.

use std::collections::BTreeMap;

use fleet_api::yaml;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const TABLE: &str = include_str!("../scenarios/update_runs.yaml");

/// How a fleet differs from the example at the head of the table, and what its run says. The default is the example.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// Labels that members have in addition.
    pub labels: BTreeMap<String, Map<String, Value>>,
    /// Fields of the spec of the placement.
    pub placement: Map<String, Value>,
    /// Whether the scheduler finds enough clusters.
    pub is_scheduled: bool,
    /// The clusters that the scheduler picks.
    pub picked: Vec<String>,
    /// The stages of the strategy; `None` if there is no strategy. In the table, a name is a stage of that environment.
    pub stages: Option<Vec<Value>>,
    /// Fields of the spec of the run.
    pub run: Map<String, Value>,
    /// What happens while the run waits. Without it, the run cannot be initialized.
    pub then: Vec<Change>,
    /// The message of the condition that has failed. In the table, it is without `LEAD`.
    pub message: String,
    pub remedy: Option<String>,
    /// The entry of the placement that explains the failure.
    pub because_of: Option<String>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            placement: Map::new(),
            is_scheduled: true,
            picked: vec!["member1".to_owned(), "member2".to_owned()],
            stages: Some(vec![json!("staging"), json!("canary")]),
            run: Map::new(),
            then: Vec::new(),
            message: String::new(),
            remedy: None,
            because_of: None,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    Delete(Named),
    /// Fields of the spec, as a merge patch.
    PatchPlacement(Value),
    PatchStrategy(Value),
    /// Labels by member; null removes one.
    Label(BTreeMap<String, Value>),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Named {
    Placement,
    Strategy,
}

/// The beginning of all messages of runs that fail.
pub const LEAD: &str = "cannot continue the updateRun: ";

/// The scenario of this entry. The namespace is empty for cluster-scoped objects.
pub fn scenario(entry: &str, namespace: &str, placement: &str, strategy: &str) -> Scenario {
    let text = TABLE
        .replace("<validation>", "failed to validate the updateRun: ")
        .replace("<client error>", "failed to process the request due to a client error: ")
        .replace("<namespace>", namespace)
        .replace("<placement>", placement)
        .replace("<strategy>", strategy);
    let mut table = yaml::documents(&text).unwrap_or_else(|error| panic!("{error}")).remove(0);
    let mut scenario: Scenario =
        serde_json::from_value(table[entry].take()).unwrap_or_else(|error| panic!("{entry}: {error}"));
    for stage in scenario.stages.iter_mut().flatten() {
        if let Some(environment) = stage.as_str() {
            *stage = json!({"name": environment, "labelSelector": {"matchLabels": {"environment": environment}}});
        }
    }
    assert!(!scenario.message.is_empty(), "{entry} has no message");
    scenario.message.insert_str(0, LEAD);
    scenario
}
