//! Notices about what will fail a live run at its next step: concurrent runs, changed labels, an edited strategy.

use fleet_api::kinds::UpdateStrategy;

use super::super::finding::{Finding, ObjectRef};
use super::super::inputs::Inputs;
use super::super::strategy_fixes;
use super::{Run, execution, is_final, not_running};

/// Notices about the run of the inputs; none if it has ended.
pub(in super::super) fn notices(inputs: &Inputs) -> Vec<Finding> {
    let Some(run) = Run::of(inputs).filter(|run| !is_final(run.object)) else { return Vec::new() };
    let found = [not_running::approved_but_not_running(&run), labels_changed(&run), strategy_edited(&run)];
    found.into_iter().flatten().chain(other_runs(&run)).collect()
}

fn other_runs(run: &Run<'_>) -> Vec<Finding> {
    let placement = &run.object.spec.placement_name;
    let index = &run.status.resource_snapshot_index_used;
    let others =
        run.inputs.runs_of(placement).into_iter().filter(|other| other.name() != run.object.name() && !is_final(other));
    let notice = |other: &super::ObservedObject<fleet_api::kinds::UpdateRun>| {
        let brings =
            other.status.as_ref().map(|status| status.resource_snapshot_index_used.clone()).unwrap_or_default();
        let differs = !brings.is_empty() && brings != *index;
        differs.then(|| {
            Finding::warning(
                "UR-24",
                format!("Run {} rolls out another version of the same placement: one of them will fail", other.name()),
            )
            .with_evidence(&run.reference(), "status.resourceSnapshotIndexUsed", index)
            .with_evidence(&other.reference(), "status.resourceSnapshotIndexUsed", brings)
            .fix(
                "delete the one that is not wanted",
                vec![run.inputs.kubectl.delete(format!("delete {}", other.name()), &other.reference())],
            )
        })
    };
    others.filter_map(notice).collect()
}

fn labels_changed(run: &Run<'_>) -> Option<Finding> {
    let moves = execution::moves(run);
    (!moves.is_empty()).then_some(())?;
    let mut finding = Finding::warning("UR-27", "Clusters no longer fit the stages that the run was initialized with")
        .because("A run ends at its next step when a cluster that it updates would belong to another stage.");
    for (cluster, then, now) in moves {
        let reference = ObjectRef::of::<fleet_api::kinds::Member>(None, &cluster);
        finding = finding.with_evidence(&reference, "stage", format!("{then} when the run was initialized, {now} now"));
    }
    Some(finding)
}

fn strategy_edited(run: &Run<'_>) -> Option<Finding> {
    let copy = run.status.staged_update_strategy_snapshot.as_ref()?;
    let name = &run.object.spec.staged_update_strategy_name;
    let strategy = run.inputs.strategy(name)?;
    (strategy_fixes::normalised(&strategy.spec) != strategy_fixes::normalised(copy)).then_some(())?;
    let reference = ObjectRef::of::<UpdateStrategy>(run.inputs.namespace.as_deref(), name);
    let names: Vec<&str> = strategy.spec.stages.iter().map(|stage| stage.name.as_str()).collect();
    Some(
        Finding::information("UR-22", format!("Strategy {name} was edited since the run was initialized"))
            .because("This has no effect on this run, which uses its own copy, unless tasks become invalid.")
            .with_evidence(&reference, "spec.stages", names.join(", ")),
    )
}
