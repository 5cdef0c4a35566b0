//! Rules about stuck runs: a cluster was started long ago and is not done (UR-40 to UR-43).
//!
//! Stuck clusters are found by their own conditions, not by the run's message, which older releases wrote as a number. The rules of
//! `placement` explain what is wrong with a cluster.

use fleet_api::conditions::Condition;
use fleet_api::conditions::update_run::{ClusterUpdateStarted, UpdateRunProgressingReason};
use fleet_api::types::{ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunState};
use fleet_api::well_known::labels;

use super::super::commands::works_of;
use super::super::finding::{Finding, Severity};
use super::super::inputs::{condition, is_updating, quote};
use super::super::placement;
use super::Run;

pub(super) fn while_stopping(run: &Run<'_>) -> Option<Finding> {
    let stuck = run.progresses_as(UpdateRunProgressingReason::Stuck)?;
    (run.object.spec.state() == UpdateRunState::Stop).then_some(())?;
    let mut finding = found(run, stuck);
    finding.entry = "UR-42";
    finding.explanation =
        format!("A run that is asked to stop lets the clusters that it has started finish. {}", finding.explanation);
    Some(finding)
}

pub(super) fn stuck(run: &Run<'_>) -> Option<Finding> {
    run.progresses_as(UpdateRunProgressingReason::Stuck).map(|stuck| found(run, stuck))
}

/// Clusters that were started and are not done, with their stage.
pub(super) fn updating<'r>(run: &'r Run<'_>) -> Vec<(&'r StageUpdatingStatus, &'r ClusterUpdatingStatus)> {
    let stages = run.status.stages_status.iter();
    stages.flat_map(|stage| stage.clusters.iter().filter(|one| is_updating(one)).map(move |one| (stage, one))).collect()
}

fn found(run: &Run<'_>, stuck: &Condition) -> Finding {
    let updating = updating(run);
    let rooted = updating.iter().find_map(|(stage, cluster)| {
        placement::cluster(run.inputs, &cluster.cluster_name).map(|root| (*stage, *cluster, root))
    });
    let Some((stage, cluster, root)) = rooted else { return unexplained(run, stuck, &updating) };
    let entry = match root.root_entry() {
        "PL-V1" => "UR-40",
        "PL-D1" => "UR-43",
        _ => "UR-41",
    };
    let mut finding = run.quoting(Finding::error(entry, root.title), stuck);
    finding.because_of = Some(root.because_of.unwrap_or(root.entry));
    finding.explanation = root.explanation;
    finding = with_cluster(run, finding, stage, cluster);
    finding.evidence.extend(root.evidence);
    finding.fixes = root.fixes;
    finding
}

fn with_cluster(
    run: &Run<'_>,
    finding: Finding,
    stage: &StageUpdatingStatus,
    cluster: &ClusterUpdatingStatus,
) -> Finding {
    let Some(started) = condition::<ClusterUpdateStarted>(&cluster.conditions) else { return finding };
    let field = format!("stage {}, cluster {}: conditions[Started]", stage.stage_name, cluster.cluster_name);
    finding.with_evidence(&run.reference(), field, format!("{} since {}", quote(started), started.last_transition_time))
}

/// No rule explains the stuck clusters: they have not reported yet.
fn unexplained(
    run: &Run<'_>,
    stuck: &Condition,
    updating: &[(&StageUpdatingStatus, &ClusterUpdatingStatus)],
) -> Finding {
    let names: Vec<&str> = updating.iter().map(|(_, cluster)| cluster.cluster_name.as_str()).collect();
    let title = match &names[..] {
        [] => "The run is stuck, but no cluster is being updated".to_owned(),
        names => format!("It is not known why {} not done", are(names)),
    };
    let mut finding = run.quoting(Finding::new("UR-40", Severity::Error, title), stuck).because(
        "The binding is not available five minutes after the cluster was started. The run has not failed: it continues \
         as soon as the cluster is done.",
    );
    for (stage, cluster) in updating {
        finding = with_cluster(run, finding, stage, cluster);
    }
    let mut steps = Vec::new();
    for name in names {
        let line = works_of(name)
            .fixed(&["-l"])
            .label(labels::PARENT_PLACEMENT, Some(&run.object.spec.placement_name))
            .fixed(&["-o", "yaml"]);
        steps.push(run.inputs.kubectl.show(format!("see what {name} reports"), line));
    }
    finding.fix("check the Works and the member's agent", steps)
}

fn are(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        several => format!("{} are", several.join(", ")),
    }
}
