//! Runs that wait for people or time, or that rest (UR-02, UR-03, UR-50 to UR-62).

use expect_test::{Expect, expect};

use super::fixture::{COPY, Fleet, fleet, run, run_in_state, told};
use crate::diagnose;

const INITIALIZED: &str = "'Initialized=True UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully'";
const WAITING: &str = "'Progressing@12:20=False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage staging to complete'";

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&told(&diagnose::run(&fleet.picture())));
}

/// A run that waits after stage `staging`.
fn waiting(tasks: &str) -> String {
    run(&format!(
        "{COPY}, resourceSnapshotIndexUsed: '0', conditions: [{INITIALIZED}, {WAITING}], stagesStatus: [{{stageName: staging,
          clusters: [{{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: ', 'Succeeded=True ClusterUpdatingSucceeded: ']}}],
          afterStageTaskStatus: {tasks},
          conditions: ['Progressing@12:20=False StageUpdatingWaiting: All clusters in the stage are updated, waiting for after-stage tasks to complete']}},
          {{stageName: canary, clusters: [{{clusterName: member1}}]}}]"
    ))
}

const APPROVAL: &str = "[{type: Approval, approvalRequestName: example-run-after-staging, conditions: ['ApprovalRequestCreated=True StageTaskApprovalRequestCreated: ']}]";

fn request(conditions: &str) -> String {
    format!(
        "{{kind: ClusterApprovalRequest, metadata: {{name: example-run-after-staging}},
          spec: {{parentStageRollout: example-run, targetStage: staging}}, status: {{conditions: [{conditions}]}}}}"
    )
}

#[test]
fn ur_02_a_run_does_not_start_by_itself() {
    check(&fleet().with(&run_in_state("Initialize", &format!("{COPY}, conditions: [{INITIALIZED}]"))), expect![""]);
    let older = INITIALIZED.replace("The UpdateRun", "ClusterStagedUpdateRun");
    let older = fleet().with(&run_in_state("Initialize", &format!("{COPY}, conditions: [{older}]")));
    assert_eq!(diagnose::run(&older.picture()).cause.unwrap().entry, "UR-02");
}

#[test]
fn ur_03_a_run_created_stopped() {
    let stopped = format!(
        "{COPY}, stagesStatus: [{{stageName: staging, clusters: [{{clusterName: member2}}]}}],
        conditions: [{INITIALIZED}, 'Progressing=False UpdateRunStopped: The update run has been stopped']"
    );
    check(&fleet().with(&run_in_state("Stop", &stopped)), expect![""]);
}

#[test]
fn ur_50_a_run_waits_for_approval() {
    check(&fleet().with(&waiting(APPROVAL)).with(&request("")), expect![""]);
}

#[test]
fn ur_51_an_approval_of_another_generation_does_not_count() {
    check(&fleet().with(&waiting(APPROVAL)).with(&request("'Approved=True approved#0: '")), expect![""]);
}

#[test]
fn ur_52_approvals_are_accepted_only_while_the_run_runs() {
    let fleet = fleet().with(&waiting(APPROVAL)).with(&request("'Approved=True approved: '")).edit(
        "ClusterStagedUpdateRun",
        "example-run",
        &format!("{{spec: {{state: Stop}}, status: {{conditions: [{INITIALIZED}, 'Progressing=False UpdateRunStopped: The update run has been stopped']}}}}"),
    );
    check(&fleet, expect![""]);
}

#[test]
fn ur_53_an_approval_is_withdrawn() {
    check(&fleet().with(&waiting(APPROVAL)).with(&request("'Approved=False changed: no'")), expect![""]);
}

#[test]
fn ur_54_a_request_is_missing() {
    check(&fleet().with(&waiting(APPROVAL)), expect![""]);
    // What could not be read is not called missing.
    let unread = fleet().with(&waiting(APPROVAL)).unread("clusterapprovalrequests", "forbidden");
    check(&unread, expect![""]);
}

#[test]
fn ur_55_a_timed_wait() {
    let fleet = fleet().with(&waiting("[{type: TimedWait}]")).edit("ClusterStagedUpdateRun", "example-run",
        "{status: {stagedUpdateStrategySnapshot: {stages: [{name: staging, labelSelector: {matchLabels: {environment: staging}}, afterStageTasks: [{type: TimedWait, waitTime: 1h0m0s}]},
          {name: canary, labelSelector: {matchLabels: {environment: canary}}}]}}}");
    check(&fleet, expect![""]);
}

#[test]
fn an_approved_run_that_has_not_noticed_yet_is_not_called_waiting_for_approval() {
    let fleet = fleet().with(&waiting(APPROVAL)).with(&request("'Approved=True approved: '"));
    check(&fleet, expect![""]);
}

#[test]
fn ur_60_a_run_is_stopping() {
    let status = format!("{COPY}, stagesStatus: [{{stageName: staging, startTime: '2026-01-01T12:00:00Z', clusters: [{{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: ']}}]}}],
        conditions: [{INITIALIZED}, 'Progressing=Unknown UpdateRunStopping: stopping']");
    check(&fleet().with(&run_in_state("Stop", &status)), expect![""]);
    let stopped = status
        .replace("Unknown UpdateRunStopping: stopping", "False UpdateRunStopped: The update run has been stopped");
    check(&fleet().with(&run_in_state("Stop", &stopped)), expect![""]);
}

#[test]
fn ur_61_a_run_stops_within_the_removal() {
    let status = format!("{COPY}, conditions: [{INITIALIZED}, 'Progressing=Unknown UpdateRunStopping: stopping'],
        deletionStageStatus: {{stageName: kubernetes-fleet.io/deleteStage, clusters: [], conditions: ['Progressing=False StageUpdatingStopped: ']}}");
    check(&fleet().with(&run_in_state("Stop", &status)), expect![""]);
}

const REMOVING: &str = "conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ', 'Progressing=True UpdateRunProgressing: '],
    deletionStageStatus: {stageName: kubernetes-fleet.io/deleteStage, clusters: [{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: ']}],
      conditions: ['Progressing=True StageUpdatingStarted: ']}";

#[test]
fn ur_62_the_removal_does_not_finish() {
    let going = "{metadata: {deletionTimestamp: '2026-01-01T12:00:00Z', finalizers: [kubernetes-fleet.io/work-cleanup, example.com/hold]}, spec: {state: Unscheduled}}";
    let held = fleet().with(&run(REMOVING)).edit("ClusterResourceBinding", "example-placement-member2-2", going);
    check(&held, expect![""]);
    let silent = held
        .edit(
            "ClusterResourceBinding",
            "example-placement-member2-2",
            "{metadata: {finalizers: [kubernetes-fleet.io/work-cleanup]}}",
        )
        .edit(
            "MemberCluster",
            "member2",
            "{status: {agentStatus: [{type: MemberAgent, lastReceivedHeartbeat: '2026-01-01T12:01:00Z'}]}}",
        );
    check(&silent, expect![""]);
}

#[test]
fn a_removal_that_has_just_begun_is_nothing() {
    let fleet =
        fleet()
            .with(&run(&REMOVING
                .replace("'Progressing=True StageUpdatingStarted", "'Progressing@12:27=True StageUpdatingStarted")));
    check(&fleet, expect![""]);
}
