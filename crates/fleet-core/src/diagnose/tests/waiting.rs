//! Runs that wait, are stopped or are not started (UR-02, UR-03, UR-50 to UR-62).

use expect_test::{Expect, expect};

use super::fixture::{COPY, Fleet, fleet, rendered, run, run_in_state};
use crate::diagnose;

const INITIALIZED: &str = "'Initialized=True UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully'";
const WAITING: &str = "'Progressing@12:20=False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage staging to complete'";

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&rendered(&diagnose::run(&fleet.inputs())));
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
    check(
        &fleet().with(&run_in_state("Initialize", &format!("{COPY}, conditions: [{INITIALIZED}]"))),
        expect![[r#"
            Run example-run is initialized and has not started: 0 of 0 clusters done, 0 updating; the deletion stage is in progress.
            UR-02 Information: Run example-run is initialized but not started
              ClusterStagedUpdateRun example-run spec.state = Initialize
            let it run:
              kubectl patch csur example-run --type=merge -p '{"spec":{"state":"Run"}}'
        "#]],
    );
    let older = INITIALIZED.replace("The UpdateRun", "ClusterStagedUpdateRun");
    let older = fleet().with(&run_in_state("Initialize", &format!("{COPY}, conditions: [{older}]")));
    assert_eq!(diagnose::run(&older.inputs()).cause.unwrap().entry, "UR-02");
}

#[test]
fn ur_03_a_run_created_stopped() {
    let stopped = format!(
        "{COPY}, stagesStatus: [{{stageName: staging, clusters: [{{clusterName: member2}}]}}],
        conditions: [{INITIALIZED}, 'Progressing=False UpdateRunStopped: The update run has been stopped']"
    );
    check(
        &fleet().with(&run_in_state("Stop", &stopped)),
        expect![[r#"
        Run example-run is stopped: stage 1 of 1 (staging), 0 of 1 clusters done, 0 updating.
        UR-03 Information: Run example-run was stopped before it began: nothing was rolled out
          ClusterStagedUpdateRun example-run spec.state = Stop
          ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunStopped: The update run has been stopped
        to go on, let it run:
          kubectl patch csur example-run --type=merge -p '{"spec":{"state":"Run"}}'
        also UR-27 Warning: Clusters no longer fit the stages that the run was initialized with
    "#]],
    );
}

#[test]
fn ur_50_a_run_waits_for_approval() {
    check(
        &fleet().with(&waiting(APPROVAL)).with(&request("")),
        expect![[r#"
        Run example-run is waiting: stage 1 of 2 (staging), 1 of 2 clusters done, 0 updating.
        UR-50 Information: Stage staging waits for the approval of example-run-after-staging
          ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage staging to complete
          ClusterStagedUpdateRun example-run stage staging: conditions[Progressing] = False StageUpdatingWaiting: All clusters in the stage are updated, waiting for after-stage tasks to complete
          ClusterApprovalRequest example-run-after-staging status.conditions[Approved] = none
        approve:
          kubectl patch clusterapprovalrequest example-run-after-staging --subresource=status --type=merge -p '{"status":{"conditions":[{"lastTransitionTime":"2026-01-01T12:30:00Z","message":"ClusterApprovalRequest has been approved","observedGeneration":1,"reason":"ClusterApprovalRequestApproved","status":"True","type":"Approved"}]}}'
    "#]],
    );
}

#[test]
fn ur_51_an_approval_of_another_generation_does_not_count() {
    check(
        &fleet().with(&waiting(APPROVAL)).with(&request("'Approved=True approved#0: '")),
        expect![[r#"
        Run example-run is waiting: stage 1 of 2 (staging), 1 of 2 clusters done, 0 updating.
        UR-51 Error: The approval of example-run-after-staging is for generation 0, not 1: it does not count
          ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage staging to complete
          ClusterStagedUpdateRun example-run stage staging: conditions[Progressing] = False StageUpdatingWaiting: All clusters in the stage are updated, waiting for after-stage tasks to complete
          ClusterApprovalRequest example-run-after-staging metadata.generation = 1
          ClusterApprovalRequest example-run-after-staging status.conditions[Approved].observedGeneration = 0
        approve again, for the right generation:
          kubectl patch clusterapprovalrequest example-run-after-staging --subresource=status --type=merge -p '{"status":{"conditions":[{"lastTransitionTime":"2026-01-01T12:30:00Z","message":"ClusterApprovalRequest has been approved","observedGeneration":1,"reason":"ClusterApprovalRequestApproved","status":"True","type":"Approved"}]}}'
    "#]],
    );
}

#[test]
fn ur_52_approvals_are_accepted_only_while_the_run_runs() {
    let fleet = fleet().with(&waiting(APPROVAL)).with(&request("'Approved=True approved: '")).edit(
        "ClusterStagedUpdateRun",
        "example-run",
        &format!("{{spec: {{state: Stop}}, status: {{conditions: [{INITIALIZED}, 'Progressing=False UpdateRunStopped: The update run has been stopped']}}}}"),
    );
    check(
        &fleet,
        expect![[r#"
        Run example-run is stopped: stage 1 of 2 (staging), 1 of 2 clusters done, 0 updating.
        UR-60 Information: Run example-run was stopped
          ClusterStagedUpdateRun example-run spec.state = Stop
          ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunStopped: The update run has been stopped
        to go on, let it run:
          kubectl patch csur example-run --type=merge -p '{"spec":{"state":"Run"}}'
        also UR-52 Warning: example-run-after-staging was approved, but the run is in state Stop: approvals are not accepted
    "#]],
    );
}

#[test]
fn ur_53_an_approval_is_withdrawn() {
    check(
        &fleet().with(&waiting(APPROVAL)).with(&request("'Approved=False changed: no'")),
        expect![[r#"
        Run example-run is waiting: stage 1 of 2 (staging), 1 of 2 clusters done, 0 updating.
        UR-53 Information: The approval of example-run-after-staging was withdrawn before the run accepted it
          ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage staging to complete
          ClusterStagedUpdateRun example-run stage staging: conditions[Progressing] = False StageUpdatingWaiting: All clusters in the stage are updated, waiting for after-stage tasks to complete
          ClusterApprovalRequest example-run-after-staging status.conditions[Approved] = False changed: no
        approve:
          kubectl patch clusterapprovalrequest example-run-after-staging --subresource=status --type=merge -p '{"status":{"conditions":[{"lastTransitionTime":"2026-01-01T12:30:00Z","message":"ClusterApprovalRequest has been approved","observedGeneration":1,"reason":"ClusterApprovalRequestApproved","status":"True","type":"Approved"}]}}'
    "#]],
    );
}

#[test]
fn ur_54_a_request_is_missing() {
    check(
        &fleet().with(&waiting(APPROVAL)),
        expect![[r#"
            Run example-run is waiting: stage 1 of 2 (staging), 1 of 2 clusters done, 0 updating.
            UR-54 Warning: The approval request example-run-after-staging does not exist
              ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage staging to complete
              ClusterStagedUpdateRun example-run stage staging: conditions[Progressing] = False StageUpdatingWaiting: All clusters in the stage are updated, waiting for after-stage tasks to complete
              ClusterApprovalRequest example-run-after-staging metadata.name = not found
            wait until it is recreated, then approve it:
              kubectl get clusterapprovalrequest example-run-after-staging -o yaml
        "#]],
    );
    // An object that could not be read is not reported as missing.
    let unread = fleet().with(&waiting(APPROVAL)).unread("clusterapprovalrequests", "forbidden");
    check(
        &unread,
        expect![[r#"
        Run example-run is waiting: stage 1 of 2 (staging), 1 of 2 clusters done, 0 updating.
        nothing
        unread clusterapprovalrequests: forbidden
    "#]],
    );
}

#[test]
fn ur_55_a_timed_wait() {
    let fleet = fleet().with(&waiting("[{type: TimedWait}]")).edit("ClusterStagedUpdateRun", "example-run",
        "{status: {stagedUpdateStrategySnapshot: {stages: [{name: staging, labelSelector: {matchLabels: {environment: staging}}, afterStageTasks: [{type: TimedWait, waitTime: 1h0m0s}]},
          {name: canary, labelSelector: {matchLabels: {environment: canary}}}]}}}");
    check(
        &fleet,
        expect![[r#"
        Run example-run is waiting: stage 1 of 2 (staging), 1 of 2 clusters done, 0 updating.
        UR-55 Information: Stage staging waits until 2026-01-01T13:20:00Z: 50m0s to go
          ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunWaiting: The updateRun is waiting for after-stage tasks in stage staging to complete
          ClusterStagedUpdateRun example-run stage staging: conditions[Progressing] = False StageUpdatingWaiting: All clusters in the stage are updated, waiting for after-stage tasks to complete
        also UR-22 Information: Strategy example-strategy was edited since the run was initialized
    "#]],
    );
}

#[test]
fn an_approved_run_that_has_not_noticed_yet_is_not_called_waiting_for_approval() {
    let fleet = fleet().with(&waiting(APPROVAL)).with(&request("'Approved=True approved: '"));
    check(
        &fleet,
        expect![[r#"
        Run example-run is waiting: stage 1 of 2 (staging), 1 of 2 clusters done, 0 updating.
        nothing
    "#]],
    );
}

#[test]
fn ur_60_a_run_is_stopping() {
    let status = format!("{COPY}, stagesStatus: [{{stageName: staging, startTime: '2026-01-01T12:00:00Z', clusters: [{{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: ']}}]}}],
        conditions: [{INITIALIZED}, 'Progressing=Unknown UpdateRunStopping: stopping']");
    check(
        &fleet().with(&run_in_state("Stop", &status)),
        expect![[r#"
        Run example-run is stopping: stage 1 of 1 (staging), 0 of 1 clusters done, 1 updating.
        UR-60 Information: Run example-run is stopping: it waits for member2 to finish
          ClusterStagedUpdateRun example-run status.conditions[Progressing] = Unknown UpdateRunStopping: stopping
        to go on, let it run:
          kubectl patch csur example-run --type=merge -p '{"spec":{"state":"Run"}}'
        also UR-27 Warning: Clusters no longer fit the stages that the run was initialized with
    "#]],
    );
    let stopped = status
        .replace("Unknown UpdateRunStopping: stopping", "False UpdateRunStopped: The update run has been stopped");
    check(
        &fleet().with(&run_in_state("Stop", &stopped)),
        expect![[r#"
        Run example-run is stopped: stage 1 of 1 (staging), 0 of 1 clusters done, 1 updating.
        UR-60 Information: Run example-run was stopped
          ClusterStagedUpdateRun example-run spec.state = Stop
          ClusterStagedUpdateRun example-run status.conditions[Progressing] = False UpdateRunStopped: The update run has been stopped
        to go on, let it run:
          kubectl patch csur example-run --type=merge -p '{"spec":{"state":"Run"}}'
        also UR-27 Warning: Clusters no longer fit the stages that the run was initialized with
    "#]],
    );
}

#[test]
fn ur_61_a_run_stops_within_the_removal() {
    let status = format!("{COPY}, conditions: [{INITIALIZED}, 'Progressing=Unknown UpdateRunStopping: stopping'],
        deletionStageStatus: {{stageName: kubernetes-fleet.io/deleteStage, clusters: [], conditions: ['Progressing=False StageUpdatingStopped: ']}}");
    check(
        &fleet().with(&run_in_state("Stop", &status)),
        expect![[r#"
            Run example-run is stopping: 0 of 0 clusters done, 0 updating; the deletion stage is in progress.
            UR-61 Warning: Run example-run has stopped in its deletion stage, but does not report it
              ClusterStagedUpdateRun example-run status.conditions[Progressing] = Unknown UpdateRunStopping: stopping
            resume the run:
              kubectl patch csur example-run --type=merge -p '{"spec":{"state":"Run"}}'
        "#]],
    );
}

const REMOVING: &str = "conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ', 'Progressing=True UpdateRunProgressing: '],
    deletionStageStatus: {stageName: kubernetes-fleet.io/deleteStage, clusters: [{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: ']}],
      conditions: ['Progressing=True StageUpdatingStarted: ']}";

#[test]
fn ur_62_the_removal_does_not_finish() {
    let going = "{metadata: {deletionTimestamp: '2026-01-01T12:00:00Z', finalizers: [kubernetes-fleet.io/work-cleanup, example.com/hold]}, spec: {state: Unscheduled}}";
    let held = fleet().with(&run(REMOVING)).edit("ClusterResourceBinding", "example-placement-member2-2", going);
    check(
        &held,
        expect![[r#"
        Run example-run is progressing: 0 of 0 clusters done, 0 updating; the deletion stage is in progress.
        UR-62 Warning: example.com/hold keeps the placement on member2
          ClusterStagedUpdateRun example-run deletionStageStatus.conditions[Progressing] = True since 2026-01-01T12:00:00Z
          ClusterResourceBinding example-placement-member2-2 metadata.finalizers = kubernetes-fleet.io/work-cleanup, example.com/hold
        remove the foreign finalizer:
          kubectl patch clusterresourcebinding example-placement-member2-2 --type=merge -p '{"metadata":{"finalizers":["kubernetes-fleet.io/work-cleanup"]}}'
    "#]],
    );
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
    check(
        &silent,
        expect![[r#"
            Run example-run is progressing: 0 of 0 clusters done, 0 updating; the deletion stage is in progress.
            UR-62 PL-Q2 Warning: The agent of cluster member2 has sent no heartbeat since 2026-01-01T12:01:00Z
              ClusterStagedUpdateRun example-run deletionStageStatus.conditions[Progressing] = True since 2026-01-01T12:00:00Z
              ClusterResourceBinding example-placement-member2-2 metadata.finalizers = kubernetes-fleet.io/work-cleanup
              MemberCluster member2 status.agentStatus[MemberAgent].lastReceivedHeartbeat = 2026-01-01T12:01:00Z, 1740 s ago; the heartbeat period is 60 s
            start the member's agent:
              by hand
        "#]],
    );
}

#[test]
fn a_removal_that_has_just_begun_is_not_reported() {
    let fleet =
        fleet()
            .with(&run(&REMOVING
                .replace("'Progressing=True StageUpdatingStarted", "'Progressing@12:27=True StageUpdatingStarted")));
    check(
        &fleet,
        expect![[r#"
        Run example-run is progressing: 0 of 0 clusters done, 0 updating; the deletion stage is in progress.
        nothing
    "#]],
    );
}
