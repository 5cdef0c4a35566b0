//! What stands beside a run and will matter: other runs, edits and labels that end it at its next step.
//!
//! Decides notices, never the headline. Runs that are over get none of these.

use fleet_api::kinds::UpdateStrategy;

use super::super::finding::{Finding, ObjectRef};
use super::super::mend;
use super::super::picture::Picture;
use super::{Run, execution, is_final, resting};

/// What else is to be said about the run of the picture.
pub(in super::super) fn notices(picture: &Picture) -> Vec<Finding> {
    let Some(run) = Run::of(picture).filter(|run| !is_final(run.object)) else { return Vec::new() };
    let found = [resting::approved_but_not_running(&run), labels_changed(&run), strategy_edited(&run)];
    found.into_iter().flatten().chain(other_runs(&run)).collect()
}

fn other_runs(run: &Run<'_>) -> Vec<Finding> {
    let placement = &run.object.spec.placement_name;
    let index = &run.status.resource_snapshot_index_used;
    let others = run
        .picture
        .runs_of(placement)
        .into_iter()
        .filter(|other| other.name() != run.object.name() && !is_final(other));
    let notice = |other: &super::Seen<fleet_api::kinds::UpdateRun>| {
        let brings =
            other.status.as_ref().map(|status| status.resource_snapshot_index_used.clone()).unwrap_or_default();
        let differs = !brings.is_empty() && brings != *index;
        differs.then(|| {
            Finding::warning(
                "UR-24",
                format!(
                    "Run {} brings another version to the same placement: one of them will end the other",
                    other.name()
                ),
            )
            .seen(&run.reference(), "status.resourceSnapshotIndexUsed", index)
            .seen(&other.reference(), "status.resourceSnapshotIndexUsed", brings)
            .fix(
                "delete the one that is not wanted",
                vec![run.picture.kubectl.delete(format!("delete {}", other.name()), &other.reference())],
            )
        })
    };
    others.filter_map(notice).collect()
}

fn labels_changed(run: &Run<'_>) -> Option<Finding> {
    let moves = execution::moves(run);
    (!moves.is_empty()).then_some(())?;
    let mut finding =
        Finding::warning("UR-27", "Clusters do not fit the stages any more that the run was initialized with")
            .because("A run ends at its next step when a cluster that it updates would belong to another stage.");
    for (cluster, then, now) in moves {
        let reference = ObjectRef::of::<fleet_api::kinds::Member>(None, &cluster);
        finding = finding.seen(&reference, "stage", format!("{then} when the run was initialized, {now} now"));
    }
    Some(finding)
}

fn strategy_edited(run: &Run<'_>) -> Option<Finding> {
    let copy = run.status.staged_update_strategy_snapshot.as_ref()?;
    let name = &run.object.spec.staged_update_strategy_name;
    let strategy = run.picture.strategy(name)?;
    (mend::normalised(&strategy.spec) != mend::normalised(copy)).then_some(())?;
    let reference = ObjectRef::of::<UpdateStrategy>(run.picture.namespace.as_deref(), name);
    let names: Vec<&str> = strategy.spec.stages.iter().map(|stage| stage.name.as_str()).collect();
    Some(
        Finding::information("UR-22", format!("Strategy {name} was edited since the run was initialized"))
            .because("It has no effect on this run, which goes by its own copy, unless tasks become impossible.")
            .seen(&reference, "spec.stages", names.join(", ")),
    )
}
