//! Runs that are stuck: a cluster was started long ago and is not done (UR-40 to UR-43).
//!
//! Decides which clusters are stuck by their own conditions, not by the run's message, which older releases wrote as a
//! number. What is wrong with a cluster is found by the rules of `placement`. A stuck run is not over: it goes on as soon as
//! the cluster is done.

use fleet_api::conditions::Condition;
use fleet_api::conditions::update_run::{ClusterUpdateStarted, UpdateRunProgressingReason};
use fleet_api::types::{ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunState};

use super::super::finding::{Finding, ObjectRef, Severity};
use super::super::picture::{condition, is_updating, quote};
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
        placement::cluster(run.picture, &cluster.cluster_name).map(|root| (*stage, *cluster, root))
    });
    let Some((stage, cluster, root)) = rooted else { return unexplained(run, stuck, &updating) };
    let entry = match root.root_entry() {
        "PL-V1" => "UR-40",
        "PL-D1" => "UR-43",
        _ => "UR-41",
    };
    let mut finding = run.quoting(Finding::error(entry, root.title), "Progressing", stuck);
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
    finding.seen(&run.reference(), field, format!("{} since {}", quote(started), started.last_transition_time))
}

/// Nothing is known to be wrong with the clusters: the hub still waits for their word.
fn unexplained(
    run: &Run<'_>,
    stuck: &Condition,
    updating: &[(&StageUpdatingStatus, &ClusterUpdatingStatus)],
) -> Finding {
    let names: Vec<&str> = updating.iter().map(|(_, cluster)| cluster.cluster_name.as_str()).collect();
    let title = match &names[..] {
        [] => "The run is stuck, but no cluster is being updated".to_owned(),
        names => format!("Nothing says why {} not done", are(names)),
    };
    let mut finding = run.quoting(Finding::new("UR-40", Severity::Error, title), "Progressing", stuck).because(
        "The binding is not available five minutes after the cluster was started. The run is not over: it goes on by itself \
         as soon as the cluster is done.",
    );
    for (stage, cluster) in updating {
        finding = with_cluster(run, finding, stage, cluster);
    }
    let mut steps = Vec::new();
    for name in names {
        let works = ObjectRef::of::<fleet_api::kinds::Placement>(
            run.picture.namespace.as_deref(),
            &run.object.spec.placement_name,
        );
        let arguments = format!(
            "get work -n {}{name} -l {}={} -o yaml",
            fleet_api::well_known::namespaces::MEMBER_PREFIX,
            fleet_api::well_known::labels::PARENT_PLACEMENT,
            works.name
        );
        steps.push(run.picture.kubectl.show(format!("see what {name} reports"), &arguments));
    }
    finding.fix("look at the Works and at the member's agent", steps)
}

fn are(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        several => format!("{} are", several.join(", ")),
    }
}
