//! Runs that failed after initialization (UR-20 to UR-30), and what they leave behind (UR-80, UR-81).

use expect_test::{Expect, expect};

use serde_json::{Value, json};

use super::fixture::{COPY, Fleet, fleet, rendered, run};
use crate::scenarios::{Change, Named};
use crate::{diagnose, scenarios};

const ABORT: &str = "cannot continue the updateRun: ";
const STAGES: &str = "stagesStatus: [
    {stageName: staging, clusters: [{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: ', 'Succeeded=True ClusterUpdatingSucceeded: ']}],
     conditions: ['Progressing=False StageUpdatingWaiting: ']}, {stageName: canary, clusters: [{clusterName: member1}]}]";

pub(super) fn ended(fleet: Fleet, message: &str) -> Fleet {
    ended_with(fleet, &format!("{ABORT}{message}"))
}

fn ended_with(fleet: Fleet, message: &str) -> Fleet {
    let message = message.replace('\'', "''");
    fleet.with(&run(&format!(
        "{COPY}, {STAGES}, policySnapshotIndexUsed: '0', policyObservedClusterCount: 2, resourceSnapshotIndexUsed: '0', conditions: [
          'Initialized=True UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully',
          'Progressing=False UpdateRunFailed: The stages are aborted due to a non-recoverable error',
          'Succeeded=False UpdateRunFailed: {message}']"
    )))
}

/// The fleet of an entry in the table of scenarios after what happens there, with its failed run.
fn scenario(entry: &str) -> Fleet {
    let scenario = scenarios::scenario(entry, "", "example-placement", "example-strategy");
    let mut stages = scenario.stages.unwrap();
    let strategy = json!({"spec": {"stages": stages}});
    for stage in &mut stages {
        stage["maxConcurrency"] = json!(1);
    }
    let copy = json!({"status": {"stagedUpdateStrategySnapshot": {"stages": stages}}});
    let mut fleet = ended_with(fleet(), &scenario.message)
        .edit("ClusterResourcePlacement", "example-placement", &json!({"spec": scenario.placement}).to_string())
        .edit("ClusterStagedUpdateStrategy", "example-strategy", &strategy.to_string())
        .edit("ClusterStagedUpdateRun", "example-run", &copy.to_string());
    for change in &scenario.then {
        let edit = |fleet: Fleet, kind: &str, name: &str, spec: &Value| {
            fleet.edit(kind, name, &json!({"spec": spec}).to_string())
        };
        fleet = match change {
            Change::Delete(Named::Placement) => fleet.without("ClusterResourcePlacement", "example-placement"),
            Change::Delete(Named::Strategy) => fleet.without("ClusterStagedUpdateStrategy", "example-strategy"),
            Change::PatchPlacement(spec) => edit(fleet, "ClusterResourcePlacement", "example-placement", spec),
            Change::PatchStrategy(spec) => edit(fleet, "ClusterStagedUpdateStrategy", "example-strategy", spec),
            Change::Label(members) => members.iter().fold(fleet, |fleet, (member, labels)| {
                fleet.edit("MemberCluster", member, &json!({"metadata": {"labels": labels}}).to_string())
            }),
        };
    }
    fleet
}

fn check(fleet: &Fleet, expected: Expect) {
    expected.assert_eq(&rendered(&diagnose::run(&fleet.inputs())));
}

#[test]
fn ur_20_the_placement_is_deleted() {
    let gone = scenario("UR-20");
    check(
        &gone,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-20 Error: Placement example-placement was deleted while the run was in progress
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: parent placement not found
            create the placement again, then a new run:
              by hand
              kubectl create … example-run-2
        "#]],
    );
    check(
        &ended(fleet(), "failed to initialize the stagedUpdateRun: parent resourcePlacement not found"),
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-20 Error: Placement example-placement was deleted while the run was in progress
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: failed to initialize the stagedUpdateRun: parent resourcePlacement not found
              ClusterResourcePlacement example-placement metadata.name = it exists again
            the placement exists again: run again:
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_21_the_strategy_is_deleted() {
    let fleet = scenario("UR-21");
    check(
        &fleet,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-21 Error: Strategy example-strategy was deleted while the run was in progress
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: referenced updateStrategy not found: `/example-strategy`
            create the strategy again, then a new run:
              kubectl create -f - <<'EOF'
              apiVersion: placement.kubernetes-fleet.io/v1beta1
              kind: ClusterStagedUpdateStrategy
              metadata:
                name: example-strategy
              spec:
                stages:
                - afterStageTasks:
                  - type: Approval
                  labelSelector:
                    matchLabels:
                      environment: staging
                  maxConcurrency: 1
                  name: staging
                - labelSelector:
                    matchLabels:
                      environment: canary
                  maxConcurrency: 1
                  name: canary
              EOF
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_22_stage_tasks_become_invalid() {
    let fleet = scenario("UR-22");
    check(
        &fleet,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-22 Error: Strategy example-strategy was edited and stage staging is no longer valid: afterStageTasks cannot have two tasks of the same type: Approval
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: the after stage tasks are invalid, updateStrategy: `/example-strategy`, stage: staging, err: afterStageTasks cannot have two tasks of the same type: Approval
              ClusterStagedUpdateStrategy example-strategy spec.stages[staging] = before: none; after: Approval, Approval
            restore the strategy, then run again:
              kubectl patch clusterstagedupdatestrategy example-strategy --type=merge -p '{"spec":{"stages":[{"afterStageTasks":[{"type":"Approval"}],"labelSelector":{"matchLabels":{"environment":"staging"}},"maxConcurrency":1,"name":"staging"},{"labelSelector":{"matchLabels":{"environment":"canary"}},"maxConcurrency":1,"name":"canary"}]}}'
              kubectl create … example-run-2
            fix the strategy as it is now, then run again:
              kubectl patch clusterstagedupdatestrategy example-strategy --type=merge -p '{"spec":{"stages":[{"afterStageTasks":[{"type":"Approval"}],"labelSelector":{"matchLabels":{"environment":"staging"}},"name":"staging"}]}}'
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_23_a_cluster_is_now_in_two_stages() {
    let fleet = scenario("UR-23");
    check(
        &fleet,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-23 Error: Labels were changed: cluster member1 is in more than one stage now
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: cluster `member1` appears in more than one stages
              MemberCluster member1 metadata.labels = environment=canary,region=west
              ClusterStagedUpdateRun example-run stage canary selects = environment=canary
              ClusterStagedUpdateRun example-run stage west selects = region=west
            remove the label, then run again:
              kubectl label membercluster member1 region-
              kubectl create … example-run-2
        "#]],
    );
}

const TAKEN: &str = "failed to process the request due to a client error: the binding of the updating cluster `member2` in the stage \
    `staging` is not up-to-date with the desired status, please check the status of binding `example-placement-member2-2` and see if \
    there is a concurrent updateRun referencing the same placement and updating the same cluster";
const OTHER_RUN: &str = "{kind: ClusterStagedUpdateRun, metadata: {name: example-run-1, creationTimestamp: '2026-01-01T12:10:00Z'}, spec: {
    placementName: example-placement, stagedRolloutStrategyName: example-strategy, state: Run}, status: {resourceSnapshotIndexUsed: '1',
    conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ', 'Progressing=True UpdateRunProgressing: '],
    stagesStatus: [{stageName: staging, clusters: [{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: ']}]}]}}";
const MOVED: &str = "{spec: {state: Bound, resourceSnapshotName: example-placement-1-snapshot}, status: {conditions: [
    'RolloutStarted=True RolloutStarted: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, updateRun: example-run-1']}}";

#[test]
fn ur_24_a_concurrent_run_takes_the_cluster() {
    let fleet =
        ended(fleet(), TAKEN).with(OTHER_RUN).edit("ClusterResourceBinding", "example-placement-member2-2", MOVED);
    check(
        &fleet,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-24 Error: Cluster member2 of stage staging was taken over by run example-run-1
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: failed to process the request due to a client error: the binding of the updating cluster `member2` in the stage `staging` is not up-to-date with the desired status, please check the status of binding `example-placement-member2-2` and see if there is a concurrent updateRun referencing the same placement and updating the same cluster
              ClusterResourceBinding example-placement-member2-2 spec.resourceSnapshotName = example-placement-1-snapshot
              ClusterResourceBinding example-placement-member2-2 status.conditions[RolloutStarted] = True RolloutStarted: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, updateRun: example-run-1
              ClusterStagedUpdateRun example-run-1 status = Run example-run-1 is progressing: stage 1 of 1 (staging), 0 of 1 clusters done, 1 updating.
            let example-run-1 finish: it rolls out the newer version:
              kubectl get csur example-run-1 --watch
            if example-run-1 is not wanted, stop it and run again:
              kubectl patch csur example-run-1 --type=merge -p '{"spec":{"state":"Stop"}}'
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_24_the_oldest_wording_names_no_binding() {
    let message = "unexpected behavior which cannot be handled by the controller: the resourceBinding of the updating cluster `member2` in the \
        stage `staging` does not have expected status: binding spec diff: binding has different resourceSnapshotName, want: \
        example-placement-0-snapshot, got: example-placement-1-snapshot; binding state (want Bound): Bound; binding RolloutStarted (want \
        true): true, please check if there is concurrent stagedUpdateRun";
    let moved = MOVED.replace("updateRun: example-run-1", "stagedUpdateRun: example-run-1");
    let done = "{status: {conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ', 'Succeeded=True UpdateRunSucceeded: ']}}";
    let fleet = ended(fleet(), message).with(OTHER_RUN).edit("ClusterStagedUpdateRun", "example-run-1", done).edit(
        "ClusterResourceBinding",
        "example-placement-member2-2",
        &moved,
    );
    check(
        &fleet,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-24 Error: Cluster member2 of stage staging was taken over by run example-run-1
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the resourceBinding of the updating cluster `member2` in the stage `staging` does not have expected status: binding spec diff: binding has different resourceSnapshotName, want: example-placement-0-snapshot, got: example-placement-1-snapshot; binding state (want Bound): Bound; binding RolloutStarted (want true): true, please check if there is concurrent stagedUpdateRun
              ClusterResourceBinding example-placement-member2-2 spec.resourceSnapshotName = example-placement-1-snapshot
              ClusterResourceBinding example-placement-member2-2 status.conditions[RolloutStarted] = True RolloutStarted: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, stagedUpdateRun: example-run-1
              ClusterStagedUpdateRun example-run-1 status = Run example-run-1 has succeeded; clusters updated: 0, left: 0.
            if the other version is not wanted, run again:
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_25_the_policy_changes() {
    let fleet = scenario("UR-25");
    check(
        &fleet,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-25 Error: The scheduling policy of placement example-placement was changed while the run was in progress
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: the policy snapshot index used in the updateRun is outdated, latest: 1, recorded: 0
              ClusterStagedUpdateRun example-run status.policySnapshotIndexUsed = 0
              ClusterSchedulingPolicySnapshot example-placement-0 metadata.name = example-placement-0 is the newest
            the placement is scheduled now: run again:
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_26_the_number_of_clusters_changes() {
    check(
        &scenario("UR-26"),
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-26 Error: The number of clusters of placement example-placement changed while the run was in progress
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: the cluster count initialized in the updateRun is outdated, latest: 1, recorded: 2
              ClusterStagedUpdateRun example-run status.policyObservedClusterCount = 2
              ClusterResourcePlacement example-placement clusters with a binding = member1, member2
            the placement is scheduled now: run again:
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_27_stage_membership_changes() {
    let moved = scenario("UR-27");
    check(
        &moved,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-27 Error: Clusters have moved to other stages since the run was initialized
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: the number of clusters in index `0` stage has changed, new: 2, existing: 1
              MemberCluster member1 stage = canary when the run was initialized, staging now
            run again with the stages as they are now:
              kubectl create … example-run-2
        "#]],
    );
    let nowhere = scenario("UR-27 in no stage");
    check(
        &nowhere,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-27 Error: Labels were changed: no stage selects member1 any more
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: some clusters are not placed in any stage, total 1, showing up to 10: member1
              MemberCluster member1 metadata.labels = none
              ClusterStagedUpdateRun example-run stage staging selects = environment=staging
              ClusterStagedUpdateRun example-run stage canary selects = environment=canary
            label the clusters for stage staging, then run again:
              kubectl label membercluster member1 environment=staging --overwrite
              kubectl create … example-run-2
            label the clusters for stage canary, then run again:
              kubectl label membercluster member1 environment=canary --overwrite
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_28_the_apply_strategy_changes() {
    let fleet = scenario("UR-28");
    check(
        &fleet,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-28 Error: The apply strategy of placement example-placement was changed while the run was in progress
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: failed to process the request due to a client error: the applyStrategy in the updateRun is outdated, latest: {"comparisonOption":"PartialComparison","whenToApply":"Always","type":"ServerSideApply","serverSideApplyConfig":{"force":false},"whenToTakeOver":"Always"}, recorded: {"comparisonOption":"PartialComparison","whenToApply":"Always","type":"ClientSideApply","whenToTakeOver":"Always"}
              ClusterResourcePlacement example-placement spec.strategy.applyStrategy = {"type":"ServerSideApply"}
            run again:
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_29_an_approval_request_of_another_run_has_the_name() {
    let message = "unexpected behavior which cannot be handled by the controller: the approval request task `/example-run-before-staging` is \
        targeting update run `/another` and stage `staging`, want target update run `/example-run and stage `staging`";
    let fleet = ended(fleet(), message).with(
        "{kind: ClusterApprovalRequest, metadata: {name: example-run-before-staging}, spec: {parentStageRollout: another, targetStage: staging}}",
    );
    check(
        &fleet,
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-29 Error: The approval request example-run-before-staging that this run needs belongs to another run
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the approval request task `/example-run-before-staging` is targeting update run `/another` and stage `staging`, want target update run `/example-run and stage `staging`
              ClusterApprovalRequest example-run-before-staging spec = run another, stage staging
            delete the request, then run again:
              kubectl delete clusterapprovalrequest example-run-before-staging
              kubectl create … example-run-2
        "#]],
    );
}

#[test]
fn ur_30_a_status_that_no_run_can_have() {
    let message = "unexpected behavior which cannot be handled by the controller: the updateRun has nil stagesStatus";
    check(
        &ended(fleet(), message),
        expect![[r#"
            Run example-run has failed: 1 of 2 clusters done, 0 updating.
            UR-30 Error: Run example-run ended with an internal error
              ClusterStagedUpdateRun example-run status.conditions[Succeeded] = False UpdateRunFailed: cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the updateRun has nil stagesStatus
            run again, and report this as a bug with the YAML of the run and the log of the hub agent:
              kubectl create … example-run-2
        "#]],
    );
}

fn succeeded(index: &str) -> String {
    run(&format!(
        "{COPY}, resourceSnapshotIndexUsed: '{index}', stagesStatus: [{{stageName: staging, startTime: '2026-01-01T12:00:00Z', conditions: ['Succeeded=True StageUpdatingSucceeded: '],
          clusters: [{{clusterName: member2, conditions: ['Started=True ClusterUpdatingStarted: ', 'Succeeded=True ClusterUpdatingSucceeded: ']}}]}}],
          conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ', 'Progressing=False UpdateRunSucceeded: ',
          'Succeeded@12:05=True UpdateRunSucceeded: All stages are completed successfully']"
    ))
}

const SECOND_SNAPSHOT: &str = "{kind: ClusterResourceSnapshot, metadata: {name: example-placement-1-snapshot, labels: {kubernetes-fleet.io/resource-index: '1'}}}";

#[test]
fn ur_80_a_run_rolled_out_old_content() {
    check(
        &fleet().with(&succeeded("0")).with(SECOND_SNAPSHOT),
        expect![[r#"
            Run example-run has succeeded after 5m0s; clusters updated: 1, left: 0.
            UR-80 Warning: The run rolled out snapshot 0, and snapshot 1 is newer
              ClusterStagedUpdateRun example-run status.resourceSnapshotIndexUsed = 0
              ClusterResourcePlacement example-placement newest index of its resource snapshots = 1
            roll out the newest content with a new run:
              kubectl create … example-run-2
        "#]],
    );
    let pinned = fleet().with(&succeeded("0")).with(SECOND_SNAPSHOT).edit(
        "ClusterStagedUpdateRun",
        "example-run",
        "{spec: {resourceSnapshotIndex: '0'}}",
    );
    check(
        &pinned,
        expect![[r#"
            Run example-run has succeeded after 5m0s; clusters updated: 1, left: 0.
            UR-80 Information: The run rolled out snapshot 0, as its spec says; snapshot 1 is newer
              ClusterStagedUpdateRun example-run spec.resourceSnapshotIndex = 0
              ClusterStagedUpdateRun example-run status.resourceSnapshotIndexUsed = 0
              ClusterResourcePlacement example-placement newest index of its resource snapshots = 1
            roll out the newest content with a new run:
              kubectl create … example-run-2
        "#]],
    );
    check(
        &fleet().with(&succeeded("1")).with(SECOND_SNAPSHOT),
        expect![[r#"
            Run example-run has succeeded after 5m0s; clusters updated: 1, left: 0.
            nothing
        "#]],
    );
}

#[test]
fn ur_81_clusters_have_different_versions() {
    let mixed = "{status: {conditions: ['ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: ',
        'ClusterResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and different resource snapshot versions are observed across clusters']}}";
    let fleet = fleet()
        .with(&succeeded("1"))
        .with(SECOND_SNAPSHOT)
        .edit("ClusterResourcePlacement", "example-placement", mixed)
        .edit("ClusterResourceBinding", "example-placement-member2-2", MOVED);
    expect![[r#"
        Placement example-placement: ClusterResourcePlacementRolloutStarted is Unknown (RolloutControlledByExternalController).
        UR-81 Warning: Clusters have different versions of the resources
          ClusterResourcePlacement example-placement status.conditions[ClusterResourcePlacementRolloutStarted] = Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and different resource snapshot versions are observed across clusters
          ClusterResourceBinding example-placement-member1-1 spec.resourceSnapshotName = none
          ClusterResourceBinding example-placement-member2-2 spec.resourceSnapshotName = example-placement-1-snapshot
        roll out the newest content everywhere with a new run:
          kubectl create … example-run-2
    "#]].assert_eq(&rendered(&diagnose::placement(&fleet.inputs())));
}
