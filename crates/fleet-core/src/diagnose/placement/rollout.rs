//! Rules about scheduled placements whose rollout has not started, or not on all clusters (UR-01, UR-81, PL-R1, PL-R2).

use fleet_api::conditions::binding::{BindingAvailable, BindingRolloutStarted, BindingRolloutStartedReason};
use fleet_api::conditions::placement::{PlacementRolloutStarted, PlacementRolloutStartedReason};
use fleet_api::conditions::{Condition, ConditionStatus, decode, decode_in};
use fleet_api::types::{BindingState, RollingUpdateConfig, Rounding};
use serde_json::json;

use super::super::finding::Finding;
use super::super::inputs::{Inputs, quote};
use super::super::{new_run, run};
use super::{conditions, reference, scope};

/// The condition, if the placement is External and it is Unknown.
fn external_unknown(inputs: &Inputs) -> Option<&Condition> {
    let placement = inputs.placement.as_ref().filter(|_| inputs.is_external())?;
    let decoded = decode_in::<PlacementRolloutStarted>(scope(inputs), conditions(placement), placement.generation());
    decoded.current().filter(|condition| condition.status == ConditionStatus::Unknown)
}

fn quoting(inputs: &Inputs, finding: Finding, condition: &Condition) -> Finding {
    finding.with_evidence(&reference(inputs), format!("status.conditions[{}]", condition.type_), quote(condition))
}

/// Whether a run of the placement is live.
fn has_live_run(inputs: &Inputs) -> bool {
    let name = inputs.placement.as_ref().map(super::ObservedObject::name).unwrap_or_default();
    inputs.runs_of(name).into_iter().any(|one| !run::is_final(one))
}

pub(super) fn no_run(inputs: &Inputs) -> Option<Finding> {
    let condition = external_unknown(inputs)?;
    let undecided = PlacementRolloutStartedReason::Undecided;
    let said = condition.message.contains("no resource snapshot name is observed")
        || fleet_api::conditions::Reason::word(undecided) == condition.reason;
    (said && !has_live_run(inputs)).then_some(())?;
    let placement = inputs.placement.as_ref()?;
    let before = inputs.runs_of(placement.name()).len();
    let finding = Finding::information(
        "UR-01",
        format!("Placement {} waits for a run: nothing has been rolled out", placement.name()),
    )
    .because("With strategy type External, nothing is rolled out until a staged update run does it.")
    .with_evidence(&reference(inputs), "spec.strategy.type", "External")
    .with_evidence(
        &reference(inputs),
        "runs of the placement",
        if before == 0 { "none".to_owned() } else { format!("{before}, all ended") },
    );
    Some(quoting(inputs, finding, condition).fix("create a run", new_run::propagate(inputs)))
}

pub(super) fn mixed_versions(inputs: &Inputs) -> Option<Finding> {
    let condition = external_unknown(inputs)?;
    condition.message.contains("different resource snapshot versions are observed").then_some(())?;
    let live = has_live_run(inputs);
    let title = "Clusters have different versions of the resources";
    let (finding, explanation) = if live {
        (Finding::information("UR-81", title), "This is normal while a run is in progress.")
    } else {
        (
            Finding::warning("UR-81", title),
            "No run is in progress: the last one ended before it had updated all clusters.",
        )
    };
    let mut finding = quoting(inputs, finding.because(explanation), condition);
    for binding in &inputs.bindings {
        let snapshot = &binding.spec.resource_snapshot_name;
        let snapshot = if snapshot.is_empty() { "none" } else { snapshot };
        finding = finding.with_evidence(&binding.reference(), "spec.resourceSnapshotName", snapshot);
    }
    Some(if live {
        finding
    } else {
        finding.fix("roll out the newest content everywhere with a new run", new_run::propagate(inputs))
    })
}

pub(super) fn policy_changed(inputs: &Inputs) -> Option<Finding> {
    let condition = external_unknown(inputs)?;
    condition.message.contains("is in RolloutStarted Unknown state").then_some(())?;
    if has_live_run(inputs) {
        return None;
    }
    let finding = Finding::warning("PL-R2", "The selected clusters have changed since the last run")
        .because("The scheduling policy or the clusters have changed. Newly selected clusters wait for a run.");
    Some(quoting(inputs, finding, condition).fix("create a run", new_run::propagate(inputs)))
}

pub(super) fn held_back(inputs: &Inputs) -> Option<Finding> {
    let placement = inputs.placement.as_ref().filter(|_| !inputs.is_external())?;
    let decoded = decode_in::<PlacementRolloutStarted>(scope(inputs), conditions(placement), placement.generation());
    (decoded.reason() == Some(PlacementRolloutStartedReason::NotStartedYet)).then_some(())?;
    let finding = Finding::warning(
        "PL-R1",
        format!("The rolling update of placement {} is blocked by its own limits", placement.name()),
    )
    .because("maxUnavailable is exhausted: missing and unavailable clusters count against it.");
    let mut finding = quoting(inputs, finding, decoded.any()?);
    let (mut held, mut unavailable) = (0, 0);
    for binding in &inputs.bindings {
        let conditions = binding.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        let started = decode::<BindingRolloutStarted>(conditions, binding.generation());
        if started.reason() == Some(BindingRolloutStartedReason::NotStartedYet) {
            held += 1;
            if let Some(said) = started.any() {
                finding = finding.with_evidence(&binding.reference(), "status.conditions[RolloutStarted]", quote(said));
            }
        } else if binding.spec.state == BindingState::Bound
            && !decode::<BindingAvailable>(conditions, binding.generation()).is_true()
        {
            unavailable += 1;
        }
    }
    let finding = finding.with_evidence(
        &reference(inputs),
        "spec.strategy.rollingUpdate.maxUnavailable",
        max_unavailable_words(inputs),
    );
    Some(with_more_room(inputs, finding, held, unavailable))
}

fn max_unavailable_words(inputs: &Inputs) -> String {
    let given = rolling_update(inputs).and_then(|config| config.max_unavailable.as_ref());
    given.map_or(format!("{} (the default)", RollingUpdateConfig::DEFAULT_MAX_UNAVAILABLE), ToString::to_string)
}

fn rolling_update(inputs: &Inputs) -> Option<&RollingUpdateConfig> {
    inputs.placement.as_ref()?.spec.strategy.as_ref()?.rolling_update.as_ref()
}

/// Adds a fix with a limit under which at least one blocked cluster can proceed.
fn with_more_room(inputs: &Inputs, finding: Finding, held: usize, unavailable: usize) -> Finding {
    let wanted = wanted_clusters(inputs);
    let missing = wanted.saturating_sub(inputs.bindings.len());
    let default = RollingUpdateConfig::DEFAULT_MAX_UNAVAILABLE.into();
    let now = rolling_update(inputs).and_then(|config| config.max_unavailable.clone()).unwrap_or(default);
    let now = usize::try_from(now.scaled(wanted, Rounding::Up).unwrap_or(1)).unwrap_or(1);
    let enough = (missing + unavailable + 1).max(now + 1).min(wanted.max(1));
    let patch = json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": enough}}}});
    let step =
        inputs.kubectl.patch(format!("let {enough} clusters be unavailable at a time"), &reference(inputs), patch);
    let counts = format!("{wanted} wanted, {missing} missing, {unavailable} not available, {held} held back");
    finding
        .with_evidence(&reference(inputs), "clusters", counts)
        .fix("raise maxUnavailable, let the missing clusters join or fix those that fail", vec![step])
}

/// The number of clusters that the policy names or asks for, or else the number of bindings.
fn wanted_clusters(inputs: &Inputs) -> usize {
    let policy = inputs.placement.as_ref().and_then(|placement| placement.spec.policy.as_ref());
    let counted = policy.and_then(|policy| policy.number_of_clusters).and_then(|count| usize::try_from(count).ok());
    let named = policy.and_then(|policy| policy.cluster_names.as_ref()).map(Vec::len);
    counted.or(named).unwrap_or(inputs.bindings.len())
}
