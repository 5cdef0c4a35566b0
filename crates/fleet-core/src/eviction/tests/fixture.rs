//! A placement with bindings and a budget, on which evictions are executed. Bindings are written as for rollouts.

use fleet_api::kinds::{ClusterResourcePlacementEviction, Obj};
use fleet_api::types::{PlacementDisruptionBudgetSpec, PlacementEvictionSpec, PlacementEvictionStatus};
use fleet_api::well_known::annotations;
use serde_json::json;

use crate::eviction::{BindingFacts, EvictionFacts, Observed, PlacementFacts, Plan, Write, plan};
use crate::plan::lint;
use crate::rollout::tests::fixture::{RolloutFixture, mark_deleting};

#[derive(Debug, Clone)]
pub(crate) struct EvictionFixture {
    pub(crate) placed: RolloutFixture,
    pub(crate) placement_exists: bool,
    pub(crate) budget: Option<PlacementDisruptionBudgetSpec>,
    pub(crate) evictions: Vec<ClusterResourcePlacementEviction>,
}

pub(crate) const THREE_READY: &str = "c1 Bound @1 ready\nc2 Bound @1 ready\nc3 Bound @1 ready";

/// `u=1` is maxUnavailable, `min=66%` minAvailable; nothing is an empty budget.
pub(crate) fn budget(words: &str) -> PlacementDisruptionBudgetSpec {
    let mut budget = json!({});
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap();
        let value = value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number));
        budget[if key == "u" { "maxUnavailable" } else { "minAvailable" }] = value;
    }
    serde_json::from_value(budget).unwrap()
}

impl EvictionFixture {
    /// With one eviction from `c1`.
    pub(crate) fn new(spec: &str, bindings: &str) -> Self {
        let mut fixture = Self {
            placed: RolloutFixture::new(spec, bindings),
            placement_exists: true,
            budget: None,
            evictions: Vec::new(),
        };
        for binding in &mut fixture.placed.bindings {
            binding.metadata.uid = binding.metadata.name.as_ref().map(|name| format!("uid-of-{name}"));
        }
        fixture.evict("c1");
        fixture
    }

    /// Adds an eviction and returns its index.
    pub(crate) fn evict(&mut self, cluster: &str) -> usize {
        let spec = PlacementEvictionSpec { placement_name: "web".to_owned(), cluster_name: cluster.to_owned() };
        let mut eviction = Obj::named(format!("evict-{}", self.evictions.len()), spec);
        eviction.metadata.generation = Some(1);
        self.evictions.push(eviction);
        self.evictions.len() - 1
    }

    pub(crate) fn observe(&self, index: usize) -> Observed<'_> {
        Observed {
            eviction: EvictionFacts::of(&self.evictions[index]),
            placement: self.placement_exists.then(|| PlacementFacts::of(&self.placed.placement)),
            bindings: self.placed.bindings.iter().map(BindingFacts::of).collect(),
            budget: self.budget.as_ref(),
        }
    }

    pub(crate) fn plan(&self, index: usize) -> Plan {
        let plan = plan(&self.observe(index), self.placed.now);
        assert_eq!(lint(&plan), Vec::<String>::new());
        plan
    }

    /// Plans, executes the plan, and checks that nothing is left to do.
    pub(crate) fn run(&mut self, index: usize) -> Plan {
        let plan = self.plan(index);
        for write in &plan.writes {
            self.write(write);
        }
        if let Some(status) = &plan.status {
            self.evictions[index].status = Some(status.clone());
        }
        assert!(self.plan(index).is_idle());
        plan
    }

    pub(crate) fn write(&mut self, write: &Write) {
        let now = self.placed.now;
        match write {
            Write::Record { eviction, binding_uid, allowed_by } => {
                let named = |one: &&mut ClusterResourcePlacementEviction| one.metadata.name.as_ref() == Some(eviction);
                let found = self.evictions.iter_mut().find(named).unwrap();
                let annotations = found.metadata.annotations.get_or_insert_default();
                annotations.insert(annotations::EVICTED_BINDING_UID.to_owned(), binding_uid.clone());
                annotations.insert(annotations::EVICTION_ALLOWED_BY.to_owned(), allowed_by.to_string());
            }
            Write::DeleteBinding { binding } => mark_deleting(self.placed.named(binding), now),
        }
    }
}

/// `Valid=True Executed=False: message of the last`
pub(crate) fn status_text(status: &PlacementEvictionStatus) -> String {
    let words: Vec<_> = status
        .conditions
        .iter()
        .map(|one| format!("{}={} {} @{}", one.type_, one.status, one.reason, one.observed_generation))
        .collect();
    format!("{}\n{}", words.join("\n"), status.conditions.last().unwrap().message)
}

pub(crate) fn writes_text(plan: &Plan) -> String {
    let line = |write: &Write| match write {
        Write::Record { eviction, .. } => format!("{eviction} begun"),
        Write::DeleteBinding { binding } => format!("{binding} deleted"),
    };
    plan.writes.iter().map(line).collect::<Vec<_>>().join("\n")
}
