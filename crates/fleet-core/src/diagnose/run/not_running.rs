//! Rules about runs whose state is not Run: initialized only, stopping or stopped (UR-02, UR-03, UR-52, UR-60, UR-61).

use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::update_run::{StageProgressing, StageProgressingReason, UpdateRunProgressingReason};
use fleet_api::types::UpdateRunState;

use super::super::finding::Finding;
use super::super::inputs::is_updating;
use super::{Run, stuck, waiting};

pub(super) fn stopping_in_the_delete_stage(run: &Run<'_>) -> Option<Finding> {
    let stopping = run.progresses_as(UpdateRunProgressingReason::Stopping)?;
    let stage = run.status.deletion_stage_status.as_ref()?;
    let decoded = decode_ignoring_generation::<StageProgressing>(&stage.conditions);
    (decoded.reason() == Some(StageProgressingReason::Stopped)).then_some(())?;
    let finding = Finding::warning("UR-61", format!("Run {} has stopped in its deletion stage, but does not report it", run.object.name()))
        .because("The deletion stage has stopped, while the run still reports UpdateRunStopping. This does not resolve by itself.");
    Some(run.quoting(finding, stopping).fix("resume the run", vec![run.set_state_run()]))
}

pub(super) fn stopped(run: &Run<'_>) -> Option<Finding> {
    if let Some(stopping) = run.progresses_as(UpdateRunProgressingReason::Stopping) {
        let clusters: Vec<&str> = stuck::updating(run).iter().map(|(_, one)| one.cluster_name.as_str()).collect();
        let removing =
            run.status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters).filter(|one| is_updating(one));
        let all: Vec<&str> = clusters.into_iter().chain(removing.map(|one| one.cluster_name.as_str())).collect();
        let waits = if all.is_empty() { "its clusters".to_owned() } else { all.join(", ") };
        let finding = Finding::information(
            "UR-60",
            format!("Run {} is stopping: it waits for {waits} to finish", run.object.name()),
        )
        .because("Clusters that were started are allowed to finish; no other is started.");
        return Some(run.quoting(finding, stopping).fix("to go on, let it run", vec![run.set_state_run()]));
    }
    let stopped = run.progresses_as(UpdateRunProgressingReason::Stopped)?;
    let clusters = run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let begun = clusters.into_iter().any(|one| !one.conditions.is_empty());
    let (entry, title) = if begun {
        ("UR-60", format!("Run {} was stopped", run.object.name()))
    } else {
        ("UR-03", format!("Run {} was stopped before it began: nothing was rolled out", run.object.name()))
    };
    let finding = Finding::information(entry, title)
        .because("A stopped run starts no cluster until its state is Run again.")
        .with_evidence(&run.reference(), "spec.state", run.object.spec.state().as_str());
    Some(run.quoting(finding, stopped).fix("to go on, let it run", vec![run.set_state_run()]))
}

pub(super) fn approved_but_not_running(run: &Run<'_>) -> Option<Finding> {
    let request = waiting::approved_and_not_accepted(run)?;
    let state = run.object.spec.state();
    (state != UpdateRunState::Run && !super::is_final(run.object)).then_some(())?;
    let finding = Finding::warning(
        "UR-52",
        format!("{} was approved, but the run is in state {state}: approvals are not accepted", request.name()),
    )
    .because("Approvals are accepted only while the run's state is Run.")
    .with_evidence(&run.reference(), "spec.state", state.as_str())
    .with_evidence(&request.reference(), "status.conditions[ApprovalAccepted]", "none");
    Some(finding.fix("let it run", vec![run.set_state_run()]))
}

pub(super) fn not_asked_to_run(run: &Run<'_>) -> Option<Finding> {
    let idle =
        run.is_initialized() && run.progressing().is_none() && run.object.spec.state() == UpdateRunState::Initialize;
    idle.then_some(())?;
    let finding = Finding::information("UR-02", format!("Run {} is initialized but not started", run.object.name()))
        .because("In state Initialize, which is the default, a run computes its stages but rolls out nothing.")
        .with_evidence(&run.reference(), "spec.state", "Initialize");
    Some(finding.fix("let it run", vec![run.set_state_run()]))
}
