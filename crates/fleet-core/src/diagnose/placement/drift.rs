//! Notices about resources that were changed on members or differ from the hub (PL-X1, PL-X2).

use fleet_api::types::{ComparisonOption, PatchDetail, WhenToApply};
use serde_json::json;

use super::super::finding::{Finding, ObjectRef};
use super::super::inputs::Inputs;
use super::applying::{change, on_member};
use super::cluster::ClusterRollout;

/// Maximum number of fields shown per resource.
const SHOWN_FIELDS: usize = 5;
/// Maximum number of findings about drift.
const SHOWN_CLUSTERS: usize = 10;

/// Drifts and differences of all clusters of the placement.
pub(in super::super) fn notices(inputs: &Inputs) -> Vec<Finding> {
    let clusters = inputs.bindings.iter().map(|binding| binding.spec.target_cluster.as_str());
    let rollouts = clusters.filter_map(|cluster| ClusterRollout::of(inputs, cluster));
    let found = rollouts.flat_map(|rollout| [drifted(&rollout), differing(&rollout)]);
    found.flatten().take(SHOWN_CLUSTERS).collect()
}

fn drifted(rollout: &ClusterRollout<'_>) -> Option<Finding> {
    let first = rollout.drifted.first()?;
    let count = rollout.drifted.len();
    let title = format!("{} was changed on the member{}", on_member(rollout, &first.resource), and_more(count));
    let strategy = rollout.inputs.apply_strategy().cloned().unwrap_or_default();
    let explanation = match (strategy.comparison_option(), strategy.when_to_apply()) {
        (ComparisonOption::PartialComparison, WhenToApply::Always) => {
            "With whenToApply Always and partial comparison, changes of managed fields are overwritten, so this drift disappears soon."
        }
        (ComparisonOption::FullComparison, _) => {
            "Under full comparison, defaults of the API server and fields that other controllers write also show up as drift."
        }
        (ComparisonOption::PartialComparison, WhenToApply::IfNotDrifted) => {
            "Only fields of the hub's manifest are compared. The object is not changed until the drift is resolved."
        }
    };
    let finding = with_drifts(rollout, Finding::warning("PL-X1", title).because(explanation));
    Some(match (strategy.comparison_option(), strategy.when_to_apply()) {
        (ComparisonOption::FullComparison, _) => {
            let fields = json!({"comparisonOption": ComparisonOption::PartialComparison});
            finding.fix("compare only fields of the hub's manifest", change(rollout, "use partial comparison", fields))
        }
        (ComparisonOption::PartialComparison, WhenToApply::IfNotDrifted) => finding.fix(
            "restore the version of the hub",
            change(rollout, "apply even if the object has drifted", json!({"whenToApply": WhenToApply::Always})),
        ),
        (ComparisonOption::PartialComparison, WhenToApply::Always) => finding,
    })
}

fn differing(rollout: &ClusterRollout<'_>) -> Option<Finding> {
    let first = rollout.diffed.first()?;
    let title =
        format!("{}differs from the hub{}", on_member(rollout, &first.resource), and_more(rollout.diffed.len()));
    let finding = Finding::information("PL-X2", title).because(
        "Differences are reported for existing objects with whenToTakeOver IfNoDiff, and for all objects with \
         ReportDiff. A missing object counts as a difference.",
    );
    let finding = with_differences(rollout, finding);
    if !rollout.inputs.only_reports_differences() {
        return Some(finding);
    }
    let steps = change(rollout, "apply instead of reporting", json!({"type": "ClientSideApply"}));
    Some(finding.fix("apply the hub's version, if that is wanted now", steps))
}

pub(super) fn with_drifts(rollout: &ClusterRollout<'_>, mut finding: Finding) -> Finding {
    for one in rollout.drifted {
        let object = on_member(rollout, &one.resource);
        finding = with_fields(finding, &object, &one.observed_drifts);
    }
    finding
}

pub(super) fn with_differences(rollout: &ClusterRollout<'_>, mut finding: Finding) -> Finding {
    for one in rollout.diffed {
        let object = on_member(rollout, &one.resource);
        finding = with_fields(finding, &object, &one.observed_diffs);
    }
    finding
}

fn with_fields(mut finding: Finding, object: &ObjectRef, fields: &[PatchDetail]) -> Finding {
    for field in fields.iter().take(SHOWN_FIELDS) {
        let value = |text: &str| if text.is_empty() { "nothing".to_owned() } else { text.to_owned() };
        let words =
            format!("{} on the member, {} on the hub", value(&field.value_in_member), value(&field.value_in_hub));
        finding = finding.with_evidence(object, &field.path, words);
    }
    finding
}

fn and_more(count: usize) -> String {
    if count > 1 { format!(", and {} more", count - 1) } else { String::new() }
}
