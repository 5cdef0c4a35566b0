//! Finds values in a placement that are not in the API's enums, and that have a message of their own.
//!
//! The schema refuses them first, so only an object that was not checked by the schema gets here. The Rust types
//! cannot represent such values, so the undecoded object is searched.

use serde_json::Value;

use super::findings::Findings;
use super::{policy, strategy};
use crate::types::{RolloutStrategyType, SortOrder, UnsatisfiableConstraintAction};

/// Findings about unknown values, formatted like all findings about a placement.
pub(super) fn unknown(object: &Value) -> Findings {
    let spec = &object["spec"];
    let mut in_policy = Findings::none();
    for preferred in
        items(&spec["policy"]["affinity"]["clusterAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"])
    {
        let order = &preferred["preference"]["propertySorter"]["sortOrder"];
        if let Some(order) = order.as_str().filter(|order| SortOrder::ALL.iter().all(|known| known.as_str() != *order))
        {
            in_policy.add(format!("invalid property sort order {order}"));
        }
    }
    for constraint in items(&spec["policy"]["topologySpreadConstraints"]) {
        let action = constraint["whenUnsatisfiable"].as_str().unwrap_or_default();
        if !action.is_empty() && UnsatisfiableConstraintAction::ALL.iter().all(|known| known.as_str() != action) {
            in_policy.add(format!("unknown unsatisfiable type {action}"));
        }
    }
    let mut findings = in_policy.under(policy::PREFIX);
    let kind = spec["strategy"]["type"].as_str().unwrap_or_default();
    if !kind.is_empty() && RolloutStrategyType::ALL.iter().all(|known| known.as_str() != kind) {
        findings.absorb(Findings::one(format!("unsupported rollout strategy type `{kind}`")).under(strategy::PREFIX));
    }
    findings
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}
