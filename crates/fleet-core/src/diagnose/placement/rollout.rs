//! Placements that are scheduled and whose rollout has not started, or not everywhere (UR-01, UR-81, PL-R1, PL-R2).
//!
//! Decides from the placement's `RolloutStarted` condition, in all its wordings, and from the runs there are.

use fleet_api::conditions::binding::{BindingAvailable, BindingRolloutStarted, BindingRolloutStartedReason};
use fleet_api::conditions::placement::{PlacementRolloutStarted, PlacementRolloutStartedReason};
use fleet_api::conditions::{Condition, ConditionStatus, decode, decode_in};
use fleet_api::types::{BindingState, RollingUpdateConfig, Rounding};
use serde_json::json;

use super::super::finding::Finding;
use super::super::picture::{Picture, quote};
use super::super::{new_run, run};
use super::{conditions, reference, scope};

/// The condition, if the placement is External and it is Unknown.
fn external_unknown(picture: &Picture) -> Option<&Condition> {
    let placement = picture.placement.as_ref().filter(|_| picture.is_external())?;
    let decoded = decode_in::<PlacementRolloutStarted>(scope(picture), conditions(placement), placement.generation());
    decoded.current().filter(|condition| condition.status == ConditionStatus::Unknown)
}

fn quoting(picture: &Picture, finding: Finding, condition: &Condition) -> Finding {
    finding.seen(&reference(picture), format!("status.conditions[{}]", condition.type_), quote(condition))
}

/// Whether a run of the placement still goes.
fn has_live_run(picture: &Picture) -> bool {
    let name = picture.placement.as_ref().map(super::Seen::name).unwrap_or_default();
    picture.runs_of(name).into_iter().any(|one| !run::is_final(one))
}

pub(super) fn no_run(picture: &Picture) -> Option<Finding> {
    let condition = external_unknown(picture)?;
    let undecided = PlacementRolloutStartedReason::Undecided;
    let said = condition.message.contains("no resource snapshot name is observed")
        || fleet_api::conditions::Reason::word(undecided) == condition.reason;
    (said && !has_live_run(picture)).then_some(())?;
    let placement = picture.placement.as_ref()?;
    let before = picture.runs_of(placement.name()).len();
    let finding = Finding::information(
        "UR-01",
        format!("Placement {} waits for a run: nothing has been rolled out", placement.name()),
    )
    .because("With strategy type External nothing is rolled out until a staged update run does it.")
    .seen(&reference(picture), "spec.strategy.type", "External")
    .seen(
        &reference(picture),
        "runs of the placement",
        if before == 0 { "none".to_owned() } else { format!("{before}, all ended") },
    );
    Some(quoting(picture, finding, condition).fix("create a run", new_run::propagate(picture)))
}

pub(super) fn mixed_versions(picture: &Picture) -> Option<Finding> {
    let condition = external_unknown(picture)?;
    condition.message.contains("different resource snapshot versions are observed").then_some(())?;
    let live = has_live_run(picture);
    let title = "Clusters have different versions of the resources";
    let (finding, explanation) = if live {
        (Finding::information("UR-81", title), "That is normal while a run is under way.")
    } else {
        (Finding::warning("UR-81", title), "No run is under way: the last one ended before it had been everywhere.")
    };
    let mut finding = quoting(picture, finding.because(explanation), condition);
    for binding in &picture.bindings {
        let snapshot = &binding.spec.resource_snapshot_name;
        let snapshot = if snapshot.is_empty() { "none" } else { snapshot };
        finding = finding.seen(&binding.reference(), "spec.resourceSnapshotName", snapshot);
    }
    Some(if live {
        finding
    } else {
        finding.fix("bring the newest content everywhere by a new run", new_run::propagate(picture))
    })
}

pub(super) fn policy_changed(picture: &Picture) -> Option<Finding> {
    let condition = external_unknown(picture)?;
    condition.message.contains("is in RolloutStarted Unknown state").then_some(())?;
    if has_live_run(picture) {
        return None;
    }
    let finding =
        Finding::warning("PL-R2", "Clusters were chosen anew since the last run, which knows nothing of that")
            .because("The scheduling policy or the clusters have changed. What was chosen since waits for a run.");
    Some(quoting(picture, finding, condition).fix("create a run", new_run::propagate(picture)))
}

pub(super) fn held_back(picture: &Picture) -> Option<Finding> {
    let placement = picture.placement.as_ref().filter(|_| !picture.is_external())?;
    let decoded = decode_in::<PlacementRolloutStarted>(scope(picture), conditions(placement), placement.generation());
    (decoded.reason() == Some(PlacementRolloutStartedReason::NotStartedYet)).then_some(())?;
    let finding = Finding::warning(
        "PL-R1",
        format!("The rolling update of placement {} is held back by its own limits", placement.name()),
    )
    .because("maxUnavailable is used up: clusters that are missing or not available count against it.");
    let mut finding = quoting(picture, finding, decoded.any()?);
    let (mut held, mut unavailable) = (0, 0);
    for binding in &picture.bindings {
        let conditions = binding.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
        let started = decode::<BindingRolloutStarted>(conditions, binding.generation());
        if started.reason() == Some(BindingRolloutStartedReason::NotStartedYet) {
            held += 1;
            if let Some(said) = started.any() {
                finding = finding.seen(&binding.reference(), "status.conditions[RolloutStarted]", quote(said));
            }
        } else if binding.spec.state == BindingState::Bound
            && !decode::<BindingAvailable>(conditions, binding.generation()).is_true()
        {
            unavailable += 1;
        }
    }
    let finding =
        finding.seen(&reference(picture), "spec.strategy.rollingUpdate.maxUnavailable", max_unavailable_words(picture));
    Some(with_more_room(picture, finding, held, unavailable))
}

fn max_unavailable_words(picture: &Picture) -> String {
    let given = rolling_update(picture).and_then(|config| config.max_unavailable.as_ref());
    given.map_or(format!("{} (the default)", RollingUpdateConfig::DEFAULT_MAX_UNAVAILABLE), ToString::to_string)
}

fn rolling_update(picture: &Picture) -> Option<&RollingUpdateConfig> {
    picture.placement.as_ref()?.spec.strategy.as_ref()?.rolling_update.as_ref()
}

/// With a limit that lets at least one of the clusters that are held back go on.
fn with_more_room(picture: &Picture, finding: Finding, held: usize, unavailable: usize) -> Finding {
    let wanted = wanted_clusters(picture);
    let missing = wanted.saturating_sub(picture.bindings.len());
    let default = RollingUpdateConfig::DEFAULT_MAX_UNAVAILABLE.into();
    let now = rolling_update(picture).and_then(|config| config.max_unavailable.clone()).unwrap_or(default);
    let now = usize::try_from(now.of(wanted, Rounding::Up).unwrap_or(1)).unwrap_or(1);
    let enough = (missing + unavailable + 1).max(now + 1).min(wanted.max(1));
    let patch = json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": enough}}}});
    let step =
        picture.kubectl.patch(format!("let {enough} clusters be unavailable at a time"), &reference(picture), patch);
    let counts = format!("{wanted} wanted, {missing} missing, {unavailable} not available, {held} held back");
    finding
        .seen(&reference(picture), "clusters", counts)
        .fix("raise maxUnavailable, let the missing clusters join or mend those that fail", vec![step])
}

/// How many clusters the policy asks for: those that it names or counts, or else all it has.
fn wanted_clusters(picture: &Picture) -> usize {
    let policy = picture.placement.as_ref().and_then(|placement| placement.spec.policy.as_ref());
    let counted = policy.and_then(|policy| policy.number_of_clusters).and_then(|count| usize::try_from(count).ok());
    let named = policy.and_then(|policy| policy.cluster_names.as_ref()).map(Vec::len);
    counted.or(named).unwrap_or(picture.bindings.len())
}
