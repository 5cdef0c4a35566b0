//! The status of PodDisruptionBudgets. The eviction API enforces them, not this file.

use k8s_values::int_or_string::Rounding;
use serde_json::{Value, json};

use super::cluster::View;
use super::kinds::Kind;
use super::objects::{Condition, count, is_deleting, namespace, selects, share, with_conditions};
use super::plan::Plan;
use super::pods;

pub(super) fn plan(view: &View, budget: &Value) -> Plan {
    let mut plan = Plan::default();
    if is_deleting(budget) {
        return plan;
    }
    let all = view.list(Kind::Pod, Some(namespace(budget)));
    let selected: Vec<&Value> = all
        .iter()
        .filter(|pod| pods::is_active(pod) && selects(&budget["spec"]["selector"], &pod["metadata"]["labels"]))
        .collect();
    let size = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let expected = size(selected.len());
    let healthy = size(selected.iter().filter(|pod| pods::is_ready(pod)).count());
    let desired = match (budget["spec"].get("minAvailable"), budget["spec"].get("maxUnavailable")) {
        (Some(least), _) => share(least, expected, Rounding::Up).unwrap_or(expected),
        (None, Some(most)) => expected - share(most, expected, Rounding::Up).unwrap_or_default().min(expected),
        (None, None) => expected,
    };
    let allowed = if expected == 0 { 0 } else { (healthy - desired).max(0) };
    let condition = Condition {
        type_: "DisruptionAllowed",
        status: allowed > 0,
        reason: if allowed > 0 { "SufficientPods" } else { "InsufficientPods" }.to_owned(),
        message: String::new(),
    };
    let generation = count(budget, "/metadata/generation");
    let mut conditions = with_conditions(budget, &[condition], view.now());
    for one in conditions.as_array_mut().into_iter().flatten() {
        one["observedGeneration"] = generation.into();
        if one.get("message").is_none() {
            one["message"] = "".into();
        }
    }
    let status = json!({
        "observedGeneration": generation, "disruptionsAllowed": allowed, "currentHealthy": healthy,
        "desiredHealthy": desired, "expectedPods": expected, "conditions": conditions,
    });
    // A new budget has no status, so it is written once even if all counts are 0.
    let is_new = count(budget, "/status/observedGeneration") != generation;
    plan.report(budget, status.clone());
    if is_new && plan.writes.is_empty() {
        plan.push(super::plan::Write::Status(status));
    }
    plan
}
