//! Resources that were changed on members, or that differ from the hub's (PL-X1, PL-X2).
//!
//! Decides notices: drift and differences are reported, not failures. Says how far the report can be trusted.

use fleet_api::types::{ComparisonOption, PatchDetail, WhenToApply};
use serde_json::json;

use super::super::finding::{Finding, ObjectRef};
use super::super::picture::Picture;
use super::applying::{change, on_member};
use super::cluster::Standing;

/// So many fields of one resource are shown.
const SHOWN_FIELDS: usize = 5;
/// So many clusters with drift are told of; more say the same.
const TOLD_CLUSTERS: usize = 10;

/// Drifts and differences of all clusters of the placement.
pub(in super::super) fn notices(picture: &Picture) -> Vec<Finding> {
    let clusters = picture.bindings.iter().map(|binding| binding.spec.target_cluster.as_str());
    let standings = clusters.filter_map(|cluster| Standing::of(picture, cluster));
    let found = standings.flat_map(|standing| [drifted(&standing), differing(&standing)]);
    found.flatten().take(TOLD_CLUSTERS).collect()
}

fn drifted(standing: &Standing<'_>) -> Option<Finding> {
    let first = standing.drifted.first()?;
    let count = standing.drifted.len();
    let title = format!("{} was changed on the member{}", on_member(standing, &first.resource), and_more(count));
    let strategy = standing.picture.apply_strategy().cloned().unwrap_or_default();
    let explanation = match (strategy.comparison_option(), strategy.when_to_apply()) {
        (ComparisonOption::PartialComparison, WhenToApply::Always) => {
            "With whenToApply Always and partial comparison changes of managed fields are put back, so this lasts a moment only."
        }
        (ComparisonOption::FullComparison, _) => {
            "Under full comparison, defaults of the API server and fields that other controllers write show up as drift, too."
        }
        (ComparisonOption::PartialComparison, WhenToApply::IfNotDrifted) => {
            "Only fields that the hub's manifest has are compared. The object is left alone until the drift is gone."
        }
    };
    let finding = with_drifts(standing, Finding::warning("PL-X1", title).because(explanation));
    Some(match (strategy.comparison_option(), strategy.when_to_apply()) {
        (ComparisonOption::FullComparison, _) => {
            let fields = json!({"comparisonOption": ComparisonOption::PartialComparison});
            finding.fix(
                "look only at what the hub's manifest has",
                change(standing, "compare only fields of the manifest", fields),
            )
        }
        (ComparisonOption::PartialComparison, WhenToApply::IfNotDrifted) => finding.fix(
            "put it back as it is on the hub",
            change(standing, "apply over drifts", json!({"whenToApply": WhenToApply::Always})),
        ),
        (ComparisonOption::PartialComparison, WhenToApply::Always) => finding,
    })
}

fn differing(standing: &Standing<'_>) -> Option<Finding> {
    let first = standing.diffed.first()?;
    let title =
        format!("{} differs from the hub's{}", on_member(standing, &first.resource), and_more(standing.diffed.len()));
    let finding = Finding::information("PL-X2", title).because(
        "Differences are looked for on objects that were there before, with whenToTakeOver IfNoDiff, and on all with \
         ReportDiff. An object that is not there counts as different.",
    );
    let finding = with_differences(standing, finding);
    if !standing.picture.only_reports_differences() {
        return Some(finding);
    }
    let steps = change(standing, "apply instead of reporting", json!({"type": "ClientSideApply"}));
    Some(finding.fix("bring the hub's version there, if that is wanted now", steps))
}

pub(super) fn with_drifts(standing: &Standing<'_>, mut finding: Finding) -> Finding {
    for one in standing.drifted {
        let object = on_member(standing, &one.resource);
        finding = with_fields(finding, &object, &one.observed_drifts);
    }
    finding
}

pub(super) fn with_differences(standing: &Standing<'_>, mut finding: Finding) -> Finding {
    for one in standing.diffed {
        let object = on_member(standing, &one.resource);
        finding = with_fields(finding, &object, &one.observed_diffs);
    }
    finding
}

fn with_fields(mut finding: Finding, object: &ObjectRef, fields: &[PatchDetail]) -> Finding {
    for field in fields.iter().take(SHOWN_FIELDS) {
        let value = |text: &str| if text.is_empty() { "nothing".to_owned() } else { text.to_owned() };
        let words =
            format!("{} on the member, {} on the hub", value(&field.value_in_member), value(&field.value_in_hub));
        finding = finding.seen(object, &field.path, words);
    }
    finding
}

fn and_more(count: usize) -> String {
    if count > 1 { format!(", and {} more", count - 1) } else { String::new() }
}
