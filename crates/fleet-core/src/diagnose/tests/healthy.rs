//! Healthy fleets without findings, and notices about problems to come.

use expect_test::expect;

use super::fixture::{COPY, Fleet, fleet, rendered, run};
use crate::diagnose;

const WELL: &str = "{spec: {state: Bound, resourceSnapshotName: example-placement-0-snapshot}, status: {conditions: ['RolloutStarted=True RolloutStarted: ',
    'Overridden=True NoOverrideSpecified: ', 'WorkSynchronized=True AllWorkSynced: ', 'Applied=True AllWorkHaveBeenApplied: ', 'Available=True AllWorkAreAvailable: ']}}";

/// A succeeded run and its placement.
fn rolled_out() -> Fleet {
    let done = "conditions: ['Started=True ClusterUpdatingStarted: ', 'Succeeded=True ClusterUpdatingSucceeded: ']";
    let stage = |stage: &str, cluster: &str| {
        format!(
            "{{stageName: {stage}, startTime: '2026-01-01T12:00:00Z', conditions: ['Succeeded=True StageUpdatingSucceeded: '], clusters: [{{clusterName: {cluster}, {done}}}]}}"
        )
    };
    let status = format!(
        "{COPY}, resourceSnapshotIndexUsed: '0', stagesStatus: [{}, {}], conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ',
          'Progressing=False UpdateRunSucceeded: ', 'Succeeded@12:05=True UpdateRunSucceeded: All stages are completed successfully']",
        stage("staging", "member2"),
        stage("canary", "member1")
    );
    let placement = "{status: {conditions: ['ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: ', 'ClusterResourcePlacementRolloutStarted=True RolloutStarted: ',
        'ClusterResourcePlacementAvailable=True ResourceAvailable: ']}}";
    fleet()
        .with(&run(&status))
        .edit("ClusterResourcePlacement", "example-placement", placement)
        .edit("ClusterResourceBinding", "example-placement-member1-1", WELL)
        .edit("ClusterResourceBinding", "example-placement-member2-2", WELL)
}

#[test]
fn a_healthy_fleet() {
    let inputs = rolled_out().inputs();
    expect![[r#"
        Run example-run has succeeded after 5m0s; clusters updated: 2, left: 0.
        nothing
    "#]]
    .assert_eq(&rendered(&diagnose::run(&inputs)));
    expect![[r#"
        Placement example-placement is rolled out; clusters: 2.
        nothing
    "#]]
    .assert_eq(&rendered(&diagnose::placement(&inputs)));
}

fn progressing() -> Fleet {
    let status = format!(
        "{COPY}, resourceSnapshotIndexUsed: '0', conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ', 'Progressing=True UpdateRunProgressing: '],
          stagesStatus: [{{stageName: staging, conditions: ['Progressing@12:29=True StageUpdatingStarted: '], clusters: [{{clusterName: member2, conditions: ['Started@12:29=True ClusterUpdatingStarted: ']}}]}},
            {{stageName: canary, clusters: [{{clusterName: member1}}]}}]"
    );
    fleet().with(&run(&status))
}

#[test]
fn a_run_that_makes_progress() {
    expect![[r#"
        Run example-run is progressing: stage 1 of 2 (staging), 0 of 2 clusters done, 1 updating.
        nothing
    "#]]
    .assert_eq(&rendered(&diagnose::run(&progressing().inputs())));
}

#[test]
fn what_will_fail_a_run_is_reported_in_advance() {
    let other = "{kind: ClusterStagedUpdateRun, metadata: {name: another}, spec: {placementName: example-placement, stagedRolloutStrategyName: s, state: Run},
        status: {resourceSnapshotIndexUsed: '1', conditions: ['Initialized=True UpdateRunInitializedSuccessfully: ']}}";
    let fleet = progressing()
        .with(other)
        .edit("MemberCluster", "member1", "{metadata: {labels: {environment: staging}}}")
        .edit("ClusterStagedUpdateStrategy", "example-strategy", "{spec: {stages: [{name: elsewhere}]}}");
    expect![[r#"
        Run example-run is progressing: stage 1 of 2 (staging), 0 of 2 clusters done, 1 updating.
        nothing
        also UR-27 Warning: Clusters no longer fit the stages that the run was initialized with
        also UR-24 Warning: Run another rolls out another version of the same placement: one of them will fail
        also UR-22 Information: Strategy example-strategy was edited since the run was initialized
    "#]]
    .assert_eq(&rendered(&diagnose::run(&fleet.inputs())));
}

#[test]
fn without_objects_the_diagnosis_is_empty() {
    let nothing =
        Fleet::unread(fleet(), "clusterstagedupdateruns", "forbidden").without("ClusterStagedUpdateRun", "example-run");
    expect![[r#"
        Run example-run was not found.
        nothing
        unread clusterstagedupdateruns: forbidden
    "#]]
    .assert_eq(&rendered(&diagnose::run(&nothing.inputs())));
}
