//! A run's stages and clusters in few words, for whoever shows them.
//!
//! Decides from the recorded conditions alone. Never decides what happens next.

use fleet_api::conditions::decode_ignoring_generation;
use fleet_api::conditions::update_run::{
    ClusterUpdateStarted, ClusterUpdateSucceeded, StageProgressing, StageProgressingReason, StageSucceeded,
    StageSucceededReason,
};
use fleet_api::types::{ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunStatus};

use super::report::{ClusterStep, StageReport, StageStep};

/// The stages in order, the removal last.
pub fn outline(status: &UpdateRunStatus) -> Vec<StageReport> {
    status.stages_status.iter().chain(&status.deletion_stage_status).map(stage_report).collect()
}

fn stage_report(stage: &StageUpdatingStatus) -> StageReport {
    let cluster = |cluster: &ClusterUpdatingStatus| (cluster.cluster_name.clone(), cluster_step(cluster));
    StageReport {
        name: stage.stage_name.clone(),
        step: stage_step(stage),
        clusters: stage.clusters.iter().map(cluster).collect(),
    }
}

fn stage_step(stage: &StageUpdatingStatus) -> StageStep {
    use StageProgressingReason as Is;
    match decode_ignoring_generation::<StageSucceeded>(&stage.conditions).reason() {
        Some(StageSucceededReason::Succeeded) => return StageStep::Succeeded,
        Some(StageSucceededReason::SkippedNoClusters) => return StageStep::Skipped,
        Some(StageSucceededReason::Failed) => return StageStep::Failed,
        None => {}
    }
    match decode_ignoring_generation::<StageProgressing>(&stage.conditions).reason() {
        None => StageStep::NotReached,
        Some(Is::Waiting) if stage.start_time.is_none() => StageStep::AwaitingStart,
        Some(Is::Waiting) => StageStep::AwaitingEnd,
        Some(Is::Stopping) => StageStep::Stopping,
        Some(Is::Stopped) => StageStep::Stopped,
        Some(Is::SkippedNoClusters) => StageStep::Skipped,
        Some(Is::Failed) => StageStep::Failed,
        Some(Is::Started | Is::Succeeded) => StageStep::Updating,
    }
}

fn cluster_step(cluster: &ClusterUpdatingStatus) -> ClusterStep {
    let succeeded = decode_ignoring_generation::<ClusterUpdateSucceeded>(&cluster.conditions);
    if succeeded.is_true() {
        ClusterStep::Succeeded
    } else if succeeded.is_false() {
        ClusterStep::Failed
    } else if decode_ignoring_generation::<ClusterUpdateStarted>(&cluster.conditions).is_true() {
        ClusterStep::Updating
    } else {
        ClusterStep::Pending
    }
}
