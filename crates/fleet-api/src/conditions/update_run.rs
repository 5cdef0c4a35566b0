//! Conditions of staged update runs: the run, its stages, their clusters, their tasks. Faults are in `run_fault`.

use std::fmt;

use super::run_fault::{Preemption, RunFailure};
use super::state::condition;

condition! {
    /// Whether the run could be initialized. False is final.
    UpdateRunInitialized, UpdateRunInitializedReason: "Initialized" {
        True "UpdateRunInitializedSuccessfully" => Initialized {
            Initialized: "The UpdateRun initialized successfully";
        }
        False "UpdateRunInitializedFailed" => Failed {
            Failed { cause: RunFailure }: "{cause}";
        }
    }
}

condition! {
    /// Whether the run progresses, and if not what it waits for.
    UpdateRunProgressing, UpdateRunProgressingReason: "Progressing" {
        True "UpdateRunProgressing" => Progressing {
            Progressing: "The update run is making progress";
        }
        False "UpdateRunWaiting" => Waiting {
            WaitingBeforeStage { stage: String }:
                "The updateRun is waiting for before-stage tasks in stage {stage} to complete";
            WaitingAfterStage { stage: String }:
                "The updateRun is waiting for after-stage tasks in stage {stage} to complete";
        }
        False "UpdateRunStuck" => Stuck {
            Stuck { clusters: StuckClusters, stage: String }:
                "The updateRun is stuck waiting for {clusters} cluster(s) in stage {stage} to finish updating, please check placement status for potential errors";
        }
        Unknown "UpdateRunStopping" => Stopping {
            Stopping:
                "The update run is the process of stopping, waiting for all the updating/deleting clusters to finish updating before completing the stop process";
        }
        False "UpdateRunStopped" => Stopped {
            Stopped: "The update run has been stopped";
        }
        False "UpdateRunFailed" => Failed {
            Failed: "The stages are aborted due to a non-recoverable error";
        }
        False "UpdateRunSucceeded" => Succeeded {
            Succeeded: "All stages are completed";
        }
    }
}

condition! {
    /// How the run ended.
    UpdateRunSucceeded, UpdateRunSucceededReason: "Succeeded" {
        True "UpdateRunSucceeded" => Succeeded {
            Succeeded: "All stages are completed successfully";
        }
        False "UpdateRunFailed" => Failed {
            Failed { cause: RunFailure }: "{cause}";
        }
    }
}

condition! {
    /// Whether the stage progresses, and if not what it waits for. Timed waits count from this condition's transition
    /// time.
    StageProgressing, StageProgressingReason: "Progressing" {
        True "StageUpdatingStarted" => Started {
            Started: "Clusters in the stage started updating";
        }
        False "StageUpdatingWaiting" => Waiting {
            WaitingBeforeStage: "Not all before-stage tasks are completed, waiting for approval";
            WaitingAfterStage:
                "All clusters in the stage are updated, waiting for after-stage tasks to complete";
        }
        Unknown "StageUpdatingStopping" => Stopping {
            Stopping: "Waiting for all the updating clusters to finish updating before completing the stop process";
        }
        False "StageUpdatingStopped" => Stopped {
            Stopped:
                "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed";
        }
        False "StageUpdatingSucceeded" => Succeeded {
            Succeeded: "All clusters in the stage are updated and after-stage tasks are completed";
        }
        False "StageUpdatingSkippedNoClusters" => SkippedNoClusters {
            SkippedNoClusters: "Stage skipped because it has no clusters";
        }
        False "StageUpdatingFailed" => Failed {
            Failed: "Stage update aborted due to a non-recoverable error";
        }
    }
}

condition! {
    /// How the stage ended.
    StageSucceeded, StageSucceededReason: "Succeeded" {
        True "StageUpdatingSucceeded" => Succeeded {
            Succeeded: "Stage update completed successfully";
        }
        True "StageUpdatingSkippedNoClusters" => SkippedNoClusters {
            SkippedNoClusters: "Stage skipped because it has no clusters";
        }
        False "StageUpdatingFailed" => Failed {
            Failed { cause: RunFailure }: "{cause}";
        }
    }
}

condition! {
    /// The cluster's binding has the run's resources. A cluster is stuck a fixed time after this condition's
    /// transition.
    ClusterUpdateStarted, ClusterUpdateStartedReason: "Started" {
        True "ClusterUpdatingStarted" => Started {
            Started: "Cluster update started";
        }
    }
}

condition! {
    /// How the update of the cluster ended.
    ClusterUpdateSucceeded, ClusterUpdateSucceededReason: "Succeeded" {
        True "ClusterUpdatingSucceeded" => Succeeded {
            Succeeded: "Cluster update completed successfully";
        }
        False "ClusterUpdatingFailed" => Failed {
            Preempted { by_other_run: Preemption }: "{by_other_run}";
        }
    }
}

condition! {
    /// The approval request of a task exists.
    TaskApprovalRequestCreated, TaskApprovalRequestCreatedReason: "ApprovalRequestCreated" {
        True "StageTaskApprovalRequestCreated" => Created {
            Created: "ApprovalRequest object is created";
        }
    }
}

condition! {
    /// The approval request of a task was approved; from now on the request is not read any more.
    TaskApprovalRequestApproved, TaskApprovalRequestApprovedReason: "ApprovalRequestApproved" {
        True "StageTaskApprovalRequestApproved" => Approved {
            Approved: "ApprovalRequest object is approved";
        }
    }
}

condition! {
    /// The timed wait of a task is over.
    TaskWaitTimeElapsed, TaskWaitTimeElapsedReason: "WaitTimeElapsed" {
        True "AfterStageTaskWaitTimeElapsed" => Elapsed {
            Elapsed: "Wait time elapsed";
        }
    }
}

/// Names of stuck clusters, in stage order. Prints the first few.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckClusters(pub Vec<String>);

impl StuckClusters {
    /// Maximum number of printed names.
    pub const SHOWN: usize = 3;

    /// The names that are printed.
    pub fn shown(&self) -> &[String] {
        &self.0[..self.0.len().min(Self::SHOWN)]
    }

    /// The names in the message of a stuck run.
    pub fn shown_in(message: &str) -> Vec<&str> {
        let named =
            message.split_once("stuck waiting for ").and_then(|(_, rest)| rest.split_once(" cluster(s) in stage"));
        named.map_or_else(Vec::new, |(names, _)| names.trim_end_matches("...").split(", ").collect())
    }
}

impl fmt::Display for StuckClusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown();
        f.write_str(&shown.join(", "))?;
        if self.0.len() > shown.len() { f.write_str("...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::ConditionState as _;

    fn check(names: &[&str], expected: &str) {
        let clusters = StuckClusters(names.iter().map(ToString::to_string).collect());
        assert_eq!(clusters.to_string(), expected);
        let shown = clusters.shown().to_vec();
        let message = UpdateRunProgressing::Stuck { clusters, stage: "s".to_owned() }.message();
        assert_eq!(StuckClusters::shown_in(&message), shown);
    }

    #[test]
    fn at_most_three_stuck_clusters_are_named() {
        check(&["a"], "a");
        check(&["c", "a", "b"], "c, a, b");
        check(&["a", "b", "c", "d"], "a, b, c...");
    }
}
